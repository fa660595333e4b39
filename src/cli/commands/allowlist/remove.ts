import type { Context } from '../../context/context.js';
import { printRequest, write } from '../../context/write.js';
import type { Words } from '../../words/words.js';
import type { AllowlistOptions } from './add.js';
import { ownList, readEntries } from './entries.js';

export function parse(words: Words): AllowlistOptions {
  return { entries: readEntries(words.arguments) };
}

export async function run(context: Context, options: AllowlistOptions): Promise<void> {
  const { path } = await ownList(context);
  const removed: string[] = [];
  let entries: readonly string[] = [];
  for (const entry of options.entries) {
    const input = { path: { ...path, entry } };
    if (context.globals.isDryRun) await printRequest(context, 'removeFromAllowlist', input);
    else {
      entries = (await write(context, 'removeFromAllowlist', input, aboutEntry(entry, removed))).reply.entries;
      removed.push(entry);
    }
  }
  if (context.globals.isDryRun) return;
  await context.output.document({ entries, removed }, (safe) => safe.removed.join('\n'));
}

function aboutEntry(entry: string, removed: readonly string[]) {
  const before = removed.length === 0 ? '' : ` Removed before it: ${removed.join(', ')}.`;
  return {
    subject: entry,
    messages: { NOT_FOUND: `${entry} is not on the list.${before}` },
    reasons: { NOT_FOUND: 'an entry is removed as it stands there: @owner.* is another one than @owner.name.' },
    next: { NOT_FOUND: ['asp', 'allowlist', 'list'] },
  };
}
