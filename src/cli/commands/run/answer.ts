import type { Client } from '../../../client/client.js';
import type { EventEnvelope } from '../../../wire/event.js';
import { IN_REPLY_TO, type Message } from '../../../wire/message.js';
import { stableKey } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { persist } from './persist.js';
import { type CommandRules, runCommand } from './run-command.js';

/** What `asp run` prints of a message of others. */
export interface RunRecord {
  readonly session_id: string;
  readonly event_id: string;
  readonly message_id: string;
  readonly sequence: number;
  readonly from: string;
  /** `answered`: an earlier run did it already. */
  readonly outcome: 'replied' | 'silent' | 'failed' | 'refused' | 'answered';
  readonly exit_code: number | null;
  readonly tries: number;
  readonly reply: { readonly message_id: string; readonly sequence: number } | null;
  /** The code of the service's refusal. */
  readonly code: string | null;
}

/** A message of someone else, as the envelope that carries it. */
export type Incoming = EventEnvelope & { readonly payload: Message };

export interface Answering {
  readonly context: Context;
  readonly client: Client;
  readonly me: string;
  readonly rules: CommandRules;
  readonly ends: boolean;
  /** Nothing under way goes on after it. */
  readonly signal: AbortSignal;
}

/**
 * Runs the command for a message and sends what it prints. The key of the reply is made of the event's id, and the reply
 * says in its metadata what it replies to: within the life of a key, and in the replay for ever, it is known to be there.
 */
export async function answer(answering: Answering, event: Incoming): Promise<RunRecord> {
  const { context, client, me, rules, ends, signal } = answering;
  const { output } = context;
  const about = aboutMessage(event);
  const printed = await runCommand(context, rules, event, me, signal);
  const { tries } = printed;
  if (printed.kind === 'failed') {
    await output.note(`${event.event_id}: ${printed.why}; no reply was sent.`);
    return { ...about, outcome: 'failed', exit_code: printed.exitCode, tries };
  }
  if (printed.text === '') return { ...about, outcome: 'silent', exit_code: 0, tries };
  const path = { session_id: event.session_id };
  const body = { content: printed.text, metadata: { [IN_REPLY_TO]: event.payload.id } };
  const idempotencyKey = stableKey(me, `POST /sessions/${event.session_id}/messages`, `reply:${event.event_id}`);
  const sent = await persist(context, signal, () => client.call('sendMessage', { path, body, idempotencyKey, signal }));
  if (sent.kind === 'done') {
    if (ends) await endSession(answering, event.session_id);
    const { message_id, sequence } = sent.reply.reply;
    return { ...about, outcome: 'replied', exit_code: 0, tries, reply: { message_id, sequence } };
  }
  // The command said something else this time; what it said before was sent.
  if (sent.error.code === 'IDEMPOTENCY_MISMATCH') return { ...(await answeredBefore(answering, event)), tries };
  await output.note(`${event.event_id}: the reply was refused: ${sent.error.code}`);
  return { ...about, outcome: 'refused', exit_code: 0, tries, code: sent.error.code };
}

/** What is left to do for a message that an earlier run replied to. */
export async function answeredBefore(answering: Answering, event: Incoming): Promise<RunRecord> {
  if (answering.ends) await endSession(answering, event.session_id);
  return { ...aboutMessage(event), outcome: 'answered', exit_code: null, tries: 0 };
}

function aboutMessage(event: Incoming) {
  const { session_id, event_id, payload } = event;
  const { id: message_id, sequence, sender: from } = payload;
  return { session_id, event_id, message_id, sequence, from, reply: null, code: null };
}

/** That it has ended already is no failure. */
async function endSession({ context, client, signal }: Answering, sessionId: string): Promise<void> {
  await persist(context, signal, () => client.call('endSession', { path: { session_id: sessionId }, signal }));
}
