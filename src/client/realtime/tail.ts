import type { EventEnvelope } from '../../wire/event.js';

/** Where a tail begins in one session. */
export interface TailStart {
  readonly sessionId: string;
  /** Events with a greater sequence (spec: GET …/events); all that exist when neither is given. */
  readonly after?: number | undefined;
  /** The last so many of what exists; instead of `after`. */
  readonly last?: number | undefined;
  /** The epoch that `after` was read in, as the event with that sequence was given with. */
  readonly epoch?: string | undefined;
}

/** What to follow. */
export interface TailOptions {
  /** These sessions; undefined: every session of the acting agent, from what its service has not delivered yet. */
  readonly sessions?: readonly TailStart[] | undefined;
  /** For a tail of every session: continue after these sequences, by session id. */
  readonly cursors?:
    | Readonly<Record<string, number | { readonly after: number; readonly epoch?: string | undefined }>>
    | undefined;
  /** The acting agent, so that its own leaving can be told from that of others. */
  readonly handle?: string | undefined;
  /** False: what exists, then the end. True unless said. */
  readonly isFollowing?: boolean | undefined;
  /** Ends the tail quietly. */
  readonly signal?: AbortSignal | undefined;
}

/** What a tail gives, in order: events, and what happened to the connection. */
export type TailItem =
  | {
      readonly kind: 'event';
      readonly event: EventEnvelope;
      readonly isReplay: boolean;
      /** Names the stretch of the data's history that the event is part of. Keep it beside the sequence: given back as `epoch`, it shows that the service's data were restored meanwhile. */
      readonly epoch?: string | undefined;
    }
  /** Everything that existed was given; from now on live. `downMs`: how long there was no connection. */
  | {
      readonly kind: 'ready';
      readonly isReconnect: boolean;
      readonly sessions: number;
      readonly downMs: number;
      /** The credential may not open the event stream: new events are asked for every few seconds. */
      readonly isPolling?: boolean | undefined;
    }
  /** The connection broke or could not be had; the next try begins after `delayMs`. */
  | { readonly kind: 'reconnecting'; readonly attempt: number; readonly delayMs: number; readonly reason: string }
  /** Events after `from` up to `to`, both included, could not be had; `to` null: from there on. */
  | {
      readonly kind: 'gap';
      readonly sessionId: string;
      readonly from: number;
      readonly to: number | null;
      readonly reason: string;
    }
  /**
   * The service's data were restored: what was given of this session after `after`, up to `from`, is gone, and its sequences
   * may come again with other events. It continues after `after`.
   */
  | {
      readonly kind: 'restored';
      readonly sessionId: string;
      readonly after: number;
      readonly from: number;
      readonly epoch?: string | undefined;
    }
  /** A session gives no more for now: it ended, the acting agent left, or (not following) all that exists was read. */
  | { readonly kind: 'end'; readonly sessionId: string; readonly reason: 'ended' | 'left' | 'read' };
