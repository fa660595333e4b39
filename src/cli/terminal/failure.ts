import type { Outcome } from '../../client/http/request-error.js';
import { quoteArgs } from '../../kit/format.js';
import { toJsonLine } from '../../kit/json-line.js';
import { sanitizeLine } from '../../kit/sanitize.js';
import { wrapText } from '../../kit/wrap.js';
import type { Style } from './style.js';

/** A reported failure: everything that stderr says about it, in either format. */
export interface Failure {
  readonly code: string;
  readonly message: string;
  readonly exitCode: number;
  readonly httpStatus?: number | undefined;
  readonly isRetryable: boolean;
  readonly retryAfterMs?: number | undefined;
  readonly outcome: Outcome;
  /** The session that was changed anyway. */
  readonly sessionId?: string | undefined;
  /** Names the request in the log of the service. */
  readonly requestId?: string | undefined;
  /** Whether people get to see it too. */
  readonly isRequestIdShown?: boolean | undefined;
  readonly why?: string | undefined;
  readonly next?: readonly string[] | undefined;
  readonly as?: string | undefined;
  readonly profile?: string | undefined;
  readonly source?: string | undefined;
  readonly request?:
    | {
        readonly method: string;
        readonly path: string;
        readonly idempotencyKey?: string | undefined;
        readonly attempts: number;
      }
    | undefined;
  readonly stack?: string | undefined;
}

/**
 * At most four lines, or more on a narrow terminal; `why` and `try` are omitted rather than padded. The command after
 * `try` stays on one line, so that it can be copied.
 */
export function failureText(failure: Failure, style: Style, width = Number.POSITIVE_INFINITY): string {
  const { message, why, next, code, exitCode, stack, requestId, isRequestIdShown } = failure;
  const lines = [wrapText(sanitizeLine(message), width, `${style.red('error:')} `)];
  if (why !== undefined) lines.push(wrapText(sanitizeLine(why), width, `  ${style.dim('why:')}  `));
  if (next !== undefined) lines.push(`  ${style.dim('try:')}  ${sanitizeLine(quoteArgs(next))}`);
  const request = requestId !== undefined && isRequestIdShown === true ? ` · request ${sanitizeLine(requestId)}` : '';
  lines.push(style.dim(`  code: ${sanitizeLine(code)} · exit ${exitCode}${request}`));
  if (stack !== undefined) lines.push(...stack.split('\n').map((line) => style.dim(`  ${sanitizeLine(line)}`)));
  return `${lines.join('\n')}\n`;
}

/** One line of JSON. */
export function failureLine(failure: Failure): string {
  const { request } = failure;
  return `${toJsonLine({
    error: {
      code: failure.code,
      message: failure.message,
      http_status: failure.httpStatus,
      exit_code: failure.exitCode,
      retryable: failure.isRetryable,
      retry_after_ms: failure.retryAfterMs,
      outcome: failure.outcome,
      session_id: failure.sessionId,
      request_id: failure.requestId,
      hint: failure.why,
      next: failure.next,
      as: failure.as,
      profile: failure.profile,
      source: failure.source,
      request: request && {
        method: request.method,
        path: request.path,
        idempotency_key: request.idempotencyKey,
        attempts: request.attempts,
      },
    },
  })}\n`;
}
