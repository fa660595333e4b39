import { RequestError } from '../../../client/http/request-error.js';
import type { Context } from '../../context/context.js';

/** The session is there: who waits for its id waits for one try more at most. */
const RETRIES = 1;

/**
 * Who of the asked is in a new session: a service leaves the others out without a word. Null, with a remark, where that
 * cannot be had: what was done stays done (D-206).
 */
export async function readInvited(
  context: Context,
  sessionId: string,
  asked: readonly string[],
): Promise<readonly string[] | null> {
  const { signal, globals, output } = context;
  const client = await context.client();
  const retries = Math.min(RETRIES, globals.retries ?? RETRIES);
  try {
    const { reply } = await client.call('getSession', { path: { session_id: sessionId }, retries, signal });
    const present = new Set(reply.participants.map(({ handle }) => handle));
    return asked.filter((handle) => present.has(handle));
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    await output.note(`Who of ${asked.join(', ')} was left out is not known: ${error.message}`);
    return null;
  }
}
