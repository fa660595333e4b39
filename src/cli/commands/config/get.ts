import type { Context } from '../../context/context.js';
import { notFound } from '../../context/not-found.js';
import type { Words } from '../../words/words.js';
import { readKey, settingsOf } from './settings.js';

export interface GetConfigOptions {
  readonly key: string;
}

export function parse(words: Words): GetConfigOptions {
  const [key = ''] = words.arguments;
  readKey(key);
  return { key };
}

export async function run(context: Context, { key }: GetConfigOptions): Promise<void> {
  const found = settingsOf(await context.config()).find((setting) => setting.key === key);
  if (found === undefined)
    throw notFound(`${key} is not set.`, 'the file says nothing about it.', ['asp', 'config', 'list', '--origin']);
  await context.output.document(found, (safe) => safe.value);
}
