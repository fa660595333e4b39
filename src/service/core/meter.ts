import type { GrantType } from '../../wire/oauth.js';
import type { DatabaseFailure } from './database.js';
import { hasCode } from './errors.js';
import type { Budget, LimitName, RateLimits } from './rate-limits.js';

/** What `--retention` deletes. */
export type DeletedKind = 'sessions' | 'events' | 'attachments';

/** The result of a try to send a push notification. */
type PushOutcome = 'sent' | 'gone' | 'retried' | 'failed' | 'dropped';

/** The result of a call to a webhook. */
type CallOutcome = 'answered' | 'failed' | 'off';

/** Collects metrics. Its inputs never name an agent, an account, a session or message content. */
export interface Meter {
  /** `route` is a route pattern, one of a fixed set. */
  answered(request: {
    readonly method: string;
    readonly route: string;
    readonly status: number;
    readonly ms: number;
  }): void;
  /** An event was sent on a socket. */
  delivered(): void;
  socketOpened(): void;
  socketClosed(code: number): void;
  refused(limit: LimitName): void;
  /** The loop guard refused a message. */
  loopStopped(): void;
  /** The number of writes that shared one commit, and how long the database took to confirm it. */
  committed(writes: number, ms: number): void;
  databaseFailed(failure: DatabaseFailure): void;
  /** A request was refused at once, because it would have waited too long. */
  shed(): void;
  /** When a background task last succeeded; 0: not yet. `chore` is one of a fixed set. */
  choreDone(chore: string, at: number): void;
  /** Bytes of attachments that arrived here or left. */
  attachmentBytes(direction: 'in' | 'out', bytes: number): void;
  issuedToken(grantType: GrantType): void;
  signedIn(): void;
  /** Whether the service is ready for requests. */
  readiness(isReady: boolean): void;
  /** When the certificate that new connections get expires. */
  certificateExpires(at: number): void;
  /** How far this machine's clock is ahead of the database's. */
  clockOffset(ms: number): void;
  /** How many attachment files had no row at the last sweep. */
  orphansFound(count: number): void;
  /** A download failed because the attachment's file is missing. */
  fileMissing(): void;
  /** A password or the token of an operator was wrong, or an attempt came too soon. */
  signInFailed(): void;
  /** A refresh token was used twice, and its family has ended. */
  refreshTokenReused(): void;
  /** Counts deletions by --retention. */
  deleted(counts: Readonly<Record<DeletedKind, number>>): void;
  /** Spans that were not exported. */
  spansDropped(count: number): void;
  /** A push notification was sent to a browser, or was not. */
  pushed(outcome: PushOutcome): void;
  /** A webhook was called, or is no longer called because it failed for too long. */
  called(outcome: CallOutcome): void;
  /** An injected failure; `fault` is one of a fixed set. */
  injected(fault: string): void;
}

/** Counts nothing. */
export const unmetered: Meter = {
  answered: () => {},
  delivered: () => {},
  socketOpened: () => {},
  socketClosed: () => {},
  refused: () => {},
  loopStopped: () => {},
  committed: () => {},
  databaseFailed: () => {},
  shed: () => {},
  choreDone: () => {},
  attachmentBytes: () => {},
  issuedToken: () => {},
  signedIn: () => {},
  readiness: () => {},
  certificateExpires: () => {},
  clockOffset: () => {},
  orphansFound: () => {},
  fileMissing: () => {},
  signInFailed: () => {},
  refreshTokenReused: () => {},
  deleted: () => {},
  spansDropped: () => {},
  pushed: () => {},
  called: () => {},
  injected: () => {},
};

/**
 * The same limits. `onRefusal` gets the limit of every refusal, and what it counts for. With several limits, the
 * database does not say which one refused: then it gets the first one without a subject.
 */
export function watchRefusals(
  limits: RateLimits,
  onRefusal: (limit: LimitName, subjectId: string | undefined) => void,
): RateLimits {
  const counted = async (budgets: readonly Budget[], ask: () => Promise<void>): Promise<void> => {
    try {
      await ask();
    } catch (error) {
      const [first] = budgets;
      if (first === undefined || !hasCode(error, 'RATE_LIMITED')) throw error;
      const { limit = budgets.length === 1 ? first.name : undefined } = error.options;
      const subjects = budgets.filter(({ name }) => name === limit);
      onRefusal(limit ?? first.name, subjects.length === 1 ? subjects[0]?.subjectId : undefined);
      throw error;
    }
  };
  return {
    take: (name, subjectId) => counted([{ name, subjectId }], () => limits.take(name, subjectId)),
    takeAll: (budgets) => counted(budgets, () => limits.takeAll(budgets)),
    check: (budget) => counted([budget], () => limits.check(budget)),
    getUsed: (name, subjectId) => limits.getUsed(name, subjectId),
  };
}
