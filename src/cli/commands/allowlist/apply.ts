import type { Context } from '../../context/context.js';
import { read, write } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';
import { decodeText, readNamedFile, readStdin } from '../message/message-source.js';
import { ownList, readEntry } from './entries.js';

const FILE_MAX_BYTES = 1024 * 1024;
const ENTRIES_PER_CALL = 1000;

export interface ApplyOptions {
  /** A path, or `-`. */
  readonly source: string;
  readonly isPruning: boolean;
}

export function parse(words: Words): ApplyOptions {
  return { source: words.arguments[0] ?? '-', isPruning: words.flag('prune') };
}

/** Brings the list to what the file says; what is there beyond it goes only with `--prune`. */
export async function run(context: Context, { source, isPruning }: ApplyOptions): Promise<void> {
  const wanted = await readWanted(context, source);
  const { isDryRun, isYes } = context.globals;
  if (wanted.length === 0 && isPruning && !isYes && !isDryRun)
    throw new UsageError(`${nameOf(source)} holds no entry, and --prune would empty the list.`, {
      why: 'say --yes if that is meant.',
    });
  const { path, about } = await ownList(context);
  const { entries: before } = await read(context, 'listAllowlist', { path }, about);
  const added = wanted.filter((entry) => !before.includes(entry));
  const removed = isPruning ? before.filter((entry) => !wanted.includes(entry)) : [];
  let entries: readonly string[] = before;
  if (!isDryRun) {
    for (let at = 0; at < added.length; at += ENTRIES_PER_CALL) {
      const body = { entries: added.slice(at, at + ENTRIES_PER_CALL) };
      entries = (await write(context, 'addToAllowlist', { path, body }, about)).reply.entries;
    }
    for (const entry of removed) {
      const about = { subject: entry };
      entries = (await write(context, 'removeFromAllowlist', { path: { ...path, entry } }, about)).reply.entries;
    }
  }
  if (isDryRun) await context.output.note('Nothing was changed (--dry-run).');
  else if (added.length + removed.length === 0) await context.output.note('Nothing had to be changed.');
  await context.output.document({ added, removed, entries, applied: !isDryRun }, (safe, style) =>
    [
      ...safe.added.map((entry) => style.green(`+ ${entry}`)),
      ...safe.removed.map((entry) => style.red(`- ${entry}`)),
    ].join('\n'),
  );
}

const nameOf = (source: string): string => (source === '-' ? 'Standard input' : source);

/** One entry a line; what follows a `#` is a remark. */
async function readWanted(context: Context, source: string): Promise<string[]> {
  const bytes = source === '-' ? await readStdin(context, FILE_MAX_BYTES) : await readNamedFile(source, FILE_MAX_BYTES);
  const lines = decodeText(bytes, nameOf(source)).split(/\r?\n/);
  const entries = lines.flatMap((line, index) => {
    const text = line.replace(/#.*$/, '').trim();
    if (text === '') return [];
    try {
      return [readEntry(text)];
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      throw new UsageError(`${nameOf(source)}, line ${index + 1}: ${error.message}`, { why: error.why, cause: error });
    }
  });
  return [...new Set(entries)];
}
