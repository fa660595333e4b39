import { dirname } from 'node:path';

import { type Cursor, CursorsJson, cursorsFromJson, cursorsToJson } from '../../../agent/cursors.js';
import { isFileError, makeDirectory, readIfPresent } from '../../../kit/private-file.js';
import { createSavedFile } from '../../../kit/saved-file.js';
import { CliError, usageError } from '../../errors.js';

/** How far each session was read; written after the events, never before them. */
export interface CursorFile {
  readonly cursors: Readonly<Record<string, Cursor>>;
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
  const cursors = new Map(parseCursors(path, await readIfPresent(path)));
  try {
    makeDirectory(dirname(path));
  } catch (error) {
    throw unwritable(path, error);
  }
  let failure: unknown;

  const saved = createSavedFile(path, () => cursorsToJson(cursors), { isDurable: false });
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
  return {
    cursors: Object.fromEntries(cursors),
    advance(sessionId, cursor) {
      if (failure !== undefined) throw unwritable(path, failure);
      if (cursor.after > (cursors.get(sessionId)?.after ?? 0)) put(sessionId, cursor);
    },
    goBack: put,
    forget(sessionId) {
      if (failure !== undefined) throw unwritable(path, failure);
      if (cursors.delete(sessionId)) changed();
    },
    async settle() {
      await saved.written().catch(() => {});
      if (failure !== undefined) throw unwritable(path, failure);
    },
  };
}

function unwritable(path: string, error: unknown): unknown {
  if (!isFileError(error, 'EACCES', 'EROFS', 'EPERM', 'ENOENT', 'ENOTDIR', 'ENOSPC', 'EISDIR')) return error;
  const why = error instanceof Error ? error.message : undefined;
  return new CliError('ASP_CONFIG', { message: `Cannot write ${path}.`, why, cause: error });
}

function parseCursors(path: string, text: string | undefined): [string, Cursor][] {
  if (text === undefined || text.trim() === '') return [];
  try {
    return cursorsFromJson(CursorsJson.parse(JSON.parse(text)));
  } catch (error) {
    throw usageError(`${path} is not a cursor file.`, {
      why: 'it must be a JSON object with the sequence of each session under "sessions".',
      cause: error,
    });
  }
}
