import { type Random, randomUuid } from '../../kit/random.js';
import {
  type BodyOf,
  endpointRow,
  fillPath,
  type Operation,
  type PathOf,
  type QueryInputOf,
  type ReplyOf,
} from '../../wire/endpoint.js';
import { type Decoder, decodeReply, errorOfAnswer } from '../http/decode.js';
import { type BearerSource, type Sending, type Sent, sendWithRetries } from '../http/send.js';
import type { Transport } from '../http/transport.js';

/** What every call may be given. */
export interface CallOptions {
  /** For writes: the key of all tries; a new UUID unless given (spec: Idempotency). */
  readonly idempotencyKey?: string | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Tries after the first, in place of the client's own number. */
  readonly retries?: number | undefined;
}

type Part<Name extends string, Value> = keyof Value extends never
  ? { readonly [Key in Name]?: undefined }
  : Record<never, never> extends Value
    ? { readonly [Key in Name]?: Value | undefined }
    : { readonly [Key in Name]: Value };

/** The path parameters, query and body of one operation. */
export type CallInput<Name extends Operation> = Part<'path', PathOf<Name>> &
  Part<'query', QueryInputOf<Name>> &
  Part<'body', BodyOf<Name>> &
  CallOptions;

/** A decoded reply and how it was had. */
export interface CallResult<Reply> {
  readonly reply: Reply;
  /** Requests sent, the successful one included. */
  readonly attempts: number;
  /** The key that all tries carried; undefined for reads. */
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

/** What an endpoint's row and a caller make of a request. */
interface Untyped extends CallOptions {
  readonly path?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
}

/**
 * Calls one endpoint of the table: path, query and body in, the decoded reply out; writes carry one key through all tries.
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
  given: Untyped,
): Promise<CallResult<unknown>> {
  const row = endpointRow(operation);
  const { body } = given;
  const sending = prepare(context, given, {
    method: row.method,
    path: fillPath(row.path, given.path ?? {}),
    query: given.query,
    accept: row.reply === 'markdown' ? 'text/markdown' : 'application/json',
    ...(body === undefined ? {} : { contentType: 'application/json', body: JSON.stringify(body) }),
  });
  const sent = await succeed(context, sending);
  const decoder: Decoder<unknown> | 'markdown' | 'nothing' = row.reply;
  const reply =
    decoder === 'markdown'
      ? sent.answer.body.toString('utf8')
      : decoder === 'nothing'
        ? undefined
        : decodeReply(decoder, sent, sending);
  return { reply, attempts: sent.attempts, idempotencyKey: sending.idempotencyKey };
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
}

/** Adds what every request of a client carries: the bearer, on writes a key, the number of tries and the deadline. */
export function prepare(context: RestContext, options: CallOptions, request: Prepared): Sending {
  const headers: Record<string, string> = { accept: request.accept, ...request.headers };
  if (request.contentType !== undefined) headers['content-type'] = request.contentType;
  return {
    method: request.method,
    url: `${context.baseUrl}${request.path}${queryString(request.query)}`,
    headers,
    body: request.body,
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
