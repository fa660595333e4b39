import type { Context } from '../../context/context.js';
import { printRequest, write } from '../../context/write.js';
import type { Words } from '../../words/words.js';
import { ownList, readEntries } from './entries.js';

export interface AllowlistOptions {
  readonly entries: readonly string[];
}

export function parse(words: Words): AllowlistOptions {
  return { entries: readEntries(words.arguments) };
}

export async function run(context: Context, { entries }: AllowlistOptions): Promise<void> {
  const { path, about } = await ownList(context);
  const body = { entries: [...entries] };
  if (context.globals.isDryRun) return printRequest(context, 'addToAllowlist', { path, body });
  const { reply, idempotencyKey } = await write(context, 'addToAllowlist', { path, body }, about);
  const result = { entries: reply.entries, added: entries, idempotency_key: idempotencyKey ?? null };
  await context.output.document(result, (safe) => safe.added.join('\n'));
}
