import type { FileHandle } from 'node:fs/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { DOWNLOAD_PATH, isSignedDownload } from '../attachments/attachments.js';
import type { ServiceContext } from '../core/context.js';
import { ServiceError } from '../core/errors.js';
import { type AttachmentRow, findAttachment } from '../store/attachments.js';

const SINGLE_RANGE = /^bytes=(\d{0,15})-(\d{0,15})$/;

/** The bytes to send, both ends included. */
export interface ByteRange {
  readonly first: number;
  readonly last: number;
}

/**
 * The part of `size` bytes that a Range header requests. Undefined: send everything, as for a header that is absent,
 * malformed or requests several ranges (RFC 9110 §14.2). `unsatisfiable`: none of it exists (§15.5.17).
 */
export function readByteRange(header: string | undefined, size: number): ByteRange | 'unsatisfiable' | undefined {
  const match = SINGLE_RANGE.exec(header?.trim() ?? '');
  const [, from = '', to = ''] = match ?? [];
  if (match === null || (from === '' && to === '')) return undefined;
  if (from === '') return suffixRange(Number(to), size);
  const first = Number(from);
  if (to !== '' && Number(to) < first) return undefined;
  if (first >= size) return 'unsatisfiable';
  return { first, last: to === '' ? size - 1 : Math.min(Number(to), size - 1) };
}

function suffixRange(length: number, size: number): ByteRange | 'unsatisfiable' {
  if (length === 0 || size === 0) return 'unsatisfiable';
  return { first: Math.max(0, size - length), last: size - 1 };
}

/** The bytes of attachments, for anyone with a signed address. The app's error handler handles errors. */
export function registerDownloads(app: FastifyInstance, context: ServiceContext): void {
  app.route({
    method: ['GET', 'HEAD'],
    url: `${DOWNLOAD_PATH}/:id`,
    handler: (request, reply) => download(context, request, reply),
  });
}

async function download(context: ServiceContext, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const { id } = request.params as { id: unknown };
  const { expires, signature } = request.query as { expires?: unknown; signature?: unknown };
  const row = await context.database.read(async (query) => {
    const isSigned = await isSignedDownload(context, query, { id, expires, signature });
    return isSigned ? findAttachment(query, String(id)) : undefined;
  });
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  const file = await openFile(context, row.id);
  if (request.method === 'HEAD') return sendHead(reply, row, file);
  const countSent = (bytes: number): void => context.meter.attachmentBytes('out', bytes);
  return sendFile(reply, request, { row, file, countSent });
}

/** A file that the sweep discarded by mistake comes back. A missing file is a fault, and not a 404. */
async function openFile({ files, log, meter }: ServiceContext, id: string): Promise<FileHandle> {
  const file = await files.open(id);
  if (file !== undefined) return file;
  if (await files.restore(id)) {
    log.info('attachment_restored_from_trash');
    const restored = await files.open(id);
    if (restored !== undefined) return restored;
  }
  meter.fileMissing();
  log.error('attachment_file_missing', new Error(`The file of ${id} is missing.`));
  throw new ServiceError('INTERNAL_ERROR', 'The file of this attachment is missing on the server.');
}

/** Headers that keep browsers from showing, running, sniffing or embedding a stranger's upload. */
function describeFile(reply: FastifyReply, row: AttachmentRow): void {
  const type = row.content_type.startsWith('text/') ? `${row.content_type}; charset=utf-8` : row.content_type;
  reply
    .header('content-type', type)
    .header('content-disposition', toDisposition(row.filename))
    .header('x-content-type-options', 'nosniff')
    .header('content-security-policy', "sandbox; default-src 'none'")
    .header('cross-origin-resource-policy', 'same-origin')
    .header('referrer-policy', 'no-referrer')
    .header('cache-control', 'private, no-store')
    .header('accept-ranges', 'bytes')
    .header('etag', toEtag(row));
}

async function sendHead(reply: FastifyReply, row: AttachmentRow, file: FileHandle): Promise<FastifyReply> {
  await file.close();
  describeFile(reply, row);
  return reply.header('content-length', row.size).send();
}

interface Sendable {
  readonly row: AttachmentRow;
  readonly file: FileHandle;
  /** Called with the number of bytes that were read for the answer, whole or cut. */
  readonly countSent: (bytes: number) => void;
}

function sendFile(
  reply: FastifyReply,
  request: FastifyRequest,
  { row, file, countSent }: Sendable,
): FastifyReply | Promise<FastifyReply> {
  describeFile(reply, row);
  const validator = request.headers['if-range'];
  const isSameFile = validator === undefined || validator === toEtag(row);
  const range = isSameFile ? readByteRange(request.headers.range, row.size) : undefined;
  if (range === 'unsatisfiable') return refuseRange(reply, row, file);
  const { first, last } = range ?? { first: 0, last: row.size - 1 };
  if (range !== undefined) reply.code(206).header('content-range', `bytes ${first}-${last}/${row.size}`);
  reply.header('content-length', last - first + 1);
  const bytes = file.createReadStream({ start: first, end: last });
  bytes.once('close', () => countSent(bytes.bytesRead));
  return reply.send(bytes);
}

async function refuseRange(reply: FastifyReply, row: AttachmentRow, file: FileHandle): Promise<FastifyReply> {
  await file.close();
  reply.header('content-range', `bytes */${row.size}`).removeHeader('content-disposition');
  throw new ServiceError('VALIDATION_ERROR', 'The file does not have these bytes.', { status: 416 });
}

function toEtag(row: AttachmentRow): string {
  return `"${row.sha256}"`;
}

/** Stored names are ASCII without quotes; the second form is for readers that support only it (RFC 6266 §4.3). */
function toDisposition(filename: string): string {
  return `attachment; filename="${filename}"; filename*=UTF-8''${encodeURIComponent(filename)}`;
}
