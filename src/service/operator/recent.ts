import type { Clock } from '../../kit/clock.js';
import type { ServiceContext } from '../core/context.js';
import { type Meter, watchRefusals } from '../core/meter.js';
import type { LimitName } from '../core/rate-limits.js';

/** How many minutes are remembered, including the current one. */
export const MINUTES = 60;
const MINUTE_MS = 60_000;
/** The bounds of the buckets for response times. */
const BOUNDS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000];
const PERCENTILE = 0.95;
const SERVER_ERROR = 500;

/** What happened in one minute. */
export interface Minute {
  readonly requests: number;
  /** Requests that were answered with a 5xx status. */
  readonly failures: number;
  readonly refusals: number;
  readonly delivered: number;
  readonly failedSignIns: number;
  /** The most that were open at the same time. */
  readonly sockets: number;
  /**
   * 95 % of the requests took at most this long; undefined if there were none, infinite if longer than the largest
   * bound.
   */
  readonly responseMs: number | undefined;
}

export interface Recent {
  /** Oldest first; the last one is the current minute. */
  readonly minutes: readonly Minute[];
  /** In all of these minutes, by limit. */
  readonly refusals: ReadonlyMap<LimitName, number>;
}

/** Remembers what a process did in the last hour, for the operator, in a fixed amount of memory. */
export interface RecentWatch {
  /** The same meter and limits, with everything that happens remembered. */
  attach<Parts extends Pick<ServiceContext, 'meter' | 'limits'>>(parts: Parts): Parts;
  read(): Recent;
}

interface Slot {
  readonly minute: number;
  requests: number;
  failures: number;
  delivered: number;
  failedSignIns: number;
  socketsMax: number;
  socketsLast: number;
  readonly socketsFirst: number;
  readonly refusals: Map<LimitName, number>;
  /** How many requests took up to each bound; the last: longer. */
  readonly times: number[];
}

export function createRecentWatch({ monotonic }: Pick<Clock, 'monotonic'>): RecentWatch {
  const slots: (Slot | undefined)[] = [];
  let sockets = 0;
  const currentMinute = (): number => Math.floor(monotonic() / MINUTE_MS);
  const now = (): Slot => {
    const minute = currentMinute();
    const known = slots[minute % MINUTES];
    if (known?.minute === minute) return known;
    const slot = createSlot(minute, sockets);
    slots[minute % MINUTES] = slot;
    return slot;
  };
  const countSockets = (change: number): void => {
    const slot = now();
    sockets += change;
    slot.socketsLast = sockets;
    slot.socketsMax = Math.max(slot.socketsMax, sockets);
  };
  const extend = (meter: Meter): Meter => ({
    ...meter,
    answered(request) {
      meter.answered(request);
      const slot = now();
      slot.requests += 1;
      if (request.status >= SERVER_ERROR) slot.failures += 1;
      // A stream lasts as long as its reader wants.
      if (!request.route.endsWith('/live')) addTime(slot.times, request.ms);
    },
    delivered() {
      meter.delivered();
      now().delivered += 1;
    },
    socketOpened() {
      meter.socketOpened();
      countSockets(1);
    },
    socketClosed(code) {
      meter.socketClosed(code);
      countSockets(-1);
    },
    signInFailed() {
      meter.signInFailed();
      now().failedSignIns += 1;
    },
  });
  const refused = (limit: LimitName): void => {
    const { refusals } = now();
    refusals.set(limit, (refusals.get(limit) ?? 0) + 1);
  };
  return {
    attach: (parts) => ({
      ...parts,
      meter: extend(parts.meter),
      limits: watchRefusals(parts.limits, refused),
    }),
    read() {
      const last = currentMinute();
      const kept = Array.from({ length: MINUTES }, (_, index) => {
        const minute = last - MINUTES + 1 + index;
        const slot = slots[((minute % MINUTES) + MINUTES) % MINUTES];
        return slot?.minute === minute ? slot : undefined;
      });
      // Nothing was opened or closed in a minute without a slot.
      let open = kept.find((slot) => slot !== undefined)?.socketsFirst ?? sockets;
      const minutes = kept.map((slot): Minute => {
        const minute = slot === undefined ? { ...EMPTY, sockets: open } : toMinute(slot);
        open = slot?.socketsLast ?? open;
        return minute;
      });
      const refusals = new Map<LimitName, number>();
      for (const slot of kept)
        for (const [limit, count] of slot?.refusals ?? []) refusals.set(limit, (refusals.get(limit) ?? 0) + count);
      return { minutes, refusals };
    },
  };
}

const EMPTY = {
  requests: 0,
  failures: 0,
  refusals: 0,
  delivered: 0,
  failedSignIns: 0,
  responseMs: undefined,
} as const;

function createSlot(minute: number, sockets: number): Slot {
  return {
    minute,
    requests: 0,
    failures: 0,
    delivered: 0,
    failedSignIns: 0,
    socketsFirst: sockets,
    socketsLast: sockets,
    socketsMax: sockets,
    refusals: new Map(),
    times: Array.from({ length: BOUNDS_MS.length + 1 }, () => 0),
  };
}

function addTime(times: number[], ms: number): void {
  const found = BOUNDS_MS.findIndex((bound) => ms <= bound);
  const index = found === -1 ? BOUNDS_MS.length : found;
  times[index] = (times[index] ?? 0) + 1;
}

function toMinute({ requests, failures, delivered, failedSignIns, socketsMax, refusals, times }: Slot): Minute {
  const refused = [...refusals.values()].reduce((sum, count) => sum + count, 0);
  return {
    ...{ requests, failures, delivered, failedSignIns },
    sockets: socketsMax,
    refusals: refused,
    responseMs: findPercentile(times),
  };
}

function findPercentile(times: readonly number[]): number | undefined {
  const all = times.reduce((sum, count) => sum + count, 0);
  if (all === 0) return undefined;
  let counted = 0;
  const index = times.findIndex((count) => {
    counted += count;
    return counted >= all * PERCENTILE;
  });
  return BOUNDS_MS[index] ?? Number.POSITIVE_INFINITY;
}
