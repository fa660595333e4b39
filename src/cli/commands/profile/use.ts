import type { Context } from '../../context/context.js';
import { LOCAL } from '../../profile/resolve-profile.js';
import type { Words } from '../../words/words.js';
import { requireEntry } from './profile-view.js';

export interface UseProfileOptions {
  readonly name: string;
}

export function parse(words: Words): UseProfileOptions {
  return { name: words.arguments[0] ?? '' };
}

export async function run(context: Context, { name }: UseProfileOptions): Promise<void> {
  const config = await context.config();
  const entry = name === LOCAL && !Object.hasOwn(config.profiles, LOCAL) ? undefined : requireEntry(config, name);
  await context.saveConfig({ ...config, default_profile: name });
  const { environment, output } = context;
  const file = await context.projectFile();
  const named = environment['ASP_PROFILE'] ?? '';
  if (named !== '' && named !== name) await output.note(`ASP_PROFILE still says ${named}.`);
  else if (file?.profile !== undefined && file.profile !== name)
    await output.note(`In this folder ${file.path} still says ${file.profile}.`);
  await output.document({ name, base_url: entry?.base_url ?? null, default: true }, (safe) => safe.name);
}
