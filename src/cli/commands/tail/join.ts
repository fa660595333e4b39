import { RequestError } from '../../../client/http/request-error.js';
import type { EventEnvelope } from '../../../wire/event.js';
import type { Session } from '../../../wire/session.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';

/** Joins a session; the session may have ended meanwhile, which is not an error. */
async function join(context: Context, sessionId: string): Promise<void> {
  const client = await context.client();
  try {
    await client.call('joinSession', { path: { session_id: sessionId }, signal: context.signal });
    await context.output.detail(`joined ${sessionId}`);
  } catch (error) {
    if (!(error instanceof RequestError) || error.code !== 'NOT_FOUND') throw error;
    await context.output.detail(`${sessionId} could not be joined any more`);
  }
}

export async function joinIfInvited(context: Context, event: EventEnvelope, me: string): Promise<void> {
  if (event.type === 'session.invited' && event.payload['invitee'] === me) await join(context, event.session_id);
}

const isInvited = ({ participants }: Session, me: string): boolean =>
  participants.some(({ handle, status }) => handle === me && status === 'invited');

/** Joins where the agent is invited already: in these sessions, or in all of its own. */
export async function joinWaiting(context: Context, sessionIds: readonly string[], me: string): Promise<void> {
  for (const sessionId of sessionIds) {
    const session = await read(context, 'getSession', { path: { session_id: sessionId } }, { subject: sessionId });
    if (isInvited(session, me)) await join(context, sessionId);
  }
  if (sessionIds.length > 0) return;
  let cursor: string | null = null;
  do {
    const query: { state: 'active'; limit: number; cursor?: string } = { state: 'active', limit: 100 };
    if (cursor !== null) query.cursor = cursor;
    const page: { sessions: Session[]; next_cursor: string | null } = await read(context, 'listSessions', { query });
    for (const session of page.sessions) if (isInvited(session, me)) await join(context, session.id);
    cursor = page.next_cursor;
  } while (cursor !== null);
}
