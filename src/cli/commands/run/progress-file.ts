import { createHash } from 'node:crypto';
import { join } from 'node:path';
import * as z from 'zod/mini';

import { isFileError, readIfPresent, replaceFile } from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';
import { CliError, UsageError } from '../../errors.js';
import { type Cursor, CursorsJson, cursorsFromJson, cursorsToJson } from '../tail/cursor-file.js';
import type { ProcessIdentity } from './command-guard.js';

/**
 * How far an agent has got. In a session that is listed, everything up to its sequence is done; elsewhere everything that
 * is older than `sinceMs`.
 */
export interface Progress {
  readonly sinceMs: number;
  /** The guard of the last run that wrote here. */
  readonly guard: ProcessIdentity | undefined;
  readonly sessions: ReadonlyMap<string, Cursor>;
}

export interface ProgressFile extends Progress {
  /** There was nothing of an earlier run. */
  readonly isNew: boolean;
  /** Notes that everything up to here is done. */
  advance(sessionId: string, cursor: Cursor): void;
  /** Notes that a session continues earlier, because the service's data were restored. */
  goBack(sessionId: string, cursor: Cursor): void;
  /** Notes that everything older is done everywhere; the `over` sessions need no line of their own any more. */
  settleUpTo(sinceMs: number, over: readonly string[]): void;
  /** Notes who guards the commands from now on. */
  guardBy(guard: ProcessIdentity | undefined): void;
  /** Resolves when everything noted is on disk. */
  written(): Promise<void>;
}

/** Where the progress of an agent, or what `asp mcp` has not handed over yet, is kept unless the user says otherwise. */
export async function progressPath(
  { paths, profile }: Context,
  handle: string,
  folder: 'run' | 'mcp' = 'run',
): Promise<string> {
  const { baseUrl } = await profile();
  const directory = paths.stateDirectory;
  if (directory === undefined)
    throw new UsageError('There is no place to keep how far the agent has got.', {
      why: 'this user has no home: name a file with --cursor-file.',
    });
  const service = createHash('sha256').update(baseUrl).digest('hex').slice(0, 12);
  return join(directory, folder, `${handle.slice(1)}-${service}.json`);
}

/** Opens or begins a file; `nowMs` is asked only when there is none: what is older than that was not asked for. */
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
  return new CliError('ASP_CONFIG', { message: `${path} cannot be written.`, why, cause: error });
}

interface Found {
  /** Undefined: there was no file, or one of `asp tail`, which knows sessions alone. */
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
  throw new UsageError(`${path} is not a cursor file.`, { why: 'remove it to begin anew, or name another one.' });
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
