import type { Context } from '../../context/context.js';
import type { Words } from '../../words/words.js';
import { type Key, readKey, withSetting } from './settings.js';

export interface UnsetConfigOptions {
  readonly text: string;
  readonly key: Key;
}

export function parse(words: Words): UnsetConfigOptions {
  const [text = ''] = words.arguments;
  return { text, key: readKey(text) };
}

export async function run(context: Context, { text, key }: UnsetConfigOptions): Promise<void> {
  await context.saveConfig(withSetting(await context.config(), key, undefined));
  await context.output.document({ key: text, value: null }, (safe) => safe.key);
}
