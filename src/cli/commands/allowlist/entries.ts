import { splitHandle } from '../../../wire/handle.js';
import type { Context } from '../../context/context.js';
import type { About } from '../../context/explain.js';
import { read } from '../../context/write.js';
import { UsageError } from '../../terminal/cli-error.js';
import { handleOf } from '../../words/values.js';

const GLOB = /^@?([a-z0-9_-]+\.\*)$/;

/** A handle, or every agent of an owner: `@owner.*`. */
export function readEntry(text: string): string {
  const glob = GLOB.exec(text)?.[1];
  const entry = glob === undefined ? handleOf(text) : `@${glob}`;
  if (entry !== undefined) return entry;
  throw new UsageError(`'${text}' is no entry of an allowlist.`, {
    why: 'it is a handle (@owner.name) or every agent of an owner (@owner.*), in lower case.',
  });
}

/** Entries from words that may each be a list with commas; each once, in order. */
export function readEntries(words: readonly string[]): string[] {
  const texts = words.flatMap((word) => word.split(',')).filter((word) => word !== '');
  return [...new Set(texts.map(readEntry))];
}

/** The acting agent as the path of its list, and what its errors are about. */
export async function ownList(context: Context): Promise<{ path: { owner: string; name: string }; about: About }> {
  const handle = await context.actingHandle();
  return { path: splitHandle(handle), about: { subject: `the allowlist of ${handle}` } };
}

export async function readOwnEntries(context: Context): Promise<readonly string[]> {
  const { path, about } = await ownList(context);
  return (await read(context, 'listAllowlist', { path }, about)).entries;
}
