import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { basename } from 'node:path';
import { backoffMs, wait } from '../../kit/clock.js';
import { randomToken } from '../../kit/random.js';
import { type AttachmentType, attachmentTypeOfName } from '../../wire/attachment.js';
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

/** What can be uploaded: the path of a file, a `File`, or a file that is read by a function. */
export type UploadSource = Upload | NamedBlob | string;

/** A `File`, or a `Blob` with a name. */
export interface NamedBlob {
  readonly name: string;
  readonly size: number;
  stream(): AsyncIterable<Uint8Array>;
}

/** The file behind a path or a `File`; the extension of its name decides its type. @throws RequestError `ASP_FILE_TYPE` */
export async function openUpload(source: UploadSource): Promise<Upload> {
  if (typeof source !== 'string' && 'open' in source) return source;
  const filename = typeof source === 'string' ? basename(source) : source.name;
  const contentType = attachmentTypeOfName(filename);
  if (contentType === undefined)
    throw new RequestError({ code: 'ASP_FILE_TYPE', message: `${filename} has an unsupported file type.` });
  if (typeof source !== 'string') return { filename, contentType, size: source.size, open: () => source.stream() };
  const { size } = await stat(source);
  return { filename, contentType, size, open: () => createReadStream(source) };
}

/** Uploads one file as it is read, never whole in memory (spec: POST /attachments). @throws RequestError */
export async function uploadFile(
  context: RestContext,
  file: Upload,
  options: CallOptions = {},
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
  yield* file.open();
  yield tail;
}

/** Escapes a file name in a form as browsers do (HTML: multipart/form-data encoding). */
function quoted(filename: string): string {
  return filename.replace(/"/g, '%22').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
}

/** Options of {@link openDownload}. */
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
