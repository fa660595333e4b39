import type * as z from 'zod/mini';

import { type Random, randomUuid } from '../../kit/random.js';
import {
  type Absence,
  ENDPOINT_ALIAS,
  endpointRow,
  fillPath,
  isWrite,
  type Operation,
  type PathOf,
} from '../../wire/endpoint.js';
import type { AnswerOf, BodyOf, QueryInputOf } from '../../wire/schemas/endpoint.js';
import type { Session } from '../../wire/schemas/session.js';
import { isBelow, secureUrl } from '../http/address.js';
import { MISFIT, readAs } from '../http/read-as.js';
import { RequestError } from '../http/request-error.js';
import {
  type BearerSource,
  decodeReply,
  errorOfAnswer,
  readDocument,
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
  /** Attempts after the first, instead of the client's own number. */
  readonly retries?: number | undefined;
}

type InputPart<Name extends string, Value> = keyof Value extends never
  ? { readonly [Key in Name]?: undefined }
  : Record<never, never> extends Value
    ? { readonly [Key in Name]?: Value | undefined }
    : { readonly [Key in Name]: Value };

/** The path parameters (`path`), query parameters (`query`) and JSON body (`body`) of one operation, and {@link CallOptions}. */
export type CallInput<Name extends Operation> = InputPart<'path', PathOf<Name>> &
  InputPart<'query', QueryInputOf<Name>> &
  InputPart<'body', BodyOf<Name>> &
  CallOptions;

/** The last argument of a call: optional for an operation that needs no input. */
export type CallArguments<Name extends Operation> =
  Record<never, never> extends CallInput<Name> ? [input?: CallInput<Name>] : [input: CallInput<Name>];

/** The operations that return a page of a list, and the cursor of the next one. */
export type PagedOperation = {
  [Name in Operation]: AnswerOf<Name> extends { readonly next_cursor: string | null } ? Name : never;
}[Operation];

/** A decoded reply with its attempts and idempotency key. */
export interface CallResult<Reply> {
  /** The body of the answer, with the names and types of the wire. */
  readonly reply: Reply;
  /** Requests sent, including the successful one. */
  readonly attempts: number;
  /** The key that all attempts carried; undefined for reads. */
  readonly idempotencyKey: string | undefined;
}

/** State that the calls of one client share. */
export interface RestContext {
  readonly baseUrl: string;
  readonly transport: Transport;
  readonly random: Random;
  readonly bearer: BearerSource;
  readonly retries: number;
  /** When the next call must finish, on the transport's monotonic clock. */
  deadline(): number | undefined;
}

/** An input without the types of its operation. */
interface Untyped extends CallOptions {
  readonly path?: Readonly<Record<string, string>> | undefined;
  readonly query?: Readonly<Record<string, unknown>> | undefined;
  readonly body?: unknown;
}

/**
 * Calls one endpoint of the table: path, query and body in, the decoded reply out; a write carries one key for all
 * attempts.
 * @throws RequestError for every answer except 2xx, and if there is none.
 */
export async function callEndpoint<Name extends Operation>(
  context: RestContext,
  operation: Name,
  input: CallInput<Name>,
): Promise<CallResult<AnswerOf<Name>>>;
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
    if (alias === undefined) throw await explainAbsence(context, operation, input, error);
    return await callPath(context, operation, alias, input).catch((second: unknown) => {
      throw hasNoRoute(second) ? error : second;
    });
  }
}

/**
 * The error of an addition, or `ASP_NOT_OFFERED` if the service does not have it: a missing endpoint is never a missing
 * object (wire: Reading what others send).
 */
async function explainAbsence(
  context: RestContext,
  operation: Operation,
  input: Untyped,
  error: unknown,
): Promise<unknown> {
  const { absence, method, path } = endpointRow(operation);
  if (absence === undefined || !(error instanceof RequestError) || !isForMissingRoute(error)) return error;
  const isWithoutEnvelope = error.status !== 404 || error.code === 'ASP_BAD_ANSWER';
  if (!isWithoutEnvelope && !(await isAbsent(context, absence, path, input))) return error;
  return new RequestError({
    ...error,
    code: 'ASP_NOT_OFFERED',
    message: `The service does not offer ${method} ${path}.`,
    isRetryable: false,
    cause: error,
  });
}

const isForMissingRoute = ({ status, code }: RequestError): boolean =>
  status === 405 || status === 501 || (status === 404 && code !== 'AGENT_NOT_FOUND');

/** A service may refuse a malformed id before it looks at the query. */
const WELL_FORMED = { session_id: `sess_${'0'.repeat(26)}`, attachment_id: `att_${'0'.repeat(26)}` };

async function isAbsent(context: RestContext, absence: Absence, path: string, input: Untyped): Promise<boolean> {
  const { signal, path: parameters = {} } = input;
  switch (absence) {
    case 'certain':
      return true;
    case 'unknown':
      return false;
    case 'query': {
      const isOffered = async (of: Untyped['path']): Promise<boolean> => {
        const asked = { method: 'GET', path: `${fillPath(path, of ?? {})}?offered=`, signal } as const;
        return (await sendRaw(context, asked)).status === 400;
      };
      return !(await isOffered(parameters)) && !(await isOffered({ ...parameters, ...WELL_FORMED }));
    }
    case 'getAgent':
    case 'getSession': {
      const { owner = '', name = '', session_id = '' } = parameters;
      const found = callEndpoint(context, absence, { path: { owner, name, session_id }, signal });
      return found.then(
        () => true,
        () => false,
      );
    }
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
  const schema = await loadReplySchema(operation, decoder);
  const { acknowledgment } = await import('../../wire/schemas/base.js');
  const known = acknowledgment(schema) ?? (isWrite(endpointRow(operation)) ? readNothing(schema, sent) : undefined);
  return { reply: known ?? decodeReply(schema, sent, sending), ...result };
}

/** The reply of a write that was made and whose answer has no body to read, if none of its members is needed. */
function readNothing(schema: z.ZodMiniType, { answer }: Sent): unknown {
  if (readDocument(schema, answer) !== undefined) return undefined;
  const nothing = readAs(schema, {});
  return nothing === MISFIT ? undefined : nothing;
}

type Replies = Readonly<Record<string, z.ZodMiniType>>;

/** One file for each kind of reply: building every schema would cost a command a tenth of its start. */
const REPLY_FILES = {
  async session(): Promise<Replies> {
    const { SESSION_REPLIES, SESSION_ANSWERS } = await import('../../wire/schemas/session.js');
    return { ...SESSION_REPLIES, ...SESSION_ANSWERS };
  },
  event: async (): Promise<Replies> => (await import('../../wire/schemas/event.js')).EVENT_REPLIES,
  delivery: async (): Promise<Replies> => (await import('../../wire/schemas/delivery.js')).DELIVERY_REPLIES,
  async attachment(): Promise<Replies> {
    const { ATTACHMENT_REPLIES, ATTACHMENT_ANSWERS } = await import('../../wire/schemas/attachment.js');
    return { ...ATTACHMENT_REPLIES, ...ATTACHMENT_ANSWERS };
  },
  async agent(): Promise<Replies> {
    const { AGENT_REPLIES, AGENT_ANSWERS } = await import('../../wire/schemas/agent.js');
    return { ...AGENT_REPLIES, ...AGENT_ANSWERS };
  },
};

async function loadReplySchema(operation: Operation, file: keyof typeof REPLY_FILES): Promise<z.ZodMiniType> {
  const schema = (await REPLY_FILES[file]())[operation];
  if (schema === undefined) throw new TypeError(`${operation} has no JSON reply`);
  return schema;
}

/**
 * The second address of an endpoint below `/agents/me`, for a service that does not have the first (wire: Aliases).
 * `me` is the acting agent, so this never reads another agent's list.
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

/**
 * Whether an answer can mean that the service does not have this endpoint. A service that has it may answer 404 for
 * other reasons.
 */
function hasNoRoute(error: unknown): boolean {
  return error instanceof RequestError && (error.status === 404 || error.status === 405);
}

/**
 * The pages of a list, one for each `call`, from where the query begins to the end. A session moves to the front of its
 * list when something happens in it. Those that moved past the reader come after the last page, so a list that is read
 * from its beginning has every session once. @throws RequestError
 */
export async function* readPages<Name extends PagedOperation>(
  operation: Name,
  input: CallInput<Name>,
  call: (input: CallInput<Name>) => Promise<CallResult<AnswerOf<Name>>>,
): AsyncGenerator<AnswerOf<Name>> {
  const moves = createMoveWatch();
  let pages = 0;
  for await (const reply of readInTurn(operation, input, call)) {
    moves.note(sessionsOf(reply));
    yield reply;
    pages += 1;
  }
  if ((input.query as { readonly cursor?: string } | undefined)?.cursor !== undefined) return;
  // While a second page is needed, more sessions may move past it.
  while (pages > 1 && moves.isUsed) {
    pages = 0;
    for await (const reply of readInTurn(operation, input, call)) {
      pages += 1;
      const { missed, isSettled } = moves.note(sessionsOf(reply));
      if (missed.length > 0) yield Object.assign({}, reply, { sessions: missed, next_cursor: null });
      if (isSettled) break;
    }
  }
}

type ListedSession = Session | { readonly session: Session };

const sessionsOf = (reply: object): readonly ListedSession[] =>
  'sessions' in reply ? (reply.sessions as readonly ListedSession[]) : [];

/** Remembers when each session of a list last changed. Behind one that has not changed since, no other has. */
function createMoveWatch() {
  const known = new Map<string, number | undefined>();
  return {
    get isUsed() {
      return known.size > 0;
    },
    note(rows: readonly ListedSession[]): { readonly missed: ListedSession[]; readonly isSettled: boolean } {
      const missed: ListedSession[] = [];
      let isSettled = false;
      for (const row of rows) {
        const { id, last_activity_at: at } = ('session' in row ? row.session : row) as Session;
        if (!known.has(id)) missed.push(row);
        else if (known.get(id) === at) isSettled = true;
        known.set(id, at);
      }
      return { missed, isSettled };
    },
  };
}

async function* readInTurn<Name extends PagedOperation>(
  operation: Name,
  input: CallInput<Name>,
  call: (input: CallInput<Name>) => Promise<CallResult<AnswerOf<Name>>>,
): AsyncGenerator<AnswerOf<Name>> {
  let next = input;
  for (let before: string | undefined; ; ) {
    const { reply } = await call(next);
    yield reply;
    const { next_cursor: cursor } = reply;
    if (cursor === null) return;
    if (cursor === before)
      throw new RequestError({ code: 'ASP_BAD_ANSWER', message: 'The service returned the same page again.' });
    before = cursor;
    // A replay continues after a sequence (spec: GET …/events). A page without events has none.
    const events = 'events' in reply ? (reply.events as AnswerOf<'replayEvents'>['events']) : [];
    const last = events.at(-1)?.sequence;
    if (operation === 'replayEvents' && last === undefined) return;
    const from = operation === 'replayEvents' ? { after_sequence: last } : { cursor };
    next = Object.assign({}, input, { query: Object.assign({}, input.query, from) });
  }
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

/**
 * Adds what every request of a client carries: the bearer, a key for writes, the number of attempts and the deadline.
 */
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

/** Sends until there is an answer, and accepts only 2xx. @throws RequestError */
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

/** A request to any path below the base URL, for endpoints that the typed calls do not cover. */
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
 * Sends a request exactly as given, with the bearer and, for writes, a key. Paths outside {base_url} are refused, so
 * that the token stays there. @throws RequestError if there is no answer.
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
