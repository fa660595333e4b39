import type { Client } from '../../../client/client.js';
import type { EventEnvelope } from '../../../wire/event.js';
import { findInReplyTo, IN_REPLY_TO, type JsonObject, type Message } from '../../../wire/message.js';
import { stableKey } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import type { CommandGuard } from './command-guard.js';
import { persist, type Settled } from './persist.js';
import type { RunOptions } from './run.js';
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
  /** Of a failed command: the notice that was sent instead of its reply. */
  readonly reply: { readonly message_id: string; readonly sequence: number } | null;
  /** The code of the service's refusal. */
  readonly code: string | null;
  /** When it was done, in milliseconds since the epoch. */
  readonly at: number;
  /** From the start of the command until its reply was sent. */
  readonly duration_ms: number;
}

/** What became of a message; when is for whoever asked to say. */
export type RunResult = Omit<RunRecord, 'at' | 'duration_ms'>;

/** A message of someone else, as the envelope that carries it. */
export type Incoming = EventEnvelope & { readonly payload: Message };

export interface Answering {
  readonly context: Context;
  readonly client: Client;
  readonly me: string;
  readonly rules: CommandRules;
  readonly guard: CommandGuard;
  readonly ends: boolean;
  readonly onFailure: RunOptions['onFailure'];
  /** Nothing under way goes on after it. */
  readonly signal: AbortSignal;
}

/** The member of a reply's metadata that is true where a command failed to make one. */
const FAILED = 'failed';
const FAILURE_NOTICE = 'Sorry, I could not process this message.';

/** Whether a message only says that another agent's command failed. As with bounced mail, nobody answers that. */
export function isFailureNotice(message: Message): boolean {
  return message.metadata?.[FAILED] === true && findInReplyTo(message) !== undefined;
}

/**
 * Runs the command for a message and sends what it prints. The key of the reply is made of the event's id, and the reply
 * says in its metadata what it replies to: within the life of a key, and in the replay for ever, it is known to be there.
 */
export async function answer(answering: Answering, event: Incoming): Promise<RunResult> {
  const { context, me, rules, guard, onFailure, signal } = answering;
  const { output } = context;
  const about = aboutMessage(event);
  const printed = await runCommand(context, rules, guard, event, me, signal);
  const { tries } = printed;
  if (printed.kind === 'failed') {
    const { exitCode, why } = printed;
    if (onFailure === 'stop') throw failureStop(event, why);
    const isTold = onFailure === 'reply';
    await output.note(`${event.event_id}: ${why}; ${isTold ? 'the sender is told.' : 'no reply was sent.'}`);
    const failed = { ...about, outcome: 'failed', exit_code: exitCode, tries } as const;
    const notice = isTold ? await reply(answering, event, FAILURE_NOTICE, { [FAILED]: true }) : undefined;
    if (notice === undefined) return failed;
    return notice.kind === 'done' ? { ...failed, reply: notice.reply } : { ...failed, code: notice.error.code };
  }
  if (printed.text === '') return { ...about, outcome: 'silent', exit_code: 0, tries };
  const sent = await reply(answering, event, printed.text);
  if (sent.kind === 'done') return { ...about, outcome: 'replied', exit_code: 0, tries, reply: sent.reply };
  // The command said something else this time; what it said before was sent.
  if (sent.error.code === 'IDEMPOTENCY_MISMATCH') return { ...(await answeredBefore(answering, event)), tries };
  await output.note(`${event.event_id}: the reply was refused: ${sent.error.code}`);
  return { ...about, outcome: 'refused', exit_code: 0, tries, code: sent.error.code };
}

/** Sends the one reply to a message, and ends the session where that is wanted. */
async function reply(
  answering: Answering,
  event: Incoming,
  content: string,
  metadata: JsonObject = {},
): Promise<Settled<NonNullable<RunRecord['reply']>>> {
  const { context, client, me, ends, signal } = answering;
  const path = { session_id: event.session_id };
  const body = { content, metadata: { ...metadata, [IN_REPLY_TO]: event.payload.id } };
  const idempotencyKey = stableKey(me, `POST /sessions/${event.session_id}/messages`, `reply:${event.event_id}`);
  const sent = await persist(context, signal, () => client.call('sendMessage', { path, body, idempotencyKey, signal }));
  if (sent.kind === 'refused') return sent;
  if (ends) await endSession(answering, event.session_id);
  const { message_id, sequence } = sent.reply.reply;
  return { kind: 'done', reply: { message_id, sequence } };
}

function failureStop(event: Incoming, why: string): CliError {
  return new CliError('ASP_PARTIAL', {
    message: `${event.event_id}: ${why}. The message is left to the next run.`,
    why: '--on-failure stop ends the run there.',
  });
}

/** What is left to do for a message that an earlier run replied to. */
export async function answeredBefore(answering: Answering, event: Incoming): Promise<RunResult> {
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
