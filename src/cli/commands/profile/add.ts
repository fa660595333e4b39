import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';
import { type GivenAddresses, readAddresses, readProfileName, withAddresses } from './addresses.js';
import { viewOf } from './profile-view.js';

export interface AddProfileOptions {
  readonly name: string;
  readonly baseUrl: string;
  readonly addresses: GivenAddresses;
}

export function parse(words: Words): AddProfileOptions {
  const name = readProfileName(words.arguments[0] ?? '');
  const addresses = readAddresses(words);
  const { base_url: baseUrl } = addresses;
  if (baseUrl !== undefined) return { name, baseUrl, addresses };
  throw new UsageError('A profile needs the address of its service.', {
    next: ['asp', 'profile', 'add', name, '--base-url', 'https://api.example.com/v1'],
  });
}

export async function run(context: Context, { name, baseUrl, addresses }: AddProfileOptions): Promise<void> {
  const config = await context.config();
  if (Object.hasOwn(config.profiles, name))
    throw new UsageError(`'${name}' is a profile already.`, { next: ['asp', 'profile', 'set', name, '--help'] });
  const entry = withAddresses({ base_url: baseUrl }, addresses);
  const isFirst = config.default_profile === undefined && Object.keys(config.profiles).length === 0;
  const next = {
    ...config,
    default_profile: isFirst ? name : config.default_profile,
    profiles: { ...config.profiles, [name]: entry },
  };
  await context.saveConfig(next);
  await context.output.note(
    isFirst
      ? `It is used from now on. Sign in with: asp login`
      : `Use it with -p ${name}, or always: asp profile use ${name}`,
  );
  await context.output.document(viewOf(name, entry, next), (safe) => safe.name);
}
