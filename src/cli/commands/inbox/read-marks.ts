import { CursorsJson } from '../../../agent/cursors.js';
import { fileFault, readIfPresent, replaceFile } from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';
import { progressPath } from '../../context/progress-path.js';

/** The number of sessions to remember; those read longest ago are dropped. */
const MARKS_MAX = 2000;

/** How far a person has read each session. */
export interface ReadMarks {
  get(sessionId: string): number;
  advance(sessionId: string, sequence: number): void;
  /**
   * Saves the marks and keeps those that another process saved meanwhile; prints a note if the file cannot be written.
   */
  save(): Promise<void>;
}

/** The marks of an agent, kept on this machine; without a home they last as long as the command. */
export async function openReadMarks(context: Context, me: string): Promise<ReadMarks> {
  const path = context.paths.stateDirectory === undefined ? undefined : await progressPath(context, me, 'inbox');
  const marks = await readMarks(path);
  const changed = new Map<string, number>();
  const get = (sessionId: string): number => changed.get(sessionId) ?? marks.get(sessionId) ?? 0;
  return {
    get,
    advance(sessionId, sequence) {
      if (sequence > get(sessionId)) changed.set(sessionId, sequence);
    },
    async save() {
      if (path === undefined || changed.size === 0) return;
      const kept = await readMarks(path);
      for (const [sessionId, sequence] of changed) {
        const before = kept.get(sessionId) ?? 0;
        kept.delete(sessionId);
        kept.set(sessionId, Math.max(before, sequence));
      }
      const sessions = Object.fromEntries([...kept].slice(-MARKS_MAX));
      try {
        await replaceFile(path, `${JSON.stringify({ sessions })}\n`);
      } catch (error) {
        const why = fileFault(error) ?? (error instanceof Error ? error.message : String(error));
        await context.output.note(`Could not save your read position: ${why}.`);
      }
    },
  };
}

/** A damaged file is treated like a missing one: everything is unread again. */
async function readMarks(path: string | undefined): Promise<Map<string, number>> {
  try {
    const text = path === undefined ? undefined : await readIfPresent(path);
    return new Map(text === undefined ? [] : Object.entries(CursorsJson.parse(JSON.parse(text)).sessions));
  } catch {
    return new Map();
  }
}
