import { spawn } from 'node:child_process';
import { lstat, open, readFile, rename, rm } from 'node:fs/promises';
import { basename, join } from 'node:path';

import { wait } from '../../../kit/clock.js';
import { listPrivateFiles, makePrivateDirectory } from '../../../kit/private-file.js';
import { randomToken } from '../../../kit/random.js';
import type { Context } from '../../context/context.js';
import { CliError, isOwnErrorCode } from '../../errors.js';

const POLL_MS = 25;

/** Starts the same command in the background and returns once it is ready; its output goes to a file of the user's. */
export async function detach(context: Context): Promise<void> {
  const { random, signal, clock } = context;
  const folder = detachedFolder(context);
  await makePrivateDirectory(folder);
  const name = randomToken(random, 6);
  const log = join(folder, `${name}.log`);
  const answer = join(folder, `${name}.out`);
  const [errors, lines] = await Promise.all([open(log, 'wx', 0o600), open(answer, 'wx', 0o600)]);
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
        if (child.pid !== undefined) await keepLog(context, log, child.pid);
        await context.output.verbatim(text);
        return await context.output.note('Running in the background. Logs: asp serve logs. Stop: asp serve stop');
      }
      if (state.isEnded) {
        throw failureOf(await readFile(log, 'utf8'));
      }
      await wait(clock, POLL_MS, signal);
    }
  } catch (error) {
    child.kill();
    await rm(log, { force: true });
    throw error;
  } finally {
    await Promise.all([errors.close(), lines.close(), rm(answer, { force: true })]);
  }
}

/** What the service in the background said of its failure, in either form, as a failure of this command. */
function failureOf(said: string): CliError {
  const line = said.trim().split('\n').at(-1) ?? '';
  const told = line.startsWith('{') ? readLine(line) : readText(said);
  const code = told.code !== undefined && isOwnErrorCode(told.code) ? told.code : 'ASP_CONFIG';
  return new CliError(code, { message: told.message ?? 'The service did not start.', why: told.why, next: told.next });
}

interface Told {
  readonly code?: string | undefined;
  readonly message?: string | undefined;
  readonly why?: string | undefined;
  readonly next?: readonly string[] | undefined;
}

function readLine(line: string): Told {
  try {
    const { error } = JSON.parse(line) as { error?: Told & { hint?: string } };
    return { code: error?.code, message: error?.message, why: error?.hint, next: error?.next };
  } catch {
    return {};
  }
}

function readText(text: string): Told {
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

/** The output of a service in the background, in a file named by its process. */
export interface DetachedLog {
  readonly path: string;
  readonly pid: number;
}

const detachedFolder = ({ paths }: Pick<Context, 'paths'>): string => join(paths.runtimeDirectory, 'serve');

/** Gives the file its name, by which it is found, and lets go of the oldest ones. */
async function keepLog(context: Pick<Context, 'paths' | 'machine'>, path: string, pid: number): Promise<void> {
  await rename(path, join(detachedFolder(context), `${pid}${SUFFIX}`));
  const ended = (await listLogs(context)).filter((log) => !context.machine.isProcessAlive(log.pid));
  for (const log of ended.slice(KEPT_LOGS)) await rm(log.path, { force: true });
}

/** The newest first. */
export async function listLogs(context: Pick<Context, 'paths'>): Promise<DetachedLog[]> {
  const found: (DetachedLog & { changedAt: number })[] = [];
  for (const path of await listPrivateFiles(detachedFolder(context), SUFFIX)) {
    const name = basename(path, SUFFIX);
    const state = await lstat(path).catch(() => undefined);
    if (/^\d+$/.test(name) && state?.isFile() === true)
      found.push({ path, pid: Number(name), changedAt: state.mtimeMs });
  }
  return found.sort((one, other) => other.changedAt - one.changedAt).map(({ path, pid }) => ({ path, pid }));
}
