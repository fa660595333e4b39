import * as z from 'zod/mini';
import { RequestError } from '../client/client.js';
import { parseIfJson } from '../kit/parse-json.js';
import { isFileError, readIfPresent, replaceFile } from '../kit/private-file.js';
import { AwaitedReplies, AwaitedReply } from './awaited-replies.js';
import { type Cursor, CursorsJson, cursorsFromJson, cursorsToJson } from './cursors.js';

/** A process, by its number and its start time: numbers are reused. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly start?: string | undefined;
}

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

/** The progress, as it is written. */
export interface ProgressFile extends Progress {
  readonly awaited: AwaitedReplies;
  /** There is a file, but no earlier run wrote it. */
  readonly isNew: boolean;
  /** Records that everything up to here is done. */
  advance(sessionId: string, cursor: Cursor): void;
  /** Records that a session continues earlier, because the service's data was restored. */
  goBack(sessionId: string, cursor: Cursor): void;
  /** Records that everything older is done everywhere; the `over` sessions no longer need lines of their own. */
  settleUpTo(sinceMs: number, over: readonly string[]): void;
  /** Records the guard of the commands from now on. */
  guardBy(guard: ProcessIdentity | undefined): void;
  /** Resolves when all records are on disk. */
  written(): Promise<void>;
}

/** Opens or creates a file (undefined: the progress ends with the process); `nowMs` is used only if there is none: older messages are not answered. */
export async function openProgress(path: string | undefined, nowMs: () => Promise<number>): Promise<ProgressFile> {
  const found = path === undefined ? NOTHING_FOUND : parseProgress(path, await readIfPresent(path));
  const sessions = new Map(found.sessions);
  let sinceMs = found.sinceMs ?? (await nowMs());
  let guard = found.guard;
  let isDirty = found.sinceMs === undefined;
  let writing: Promise<void> | undefined;
  let failure: unknown;

  const writeAll = async (path: string): Promise<void> => {
    while (isDirty && failure === undefined) {
      isDirty = false;
      const text = `${JSON.stringify({ since: sinceMs, guard, ...cursorsToJson(sessions), awaited: awaited.toJson() })}\n`;
      await replaceFile(path, text).catch((error: unknown) => {
        failure = unwritable(path, error);
      });
    }
    writing = undefined;
  };
  const note = (): void => {
    if (failure !== undefined) throw failure;
    isDirty = true;
    if (path !== undefined) writing ??= writeAll(path);
  };
  const awaited = new AwaitedReplies(found.awaited, note);
  const file: ProgressFile = {
    awaited,
    get sinceMs() {
      return sinceMs;
    },
    isNew: path !== undefined && found.sinceMs === undefined,
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
      awaited.goBack(sessionId, cursor.after);
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
  const why = error instanceof Error ? error.message : String(error);
  return new RequestError({ code: 'ASP_CONFIG', message: `Cannot write ${path}: ${why}`, cause: error });
}

interface Found {
  /** Undefined: there was no file, or one of `asp tail`, which has only sessions. */
  readonly sinceMs: number | undefined;
  readonly guard: ProcessIdentity | undefined;
  readonly sessions: readonly (readonly [string, Cursor])[];
  readonly awaited: readonly (readonly [string, readonly z.infer<typeof AwaitedReply>[]])[];
}

const NOTHING_FOUND: Found = { sinceMs: undefined, guard: undefined, sessions: [], awaited: [] };

const ProgressJson = z.extend(CursorsJson, {
  since: z.optional(z.int().check(z.nonnegative())),
  guard: z.optional(z.looseObject({ pid: z.int().check(z.positive()), start: z.optional(z.string()) })),
  awaited: z.optional(z.record(z.string(), z.array(AwaitedReply))),
});

function parseProgress(path: string, text: string | undefined): Found {
  if (text === undefined || text.trim() === '') return NOTHING_FOUND;
  const { data } = ProgressJson.safeParse(parseIfJson(text));
  if (data !== undefined) {
    const { since: sinceMs, guard, awaited = {} } = data;
    return { sinceMs, guard, sessions: cursorsFromJson(data), awaited: Object.entries(awaited) };
  }
  throw new RequestError({
    code: 'ASP_USAGE',
    message: `${path} is not a cursor file. Remove it to start over, or name a different one.`,
  });
}
