import { type Random, randomUuid } from '../../kit/random.js';
import {
  type BodyOf,
  ENDPOINT_ALIAS,
  endpointRow,
  fillPath,
  type Operation,
  type PathOf,
  type QueryInputOf,
  type ReplyOf,
} from '../../wire/endpoint.js';
import { Ok } from '../../wire/session.js';
import { UnblockReply } from '../../wire/trust.js';
import { isBelow, secureUrl } from '../http/address.js';
import { RequestError } from '../http/request-error.js';
import {
  type BearerSource,
  decodeReply,
  errorOfAnswer,
  type Sending,
  type Sent,
  sendWithRetries,
} from '../http/send.js';
import type { HttpRequest, Transport } from '../http/transport.js';

/** Options that every call takes. */
export interface CallOptions {
  /** The idempotency key of a write, sent with each attempt (default: a new UUID). Ignored by reads. */
  readonly idempotencyKey?: string | undefined;
  /** Ends the call with `ASP_ABORTED`, or with `ASP_TIMEOUT` when its reason is a `TimeoutError`. */
  readonly signal?: AbortSignal | undefined;
  /** Attempts after the first, in place of the client's own number. */
  readonly retries?: number | undefined;
}

type Part<Name extends string, Value> = keyof Value extends never
  ? { readonly [Key in Name]?: undefined }
  : Record<never, never> extends Value
    ? { readonly [Key in Name]?: Value | undefined }
    : { readonly [Key in Name]: Value };

/** The path parameters (`path`), query parameters (`query`) and JSON body (`body`) of one operation, and {@link CallOptions}. */
export type CallInput<Name extends Operation> = Part<'path', PathOf<Name>> &
  Part<'query', QueryInputOf<Name>> &
  Part<'body', BodyOf<Name>> &
  CallOptions;

/** A decoded reply and how it came about. */
export interface CallResult<Reply> {
  /** The body of the answer, with the names and types of the wire. */
  readonly reply: Reply;
  /** Requests sent, the successful one included. */
  readonly attempts: number;
  /** The key that all attempts carried; undefined for reads. */
  readonly idempotencyKey: string | undefined;
}

/** What the calls of one client share. */
export interface RestContext {
  readonly baseUrl: string;
  readonly transport: Transport;
  readonly random: Random;
  readonly bearer: BearerSource;
  readonly retries: number;
  /** When the next call must be over, on the transport's monotonic clock. */
  deadline(): number | undefined;
}

/** An input without the types of its operation. */
interface Untyped extends CallOptions {
  readonly path?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
}

/** Replies that say no more than the status does: any 2xx is one of them, whatever its body. */
const ACKNOWLEDGEMENT = new Map<unknown, object>([
  [Ok, { ok: true }],
  [UnblockReply, { unblocked: true }],
]);

/**
 * Calls one endpoint of the table: path, query and body in, the decoded reply out; a write carries one key on all attempts.
 * @throws RequestError for every answer but 2xx, and when there is none.
 */
export async function callEndpoint<Name extends Operation>(
  context: RestContext,
  operation: Name,
  input: CallInput<Name>,
): Promise<CallResult<ReplyOf<Name>>>;
export async function callEndpoint(
  context: RestContext,
  operation: Operation,
  input: Untyped,
): Promise<CallResult<unknown>> {
  const { path } = endpointRow(operation);
  try {
    return await callPath(context, operation, path, input);
  } catch (error) {
    const alias = await findAlias(context, operation, input, error);
    if (alias === undefined) throw error;
    return await callPath(context, operation, alias, input).catch((second: unknown) => {
      throw hasNoRoute(second) ? error : second;
    });
  }
}

async function callPath(
  context: RestContext,
  operation: Operation,
  path: string,
  input: Untyped,
): Promise<CallResult<unknown>> {
  const { method, reply: decoder, scopes } = endpointRow(operation);
  const { body } = input;
  const sending = prepare(context, input, {
    method,
    path: fillPath(path, input.path ?? {}),
    query: input.query,
    scopes,
    accept: decoder === 'markdown' ? 'text/markdown' : 'application/json',
    ...(body === undefined ? {} : { contentType: 'application/json', body: JSON.stringify(body) }),
  });
  const sent = await succeed(context, sending);
  const result = { attempts: sent.attempts, idempotencyKey: sending.idempotencyKey };
  if (decoder === 'nothing') return { reply: undefined, ...result };
  if (decoder === 'markdown') return { reply: sent.answer.body.toString('utf8'), ...result };
  return { reply: ACKNOWLEDGEMENT.get(decoder) ?? decodeReply(decoder, sent, sending), ...result };
}

/**
 * The second address of an endpoint below `/agents/me`, for a service that does not have the first (wire: Aliases). `me` is the
 * acting agent, so another agent's list is never read there.
 */
async function findAlias(
  context: RestContext,
  operation: Operation,
  input: Untyped,
  error: unknown,
): Promise<string | undefined> {
  if (!hasNoRoute(error)) return undefined;
  const alias = ENDPOINT_ALIAS.find((row) => row.operation === operation && row.path.startsWith('/agents/me/'));
  const { owner, name } = input.path ?? {};
  if (alias === undefined || owner === undefined) return alias?.path;
  const me = await callEndpoint(context, 'getActingAgent', { signal: input.signal }).catch(() => undefined);
  return me?.reply.canonical_handle === `@${owner}.${name}` ? alias.path : undefined;
}

/** Whether an answer can mean that the service has no such endpoint. A service that has it may say 404 for other reasons. */
function hasNoRoute(error: unknown): boolean {
  return error instanceof RequestError && (error.status === 404 || error.status === 405);
}

/** A request below {base_url}. */
export interface Prepared {
  readonly method: Sending['method'];
  /** With its leading slash. */
  readonly path: string;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly accept: string;
  readonly contentType?: string | undefined;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: Sending['body'];
  readonly scopes?: Sending['scopes'];
}

/** Adds what every request of a client carries: the bearer, on writes a key, the number of attempts and the deadline. */
export function prepare(context: RestContext, options: CallOptions, request: Prepared): Sending {
  const headers: Record<string, string> = { accept: request.accept, ...request.headers };
  if (request.contentType !== undefined) headers['content-type'] = request.contentType;
  return {
    method: request.method,
    url: `${context.baseUrl}${request.path}${queryString(request.query)}`,
    headers,
    body: request.body,
    scopes: request.scopes,
    bearer: context.bearer,
    idempotencyKey: keyFor(context, options, request.method),
    retries: options.retries ?? context.retries,
    deadline: context.deadline(),
    signal: options.signal,
  };
}

/** Sends until there is an answer, and lets only 2xx pass. @throws RequestError */
export async function succeed(context: RestContext, sending: Sending): Promise<Sent> {
  const sent = await sendWithRetries(context.transport, context.random, sending);
  const { status } = sent.answer;
  if (status < 200 || status > 299) throw errorOfAnswer(sent, sending);
  return sent;
}

function keyFor(context: RestContext, options: CallOptions, method: Sending['method']): string | undefined {
  if (method === 'HEAD' || method === 'GET') return undefined;
  return options.idempotencyKey ?? randomUuid(context.random);
}

function queryString(query: Readonly<Record<string, unknown>> | undefined): string {
  const values = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) if (value !== undefined) values.set(name, String(value));
  return values.size === 0 ? '' : `?${values}`;
}

/** A request to any path below the base URL, for what the typed calls do not cover. */
export interface RawRequest extends CallOptions {
  readonly method: HttpRequest['method'];
  /** Below the base URL, with or without a leading slash; its query string included. */
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>> | undefined;
  readonly body?: string | Uint8Array | undefined;
}

/** The answer to a {@link RawRequest}, whatever its status. */
export interface RawAnswer {
  readonly status: number;
  /** Names are lower case; a repeated header is joined by `, `. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  readonly attempts: number;
  /** The key that all attempts carried; undefined for reads. */
  readonly idempotencyKey: string | undefined;
}

/**
 * Sends a request as it is given, with the bearer and, on writes, a key. Paths that leave {base_url} are refused, so that the
 * token stays there. @throws RequestError when there is no answer.
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
