import type { Budget, LimitName, RateLimits } from './limits/rate-limits.js';
import { ServiceError } from './service-error.js';

/** Counts what happens. Nothing it is told names an agent, an account, a session or what was said. */
export interface Meter {
  /** `route` is the pattern of an address, one of a fixed set. */
  answered(request: {
    readonly method: string;
    readonly route: string;
    readonly status: number;
    readonly ms: number;
  }): void;
  /** An event went out on a socket. */
  delivered(): void;
  socketOpened(): void;
  socketClosed(code: number): void;
  refused(limit: LimitName): void;
  /** So many writes shared one commit. */
  committed(writes: number): void;
  /** Whether requests should be sent here. */
  readiness(isReady: boolean): void;
  /** By so much the clock of this machine is ahead of that of the database. */
  clockOffset(ms: number): void;
  /** So many attachment files had no row when the sweep last looked. */
  orphansFound(count: number): void;
  /** An attachment was asked for whose file is not there. */
  fileMissing(): void;
  /** A password was wrong, or came too soon to be looked at. */
  signInFailed(): void;
  /** A refresh token came twice, and its family has ended. */
  refreshTokenReused(): void;
  /** Something failed on purpose; `fault` is one of a fixed set. */
  injected(fault: string): void;
}

/** Counts nothing. */
export const unmetered: Meter = {
  answered: () => {},
  delivered: () => {},
  socketOpened: () => {},
  socketClosed: () => {},
  refused: () => {},
  committed: () => {},
  readiness: () => {},
  clockOffset: () => {},
  orphansFound: () => {},
  fileMissing: () => {},
  signInFailed: () => {},
  refreshTokenReused: () => {},
  injected: () => {},
};

/** The same limits, with every refusal counted under the limit that refused. */
export function countRefusals(limits: RateLimits, meter: Meter): RateLimits {
  const counted = async (budgets: readonly Budget[], ask: () => Promise<void>): Promise<void> => {
    try {
      await ask();
    } catch (error) {
      const isRefusal = error instanceof ServiceError && error.code === 'RATE_LIMITED';
      const name = isRefusal ? (error.options.limit ?? budgets[0]?.name) : undefined;
      if (name !== undefined) meter.refused(name);
      throw error;
    }
  };
  return {
    take: (name, subjectId) => counted([{ name, subjectId }], () => limits.take(name, subjectId)),
    takeAll: (budgets) => counted(budgets, () => limits.takeAll(budgets)),
    check: (name, subjectId, weight) => counted([{ name, subjectId }], () => limits.check(name, subjectId, weight)),
  };
}
