import { Readable } from 'node:stream';
import { uploadAttachment } from '../../../src/service/attachments/attachments.js';
import type { StagedUpload, UploadPart } from '../../../src/service/attachments/receive-upload.js';
import { receiveFile } from '../../../src/service/attachments/receive-upload.js';
import type { AgentActor } from '../../../src/service/core/context.js';
import { ServiceError } from '../../../src/service/core/errors.js';
import type { Stage } from '../sessions/stage.js';

export interface Given {
  readonly filename?: string;
  readonly type?: string;
  readonly bytes?: Uint8Array | string;
}

export function fileOf({ filename = 'note.txt', type = 'text/plain', bytes = 'plain' }: Given = {}) {
  return { filename, type, stream: Readable.from([Buffer.from(bytes)], { objectMode: false }) };
}

export function partOf(given: Given & { readonly name?: string } = {}): UploadPart {
  const { stream, type, filename } = fileOf(given);
  return { type: 'file', fieldname: given.name ?? 'file', filename, mimetype: type, file: stream };
}

/** Uploads an attachment of `actor` without sending it. */
export async function upload(stage: Stage, actor: AgentActor, given: Given = {}): Promise<StagedUpload> {
  const staged = await receiveFile(stage.context, fileOf(given));
  await stage.write((transaction) => uploadAttachment(stage.context, actor, staged, transaction));
  await staged.release();
  return staged;
}

/** Returns the error code of a refused call, or `ok`. */
export async function codeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
    return 'ok';
  } catch (error) {
    if (error instanceof ServiceError) return error.code;
    throw error;
  }
}
