import type { Client } from '../client/client.js';
import { type Clock, within } from '../kit/clock.js';
import type { ClaimReply } from '../wire/schemas/delivery.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Message } from '../wire/schemas/message.js';
import { type AgentContext, persist } from './persist.js';

/** How long a session stays with a worker that was killed. */
const LEASE_MS = 15_000;
const RENEWED_EVERY_MS = 5_000;
/** Stopping waits at most this long to give sessions back. After that, their claims expire. */
const CLOSE_MS = 5_000;

/**
 * Who handles a message. `ours`: this worker; `attempt` counts the workers that may have begun, with this one. `done`:
 * nobody needs to. `answered`: another worker has sent this reply. `later`: another worker has the session until `over`.
 */
export type Turn =
  | { readonly kind: 'ours'; readonly attempt: number }
  | { readonly kind: 'done' }
  | { readonly kind: 'answered'; readonly reply: Message }
  | { readonly kind: 'later'; readonly over: Promise<void> };

/** A session that this worker has claimed. */
interface Held {
  renewing: Promise<unknown>;
  stopRenewing: () => void;
}

/** What is known about a session while some of its messages wait. */
interface Watched {
  /** What the workers have reported as done. */
  done: number;
  /** Replies of this agent, by the message that they answer. */
  readonly replies: Map<string, Message>;
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

  /** Notes that a session has waiting messages, until `end` says that it has none. */
  watch(sessionId: string): void {
    if (!this.#watched.has(sessionId)) this.#watched.set(sessionId, { done: 0, replies: new Map() });
  }

  /** Notes a reply of this agent, which another worker may have sent. */
  noteReply(sessionId: string, answered: string, reply: Message): void {
    const watched = this.#watched.get(sessionId);
    watched?.replies.set(answered, reply);
    watched?.wake?.();
  }

  /** The reply to a message, if one was seen. */
  findReply({ session_id: sessionId }: EventEnvelope, messageId: string): Message | undefined {
    return this.#watched.get(sessionId)?.replies.get(messageId);
  }

  /** Claims the session of an event. `finishes`: whether nothing remains to be done after a reply. */
  async begin(
    { session_id: sessionId, sequence }: EventEnvelope,
    messageId: string,
    finishes: (reply: Message) => boolean,
  ): Promise<Turn> {
    const watched = this.#watched.get(sessionId) ?? { done: 0, replies: new Map<string, Message>() };
    const reply = watched.replies.get(messageId);
    if (reply !== undefined && finishes(reply)) return { kind: 'answered', reply };
    if (sequence <= watched.done) return { kind: 'done' };
    if (this.#held.has(sessionId)) return { kind: 'ours', attempt: 1 };
    const claimed = await this.#claim(sessionId, LEASE_MS);
    // The session is gone. This worker continues as if it were alone, and the service refuses its reply, too.
    if (claimed === undefined) return { kind: 'ours', attempt: 1 };
    watched.done = Math.max(watched.done, claimed.done);
    if (claimed.is_yours) this.#hold(sessionId);
    if (sequence <= watched.done) return { kind: 'done' };
    if (claimed.is_yours) return { kind: 'ours', attempt: claimed.attempt };
    return { kind: 'later', over: this.#pause(watched, claimed.expires_in_ms) };
  }

  /** Reports an event as done. `isLast`: no other message of the session waits here, so the session is given back. */
  async end({ session_id: sessionId, sequence }: EventEnvelope, isLast: boolean): Promise<void> {
    const held = this.#held.get(sessionId);
    if (isLast) {
      this.#watched.delete(sessionId);
      await this.#release(sessionId);
    }
    if (held !== undefined) await this.#claim(sessionId, isLast ? 0 : LEASE_MS, sequence);
  }

  /** Gives back what is left after the stop. */
  async close(): Promise<void> {
    for (const { wake } of this.#watched.values()) wake?.();
    const sessions = [...this.#held.keys()];
    const all = sessions.map(async (sessionId) => {
      await this.#release(sessionId);
      const body = { worker: this.#worker, lease_ms: 0 };
      await this.#client.call('claimSession', { path: { session_id: sessionId }, body }).catch(() => {});
    });
    await within(this.#clock, CLOSE_MS, Promise.all(all), () => {});
  }

  /** Undefined if the session is gone. */
  async #claim(sessionId: string, leaseMs: number, done?: number): Promise<ClaimReply | undefined> {
    const path = { session_id: sessionId };
    const body = { worker: this.#worker, lease_ms: leaseMs, ...(done !== undefined && { done }) };
    const signal = this.#signal;
    const claimed = await persist(this.#context, signal, () =>
      this.#client.call('claimSession', { path, body, signal }),
    );
    if (claimed.kind === 'done') return claimed.reply.reply;
    if (claimed.error.code === 'ASP_NOT_OFFERED') throw claimed.error;
    return undefined;
  }

  #hold(sessionId: string): void {
    const held: Held = { renewing: Promise.resolve(), stopRenewing: () => {} };
    const renewLater = (): void => {
      held.stopRenewing = this.#clock.schedule(RENEWED_EVERY_MS, () => {
        held.renewing = this.#claim(sessionId, LEASE_MS).catch(() => {});
        renewLater();
      });
    };
    renewLater();
    this.#held.set(sessionId, held);
  }

  async #release(sessionId: string): Promise<void> {
    const held = this.#held.get(sessionId);
    this.#held.delete(sessionId);
    held?.stopRenewing();
    await held?.renewing;
  }

  /** Waits until the other worker's claim expires, or until a reply in the session is seen. */
  #pause(watched: Watched, ms: number): Promise<void> {
    return new Promise((resolve) => {
      const cancel = this.#clock.schedule(ms, () => watched.wake?.());
      watched.wake = () => {
        watched.wake = undefined;
        cancel();
        resolve();
      };
    });
  }
}
