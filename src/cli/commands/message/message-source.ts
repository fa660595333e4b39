import { createReadStream } from 'node:fs';
import { isFileError } from '../../../kit/private-file.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import type { Context } from '../../context/context.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';

/** Where the text of a message comes from. */
export type TextSource =
  | { readonly kind: 'given'; readonly text: string }
  | { readonly kind: 'file'; readonly path: string }
  | { readonly kind: 'stdin' }
  /** A file that is gone once the message is sent. */
  | { readonly kind: 'draft'; readonly path: string };

/** All of standard input, up to `maxBytes`. */
export async function readStdin(context: Context, maxBytes: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let size = 0;
  for await (const bytes of context.streams.stdin.read()) {
    parts.push(bytes);
    size += bytes.byteLength;
    if (size > maxBytes) throw tooLarge('standard input', maxBytes);
  }
  return Buffer.concat(parts);
}

export function tooLarge(what: string, maxBytes: number): CliError {
  const limit = maxBytes >= 1024 * 1024 ? `${maxBytes / (1024 * 1024)} MiB` : `${maxBytes / 1024} KiB`;
  return new CliError('ASP_FILE_TOO_LARGE', { message: `${what} is larger than ${limit}. Nothing was sent.` });
}

/** Bytes as text. What is no UTF-8 is no message. */
export function decodeText(bytes: Uint8Array, what: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch (error) {
    throw new UsageError(`${what} is not UTF-8 text.`, { why: 'send it as a file: --file.', cause: error });
  }
}

/** A file's bytes, in the words of a user when it cannot be read. */
export async function readNamedFile(path: string, maxBytes: number): Promise<Buffer> {
  try {
    const parts: Uint8Array[] = [];
    let size = 0;
    for await (const bytes of createReadStream(path)) {
      parts.push(bytes as Uint8Array);
      size += (bytes as Uint8Array).byteLength;
      if (size > maxBytes) throw tooLarge(path, maxBytes);
    }
    return Buffer.concat(parts);
  } catch (error) {
    throw fileFailure(path, error);
  }
}

export function fileFailure(path: string, error: unknown): unknown {
  if (isFileError(error, 'ENOENT', 'ENOTDIR')) return new UsageError(`${path} does not exist. Nothing was sent.`);
  if (isFileError(error, 'EACCES', 'EPERM')) return new UsageError(`${path} may not be read. Nothing was sent.`);
  if (isFileError(error, 'EISDIR')) return new UsageError(`${path} is a folder. Nothing was sent.`);
  return error;
}

/** The text of a message; one line feed at the end of a file or stream is not part of it. */
export async function readText(context: Context, source: TextSource): Promise<string> {
  if (source.kind === 'given') return checked(source.text);
  const isStdin = source.kind === 'stdin';
  const bytes = isStdin
    ? await readStdin(context, MESSAGE_BODY_MAX_BYTES)
    : await readNamedFile(source.path, MESSAGE_BODY_MAX_BYTES);
  return checked(withoutFinalNewline(decodeText(bytes, isStdin ? 'standard input' : source.path)));
}

export function withoutFinalNewline(text: string): string {
  return text.replace(/\r?\n$/, '');
}

function checked(text: string): string {
  if (text === '') throw new UsageError('The message is empty. Nothing was sent.');
  if (Buffer.byteLength(text) > MESSAGE_BODY_MAX_BYTES) throw tooLarge('The message', MESSAGE_BODY_MAX_BYTES);
  return text;
}

/** A value given as JSON, as `@file`, or `-` for standard input. */
export async function readJson(context: Context, option: string, word: string): Promise<unknown> {
  const text =
    word === '-'
      ? decodeText(await readStdin(context, MESSAGE_BODY_MAX_BYTES), 'standard input')
      : word.startsWith('@')
        ? decodeText(await readNamedFile(word.slice(1), MESSAGE_BODY_MAX_BYTES), word.slice(1))
        : word;
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new UsageError(`${option}: that is not JSON.`, {
      why: error instanceof Error ? `${error.message}.` : undefined,
      cause: error,
    });
  }
}

/** Lines of standard input as they come, without their line feeds; empty lines are no messages. */
export async function* readLines(context: Context): AsyncGenerator<string> {
  const decoder = new TextDecoder('utf-8', { fatal: true });
  let pending = '';
  for await (const bytes of context.streams.stdin.read(context.signal)) {
    pending += decoder.decode(bytes, { stream: true });
    const lines = pending.split('\n');
    pending = lines.pop() ?? '';
    for (const line of lines) if (line.trim() !== '') yield line.replace(/\r$/, '');
    if (Buffer.byteLength(pending) > MESSAGE_BODY_MAX_BYTES) throw tooLarge('a line', MESSAGE_BODY_MAX_BYTES);
  }
  context.signal.throwIfAborted();
  if (pending.trim() !== '') yield pending;
}
