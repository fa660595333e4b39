import { join } from 'node:path';

import { readPrivateFile, requireOwnDirectory } from '../../kit/private-file.js';
import type { LocalServiceRecord } from '../../wire/local-service.js';
import { CliError } from '../errors.js';
import { LOCAL_SERVICE_NAME, localServiceFile, type Paths } from './paths.js';

/** How it is found out whether a service still runs. */
export interface LocalServiceProbe {
  readonly isProcessAlive: (pid: number) => boolean;
  /** When a process began, in a form of the system's own: a process number is given again. Undefined: it does not say. */
  readonly processStart: (pid: number) => string | undefined;
}

/** The record that a service left, and whether that service still runs: one that is killed takes nothing away. */
export interface LocalService {
  readonly record: LocalServiceRecord;
  readonly isRunning: boolean;
}

const USUAL_PORT = '8744';

/** The record that a local service left; undefined when there is none that can be believed. */
export async function findLocalService(
  paths: Paths,
  probe: LocalServiceProbe,
  name: string = LOCAL_SERVICE_NAME,
): Promise<LocalService | undefined> {
  try {
    // Whoever can write this file, or exchange it, decides where credentials go.
    await requireOwnDirectory(paths.runtimeDirectory);
    const text = await readPrivateFile(localServiceFile(paths, name));
    if (text === undefined) return undefined;
    const schema = await import('../../wire/local-service.js');
    const record = schema.LocalServiceRecord.parse(JSON.parse(text));
    return { record, isRunning: doesRun(record, probe) };
  } catch {
    return undefined;
  }
}

function doesRun({ pid, process_start: recorded }: LocalServiceRecord, probe: LocalServiceProbe): boolean {
  if (!probe.isProcessAlive(pid)) return false;
  const started = recorded === undefined ? undefined : probe.processStart(pid);
  return started === undefined || started === recorded;
}

/** The one story of a local service that does not run; `ended` is the record of one that was killed. */
export function localNotRunning(ended: LocalServiceRecord | undefined): CliError {
  if (ended === undefined)
    return new CliError('ASP_LOCAL_NOT_RUNNING', {
      message: 'The local service is not running.',
      next: ['asp', 'serve'],
    });
  return new CliError('ASP_LOCAL_NOT_RUNNING', {
    message: 'The local service is not running: it ended without saying so.',
    why: `it was process ${ended.pid}, at ${ended.url}.`,
    next: wordsThatStart(ended),
  });
}

/** What starts it again where it was: logins are for an address, and sessions are in a folder. */
function wordsThatStart({ url, data, name }: LocalServiceRecord): readonly string[] {
  const port = URL.canParse(url) ? new URL(url).port : USUAL_PORT;
  const isUsualData = data.endsWith(join('serve', name)) || data.includes('://');
  return [
    'asp',
    'serve',
    ...(port === USUAL_PORT || port === '' ? [] : ['--port', port]),
    ...(isUsualData ? [] : ['--data', data]),
  ];
}
