import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { fileURLToPath } from 'node:url';
import { backoffMs, wait } from '../../kit/clock.js';
import { capitalized } from '../../kit/format.js';
import { randomToken } from '../../kit/random.js';
import {
  ATTACHMENT_TYPE,
  type AttachmentType,
  attachmentTypeOfName,
  HEAD_BYTES,
  isAttachmentType,
  recognizeFile,
} from '../../wire/attachment.js';
import { ENDPOINT } from '../../wire/endpoint.js';
import { ATTACHMENT_MAX_BYTES } from '../../wire/limit.js';
import { Attachment, type AttachmentLinkAnswer } from '../../wire/schemas/attachment.js';
import { secureUrl } from '../http/address.js';
import { RequestError } from '../http/request-error.js';
import { decodeReply } from '../http/send.js';
import type { HttpStream } from '../http/transport.js';
import { type CallOptions, type CallResult, callEndpoint, prepare, type RestContext, succeed } from './call.js';

const FIRST_PAUSE_MS = 250;

/** A file to upload. */
export interface Upload {
  readonly filename: string;
  readonly contentType: AttachmentType;
  /** In bytes; `open` must return exactly this many. */
  readonly size: number;
  /** Reads the file from its beginning. It is called once for each attempt. */
  open(): AsyncIterable<Uint8Array>;
}

/** What can be uploaded: a path or `file:` URL, a `Blob` or `File`, bytes, or a file that is read by a function. */
export type UploadSource = string | URL | BlobLike | Uint8Array | Upload;

/** A `Blob`, or a `File` with its name. */
export interface BlobLike {
  readonly name?: string;
  readonly size: number;
  readonly type: string;
  stream(): AsyncIterable<Uint8Array>;
}

/** Options of an upload. */
export interface UploadOptions extends CallOptions {
  /** The name that others see; its extension determines the type. Bytes need one. Default: the name of the file. */
  readonly filename?: string | undefined;
  /** Sends a file of an unsupported type, such as source code, as plain text under its own name. */
  readonly isText?: boolean | undefined;
}

/**
 * The file behind a source. Its type, size and first bytes are checked before anything is sent.
 * @throws RequestError `ASP_FILE_TYPE`, `ASP_FILE_TOO_LARGE`
 */
export async function openUpload(source: UploadSource, { filename, isText }: UploadOptions): Promise<Upload> {
  if (isUpload(source)) return source;
  const file = await openSource(source, filename);
  const facts = { filename: file.filename, size: file.size, head: await readHead(file.open()) };
  const otherwise = isText === true ? 'text/plain' : file.contentType;
  const found = recognizeFile({ ...facts, otherwise });
  if (typeof found === 'string') return { ...file, contentType: found };
  const { code, message, why } = found;
  const isUnsupported = otherwise === undefined && attachmentTypeOfName(facts.filename) === undefined;
  const advice = isUnsupported ? ' To send it as plain text, set isText.' : '';
  throw new RequestError({ code, message: why === undefined ? message : `${message} ${capitalized(why)}${advice}` });
}

/** A stream of Node.js has a member `open` too. */
const isUpload = (source: UploadSource): source is Upload =>
  typeof source === 'object' && source !== null && 'open' in source && 'contentType' in source;

/** A file whose type may not be known. */
type Opened = Omit<Upload, 'contentType'> & { readonly contentType: AttachmentType | undefined };

async function openSource(source: Exclude<UploadSource, Upload>, filename: string | undefined): Promise<Opened> {
  if (typeof source === 'string' || source instanceof URL) {
    const path = typeof source === 'string' ? source : fileURLToPath(source);
    const facts = await stat(path);
    if (!facts.isFile()) throw new TypeError(`${path} is ${facts.isDirectory() ? 'a folder' : 'not a regular file'}.`);
    const open = (): AsyncIterable<Uint8Array> => createReadStream(path);
    return { filename: filename ?? basename(path), contentType: undefined, size: facts.size, open };
  }
  if (source instanceof Uint8Array) {
    if (filename === undefined) throw new TypeError('Bytes need a name: upload(bytes, { filename: "report.csv" }).');
    const open = async function* (): AsyncGenerator<Uint8Array> {
      yield source;
    };
    return { filename, contentType: undefined, size: source.byteLength, open };
  }
  if (typeof source?.stream !== 'function')
    throw new TypeError('upload needs the path of a file, a file: URL, a Blob, a File or bytes.');
  const [mime = ''] = source.type.split(';');
  const contentType = isAttachmentType(mime) ? mime : undefined;
  const name = filename ?? source.name;
  if (name === undefined && contentType === undefined)
    throw new TypeError('A Blob without a supported type needs a name: upload(blob, { filename: "report.csv" }).');
  const open = (): AsyncIterable<Uint8Array> => source.stream();
  return { filename: name ?? defaultName(contentType), contentType, size: source.size, open };
}

const defaultName = (type: AttachmentType | undefined): string =>
  `file.${type === undefined ? 'txt' : ATTACHMENT_TYPE[type].extensions[0]}`;

async function readHead(bytes: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const part of bytes) {
    parts.push(part.subarray(0, HEAD_BYTES));
    size += part.byteLength;
    if (size >= HEAD_BYTES) break;
  }
  return Buffer.concat(parts).subarray(0, HEAD_BYTES);
}

/** Uploads one file as it is read, never whole in memory (spec: POST /attachments). @throws RequestError */
export async function uploadFile(
  context: RestContext,
  file: Upload,
  options: CallOptions,
): Promise<CallResult<Attachment>> {
  const boundary = `asp-${randomToken(context.random, 18)}`;
  const head = Buffer.from(
    `--${boundary}\r\ncontent-disposition: form-data; name="file"; filename="${quoted(file.filename)}"\r\n` +
      `content-type: ${file.contentType}\r\n\r\n`,
  );
  const tail = Buffer.from(`\r\n--${boundary}--\r\n`);
  const sending = prepare(context, options, {
    method: 'POST',
    path: ENDPOINT.uploadAttachment.path,
    scopes: ENDPOINT.uploadAttachment.scopes,
    accept: 'application/json',
    contentType: `multipart/form-data; boundary=${boundary}`,
    headers: { 'content-length': String(head.byteLength + file.size + tail.byteLength) },
    body: () => multipart(head, file, tail),
  });
  const sent = await succeed(context, sending);
  return {
    reply: decodeReply(Attachment, sent, sending),
    attempts: sent.attempts,
    idempotencyKey: sending.idempotencyKey,
  };
}

async function* multipart(head: Uint8Array, file: Upload, tail: Uint8Array): AsyncGenerator<Uint8Array> {
  yield head;
  yield* unchanged(file);
  yield tail;
}

/** The bytes of a file. Its size was announced, so the service would wait for what a shorter file does not have. */
async function* unchanged(file: Upload): AsyncGenerator<Uint8Array> {
  const { filename, size } = file;
  let sent = 0;
  for await (const part of file.open()) {
    sent += part.byteLength;
    if (sent > size) break;
    yield part;
  }
  if (sent === size) return;
  const change = sent > size ? `more than ${size} bytes` : `${sent} bytes instead of ${size}`;
  throw new RequestError({
    code: 'ASP_USAGE',
    message: `${filename} changed while it was uploaded: it has ${change}.`,
    outcome: 'not_applied',
  });
}

/** Escapes a file name in a form as browsers do (HTML: multipart/form-data encoding). */
function quoted(filename: string): string {
  return filename.replace(/"/g, '%22').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
}

/** Options of a download. */
export interface DownloadOptions extends CallOptions {
  /** Refuse an attachment larger than this many bytes (default 10 MiB, the service's own limit for uploads). */
  readonly maxBytes?: number | undefined;
}

/** A download in progress. */
export interface Download {
  readonly filename: string;
  readonly contentType: string;
  /** In bytes, according to the service; `body` yields exactly this many or throws. */
  readonly size: number;
  /** The bytes as they arrive. It may be read once. */
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Opens the bytes of an attachment. The signed address gets no bearer, whatever its host (wire: Content and
 * attachments). If the connection breaks or the address expires on the way, the download requests a new address and
 * continues where it stopped. @throws RequestError `ASP_FILE_TOO_LARGE`, and errors from the network and the service.
 */
export async function openDownload(
  context: RestContext,
  attachmentId: string,
  options: DownloadOptions = {},
): Promise<Download> {
  const source: Source = { context, attachmentId, options };
  const { link, stream } = await openFrom(source, 0);
  const { filename, content_type: contentType, size } = link;
  return { filename, contentType, size, body: wholeBody(source, size, stream) };
}

interface Source {
  readonly context: RestContext;
  readonly attachmentId: string;
  readonly options: DownloadOptions;
}

/** A new address, and its bytes from `offset` on. */
async function openFrom(
  { context, attachmentId, options }: Source,
  offset: number,
): Promise<{ link: AttachmentLinkAnswer; stream: HttpStream }> {
  const { maxBytes = ATTACHMENT_MAX_BYTES, ...call } = options;
  const { reply } = await callEndpoint(context, 'getAttachment', { path: { attachment_id: attachmentId }, ...call });
  if (reply.size > maxBytes) throw tooLarge(reply.size, maxBytes);
  const url = secureUrl(reply.url, 'download address').href;
  const request = { method: 'GET', path: new URL(url).pathname } as const;
  const headers = offset === 0 ? undefined : { range: `bytes=${offset}-` };
  const stream = await context.transport.open({ method: 'GET', url, headers, signal: options.signal });
  const isPart = stream.status === 206 && stream.headers['content-range']?.startsWith(`bytes ${offset}-`) === true;
  if (stream.status === 200) return { link: reply, stream: { ...stream, body: skip(stream.body, offset) } };
  if (isPart && offset > 0) return { link: reply, stream };
  throw new RequestError({
    code: stream.status >= 500 ? 'INTERNAL_ERROR' : 'NOT_FOUND',
    message: `The download address answered with status ${stream.status}.`,
    status: stream.status,
    request,
    attempts: 1,
  });
}

/** A server that does not support ranges starts from the beginning: skip the bytes that were already read. */
async function* skip(body: AsyncIterable<Uint8Array>, count: number): AsyncGenerator<Uint8Array> {
  let left = count;
  for await (const chunk of body) {
    if (left < chunk.byteLength) yield chunk.subarray(left);
    left = Math.max(0, left - chunk.byteLength);
  }
}

async function* wholeBody(source: Source, size: number, first: HttpStream): AsyncGenerator<Uint8Array> {
  const { context, options } = source;
  let stream: HttpStream | undefined = first;
  let read = 0;
  for (let failures = 0; ; failures += 1) {
    let failure: unknown;
    const before = read;
    try {
      stream ??= await reopen(source, read, size);
      for await (const chunk of stream.body) {
        read += chunk.byteLength;
        if (read > size) break;
        yield chunk;
      }
    } catch (error) {
      failure = error;
    }
    if (read === size && failure === undefined) return;
    if (read > before) failures = 0;
    const isOver = options.signal?.aborted === true || read >= size || failures >= context.retries;
    if (isOver || !mayGoOn(failure)) throw failure ?? wrongLength();
    stream = undefined;
    const delayMs = backoffMs(FIRST_PAUSE_MS, failures);
    if (failure instanceof RequestError) context.transport.onPause?.({ delayMs, attempts: failures + 1, failure });
    await wait(context.transport.clock, delayMs, options.signal);
  }
}

async function reopen(source: Source, offset: number, size: number): Promise<HttpStream> {
  const { link, stream } = await openFrom(source, offset);
  if (link.size !== size) throw wrongLength();
  return stream;
}

/** An early end, a broken connection, an expired address: a new address may help. */
function mayGoOn(failure: unknown): boolean {
  if (failure === undefined) return true;
  return failure instanceof RequestError && (failure.isRetryable || failure.code === 'NOT_FOUND');
}

function tooLarge(size: number, maxBytes: number): RequestError {
  return new RequestError({
    code: 'ASP_FILE_TOO_LARGE',
    message: `The attachment has ${size} bytes; the maximum is ${maxBytes}.`,
    isRetryable: false,
  });
}

function wrongLength(): RequestError {
  return new RequestError({
    code: 'ASP_BAD_ANSWER',
    message: 'The length of the download does not match the attachment.',
  });
}
