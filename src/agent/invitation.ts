import type { Client } from '../client/client.js';
import { findActor } from '../wire/event.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Session } from '../wire/schemas/session.js';

/** Whether an event invites this agent; undefined if it does not name the invitee (spec: Events). */
export function isInvitationFor({ type, payload }: EventEnvelope, me: string): boolean | undefined {
  if (type !== 'session.invited') return false;
  const { invitee } = payload;
  return typeof invitee === 'string' ? invitee === me : undefined;
}

/** Whether an agent is invited to a session and has not joined. */
export const isInvited = ({ participants }: Session, me: string): boolean =>
  participants.some(({ handle, status }) => handle === me && status === 'invited');

/**
 * Who invited this agent with an event, if anyone did; `by` is undefined if that is not known. If the event does not say,
 * the session does: it shows who is invited now, and who could have invited if there is only one.
 * @throws RequestError
 */
export async function findInvitation(
  client: Client,
  event: EventEnvelope,
  me: string,
  signal?: AbortSignal,
): Promise<{ readonly by: string | undefined } | undefined> {
  const isMine = isInvitationFor(event, me);
  const by = findActor(event);
  if (isMine === false) return undefined;
  if (isMine === true && by !== undefined) return { by };
  const { reply } = await client.call('getSession', { path: { session_id: event.session_id }, signal });
  if (isMine === undefined && !isInvited(reply, me)) return undefined;
  const joined = reply.participants.filter(({ status }) => status === 'joined');
  return { by: by ?? (joined.length === 1 ? joined[0]?.handle : undefined) };
}
