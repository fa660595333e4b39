import { readlinkSync } from 'node:fs';
import { join } from 'node:path';

import { isFileError, isUnsafeFile, readPrivateFile, requireOwnDirectory } from '../../kit/private-file.js';
import type { LocalServiceRecord } from '../../wire/schemas/local-service.js';
import { CliError } from '../errors.js';
import { LOCAL_SERVICE_NAME, localServiceFile, type Paths } from './paths.js';

/** How to find out whether a service is still running. */
export interface LocalServiceProbe {
  readonly isProcessAlive: (pid: number) => boolean;
  /**
   * When a process started, in the system's own format: process numbers are reused. Undefined if the system does not
   * say.
   */
  readonly processStart: (pid: number) => string | undefined;
}

/**
 * The record that a service left, and whether that service is still running: a killed service does not remove its
 * record.
 */
export interface LocalService {
  readonly record: LocalServiceRecord;
  readonly isRunning: boolean;
}

const USUAL_PORT = 8744;

/**
 * The records of the local services of this user, latest first; only those that can be trusted.
 * @throws the error of the system if they may be there, but cannot be read.
 */
async function readRecords(paths: Paths): Promise<readonly LocalServiceRecord[]> {
  try {
    // Anyone who can write or replace this file decides where credentials go.
    await requireOwnDirectory(paths.runtimeDirectory);
    const text = await readPrivateFile(localServiceFile(paths, LOCAL_SERVICE_NAME));
    if (text === undefined) return [];
    const schema = await import('../../wire/schemas/local-service.js');
    const { earlier = [], ...record } = schema.LocalServiceRecord.parse(JSON.parse(text));
    return [record, ...earlier];
  } catch (error) {
    const isOfSystem = error instanceof Error && 'syscall' in error;
    if (isOfSystem && !isUnsafeFile(error) && !isFileError(error, 'ENOENT', 'ENOTDIR')) throw error;
    return [];
  }
}

const readRecordsIfPossible = (paths: Paths): Promise<readonly LocalServiceRecord[]> =>
  readRecords(paths).catch(() => []);

/** The latest local service that runs, or else the record that the latest one left. */
export async function findLocalService(paths: Paths, probe: LocalServiceProbe): Promise<LocalService | undefined> {
  const records = await readRecordsIfPossible(paths);
  const running = records.find((record) => doesRun(record, probe));
  const record = running ?? records[0];
  return record && { record, isRunning: running !== undefined };
}

/** All local services that run, latest first. */
export async function listRunningServices(paths: Paths, probe: LocalServiceProbe): Promise<LocalServiceRecord[]> {
  return (await readRecordsIfPossible(paths)).filter((record) => doesRun(record, probe));
}

/** The same, to write them again. @throws if they may be there, but cannot be read. */
export async function readRunningServices(paths: Paths, probe: LocalServiceProbe): Promise<LocalServiceRecord[]> {
  return (await readRecords(paths)).filter((record) => doesRun(record, probe));
}

/** The running local service of this user at `baseUrl`; undefined if there is none. */
export async function findServiceAt(
  paths: Paths,
  probe: LocalServiceProbe,
  baseUrl: string,
): Promise<LocalServiceRecord | undefined> {
  return (await listRunningServices(paths, probe)).find(({ url }) => url === baseUrl);
}

/** With the record of a service that runs, which a cleaner may have removed with the others: the latest stays first. */
export function keepRecord(
  found: readonly LocalServiceRecord[],
  record: LocalServiceRecord,
): readonly LocalServiceRecord[] {
  if (found.some(({ pid }) => pid === record.pid)) return found;
  const place = found.findIndex(({ started_at }) => started_at <= record.started_at);
  return place === -1 ? [...found, record] : found.toSpliced(place, 0, record);
}

/** For the start of a service while another one runs. */
export const noteOther = ({ url }: LocalServiceRecord): string =>
  `Another service is running at ${url}: until this one ends, "local" means this one.`;

/** From elsewhere, only a connection shows that it does not run. */
function doesRun(record: LocalServiceRecord, probe: LocalServiceProbe): boolean {
  const { pid, process_start: recorded } = record;
  if (isElsewhere(record)) return true;
  if (!probe.isProcessAlive(pid)) return false;
  const started = recorded === undefined ? undefined : probe.processStart(pid);
  return started === undefined || started === recorded;
}

/** Whether this process and the service are not in the same sandbox or container, so that its process cannot be seen. */
export function isElsewhere({ process_namespace: recorded }: LocalServiceRecord): boolean {
  return recorded !== undefined && recorded !== processNamespace();
}

/** Identifies the processes that this one sees; undefined if the system does not say (pid_namespaces(7)). */
export function processNamespace(): string | undefined {
  try {
    return readlinkSync('/proc/self/ns/pid');
  } catch {
    return undefined;
  }
}

/** The error for a local service that refuses connections: it has ended, or cannot be reached from here. */
export function localNotReached(record: LocalServiceRecord): CliError {
  if (!isElsewhere(record)) return localNotRunning(record);
  return new CliError('ASP_UNREACHABLE', {
    message: `Could not reach the local service at ${record.url} from here.`,
    why: 'asp and the service are not in the same sandbox or container. Either asp may not use the network here, or the service has ended.',
    next: ['asp', 'doctor'],
    isRetryable: true,
  });
}

/**
 * The error for a local service that is not running; `ended` is the record of one that was killed. For one that was
 * stopped, {@link findStartCommand} says how to start it.
 */
export function localNotRunning(ended: LocalServiceRecord | undefined): CliError {
  if (ended === undefined)
    return new CliError('ASP_LOCAL_NOT_RUNNING', {
      message: 'The local service is not running.',
      isRetryable: true,
    });
  return new CliError('ASP_LOCAL_NOT_RUNNING', {
    message: 'The local service is not running: it ended unexpectedly.',
    why: `it was process ${ended.pid}, at ${ended.url}.${alsoSet(ended)}`,
    next: wordsThatStart(ended),
    isRetryable: true,
  });
}

/** The error for a local service that was stopped; `start` is the command that starts it again. */
export const stoppedService = (baseUrl: string, start: readonly string[] | undefined): CliError =>
  new CliError('ASP_LOCAL_NOT_RUNNING', {
    message: `The local service at ${baseUrl} is not running.`,
    next: start,
    isRetryable: true,
  });

/** Their values may be secret. */
function alsoSet({ variables = [] }: LocalServiceRecord): string {
  return variables.length === 0 ? '' : ` Other settings came from ${variables.join(', ')}.`;
}

/**
 * The command that starts it again with the same address, folder and options: logins belong to an address, and sessions
 * to a folder.
 */
export function wordsThatStart({ port = USUAL_PORT, data, name, options = [] }: LocalServiceRecord): readonly string[] {
  const isUsualData = data.endsWith(join('serve', name)) || data.includes('://');
  return [
    'asp',
    'serve',
    ...(port === USUAL_PORT ? [] : ['--port', String(port)]),
    ...(isUsualData ? [] : ['--data', data]),
    ...options,
  ];
}
