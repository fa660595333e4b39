import { createHash } from 'node:crypto';
import type { FileHandle } from 'node:fs/promises';
import type { Readable } from 'node:stream';

import { type AttachmentType, isAttachmentType } from '../../wire/attachment.js';
import { ID_PREFIX } from '../../wire/id.js';
import { ATTACHMENT_MAX_BYTES } from '../../wire/limit.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { createContentChecker } from './content-checker.js';
import { sanitiseFilename } from './filename.js';

/** What the multipart reader may let through. One byte and one part too many are seen here, and refused. */
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
  /** As its sender gave them. */
  readonly filename: string;
  readonly type: string;
  readonly stream: Readable & { readonly truncated?: boolean };
}

/** A checked file on disk that belongs to no attachment yet. */
export interface StagedUpload {
  readonly id: string;
  readonly filename: string;
  readonly contentType: AttachmentType;
  readonly size: number;
  readonly sha256: string;
  /** Equal for equal name, type and bytes, however the body was cut into parts. */
  readonly fingerprint: string;
  /** Called once its row is committed. */
  keep(): void;
  /** Removes the file unless it was kept. To be called in any case. */
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
        throw new ServiceError('VALIDATION_ERROR', 'The body must hold exactly one part, "file".');
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

/** Stores a stream while checking it; nothing stays of one that is refused or breaks off. */
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
      fingerprint: hashOf(JSON.stringify([upload.filename, contentType, written.sha256])),
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
    for await (const chunk of chunksOf(stream)) {
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

/** A stream that breaks is the sender's fault; one that is left early goes on for whoever drains it. */
async function* chunksOf(stream: Readable): AsyncGenerator<Buffer> {
  try {
    for await (const chunk of stream.iterator({ destroyOnReturn: false })) yield chunk as Buffer;
  } catch {
    throw new ServiceError('VALIDATION_ERROR', 'The upload is incomplete.');
  }
}

function hashOf(text: string): string {
  return createHash('sha256').update(text).digest('hex');
}
