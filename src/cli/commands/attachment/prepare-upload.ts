import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import { basename } from 'node:path';

import type { Upload } from '../../../client/client.js';
import { ATTACHMENT_TYPE, attachmentTypeOfName, hasSignatureOf } from '../../../wire/attachment.js';
import { ATTACHMENT_MAX_BYTES } from '../../../wire/limit.js';
import type { Context } from '../../context/context.js';
import { CliError, UsageError } from '../../errors.js';
import { fileFailure, readStdin, tooLarge } from '../../input.js';

const HEAD_BYTES = 16;

/** A file that may be uploaded: its size, type and signature are checked before a byte is sent. */
export async function prepareUpload(context: Context, path: string, filename: string | undefined): Promise<Upload> {
  if (path === '-') {
    if (filename === undefined) throw new UsageError('--file - needs --filename: its ending says what it is.');
    const bytes = await readStdin(context, ATTACHMENT_MAX_BYTES);
    return check(filename, bytes.byteLength, bytes.subarray(0, HEAD_BYTES), async function* () {
      yield bytes;
    });
  }
  try {
    const facts = await stat(path);
    if (!facts.isFile())
      throw new UsageError(`${path} is ${facts.isDirectory() ? 'a folder' : 'no regular file'}. Nothing was sent.`);
    const file = await open(path, 'r');
    const head = Buffer.alloc(HEAD_BYTES);
    const { bytesRead } = await file.read(head, 0, HEAD_BYTES, 0).finally(() => file.close());
    return check(basename(path), facts.size, head.subarray(0, bytesRead), () => createReadStream(path));
  } catch (error) {
    throw fileFailure(path, error);
  }
}

function check(filename: string, size: number, head: Uint8Array, openBytes: () => AsyncIterable<Uint8Array>): Upload {
  const type = attachmentTypeOfName(filename);
  if (type === undefined)
    throw new CliError('ASP_FILE_TYPE', {
      message: `${filename} has an unsupported file type. Nothing was sent.`,
      why: `supported are ${Object.values(ATTACHMENT_TYPE)
        .flatMap(({ extensions }) => extensions)
        .join(', ')}.`,
    });
  if (size > ATTACHMENT_MAX_BYTES) throw tooLarge(filename, ATTACHMENT_MAX_BYTES);
  if (size === 0) throw new UsageError(`${filename} is empty. Nothing was sent.`);
  if (!hasSignatureOf(type, head))
    throw new CliError('ASP_FILE_TYPE', {
      message: `${filename} is not a valid ${type} file. Nothing was sent.`,
      why: 'its contents do not match its extension.',
    });
  return { filename, contentType: type, size, open: openBytes };
}
