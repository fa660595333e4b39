/** How far a socket is in a session. */
export interface Progress {
  /** The last sequence that was sent over this socket, or delivered before it. */
  readonly sent: number;
  /** The last sequence of the session when nothing further was to be read; 0 while there is more. */
  readonly readThrough: number;
}

/** How far a socket is in each session that it is being given, and which of them it must read on. */
export interface Positions {
  /** Notes that a session goes up to `lastSequence`; one that is new here starts after `deliveredSequence`. */
  offer(sessionId: string, deliveredSequence: number, lastSequence: number): void;
  /** The session to read next, if there is one. */
  next(): string | undefined;
  progressOf(sessionId: string): Progress | undefined;
  /** Notes what a read has given; where there is more, the session takes its turn again after the others. */
  move(sessionId: string, progress: Progress): void;
  /** The delivery cursor in the store says the same as `recorded`: the next offer can start there. */
  forget(sessionId: string, recorded: Progress): void;
}

/** A look that began before the cursor moved may end after it, and offers what was sent; so many are told apart. */
const REMEMBERED_MAX = 256;

export function createPositions(): Positions {
  const sentBefore = new Map<string, number>();
  const progress = new Map<string, Progress>();
  /** Sessions to read, longest waiting first, with the last sequence that they are known to have. */
  const lastKnown = new Map<string, number>();
  const isBehind = (sessionId: string, lastSequence: number): boolean =>
    (progress.get(sessionId)?.readThrough ?? 0) < lastSequence;

  return {
    offer(sessionId, deliveredSequence, lastSequence) {
      if (!isBehind(sessionId, lastSequence)) return;
      if (!progress.has(sessionId)) {
        const sent = Math.max(deliveredSequence, sentBefore.get(sessionId) ?? 0);
        progress.set(sessionId, { sent, readThrough: 0 });
      }
      lastKnown.set(sessionId, lastSequence);
    },
    next() {
      const [sessionId] = lastKnown.keys();
      return sessionId;
    },
    progressOf: (sessionId) => progress.get(sessionId),
    move(sessionId, moved) {
      progress.set(sessionId, moved);
      const known = lastKnown.get(sessionId) ?? 0;
      lastKnown.delete(sessionId);
      if (isBehind(sessionId, known)) lastKnown.set(sessionId, known);
    },
    forget(sessionId, recorded) {
      if (progress.get(sessionId) !== recorded || lastKnown.has(sessionId)) return;
      progress.delete(sessionId);
      sentBefore.delete(sessionId);
      sentBefore.set(sessionId, recorded.sent);
      const [oldest] = sentBefore.keys();
      if (sentBefore.size > REMEMBERED_MAX && oldest !== undefined) sentBefore.delete(oldest);
    },
  };
}
