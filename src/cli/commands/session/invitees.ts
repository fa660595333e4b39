import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';

/** The session exists already: a caller who waits for its id waits for one more try at most. */
const RETRIES = 1;

/**
 * Which of the invitees are in a new session: a service leaves the others out without a word. Null, with a note, where that
 * cannot be read: what was done stays done (D-206).
 */
export async function readInvited(
  context: Context,
  sessionId: string,
  invitees: readonly string[],
): Promise<readonly string[] | null> {
  const { signal, globals, output } = context;
  const client = await context.client();
  const retries = Math.min(RETRIES, globals.retries ?? RETRIES);
  try {
    const { reply } = await client.call('getSession', { path: { session_id: sessionId }, retries, signal });
    const present = new Set(reply.participants.map(({ handle }) => handle));
    return invitees.filter((handle) => present.has(handle));
  } catch (error) {
    const { RequestError } = await import('../../../client/http/request-error.js');
    if (!(error instanceof RequestError)) throw error;
    await output.note(`Who of ${invitees.join(', ')} was left out is not known: ${error.message}`);
    return null;
  }
}

/** What `--strict` asks for. `rest` says what was done all the same. */
export function refuseOmissions(omitted: readonly string[] | null, rest: string): void {
  if (omitted?.length === 0) return;
  const who = omitted === null ? 'Who could be invited is not known.' : `${omitted.join(', ')} could not be invited.`;
  throw new CliError('ASP_PARTIAL', { message: `${who} ${rest}`, outcome: 'applied' });
}
