/** An event as the log holds it. */
export interface LoggedEvent {
  readonly session_id: string;
  readonly sequence: number;
  readonly id: string;
  readonly type: string;
  readonly created_at: number;
  /** JSON. */
  readonly payload: string;
}

/** How far the log is. */
export interface LogEnd {
  /** The last event that can be seen. */
  readonly position: number;
  /** Transactions that may have written events up to there and cannot be seen yet, by their ids. */
  readonly writers: readonly string[];
}

/** Notifies everyone who uses the data. The log is the truth; a lost notification costs latency, never data. */
export interface Bus {
  /** Whether notifications cannot be lost: everyone who uses the data is in this process. */
  readonly isReliable: boolean;
  /**
   * The returned function says whether notifications may have been lost since its last call, or may not be arriving
   * now. If so, the caller checks the data.
   */
  watchLosses(): () => boolean;
  /**
   * Tells the other processes that this one is alive, and expects to hear from `others` as often. A heartbeat that
   * arrives proves that notifications do.
   */
  beat(processId: string, others: readonly string[], end: LogEnd): void;
  /**
   * A recent position of the log. Every event up to there was committed by the time of this call, except in the first
   * seconds of a process: then it is where the log was at its start. Undefined: notifications are reliable, or nothing
   * is known yet.
   */
  settledPosition(): number | undefined;
  /** Whether each connection to the others is up, by its name; none if everyone is in this process. */
  lines(): Readonly<Record<string, boolean>>;
  /** Something may have been committed without a notification: everyone must look. */
  noteLoss(): void;
  notify(signal: Signal): void;
  /** Calls `listener` for every notification from now on; the returned function stops it. */
  listen(listener: (signal: Signal) => void): () => void;
  close(): Promise<void>;
}

export type Signal =
  | NewEvents
  /** Messages of this session were delivered to someone, or taken. Neither writes an event. */
  | { readonly kind: 'progress'; readonly sessionId: string }
  /** A socket of this agent opened or closed. Other processes hear it up to a quarter of a second later. */
  | { readonly kind: 'presence'; readonly agentId: string }
  /**
   * Sockets that were opened with this grant (a refresh-token family or a confidential client) were marked to close.
   */
  | { readonly kind: 'revoked'; readonly grantId: string };

/** The log of a session has grown. */
export interface NewEvents {
  readonly kind: 'events';
  readonly sessionId: string;
  readonly first: number;
  readonly last: number;
  /** All of them, in order, for listeners in the process that appended them. */
  readonly events?: readonly LoggedEvent[];
}
