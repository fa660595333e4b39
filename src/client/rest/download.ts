import { wait } from '../../kit/clock.js';
import type { AttachmentLink } from '../../wire/attachment.js';
import { secureUrl } from '../http/address.js';
import { RequestError } from '../http/request-error.js';
import type { HttpStream } from '../http/transport.js';
import { type CallOptions, callEndpoint, type RestContext } from './call.js';

const FIRST_PAUSE_MS = 250;

/** A download under way. */
export interface Download {
  readonly filename: string;
  readonly contentType: string;
  /** In bytes, as the service says; `body` gives exactly so many or throws. */
  readonly size: number;
  readonly body: AsyncIterable<Uint8Array>;
}

/**
 * Opens the bytes of an attachment. The signed address gets no bearer, whatever its host (wire: Content and attachments).
 * When the connection breaks or the address expires on the way, a fresh address is asked for and the download goes
 * on where it stopped. @throws RequestError
 */
export async function openDownload(
  context: RestContext,
  attachmentId: string,
  options: CallOptions = {},
): Promise<Download> {
  const source: Source = { context, attachmentId, options };
  const { link, stream } = await openFrom(source, 0);
  const { filename, content_type: contentType, size } = link;
  return { filename, contentType, size, body: wholeBody(source, size, stream) };
}

interface Source {
  readonly context: RestContext;
  readonly attachmentId: string;
  readonly options: CallOptions;
}

/** A fresh address, and its bytes from `offset` on. */
async function openFrom(
  { context, attachmentId, options }: Source,
  offset: number,
): Promise<{ link: AttachmentLink; stream: HttpStream }> {
  const { reply } = await callEndpoint(context, 'getAttachment', { path: { attachment_id: attachmentId }, ...options });
  const url = secureUrl(reply.url, 'download address').href;
  const request = { method: 'GET', path: new URL(url).pathname } as const;
  const headers = offset === 0 ? undefined : { range: `bytes=${offset}-` };
  const stream = await context.transport.open({ method: 'GET', url, headers, signal: options.signal });
  const isPart = stream.status === 206 && stream.headers['content-range']?.startsWith(`bytes ${offset}-`) === true;
  if (stream.status === 200) return { link: reply, stream: { ...stream, body: skip(stream.body, offset) } };
  if (isPart && offset > 0) return { link: reply, stream };
  throw new RequestError({
    code: stream.status >= 500 ? 'INTERNAL_ERROR' : 'NOT_FOUND',
    message: `The download address answered ${stream.status}.`,
    status: stream.status,
    request,
    attempts: 1,
  });
}

/** A server that knows no ranges begins anew: what was read already is passed over. */
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
    await wait(context.transport.clock, FIRST_PAUSE_MS * 2 ** failures, options.signal);
  }
}

async function reopen(source: Source, offset: number, size: number): Promise<HttpStream> {
  const { link, stream } = await openFrom(source, offset);
  if (link.size !== size) throw wrongLength();
  return stream;
}

/** An end that came too early, a connection that broke, an address that expired meanwhile: a fresh address may help. */
function mayGoOn(failure: unknown): boolean {
  if (failure === undefined) return true;
  return failure instanceof RequestError && (failure.isRetryable || failure.code === 'NOT_FOUND');
}

function wrongLength(): RequestError {
  return new RequestError({ code: 'ASP_BAD_ANSWER', message: 'The download is not as long as the attachment.' });
}
