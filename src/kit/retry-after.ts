/** The headers of an answer that say when to try again. */
interface RetryHeaders {
  readonly 'retry-after'?: string | undefined;
  readonly date?: string | undefined;
}

/**
 * `Retry-After` in milliseconds: whole seconds or a date (RFC 9110 §10.2.3). A date is compared with the answer's own
 * `Date`, so a wrong clock here does not matter. Undefined for anything else.
 */
export function readRetryAfter(headers: RetryHeaders, nowMs: number): number | undefined {
  const text = headers['retry-after']?.trim();
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, Number.MAX_SAFE_INTEGER);
  if (!/^[A-Za-z]{3},? /.test(text)) return undefined;
  const until = Date.parse(text);
  if (Number.isNaN(until)) return undefined;
  const sentAt = Date.parse(headers.date ?? '');
  return Math.max(0, until - (Number.isNaN(sentAt) ? nowMs : sentAt));
}
