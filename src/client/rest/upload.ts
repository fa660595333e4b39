import { randomToken } from '../../kit/random.js';
import { Attachment, type AttachmentType } from '../../wire/attachment.js';
import { ENDPOINT } from '../../wire/endpoint.js';
import { decodeReply } from '../http/decode.js';
import { type CallOptions, type CallResult, prepare, type RestContext, succeed } from './call.js';

/** A file to upload. `open` is called once a try, so that a try can begin anew. */
export interface Upload {
  readonly filename: string;
  readonly contentType: AttachmentType;
  /** In bytes. */
  readonly size: number;
  open(): AsyncIterable<Uint8Array>;
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

/** As browsers write a file name into a form (HTML: multipart/form-data encoding). */
function quoted(filename: string): string {
  return filename.replace(/"/g, '%22').replace(/\r/g, '%0D').replace(/\n/g, '%0A');
}
