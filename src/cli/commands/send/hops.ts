import { readIfPresent } from '../../../kit/private-file.js';
import type { Context } from '../../context/context.js';

/** In the command of `asp run`: how many automatic replies led to its messages. */
export const HOPS_VARIABLE = 'ASP_HOPS';

/**
 * In an agent program of `asp run`, which runs for many messages: the file with that number. It holds the highest one of
 * all turns in progress, and nothing between turns.
 */
export const HOPS_FILE_VARIABLE = 'ASP_HOPS_FILE';

/** How many automatic replies led to what this command sends, if it runs in an agent. */
export async function findHops({ environment, globals }: Context): Promise<number | undefined> {
  const given = environment[HOPS_VARIABLE];
  const file = environment[HOPS_FILE_VARIABLE] ?? '';
  // Repeating a command under its name must send the same bytes, also in a later turn.
  const isNamed = globals.once !== undefined || globals.idempotencyKey !== undefined;
  const isAsked = given === undefined && file !== '' && !isNamed;
  const text = isAsked ? await readIfPresent(file).catch(() => undefined) : given;
  return text !== undefined && /^\d{1,6}$/.test(text) ? Number(text) : undefined;
}
