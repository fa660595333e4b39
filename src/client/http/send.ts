import type * as z from 'zod/mini';
import { wait } from '../../kit/clock.js';
import { isLoopbackHost } from '../../kit/loopback.js';
import { parseIfJson } from '../../kit/parse-json.js';
import type { Random } from '../../kit/random.js';
import { readRetryAfter } from '../../kit/retry-after.js';
import { isRetryableStatus } from '../../wire/error.js';
import { isRequestId, REQUEST_ID_HEADER } from '../../wire/http.js';
import { RETRY_JITTER_MS } from '../../wire/limit.js';
import { ErrorEnvelope } from '../../wire/schemas/base.js';
import { MISFIT, readAs } from './read-as.js';
import { abortion, isRefusedConnection, MESSAGE_MAX_LENGTH, type Outcome, RequestError } from './request-error.js';
import type { HttpAnswer, HttpRequest, Transport } from './transport.js';

/** The pause before the retry of a rate-limited answer without a usable `Retry-After`. */
const UNSAID_RETRY_AFTER_MS = 1000;
/** Without a deadline, the maximum total of all pauses of one request. */
const PATIENCE_MS = 120_000;
/** Retries if nothing listens on this machine: no network could be at fault. */
const LOOPBACK_RETRIES = 1;

/** Returns the bearer token; `rejected` is one that was refused and must not be returned again. */
export type BearerSource = (rejected: string | undefined, signal: AbortSignal | undefined) => Promise<string>;

/** A request that may be sent several times. */
export interface Sending {
  readonly method: HttpRequest['method'];
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** If this is a function, it is called once per attempt. */
  readonly body?: string | Uint8Array | (() => AsyncIterable<Uint8Array>) | undefined;
  readonly bearer?: BearerSource | undefined;
  /** Sent with every attempt. */
  readonly idempotencyKey?: string | undefined;
  /** The scopes that it needs, for the error if the token lacks one. */
  readonly scopes?: readonly string[] | undefined;
  /** Whether it may be sent again (default: reads, and writes with a key). */
  readonly isRepeatable?: boolean | undefined;
  /** Tries after the first. */
  readonly retries: number;
  /**
   * On the transport's monotonic clock, in milliseconds: pauses do not go beyond it, nor beyond the transport's own
   * deadline.
   */
  readonly deadline?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  readonly maxBytes?: number | undefined;
  /** How long the service may be silent during one attempt (default: the transport's own limit). */
  readonly silenceTimeoutMs?: number | undefined;
}

/** The last answer, of any status, and its attempts. */
export interface Sent {
  readonly answer: HttpAnswer;
  /** Requests sent, including this one. */
  readonly attempts: number;
  readonly outcome: Outcome;
  readonly retryAfterMs: number | undefined;
}

type Try = { readonly kind: 'answer'; readonly answer: HttpAnswer } | { readonly kind: 'error'; error: RequestError };

/**
 * Sends until there is an answer that a retry would not change. 408, 425, 429, 5xx and broken connections are retried
 * after `Retry-After` plus the recommended jitter. A 401 renews the token once and is retried without counting. Nothing
 * else is repeated (spec: Client handling; Rate limits). If a pause would pass the deadline, the last failure is the
 * result.
 * @throws RequestError if there is no answer, or the credential failed.
 */
export async function sendWithRetries(transport: Transport, random: Random, sending: Sending): Promise<Sent> {
  const isWrite = sending.method !== 'GET' && sending.method !== 'HEAD';
  const isRepeatable = sending.isRepeatable ?? (!isWrite || sending.idempotencyKey !== undefined);
  const retries = isRepeatable ? sending.retries : 0;
  const isLocal = isLoopbackHost(new URL(sending.url).hostname);
  let attempts = 0;
  let retried = 0;
  let pausedMs = 0;
  let isUncertain = false;
  let lastFailure: RequestError | undefined;
  let token = await firstToken(sending);
  let isRenewed = false;
  while (true) {
    attempts += 1;
    const tried = await tryOnce(transport, sending, token);
    isUncertain ||= isWrite && mayHaveHappened(tried);
    const outcome = decideOutcome(tried, isUncertain);
    if (tried.kind === 'answer' && tried.answer.status === 401 && sending.bearer !== undefined && !isRenewed) {
      isRenewed = true;
      token = await renew(sending, sending.bearer, token, tried.answer, attempts, outcome);
      continue;
    }
    const retryAfterMs =
      tried.kind === 'answer' ? readRetryAfter(tried.answer.headers, transport.clock.now()) : undefined;
    const isNobodyThere = tried.kind === 'error' && isLocal && isRefusedConnection(tried.error);
    const allowed = isNobodyThere ? Math.min(retries, LOOPBACK_RETRIES) : retries;
    const delayMs =
      retried < allowed && isWorthRetrying(tried) ? delayBefore(retried, tried, retryAfterMs, random) : undefined;
    if (delayMs === undefined || isTooLong(transport, sending, delayMs, pausedMs)) {
      if (tried.kind === 'answer') return { answer: tried.answer, attempts, outcome, retryAfterMs };
      throw restate(withLastFailure(tried.error, lastFailure), sending, attempts, outcome);
    }
    retried += 1;
    pausedMs += delayMs;
    lastFailure =
      tried.kind === 'error'
        ? restate(tried.error, sending, attempts, outcome)
        : errorOfAnswer({ answer: tried.answer, attempts, outcome, retryAfterMs }, sending);
    transport.trace?.({ kind: 'retry', text: `${retried} of ${retries} in ${Math.round(delayMs)} ms` });
    transport.onPause?.({ delayMs, attempts, failure: lastFailure });
    await pause(transport, sending, delayMs, lastFailure);
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
      cause: error.cause,
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
  const requestedMs = retryAfterMs ?? (isLimited ? UNSAID_RETRY_AFTER_MS : 0);
  return requestedMs + min + random.fraction() * (max - min);
}

function isTooLong(transport: Transport, sending: Sending, delayMs: number, pausedMs: number): boolean {
  const deadline = Math.min(
    sending.deadline ?? Number.POSITIVE_INFINITY,
    transport.deadline ?? Number.POSITIVE_INFINITY,
  );
  if (deadline === Number.POSITIVE_INFINITY) return pausedMs + delayMs > PATIENCE_MS;
  return transport.clock.monotonic() + delayMs >= deadline;
}

async function pause(transport: Transport, sending: Sending, delayMs: number, failure: RequestError): Promise<void> {
  try {
    await wait(transport.clock, delayMs, sending.signal);
  } catch (error) {
    if (sending.signal?.aborted !== true) throw error;
    const aborted = abortion(sending.signal, failure.outcome);
    throw restate(withLastFailure(aborted, failure), sending, failure.attempts, failure.outcome);
  }
}

/** If a deadline passes after failed attempts, the error says why they failed. */
function withLastFailure(error: RequestError, lastFailure: RequestError | undefined): RequestError {
  if (lastFailure === undefined || (error.code !== 'ASP_TIMEOUT' && error.code !== 'ASP_ABORTED')) return error;
  return new RequestError({ ...error, message: error.message, cause: lastFailure });
}

function mayHaveHappened(tried: Try): boolean {
  if (tried.kind === 'error') return tried.error.outcome === 'unknown';
  return tried.answer.status >= 500 || tried.answer.status === 408;
}

/** A final answer settles what earlier attempts left open, because they all carried one key. */
function decideOutcome(tried: Try, isUncertain: boolean): Outcome {
  if (tried.kind === 'error') return isUncertain ? 'unknown' : 'not_applied';
  const { status } = tried.answer;
  if (status >= 200 && status < 300) return 'applied';
  if (status === 401) return isUncertain ? 'unknown' : 'not_applied';
  return isRetryableStatus(status) && isUncertain ? 'unknown' : 'not_applied';
}

function restate(error: RequestError, sending: Sending, attempts: number, outcome: Outcome): RequestError {
  return new RequestError({
    ...error,
    message: error.message,
    cause: error.cause,
    outcome,
    attempts,
    idempotencyKey: sending.idempotencyKey,
    request: describeRequest(sending),
  });
}

/** The request as an error may describe it: without query and host. */
export function describeRequest(sending: Pick<Sending, 'method' | 'url'>): { method: string; path: string } {
  return { method: sending.method, path: new URL(sending.url).pathname };
}

/** The id that the service gave the request; undefined if it is malformed. */
export function readRequestId(headers: Readonly<Record<string, string>>): string | undefined {
  const id = headers[REQUEST_ID_HEADER];
  return id !== undefined && isRequestId(id) ? id : undefined;
}

/** The body of a 2xx answer, validated. @throws RequestError `ASP_BAD_ANSWER`: the write was applied anyway. */
export function decodeReply<Schema extends z.ZodMiniType>(
  schema: Schema,
  sent: Sent,
  sending: Sending,
): z.output<Schema> {
  const parsed = readDocument(schema, sent.answer);
  if (parsed !== undefined) return parsed;
  const context = toErrorContext(sent, sending);
  const { method, path } = context.request;
  throw new RequestError({
    code: 'ASP_BAD_ANSWER',
    message: `Could not parse the service's answer to ${method} ${path} (status ${context.status}).`,
    isRetryable: false,
    ...context,
  });
}

/** The error in a non-2xx answer: the envelope's code, or one based on its status if there is no envelope. */
export function errorOfAnswer(sent: Sent, sending: Sending): RequestError {
  const { status, headers } = sent.answer;
  const envelope = ErrorEnvelope.safeParse(parseJson(sent.answer));
  const challenge = headers['www-authenticate'] ?? '';
  const oauthError = /\berror="([\w-]+)"/.exec(challenge)?.[1];
  const lacksScope = oauthError === 'insufficient_scope' || envelope.data?.error.code === 'INSUFFICIENT_SCOPE';
  const neededScopes = lacksScope ? sending.scopes : undefined;
  const context = { ...toErrorContext(sent, sending), retryAfterMs: sent.retryAfterMs, oauthError, neededScopes };
  if (envelope.success) {
    const { code, message } = envelope.data.error;
    return new RequestError({ code, message: message.slice(0, MESSAGE_MAX_LENGTH), ...context });
  }
  return new RequestError({ ...withoutEnvelope(status), ...context });
}

function withoutEnvelope(status: number): { code: string; message: string } {
  if (status === 401) return { code: 'UNAUTHORIZED', message: 'The access token was not accepted.' };
  if (status === 429) return { code: 'RATE_LIMITED', message: 'Too many requests.' };
  if (status >= 500) return { code: 'INTERNAL_ERROR', message: `The service answered with status ${status}.` };
  return {
    code: 'ASP_BAD_ANSWER',
    message: `The address answered with ${status}, so it is not this kind of service. Is the base URL right?`,
  };
}

function toErrorContext(sent: Sent, sending: Sending) {
  return {
    status: sent.answer.status,
    requestId: readRequestId(sent.answer.headers),
    outcome: sent.outcome,
    attempts: sent.attempts,
    idempotencyKey: sending.idempotencyKey,
    request: describeRequest(sending),
  };
}

/** The body of an answer as `schema` describes it, with omitted members filled in; undefined if it does not fit. */
export function readDocument<Schema extends z.ZodMiniType>(
  schema: Schema,
  answer: HttpAnswer,
): z.output<Schema> | undefined {
  const document = readAs(schema, parseJson(answer));
  return document === MISFIT ? undefined : document;
}

function parseJson(answer: HttpAnswer): unknown {
  if (answer.headers['content-encoding'] !== undefined) return undefined;
  return parseIfJson(answer.body.toString('utf8'));
}
