import type { FileHandle } from 'node:fs/promises';

import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AttachmentRow, findAttachment } from '../store/attachment-rows.js';
import { readByteRange } from './byte-range.js';
import { DOWNLOAD_PATH, isSignedDownload } from './download-url.js';

/** The bytes of attachments, for whoever holds a signed address. Errors are left to the app's error handler. */
export function registerDownloads(app: FastifyInstance, context: ServiceContext): void {
  app.get(`${DOWNLOAD_PATH}/:id`, (request, reply) => download(context, request, reply));
}

async function download(context: ServiceContext, request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
  const { id } = request.params as { id: unknown };
  const { expires, signature } = request.query as { expires?: unknown; signature?: unknown };
  const row = await context.database.read(async (query) => {
    const isSigned = await isSignedDownload(context, query, { id, expires, signature });
    return isSigned ? findAttachment(query, String(id)) : undefined;
  });
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return sendFile(reply, request, row, await openFile(context, row.id));
}

/** A file that the sweep has discarded by mistake comes back. One that is not there at all is a fault, and not a 404. */
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

/** Headers by which no browser shows, runs, guesses at or embeds what a stranger has uploaded. */
function describeFile(reply: FastifyReply, row: AttachmentRow): void {
  const type = row.content_type.startsWith('text/') ? `${row.content_type}; charset=utf-8` : row.content_type;
  reply
    .header('content-type', type)
    .header('content-disposition', dispositionOf(row.filename))
    .header('x-content-type-options', 'nosniff')
    .header('content-security-policy', "sandbox; default-src 'none'")
    .header('cross-origin-resource-policy', 'same-origin')
    .header('referrer-policy', 'no-referrer')
    .header('cache-control', 'private, no-store')
    .header('accept-ranges', 'bytes')
    .header('etag', etagOf(row));
}

function sendFile(
  reply: FastifyReply,
  request: FastifyRequest,
  row: AttachmentRow,
  file: FileHandle,
): FastifyReply | Promise<FastifyReply> {
  describeFile(reply, row);
  const validator = request.headers['if-range'];
  const isSameFile = validator === undefined || validator === etagOf(row);
  const range = isSameFile ? readByteRange(request.headers.range, row.size) : undefined;
  if (range === 'unsatisfiable') return refuseRange(reply, row, file);
  const { first, last } = range ?? { first: 0, last: row.size - 1 };
  if (range !== undefined) reply.code(206).header('content-range', `bytes ${first}-${last}/${row.size}`);
  reply.header('content-length', last - first + 1);
  return reply.send(file.createReadStream({ start: first, end: last }));
}

async function refuseRange(reply: FastifyReply, row: AttachmentRow, file: FileHandle): Promise<FastifyReply> {
  await file.close();
  reply.header('content-range', `bytes */${row.size}`).removeHeader('content-disposition');
  throw new ServiceError('VALIDATION_ERROR', 'The file has no such bytes.', { status: 416 });
}

function etagOf(row: AttachmentRow): string {
  return `"${row.sha256}"`;
}

/** Stored names are ASCII without quotes; the second form is for readers that know it alone (RFC 6266 §4.3). */
function dispositionOf(filename: string): string {
  return `attachment; filename="${filename}"; filename*=UTF-8''${encodeURIComponent(filename)}`;
}
