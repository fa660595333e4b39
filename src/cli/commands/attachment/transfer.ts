import { join, resolve } from 'node:path';

import type { Client, Upload } from '../../../client/client.js';
import type { Attachment } from '../../../wire/attachment.js';
import { chosenKey } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { type ErrorContext, explain } from '../../context/explain.js';
import { CliError, UsageError } from '../../errors.js';
import { showProgress } from '../../terminal/progress.js';
import { prepareUpload } from './prepare-upload.js';
import { sizeText, unseenAttachment } from './references.js';
import { ensureFolder, safeFilename, saveFile } from './save-file.js';

/** Uploads one file that was checked. */
export async function uploadFile(
  context: Context,
  file: Upload,
  idempotencyKey: string | undefined,
  errorContext: Omit<ErrorContext, 'subject'>,
): Promise<Awaited<ReturnType<Client['upload']>>> {
  const client = await context.client();
  const upload = client.upload(file, { idempotencyKey, signal: context.signal });
  const explained = explain({ subject: file.filename, ...errorContext }, upload);
  return showProgress(context, `uploading ${file.filename}`, explained);
}

interface UploadOptions {
  /** `-` is standard input. */
  readonly paths: readonly string[];
  readonly filename: string | undefined;
}

/** Every file is checked before the first byte is sent. */
export async function uploadAll(context: Context, { paths, filename }: UploadOptions): Promise<void> {
  const files: Upload[] = [];
  for (const path of paths) files.push(await prepareUpload(context, path, path === '-' ? filename : undefined));
  if (context.globals.isDryRun) return printFiles(context, files);
  const items: (Attachment & { readonly idempotency_key: string | null })[] = [];
  try {
    for (const [index, file] of files.entries()) {
      const key = await chosenKey(context, 'POST /attachments', files.length > 1 ? `/${index}` : '');
      const isRepeatable = !paths.includes('-');
      const { reply, idempotencyKey } = await uploadFile(context, file, key, { isRepeatable });
      items.push({ ...reply, idempotency_key: idempotencyKey ?? null });
      await context.output.detail(`${reply.filename}: ${sizeText(reply.size)}, ${reply.content_type}`);
    }
  } catch (error) {
    if (items.length === 0) throw error;
    await printUploaded(context, items);
    const failed = files[items.length]?.filename ?? '';
    throw new CliError('ASP_PARTIAL', {
      message: `${items.length} of ${files.length} files were uploaded; ${failed} was not, and nothing after it.`,
      why: error instanceof Error && error.cause instanceof Error ? error.cause.message : undefined,
      outcome: 'applied',
      cause: error,
    });
  }
  await printUploaded(context, items);
}

function printUploaded({ output }: Context, items: readonly Attachment[]): Promise<void> {
  return output.list({ items, next_cursor: null }, [{ title: 'attachment', value: ({ id }) => id }]);
}

async function printFiles({ output }: Context, files: readonly Upload[]): Promise<void> {
  const items = files.map(({ filename, contentType, size }) => ({ filename, content_type: contentType, size }));
  await output.list({ items, next_cursor: null }, [
    { title: 'name', value: ({ filename }) => filename },
    { title: 'type', value: ({ content_type: type }) => type },
    { title: 'size', value: ({ size }) => String(size) },
  ]);
  await output.note('Nothing was sent (--dry-run).');
}

interface DownloadOptions {
  readonly ids: readonly string[];
  /** A path, or `-` for standard output. */
  readonly output: string | undefined;
  readonly directory: string | undefined;
  readonly isForced: boolean;
  /** Refuse larger attachments (default: what the client refuses). */
  readonly maxBytes: number | undefined;
}

/** A file that was written. */
interface Downloaded {
  readonly id: string;
  readonly path: string;
  readonly filename: string;
  readonly content_type: string;
  readonly size: number;
}

export async function downloadAll(context: Context, options: DownloadOptions): Promise<void> {
  const { ids, output, directory, isForced, maxBytes } = options;
  if (output === '-') return downloadToStdout(context, ids[0] ?? '', maxBytes);
  const { workingDirectory } = context.machine;
  if (directory !== undefined) await ensureFolder(resolve(workingDirectory, directory));
  const choosePath = (filename: string): string =>
    output === undefined
      ? join(resolve(workingDirectory, directory ?? '.'), safeFilename(filename))
      : resolve(workingDirectory, output);
  const items: Downloaded[] = [];
  try {
    for (const id of ids) items.push(await downloadTo(context, id, choosePath, { isForced, maxBytes }));
  } catch (error) {
    if (items.length === 0) throw error;
    await printDownloaded(context, items);
    const reason = error instanceof CliError ? error : error instanceof Error ? error.cause : undefined;
    throw new CliError('ASP_PARTIAL', {
      message: `${items.length} of ${ids.length} attachments were written; ${ids[items.length]} was not, and none after it.`,
      why: reason instanceof Error ? reason.message : undefined,
      cause: error,
    });
  }
  await printDownloaded(context, items);
}

/** One attachment into the file that `choosePath` names. */
export async function downloadTo(
  context: Context,
  id: string,
  choosePath: (filename: string) => string,
  { isForced, maxBytes }: { isForced: boolean; maxBytes?: number | undefined },
): Promise<Downloaded> {
  const { random, signal } = context;
  const client = await context.client();
  const download = async (): Promise<Downloaded> => {
    const { filename, contentType, size, body } = await client.download(id, { signal, maxBytes });
    const path = choosePath(filename);
    await saveFile(path, body, { isForced, random });
    return { id, path, filename, content_type: contentType, size };
  };
  return showProgress(context, `downloading ${id}`, explain(unseenAttachment(id), download()));
}

const IS_TEXT = /^(text\/|application\/json\b)/;

/** The bytes as they are; a terminal gets text, without what could drive it. */
async function downloadToStdout(context: Context, id: string, maxBytes: number | undefined): Promise<void> {
  const client = await context.client();
  const download = async (): Promise<void> => {
    const { body, contentType, filename } = await client.download(id, { signal: context.signal, maxBytes });
    if (!context.streams.stdout.isTerminal) {
      for await (const chunk of body) await context.output.bytes(chunk);
      return;
    }
    if (!IS_TEXT.test(contentType)) {
      throw new UsageError(`${filename} is ${contentType}, and a terminal shows only text.`, {
        why: 'save it to a file, or pipe it to a program.',
        next: ['asp', 'attachment', 'download', id],
      });
    }
    const chunks: Uint8Array[] = [];
    for await (const chunk of body) chunks.push(chunk);
    await context.output.text(Buffer.concat(chunks).toString('utf8'));
  };
  await explain(unseenAttachment(id), download());
}

function printDownloaded({ output }: Context, items: readonly Downloaded[]): Promise<void> {
  return output.list({ items, next_cursor: null }, [{ title: 'path', value: ({ path }) => path }]);
}
