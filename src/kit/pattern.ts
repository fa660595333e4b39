import { createContext, Script } from 'node:vm';

/** Far longer than a sane pattern needs for the longest message. */
const LIMIT_MS = 1_000;

const SCRIPT = new Script('work()');
const ROOM: { work?: () => unknown } = {};
createContext(ROOM);

/**
 * The result of matching a pattern that someone wrote without care against a text that a stranger chose; undefined if it
 * takes longer than a second. `node:vm` interrupts a regular expression, which nothing else does.
 */
export function bounded<Result extends string | boolean>(work: () => Result): Result | undefined {
  ROOM.work = work;
  try {
    return SCRIPT.runInContext(ROOM, { timeout: LIMIT_MS }) as Result;
  } catch (error) {
    // An error of another realm: not an instance of our Error.
    if ((error as { code?: unknown }).code === 'ERR_SCRIPT_EXECUTION_TIMEOUT') return undefined;
    throw error;
  }
}

/** A regular expression that someone wrote; undefined if it is not one. */
export function toPattern(source: string, flags = ''): RegExp | undefined {
  try {
    return new RegExp(source, `u${flags}`);
  } catch {
    return undefined;
  }
}
