import type { Context } from '../../context/context.js';
import { loginsAt } from '../../context/login-place.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';
import { type GivenAddresses, readAddresses, readProfileName, withAddresses } from './addresses.js';
import { requireEntry, viewOf } from './profile-view.js';

export interface SetProfileOptions {
  readonly name: string;
  readonly addresses: GivenAddresses;
}

export function parse(words: Words): SetProfileOptions {
  const name = readProfileName(words.arguments[0] ?? '');
  const addresses = readAddresses(words);
  if (Object.keys(addresses).length > 0) return { name, addresses };
  throw new UsageError('Nothing to change was given.', { next: ['asp', 'profile', 'set', '--help'] });
}

export async function run(context: Context, { name, addresses }: SetProfileOptions): Promise<void> {
  const config = await context.config();
  const before = requireEntry(config, name);
  const entry = withAddresses(before, addresses);
  const next = { ...config, profiles: { ...config.profiles, [name]: entry } };
  await context.saveConfig(next);
  if (entry.base_url !== before.base_url) {
    const logins = await loginsAt(context, before.base_url);
    if (logins.length > 0)
      await context.output.note(
        `Logins belong to an address: sign in again. To end the old: asp logout --all -p ${before.base_url}`,
      );
  }
  await context.output.document(viewOf(name, entry, next), (safe) => safe.name);
}
