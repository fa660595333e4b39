import type { LocalServiceRecord } from '../../../wire/local-service.js';
import type { Config, ProfileEntry } from '../../profile/config.js';
import { LOCAL, LOCAL_AGENT_SETTING } from '../../profile/resolve-profile.js';
import { CliError } from '../../terminal/cli-error.js';
import { suggest } from '../../words/suggest.js';

/** A profile as it is shown. */
export interface ProfileView {
  readonly name: string;
  readonly base_url: string;
  readonly auth_url: string | null;
  readonly web_url: string | null;
  readonly ws_url: string | null;
  readonly agent: string | null;
  readonly default: boolean;
  /** Whether it stands for the service that runs on this machine. */
  readonly local: boolean;
}

export function viewOf(name: string, entry: ProfileEntry, config: Config): ProfileView {
  return {
    name,
    base_url: entry.base_url,
    auth_url: entry.auth_url ?? null,
    web_url: entry.web_url ?? null,
    ws_url: entry.ws_url ?? null,
    agent: entry.agent ?? null,
    default: config.default_profile === name,
    local: false,
  };
}

export function viewOfLocal(record: LocalServiceRecord, config: Config): ProfileView {
  const { url, auth_url, web_url, ws_url } = record;
  const agent = config.settings[LOCAL_AGENT_SETTING] ?? null;
  const isDefault = config.default_profile === LOCAL;
  return { name: LOCAL, base_url: url, auth_url, web_url, ws_url, agent, default: isDefault, local: true };
}

/** The entry of that name, or the error that tells which there are. */
export function requireEntry({ profiles }: Config, name: string): ProfileEntry {
  const entry = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (entry !== undefined) return entry;
  const known = Object.keys(profiles);
  const [near] = suggest(name, known);
  const others = known.length === 0 ? 'there are none yet.' : `profiles: ${known.join(', ')}.`;
  throw new CliError('ASP_CONFIG', {
    message: `'${name}' is not a profile.`,
    why: near === undefined ? others : `did you mean '${near}'?`,
    next: ['asp', 'profile', 'list'],
  });
}
