import type { Clock } from '../../kit/clock.js';
import { RATE_LIMIT, type RateLimitName } from '../../wire/limit.js';
import { ServiceError } from '../service-error.js';
import type { Budget, RateLimits } from './rate-limits.js';

/** Beyond it the longest idle subject of a limit is forgotten: an attacker who invents subjects must not fill the memory. */
const SUBJECTS_PER_LIMIT_MAX = 100_000;
const FORGOTTEN_PER_CALL = 4;

export interface SlidingWindow extends RateLimits {
  /** How many subjects are remembered, over all limits. */
  readonly subjectCount: number;
}

/** When each call of the window was taken, oldest first; at most `count` of them. */
type Times = number[];

/**
 * Every call of the last window is remembered, so that the limit is exact at each moment and `Retry-After` is the time
 * until the oldest call leaves the window, rounded up. The clock is the monotonic one: setting the machine's time
 * neither locks out nor lets through.
 */
export function createSlidingWindow(clock: Clock): SlidingWindow {
  const subjectsOf = new Map<RateLimitName, Map<string, Times>>();

  const timesOf = ({ name, subjectId }: Budget, now: number): Times => {
    const subjects = subjectsOf.get(name) ?? new Map<string, Times>();
    subjectsOf.set(name, subjects);
    forgetIdle(subjects, now - RATE_LIMIT[name].window_ms);
    const times = subjects.get(subjectId) ?? [];
    // Taken out and put back: a Map iterates in insertion order, so the longest idle subject stands first.
    subjects.delete(subjectId);
    subjects.set(subjectId, times);
    dropUpTo(times, now - RATE_LIMIT[name].window_ms);
    return times;
  };

  const requireRoom = (budgets: readonly Budget[]): { readonly now: number; readonly charged: readonly Times[] } => {
    const now = clock.monotonic();
    const charged = budgets.map((budget) => ({ budget, times: timesOf(budget, now) }));
    let waitMs = 0;
    let limit: RateLimitName | undefined;
    for (const { budget, times } of charged) {
      const { count, window_ms } = RATE_LIMIT[budget.name];
      const freeing = times[times.length - count];
      if (freeing === undefined || freeing + window_ms - now <= waitMs) continue;
      waitMs = freeing + window_ms - now;
      limit = budget.name;
    }
    if (limit !== undefined)
      throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS: Math.max(1, Math.ceil(waitMs / 1000)), limit });
    return { now, charged: charged.map(({ times }) => times) };
  };

  const takeAll = async (budgets: readonly Budget[]): Promise<void> => {
    const { now, charged } = requireRoom(budgets);
    for (const times of charged) times.push(now);
  };

  return {
    take: (name, subjectId) => takeAll([{ name, subjectId }]),
    takeAll,
    check: async (name, subjectId) => {
      requireRoom([{ name, subjectId }]);
    },
    get subjectCount() {
      let count = 0;
      for (const subjects of subjectsOf.values()) count += subjects.size;
      return count;
    },
  };
}

/** A call leaves the window when exactly the window has passed. */
function dropUpTo(times: Times, moment: number): void {
  let gone = 0;
  while (gone < times.length && (times[gone] as number) <= moment) gone += 1;
  if (gone > 0) times.splice(0, gone);
}

function forgetIdle(subjects: Map<string, Times>, moment: number): void {
  let looked = 0;
  for (const [subjectId, times] of subjects) {
    const isIdle = (times.at(-1) ?? Number.NEGATIVE_INFINITY) <= moment;
    if (!isIdle && subjects.size <= SUBJECTS_PER_LIMIT_MAX) return;
    subjects.delete(subjectId);
    looked += 1;
    if (looked === FORGOTTEN_PER_CALL) return;
  }
}
