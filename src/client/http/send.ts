import { wait } from '../../kit/clock.js';
import type { Random } from '../../kit/random.js';
import { isRetryableStatus } from '../../wire/error.js';
import { RETRY_JITTER_MS } from '../../wire/limit.js';
import { abortion } from './failure.js';
import { type Outcome, RequestError } from './request-error.js';
import { readRetryAfter } from './retry-after.js';
import type { HttpAnswer, HttpRequest, Transport } from './transport.js';

/** A rate-limited answer without a usable `Retry-After` is given this long. */
const UNSAID_RETRY_AFTER_MS = 1000;

/** Gives the bearer token; `rejected` is one that was refused and must not come again. */
export type BearerSource = (rejected: string | undefined, signal: AbortSignal | undefined) => Promise<string>;

/** A request that may be tried several times. */
export interface Sending {
  readonly method: HttpRequest['method'];
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** A function is called once a try. */
  readonly body?: string | Uint8Array | (() => AsyncIterable<Uint8Array>) | undefined;
  readonly bearer?: BearerSource | undefined;
  /** Carried by every try. */
  readonly idempotencyKey?: string | undefined;
  /** Whether it may be sent again: reads and writes with a key, unless said. */
  readonly isRepeatable?: boolean | undefined;
  /** Tries after the first. */
  readonly retries: number;
  /** On the transport's monotonic clock, in milliseconds: a wait that passes it is not begun. */
  readonly deadline?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly maxBytes?: number | undefined;
  /** How long one try may be silent; the transport's own patience unless said. */
  readonly silenceTimeoutMs?: number | undefined;
}

/** The last answer, of any status, and how it came about. */
export interface Sent {
  readonly answer: HttpAnswer;
  /** Requests sent, this one included. */
  readonly attempts: number;
  readonly outcome: Outcome;
  readonly retryAfterMs: number | undefined;
}

type Try = { readonly kind: 'answer'; readonly answer: HttpAnswer } | { readonly kind: 'error'; error: RequestError };

/**
 * Sends until there is an answer that more tries would not change. 408, 425, 429, 5xx and broken connections are tried
 * again, after `Retry-After` plus the recommended jitter; a 401 renews the token once and is sent again beside that count;
 * nothing else is repeated (spec: Client handling; Rate limits).
 * @throws RequestError when no answer came, or the credential failed.
 */
export async function sendWithRetries(transport: Transport, random: Random, sending: Sending): Promise<Sent> {
  const isWrite = sending.method !== 'GET' && sending.method !== 'HEAD';
  const isRepeatable = sending.isRepeatable ?? (!isWrite || sending.idempotencyKey !== undefined);
  const retries = isRepeatable ? sending.retries : 0;
  let attempts = 0;
  let retried = 0;
  let isUncertain = false;
  let token = await firstToken(sending);
  let isRenewed = false;
  while (true) {
    attempts += 1;
    const tried = await tryOnce(transport, sending, token);
    isUncertain ||= isWrite && mayHaveHappened(tried);
    const outcome = outcomeOf(tried, isUncertain);
    if (tried.kind === 'answer' && tried.answer.status === 401 && sending.bearer !== undefined && !isRenewed) {
      isRenewed = true;
      token = await renew(sending, sending.bearer, token, tried.answer, attempts, outcome);
      continue;
    }
    const retryAfterMs =
      tried.kind === 'answer' ? readRetryAfter(tried.answer.headers, transport.clock.now()) : undefined;
    const delayMs =
      retried < retries && isWorthRetrying(tried) ? delayBefore(retried, tried, retryAfterMs, random) : undefined;
    if (delayMs === undefined || isTooLate(transport, sending, delayMs)) {
      if (tried.kind === 'answer') return { answer: tried.answer, attempts, outcome, retryAfterMs };
      throw restate(tried.error, sending, attempts, outcome);
    }
    retried += 1;
    transport.trace?.({ kind: 'retry', text: `${retried} of ${retries} in ${Math.round(delayMs)} ms` });
    await pause(transport, sending, delayMs, attempts, outcome);
  }
}

async function firstToken(sending: Sending): Promise<string | undefined> {
  try {
    return await sending.bearer?.(undefined, sending.signal);
  } catch (error) {
    throw error instanceof RequestError ? restate(error, sending, 0, 'not_applied') : error;
  }
}

async function tryOnce(transport: Transport, sending: Sending, token: string | undefined): Promise<Try> {
  const headers: Record<string, string> = { ...sending.headers };
  if (token !== undefined) headers['authorization'] = `Bearer ${token}`;
  if (sending.idempotencyKey !== undefined) headers['idempotency-key'] = sending.idempotencyKey;
  const { method, url, signal, maxBytes, silenceTimeoutMs } = sending;
  const body = typeof sending.body === 'function' ? sending.body() : sending.body;
  try {
    const answer = await transport.send({ method, url, headers, body, signal, maxBytes, silenceTimeoutMs });
    return { kind: 'answer', answer };
  } catch (error) {
    if (error instanceof RequestError) return { kind: 'error', error };
    throw error;
  }
}

async function renew(
  sending: Sending,
  bearer: BearerSource,
  rejected: string | undefined,
  answer: HttpAnswer,
  attempts: number,
  outcome: Outcome,
): Promise<string> {
  try {
    return await bearer(rejected, sending.signal);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    throw new RequestError({
      ...restate(error, sending, attempts, outcome),
      message: error.message,
      status: error.status ?? answer.status,
    });
  }
}

function isWorthRetrying(tried: Try): boolean {
  return tried.kind === 'answer' ? isRetryableStatus(tried.answer.status) : tried.error.isRetryable;
}

function delayBefore(retried: number, tried: Try, retryAfterMs: number | undefined, random: Random): number {
  const [min, max] = RETRY_JITTER_MS[Math.min(retried, RETRY_JITTER_MS.length - 1)] ?? [0, 0];
  const isLimited = tried.kind === 'answer' && tried.answer.status === 429;
  const asked = retryAfterMs ?? (isLimited ? UNSAID_RETRY_AFTER_MS : 0);
  return asked + min + random.fraction() * (max - min);
}

function isTooLate(transport: Transport, sending: Sending, delayMs: number): boolean {
  return sending.deadline !== undefined && transport.clock.monotonic() + delayMs >= sending.deadline;
}

async function pause(
  transport: Transport,
  sending: Sending,
  delayMs: number,
  attempts: number,
  outcome: Outcome,
): Promise<void> {
  try {
    await wait(transport.clock, delayMs, sending.signal);
  } catch (error) {
    if (sending.signal?.aborted !== true) throw error;
    throw restate(abortion(sending.signal, outcome), sending, attempts, outcome);
  }
}

function mayHaveHappened(tried: Try): boolean {
  if (tried.kind === 'error') return tried.error.outcome === 'unknown';
  return tried.answer.status >= 500 || tried.answer.status === 408;
}

/** An answer that is final settles what earlier tries left open, since they all carried one key. */
function outcomeOf(tried: Try, isUncertain: boolean): Outcome {
  if (tried.kind === 'error') return isUncertain ? 'unknown' : 'not_applied';
  const { status } = tried.answer;
  if (status >= 200 && status < 300) return 'applied';
  if (status === 401) return isUncertain ? 'unknown' : 'not_applied';
  return isRetryableStatus(status) && isUncertain ? 'unknown' : 'not_applied';
}

function restate(error: RequestError, sending: Sending, attempts: number, outcome: Outcome): RequestError {
  return new RequestError({
    code: error.code,
    message: error.message,
    status: error.status,
    isRetryable: error.isRetryable,
    retryAfterMs: error.retryAfterMs,
    oauthError: error.oauthError,
    cause: error.cause,
    outcome,
    attempts,
    idempotencyKey: sending.idempotencyKey,
    request: requestOf(sending),
  });
}

/** What an error may say of the request: no query, no host. */
export function requestOf(sending: Pick<Sending, 'method' | 'url'>): { method: string; path: string } {
  return { method: sending.method, path: new URL(sending.url).pathname };
}
