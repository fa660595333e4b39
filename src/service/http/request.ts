import type { IncomingMessage } from 'node:http';
import type * as z from 'zod/mini';
import { endpointRow, type Operation } from '../../wire/endpoint.js';
import { isHandle, isOwnerGlob, joinHandle } from '../../wire/handle.js';
import { isId } from '../../wire/id.js';
import {
  IDEMPOTENCY_KEY_MAX_LENGTH,
  JSON_DEPTH_MAX,
  JSON_VALUES_MAX,
  MESSAGE_BODY_MAX_BYTES,
  SMALL_BODY_MAX_BYTES,
} from '../../wire/limit.js';
import { endpointSchemas } from '../../wire/schemas/endpoint.js';
import { describeIssue } from '../../wire/schemas/issue.js';
import { EmptyRequest } from '../../wire/schemas/requests.js';
import { ServiceError } from '../core/errors.js';

type Issue = z.core.$ZodIssue;

/** Where request bodies have handles: an invalid value there has an error code of its own (spec: Handle). */
const HANDLE_POSITION = /^(?:handle|(?:invite|entries)\.\d+)$/;

/** The error for a query or a body that does not fit its schema. It describes only the request, never stored data. */
function errorOfIssues(issues: readonly Issue[]): ServiceError {
  const issue = issues.find((candidate) => !isAboutHandle(candidate));
  if (issue === undefined) return new ServiceError('INVALID_HANDLE');
  return new ServiceError('VALIDATION_ERROR', describeIssue(issue, 'The request'));
}

function isAboutHandle(issue: Issue): boolean {
  const isMissing = issue.input === undefined;
  return HANDLE_POSITION.test(issue.path.join('.')) && !isMissing;
}

const PRINTABLE = /^[\x20-\x7e]+$/;

/**
 * Checks the parameters of a path. A malformed id gets the answer of one that does not exist (spec: States, rule 3);
 * any problem with a handle is INVALID_HANDLE.
 */
export function checkPath(path: Readonly<Record<string, string>>): void {
  const { session_id, attachment_id, owner, name, entry, sender, blocked } = path;
  if (session_id !== undefined && !isId('session', session_id)) throw new ServiceError('NOT_FOUND');
  if (attachment_id !== undefined && !isId('attachment', attachment_id)) throw new ServiceError('NOT_FOUND');
  if (owner !== undefined && !isHandle(joinHandle(owner, name ?? ''))) throw new ServiceError('INVALID_HANDLE');
  if (entry !== undefined && !isHandle(entry) && !isOwnerGlob(entry)) throw new ServiceError('INVALID_HANDLE');
  if (sender !== undefined && !isHandle(sender)) throw new ServiceError('INVALID_HANDLE');
  if (blocked !== undefined && !isHandle(blocked) && !isOwnerGlob(blocked) && !isId('agent', blocked))
    throw new ServiceError('INVALID_HANDLE');
}

/** The idempotency key of the header, or undefined without one. Any 1 to 255 printable ASCII characters are valid. */
export function readKey(header: string | string[] | undefined): string | undefined {
  if (header === undefined) return undefined;
  if (typeof header !== 'string' || header.length > IDEMPOTENCY_KEY_MAX_LENGTH || !PRINTABLE.test(header)) {
    if (header === '') throw new ServiceError('MISSING_IDEMPOTENCY_KEY');
    throw new ServiceError('VALIDATION_ERROR', 'Idempotency-Key must be 1 to 255 printable ASCII characters.');
  }
  return header;
}

/** The key that an ASP client puts in the body instead (wire: Common rules, idempotency). */
export function readBodyKey(body: unknown): string | undefined {
  if (typeof body !== 'object' || body === null || !Object.hasOwn(body, 'idempotency_key')) return undefined;
  const key: unknown = Reflect.get(body, 'idempotency_key');
  return typeof key === 'string' ? key : undefined;
}

/** The query of a request, parsed with the schema of its row: each parameter once, and no others. */
export function readQuery(operation: Operation, url: string): unknown {
  const mark = url.indexOf('?');
  if (mark === -1) return checkQuery(operation, {});
  const parameters = [...new URLSearchParams(url.slice(mark + 1))];
  const names = new Set(parameters.map(([name]) => name));
  if (names.size < parameters.length)
    throw new ServiceError('VALIDATION_ERROR', 'A query parameter appears more than once.');
  return checkQuery(operation, Object.fromEntries(parameters));
}

/** Parameters, checked and decoded with the schema of their row. */
export function checkQuery(operation: Operation, parameters: unknown): unknown {
  const { query } = endpointSchemas(operation);
  if (query !== undefined) return validate(query, parameters);
  if (Object.keys(parameters ?? {}).length > 0)
    throw new ServiceError('VALIDATION_ERROR', 'This endpoint takes no query parameters.');
  return {};
}

/**
 * A JSON body, checked with the schema of its row, unchanged: the schemas change nothing, and a validated copy would
 * lose members named `__proto__`, which are data here.
 */
export function checkBody(operation: Operation, body: unknown): unknown {
  const rule = endpointRow(operation).body;
  if (rule === 'file') throw new TypeError('a file is not read as JSON');
  if (body === undefined && rule !== 'json') return {};
  const { body: schema } = endpointSchemas(operation);
  if (schema === undefined) {
    validate(EmptyRequest, body);
    return {};
  }
  if (body === undefined) throw new ServiceError('VALIDATION_ERROR', 'This endpoint needs a JSON body.');
  validate(schema, body);
  return body;
}

/**
 * The first issue is the answer. Collecting every issue of a body full of them costs many times what parsing it does.
 */
const UP_TO_FIRST_ISSUE: z.core.ParseContextInternal<z.core.$ZodIssue> = { reportInput: true, abortEarly: true };

export function validate(schema: z.ZodMiniType, value: unknown): unknown {
  const result = schema.safeParse(value, UP_TO_FIRST_ISSUE);
  if (result.success) return result.data;
  throw errorOfIssues(result.error.issues);
}

const QUOTE = 0x22;
const COMMA = 0x2c;
const BACKSLASH = 0x5c;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const SPACE = 0x20;
const ZERO = 0x30;
const NINE = 0x39;
const SMALL_E = 0x65;
const CAPITAL_E = 0x45;
/** Every double has fewer digits before its point. */
const DIGITS_MAX = 300;

const LONE_SURROGATE = /\p{Cs}/u;
const SURROGATE_ESCAPE = /\\ud[89a-f]/i;

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Parses a JSON body. UTF-8 only, at most 64 levels deep and 10,000 values. `__proto__` becomes an own property like
 * any other, and of two members with one name the last counts (RFC 8259 §4). Half of a surrogate pair is not text (RFC
 * 8259 §8.2), and a number beyond the range of a double could not be returned: both are refused.
 */
function parseJson(bytes: Uint8Array): unknown {
  const mayHoldInfinity = scan(bytes);
  let text: string;
  let json: unknown;
  try {
    text = utf8.decode(bytes);
    json = JSON.parse(text);
  } catch {
    throw refuse('The body is not valid JSON.');
  }
  const mayHoldSurrogates = SURROGATE_ESCAPE.test(text);
  if (mayHoldInfinity || mayHoldSurrogates) requirePlainValues(json, mayHoldSurrogates);
  return json;
}

function refuse(message: string): ServiceError {
  return new ServiceError('VALIDATION_ERROR', message);
}

function requirePlainValues(value: unknown, mayHoldSurrogates: boolean): void {
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw refuse('The JSON contains a number that is too large.');
  } else if (typeof value === 'string') {
    if (mayHoldSurrogates && LONE_SURROGATE.test(value)) throw refuse('The JSON contains half of a surrogate pair.');
  } else if (Array.isArray(value)) {
    for (const element of value) requirePlainValues(element, mayHoldSurrogates);
  } else if (typeof value === 'object' && value !== null) {
    for (const [name, member] of Object.entries(value)) {
      if (mayHoldSurrogates) requirePlainValues(name, true);
      requirePlainValues(member, mayHoldSurrogates);
    }
  }
}

/**
 * Refuses a text that is too deep or contains too many values; returns true if one of its numbers may be beyond a
 * double. It looks at the bytes only: everything after it, from the parser to the schema, costs time in proportion to
 * the values, and a recursive reader never gets a deeper text.
 */
function scan(bytes: Uint8Array): boolean {
  let depth = 0;
  let values = 1;
  let digits = 0;
  let mayHoldInfinity = false;
  let isInString = false;
  /** Only whitespace since a bracket was opened: the first value in it, or its end, comes next. */
  let isJustOpened = false;
  for (let index = 0; index < bytes.length; index += 1) {
    const byte = bytes[index] ?? 0;
    if (isInString) {
      if (byte === BACKSLASH) index += 1;
      else if (byte === QUOTE) isInString = false;
      continue;
    }
    if ((byte === SMALL_E || byte === CAPITAL_E) && digits > 0) mayHoldInfinity = true;
    digits = byte >= ZERO && byte <= NINE ? digits + 1 : 0;
    if (digits > DIGITS_MAX) mayHoldInfinity = true;
    if (byte <= SPACE) continue;
    const isEnd = byte === CLOSE_BRACE || byte === CLOSE_BRACKET;
    if (byte === COMMA || (isJustOpened && !isEnd)) {
      values += 1;
      if (values > JSON_VALUES_MAX) throw refuse(`The JSON contains more than ${JSON_VALUES_MAX} values.`);
    }
    isJustOpened = byte === OPEN_BRACE || byte === OPEN_BRACKET;
    if (isJustOpened) {
      depth += 1;
      if (depth > JSON_DEPTH_MAX) throw refuse(`The JSON is nested deeper than ${JSON_DEPTH_MAX}.`);
    } else if (isEnd) depth -= 1;
    else if (byte === QUOTE) isInString = true;
  }
  return mayHoldInfinity;
}

/** Never two adjacent runs of whitespace, which a long one could be divided between in every way. */
const JSON_MEDIA_TYPE = /^application\/json[ \t]*(?:;[ \t]*charset[ \t]*=[ \t]*"?utf-8"?[ \t]*)?(?:;[ \t]*)?$/i;

/** The JSON body of a request, or undefined if it has none. `receive` returns its bytes. */
export async function readJsonBody(
  request: IncomingMessage,
  receive: (request: IncomingMessage) => Promise<Buffer> = readBytes,
): Promise<unknown> {
  if (!hasBody(request)) return undefined;
  const encoding = request.headers['content-encoding'];
  if (encoding !== undefined && encoding.toLowerCase() !== 'identity') throw unsupported('A compressed body');
  const bytes = await receive(request);
  try {
    if (bytes.length === 0) return undefined;
    if (!JSON_MEDIA_TYPE.test(request.headers['content-type'] ?? ''))
      throw unsupported('A body other than application/json');
    return parseJson(bytes);
  } finally {
    giveBack(bytes);
  }
}

/** Memory of bodies that have ended. V8 frees what lies outside its heap late, and large bodies would pile up in it. */
const spare: ArrayBuffer[] = [];
const SPARE_MAX = 32;

function takeMemory(length: number): Buffer {
  if (length <= SMALL_BODY_MAX_BYTES) return Buffer.allocUnsafeSlow(length);
  return Buffer.from(spare.pop() ?? new ArrayBuffer(MESSAGE_BODY_MAX_BYTES), 0, length);
}

/** No one may use `bytes` afterwards: the next body overwrites them. */
function giveBack({ buffer }: Buffer): void {
  const isWhole = buffer instanceof ArrayBuffer && buffer.byteLength === MESSAGE_BODY_MAX_BYTES;
  if (isWhole && spare.length < SPARE_MAX) spare.push(buffer);
}

function unsupported(what: string): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `${what} is not supported here.`, { status: 415 });
}

function hasBody(request: IncomingMessage): boolean {
  const length = request.headers['content-length'];
  return request.headers['transfer-encoding'] !== undefined || (length !== undefined && length !== '0');
}

/** The body, in memory; at most as long as a message may be. */
export async function readBytes(request: IncomingMessage): Promise<Buffer> {
  const tooLarge = (): ServiceError =>
    new ServiceError('VALIDATION_ERROR', `The body is larger than ${MESSAGE_BODY_MAX_BYTES} bytes.`, { status: 413 });
  if (Number(request.headers['content-length'] ?? 0) > MESSAGE_BODY_MAX_BYTES) throw tooLarge();
  // It may have waited for its turn, and if the body broke off in the meantime, no event would report its end.
  if (request.destroyed) throw incomplete();
  return await new Promise<Buffer>((resolve, reject) => {
    // Each chunk is part of a larger buffer of its connection, which a slow body would keep. Unwritten memory costs
    // nothing.
    const bytes = takeMemory(Number(request.headers['content-length'] ?? MESSAGE_BODY_MAX_BYTES));
    let size = 0;
    const onData = (chunk: Buffer): void => {
      if (size + chunk.length > bytes.length) fail(tooLarge());
      else size += chunk.copy(bytes, size);
    };
    const settle = (finish: () => void): void => {
      request.off('data', onData).off('end', onEnd).off('error', onBroken).off('close', onBroken);
      request.on('error', () => {});
      finish();
    };
    const fail = (error: ServiceError): void =>
      settle(() => {
        giveBack(bytes);
        reject(error);
      });
    const onEnd = (): void => settle(() => resolve(bytes.subarray(0, size)));
    const onBroken = (): void => fail(incomplete());
    request.on('data', onData).on('end', onEnd).on('error', onBroken).on('close', onBroken);
  });
}

function incomplete(): ServiceError {
  return new ServiceError('VALIDATION_ERROR', 'The body is incomplete.');
}
