import type { EventEnvelope } from '../../wire/event.js';
import type { Position } from './replay.js';
import type { TailItem } from './tail.js';

/** What a tail remembers of one session. */
interface Followed {
  /** The sequence of the last event that was given. */
  cursor: number;
  /** The epoch of the data in which it was read; undefined where the service has none, or has not told it yet. */
  epoch: string | undefined;
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

  follow(sessionId: string, { after, epoch }: Position, known: { isEnded?: boolean; hasLeft?: boolean } = {}): void {
    const { isEnded = false, hasLeft = false } = known;
    this.#sessions.set(sessionId, { cursor: after, epoch, isEnded, hasLeft, told: undefined });
  }

  /** Where this session continues. */
  positionOf(sessionId: string): Position {
    const session = this.#sessions.get(sessionId);
    return { after: session?.cursor ?? 0, epoch: session?.epoch };
  }

  /** Whether what was given of this session is known to be part of the data as they are in this epoch. */
  isIn(sessionId: string, epoch: string | undefined): boolean {
    return epoch === undefined || this.#sessions.get(sessionId)?.epoch === epoch;
  }

  /** Notes that this session continues after `after` in this epoch: what was given from there on is gone. */
  enter(sessionId: string, { after, epoch }: Position): void {
    const session = this.#sessions.get(sessionId);
    if (session === undefined) return;
    session.epoch = epoch ?? session.epoch;
    if (after >= session.cursor) return;
    session.cursor = after;
    session.isEnded = false;
    session.told = undefined;
  }

  drop(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }

  /** Whether this event was not given yet; then it counts as given. */
  accept(event: EventEnvelope, epoch: string | undefined): boolean {
    const session = this.#sessions.get(event.session_id);
    if (session === undefined) {
      this.follow(event.session_id, { after: event.sequence, epoch });
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
