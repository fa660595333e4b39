import type { Upload } from '../../../client/client.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import type { Content, Part } from '../../../wire/schemas/requests.js';
import { chosenKey } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { usageError } from '../../errors.js';
import {
  decodeText,
  linesOf,
  readNamedFile,
  readStdin,
  readToSend,
  refuseBrokenArgument,
  tooLarge,
} from '../../input.js';
import type { SendOptions, TextSource } from './send.js';

const STDIN = 'Standard input';

/** The content of a message, and the files that were uploaded for it. */
interface Built {
  readonly content: Content;
  readonly uploaded: readonly string[];
  /** False if the same command line would not send the same again. */
  readonly isRepeatable: boolean;
}

/** What the content of a message is made from. */
type Contents = Omit<SendOptions, 'metadata'>;

/** Reads, checks and uploads the content from the options. With `--dry-run`, uploads nothing. */
export async function buildContent(context: Context, options: Contents): Promise<Built> {
  const readsNoStdin = ![...options.files, ...options.data, options.parts].includes('-');
  if (options.parts !== undefined) {
    const content = await checkContent('--parts', await readJson(context, '--parts', options.parts));
    return { content, uploaded: [], isRepeatable: readsNoStdin };
  }
  const source = chooseSource(context, options);
  const text = source === undefined ? undefined : await readText(context, source);
  const parts: Part[] = [];
  for (const value of options.data) parts.push(await dataPart(await readJson(context, '--data', value)));
  for (const id of options.attachmentIds) parts.push({ type: 'file', attachment_id: id });
  const uploads = await uploadFiles(context, options);
  parts.push(...uploads.map(({ part }) => part));
  const textPart = text === undefined ? [] : [{ type: 'text' as const, text }];
  return {
    content: parts.length === 0 ? (text ?? '') : [...textPart, ...parts],
    uploaded: uploads.flatMap(({ id }) => (id === undefined ? [] : [id])),
    isRepeatable: readsNoStdin && (source === undefined || source.kind === 'given' || source.kind === 'file'),
  };
}

/** The text from the arguments, or else standard input unless it is a terminal; none if there are other parts. */
function chooseSource({ streams }: Context, options: Contents): TextSource | undefined {
  if (options.text !== undefined) return options.text;
  const { files, attachmentIds, data, parts } = options;
  if (files.length + attachmentIds.length + data.length > 0 || parts !== undefined) return undefined;
  if (!streams.stdin.isTerminal) return { kind: 'stdin' };
  throw usageError('There is no message.', {
    why: 'pass it as an argument, with -m, with -F, or on standard input.',
    next: ['asp', 'send', '--help'],
  });
}

/** The text of an option that takes no file; `-` is standard input. */
export function readGivenText(context: Context, text: string): Promise<string> {
  return readText(context, text === '-' ? { kind: 'stdin' } : { kind: 'given', text });
}

/** The text of a message; one line feed at the end of a file or stream is not part of it. */
function readText(context: Context, source: TextSource): Promise<string> {
  return readToSend(async () => {
    if (source.kind === 'given') {
      await refuseBrokenArgument(context, source.text);
      return checkText(source.text);
    }
    const text = await readTextFrom(context, source.kind === 'stdin' ? undefined : source.path);
    return checkText(text.replace(/\r?\n$/, ''));
  });
}

/** The text of a file; undefined is standard input. */
async function readTextFrom(context: Context, path: string | undefined): Promise<string> {
  const bytes =
    path === undefined
      ? await readStdin(context, MESSAGE_BODY_MAX_BYTES)
      : await readNamedFile(path, MESSAGE_BODY_MAX_BYTES);
  return decodeText(bytes, path ?? STDIN, 'send it as a file: --file.');
}

function checkText(text: string): string {
  if (text === '') throw usageError('The message is empty.');
  if (Buffer.byteLength(text) > MESSAGE_BODY_MAX_BYTES) throw tooLarge('The message', MESSAGE_BODY_MAX_BYTES);
  return text;
}

/** A value given as JSON, as `@file`, or `-` for standard input. */
async function readJson(context: Context, option: string, value: string): Promise<unknown> {
  const isGiven = value !== '-' && !value.startsWith('@');
  const path = value === '-' ? undefined : value.slice(1);
  const text = isGiven ? value : await readToSend(() => readTextFrom(context, path));
  try {
    return JSON.parse(text);
  } catch (error) {
    throw usageError(`${option}: invalid JSON.`, {
      why: error instanceof Error ? `${error.message}.` : undefined,
      cause: error,
    });
  }
}

async function dataPart(value: unknown): Promise<Part> {
  const [part] = await checkContent('--data', [{ type: 'data', data: value }]);
  return part as Part;
}

async function checkContent(option: '--data' | '--parts', value: unknown): Promise<Exclude<Content, string>> {
  // Most messages are plain text, and building the schemas of all requests costs milliseconds.
  const { Content } = await import('../../../wire/schemas/requests.js');
  const checked = Content.safeParse(value);
  if (checked.success && Array.isArray(checked.data)) return checked.data;
  const issue = checked.success ? undefined : checked.error.issues[0];
  const where = issue === undefined || issue.path.length === 0 ? '' : ` (at ${issue.path.join('.')})`;
  throw usageError(`${option} is not valid message content${where}.`, {
    why: option === '--data' ? 'use a JSON object.' : 'use an array of text, data, file and image parts.',
    next: ['asp', 'send', '--help'],
  });
}

interface Uploaded {
  /** Undefined with `--dry-run`. */
  readonly id: string | undefined;
  readonly part: Part;
}

/** Every file is checked before the first byte is sent. */
async function uploadFiles(
  context: Context,
  { files, ...uploadAs }: Pick<SendOptions, 'files' | 'filename' | 'isAsText'>,
): Promise<readonly Uploaded[]> {
  if (files.length === 0) return [];
  const { partTypeOf, prepareUpload, uploadFile } = await import('../attachment/transfer.js');
  const prepared: Upload[] = [];
  for (const path of files) prepared.push(await readToSend(() => prepareUpload(context, path, uploadAs)));
  const uploads: Uploaded[] = [];
  for (const [index, file] of prepared.entries()) {
    const type = partTypeOf(file);
    if (context.globals.isDryRun) {
      uploads.push({ id: undefined, part: { type, attachment_id: `(${file.filename}, to be uploaded)` } });
      continue;
    }
    const key = await chosenKey(context, 'POST /attachments', `/${index}`);
    const { reply } = await uploadFile(context, file, key, { key: context.globals.idempotencyKey });
    await context.output.detail(`uploaded ${reply.filename} (${reply.size} bytes) as ${reply.id}`);
    uploads.push({ id: reply.id, part: { type, attachment_id: reply.id } });
  }
  return uploads;
}

/** Lines of standard input as they arrive, without their line feeds; empty lines are skipped. */
export async function* readLines({ streams, signal }: Context): AsyncGenerator<string> {
  const untilAborted = async function* (): AsyncGenerator<Uint8Array> {
    yield* streams.stdin.read(signal);
    signal.throwIfAborted();
  };
  for await (const line of linesOf(untilAborted(), STDIN, MESSAGE_BODY_MAX_BYTES)) if (line.trim() !== '') yield line;
}
