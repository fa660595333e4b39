import { join, resolve } from 'node:path';

import type { Context } from '../../context/context.js';
import { explain } from '../../context/explain.js';
import { CliError, UsageError } from '../../terminal/cli-error.js';
import { withProgress } from '../../terminal/progress.js';
import { readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { aboutAttachment } from './attachment-facts.js';
import { safeFilename } from './safe-filename.js';
import { ensureFolder, saveFile } from './save-file.js';

export interface DownloadOptions {
  readonly ids: readonly string[];
  /** A path, or `-` for standard output. */
  readonly output: string | undefined;
  readonly directory: string | undefined;
  readonly isForced: boolean;
}

/** A file that was written. */
export interface Downloaded {
  readonly id: string;
  readonly path: string;
  readonly filename: string;
  readonly content_type: string;
  readonly size: number;
}

export function parse(words: Words): DownloadOptions {
  words.refuseBoth('output', 'dir');
  const ids = [
    ...new Set(words.arguments.flatMap((word) => word.split(',')).map((word) => readId('attachment', word))),
  ];
  const output = words.text('output');
  if (output !== undefined && ids.length > 1)
    throw new UsageError('--output is for one attachment.', { why: 'several go into a folder: --dir.' });
  if (output === '-') for (const option of ['json', 'jsonl', 'fields', 'force']) words.refuseBoth('output', option);
  return { ids, output, directory: words.text('dir'), isForced: words.flag('force') };
}

export async function run(context: Context, options: DownloadOptions): Promise<void> {
  const { ids, output, directory, isForced } = options;
  if (output === '-') return toStdout(context, ids[0] ?? '');
  const { workingDirectory } = context.machine;
  if (directory !== undefined) await ensureFolder(resolve(workingDirectory, directory));
  const placeOf = (filename: string): string =>
    output === undefined
      ? join(resolve(workingDirectory, directory ?? '.'), safeFilename(filename))
      : resolve(workingDirectory, output);
  const items: Downloaded[] = [];
  try {
    for (const id of ids) items.push(await downloadTo(context, id, placeOf, isForced));
  } catch (error) {
    if (items.length === 0) throw error;
    await print(context, items);
    const reason = error instanceof CliError ? error : error instanceof Error ? error.cause : undefined;
    throw new CliError('ASP_PARTIAL', {
      message: `${items.length} of ${ids.length} attachments were written; ${ids[items.length]} was not, and none after it.`,
      why: reason instanceof Error ? reason.message : undefined,
      cause: error,
    });
  }
  await print(context, items);
}

/** One attachment into the file that `placeOf` names. */
export async function downloadTo(
  context: Context,
  id: string,
  placeOf: (filename: string) => string,
  isForced: boolean,
): Promise<Downloaded> {
  const { clock, globals, streams, random, signal } = context;
  const client = await context.client();
  const isAllowed = streams.stderr.isTerminal && !globals.isQuiet && !globals.isAccessible;
  const work = async (): Promise<Downloaded> => {
    const { filename, contentType, size, body } = await client.download(id, { signal });
    const path = placeOf(filename);
    await saveFile(path, body, { isForced, random });
    return { id, path, filename, content_type: contentType, size };
  };
  return withProgress({ clock, isAllowed }, `downloading ${id}`, explain(aboutAttachment(id), work()));
}

async function toStdout(context: Context, id: string): Promise<void> {
  const client = await context.client();
  const work = async (): Promise<void> => {
    const { body } = await client.download(id, { signal: context.signal });
    for await (const chunk of body) await context.output.bytes(chunk);
  };
  await explain(aboutAttachment(id), work());
}

function print(context: Context, items: readonly Downloaded[]): Promise<void> {
  return context.output.list({ items, next_cursor: null }, [{ title: 'path', value: ({ path }) => path }]);
}
