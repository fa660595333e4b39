import { PROFILE_NAME, type ProfileEntry, readServiceUrl } from '../../profile/config.js';
import { LOCAL } from '../../profile/resolve-profile.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';

/** The addresses that the words give; undefined: not given, empty: drop it. */
export type GivenAddresses = Readonly<Partial<Record<'base_url' | 'auth_url' | 'web_url' | 'ws_url', string>>>;

const OPTIONS = [
  ['base_url', 'base-url', ['https:', 'http:']],
  ['auth_url', 'auth-url', ['https:', 'http:']],
  ['web_url', 'web-url', ['https:', 'http:']],
  ['ws_url', 'ws-url', ['wss:', 'ws:']],
] as const;

/** The addresses of `--base-url` and its like, each https or of this machine. */
export function readAddresses(words: Words): GivenAddresses {
  const given: Partial<Record<keyof GivenAddresses, string>> = {};
  for (const [key, option, protocols] of OPTIONS) {
    const text = words.text(option);
    if (text === undefined) continue;
    try {
      given[key] = text === '' && key !== 'base_url' ? '' : readServiceUrl(text, protocols);
    } catch (error) {
      throw new UsageError(`--${option} '${text}' ${error instanceof Error ? error.message : 'is not valid'}.`);
    }
  }
  return given;
}

/** A name for a profile of the user's own. */
export function readProfileName(text: string): string {
  if (text === LOCAL)
    throw new UsageError(`'${LOCAL}' is the service that runs on this machine, wherever it listens.`, {
      next: ['asp', 'serve', '--help'],
    });
  if (PROFILE_NAME.test(text)) return text;
  throw new UsageError(`'${text}' is not a name for a profile.`, {
    why: 'names are 1 to 63 letters, digits, _ and -.',
  });
}

const kept = (text: string | undefined): string | undefined => (text === '' ? undefined : text);

/** The entry with what was given; another base URL drops the addresses that belonged to the old one. */
export function withAddresses(entry: ProfileEntry, given: GivenAddresses): ProfileEntry {
  const isMoved = given.base_url !== undefined && given.base_url !== entry.base_url;
  const before: ProfileEntry = isMoved ? { base_url: entry.base_url, agent: entry.agent } : entry;
  return {
    ...before,
    base_url: given.base_url ?? entry.base_url,
    auth_url: kept(given.auth_url ?? before.auth_url),
    web_url: kept(given.web_url ?? before.web_url),
    ws_url: kept(given.ws_url ?? before.ws_url),
  };
}
