import { RequestError } from '../../../client/http/request-error.js';
import type { Session } from '../../../wire/session.js';
import type { Context } from '../../context/context.js';
import { ExplainedError } from '../../context/explain.js';

/** A session as the acting agent sees it, and what it is in there. */
export interface Seen {
  readonly session: Session;
  /** Undefined: it takes no part. */
  readonly mine: Session['participants'][number]['status'] | undefined;
}

/** One look at a session; undefined where it cannot be seen. */
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
export function isNotFound(error: unknown): error is ExplainedError {
  return error instanceof ExplainedError && error.cause instanceof RequestError && error.cause.code === 'NOT_FOUND';
}

/** The refusal of a change, with the reason that one look at the session shows. */
export async function explainRefusal(context: Context, sessionId: string, error: unknown): Promise<unknown> {
  if (!isNotFound(error)) return error;
  const seen = await lookAtSession(context, sessionId);
  const found = seen && describeObstacle(seen);
  if (found === undefined) return error;
  const { message, reason, next } = found;
  const told = { messages: { NOT_FOUND: message }, reasons: { NOT_FOUND: reason }, next: { NOT_FOUND: next } };
  return new ExplainedError({ ...error.context, ...told }, error.cause);
}

/** What keeps an agent from acting in a session. */
function describeObstacle({ session: { id, state }, mine }: Seen) {
  if (state === 'ended')
    return {
      message: `${id} has ended.`,
      reason: 'nothing can be done in it until someone who was in it reopens it.',
      next: ['asp', 'session', 'show', id],
    };
  if (mine === 'invited')
    return {
      message: `You are invited to ${id} and have not joined.`,
      reason: 'only someone who has joined can read, write and invite.',
      next: ['asp', 'session', 'join', id],
    };
  if (mine === 'left')
    return {
      message: `You left ${id}.`,
      reason: 'you can come back when someone in it invites you.',
      next: ['asp', 'session', 'show', id],
    };
  return undefined;
}
