/** How often a fault strikes: by chance, or every so many times. */
export type Rate = { readonly chance: number } | { readonly every: number };

export const FAULT_STATUSES = [429, 500, 502, 503, 504] as const;
export type FaultStatus = (typeof FAULT_STATUSES)[number];

/** What goes wrong with a call, a handshake or a socket. */
export type Fault =
  /** Refused with this status before anything was done. */
  | { readonly kind: 'refuse'; readonly status: FaultStatus; readonly rate: Rate }
  /** Done, and answered with 500 in place of its answer. */
  | { readonly kind: 'lost'; readonly rate: Rate }
  /** Done, and the connection ends without an answer. */
  | { readonly kind: 'cut'; readonly rate: Rate }
  | { readonly kind: 'delay'; readonly delayMs: number; readonly rate: Rate }
  /** A socket ends without a closing handshake, right behind an event or so long after it was opened. */
  | { readonly kind: 'drop'; readonly rate: Rate }
  | { readonly kind: 'expire'; readonly afterMs: number };

/** The faults of a service that is there to try clients with. With a seed, the same requests meet the same faults. */
export interface FaultPlan {
  readonly faults: readonly Fault[];
  readonly seed: number | undefined;
}
