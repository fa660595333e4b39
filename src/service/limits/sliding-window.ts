import type { Clock } from '../../kit/clock.js';
import { ServiceError } from '../service-error.js';
import { type Budget, LIMIT, type LimitName, type RateLimits } from './rate-limits.js';

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
  const subjectsOf = new Map<LimitName, Map<string, Times>>();

  const timesOf = ({ name, subjectId }: Budget, now: number): Times => {
    const subjects = subjectsOf.get(name) ?? new Map<string, Times>();
    subjectsOf.set(name, subjects);
    forgetIdle(subjects, now - LIMIT[name].window_ms);
    const times = subjects.get(subjectId) ?? [];
    // Taken out and put back: a Map iterates in insertion order, so the longest idle subject stands first.
    subjects.delete(subjectId);
    subjects.set(subjectId, times);
    dropUpTo(times, now - LIMIT[name].window_ms);
    return times;
  };

  const requireRoom = (
    budgets: readonly Budget[],
  ): { readonly now: number; readonly charged: readonly { readonly times: Times; readonly weight: number }[] } => {
    const now = clock.monotonic();
    const charged = budgets.map((budget) => ({ budget, times: timesOf(budget, now) }));
    let waitMs = 0;
    let limit: LimitName | undefined;
    for (const { budget, times } of charged) {
      const { window_ms } = LIMIT[budget.name];
      const { count = LIMIT[budget.name].count } = budget;
      const freeing = times[times.length - count + (budget.weight ?? 1) - 1];
      if (freeing === undefined || freeing + window_ms - now <= waitMs) continue;
      waitMs = freeing + window_ms - now;
      limit = budget.name;
    }
    if (limit !== undefined)
      throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS: Math.max(1, Math.ceil(waitMs / 1000)), limit });
    return { now, charged: charged.map(({ budget, times }) => ({ times, weight: budget.weight ?? 1 })) };
  };

  const takeAll = async (budgets: readonly Budget[]): Promise<void> => {
    const { now, charged } = requireRoom(budgets);
    for (const { times, weight } of charged) for (let taken = 0; taken < weight; taken += 1) times.push(now);
  };

  return {
    take: (name, subjectId) => takeAll([{ name, subjectId }]),
    takeAll,
    check: async (name, subjectId, weight = 1) => {
      requireRoom([{ name, subjectId, weight }]);
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
