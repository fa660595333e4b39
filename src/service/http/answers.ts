import type { IncomingMessage } from 'node:http';
import { Readable } from 'node:stream';
import type { FastifyReply, FastifyRequest } from 'fastify';
import createRouter from 'find-my-way';
import { codeOf } from '../../kit/format.js';
import { type ErrorCode, errorRow } from '../../wire/error.js';
import type { Log, LogFields } from '../core/context.js';
import { isOutage, ServiceError } from '../core/errors.js';
import { describeScope, type RequestScope, scopeOf } from '../core/request-scope.js';

/** How much is passed to a connection at once, so that an unread answer does not fill its buffers. */
const CHUNK_BYTES = 64 * 1024;

/** How much of a refused body is read after its answer. */
const DISCARDED_MAX_BYTES = 16 * 1024 * 1024;

/**
 * Sends an answer; a long one in pieces, as the reader takes them. If it fails on the way, the connection is cut, and only
 * the log can say why.
 */
export function sendAnswer(reply: FastifyReply, { status, headers, body, more }: Answer, log: Log): FastifyReply {
  reply.code(status);
  for (const [name, value] of headers) if (status !== 204 || name !== 'content-type') reply.header(name, value);
  if (status === 204) return reply.send();
  if (more !== undefined) return reply.send(toStream(logged(concatenate(body, more), log, reply.request.raw)));
  const isBodyUnread = !reply.request.raw.complete && (!reply.raw.shouldKeepAlive || closes(headers));
  if (body.length <= CHUNK_BYTES && !isBodyUnread) return reply.send(body);
  const bytes = Buffer.from(body);
  if (isBodyUnread)
    return reply.header('content-length', bytes.length).send(toStream(answerThenDiscard(bytes, reply.request.raw)));
  return reply.header('content-length', bytes.length).send(toStream(cut(bytes)));
}

function toStream(chunks: Iterable<Buffer> | AsyncIterable<Buffer>): Readable {
  return Readable.from(chunks, { objectMode: false, highWaterMark: CHUNK_BYTES });
}

function closes(headers: Answer['headers']): boolean {
  return headers.some(([name, value]) => name === 'connection' && value === 'close');
}

/**
 * If a connection closes while its peer is still sending, it is reset, and the peer loses the answer. So the rest of
 * the body is read first. A peer that stops sending is closed like any other.
 */
async function* answerThenDiscard(bytes: Buffer, request: IncomingMessage): AsyncGenerator<Buffer> {
  yield* cut(bytes);
  if (request.destroyed) return;
  await new Promise<void>((resolve) => {
    let size = 0;
    request
      .on('error', () => {})
      .once('close', resolve)
      .once('end', resolve);
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > DISCARDED_MAX_BYTES) resolve();
    });
  });
}

async function* concatenate(first: string, more: AsyncIterable<string | Buffer>): AsyncGenerator<Buffer> {
  yield* cut(Buffer.from(first));
  for await (const part of more) yield* cut(typeof part === 'string' ? Buffer.from(part) : part);
}

function* cut(bytes: Buffer): Generator<Buffer> {
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) yield bytes.subarray(start, start + CHUNK_BYTES);
}

/**
 * A complete answer, so that HTTP, a refused handshake and a malformed request line report an error in the same bytes.
 */
export interface Answer {
  readonly status: number;
  /** In sending order. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: string;
  /** More content after the body, read while the answer is sent. */
  readonly more?: AsyncIterable<string | Buffer> | undefined;
}

export const JSON_TYPE = 'application/json; charset=utf-8';

/** On every answer of the API: caches must not store it, and browsers must not render it as a page. */
const API_HEADERS = [
  ['cache-control', 'no-store'],
  ['x-content-type-options', 'nosniff'],
] as const;

/** Codes of the HTTP framework for errors of the caller, and the status for each. */
const FRAMEWORK_STATUS: Record<string, number> = {
  FST_ERR_BAD_URL: 400,
  FST_ERR_MAX_PARAM_LENGTH: 404,
  FST_ERR_CTP_BODY_TOO_LARGE: 413,
  FST_ERR_CTP_INVALID_MEDIA_TYPE: 415,
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: 400,
  FST_ERR_CTP_EMPTY_JSON_BODY: 400,
};

/** After a failover the database is usually back within seconds. */
const DATABASE_RETRY_AFTER_S = 2;

/**
 * The answer for any thrown value. An unknown error is logged for the request of `scope`, and its text never leaves the
 * service; an unavailable database is logged once, not for each call. A 401 names `metadataUrl`, where the resource
 * publishes its authorization server (RFC 9728 §5.1).
 */
export function answerOfError(error: unknown, log: Log, scope: RequestScope | undefined, metadataUrl?: string): Answer {
  const known = asServiceError(error);
  logFailure(error, known, log, scope);
  return known === undefined ? toAnswer(new ServiceError('INTERNAL_ERROR')) : toAnswer(known, metadataUrl);
}

function logFailure(error: unknown, known: ServiceError | undefined, log: Log, scope: RequestScope | undefined): void {
  if (known === undefined) log.error('request_failed', error, describeScope(scope));
  else log.debug?.('refused', { error: known.code, ...limitOf(known), ...describeScope(scope) });
}

const limitOf = ({ options: { limit } }: ServiceError): LogFields => (limit === undefined ? {} : { limit });

async function* logged(parts: AsyncIterable<Buffer>, log: Log, request: IncomingMessage): AsyncGenerator<Buffer> {
  const scope = scopeOf(request);
  try {
    yield* parts;
  } catch (error) {
    logFailure(error, asServiceError(error), log, scope);
    throw error;
  }
}

function asServiceError(error: unknown): ServiceError | undefined {
  if (error instanceof ServiceError) return error;
  if (isOutage(error))
    return new ServiceError('INTERNAL_ERROR', 'The service cannot read or write its data right now. Try again soon.', {
      status: 503,
      retryAfterS: DATABASE_RETRY_AFTER_S,
    });
  const status = FRAMEWORK_STATUS[codeOf(error)];
  if (status === undefined) return undefined;
  if (status === 404) return new ServiceError('NOT_FOUND');
  return new ServiceError('VALIDATION_ERROR', undefined, { status });
}

/** The answer for a `ServiceError`. */
export function toAnswer(error: ServiceError, metadataUrl?: string): Answer {
  const { challenge } = errorRow(error.code);
  const { retryAfterS, allow } = error.options;
  const more: [string, string][] = [];
  const where = metadataUrl !== undefined && error.status === 401 ? `, resource_metadata="${metadataUrl}"` : '';
  if (challenge !== undefined) more.push(['www-authenticate', `Bearer error="${challenge}"${where}`]);
  if (retryAfterS !== undefined) more.push(['retry-after', String(retryAfterS)]);
  if (allow !== undefined) more.push(['allow', allow]);
  if (error.status === 413 || error.status === 503) more.push(['connection', 'close']);
  return answerWith(error.status, JSON_TYPE, toErrorEnvelope(error.code, error.message), more);
}

/** An answer with the headers that all answers of the API carry, always in the same order. */
export function answerWith(status: number, type: string, body: string, more: Answer['headers'] = []): Answer {
  return { status, headers: [['content-type', type], ...API_HEADERS, ...more], body };
}

/** The error envelope (spec: Errors). */
function toErrorEnvelope(code: ErrorCode, message: string): string {
  return JSON.stringify({ error: { code, message } });
}

/** The methods that an address answers with 405 if it does not have them. Any other method gets 404. */
export const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'] as const;

/** A public address that answers HEAD too: monitors and programs that show a preview of a link ask with it. */
export const GET_AND_HEAD = { exposeHeadRoute: true } as const;

/** The length up to which the router reads a parameter of a path. */
export const PATH_PARAMETER_MAX_LENGTH = 500;

/** Answers a request whose method its address does not have. `route` is the pattern of the address. */
type Refuse = (request: FastifyRequest, reply: FastifyReply, route: string) => FastifyReply;

/**
 * The addresses that answer 405 to the methods that they do not have. If these answers were routes, registering them
 * would take as long as registering everything else.
 */
export interface OtherMethods {
  refuse(route: string, refuse: Refuse): void;
  /** Answers a request that has no route; undefined: its address has none for any method. */
  answer(request: FastifyRequest, reply: FastifyReply): FastifyReply | undefined;
  /** The pattern of the address that `answer` has refused the request for. */
  routeOf(request: IncomingMessage): string | undefined;
}

export function createOtherMethods(): OtherMethods {
  const refusals = new Map<string, Refuse>();
  const refused = new WeakMap<IncomingMessage, string>();
  let find: ((url: string) => string | undefined) | undefined;
  return {
    refuse: (route, refuse) => void refusals.set(route, refuse),
    answer(request, reply) {
      if (!(METHODS as readonly string[]).includes(request.method)) return undefined;
      find ??= createFinder([...refusals.keys()]);
      const route = find(request.raw.url ?? '');
      const refuse = route === undefined ? undefined : refusals.get(route);
      if (route === undefined || refuse === undefined) return undefined;
      refused.set(request.raw, route);
      return refuse(request, reply, route);
    },
    routeOf: (request) => refused.get(request),
  };
}

/** Finds the route of an address the way the router of the service does. */
function createFinder(routes: readonly string[]): (url: string) => string | undefined {
  const router = createRouter({ maxParamLength: PATH_PARAMETER_MAX_LENGTH });
  for (const route of routes) router.on('GET', route, () => {}, route);
  return (url) => router.find('GET', url)?.store ?? undefined;
}

/** The refusal of a method in the interfaces for programs. */
export function methodNotAllowed(allowed: readonly string[]): ServiceError {
  const allow = allowed.join(', ');
  return new ServiceError('VALIDATION_ERROR', 'This method is not allowed here.', { status: 405, allow });
}
