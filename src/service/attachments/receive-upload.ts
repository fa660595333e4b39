import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { formatBytes } from '../../kit/format.js';
import { ATTACHMENT_TYPE, type AttachmentType, isAttachmentType, matchesSignature } from '../../wire/attachment.js';
import { ID_PREFIX } from '../../wire/id.js';
import { ATTACHMENT_FILENAME_MAX_LENGTH, ATTACHMENT_MAX_BYTES } from '../../wire/limit.js';
import type { ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';

const SIGNATURE_MAX_BYTES = 16;

/** Reads a file as it arrives, and checks whether it matches its type. */
export interface ContentChecker {
  /** False: it does not match, whatever follows. */
  push(chunk: Uint8Array): boolean;
  end(): boolean;
}

/** Binary types by their signature, text types as UTF-8 without NUL, JSON also by its grammar (wire: Content and attachments). */
export function createContentChecker(type: AttachmentType): ContentChecker {
  if (ATTACHMENT_TYPE[type].signatures.length > 0) return createSignatureChecker(type);
  const text = createTextChecker();
  if (type !== 'application/json') return text;
  const json = createJsonChecker();
  return {
    push: (chunk) => text.push(chunk) && json.push(chunk),
    end: () => text.end() && json.end(),
  };
}

function createSignatureChecker(type: AttachmentType): ContentChecker {
  let head = Buffer.alloc(0);
  return {
    push(chunk) {
      if (head.length >= SIGNATURE_MAX_BYTES) return true;
      head = Buffer.concat([head, chunk.subarray(0, SIGNATURE_MAX_BYTES - head.length)]);
      return head.length < SIGNATURE_MAX_BYTES || matchesSignature(type, head);
    },
    end: () => matchesSignature(type, head),
  };
}

function createTextChecker(): ContentChecker {
  const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
  const decodes = (chunk: Uint8Array | undefined): boolean => {
    try {
      decoder.decode(chunk, { stream: chunk !== undefined });
      return true;
    } catch {
      return false;
    }
  };
  return {
    push: (chunk) => !chunk.includes(0) && decodes(chunk),
    end: () => decodes(undefined),
  };
}

const CONTROL = /\p{Cc}/gu;
const SEPARATOR = /[/\\]/;
const UNSAFE_RUN = /[^A-Za-z0-9._ -]+/g;
/**
 * A leading dash would look like an option when someone types the name; leading dots hide the file; outer spaces are
 * invisible.
 */
const LEADING = '. -';
const TRAILING = '. ';
/** Names that Windows opens as devices, whatever their extension, which may follow spaces. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d) *(\.|$)/i;
const EXTENSION = /\.[A-Za-z0-9]{1,16}$/;

/**
 * A sender's file name, reduced to a plain base name that is safe to show and to save (wire: Content and attachments).
 */
export function sanitizeFilename(name: string): string {
  const segments = name.replace(CONTROL, '').split(SEPARATOR);
  const base = segments.findLast((segment) => trim(segment) !== '') ?? '';
  const plain = trim(base.replace(UNSAFE_RUN, '_'));
  const safe = DEVICE.test(plain) ? `_${plain}` : plain;
  const short = shorten(safe);
  return short === '' ? 'file' : short;
}

/** Not an expression for the end of a text: it would start over at each of a hundred thousand dots. */
function trim(name: string): string {
  let start = 0;
  let end = name.length;
  while (start < end && LEADING.includes(name.charAt(start))) start += 1;
  while (end > start && TRAILING.includes(name.charAt(end - 1))) end -= 1;
  return name.slice(start, end);
}

/** Truncates before the extension, so that the file type stays visible. */
function shorten(name: string): string {
  if (name.length <= ATTACHMENT_FILENAME_MAX_LENGTH) return name;
  const extension = EXTENSION.exec(name)?.[0] ?? '';
  return trim(name.slice(0, ATTACHMENT_FILENAME_MAX_LENGTH - extension.length)) + extension;
}

/**
 * The limits of the multipart reader. They allow one byte and one part too many, which are detected and refused here.
 */
export const UPLOAD_LIMITS = {
  fileSize: ATTACHMENT_MAX_BYTES + 1,
  files: 2,
  fields: 1,
  parts: 2,
  fieldSize: 1024,
  fieldNameSize: 100,
  headerPairs: 20,
} as const;

/** One part of a multipart body. */
export interface UploadPart {
  readonly type: 'file' | 'field';
  readonly fieldname: string;
  readonly filename?: string | undefined;
  /** Without its parameters. */
  readonly mimetype?: string | undefined;
  readonly file?: Readable & { readonly truncated?: boolean };
}

export interface UploadedFile {
  /** As the sender wrote them. */
  readonly filename: string;
  readonly type: string;
  readonly stream: Readable & { readonly truncated?: boolean };
}

/** A checked file on disk that does not belong to an attachment yet. */
export interface StagedUpload {
  readonly id: string;
  readonly filename: string;
  readonly contentType: AttachmentType;
  readonly size: number;
  readonly sha256: string;
  /** Equal for equal name, type and bytes, however the body was split into parts. */
  readonly fingerprint: string;
  /** Called once its row is committed. */
  keep(): void;
  /** Removes the file unless it was kept. Always call it. */
  release(): Promise<void>;
}

/** The one part `file` of a multipart body; anything else in it is refused. */
export async function receiveUpload(
  context: Pick<ServiceContext, 'files' | 'ids'>,
  parts: AsyncIterable<UploadPart>,
): Promise<StagedUpload> {
  const iterator = parts[Symbol.asyncIterator]();
  let staged: StagedUpload | undefined;
  try {
    for (let part = await nextPart(iterator); part !== undefined; part = await nextPart(iterator)) {
      const { file, fieldname, filename } = part;
      if (file === undefined || fieldname !== 'file' || staged !== undefined) {
        file?.resume();
        throw new ServiceError('VALIDATION_ERROR', 'The body must contain exactly one part, "file".');
      }
      staged = await receiveFile(context, { filename: filename ?? '', type: part.mimetype ?? '', stream: file });
    }
  } catch (error) {
    await staged?.release();
    throw error;
  }
  if (staged === undefined) throw new ServiceError('VALIDATION_ERROR', 'The body has no part "file".');
  return staged;
}

async function nextPart(iterator: AsyncIterator<UploadPart>): Promise<UploadPart | undefined> {
  try {
    const next = await iterator.next();
    return next.done === true ? undefined : next.value;
  } catch {
    throw new ServiceError('VALIDATION_ERROR', 'The body is not valid multipart/form-data.');
  }
}

/** Stores a stream while checking it; leaves nothing behind if it is refused or breaks off. */
export async function receiveFile(
  context: Pick<ServiceContext, 'files' | 'ids'>,
  upload: UploadedFile,
): Promise<StagedUpload> {
  const { files, ids } = context;
  const id = `${ID_PREFIX.attachment}${ids.ulid()}`;
  let isKept = false;
  const release = async (): Promise<void> => {
    if (isKept) files.release(id);
    else await files.remove(id);
  };
  try {
    const contentType = readType(upload.type);
    const written = await writeChecked(await files.create(id), contentType, upload.stream);
    await files.keep(id);
    return {
      id,
      filename: sanitizeFilename(upload.filename),
      contentType,
      ...written,
      fingerprint: hashText(JSON.stringify([upload.filename, contentType, written.sha256])),
      keep: () => {
        isKept = true;
      },
      release,
    };
  } catch (error) {
    upload.stream.resume();
    await release();
    throw error;
  }
}

function readType(declared: string): AttachmentType {
  const type = declared.toLowerCase();
  if (!isAttachmentType(type)) throw new ServiceError('VALIDATION_ERROR', 'This content type is not supported.');
  return type;
}

async function writeChecked(
  handle: FileHandle,
  type: AttachmentType,
  stream: UploadedFile['stream'],
): Promise<{ size: number; sha256: string }> {
  const refuse = (): never => {
    throw new ServiceError('VALIDATION_ERROR', `The file is not valid ${type}.`);
  };
  const tooLarge = (): never => {
    throw new ServiceError('VALIDATION_ERROR', `The file is larger than ${formatBytes(ATTACHMENT_MAX_BYTES)}.`);
  };
  try {
    const hash = createHash('sha256');
    const checker = createContentChecker(type);
    let size = 0;
    for await (const chunk of readChunks(stream)) {
      size += chunk.length;
      if (size > ATTACHMENT_MAX_BYTES) tooLarge();
      if (!checker.push(chunk)) refuse();
      hash.update(chunk);
      await handle.writeFile(chunk);
    }
    if (stream.truncated === true) tooLarge();
    if (size === 0) throw new ServiceError('VALIDATION_ERROR', 'The file is empty.');
    if (!checker.end()) refuse();
    await handle.sync();
    return { size, sha256: hash.digest('hex') };
  } finally {
    await handle.close();
  }
}

/** A broken stream is the sender's fault; if the reader stops early, the stream continues so that it can be drained. */
async function* readChunks(stream: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) yield chunk as Buffer;
  } catch {
    throw new ServiceError('VALIDATION_ERROR', 'The upload is incomplete.');
  }
}

function hashText(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}

const DEPTH_MAX = 10_000;

const OBJECT = 1;
const ARRAY = 2;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/** What may come next. A number or literal ends at the first byte that is not part of it. */
type Expecting =
  | 'value'
  | 'valueOrEnd'
  | 'keyOrEnd'
  | 'key'
  | 'colon'
  | 'commaOrEnd'
  | 'string'
  | 'escape'
  | 'hex'
  | 'literal'
  | 'number';

const LITERAL: Record<string, string> = { t: 'rue', f: 'alse', n: 'ull' };

type NumberPart = 'minus' | 'zero' | 'integer' | 'point' | 'fraction' | 'e' | 'sign' | 'exponent';

/** After each part of a number, the bytes that may follow, and the part they begin or continue (RFC 8259 §6). */
const NUMBER: Record<NumberPart, ReadonlyMap<number, NumberPart>> = {
  minus: follow(['0', 'zero'], ['123456789', 'integer']),
  zero: follow(['.', 'point'], ['eE', 'e']),
  integer: follow(['0123456789', 'integer'], ['.', 'point'], ['eE', 'e']),
  point: follow(['0123456789', 'fraction']),
  fraction: follow(['0123456789', 'fraction'], ['eE', 'e']),
  e: follow(['+-', 'sign'], ['0123456789', 'exponent']),
  sign: follow(['0123456789', 'exponent']),
  exponent: follow(['0123456789', 'exponent']),
};
const MAY_END: ReadonlySet<NumberPart> = new Set(['zero', 'integer', 'fraction', 'exponent']);

function follow(
  ...rows: readonly (readonly [characters: string, part: NumberPart])[]
): ReadonlyMap<number, NumberPart> {
  return new Map(
    rows.flatMap(([characters, part]) => [...Buffer.from(characters)].map((byte) => [byte, part] as const)),
  );
}

/** Checks whether a byte stream is one JSON text (RFC 8259), without keeping it. The bytes must be valid UTF-8. */
interface JsonChecker {
  /** False: it is not a JSON text, whatever follows. */
  push(chunk: Uint8Array): boolean;
  /** Whether the bytes so far are a complete JSON text. */
  end(): boolean;
}

export function createJsonChecker(): JsonChecker {
  const state: State = {
    expecting: 'value',
    stack: [],
    isKey: false,
    rest: '',
    hexLeft: 0,
    numberPart: 'minus',
    isValid: true,
  };
  return {
    push(chunk) {
      for (let index = 0; index < chunk.length && state.isValid; index += 1) take(state, chunk[index] ?? 0);
      return state.isValid;
    },
    end() {
      if (state.expecting === 'number') endNumber(state);
      return state.isValid && state.stack.length === 0 && state.expecting === 'commaOrEnd';
    },
  };
}

interface State {
  expecting: Expecting;
  readonly stack: number[];
  /** The string being read is a member's name. */
  isKey: boolean;
  rest: string;
  hexLeft: number;
  numberPart: NumberPart;
  isValid: boolean;
}

function take(state: State, byte: number): void {
  switch (state.expecting) {
    case 'string':
      takeInString(state, byte);
      return;
    case 'escape':
    case 'hex':
      takeInEscape(state, byte);
      return;
    case 'literal':
      takeInLiteral(state, byte);
      return;
    case 'number':
      if (takeInNumber(state, byte)) return;
      break;
    default:
  }
  const isSpace = byte === 0x20 || byte === 0x09 || byte === 0x0a || byte === 0x0d;
  if (!isSpace) takeToken(state, String.fromCharCode(byte));
}

function takeToken(state: State, token: string): void {
  switch (state.expecting) {
    case 'colon':
      if (token === ':') state.expecting = 'value';
      else state.isValid = false;
      return;
    case 'key':
    case 'keyOrEnd':
      if (token === '"') beginString(state, true);
      else if (token === '}' && state.expecting === 'keyOrEnd') close(state, OBJECT);
      else state.isValid = false;
      return;
    case 'commaOrEnd':
      if (token === ',' && state.stack.length > 0) state.expecting = state.stack.at(-1) === OBJECT ? 'key' : 'value';
      else if (token === '}') close(state, OBJECT);
      else if (token === ']') close(state, ARRAY);
      else state.isValid = false;
      return;
    default:
      if (token === ']' && state.expecting === 'valueOrEnd') close(state, ARRAY);
      else beginValue(state, token);
  }
}

function beginValue(state: State, token: string): void {
  const rest = LITERAL[token];
  if (token === '"') beginString(state, false);
  else if (token === '{') open(state, OBJECT, 'keyOrEnd');
  else if (token === '[') open(state, ARRAY, 'valueOrEnd');
  else if (rest !== undefined) {
    state.rest = rest;
    state.expecting = 'literal';
  } else if (token === '-' || (token >= '0' && token <= '9')) {
    state.numberPart = token === '-' ? 'minus' : token === '0' ? 'zero' : 'integer';
    state.expecting = 'number';
  } else state.isValid = false;
}

function beginString(state: State, isKey: boolean): void {
  state.isKey = isKey;
  state.expecting = 'string';
}

function open(state: State, kind: number, expecting: Expecting): void {
  state.stack.push(kind);
  state.expecting = expecting;
  if (state.stack.length > DEPTH_MAX) state.isValid = false;
}

function close(state: State, kind: number): void {
  if (state.stack.pop() !== kind) state.isValid = false;
  state.expecting = 'commaOrEnd';
}

function takeInString(state: State, byte: number): void {
  if (byte === QUOTE) state.expecting = state.isKey ? 'colon' : 'commaOrEnd';
  else if (byte === BACKSLASH) state.expecting = 'escape';
  else if (byte < 0x20) state.isValid = false;
}

function takeInEscape(state: State, byte: number): void {
  const character = String.fromCharCode(byte);
  if (state.expecting === 'hex') {
    if (!/[\dA-Fa-f]/.test(character)) state.isValid = false;
    state.hexLeft -= 1;
    if (state.hexLeft === 0) state.expecting = 'string';
  } else if (character === 'u') {
    state.hexLeft = 4;
    state.expecting = 'hex';
  } else {
    if (!'"\\/bfnrt'.includes(character)) state.isValid = false;
    state.expecting = 'string';
  }
}

function takeInLiteral(state: State, byte: number): void {
  if (state.rest.charCodeAt(0) !== byte) state.isValid = false;
  state.rest = state.rest.slice(1);
  if (state.rest === '') state.expecting = 'commaOrEnd';
}

/** False: the byte is not part of the number, which has ended. */
function takeInNumber(state: State, byte: number): boolean {
  const part = NUMBER[state.numberPart].get(byte);
  if (part === undefined) endNumber(state);
  else state.numberPart = part;
  return part !== undefined;
}

function endNumber(state: State): void {
  if (!MAY_END.has(state.numberPart)) state.isValid = false;
  state.expecting = 'commaOrEnd';
}
