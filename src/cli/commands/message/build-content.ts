import type { ImagePart, Part } from '../../../wire/message.js';
import { Content, type Content as ContentValue } from '../../../wire/message.js';
import type { Context } from '../../context/context.js';
import { explain } from '../../context/explain.js';
import { chosenKey } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import { withProgress } from '../../terminal/progress.js';
import { readJson, readText, type TextSource } from './message-source.js';
import type { SendOptions } from './send-options.js';

/** What a message says, and what was uploaded for it. */
export interface Built {
  readonly content: ContentValue;
  readonly uploaded: readonly string[];
  /** False when the same words would not say the same again. */
  readonly isRepeatable: boolean;
}

function textSourceOf(context: Context, options: SendOptions): TextSource | undefined {
  if (options.text !== undefined) return options.text;
  const hasOther =
    options.files.length + options.attachmentIds.length + options.data.length > 0 || options.parts !== undefined;
  if (hasOther) return undefined;
  if (context.streams.stdin.isTerminal)
    throw new UsageError('There is no message.', {
      why: 'it is the argument, -m, -F, or standard input.',
      next: ['asp', 'send', '--help'],
    });
  return { kind: 'stdin' };
}

/** Reads, checks and uploads what the options name. With `--dry-run` nothing is uploaded. */
export async function buildContent(context: Context, options: SendOptions): Promise<Built> {
  const isRepeatable = ![...options.files, ...options.data, options.parts].includes('-');
  if (options.parts !== undefined)
    return {
      content: checkContent('--parts', await readJson(context, '--parts', options.parts)),
      uploaded: [],
      isRepeatable,
    };
  const source = textSourceOf(context, options);
  const text = source === undefined ? undefined : await readText(context, source);
  const parts: Part[] = [];
  for (const word of options.data) parts.push(dataPart(await readJson(context, '--data', word)));
  for (const id of options.attachmentIds) parts.push({ type: 'file', attachment_id: id });
  const uploads = await uploadFiles(context, options);
  parts.push(...uploads.map(({ part }) => part));
  const isFromText = source === undefined || source.kind === 'given' || source.kind === 'file';
  const built = {
    uploaded: uploads.flatMap(({ id }) => (id === undefined ? [] : [id])),
    isRepeatable: isRepeatable && isFromText,
  };
  if (parts.length === 0) return { content: text ?? '', ...built };
  return { content: [...(text === undefined ? [] : [{ type: 'text' as const, text }]), ...parts], ...built };
}

function dataPart(value: unknown): Part {
  const [part] = checkContent('--data', [{ type: 'data', data: value }]);
  return part as Part;
}

function checkContent(option: string, value: unknown): ContentValue {
  const checked = Content.safeParse(value);
  if (checked.success && Array.isArray(checked.data)) return checked.data;
  const issue = checked.success ? undefined : checked.error.issues[0];
  const where = issue === undefined || issue.path.length === 0 ? '' : ` (at ${issue.path.join('.')})`;
  throw new UsageError(`${option} is not what a message can hold${where}.`, {
    why: option === '--data' ? 'it is a JSON object.' : 'it is an array of text, data, file and image parts.',
    next: ['asp', 'send', '--help'],
  });
}

async function uploadFiles(
  context: Context,
  { files, filename }: SendOptions,
): Promise<readonly { id: string | undefined; part: Part }[]> {
  if (files.length === 0) return [];
  const { prepareUpload } = await import('./upload-file.js');
  const prepared = [];
  for (const path of files) prepared.push(await prepareUpload(context, path, path === '-' ? filename : undefined));
  const uploads: { id: string | undefined; part: Part }[] = [];
  for (const [index, file] of prepared.entries()) {
    const isImage = file.contentType.startsWith('image/');
    if (context.globals.isDryRun) {
      uploads.push({ id: undefined, part: filePart(isImage, `(${file.filename}, to be uploaded)`) });
      continue;
    }
    const client = await context.client();
    const idempotencyKey = await chosenKey(context, 'POST /attachments', `/${index}`);
    const isAllowed = context.streams.stderr.isTerminal && !context.globals.isQuiet && !context.globals.isAccessible;
    const { reply } = await withProgress(
      { clock: context.clock, isAllowed },
      `uploading ${file.filename}`,
      explain(
        { subject: file.filename, key: context.globals.idempotencyKey },
        client.upload(file, { idempotencyKey, signal: context.signal }),
      ),
    );
    await context.output.detail(`uploaded ${reply.filename} (${reply.size} bytes) as ${reply.id}`);
    uploads.push({ id: reply.id, part: filePart(isImage, reply.id) });
  }
  return uploads;
}

function filePart(isImage: boolean, id: string): Part {
  const image: ImagePart = { type: 'image', attachment_id: id };
  return isImage ? image : { type: 'file', attachment_id: id };
}
