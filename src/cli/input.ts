import { createReadStream, promises } from 'node:fs';

import { fileFault, isFileError } from '../kit/private-file.js';
import type { Context } from './context/context.js';
import { CliError, usageError } from './errors.js';

/** Reads what a command is about to send. The error for input that cannot be used says that nothing was sent. */
export async function readToSend<Value>(read: () => Promise<Value>): Promise<Value> {
  try {
    return await read();
  } catch (error) {
    throw error instanceof CliError ? nothingSent(error) : error;
  }
}

/** The error for input that cannot be used, when nothing was sent before it. */
export const nothingSent = (error: CliError): CliError =>
  new CliError(error.code, { ...error, message: `${error.message} Nothing was sent.`, cause: error.cause });

/** All of standard input. @throws CliError `ASP_FILE_TOO_LARGE` beyond `maxBytes` */
export function readStdin({ streams }: Pick<Context, 'streams'>, maxBytes: number): Promise<Buffer> {
  return readAll(streams.stdin.read(), 'Standard input', maxBytes);
}

/** The bytes of a file named by the user. @throws CliError `ASP_FILE_TOO_LARGE` beyond `maxBytes` */
export async function readNamedFile(path: string, maxBytes: number): Promise<Buffer> {
  try {
    return await readAll(createReadStream(path), path, maxBytes);
  } catch (error) {
    throw fileFailure(path, error);
  }
}

async function readAll(source: AsyncIterable<Uint8Array>, name: string, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of source) {
    parts.push(bytes);
    size += bytes.byteLength;
    if (size > maxBytes) throw tooLarge(name, maxBytes);
  }
  return Buffer.concat(parts);
}

/**
 * The lines of UTF-8 text, as they arrive.
 * @throws CliError `ASP_FILE_TOO_LARGE` if one is longer than `maxBytes`, `ASP_USAGE` if one is not UTF-8
 */
export async function* linesOf(
  source: AsyncIterable<Uint8Array>,
  name: string,
  maxBytes: number,
): AsyncGenerator<string> {
  for await (const line of byteLinesOf(source, maxBytes, () => tooLarge('A line', maxBytes)))
    yield decodeText(line, name).replace(/\r$/, '');
}

/** The lines as they arrive, without their line feeds. @throws what `tooLong` returns if one is longer than `maxBytes` */
export async function* byteLinesOf(
  source: AsyncIterable<Uint8Array>,
  maxBytes: number,
  tooLong: () => Error,
): AsyncGenerator<Buffer> {
  let parts: Uint8Array[] = [];
  let size = 0;
  const add = (bytes: Uint8Array): void => {
    size += bytes.byteLength;
    if (size > maxBytes) throw tooLong();
    parts.push(bytes);
  };
  const takeLine = (): Buffer => {
    const line = Buffer.concat(parts);
    parts = [];
    size = 0;
    return line;
  };
  for await (const bytes of source) {
    let start = 0;
    for (let at = bytes.indexOf(LINE_FEED); at !== -1; at = bytes.indexOf(LINE_FEED, start)) {
      add(bytes.subarray(start, at));
      start = at + 1;
      yield takeLine();
    }
    add(bytes.subarray(start));
  }
  if (size > 0) yield takeLine();
}

const LINE_FEED = 0x0a;

/** A file, or standard input for `-`. */
export function readSource(context: Context, source: string, maxBytes: number): Promise<Buffer> {
  return source === '-' ? readStdin(context, maxBytes) : readNamedFile(source, maxBytes);
}

/** Bytes as text; undefined if they are not UTF-8. */
export function decodeIfUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/**
 * Node.js replaces the bytes of an argument that are not UTF-8 with U+FFFD, so other text would be sent than was typed. Only
 * Linux shows the bytes.
 */
export async function refuseBrokenArgument({ machine }: Pick<Context, 'machine'>, text: string): Promise<void> {
  if (!text.includes('\uFFFD') || machine.platform !== 'linux') return;
  const line = await promises.readFile('/proc/self/cmdline', 'latin1').catch(() => '');
  const broken = line
    .split('\0')
    .map((word) => Buffer.from(word, 'latin1'))
    .filter((bytes) => decodeIfUtf8(bytes) === undefined);
  if (broken.some((bytes) => bytes.toString().endsWith(text)))
    throw usageError('The text is not UTF-8.', {
      why: 'an argument cannot hold other bytes; convert it, or attach it as a file (--file).',
    });
}

/** Bytes as text. @throws CliError when they are not UTF-8 */
export function decodeText(bytes: Uint8Array, name: string, why?: string): string {
  const text = decodeIfUtf8(bytes);
  if (text === undefined) throw usageError(`${name} is not UTF-8 text.`, { why });
  return text;
}

export function tooLarge(name: string, maxBytes: number): CliError {
  const limit = maxBytes >= 1024 * 1024 ? `${maxBytes / (1024 * 1024)} MiB` : `${maxBytes / 1024} KiB`;
  return new CliError('ASP_FILE_TOO_LARGE', { message: `${name} is larger than ${limit}.` });
}

/** Why a file named by the user cannot be read. */
export function fileFailure(path: string, error: unknown): unknown {
  if (isFileError(error, 'ENOENT', 'ENOTDIR')) return usageError(`${path} does not exist.`);
  if (isFileError(error, 'EACCES', 'EPERM')) return usageError(`${path} cannot be read by this user.`);
  if (isFileError(error, 'EISDIR')) return usageError(`${path} is a folder.`);
  return error;
}

/**
 * The error for a file that could not be written or read: `ASP_OUTPUT` if the disk is full or broken, otherwise
 * `ASP_USAGE`, for example if permission is missing. Any other error is returned unchanged.
 */
export function unusableFile(message: string, error: unknown): unknown {
  const fault = fileFault(error);
  if (fault === undefined) return error;
  const code = isFileError(error, 'ENOSPC', 'EDQUOT', 'EIO') ? 'ASP_OUTPUT' : 'ASP_USAGE';
  return new CliError(code, { message, why: `${fault}.`, cause: error });
}
