import { userInfo } from 'node:os';
import { join } from 'node:path';

import { type Clock, wait } from '../../kit/clock.js';
import { makePrivateDirectory } from '../../kit/private-file.js';
import type { Random } from '../../kit/random.js';
import { RequestError } from '../http/request-error.js';
import { digest, storeUnavailable } from './secret-store.js';

const POLL_MIN_MS = 15;
const POLL_MAX_MS = 40;
const FIRST_NODE_WITH_SQLITE = 24;
/** A variable, so that neither the bundler nor the types of older Node.js versions look for it. */
const BUILT_IN: string = 'node:sqlite';

/** Options for waiting for a lock. */
export interface LockContext {
  readonly clock: Clock;
  readonly random: Random;
  /** The directory of lock files; default: one of the operating system's user, regardless of the environment. */
  readonly lockDirectory?: string | undefined;
}

interface Connection {
  exec(sql: string): void;
  close(): void;
}

interface Driver {
  readonly DatabaseSync: new (path: string, options: { timeout: number }) => Connection;
}

/**
 * Runs `work` while no other process of this user runs work under the same name. The lock is SQLite's own, on an empty
 * database: the kernel releases it when its holder dies (D-34).
 * @throws RequestError `ASP_STORE_UNAVAILABLE` if no lock is available at all; the signal's reason.
 */
export async function withProcessLock<Result>(
  context: LockContext,
  name: string,
  work: () => Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const connection = await openConnection(context, name);
  try {
    while (!tryLock(connection)) {
      const pauseMs = POLL_MIN_MS + context.random.fraction() * (POLL_MAX_MS - POLL_MIN_MS);
      await wait(context.clock, pauseMs, signal).catch((reason: unknown) => Promise.reject(givenUp(reason)));
    }
    return await work();
  } finally {
    connection.close();
  }
}

/**
 * Takes a lock for this user until the process ends or the returned function is called; undefined if another process
 * has it. @throws RequestError `ASP_STORE_UNAVAILABLE` if no lock is available at all.
 */
export async function holdProcessLock(
  context: Pick<LockContext, 'lockDirectory'>,
  name: string,
): Promise<(() => void) | undefined> {
  const connection = await openConnection(context, name);
  if (tryLock(connection)) return () => connection.close();
  connection.close();
  return undefined;
}

function tryLock(connection: Connection): boolean {
  try {
    connection.exec('BEGIN EXCLUSIVE');
    return true;
  } catch (error) {
    if (error instanceof Error && /locked|busy/i.test(error.message)) return false;
    throw storeUnavailable('Could not take a lock between processes.', error);
  }
}

async function openConnection(context: Pick<LockContext, 'lockDirectory'>, name: string): Promise<Connection> {
  const open = await loadDriver();
  for (const directory of candidates(context)) {
    try {
      await makePrivateDirectory(directory);
      return open(join(directory, `${digest(name)}.lock`));
    } catch {
      // Try the next directory; an error below reports that there is none.
    }
  }
  throw storeUnavailable('There is no directory for a lock between processes.');
}

/**
 * The home directory that the system knows, so that two processes with different environments use the same lock. A user
 * without a name, as in a container, has none.
 */
function candidates(context: Pick<LockContext, 'lockDirectory'>): string[] {
  if (context.lockDirectory !== undefined) return [context.lockDirectory];
  const home = homeOfUser();
  if (process.platform === 'win32')
    return home === undefined ? [] : [join(home, 'AppData', 'Local', 'asp-cli', 'locks')];
  const shared = `/tmp/asp-cli-locks-${process.getuid?.()}`;
  return home === undefined ? [shared] : [join(home, '.local', 'state', 'asp-cli', 'locks'), shared];
}

function homeOfUser(): string | undefined {
  try {
    return userInfo().homedir;
  } catch {
    return undefined;
  }
}

async function loadDriver(): Promise<(path: string) => Connection> {
  const isBuiltIn = Number(process.versions.node.split('.')[0]) >= FIRST_NODE_WITH_SQLITE;
  const { DatabaseSync }: Driver = isBuiltIn ? await import(BUILT_IN) : await loadPackage();
  return (path) => new DatabaseSync(path, { timeout: 0 });
}

/** The package is optional: npm leaves it out where it has no addon for the machine. */
async function loadPackage(): Promise<Driver> {
  try {
    return await import('@photostructure/sqlite');
  } catch (error) {
    throw storeUnavailable(
      'asp could not load the SQLite library that locks logins: install asp-cli with its optional packages, or use Node.js 24 or newer.',
      error,
    );
  }
}

function givenUp(reason: unknown): RequestError {
  if (reason instanceof RequestError) return reason;
  return new RequestError({
    code: 'ASP_ABORTED',
    message: 'Stopped waiting for another process that is renewing this login.',
    isRetryable: true,
    cause: reason,
  });
}
