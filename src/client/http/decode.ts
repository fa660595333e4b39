import { ErrorEnvelope } from '../../wire/error.js';
import { RequestError } from './request-error.js';
import { requestOf, type Sending, type Sent } from './send.js';
import type { HttpAnswer } from './transport.js';

const MESSAGE_MAX_LENGTH = 500;

/** What a schema can be asked: zod's, of either kind. */
export interface Decoder<Value> {
  safeParse(value: unknown): { readonly success: boolean; readonly data?: Value | undefined };
}

/** The body of a 2xx answer, checked. @throws RequestError `ASP_BAD_ANSWER`: then a write was applied all the same. */
export function decodeReply<Value>(decoder: Decoder<Value>, sent: Sent, sending: Sending): Value {
  const parsed = decoder.safeParse(parseJson(sent.answer));
  if (parsed.success) return parsed.data as Value;
  throw new RequestError({
    code: 'ASP_BAD_ANSWER',
    message: `The service answered ${sent.answer.status} in a form that was not understood.`,
    isRetryable: false,
    ...contextOf(sent, sending),
  });
}

/** The error that a non-2xx answer stands for: the envelope's code, or what its status says when there is no envelope. */
export function errorOfAnswer(sent: Sent, sending: Sending): RequestError {
  const { status, headers } = sent.answer;
  const envelope = ErrorEnvelope.safeParse(parseJson(sent.answer));
  const challenge = /\berror="([\w-]+)"/.exec(headers['www-authenticate'] ?? '')?.[1];
  const context = { ...contextOf(sent, sending), retryAfterMs: sent.retryAfterMs, oauthError: challenge };
  if (envelope.success) {
    const { code, message } = envelope.data.error;
    return new RequestError({ code, message: message.slice(0, MESSAGE_MAX_LENGTH), ...context });
  }
  return new RequestError({ ...withoutEnvelope(status), ...context });
}

function withoutEnvelope(status: number): { code: string; message: string } {
  if (status === 401) return { code: 'UNAUTHORIZED', message: 'The access token was not accepted.' };
  if (status === 429) return { code: 'RATE_LIMITED', message: 'Too many requests.' };
  if (status >= 500) return { code: 'INTERNAL_ERROR', message: `The service answered ${status}.` };
  return {
    code: 'ASP_BAD_ANSWER',
    message: `The address answered ${status}, but not as this kind of service does: is it the right base URL?`,
  };
}

function contextOf(sent: Sent, sending: Sending) {
  return {
    status: sent.answer.status,
    outcome: sent.outcome,
    attempts: sent.attempts,
    idempotencyKey: sending.idempotencyKey,
    request: requestOf(sending),
  };
}

function parseJson(answer: HttpAnswer): unknown {
  if (answer.headers['content-encoding'] !== undefined) return undefined;
  try {
    return JSON.parse(answer.body.toString('utf8'));
  } catch {
    return undefined;
  }
}
