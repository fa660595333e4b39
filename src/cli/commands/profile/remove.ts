import type { Context } from '../../context/context.js';
import { loginsAt } from '../../context/login-place.js';
import type { Words } from '../../words/words.js';
import { requireEntry, viewOf } from './profile-view.js';

export interface RemoveProfileOptions {
  readonly name: string;
}

export function parse(words: Words): RemoveProfileOptions {
  return { name: words.arguments[0] ?? '' };
}

export async function run(context: Context, { name }: RemoveProfileOptions): Promise<void> {
  const config = await context.config();
  const entry = requireEntry(config, name);
  const { [name]: _, ...profiles } = config.profiles;
  const isDefault = config.default_profile === name;
  const next = { ...config, default_profile: isDefault ? undefined : config.default_profile, profiles };
  await context.saveConfig(next);
  const logins = await loginsAt(context, entry.base_url);
  if (logins.length > 0)
    await context.output.note(`Its logins are still here. To end them: asp logout --all -p ${entry.base_url}`);
  if (isDefault) await context.output.note('It was the default: choose another with asp profile use.');
  await context.output.document({ ...viewOf(name, entry, next), removed: true }, (safe) => safe.name);
}
