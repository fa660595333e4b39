import type { InitialMessage } from '../../../wire/session.js';
import type { Context } from '../../context/context.js';
import type { About } from '../../context/explain.js';
import { write } from '../../context/write.js';
import type { SendOptions } from './send-options.js';
import type { SendResult } from './send-result.js';

export function createBody(
  handles: readonly string[],
  topic: string | undefined,
  ends: boolean,
  message: InitialMessage,
) {
  return {
    invite: [...handles],
    ...(topic === undefined ? {} : { topic }),
    initial_message: message,
    ...(ends ? { end_after_send: true } : {}),
  };
}

const OUTCOME_TEXT = {
  not_applied: 'Nothing was sent.',
  applied: 'It was sent.',
  unknown: 'It may have been sent.',
} as const;

export function aboutSession(sessionId: string, isRepeatable: boolean): About {
  return {
    subject: sessionId,
    isRepeatable,
    outcomeText: OUTCOME_TEXT,
    messages: { NOT_FOUND: `${sessionId} cannot be written to by this agent.` },
    reasons: {
      NOT_FOUND:
        'the service gives one answer for an unknown session, one that has ended, and one that was not joined.',
    },
    next: { NOT_FOUND: ['asp', 'session', 'show', sessionId] },
  };
}

export function aboutHandles(handles: readonly string[], isRepeatable: boolean): About {
  const [first = ''] = handles;
  const subject = handles.length === 1 ? first : `None of ${handles.join(', ')}`;
  return {
    subject: handles.join(', '),
    isRepeatable,
    outcomeText: OUTCOME_TEXT,
    messages: { NOT_FOUND: `${subject} could${handles.length === 1 ? ' not' : ''} be reached.` },
    reasons: {
      NOT_FOUND:
        'the service gives one answer for an unknown handle, a block, an allowlist and a paused agent; it does not say which.',
    },
    next: { NOT_FOUND: ['asp', 'agent', 'show', first.slice(1)] },
  };
}

/** Sends one message: into the session, or into a new one with the handles. */
export async function sendMessage(
  context: Context,
  { target, topic, ends }: Pick<SendOptions, 'target' | 'topic' | 'ends'>,
  message: InitialMessage,
  isRepeatable: boolean,
): Promise<SendResult> {
  if (target.kind === 'session') {
    const path = { session_id: target.sessionId };
    const about = aboutSession(target.sessionId, isRepeatable);
    const { reply, attempts, idempotencyKey } = await write(context, 'sendMessage', { path, body: message }, about);
    return {
      session_id: target.sessionId,
      message_id: reply.message_id,
      sequence: reply.sequence,
      state: 'active',
      created_session: false,
      invited: [],
      omitted: [],
      attachments: [],
      idempotency_key: idempotencyKey ?? null,
      attempts,
      as: (await context.knownHandle()) ?? null,
    };
  }
  const { handles } = target;
  const body = createBody(handles, topic, ends, message);
  const about = aboutHandles(handles, isRepeatable);
  const { reply, attempts, idempotencyKey } = await write(context, 'createSession', { body }, about);
  const as = (await context.knownHandle()) ?? null;
  // Whoever creates a session is in it, and is not asked.
  const asked = handles.filter((handle) => handle !== as);
  const invited = handles.length === 1 ? asked : await invitedOf(context, reply.session_id, asked);
  return {
    session_id: reply.session_id,
    message_id: null,
    sequence: reply.sequence,
    state: ends ? 'ended' : 'active',
    created_session: true,
    invited,
    omitted: invited && asked.filter((handle) => !invited.includes(handle)),
    attachments: [],
    idempotency_key: idempotencyKey ?? null,
    attempts,
    as,
  };
}

async function invitedOf(context: Context, sessionId: string, asked: readonly string[]) {
  const { readInvited } = await import('../session/read-invited.js');
  return readInvited(context, sessionId, asked);
}

export async function endSession(context: Context, sessionId: string, soFar: string): Promise<true> {
  const text = `${soFar}; the session was not ended.`;
  await write(
    context,
    'endSession',
    { path: { session_id: sessionId } },
    {
      subject: sessionId,
      again: ['asp', 'session', 'end', sessionId],
      outcomeText: { not_applied: text, unknown: `${soFar}; the session may have ended.`, applied: '' },
    },
  );
  return true;
}
