import { AsyncLocalStorage } from 'node:async_hooks';
import { setMaxListeners } from 'node:events';

import type { Advice, Handover, Incoming, Produced, RunRecord } from '../agent/answer.js';
import { type AgentContext, persist, waitForService } from '../agent/persist.js';
import { lockProgress, openProgress } from '../agent/progress-file.js';
import { createRelations } from '../agent/relation.js';
import { createReplyMatcher, isOver } from '../agent/reply-matcher.js';
import { type AnswerAll, type Stops, serveAgent } from '../agent/serve-agent.js';
import { serviceTime } from '../agent/start-points.js';
import { type Client, RequestError } from '../client/client.js';
import { abortion } from '../client/http/request-error.js';
import { abortAfter, backoffMs, orAborted, systemClock, wait } from '../kit/clock.js';
import { readMs } from '../kit/duration.js';
import { capitalized } from '../kit/format.js';
import { joinSignals } from '../kit/join-signals.js';
import { stableKey } from '../kit/random.js';
import { didYouMean, requireKnownOptions } from '../kit/suggest.js';
import { EVENT_TYPES, type EventType, isMessageEvent } from '../wire/event.js';
import { isHandle, toHandle } from '../wire/handle.js';
import { MESSAGE_BODY_MAX_BYTES } from '../wire/limit.js';
import {
  AWAITS_REPLY,
  CHOICE_MAX_LENGTH,
  CHOICES,
  CHOICES_MAX,
  CHOICES_MIN,
  findChoice,
  isFailureNotice,
  listChoices,
  textPartsOf,
  toText,
} from '../wire/message.js';
import type { Relation } from '../wire/relation.js';
import type { AnswerOf } from '../wire/schemas/endpoint.js';
import type { EventEnvelope, TypedEvent } from '../wire/schemas/event.js';
import { describeIssue } from '../wire/schemas/issue.js';
import type { Message } from '../wire/schemas/message.js';
import { Content } from '../wire/schemas/requests.js';
import { findIdentity, getIdentity, type Identity, type IdentityOptions } from './identity.js';

/** A duration: `500ms`, `30s`, `10m`, `2h`, `7d`, or milliseconds. */
export type Duration = string | number;

/** How an agent is set up. */
export interface CreateAgentOptions extends IdentityOptions {
  /** Acts through this client instead of credentials that `asp` finds. Set `progressFile` too, or progress ends with the process. */
  readonly client?: Client | undefined;
  /** The agents that may invite this one and get answers (default: agents of the same owner, and its allowlist). */
  readonly from?: readonly string[] | 'anyone' | undefined;
  /** Whether the agent joins the sessions it is invited to (default: true). */
  readonly joins?: boolean | undefined;
  /**
   * Whether other programs, here or on other machines, answer as the same agent (default: false). Each message goes to
   * one of them. Each needs its own progress file.
   */
  readonly shared?: boolean | undefined;
  /** Whether a session ends after the reply (default: false). */
  readonly ends?: boolean | undefined;
  /** How many sessions are handled at a time (default: 4). */
  readonly concurrency?: number | undefined;
  /** Limit of one call of the handler or of a listener of events (default: `10m`). */
  readonly timeout?: Duration | undefined;
  /** How many times a failing handler is called for one message (default: 1). */
  readonly tries?: number | undefined;
  /**
   * After the last failure: notify the sender, stay silent, or end `run` and leave the message for the next one
   * (default: `reply`).
   */
  readonly onFailure?: 'reply' | 'skip' | 'stop' | undefined;
  /** How long handlers may take to finish after the stop (default: `10s`). */
  readonly grace?: Duration | undefined;
  /** Where the progress is kept (default: where `asp run` keeps it). */
  readonly progressFile?: string | undefined;
  /** Without progress of an earlier run: answer messages without a reply that are up to this old (default: none). */
  readonly since?: Duration | undefined;
  /** Limits that keep two agents from answering each other forever. Zero: no limit. */
  readonly limits?: AgentLimits | undefined;
  /**
   * Gets notes for people: a lost connection, a limit that was reached, a failed handler (default: a process warning).
   */
  readonly onNote?: ((text: string) => void) | undefined;
}

/** How much an agent may do before a person has to take a look. 0 means no limit. */
export interface AgentLimits {
  /** Replies in a session since the last message of one of the `humans` (default: 20). */
  readonly replies?: number | undefined;
  /** Replies within an hour (default: 0). */
  readonly repliesPerHour?: number | undefined;
  /** Automatic replies in a chain (default: 50). */
  readonly hops?: number | undefined;
  /** Agents that people use to write messages. */
  readonly humans?: readonly string[] | undefined;
}

/** A message for the agent. */
export type IncomingMessage = Message & {
  /** Its text parts, joined by line breaks. */
  readonly text: string;
};

/** Where a message came from, and what a handler can do besides answering. */
export interface AgentSession {
  readonly id: string;
  /** How the sender is related to the agent. The service proves the handle, not the intent. */
  readonly relation: Relation;
  /**
   * The number of this call for the message. If it is 2 or more, a handler got the message before, perhaps in a process
   * that was killed, and may have done part of the work.
   */
  readonly attempt: number;
  /** Aborts when the call takes too long or the agent stops. */
  readonly signal: AbortSignal;
  readonly client: Client;
  /** The messages among the last `events` events (default: 50), oldest first; some may have arrived after this message. */
  history(events?: number): Promise<IncomingMessage[]>;
  /**
   * Sends a message before the reply, and waits for an unavailable service. If the handler is called again, its nth
   * message is not sent again. A sender that waits for one answer gets the first message.
   */
  send(content: Content): Promise<void>;
}

/** What a handler returns: text or parts, or nothing for no reply. */
export type Reply = Content | undefined;

/** Makes the reply to a message. */
export type MessageHandler = (message: IncomingMessage, session: AgentSession) => Reply | Promise<Reply>;

/** The result for a message. `code` is the code of a refusal, or the limit that was reached. */
export type AnswerResult = Pick<
  RunRecord,
  'session_id' | 'message_id' | 'sequence' | 'from' | 'outcome' | 'tries' | 'reply' | 'code' | 'at' | 'duration_ms'
>;

/** Options of {@link Agent.ask}. */
export interface AskOptions {
  /** How long to wait for the answer (default: `1m`). */
  readonly timeout?: Duration | undefined;
  /**
   * The possible answers: 2 to 10 different texts of 1 to 80 characters. Only one of them counts as the answer, in upper or
   * lower case. The dashboard shows them as buttons, so a person can answer from a phone.
   */
  readonly choices?: readonly string[] | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Leave the session open after the answer, to continue there (default: false). */
  readonly keepsSession?: boolean | undefined;
  /** A name for this question. Repeated calls with the same name send it once. */
  readonly once?: string | undefined;
}

/** The answer to a question. */
export interface Answer {
  readonly text: string;
  /** The choice that it is, as the question named it; undefined without choices. */
  readonly choice: string | undefined;
  readonly message: Message;
  readonly sessionId: string;
}

/** An agent: it answers messages, and asks others. */
export interface Agent extends AsyncDisposable {
  /** The client of the agent, for everything else. */
  client(): Promise<Client>;
  /** The handle that the agent acts as. */
  handle(): Promise<string>;
  /**
   * Sets the handler that answers messages. Each message is answered once, across restarts; only a handler that was cut
   * off is called again, and `session.attempt` says so.
   */
  onMessage(handler: MessageHandler): Agent;
  /** Calls the listener with each new event of one type. A message is answered once the listeners are done. */
  on<Type extends EventType>(type: Type, listener: (event: TypedEvent<Type>) => void | Promise<void>): Agent;
  /** Calls the listener with the result for each message. */
  onResult(listener: (result: AnswerResult) => void): Agent;
  /** Calls the listener with errors of handlers and listeners; without a listener, they become notes. */
  onError(listener: (error: unknown, message: IncomingMessage | undefined) => void): Agent;
  /**
   * Answers messages until `signal` aborts or the agent is closed, and lets handlers finish. `onReady` is called once
   * the agent is answering new messages.
   * @throws RequestError `ASP_ALREADY_RUNNING` if another process answers as this agent, and errors that waiting cannot fix.
   */
  run(options?: {
    readonly signal?: AbortSignal | undefined;
    readonly onReady?: (() => void) | undefined;
  }): Promise<void>;
  /**
   * Starts a session with an agent, waits for its answer, and ends the session.
   * @throws RequestError `ASP_TIMEOUT` if there is no answer in time, `ASP_NO_ANSWER` if the other agent reports a failure or leaves.
   * Their `sessionId` names the session of the question.
   */
  ask(handle: string, content: Content, options?: AskOptions): Promise<Answer>;
  /**
   * Stops answering, lets handlers finish, and closes the connections. In a handler or a listener, it does not wait for
   * that.
   */
  close(): Promise<void>;
}

const ADVICE: Advice = {
  admit: 'Add it to the allowlist, or name it in the option from.',
  since: 'To also answer earlier messages, set the option since.',
  unreported: () => '',
  limits: {
    max_replies: 'A message from an agent in limits.humans resets the count.',
    max_replies_per_hour: 'Wait, or raise limits.repliesPerHour.',
    max_hops: 'A new message from a person starts a new chain; limits.hops raises the limit.',
    max_tokens: '',
    max_cost: '',
    loop_guard: 'The service waits for a message from a person: in the dashboard, or with asp chat.',
    repeated: 'The reply was the same three times in a row. A new message from a person resets this.',
  },
};

const HISTORY_EVENTS = 50;
const FIRST_PAUSE_MS = 1_000;

/** Creates an agent. Nothing is read or sent before its first use. */
export function createAgent(options: CreateAgentOptions = {}): Agent {
  const settings = readSettings(options);
  const note = options.onNote ?? ((text: string): void => process.emitWarning(withoutControls(text), 'AspAgent'));
  const callbacks = new Callbacks(note, settings.timeoutMs);
  const life = new AbortController();
  setMaxListeners(0, life.signal);
  let identity: Promise<Identity> | undefined;
  let running: Promise<void> | undefined;
  let closing: Promise<void> | undefined;

  const context: AgentContext = {
    clock: systemClock,
    output: { note: async (text) => note(text), detail: async () => {} },
    globals: {},
  };
  const requireOpen = (): void => {
    if (life.signal.aborted) throw new Error('This agent was closed.');
  };
  const who = (): Promise<Identity> => {
    requireOpen();
    identity ??=
      options.client === undefined
        ? findIdentity(options, life.signal)
        : Promise.resolve(getIdentity(options.client, options.handle));
    return identity;
  };

  const agent: Agent = {
    client: async () => (await who()).client(),
    handle: async () => (await who()).handle(),
    onMessage(handler) {
      requireFunction('onMessage', handler);
      if (callbacks.handler !== undefined) throw new Error('This agent already has a message handler.');
      callbacks.handler = handler;
      return agent;
    },
    on(type, listener) {
      if (!EVENT_TYPES.includes(type)) {
        const hint = didYouMean(type, EVENT_TYPES) ?? `the types are ${EVENT_TYPES.join(', ')}.`;
        throw new TypeError(`'${type}' is not an event type. ${capitalized(hint)}`);
      }
      requireFunction('on', listener);
      callbacks.onEvent.set(type, [...(callbacks.onEvent.get(type) ?? []), listener]);
      return agent;
    },
    onResult(listener) {
      requireFunction('onResult', listener);
      callbacks.onResult.push(listener);
      return agent;
    },
    onError(listener) {
      requireFunction('onError', listener);
      callbacks.onError.push(listener);
      return agent;
    },
    async run(options = {}) {
      requireKnownOptions('run', options, { signal: true, onReady: true });
      const { signal, onReady = () => {} } = options;
      requireOpen();
      const { handler } = callbacks;
      if (handler === undefined) throw new Error('This agent has no handler: call onMessage before run.');
      if (running !== undefined) throw new Error('This agent is already running.');
      const stop = signal === undefined ? life.signal : AbortSignal.any([life.signal, signal]);
      running = serveAgent(context, ADVICE, settings.engine, stop, async (stops, answerAll) => {
        const found = await who();
        await openAndAnswer({ context, settings, callbacks, handler, identity: found, onReady }, stops, answerAll);
      }).finally(() => {
        running = undefined;
      });
      return running;
    },
    async ask(handle, content, options = {}) {
      requireKnownOptions('ask', options, ASK_OPTIONS);
      const [to = ''] = readHandles('ask', [String(handle)]);
      requireQuestion(content);
      requireChoices(options.choices);
      const found = await who();
      const [client, me] = [await found.client(), await found.handle()];
      const { signal, release } = joinSignals(options.signal, life.signal);
      return askAgent({ client, me, to }, content, { ...options, signal }).finally(release);
    },
    async close() {
      const found = identity;
      life.abort(new Error('The agent was closed.'));
      closing ??= (async () => {
        await running?.catch(() => {});
        await (await found?.catch(() => undefined))?.close();
      })();
      if (!callbacks.isInside) await closing;
    },
    [Symbol.asyncDispose]: () => agent.close(),
  };
  return agent;
}

interface Run {
  readonly context: AgentContext;
  readonly settings: Settings;
  readonly callbacks: Callbacks;
  readonly handler: MessageHandler;
  readonly identity: Identity;
  readonly onReady: () => void;
}

/** Opens the progress file, which no other process may use in the meantime, and answers messages with the handler. */
async function openAndAnswer(run: Run, { soft, hard }: Stops, answerAll: AnswerAll): Promise<void> {
  const { context, settings, callbacks, identity, onReady } = run;
  const client = await waitForService(context, soft, () => identity.client());
  const me = await waitForService(context, soft, () => identity.handle());
  const path = settings.progressFile ?? (await identity.progressPath());
  const release = path === undefined ? () => {} : await lockProgress(context, me, path);
  if (release === undefined)
    throw new RequestError({
      code: 'ASP_ALREADY_RUNNING',
      message: `Another process already answers as ${me}. Both would store their progress in ${path}.`,
    });
  try {
    const now = (): Promise<number> => serviceTime(client, context.clock.now(), soft);
    const { sinceMs } = settings.engine;
    const progress = await openProgress(path, async () => sinceMs ?? waitForService(context, soft, now));
    const findRelation = createRelations({ context, client, me, signal: hard.signal });
    await answerAll({
      client,
      me,
      progress,
      progressPath: path,
      findRelation: createRelations({ context, client, me, signal: soft }),
      onEvent: (event) => callbacks.passOnEvent(event, hard.signal),
      // Not awaited: the callback may be waiting for this agent to answer.
      onReady: async () => {
        const returned: unknown = onReady();
        Promise.resolve(returned).catch((error: unknown) => callbacks.report('The function onReady', error));
      },
      onRecord: async (record) => callbacks.passOnResult(record),
      async respond(event, signal, { begin, onTaken }) {
        onTaken();
        const relation = await findRelation(event.payload.sender);
        return respond(run, { client, me, event, relation }, begin, signal);
      },
    });
  } finally {
    release();
  }
}

/** A message for the handler. */
interface Delivered {
  readonly client: Client;
  readonly me: string;
  readonly event: Incoming;
  readonly relation: Relation;
}

/** Calls the handler until it succeeds, or has failed as often as it may. */
async function respond(
  { context, settings, callbacks, handler }: Run,
  delivered: Delivered,
  begin: Handover['begin'],
  stop: AbortSignal,
): Promise<Produced> {
  const message = withText(delivered.event.payload);
  for (let tries = 1; ; tries += 1) {
    const attempt = await begin();
    try {
      const call = (signal: AbortSignal) => handler(message, createSession(context, delivered, attempt, signal));
      const content = readReply(await callbacks.call('handler', stop, call));
      return { kind: 'printed', exitCode: null, tries, text: content === undefined ? '' : toText(content), content };
    } catch (error) {
      stop.throwIfAborted();
      callbacks.report('The handler of onMessage', error, message);
      const why = error instanceof Error ? error.message : String(error);
      if (tries >= settings.tries) return { kind: 'failed', exitCode: null, tries, why };
    }
    await wait(context.clock, backoffMs(FIRST_PAUSE_MS, tries - 1), stop);
  }
}

/** The session as one call of the handler sees it. */
function createSession(
  context: AgentContext,
  { client, me, event, relation }: Delivered,
  attempt: number,
  signal: AbortSignal,
): AgentSession {
  setMaxListeners(0, signal);
  const { session_id: sessionId } = event;
  let sent = 0;
  return {
    id: sessionId,
    relation,
    attempt,
    signal,
    client,
    async history(last = HISTORY_EVENTS) {
      const messages: IncomingMessage[] = [];
      for await (const item of client.tail({ sessions: [{ sessionId, last }], isFollowing: false, signal }))
        if (item.kind === 'event' && isMessageEvent(item.event)) messages.push(withText(item.event.payload));
      return messages;
    },
    async send(content) {
      sent += 1;
      const name = `send:${event.event_id}:${sent}`;
      const idempotencyKey = stableKey(me, `POST /sessions/${sessionId}/messages`, name);
      const input = { path: { session_id: sessionId }, body: { content }, idempotencyKey, signal };
      const settled = await persist(context, signal, () => client.call('sendMessage', input));
      // An earlier call of the handler sent something else in its place.
      if (settled.kind === 'refused' && settled.error.code !== 'IDEMPOTENCY_MISMATCH') throw settled.error;
    },
  };
}

/** The functions that the program gave to its agent. */
class Callbacks {
  handler: MessageHandler | undefined;
  readonly onEvent = new Map<string, ((event: never) => void | Promise<void>)[]>();
  readonly onResult: ((result: AnswerResult) => void)[] = [];
  readonly onError: ((error: unknown, message: IncomingMessage | undefined) => void)[] = [];
  readonly #note: (text: string) => void;
  readonly #timeoutMs: number;
  readonly #inside = new AsyncLocalStorage<true>();

  constructor(note: (text: string) => void, timeoutMs: number) {
    this.#note = note;
    this.#timeoutMs = timeoutMs;
  }

  /** Whether a handler or listener is calling: it cannot wait for its own end. */
  get isInside(): boolean {
    return this.#inside.getStore() !== undefined;
  }

  /** `which` begins the note if the program does not listen to errors. */
  report(which: string, error: unknown, message?: IncomingMessage): void {
    for (const listener of this.onError)
      guard(
        () => listener(error, message),
        (second) => this.#note(`A listener of onError failed: ${describe(second)}`),
      );
    if (this.onError.length === 0) this.#note(`${which} failed: ${describe(error)}`);
  }

  async passOnEvent(event: EventEnvelope, stop: AbortSignal): Promise<void> {
    for (const listener of this.onEvent.get(event.type) ?? [])
      try {
        await this.call('listener', stop, () => listener(event as never));
      } catch (error) {
        stop.throwIfAborted();
        this.report(`A listener of ${event.type}`, error);
      }
  }

  passOnResult(result: AnswerResult): void {
    for (const listener of this.onResult)
      guard(
        () => listener(result),
        (error) => this.report('A listener of onResult', error),
      );
  }

  /** Calls one of them. After the time limit, or when the agent stops, the agent no longer waits for it. */
  call<Value>(
    noun: 'handler' | 'listener',
    stop: AbortSignal,
    callback: (signal: AbortSignal) => Value | Promise<Value>,
  ): Promise<Value> {
    const late = (): Error => new Error(`the ${noun} took longer than ${this.#timeoutMs / 1000} s`);
    const called = async (signal: AbortSignal): Promise<Value> => callback(signal);
    return this.#inside.run(true, () =>
      abortAfter(systemClock, this.#timeoutMs, late, (signal) => orAborted(called(signal), signal), stop),
    );
  }
}

/** A program without types would learn of it at the first message. */
function requireFunction(name: string, callback: unknown): void {
  if (typeof callback !== 'function') throw new TypeError(`${name} needs a function.`);
}

/** Calls a function of the program without waiting for it: it may be asynchronous, whatever its type says. */
function guard(callback: () => unknown, onFailure: (error: unknown) => void): void {
  const call = async (): Promise<unknown> => callback();
  call().catch(onFailure);
}

const describe = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));

/** The content of a reply; undefined if there is none, which programs without types write in other ways too. */
function readReply(reply: unknown): Content | undefined {
  if (reply === undefined || reply === null || (typeof reply === 'string' && reply.trim() === '')) return undefined;
  const { success, data, error } = Content.safeParse(reply);
  if (!success) {
    const [issue] = error.issues;
    const isContent = issue !== undefined && (typeof reply === 'string' || Array.isArray(reply));
    const why = isContent ? describeIssue(issue, 'The list of parts') : 'It is neither text nor a list of parts.';
    throw new TypeError(`The handler returned a reply that cannot be sent: ${why}`);
  }
  if (Buffer.byteLength(JSON.stringify(data)) <= MESSAGE_BODY_MAX_BYTES) return data;
  throw new RangeError(`The handler returned a reply larger than ${MESSAGE_BODY_MAX_BYTES / 1024} KiB.`);
}

interface Parties {
  readonly client: Client;
  readonly me: string;
  readonly to: string;
}

/** How work ends whose signal was aborted. */
const ENDS: readonly string[] = ['ASP_ABORTED', 'ASP_TIMEOUT'];

async function askAgent(
  parties: Parties,
  content: Content,
  { timeout = '1m', choices = [], signal, keepsSession = false, once }: AskOptions,
): Promise<Answer> {
  const { me, to } = parties;
  if (to === me) throw new TypeError(`${to} is the agent itself, so no one else would get the question.`);
  const timeoutMs = readMs('timeout', timeout);
  let sessionId: string | undefined;
  let isLate = false;
  const where = (): string => (sessionId === undefined ? '' : ` The question is in ${sessionId}.`);
  const tooLate = (): RequestError =>
    new RequestError({
      code: 'ASP_TIMEOUT',
      message: `${to} did not answer within ${timeoutMs / 1000} s.${where()}`,
      outcome: sessionId === undefined ? 'unknown' : 'applied',
      sessionId,
    });
  const late = (): RequestError => {
    isLate = true;
    return tooLate();
  };
  const work = async (until: AbortSignal): Promise<Answer> => {
    const asked = await sendQuestion(parties, content, { choices, once }, until);
    sessionId = asked.session_id;
    return waitForAnswer(parties, asked, { choices, keepsSession }, until);
  };
  try {
    return await abortAfter(systemClock, timeoutMs, late, work, signal);
  } catch (error) {
    // A single request can take too long on its own.
    if (isLate && error instanceof RequestError && error.code === 'ASP_TIMEOUT') throw tooLate();
    if (sessionId === undefined || signal?.aborted !== true) throw error;
    const isOfSignal = error === signal.reason || (error instanceof RequestError && ENDS.includes(error.code));
    if (!isOfSignal) throw error;
    const end = abortion(signal, 'applied');
    const what = end.code === 'ASP_TIMEOUT' ? `${to} did not answer in time.` : `Canceled before ${to} answered.`;
    throw new RequestError({ ...end, message: `${what}${where()}`, sessionId, cause: signal.reason });
  }
}

async function sendQuestion(
  { client, me, to }: Parties,
  content: Content,
  { choices, once }: { readonly choices: readonly string[]; readonly once: string | undefined },
  signal: AbortSignal,
): Promise<AnswerOf<'createSession'>> {
  const metadata = { [AWAITS_REPLY]: true, ...(choices.length > 0 && { [CHOICES]: [...choices] }) };
  try {
    const { reply } = await client.call('createSession', {
      body: { invite: [to], initial_message: { content, metadata } },
      idempotencyKey: once === undefined ? undefined : stableKey(me, 'POST /sessions', once),
      signal,
    });
    return reply;
  } catch (error) {
    if (!(error instanceof RequestError && error.code === 'NOT_FOUND')) throw error;
    const why = 'Either it does not exist, or it does not accept messages from you. The service does not say which.';
    throw new RequestError({ ...error, message: `${to} could not be reached. ${why}`, cause: error });
  }
}

async function waitForAnswer(
  { client, me, to }: Parties,
  asked: AnswerOf<'createSession'>,
  { choices, keepsSession }: { readonly choices: readonly string[]; readonly keepsSession: boolean },
  signal: AbortSignal,
): Promise<Answer> {
  const { session_id: sessionId, message_id } = asked;
  const sequence = asked.sequence ?? 0;
  const messageId = message_id ?? undefined;
  const isReply = createReplyMatcher(client, { me, sessionId, sequence, messageId, handle: to, signal });
  const noAnswer = (what: string): RequestError =>
    new RequestError({
      code: 'ASP_NO_ANSWER',
      message: `${to} ${what} (${sessionId}).`,
      outcome: 'applied',
      sessionId,
    });
  // The answer counts, whether or not the session can still be ended: the other agent may have done that.
  const endSession = async (): Promise<void> => {
    if (!keepsSession) await client.call('endSession', { path: { session_id: sessionId }, signal }).catch(() => {});
  };
  const sessions = [{ sessionId, after: sequence }];
  for await (const item of client.tail({ sessions, handle: me, sharesStream: true, signal })) {
    if (item.kind === 'end')
      throw noAnswer(
        `did not answer${item.reason === 'left' ? ` before ${me} left the session` : ': the session ended'}`,
      );
    if (item.kind !== 'event') continue;
    const { type, sequence: read } = item.event;
    if (type === 'session.left' && (await isOver(client, { me, sessionId, sequence: read, signal }))) {
      await endSession();
      throw noAnswer('left without an answer');
    }
    if (!isMessageEvent(item.event) || !(await isReply(item.event.payload))) continue;
    const message = item.event.payload;
    const { text } = withText(message);
    const choice = findChoice(choices, text);
    const isFailure = isFailureNotice(message);
    // Someone who is asked to choose may say something else first.
    if (choices.length > 0 && choice === undefined && !isFailure) continue;
    await endSession();
    if (isFailure) throw noAnswer('could not process the message');
    return { text, choice, message, sessionId };
  }
  signal.throwIfAborted();
  const message = `The client was closed before ${to} answered (${sessionId}).`;
  throw new RequestError({ code: 'ASP_ABORTED', message, outcome: 'applied', sessionId });
}

/** Text from others must not control the terminal of a person who reads a warning. */
function withoutControls(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]|\p{Cf}/gu, '');
}

function withText(message: Message): IncomingMessage {
  return { ...message, text: textPartsOf(message) };
}

function readCount(name: string, count: number, min: number): number {
  if (Number.isSafeInteger(count) && count >= min) return count;
  const unlimited = min === 0 ? '; 0 means no limit' : '';
  throw new TypeError(`${name} ${count} is not a whole number of at least ${min}${unlimited}.`);
}

function requireChoices(choices: readonly string[] | undefined): void {
  if (choices === undefined || listChoices({ metadata: { [CHOICES]: choices } }).length > 0) return;
  throw new TypeError(
    `choices takes ${CHOICES_MIN} to ${CHOICES_MAX} different texts of 1 to ${CHOICE_MAX_LENGTH} visible characters.`,
  );
}

/** JavaScript programs can pass anything. */
function requireQuestion(content: Content | null | undefined): void {
  const isEmpty = typeof content === 'string' ? content.trim() === '' : (content?.length ?? 0) === 0;
  if (isEmpty) throw new TypeError('ask needs a question: text or parts.');
}

function readHandles(name: string, handles: readonly string[]): readonly string[] {
  const wrong = handles.find((handle) => !isHandle(toHandle(handle)));
  if (wrong === undefined) return handles.map(toHandle);
  throw new TypeError(`${name}: '${wrong}' is not a handle, such as alice.bot.`);
}

const ASK_OPTIONS: Record<keyof Required<AskOptions>, true> = {
  ...{ timeout: true, choices: true, signal: true, keepsSession: true, once: true },
};
const AGENT_OPTIONS: Record<keyof Required<CreateAgentOptions>, true> = {
  ...{ handle: true, profile: true, client: true, from: true, joins: true, shared: true, ends: true },
  ...{ concurrency: true, timeout: true, tries: true, onFailure: true, grace: true, progressFile: true },
  ...{ since: true, limits: true, onNote: true },
};
const AGENT_LIMITS: Record<keyof Required<AgentLimits>, true> = {
  ...{ replies: true, repliesPerHour: true, hops: true, humans: true },
};
const ON_FAILURE = ['reply', 'skip', 'stop'];

type Settings = ReturnType<typeof readSettings>;

function readSettings(options: CreateAgentOptions) {
  requireKnownOptions('createAgent', options, AGENT_OPTIONS);
  requireKnownOptions('limits', options.limits ?? {}, AGENT_LIMITS);
  if (options.onFailure !== undefined && !ON_FAILURE.includes(options.onFailure))
    throw new TypeError(`onFailure '${options.onFailure}' is not one of ${ON_FAILURE.join(', ')}.`);
  const { limits = {}, from = [], timeout = '10m', grace = '10s', since, tries = 1, concurrency = 4 } = options;
  if (options.handle !== undefined) readHandles('handle', [options.handle]);
  if (from !== 'anyone' && !Array.isArray(from)) throw new TypeError("from is a list of handles, or 'anyone'.");
  return {
    timeoutMs: readMs('timeout', timeout),
    tries: readCount('tries', tries, 1),
    progressFile: options.progressFile,
    engine: {
      from: from === 'anyone' ? from : readHandles('from', from),
      joins: options.joins ?? true,
      isShared: options.shared ?? false,
      ends: options.ends ?? false,
      count: undefined,
      concurrency: readCount('concurrency', concurrency, 1),
      graceMs: readMs('grace', grace),
      sinceMs: since === undefined ? undefined : systemClock.now() - readMs('since', since),
      onFailure: options.onFailure ?? 'reply',
      onLimit: 'skip',
      limits: {
        replies: readCount('limits.replies', limits.replies ?? 20, 0),
        repliesPerHour: readCount('limits.repliesPerHour', limits.repliesPerHour ?? 0, 0),
        hops: readCount('limits.hops', limits.hops ?? 50, 0),
        tokens: 0,
        cost: 0,
        humans: readHandles('limits.humans', limits.humans ?? []),
      },
    },
  } as const;
}
