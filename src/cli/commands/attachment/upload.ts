import type { Attachment } from '../../../wire/attachment.js';
import type { Context } from '../../context/context.js';
import { explain } from '../../context/explain.js';
import { chosenKey } from '../../context/write.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';
import { withProgress } from '../../terminal/progress.js';
import type { Words } from '../../words/words.js';
import { prepareUpload } from '../message/upload-file.js';
import { sizeText } from './attachment-facts.js';

export interface UploadOptions {
  /** `-` is standard input. */
  readonly paths: readonly string[];
  readonly filename: string | undefined;
}

export function parse(words: Words): UploadOptions {
  const paths = words.arguments;
  const filename = words.text('filename');
  if (paths.filter((path) => path === '-').length > 1) throw new UsageError('Standard input can be uploaded once.');
  if (filename !== undefined && !paths.includes('-'))
    throw new UsageError('--filename names what comes from standard input.', { why: 'a file keeps its own name.' });
  return { paths, filename };
}

/** Every file is checked before the first byte is sent. */
export async function run(context: Context, { paths, filename }: UploadOptions): Promise<void> {
  const files = [];
  for (const path of paths) files.push(await prepareUpload(context, path, path === '-' ? filename : undefined));
  if (context.globals.isDryRun) {
    const items = files.map(({ filename: name, contentType, size }) => ({
      filename: name,
      content_type: contentType,
      size,
    }));
    await context.output.list({ items, next_cursor: null }, [
      { title: 'name', value: (file) => file.filename },
      { title: 'type', value: (file) => file.content_type },
      { title: 'size', value: (file) => String(file.size) },
    ]);
    return context.output.note('Nothing was sent (--dry-run).');
  }
  const items: (Attachment & { readonly idempotency_key: string | null })[] = [];
  const client = await context.client();
  const { clock, globals, streams } = context;
  const isAllowed = streams.stderr.isTerminal && !globals.isQuiet && !globals.isAccessible;
  try {
    for (const [index, file] of files.entries()) {
      const key = await chosenKey(context, 'POST /attachments', files.length > 1 ? `/${index}` : '');
      const about = { subject: file.filename, isRepeatable: !paths.includes('-') };
      const upload = client.upload(file, { idempotencyKey: key, signal: context.signal });
      const { reply, idempotencyKey } = await withProgress(
        { clock, isAllowed },
        `uploading ${file.filename}`,
        explain(about, upload),
      );
      items.push({ ...reply, idempotency_key: idempotencyKey ?? null });
      await context.output.detail(`${reply.filename}: ${sizeText(reply.size)}, ${reply.content_type}`);
    }
  } catch (error) {
    if (items.length === 0) throw error;
    await print(context, items);
    const failed = files[items.length]?.filename ?? '';
    throw new CliError('ASP_PARTIAL', {
      message: `${items.length} of ${files.length} files were uploaded; ${failed} was not, and nothing after it.`,
      why: error instanceof Error && error.cause instanceof Error ? error.cause.message : undefined,
      outcome: 'applied',
      cause: error,
    });
  }
  await print(context, items);
}

function print(context: Context, items: readonly Attachment[]): Promise<void> {
  return context.output.list({ items, next_cursor: null }, [{ title: 'attachment', value: ({ id }) => id }]);
}
