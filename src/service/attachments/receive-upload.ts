import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';
import { ATTACHMENT_TYPE, type AttachmentType, isAttachmentType, matchesSignature } from '../../wire/attachment.js';
import { ID_PREFIX } from '../../wire/id.js';
import { ATTACHMENT_FILENAME_MAX_LENGTH, ATTACHMENT_MAX_BYTES } from '../../wire/limit.js';
import type { ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { createJsonChecker } from './json-checker.js';

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
/** Names that Windows opens as devices, whatever their extension. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;
const EXTENSION = /\.[A-Za-z0-9]{1,16}$/;

/**
 * A sender's file name, reduced to a plain base name that is safe to show and to save (wire: Content and attachments).
 */
export function sanitiseFilename(name: string): string {
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
      filename: sanitiseFilename(upload.filename),
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
    throw new ServiceError('VALIDATION_ERROR', `The file is larger than ${ATTACHMENT_MAX_BYTES} bytes.`);
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
