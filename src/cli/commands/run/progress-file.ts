import { createHash } from 'node:crypto';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { RequestError } from '../../../client/client.js';
import { wait } from '../../../kit/clock.js';
import { isFileError, readIfPresent, replaceFile } from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';
import { exitCodeOf } from '../../context/describe-failure.js';
import { CliError, usageError } from '../../errors.js';
import { type Cursor, CursorsJson, cursorsFromJson, cursorsToJson } from '../tail/cursor-file.js';
import type { ProcessIdentity } from './answer.js';

/**
 * An agent's progress. In a listed session, everything up to its sequence is done; in others, everything older than
 * `sinceMs`.
 */
export interface Progress {
  readonly sinceMs: number;
  /** The guard of the last run that wrote here. */
  readonly guard: ProcessIdentity | undefined;
  readonly sessions: ReadonlyMap<string, Cursor>;
}

export interface ProgressFile extends Progress {
  /** There was no earlier run. */
  readonly isNew: boolean;
  /** Records that everything up to here is done. */
  advance(sessionId: string, cursor: Cursor): void;
  /** Records that a session continues earlier, because the service's data were restored. */
  goBack(sessionId: string, cursor: Cursor): void;
  /** Records that everything older is done everywhere; the `over` sessions no longer need lines of their own. */
  settleUpTo(sinceMs: number, over: readonly string[]): void;
  /** Records the guard of the commands from now on. */
  guardBy(guard: ProcessIdentity | undefined): void;
  /** Resolves when all records are on disk. */
  written(): Promise<void>;
}

/** The default file for the progress of an agent, the unread events of `asp mcp`, or the read position of a person. */
export async function progressPath(
  { paths, profile }: Context,
  handle: string,
  folder: 'run' | 'mcp' | 'inbox' = 'run',
): Promise<string> {
  const { baseUrl } = await profile();
  const directory = paths.stateDirectory;
  if (directory === undefined)
    throw usageError('The progress of the agent cannot be stored.', {
      why: 'this user has no home directory: name a file with --cursor-file.',
    });
  const service = createHash('sha256').update(baseUrl).digest('hex').slice(0, 12);
  return join(directory, folder, `${handle.slice(1)}-${service}.json`);
}

/** Opens or creates a file; `nowMs` is used only if there is none: older messages are not answered. */
export async function openProgress(path: string, nowMs: () => Promise<number>): Promise<ProgressFile> {
  const found = parseProgress(path, await readIfPresent(path));
  const sessions = new Map(found.sessions);
  let sinceMs = found.sinceMs ?? (await nowMs());
  let guard = found.guard;
  let isDirty = found.sinceMs === undefined;
  let writing: Promise<void> | undefined;
  let failure: unknown;

  const writeAll = async (): Promise<void> => {
    while (isDirty && failure === undefined) {
      isDirty = false;
      const text = `${JSON.stringify({ since: sinceMs, guard, ...cursorsToJson(sessions) })}\n`;
      await replaceFile(path, text).catch((error: unknown) => {
        failure = unwritable(path, error);
      });
    }
    writing = undefined;
  };
  const note = (): void => {
    if (failure !== undefined) throw failure;
    isDirty = true;
    writing ??= writeAll();
  };
  const file: ProgressFile = {
    get sinceMs() {
      return sinceMs;
    },
    isNew: found.sinceMs === undefined,
    sessions,
    get guard() {
      return guard;
    },
    guardBy(next) {
      guard = next;
      note();
    },
    advance(sessionId, cursor) {
      if (sessions.has(sessionId) && cursor.after <= (sessions.get(sessionId)?.after ?? 0)) return;
      sessions.set(sessionId, cursor);
      note();
    },
    goBack(sessionId, cursor) {
      sessions.set(sessionId, cursor);
      note();
    },
    settleUpTo(timeMs, over) {
      if (timeMs <= sinceMs) return;
      sinceMs = timeMs;
      for (const sessionId of over) sessions.delete(sessionId);
      note();
    },
    async written() {
      while (writing !== undefined) await writing;
      if (failure !== undefined) throw failure;
    },
  };
  if (isDirty) note();
  await file.written();
  return file;
}

function unwritable(path: string, error: unknown): unknown {
  if (!isFileError(error, 'EACCES', 'EROFS', 'EPERM', 'ENOENT', 'ENOTDIR', 'ENOSPC', 'EISDIR', 'EEXIST')) return error;
  const why = error instanceof Error ? error.message : undefined;
  return new CliError('ASP_CONFIG', { message: `Cannot write ${path}.`, why, cause: error });
}

interface Found {
  /** Undefined: there was no file, or one of `asp tail`, which has only sessions. */
  readonly sinceMs: number | undefined;
  readonly guard: ProcessIdentity | undefined;
  readonly sessions: readonly (readonly [string, Cursor])[];
}

const ProgressJson = z.extend(CursorsJson, {
  since: z.optional(z.int().check(z.nonnegative())),
  guard: z.optional(z.looseObject({ pid: z.int().check(z.positive()), start: z.optional(z.string()) })),
});

function parseProgress(path: string, text: string | undefined): Found {
  if (text === undefined || text.trim() === '') return { sinceMs: undefined, guard: undefined, sessions: [] };
  const { data } = ProgressJson.safeParse(parsed(text));
  if (data !== undefined) return { sinceMs: data.since, guard: data.guard, sessions: cursorsFromJson(data) };
  throw usageError(`${path} is not a cursor file.`, { why: 'remove it to start over, or name a different one.' });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 30_000;

/** The result of a call: an answer, or a refusal that waiting does not change. */
export type Settled<Reply> =
  | { readonly kind: 'done'; readonly reply: Reply }
  | { readonly kind: 'refused'; readonly error: RequestError };

/**
 * Calls until there is an answer: if the service is away or busy, it waits forever or until `signal`. A refusal is an
 * answer, unless the agent itself may not continue.
 * @throws RequestError if the login, a scope or the connection is at fault.
 */
export async function persist<Reply>(
  { clock, output }: Context,
  signal: AbortSignal,
  call: () => Promise<Reply>,
  onFirstFailure?: (error: RequestError) => Promise<void>,
): Promise<Settled<Reply>> {
  for (let attempt = 0; ; attempt += 1) {
    try {
      return { kind: 'done', reply: await call() };
    } catch (error) {
      if (!(error instanceof RequestError) || signal.aborted) throw error;
      if (!error.isRetryable) {
        if (isFatal(error)) throw error;
        return { kind: 'refused', error };
      }
      if (attempt === 0) await onFirstFailure?.(error);
      const delayMs = Math.max(error.retryAfterMs ?? 0, Math.min(LONGEST_WAIT_MS, FIRST_WAIT_MS * 2 ** attempt));
      await output.detail(`${error.code}: trying again in ${Math.ceil(delayMs / 1000)} s`);
      await wait(clock, delayMs, signal);
    }
  }
}

/**
 * A request that a start needs: it waits for an unavailable service and says so once. Without retries, the first
 * failure is the result.
 */
export async function waitForService<Reply>(
  context: Context,
  signal: AbortSignal,
  call: () => Promise<Reply>,
): Promise<Reply> {
  if (context.globals.retries === 0) return call();
  const settled = await persist(context, signal, call, (error) => context.output.note(noConnection(error.code)));
  if (settled.kind === 'refused') throw settled.error;
  return settled.reply;
}

export const noConnection = (reason: string): string =>
  `There is no connection to the service (${reason}). Retrying until there is.`;

const SIGN_IN = 4;
const UNREACHABLE = 9;

function isFatal({ code, status }: RequestError): boolean {
  const exitCode = exitCodeOf(code, status);
  return exitCode === SIGN_IN || exitCode === UNREACHABLE || code.toLowerCase() === 'insufficient_scope';
}
