import { dirname } from 'node:path';
import type * as z from 'zod/mini';

import { BegunEvents, type Cursor, CursorsJson, cursorsFromJson, cursorsToJson } from '../../../agent/cursors.js';
import { makeDirectory, readIfPresent } from '../../../kit/private-file.js';
import { createSavedFile } from '../../../kit/saved-file.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import { CliError, explainUnwritable, usageError } from '../../errors.js';
import { unusableFile } from '../../input.js';

/** How far each session was read; written after the events, never before them. */
export interface CursorFile {
  readonly cursors: Readonly<Record<string, Cursor>>;
  /**
   * Records, before an event is given to a command, that it was. Returns how many times it was, including by earlier tails;
   * the record is in the file then.
   */
  begin(event: Pick<EventEnvelope, 'session_id' | 'event_id'>): Promise<number>;
  /** Records that an event was processed. */
  advance(sessionId: string, cursor: Cursor): void;
  /** Records that a session continues earlier, because the service's data was restored. */
  goBack(sessionId: string, cursor: Cursor): void;
  /** Forgets a session. */
  forget(sessionId: string): void;
  /** Resolves when all records are on disk. */
  settle(): Promise<void>;
}

export async function openCursorFile(path: string): Promise<CursorFile> {
  const text = await readIfPresent(path).catch((error: unknown) =>
    Promise.reject(unusableFile(`Cannot read ${path}.`, error)),
  );
  const found = parseCursorFile(path, text);
  const cursors = new Map(cursorsFromJson(found));
  const begun = new BegunEvents(found);
  try {
    makeDirectory(dirname(path));
  } catch (error) {
    throw unwritable(path, error);
  }
  let failure: unknown;

  const saved = createSavedFile(path, () => ({ ...cursorsToJson(cursors), ...begun.toJson() }), { isDurable: false });
  const changed = (): void => {
    saved.change();
    saved.written().catch((error: unknown) => {
      failure ??= error;
    });
  };
  const put = (sessionId: string, cursor: Cursor): void => {
    if (failure !== undefined) throw unwritable(path, failure);
    cursors.set(sessionId, cursor);
    changed();
  };
  const file: CursorFile = {
    cursors: Object.fromEntries(cursors),
    async begin(event) {
      const times = begun.count(event);
      changed();
      await file.settle();
      return times;
    },
    advance(sessionId, cursor) {
      begun.end(sessionId);
      if (failure !== undefined) throw unwritable(path, failure);
      if (cursor.after > (cursors.get(sessionId)?.after ?? 0)) put(sessionId, cursor);
    },
    goBack: put,
    forget(sessionId) {
      if (failure !== undefined) throw unwritable(path, failure);
      begun.end(sessionId);
      if (cursors.delete(sessionId)) changed();
    },
    async settle() {
      await saved.written().catch(() => {});
      if (failure !== undefined) throw unwritable(path, failure);
    },
  };
  return file;
}

function unwritable(path: string, error: unknown): unknown {
  const why = explainUnwritable(error);
  if (why === undefined) return error;
  return new CliError('ASP_CONFIG', { message: `Cannot write ${path}.`, why, cause: error });
}

function parseCursorFile(path: string, text: string | undefined): z.infer<typeof CursorsJson> {
  if (text === undefined || text.trim() === '') return { sessions: {} };
  try {
    return CursorsJson.parse(JSON.parse(text));
  } catch (error) {
    throw usageError(`${path} is not a cursor file.`, {
      why: 'it must be a JSON object with the sequence of each session under "sessions".',
      cause: error,
    });
  }
}
