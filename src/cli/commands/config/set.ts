import type { Context } from '../../context/context.js';
import type { Words } from '../../words/words.js';
import { type Key, readKey, withSetting } from './settings.js';

export interface SetConfigOptions {
  readonly text: string;
  readonly key: Key;
  readonly value: string;
}

export function parse(words: Words): SetConfigOptions {
  const [text = '', value = ''] = words.arguments;
  return { text, key: readKey(text), value };
}

export async function run(context: Context, { text, key, value }: SetConfigOptions): Promise<void> {
  const config = await context.config();
  await context.saveConfig(withSetting(config, key, value));
  await context.output.document({ key: text, value }, (safe) => safe.value);
  const { ASP_PROFILE: named } = context.environment;
  if (key.kind === 'default_profile' && (named ?? value) !== value && named !== '')
    await context.output.note(`ASP_PROFILE still says ${named}.`);
}
