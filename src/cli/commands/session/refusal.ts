import { RequestError } from '../../../client/http/request-error.js';
import type { Session } from '../../../wire/schemas/session.js';
import type { Context } from '../../context/context.js';
import { findErrorContext, ifNotFound, notFound, withContext } from '../../context/explain.js';

/** A session as the acting agent sees it, and the agent's status in it. */
export interface Seen {
  readonly session: Session;
  /** Undefined: it is not a participant. */
  readonly mine: Session['participants'][number]['status'] | undefined;
}

/** Reads a session once; undefined if it cannot be seen. */
export async function lookAtSession(context: Context, sessionId: string): Promise<Seen | undefined> {
  const { signal } = context;
  try {
    const client = await context.client();
    const { reply } = await client.call('getSession', { path: { session_id: sessionId }, retries: 0, signal });
    const me = await context.actingHandle();
    return { session: reply, mine: reply.participants.find(({ handle }) => handle === me)?.status };
  } catch {
    return undefined;
  }
}

/** Whether the service gave its one answer for everything that an agent cannot do with a session. */
export function isNotFound(error: unknown): error is RequestError {
  return error instanceof RequestError && error.code === 'NOT_FOUND';
}

/** The refusal of a change, with the reason that the session shows. */
export async function explainRefusal(context: Context, sessionId: string, error: unknown): Promise<unknown> {
  if (!isNotFound(error)) return error;
  const seen = await lookAtSession(context, sessionId);
  const found = seen && describeObstacle(seen);
  if (found === undefined) return error;
  return withContext(error, { ...findErrorContext(error), ...ifNotFound(found.message, found.next, found.reason) });
}

/**
 * Refuses to continue if the agent is invited and has not joined: there is nothing that it could read or answer yet.
 */
export async function refuseInvited(context: Context, sessionId: string): Promise<void> {
  const seen = await lookAtSession(context, sessionId);
  const found = seen?.mine === 'invited' && seen.session.state === 'active' ? describeObstacle(seen) : undefined;
  if (found !== undefined) throw await notFound(found.message, found.reason, found.next);
}

/** Says that a session shows nothing; an invited agent sees no messages before it joins. */
export async function noteNone(context: Context, sessionId: string, ifNone: string): Promise<void> {
  const seen = await lookAtSession(context, sessionId);
  const isInvited = seen?.mine === 'invited' && seen.session.state === 'active';
  const advice = `You are invited to this session but have not joined it. To read it, join it: asp session join ${sessionId}`;
  await context.output.note(isInvited ? advice : ifNone);
}

/** The reason why an agent cannot act in a session. */
function describeObstacle({ session: { id, state }, mine }: Seen) {
  if (state === 'ended')
    return {
      message: `${id} has ended.`,
      reason: 'no one can write in it until a participant reopens it.',
      next: ['asp', 'session', 'show', id],
    };
  if (mine === 'invited')
    return {
      message: `You are invited to ${id} and have not joined.`,
      reason: 'only joined agents can read, write and invite.',
      next: ['asp', 'session', 'join', id],
    };
  if (mine === 'left')
    return {
      message: `You left ${id}.`,
      reason: 'you can come back when a participant invites you.',
      next: ['asp', 'session', 'show', id],
    };
  return undefined;
}
