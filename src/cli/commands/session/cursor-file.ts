import { rename, rm, writeFile } from 'node:fs/promises';

import { isFileError, readIfPresent } from '../../../kit/private-file.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';

/** How far each session was read; written behind the events, never ahead of them. */
export interface CursorFile {
  readonly cursors: Readonly<Record<string, number>>;
  /** Notes that an event was taken. */
  advance(sessionId: string, sequence: number): void;
  /** Resolves when everything noted is on disk. */
  settle(): Promise<void>;
}

export async function openCursorFile(path: string, suffix: string): Promise<CursorFile> {
  const cursors = new Map(Object.entries(parseCursors(path, await readIfPresent(path))));
  const temporary = `${path}.${suffix}.tmp`;
  let isDirty = false;
  let writing: Promise<void> | undefined;
  let failure: unknown;

  const writeAll = async (): Promise<void> => {
    while (isDirty && failure === undefined) {
      isDirty = false;
      try {
        await writeFile(temporary, `${JSON.stringify({ sessions: Object.fromEntries(cursors) })}\n`, { mode: 0o600 });
        await rename(temporary, path);
      } catch (error) {
        failure = error;
        await rm(temporary, { force: true }).catch(() => {});
      }
    }
    writing = undefined;
  };
  return {
    cursors: Object.fromEntries(cursors),
    advance(sessionId, sequence) {
      if (failure !== undefined) throw unwritable(path, failure);
      if (sequence <= (cursors.get(sessionId) ?? 0)) return;
      cursors.set(sessionId, sequence);
      isDirty = true;
      writing ??= writeAll();
    },
    async settle() {
      while (writing !== undefined) await writing;
      if (failure !== undefined) throw unwritable(path, failure);
    },
  };
}

function unwritable(path: string, error: unknown): unknown {
  if (!isFileError(error, 'EACCES', 'EROFS', 'EPERM', 'ENOENT', 'ENOTDIR', 'ENOSPC', 'EISDIR')) return error;
  const why = error instanceof Error ? error.message : undefined;
  return new CliError('ASP_CONFIG', { message: `${path} cannot be written.`, why, cause: error });
}

function parseCursors(path: string, text: string | undefined): Record<string, number> {
  if (text === undefined || text.trim() === '') return {};
  try {
    const value: unknown = JSON.parse(text);
    const sessions = typeof value === 'object' && value !== null && 'sessions' in value ? value.sessions : undefined;
    if (typeof sessions !== 'object' || sessions === null) throw new TypeError('it holds no sessions');
    const entries = Object.entries(sessions).map(([id, sequence]): [string, number] => {
      if (!Number.isSafeInteger(sequence) || sequence < 0) throw new TypeError(`${id} has no sequence`);
      return [id, sequence];
    });
    return Object.fromEntries(entries);
  } catch (error) {
    throw new UsageError(`${path} is no cursor file.`, {
      why: error instanceof Error ? `${error.message}.` : undefined,
      cause: error,
    });
  }
}
