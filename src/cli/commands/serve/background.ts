import { spawn } from 'node:child_process';
import { constants } from 'node:fs';
import { type FileHandle, lstat, open, readFile, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { StringDecoder } from 'node:string_decoder';
import { wait } from '../../../kit/clock.js';
import { isObject, parseIfJson } from '../../../kit/parse-json.js';
import { listPrivateFiles, makePrivateDirectory } from '../../../kit/private-file.js';
import { randomToken } from '../../../kit/random.js';
import type { LocalServiceRecord } from '../../../wire/schemas/local-service.js';
import type { Context } from '../../context/context.js';
import { makeRuntimeDirectory } from '../../context/runtime-directory.js';
import { CliError, isOwnErrorCode } from '../../errors.js';
import { listRunningServices, localNotRunning, noteOther } from '../../profile/local-service.js';
import { readerGone } from '../../terminal/streams.js';

const READY_POLL_MS = 25;

/** Starts the same command in the background and returns once it is ready; its output goes to a private file. */
export async function detach(context: Context): Promise<void> {
  const { random, signal, clock } = context;
  const folder = detachedFolder(context);
  await makeRuntimeDirectory(context.paths);
  await makePrivateDirectory(folder);
  const name = randomToken(random, 6);
  const log = join(folder, `${name}.log`);
  const answer = join(folder, `${name}.out`);
  const [errors, lines] = await Promise.all([open(log, 'wx', 0o600), open(answer, 'wx', 0o600)]);
  const others = await listRunningServices(context.paths, context.machine);
  const [program = '', ...args] = context.machine.commandLine.filter((arg) => arg !== '--detach');
  const child = spawn(program, args, {
    detached: true,
    stdio: ['ignore', lines.fd, errors.fd],
    env: { ...context.environment },
  });
  const ended = new Promise<number | null>((resolve) => child.once('exit', resolve));
  const state = { isEnded: false };
  void ended.then(() => {
    state.isEnded = true;
  });
  try {
    while (true) {
      const text = await readFile(answer, 'utf8');
      if (text.endsWith('\n')) {
        child.unref();
        const { url = text.trim() } = (parseIfJson(text) ?? {}) as { url?: string };
        if (child.pid !== undefined) await keepLog(context, log, { pid: child.pid, port: portOf(url) });
        await context.output.verbatim(text);
        return await noteControls(context, url, others);
      }
      if (state.isEnded) {
        throw toFailure(await readFile(log, 'utf8'));
      }
      await wait(clock, READY_POLL_MS, signal);
    }
  } catch (error) {
    child.kill();
    await rm(log, { force: true });
    throw error;
  } finally {
    await Promise.all([errors.close(), lines.close(), rm(answer, { force: true })]);
  }
}

/** Which commands control the service, of which there may be others. */
async function noteControls({ output }: Context, url: string, [other]: readonly LocalServiceRecord[]): Promise<void> {
  if (other === undefined) return output.note('Running in the background. Logs: asp serve logs. Stop: asp serve stop');
  await output.note(noteOther(other));
  await output.note(`Running in the background. Logs: asp serve logs -p ${url}. Stop: asp serve stop ${url}`);
}

/** The failure that the background service reported, in either format, as a failure of this command. */
function toFailure(printed: string): CliError {
  const line = printed.trim().split('\n').at(-1) ?? '';
  const report = line.startsWith('{') ? readLine(line) : readText(printed);
  const code = report.code !== undefined && isOwnErrorCode(report.code) ? report.code : 'ASP_CONFIG';
  return new CliError(code, {
    message: report.message ?? 'The service did not start.',
    why: report.why,
    next: report.next,
  });
}

interface StartReport {
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly why?: string | undefined;
  readonly next?: readonly string[] | undefined;
}

function readLine(line: string): StartReport {
  const { error } = (parseIfJson(line) ?? {}) as { error?: StartReport & { hint?: string } };
  return { code: error?.code, message: error?.message, why: error?.hint, next: error?.next };
}

function readText(text: string): StartReport {
  const part = (pattern: RegExp): string | undefined => pattern.exec(text)?.[1];
  return {
    code: part(/^ {2}code: (\w+)/m),
    message: part(/^error: (.+)$/m),
    why: part(/^ {2}why: {2}(.+)$/m),
    next: part(/^ {2}try: {2}([^'\n]+)$/m)?.split(' '),
  };
}

const SUFFIX = '.log';
/** Of services that have ended. */
const KEPT_LOGS = 5;

interface DetachedService {
  readonly pid: number;
  /** Of its address. */
  readonly port: number;
}

/** The output of a service in the background, in a file named by its process and its port. */
interface DetachedLog extends DetachedService {
  readonly path: string;
}

const LOG_NAME = /^(\d+)-(\d+)$/;

function portOf(url: string): number {
  const { port, protocol } = new URL(url);
  return Number(port) || (protocol === 'https:' ? 443 : 80);
}

const detachedFolder = ({ paths }: Pick<Context, 'paths'>): string => join(paths.runtimeDirectory, 'serve');

/** Gives the file its final name and deletes the oldest ones. */
async function keepLog(
  context: Pick<Context, 'paths' | 'machine'>,
  path: string,
  { pid, port }: DetachedService,
): Promise<void> {
  await rename(path, join(detachedFolder(context), `${pid}-${port}${SUFFIX}`));
  const ended = (await listLogs(context)).filter((log) => !context.machine.isProcessAlive(log.pid));
  for (const log of ended.slice(KEPT_LOGS)) await rm(log.path, { force: true });
}

/** Newest first. */
async function listLogs(context: Pick<Context, 'paths'>): Promise<DetachedLog[]> {
  const found: (DetachedLog & { changedAt: number })[] = [];
  for (const path of await listPrivateFiles(detachedFolder(context), SUFFIX)) {
    const [, pid, port] = LOG_NAME.exec(basename(path, SUFFIX)) ?? [];
    const state = await lstat(path).catch(() => undefined);
    if (pid !== undefined && state?.isFile() === true)
      found.push({ path, pid: Number(pid), port: Number(port), changedAt: state.mtimeMs });
  }
  return found.sort((one, other) => other.changedAt - one.changedAt);
}

const POLL_MS = 100;
const CHUNK_BYTES = 64 * 1024;
/** Do not buffer an endless line in memory. */
const LINE_MAX_LENGTH = 1024 * 1024;

interface LogsOptions {
  /** Undefined: all. */
  readonly last: number | undefined;
  readonly isFollowing: boolean;
}

export async function printLogs(context: Context, { last, isFollowing }: LogsOptions): Promise<void> {
  // A closed pipe is noticed only after its reader has been seen once.
  context.streams.stdout.isAbandoned();
  const log = await findLog(context);
  const file = await open(log.path, constants.O_RDONLY | (constants.O_NOFOLLOW ?? 0));
  try {
    const reader = createLineReader(file);
    await printLast(context, reader, last);
    if (isFollowing) await follow(context, reader, log.pid);
    const rest = reader.rest();
    if (rest !== '' && last !== 0) await print(context, rest);
  } finally {
    await file.close();
  }
}

/** The log of the running service, or else of the last one that ran in the background, at the address of the profile. */
async function findLog(context: Context): Promise<DetachedLog> {
  const logs = await listLogs(context);
  const { findChosenService } = await import('../../context/operator.js');
  const port = context.globals.profile ? portOf((await context.profile()).baseUrl) : undefined;
  const last = logs.find((log) => port === undefined || log.port === port);
  const running = await findChosenService(context).catch((error: unknown) => {
    if (last === undefined) throw error;
  });
  const log = running === undefined ? last : logs.find(({ pid }) => pid === running.pid);
  if (log !== undefined) return log;
  if (running === undefined) throw localNotRunning(await context.endedService());
  throw new CliError('ASP_CONFIG', {
    message: `The local service at ${running.url} does not log to a file: it was not started with --detach.`,
    why: `process ${running.pid} logs to its stderr: a terminal, or the journal of its supervisor.`,
  });
}

interface LineReader {
  /** The complete lines written since the last read. */
  read(): AsyncGenerator<string>;
  /** The text after the last line feed. */
  rest(): string;
}

function createLineReader(file: FileHandle): LineReader {
  const decoder = new StringDecoder('utf8');
  const buffer = Buffer.alloc(CHUNK_BYTES);
  let text = '';
  return {
    async *read() {
      while (true) {
        const { bytesRead } = await file.read(buffer, 0, buffer.length, null);
        if (bytesRead === 0) return;
        text += decoder.write(buffer.subarray(0, bytesRead));
        const lines = text.split('\n');
        text = lines.pop() ?? '';
        yield* lines;
        if (text.length <= LINE_MAX_LENGTH) continue;
        yield text;
        text = '';
      }
    },
    rest: () => text,
  };
}

async function printLast(context: Context, reader: LineReader, last: number | undefined): Promise<void> {
  const kept: string[] = [];
  for await (const line of reader.read()) {
    if (last === undefined) await print(context, line);
    else if (kept.push(line) > last) kept.shift();
  }
  for (const line of kept) await print(context, line);
}

/** Until the service has ended and all of its output was printed. */
async function follow(context: Context, reader: LineReader, pid: number): Promise<void> {
  const { clock, machine, signal, streams } = context;
  while (true) {
    const isAlive = machine.isProcessAlive(pid);
    for await (const line of reader.read()) await print(context, line);
    if (!isAlive) return;
    if (streams.stdout.isAbandoned()) throw readerGone();
    await wait(clock, POLL_MS, signal);
  }
}

async function print({ output }: Context, line: string): Promise<void> {
  if (output.format === 'human') await output.text(line);
  else await output.record({ line, entry: parseEntry(line) });
}

/** With `--log json`, each line is a document. */
function parseEntry(line: string): object | null {
  const value = parseIfJson(line);
  return isObject(value) ? value : null;
}
