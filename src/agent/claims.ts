import type { Client } from '../client/client.js';
import { abortAfter, type Clock, within } from '../kit/clock.js';
import type { ClaimReply } from '../wire/schemas/delivery.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Message } from '../wire/schemas/message.js';
import { type AgentContext, persist } from './persist.js';

/** How long a session stays with a worker that was killed. */
const LEASE_MS = 15_000;
/** One renewal may fail. A slow one does not delay the next. */
const RENEWED_EVERY_MS = 5_000;
/** Stopping waits at most this long to give sessions back. After that, their claims expire. */
const CLOSE_MS = 5_000;

const late = (): Error => new Error('the service did not answer in time');

/**
 * Who handles a message. `ours`: this worker; `attempt` counts the workers that may have begun, including this one. `done`:
 * no one has to. `answered`: another worker has sent this reply. `later`: another worker has the session until `over`.
 */
export type Turn =
  | { readonly kind: 'ours'; readonly attempt: number }
  | { readonly kind: 'done' }
  | { readonly kind: 'answered'; readonly reply: Message }
  | { readonly kind: 'later'; readonly over: Promise<void> };

/** A session that this worker has claimed, for an event. */
interface Held {
  readonly event: EventEnvelope;
  renewing: Promise<unknown>;
  stopRenewing: () => void;
}

/** The known facts about a session while some of its messages wait. */
interface Watched {
  /** The replies to these messages, as far as they were seen. */
  readonly replies: Map<string, Message | undefined>;
  /** Ends a pause. */
  wake?: (() => void) | undefined;
}

/** Shares the messages of an agent among its workers: before one handles a message, it claims the session. */
export class Claims {
  readonly #context: AgentContext;
  readonly #clock: Clock;
  readonly #client: Client;
  readonly #worker: string;
  readonly #signal: AbortSignal;
  readonly #held = new Map<string, Held>();
  readonly #watched = new Map<string, Watched>();

  /** `worker` is the name of this worker, which it keeps after a restart. */
  constructor(context: AgentContext, client: Client, worker: string, signal: AbortSignal) {
    this.#context = context;
    this.#clock = context.clock;
    this.#client = client;
    this.#worker = worker;
    this.#signal = signal;
  }

  /** Notes that a message of a session waits, until `end`. */
  watch(sessionId: string, messageId: string): void {
    const watched = this.#watched.get(sessionId) ?? { replies: new Map() };
    this.#watched.set(sessionId, watched);
    watched.replies.set(messageId, undefined);
  }

  /** Notes a reply of this agent, which another worker may have sent. */
  noteReply(sessionId: string, answered: string, reply: Message): void {
    const watched = this.#watched.get(sessionId);
    if (watched?.replies.has(answered) !== true) return;
    watched.replies.set(answered, reply);
    watched.wake?.();
  }

  /** The reply to a message that waits, if one was seen. */
  findReply(sessionId: string, messageId: string): Message | undefined {
    return this.#watched.get(sessionId)?.replies.get(messageId);
  }

  /** Claims the session of an event. `finishes`: whether nothing remains to be done after a reply. */
  async begin(event: EventEnvelope, messageId: string, finishes: (reply: Message) => boolean): Promise<Turn> {
    const { session_id: sessionId } = event;
    const reply = this.findReply(sessionId, messageId);
    if (reply !== undefined && finishes(reply)) return { kind: 'answered', reply };
    const claimed = await persist(this.#context, this.#signal, () => this.#claim(event, LEASE_MS, this.#signal));
    if (claimed.kind === 'refused') {
      // The session is gone, and with it the message.
      if (claimed.error.code === 'NOT_FOUND') return { kind: 'done' };
      throw claimed.error;
    }
    const { is_yours: isYours, is_done: isDone, expires_in_ms: freeInMs, attempt } = claimed.reply;
    if (isDone) return { kind: 'done' };
    if (!isYours) return { kind: 'later', over: this.#pause(sessionId, freeInMs) };
    this.#hold(event);
    return { kind: 'ours', attempt };
  }

  /** Reports an event as done, and gives the session back. */
  async end(event: EventEnvelope, messageId: string): Promise<void> {
    const { session_id: sessionId } = event;
    const watched = this.#watched.get(sessionId);
    watched?.replies.delete(messageId);
    if (watched?.replies.size === 0) this.#watched.delete(sessionId);
    const held = this.#held.get(sessionId);
    if (held === undefined) return;
    held.stopRenewing();
    await held.renewing;
    await persist(this.#context, this.#signal, () => this.#claim(event, 0, this.#signal, true));
    this.#held.delete(sessionId);
  }

  /** Gives back what is left after the stop. */
  async close(): Promise<void> {
    for (const { wake } of this.#watched.values()) wake?.();
    const all = [...this.#held.values()].map(async (held) => {
      held.stopRenewing();
      await held.renewing;
      const giveBack = (signal: AbortSignal) => this.#claim(held.event, 0, signal);
      await abortAfter(this.#clock, CLOSE_MS, late, giveBack).catch(() => {});
    });
    await within(this.#clock, CLOSE_MS, Promise.all(all), () => {});
  }

  async #claim(event: EventEnvelope, leaseMs: number, signal: AbortSignal, done?: true): Promise<ClaimReply> {
    const { session_id, event_id, sequence } = event;
    const body = { worker: this.#worker, event_id, sequence, lease_ms: leaseMs, ...(done && { done }) };
    const { reply } = await this.#client.call('claimSession', { path: { session_id }, body, signal, retries: 0 });
    return reply;
  }

  /** Renews the claim of an event until `stopRenewing`, or until another worker has it. */
  #hold(event: EventEnvelope): void {
    const held: Held = { event, renewing: Promise.resolve(), stopRenewing: () => {} };
    let isOver = false;
    const renew = async (): Promise<void> => {
      const claim = (signal: AbortSignal) => this.#claim(event, LEASE_MS, signal);
      const isLost = await abortAfter(this.#clock, RENEWED_EVERY_MS, late, claim, this.#signal).then(
        (claimed) => !claimed.is_yours,
        () => false,
      );
      if (!isLost && !isOver) renewLater();
    };
    const renewLater = (): void => {
      const cancel = this.#clock.schedule(RENEWED_EVERY_MS, () => {
        held.renewing = renew();
      });
      held.stopRenewing = () => {
        isOver = true;
        cancel();
      };
    };
    renewLater();
    this.#held.set(event.session_id, held);
  }

  /** Waits until the other worker's claim expires, or until a reply in the session is seen. */
  #pause(sessionId: string, ms: number): Promise<void> {
    const watched = this.#watched.get(sessionId);
    return new Promise((resolve) => {
      const wake = (): void => {
        if (watched !== undefined) watched.wake = undefined;
        cancel();
        resolve();
      };
      const cancel = this.#clock.schedule(ms, wake);
      if (watched !== undefined) watched.wake = wake;
    });
  }
}
