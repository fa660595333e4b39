/** The longest wait that a service can ask for; more is treated as this. */
export const RETRY_AFTER_MAX_MS = 120_000;

/**
 * `Retry-After` in milliseconds, from 0 to {@link RETRY_AFTER_MAX_MS}: whole seconds or a date (RFC 9110 §10.2.3). A date
 * is measured against the answer's own `Date`, so that a wrong clock here does not matter. Undefined for anything else.
 */
export function readRetryAfter(headers: Readonly<Record<string, string>>, nowMs: number): number | undefined {
  const text = headers['retry-after']?.trim();
  if (text === undefined) return undefined;
  if (/^\d+$/.test(text)) return Math.min(Number(text) * 1000, RETRY_AFTER_MAX_MS);
  if (!/^[A-Za-z]{3},? /.test(text)) return undefined;
  const until = Date.parse(text);
  if (Number.isNaN(until)) return undefined;
  const sentAt = Date.parse(headers['date'] ?? '');
  return Math.min(Math.max(0, until - (Number.isNaN(sentAt) ? nowMs : sentAt)), RETRY_AFTER_MAX_MS);
}
