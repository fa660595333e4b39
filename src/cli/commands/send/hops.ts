import { createMutex } from '../../../kit/mutex.js';
import { readIfPresent, replaceFile } from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';

/** In the command of `asp run`: how many automatic replies led to its messages. */
export const HOPS_VARIABLE = 'ASP_HOPS';

/** In a program that `asp run` keeps running for many messages: the file with that number. */
const HOPS_FILE_VARIABLE = 'ASP_HOPS_FILE';

/** How many automatic replies led to what this command sends, if it runs in an agent. */
export async function findHops({ environment, globals }: Context): Promise<number | undefined> {
  const given = environment[HOPS_VARIABLE];
  const file = environment[HOPS_FILE_VARIABLE] ?? '';
  // Repeating a command under its name must send the same bytes, even in a later turn.
  const isNamed = globals.once !== undefined || globals.idempotencyKey !== undefined;
  const isAsked = given === undefined && file !== '' && !isNamed;
  const text = isAsked ? await readIfPresent(file).catch(() => undefined) : given;
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) : undefined;
}

/** Tells a program that keeps running how many automatic replies led to its messages. */
export interface HopsFile {
  /** For the program. */
  readonly environment: Readonly<Record<string, string>>;
  /**
   * From now on, until the returned function is called, the program works on a message. Rejects if the file cannot be
   * written, because the hops of a chain would then be counted too low.
   */
  enter(hops: number): Promise<() => void>;
  /** Resolves when the file is up to date. */
  written(): Promise<void>;
}

/**
 * A program's commands do not say which message they belong to. So the file has the highest number of all messages in
 * progress, which counts no loop too low; it is empty while there is no message. Without a path, nothing is written.
 */
export function openHopsFile(path: string | undefined): HopsFile {
  const inProgress: { readonly hops: number }[] = [];
  const inTurn = createMutex();
  const write = (): Promise<void> =>
    inTurn(async () => {
      const highest = Math.max(0, ...inProgress.map(({ hops }) => hops));
      const text = highest === 0 ? '' : String(highest);
      if (path !== undefined) await replaceFile(path, text, { isDurable: false });
    });
  /** If this fails, the number left in the file can only be too high. */
  const tryToWrite = (): Promise<void> => write().catch(() => {});
  return {
    environment: path === undefined ? {} : { [HOPS_FILE_VARIABLE]: path },
    async enter(hops) {
      const one = { hops };
      inProgress.push(one);
      await write();
      return () => {
        inProgress.splice(inProgress.indexOf(one), 1);
        void tryToWrite();
      };
    },
    written: tryToWrite,
  };
}
