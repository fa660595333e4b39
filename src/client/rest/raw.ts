import { isBelow, secureUrl } from '../http/address.js';
import { RequestError } from '../http/request-error.js';
import { sendWithRetries } from '../http/send.js';
import type { HttpRequest } from '../http/transport.js';
import { type CallOptions, prepare, type RestContext } from './call.js';

/** A request of the caller's own making, to a path below {base_url}. */
export interface RawRequest extends CallOptions {
  readonly method: HttpRequest['method'];
  /** Below {base_url}, with or without a leading slash; its query string included. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
}

/** The answer to a {@link RawRequest}, whatever its status. */
export interface RawAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly attempts: number;
  readonly idempotencyKey: string | undefined;
}

/**
 * Sends what it is told, with the bearer and, on writes, a key. Paths that leave {base_url} are refused, so that the token
 * stays there. @throws RequestError when there is no answer.
 */
export async function sendRaw(context: RestContext, request: RawRequest): Promise<RawAnswer> {
  const path = request.path.startsWith('/') ? request.path : `/${request.path}`;
  const base = secureUrl(context.baseUrl, 'base URL');
  if (!URL.canParse(context.baseUrl + path) || !isBelow(base, new URL(context.baseUrl + path)))
    throw new RequestError({ code: 'ASP_INSECURE_ADDRESS', message: 'The path leaves the base URL.' });
  const { method, headers, body } = request;
  const sending = prepare(context, request, { method, path, accept: '*/*', headers, body });
  const sent = await sendWithRetries(context.transport, context.random, sending);
  return { ...sent.answer, attempts: sent.attempts, idempotencyKey: sending.idempotencyKey };
}
