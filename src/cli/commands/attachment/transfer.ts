import { createReadStream } from 'node:fs';
import { type FileHandle, lstat, open, rm, stat } from 'node:fs/promises';
import { basename, dirname, join, resolve } from 'node:path';
import type { Client, Upload } from '../../../client/client.js';
import { formatBytes } from '../../../kit/format.js';
import { isFileError, makeDirectory, openNewFile, publishFile } from '../../../kit/private-file.js';
import { type Random, randomToken } from '../../../kit/random.js';
import { attachmentTypeOfName, HEAD_BYTES, recognizeFile } from '../../../wire/attachment.js';
import { ATTACHMENT_FILENAME_MAX_LENGTH, ATTACHMENT_MAX_BYTES } from '../../../wire/limit.js';
import type { Attachment } from '../../../wire/schemas/attachment.js';
import { changeEach, chosenKey, printResults } from '../../context/calls.js';
import { remember } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { type ErrorContext, explain } from '../../context/explain.js';
import { CliError, usageError } from '../../errors.js';
import { fileFailure, readStdin, readToSend, unusableFile } from '../../input.js';
import { showProgress } from '../../terminal/progress.js';
import type { ItemOf } from '../schema/output-shapes.js';
import { unseenAttachment } from './references.js';

/** How the files of a command are sent. */
export interface UploadAs {
  /** The name of standard input. */
  readonly filename: string | undefined;
  /** Files of unsupported types are sent as plain text, under their own names. */
  readonly isAsText: boolean;
}

/** The type of the part that shows a file. */
export const partTypeOf = ({ contentType }: Pick<Upload, 'contentType'>): 'image' | 'file' =>
  contentType.startsWith('image/') ? 'image' : 'file';

/** A file to upload: its size, type and signature are checked before anything is sent. */
export async function prepareUpload(context: Context, path: string, { filename, isAsText }: UploadAs): Promise<Upload> {
  if (path === '-') {
    const name = filename ?? (isAsText ? 'stdin.txt' : undefined);
    if (name === undefined)
      throw usageError('Standard input needs a name with an extension, which determines its type.', {
        why: 'use --filename <name>, or --as-text for plain text.',
      });
    const bytes = await readStdin(context, ATTACHMENT_MAX_BYTES);
    return check(name, bytes.byteLength, bytes.subarray(0, HEAD_BYTES), isAsText, async function* () {
      yield bytes;
    });
  }
  try {
    const facts = await stat(path);
    if (!facts.isFile()) throw usageError(`${path} is ${facts.isDirectory() ? 'a folder' : 'not a regular file'}.`);
    const file = await open(path, 'r');
    const head = Buffer.alloc(HEAD_BYTES);
    const { bytesRead } = await file.read(head, 0, HEAD_BYTES, 0).finally(() => file.close());
    return check(basename(path), facts.size, head.subarray(0, bytesRead), isAsText, () => createReadStream(path));
  } catch (error) {
    throw fileFailure(path, error);
  }
}

function check(
  filename: string,
  size: number,
  head: Uint8Array,
  isAsText: boolean,
  openBytes: () => AsyncIterable<Uint8Array>,
): Upload {
  if (size === 0) throw usageError(`${filename} is empty.`);
  const found = recognizeFile({ filename, size, head, otherwise: isAsText ? 'text/plain' : undefined });
  if (typeof found === 'string') return { filename, contentType: found, size, open: openBytes };
  const { code, message } = found;
  const isUnsupported = attachmentTypeOfName(filename) === undefined;
  const why = isUnsupported && !isAsText ? `${found.why} To send it as plain text, add --as-text.` : found.why;
  throw new CliError(code, { message, why });
}

/**
 * Writes bytes to `path`: first to a new file next to it, ignoring links, then atomically under its name. An existing
 * file stays unless `isForced`; a link with that name is replaced, never followed.
 */
export async function saveFile(
  path: string,
  bytes: AsyncIterable<Uint8Array>,
  { isForced, random, mode = 0o644 }: { isForced: boolean; random: Random; mode?: number },
): Promise<void> {
  await refuseTaken(path, isForced);
  await ensureFolder(dirname(path));
  const temporary = join(dirname(path), `.asp-${randomToken(random, 9)}.part`);
  const file = await openNewFile(temporary, mode).catch((error: unknown) => {
    throw writeFailure(path, error);
  });
  try {
    await fill(file, bytes);
    await publishFile(temporary, path, isForced);
  } catch (error) {
    throw writeFailure(path, error);
  } finally {
    await rm(temporary, { force: true });
  }
}

async function fill(file: FileHandle, bytes: AsyncIterable<Uint8Array>): Promise<void> {
  try {
    // `write` may write a part of it and not fail, for example the last that fits on a disk.
    for await (const chunk of bytes) await file.writeFile(chunk);
    await file.sync();
  } finally {
    await file.close();
  }
}

async function refuseTaken(path: string, isForced: boolean): Promise<void> {
  const there = await lstat(path).catch(() => undefined);
  if (there === undefined || (isForced && !there.isDirectory())) return;
  throw there.isDirectory() ? usageError(`${path} is a folder.`, { why: 'name a file to write.' }) : taken(path);
}

const taken = (path: string): CliError =>
  new CliError('ASP_FILE_EXISTS', { message: `${path} already exists.`, why: 'use --force to replace it.' });

function writeFailure(path: string, error: unknown): unknown {
  if (isFileError(error, 'EEXIST')) return taken(path);
  if (isFileError(error, 'ENOENT', 'ENOTDIR')) return usageError(`There is no folder ${dirname(path)}.`);
  return unusableFile(`Cannot write ${basename(path)} in ${dirname(path)}.`, error);
}

/** Creates a folder for files, if it does not exist. */
export async function ensureFolder(path: string): Promise<void> {
  try {
    makeDirectory(path, 0o777);
  } catch (error) {
    throw isFileError(error, 'EEXIST', 'ENOTDIR') ? usageError(`${path} is not a folder.`) : writeFailure(path, error);
  }
}

/** Device names of Windows, with any extension, which may follow spaces. */
const DEVICE = /^(con|prn|aux|nul|(com|lpt)[\d¹²³]) *(\.|$)/i;

/**
 * A name that stays in its folder on every system, derived from a file name of a service: the last path part, without
 * anything that a shell, a terminal or a file system could misinterpret.
 */
export function safeFilename(path: string): string {
  const last = path.normalize('NFC').split(/[/\\]/).at(-1) ?? '';
  const plain = last
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .replace(/[^\p{L}\p{M}\p{N} ._-]+/gu, '_')
    .replace(/^[ .-]+|[ .]+$/g, '');
  const name = DEVICE.test(plain) ? `_${plain}` : plain;
  return name === '' ? 'file' : shorten(name);
}

/** Most file systems count names in bytes; the extension is kept. */
function shorten(name: string): string {
  if (Buffer.byteLength(name) <= ATTACHMENT_FILENAME_MAX_LENGTH) return name;
  const dot = name.lastIndexOf('.');
  const ending = dot > 0 && name.length - dot <= 12 ? name.slice(dot) : '';
  let kept = '';
  for (const character of ending === '' ? name : name.slice(0, dot)) {
    if (Buffer.byteLength(kept + character + ending) > ATTACHMENT_FILENAME_MAX_LENGTH) break;
    kept += character;
  }
  return `${kept.trimEnd()}${ending}`;
}

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

interface UploadOptions extends UploadAs {
  /** `-` is standard input. */
  readonly paths: readonly string[];
}

/** Every file is checked before the first byte is sent. */
export async function uploadAll(context: Context, { paths, ...uploadAs }: UploadOptions): Promise<void> {
  const files: Upload[] = [];
  for (const path of paths) files.push(await readToSend(() => prepareUpload(context, path, uploadAs)));
  if (context.globals.isDryRun) return printFiles(context, files);
  const isRepeatable = !paths.includes('-');
  const print = (items: readonly Attachment[]): Promise<void> => printUploaded(context, items);
  const names = files.map(({ filename }) => filename);
  await changeEach(context, { names, did: 'Uploaded', print }, async (_, index) => {
    const file = files[index] as Upload;
    const key = await chosenKey(context, 'POST /attachments', files.length > 1 ? `/${index}` : '');
    const { reply, idempotencyKey } = await uploadFile(context, file, key, { isRepeatable });
    await context.output.detail(`${reply.filename}: ${formatBytes(reply.size)}, ${reply.content_type}`);
    return { ...reply, idempotency_key: idempotencyKey ?? null };
  });
}

async function printUploaded(context: Context, items: readonly Attachment[]): Promise<void> {
  await context.output.list({ items, next_cursor: null }, [{ title: 'attachment', value: ({ id }) => id }]);
  const uploaded = items.map(({ id, filename }) => ({ name: id, about: filename }));
  await remember(context, 'attachments', uploaded);
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
  /** Refuse larger attachments (default: the client's limit). */
  readonly maxBytes: number | undefined;
}

/** A file that was written. */
type Downloaded = ItemOf<'attachment download'>;

export async function downloadAll(context: Context, options: DownloadOptions): Promise<void> {
  const { ids, output, directory, isForced, maxBytes } = options;
  if (output === '-') return downloadToStdout(context, ids[0] ?? '', maxBytes);
  const { workingDirectory } = context.machine;
  if (directory !== undefined) await ensureFolder(resolve(workingDirectory, directory));
  const choosePath = (filename: string): string =>
    output === undefined
      ? join(resolve(workingDirectory, directory ?? '.'), safeFilename(filename))
      : resolve(workingDirectory, output);
  const print = printResults<Downloaded>(context, { title: 'path', value: ({ path }) => path });
  await changeEach(context, { names: ids, did: 'Downloaded', print }, (id) =>
    downloadTo(context, id, choosePath, { isForced, maxBytes }),
  );
}

/** Writes one attachment to the file that `choosePath` names. */
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

/** The bytes unchanged; a terminal gets text, without characters that could control it. */
async function downloadToStdout(context: Context, id: string, maxBytes: number | undefined): Promise<void> {
  const client = await context.client();
  const download = async (): Promise<void> => {
    const { body, contentType, filename } = await client.download(id, { signal: context.signal, maxBytes });
    if (!context.streams.stdout.isTerminal) {
      for await (const chunk of body) await context.output.bytes(chunk);
      return;
    }
    if (!IS_TEXT.test(contentType)) {
      throw usageError(`${filename} is ${contentType}, and a terminal can show only text.`, {
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
