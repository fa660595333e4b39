import type { Client } from '../client/client.js';
import { RequestError } from '../client/client.js';
import { stableKey } from '../kit/random.js';
import { isMessageEvent } from '../wire/event.js';
import {
  ENDS_SESSION,
  FAILED,
  findInReplyTo,
  HOPS,
  IN_REPLY_TO,
  isFailureNotice,
  readHops,
  toText,
  type UnansweredReason,
} from '../wire/message.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import { Message } from '../wire/schemas/message.js';
import type { Content, JsonObject } from '../wire/schemas/requests.js';
import { type LimitName, type Limits, RUN_LIMITS, type Ticket } from './limits.js';
import { type AgentContext, persist, type Settled } from './persist.js';
import type { ProgressFile } from './progress-file.js';
import type { TakenReports } from './taken-reports.js';
import type { UnansweredReports } from './unanswered-reports.js';

/** The result of a command or a turn; `text` is empty if there is no reply. */
export type Produced = { readonly exitCode: number | null; readonly tries: number; readonly turn?: TurnFacts } & (
  | {
      readonly kind: 'printed';
      readonly text: string;
      /** Sent instead of the text if the reply has parts or files. */
      readonly content?: Content | undefined;
      /** Of the reply, besides what names the message that it answers. */
      readonly metadata?: JsonObject | undefined;
      /** Whether the session ends after this reply, even if the agent does not end each of them. */
      readonly ends?: boolean | undefined;
      /** What remains to be done once the reply is sent, or at once without one. */
      readonly after?: (() => Promise<void>) | undefined;
    }
  | {
      readonly kind: 'failed';
      readonly why: string;
      /** The sender gets no notice. */
      readonly isSilent?: boolean;
    }
);

/** What an agent program reported about its turn. */
export interface TurnFacts {
  readonly acp_session_id: string | null;
  readonly stop_reason: string | null;
  /** Tokens of the turn, if the program reports them. */
  readonly tokens: number | null;
  /** Of the agent's context window, in tokens. */
  readonly context_used: number | null;
  readonly context_size: number | null;
  /** For the whole session so far. */
  readonly cost: { readonly amount: number; readonly currency: string } | null;
  readonly permissions: { readonly allowed: number; readonly refused: number };
}

/** What a responder reports about a message. */
export interface Handover {
  /**
   * Called each time before the message is given to a handler. Resolves to the number of that time; earlier runs that
   * were killed or stopped count too.
   */
  begin(): Promise<number>;
  /** Called once a handler has certainly received the message. */
  onTaken(): void;
}

/** What makes the reply to a message. */
export interface Responder {
  /** Rejects with the signal's reason, or with an error if no message can be answered. */
  respond(event: Incoming, signal: AbortSignal, handover: Handover): Promise<Produced>;
  /** Whether an event belongs to something that it does itself, such as its own question. It sees every new event. */
  passesOver?(event: EventEnvelope): boolean;
  close(): Promise<void>;
}

/** The result for a message from another agent; `asp run` prints it. */
export interface RunRecord {
  readonly session_id: string;
  readonly event_id: string;
  readonly message_id: string;
  readonly sequence: number;
  readonly from: string;
  /** When the message was stored, by the service's clock, in milliseconds since the epoch. */
  readonly created_at: number;
  /** `answered`: an earlier run already replied. */
  readonly outcome: 'replied' | 'silent' | 'failed' | 'refused' | 'answered' | 'limited';
  readonly exit_code: number | null;
  readonly tries: number;
  /** For a failed command or a refused reply: the notice that was sent instead. */
  readonly reply: { readonly message_id: string; readonly sequence: number } | null;
  /** The code of the service's refusal, or the limit that was reached. */
  readonly code: string | null;
  /** When it was done, in milliseconds since the epoch. */
  readonly at: number;
  /** From the start of the command until its reply was sent. */
  readonly duration_ms: number;
  /** Only from an agent program. */
  readonly turn?: TurnFacts;
}

/** The result for a message; the caller adds the time. */
export type RunResult = Omit<RunRecord, 'at' | 'duration_ms'>;

/** What happens if the command fails for a message: the sender is notified, nothing is sent, or the run ends. */
export type OnFailure = 'reply' | 'skip' | 'stop';

/** What happens at a limit: no answer, or the run ends. */
export type OnLimit = 'skip' | 'stop';

/** Advice worded for the program: options have different names in a shell and in a library. */
export interface Advice {
  /** How to let an agent get answers. */
  readonly admit: string;
  /** How to answer messages from before the first run. */
  readonly since: string;
  /** Says that a budget has no effect, because the program does not report what its turns use. */
  readonly unreported: (limit: LimitName) => string;
  /** How a person lets the agent continue. */
  readonly limits: Readonly<Record<LimitName, string>>;
}

/** A message from another agent, as the envelope that carries it. */
export type Incoming = EventEnvelope & { readonly payload: Message };

/** What a message is answered with. */
export interface Answering {
  readonly context: AgentContext;
  readonly advice: Advice;
  readonly client: Client;
  readonly me: string;
  readonly respond: Responder['respond'];
  readonly begin: ProgressFile['begin'];
  readonly ends: boolean;
  readonly onFailure: OnFailure;
  readonly onLimit: OnLimit;
  readonly reports: TakenReports;
  readonly unanswered: UnansweredReports;
  readonly limits: Limits;
  /** Aborts everything in progress. */
  readonly signal: AbortSignal;
}

const FAILURE_NOTICE = 'Sorry, I could not process this message.';

/** Metadata of an automatic reply: the message that it answers, and how many automatic replies led to it. */
export function replyMetadata(message: Message): JsonObject {
  return { [IN_REPLY_TO]: message.id, [HOPS]: readHops(message) + 1 };
}

/** The message for the agent that an event carries, if it does, also one that came with the invitation to a session that has ended. */
export function findIncoming(event: EventEnvelope, me: string): Incoming | undefined {
  const message = isMessageEvent(event) ? event.payload : findOneShot(event, me);
  if (message === undefined || message.sender === me || isFailureNotice(message)) return undefined;
  return { ...event, type: 'session.message', payload: message };
}

function findOneShot({ type, payload }: EventEnvelope, me: string): Message | undefined {
  if (type !== 'session.invited' || payload['invitee'] !== me) return undefined;
  const { success, data } = Message.safeParse(payload['initial_message']);
  return success ? data : undefined;
}

/**
 * Gets the reply to a message and sends it. The key of the reply is derived from the event's id, and its metadata names
 * the message. So a later run recognizes an existing reply: by the key while the key is stored, and in
 * the replay forever.
 */
export async function answer(answering: Answering, event: Incoming): Promise<RunResult> {
  const { limits } = answering;
  const ticket = limits.begin(event.payload);
  if (typeof ticket === 'string') {
    await noteUnanswered(answering, event, ticket);
    // A budget applies to this run only: the next run answers the message.
    if (answering.onLimit === 'stop' && RUN_LIMITS.includes(ticket)) throw limitStop(event, ticket, answering.advice);
    return limited(answering, event, ticket);
  }
  let wasSent = false;
  try {
    const result = await respondAndSend(answering, event, ticket);
    wasSent = result.outcome === 'replied';
    return result;
  } finally {
    ticket.close(wasSent, event.payload.sequence);
    if (wasSent) answering.unanswered.forget(event.session_id);
    await limits.written();
  }
}

/** A message that came with an invitation is not part of a session that the agent has joined. */
const isInSession = (event: Incoming): boolean => event.sequence === event.payload.sequence;

async function noteUnanswered({ unanswered }: Answering, event: Incoming, reason: UnansweredReason): Promise<void> {
  if (isInSession(event)) await unanswered.report(event.session_id, event.sequence, reason);
}

/** Gets the reply to a message and sends it, or says why there is none. */
async function respondAndSend(answering: Answering, event: Incoming, ticket: Ticket): Promise<RunResult> {
  const { context, advice, respond, begin, reports, signal } = answering;
  const handover: Handover = {
    begin: () => begin(event),
    onTaken: () => {
      if (isInSession(event)) reports.note(event.session_id, event.sequence);
    },
  };
  const produced = await respond(event, signal, handover).catch(async (error: unknown) => {
    if (!signal.aborted) await noteUnanswered(answering, event, 'failed');
    throw error;
  });
  const { tries, exitCode, turn } = produced;
  for (const name of ticket.spend({ tokens: turn?.tokens ?? null, cost: turn?.cost ?? null }))
    await context.output.note(advice.unreported(name));
  const facts = { ...aboutMessage(event), exit_code: exitCode, tries, ...(turn !== undefined && { turn }) };
  if (produced.kind === 'printed') return sendReply(answering, event, facts, produced, ticket);
  const isSilent = produced.isSilent === true && answering.onFailure === 'reply';
  return sendFailure(isSilent ? { ...answering, onFailure: 'skip' } : answering, event, facts, produced.why);
}

/** A result without its outcome. */
type Facts = Omit<RunResult, 'outcome'>;

async function sendFailure(answering: Answering, event: Incoming, facts: Facts, why: string): Promise<RunResult> {
  if (answering.onFailure === 'stop') {
    await noteUnanswered(answering, event, 'failed');
    throw failureStop(event, why);
  }
  const notice = await notify(answering, event, why, 'reply');
  if (notice?.kind === 'answered')
    return { ...(await answeredBefore(answering, event, notice.reply)), tries: facts.tries };
  await noteUnanswered(answering, event, 'failed');
  const failed = { ...facts, outcome: 'failed' } as const;
  if (notice === undefined) return failed;
  return notice.kind === 'done' ? { ...failed, reply: notice.reply } : { ...failed, code: notice.error.code };
}

async function sendReply(
  answering: Answering,
  event: Incoming,
  facts: Facts,
  printed: Extract<Produced, { kind: 'printed' }>,
  ticket: Ticket,
): Promise<RunResult> {
  if (printed.text === '') {
    await printed.after?.();
    if (printed.ends === true) await endSession(answering, event.session_id);
    return { ...facts, outcome: 'silent' };
  }
  const limit = ticket.checkText(printed.text);
  if (limit !== undefined) return withhold(answering, event, facts, limit);
  const ending = { ...answering, ends: answering.ends || printed.ends === true };
  const sent = await reply(ending, event, printed.content ?? printed.text, {
    ...printed.metadata,
    ...(printed.ends === true && { [ENDS_SESSION]: true }),
    ...replyMetadata(event.payload),
  });
  if (sent.kind === 'done') {
    await printed.after?.();
    return { ...facts, outcome: 'replied', reply: sent.reply };
  }
  const earlier = isKeyUsed(sent.error) ? await findEarlierReply(answering, event) : undefined;
  if (earlier !== undefined) return { ...(await answeredBefore(ending, event, earlier)), tries: facts.tries };
  if (sent.error.code === 'LOOP_GUARD') return withhold(answering, event, facts, 'loop_guard');
  await noteUnanswered(answering, event, 'refused');
  const { code, message } = sent.error;
  // Only the content may be at fault, such as a file that does not exist. The refusal is stored under the key of the reply.
  const notice = await notify(answering, event, `the reply was refused: ${code} (${message})`, 'notice');
  return { ...facts, outcome: 'refused', code, ...(notice?.kind === 'done' && { reply: notice.reply }) };
}

/** Does not send a reply, because a limit is reached. */
async function withhold(answering: Answering, event: Incoming, facts: Facts, limit: LimitName): Promise<RunResult> {
  await noteUnanswered(answering, event, limit);
  const { exit_code, tries } = facts;
  return { ...facts, ...(await limited(answering, event, limit)), exit_code, tries };
}

/** Another worker or an earlier run sent a different reply to the same message, or tried to. */
const isKeyUsed = ({ code }: RequestError): boolean => code === 'IDEMPOTENCY_MISMATCH';

/** The reply that another worker or an earlier run sent. One that the service refused is not in the session. */
async function findEarlierReply(
  { context, client, me, signal }: Answering,
  { session_id: sessionId, sequence, payload }: Incoming,
): Promise<Message | undefined> {
  const found = await persist(context, signal, async () => {
    const path = { session_id: sessionId };
    for await (const { events } of client.pages('replayEvents', { path, query: { after_sequence: sequence }, signal }))
      for (const event of events) {
        const isReply = isMessageEvent(event) && event.payload.sender === me;
        if (isReply && findInReplyTo(event.payload) === payload.id) return event.payload;
      }
    return undefined;
  });
  return found.kind === 'done' ? found.reply : undefined;
}

/**
 * Sends a notice to the sender of a message, if that is what happens after a failure, and says why there is no reply.
 * `answered`: there is one, of another worker or an earlier run. If an earlier reply was refused, its key is used up.
 */
async function notify(
  answering: Answering,
  event: Incoming,
  why: string,
  keyName: 'reply' | 'notice',
): Promise<
  Settled<NonNullable<RunRecord['reply']>> | { readonly kind: 'answered'; readonly reply: Message } | undefined
> {
  const { context, onFailure } = answering;
  const metadata = { [FAILED]: true, [IN_REPLY_TO]: event.payload.id };
  const notice = onFailure === 'reply' ? await reply(answering, event, FAILURE_NOTICE, metadata, keyName) : undefined;
  if (keyName === 'reply' && notice?.kind === 'refused' && isKeyUsed(notice.error)) {
    const earlier = await findEarlierReply(answering, event);
    return earlier === undefined ? notify(answering, event, why, 'notice') : { kind: 'answered', reply: earlier };
  }
  const what = notice?.kind === 'done' ? 'the sender is notified.' : 'no reply was sent.';
  await context.output.note(`${event.event_id}: ${why.replace(/\.$/, '')}; ${what}`);
  return notice;
}

/** Says which limit stops the agent here, and how to continue, unless the error that ends the run says it. */
async function limited(answering: Answering, event: Incoming, limit: LimitName): Promise<RunResult> {
  const { context, advice, onLimit } = answering;
  if (onLimit === 'skip')
    await context.output.note(
      `${event.session_id}: no reply, because the limit ${limit} is reached. ${advice.limits[limit]}`,
    );
  return { ...aboutMessage(event), outcome: 'limited', code: limit, exit_code: null, tries: 0 };
}

/** Sends the one reply to a message, and ends the session if requested. */
async function reply(
  answering: Answering,
  event: Incoming,
  content: Content,
  metadata: JsonObject,
  keyName: 'reply' | 'notice' = 'reply',
): Promise<Settled<NonNullable<RunRecord['reply']>>> {
  const { context, client, me, ends, signal } = answering;
  const path = { session_id: event.session_id };
  const body = { content, metadata };
  const idempotencyKey = stableKey(me, `POST /sessions/${event.session_id}/messages`, `${keyName}:${event.event_id}`);
  const sent = await persist(context, signal, () => client.call('sendMessage', { path, body, idempotencyKey, signal }));
  if (sent.kind === 'refused') return sent;
  if (ends) await endSession(answering, event.session_id);
  const { message_id, sequence } = sent.reply.reply;
  return { kind: 'done', reply: { message_id, sequence } };
}

/** Ends the run. */
export function limitStop(
  { session_id: sessionId }: Pick<EventEnvelope, 'session_id'>,
  limit: LimitName,
  { limits: howToGoOn }: Advice,
): RequestError {
  const what = RUN_LIMITS.includes(limit) ? 'Its message is left for the next run' : 'Its message gets no reply';
  const message = `${sessionId}: the limit ${limit} is reached. ${what}. ${howToGoOn[limit]}`;
  return new RequestError({ code: 'ASP_LIMIT', message });
}

function failureStop(event: Incoming, why: string): RequestError {
  return new RequestError({
    code: 'ASP_PARTIAL',
    message: `${event.event_id}: ${why}. The message is left for the next run.`,
  });
}

/** The remaining work for a message that an earlier run replied to, if it is known with what, and whether the session ended since. */
export async function answeredBefore(
  answering: Answering,
  event: Incoming,
  reply?: Message,
  isEnded = false,
): Promise<RunResult> {
  const { limits } = answering;
  const isNotice = reply !== undefined && isFailureNotice(reply);
  if (!isNotice) limits.recover(event.payload, reply && toText(reply.content));
  await limits.written();
  const ends = answering.ends || reply?.metadata?.[ENDS_SESSION] === true;
  if (ends && !isEnded) await endSession(answering, event.session_id);
  return { ...aboutMessage(event), outcome: 'answered', exit_code: null, tries: 0 };
}

function aboutMessage(event: Incoming) {
  const { session_id, event_id, payload } = event;
  const { id: message_id, sequence, sender: from, created_at } = payload;
  return { session_id, event_id, message_id, sequence, from, created_at, reply: null, code: null };
}

/** The session may have ended already; not an error. */
async function endSession({ context, client, signal }: Answering, sessionId: string): Promise<void> {
  await persist(context, signal, () => client.call('endSession', { path: { session_id: sessionId }, signal }));
}
