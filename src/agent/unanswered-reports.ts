import { type Client, RequestError } from '../client/client.js';
import { putLast } from '../kit/bounded-map.js';
import { abortAfter } from '../kit/clock.js';
import type { UnansweredReason } from '../wire/message.js';
import type { AgentContext } from './persist.js';

/** The next message does not wait longer for a report. */
const PATIENCE_MS = 5_000;
/** Older sessions may be reported again. */
const SESSIONS_MAX = 1_000;

/** Tells the owner which messages get no answer, and why (wire: Delivery). */
export interface UnansweredReports {
  /**
   * Resolves when the report is stored, or is given up. A reason is stored once until the session gets an answer; if the
   * service was unavailable, the next unanswered message reports it.
   */
  report(sessionId: string, sequence: number, reason: UnansweredReason): Promise<void>;
  /** The session got an answer, so the service has dropped the report. */
  forget(sessionId: string): void;
}

/** Reports are optional: a service may not know them, and a credential may not be allowed to write. */
export function createUnansweredReports(
  { clock, output }: AgentContext,
  client: Client,
  signal: AbortSignal,
): UnansweredReports {
  const reported = new Map<string, UnansweredReason>();
  return {
    async report(sessionId, sequence, reason) {
      if (reported.get(sessionId) === reason) return;
      putLast(reported, sessionId, reason, SESSIONS_MAX);
      const path = { session_id: sessionId };
      const body = { sequence, reason };
      const late = (): DOMException => new DOMException('The service was too slow.', 'TimeoutError');
      const send = (until: AbortSignal) => client.call('reportUnanswered', { path, body, signal: until });
      try {
        await abortAfter(clock, PATIENCE_MS, late, send, signal);
      } catch (error) {
        if (!(error instanceof RequestError)) throw error;
        if (error.isRetryable) reported.delete(sessionId);
        await output.detail(`${sessionId}: could not report that there is no answer: ${error.code}`);
      }
    },
    forget: (sessionId) => void reported.delete(sessionId),
  };
}
