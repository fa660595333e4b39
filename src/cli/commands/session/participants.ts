import type { ParticipantStatus, Session } from '../../../wire/schemas/session.js';
import type { Context } from '../../context/context.js';
import { type ErrorContext, ifNotFound } from '../../context/explain.js';
import { CliError } from '../../errors.js';

/** The error for a session that the acting agent cannot see, or that does not exist. */
export const unseenSession = (sessionId: string): ErrorContext => ({
  subject: sessionId,
  ...ifNotFound(`This agent cannot see ${sessionId}.`, ['asp', 'session', 'list']),
});

/** The error for agents that could not be reached, under the name that `message` gives them; `first` is one of them. */
export const unreachableAgents = (first: string, named: string, message: string): ErrorContext => ({
  subject: named,
  ...ifNotFound(
    message,
    ['asp', 'agent', 'show', first.slice(1)],
    'the service gives one answer for an unknown handle, a block, an allowlist and a paused agent; it does not say which.',
  ),
});

/** The participants, without the one who reads about them. */
export function participantNames({ participants }: Session, reader?: string): string {
  const others = participants.filter(({ handle }) => handle !== reader);
  return others.map(({ handle, status }) => (status === 'joined' ? handle : `${handle} (${status})`)).join(', ');
}

/** The session already exists: a caller who waits for its id waits for at most one retry. */
const RETRIES = 1;

/**
 * Which of the invitees are in a session, with any of these statuses: a service silently leaves the others out. Null,
 * with a note, if that cannot be read: the change was made anyway (D-206).
 */
export async function readInvited(
  context: Context,
  sessionId: string,
  invitees: readonly string[],
  statuses: readonly ParticipantStatus[] = ['invited', 'joined', 'left'],
): Promise<readonly string[] | null> {
  const { signal, globals, output } = context;
  const client = await context.client();
  const retries = Math.min(RETRIES, globals.retries ?? RETRIES);
  try {
    const { reply } = await client.call('getSession', { path: { session_id: sessionId }, retries, signal });
    const there = reply.participants.filter(({ status }) => statuses.includes(status));
    const present = new Set(there.map(({ handle }) => handle));
    return invitees.filter((handle) => present.has(handle));
  } catch (error) {
    const { RequestError } = await import('../../../client/http/request-error.js');
    if (!(error instanceof RequestError)) throw error;
    await output.note(`Could not find out which of ${invitees.join(', ')} were left out: ${error.message}`);
    return null;
  }
}

/** The check for `--strict`. `rest` says what was done anyway. */
export function refuseOmissions(omitted: readonly string[] | null, rest: string): void {
  if (omitted?.length === 0) return;
  const who =
    omitted === null ? 'Could not find out which agents were invited.' : `${omitted.join(', ')} could not be invited.`;
  throw new CliError('ASP_PARTIAL', { message: `${who} ${rest}`, outcome: 'applied' });
}
