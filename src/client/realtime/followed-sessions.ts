import type { EventEnvelope } from '../../wire/event.js';
import type { TailItem } from './tail.js';

/** What a tail remembers of one session. */
interface Followed {
  /** The sequence of the last event that was given. */
  cursor: number;
  isEnded: boolean;
  hasLeft: boolean;
  /** Which end was told last, so that each is told once. */
  told: 'ended' | 'left' | undefined;
}

/** The sessions of a tail: which events are new, and which sessions came to an end. */
export class FollowedSessions {
  readonly #sessions = new Map<string, Followed>();
  readonly #handle: string | undefined;
  readonly #isEndTold: boolean;

  constructor(options: { readonly handle: string | undefined; readonly isEndTold: boolean }) {
    this.#handle = options.handle;
    this.#isEndTold = options.isEndTold;
  }

  get size(): number {
    return this.#sessions.size;
  }

  get ids(): string[] {
    return [...this.#sessions.keys()];
  }

  has(sessionId: string): boolean {
    return this.#sessions.has(sessionId);
  }

  /** The sequence after which this session continues; 0 for one that was never seen. */
  cursorOf(sessionId: string): number {
    return this.#sessions.get(sessionId)?.cursor ?? 0;
  }

  follow(sessionId: string, cursor: number, known: { isEnded?: boolean; hasLeft?: boolean } = {}): void {
    const { isEnded = false, hasLeft = false } = known;
    this.#sessions.set(sessionId, { cursor, isEnded, hasLeft, told: undefined });
  }

  drop(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }

  /** Whether this event was not given yet; then it counts as given. */
  accept(event: EventEnvelope): boolean {
    const session = this.#sessions.get(event.session_id);
    if (session === undefined) {
      this.follow(event.session_id, event.sequence);
      return true;
    }
    if (event.sequence <= session.cursor) return false;
    session.cursor = event.sequence;
    const isMine = this.#isMine(event.payload['agent']);
    if (event.type === 'session.ended') session.isEnded = true;
    if (event.type === 'session.reopened') session.isEnded = false;
    if (event.type === 'session.left' && isMine) session.hasLeft = true;
    if (event.type === 'session.joined' && isMine) session.hasLeft = false;
    if (event.type === 'session.invited' && this.#isMine(event.payload['invitee'])) session.hasLeft = false;
    return true;
  }

  #isMine(handle: unknown): boolean {
    return this.#handle !== undefined && handle === this.#handle;
  }

  /** The end of a session, when there is one that was not told yet. */
  takeEnd(sessionId: string): TailItem | undefined {
    const session = this.#sessions.get(sessionId);
    if (session === undefined || !this.#isEndTold) return undefined;
    const reason = session.hasLeft ? 'left' : session.isEnded ? 'ended' : undefined;
    if (reason === session.told) return undefined;
    session.told = reason;
    return reason === undefined ? undefined : { kind: 'end', sessionId, reason };
  }
}
