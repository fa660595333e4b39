import type { LocalServiceRecord } from '../../wire/local-service.js';
import { AGENT_SCOPES } from '../../wire/scope.js';
import { CliError } from '../errors.js';
import { suggest } from '../suggest.js';
import { handleOf } from '../values.js';
import { type Config, LOCAL, LOCAL_AGENT_SETTING, PROFILE_NAME, readServiceUrl } from './config.js';
import { type Candidate, choose, type Layer } from './layers.js';
import { localNotRunning } from './local-service.js';
import type { ProjectFile } from './project-file.js';

/** The service to talk to, and why it is that one. */
export interface ResolvedProfile {
  readonly name: string;
  readonly baseUrl: string;
  readonly authUrl: string | undefined;
  readonly webUrl: string | undefined;
  readonly wsUrl: string | undefined;
  /** The profile's own agent. */
  readonly agent: string | undefined;
  readonly credentialCommand: readonly string[] | undefined;
  /** The running local service, when the profile is that. */
  readonly local: LocalServiceRecord | undefined;
  readonly layers: readonly Layer[];
}

/** What the question is answered from. Files and the local service are asked only when it comes to them. */
export interface ProfileSources {
  readonly flag: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly projectFile: () => Promise<ProjectFile | undefined>;
  readonly config: () => Promise<Config>;
  readonly localService: () => Promise<LocalServiceRecord | undefined>;
  readonly endedService: () => Promise<LocalServiceRecord | undefined>;
}

/** How to sign in; as before, with the scopes that were asked for: never with more. */
export function loginWords(handle: string | undefined, scopes: readonly string[] = AGENT_SCOPES): readonly string[] {
  const isUsual = AGENT_SCOPES.every((scope) => scopes.includes(scope));
  return [
    ...['asp', 'login'],
    ...(handle === undefined ? [] : [handle]),
    ...(isUsual ? [] : ['--scopes', scopes.join(',')]),
  ];
}

const given = (text: string | undefined): string | undefined => (text === '' ? undefined : text);

/** The places that may name the service, in the order of asking. */
export function profileCandidates(sources: ProfileSources): readonly Candidate<string>[] {
  return [
    { place: '--profile', ask: () => given(sources.flag) },
    { place: 'ASP_PROFILE', ask: () => given(sources.environment['ASP_PROFILE']) },
    { place: '.asp.json', ask: async () => (await sources.projectFile())?.profile },
    { place: 'default_profile', ask: async () => (await sources.config()).default_profile },
    { place: 'local service', ask: async () => ((await sources.localService()) === undefined ? undefined : LOCAL) },
  ];
}

/** Flag, environment, project file, default, local service: the first that says something. */
export async function resolveProfile(sources: ProfileSources): Promise<ResolvedProfile> {
  const { value: name, place, layers } = await choose('profile', profileCandidates(sources));
  if (name === undefined) {
    const ended = await sources.endedService();
    if (ended !== undefined) throw localNotRunning(ended);
    throw new CliError('ASP_CONFIG', {
      message: 'No service is chosen.',
      why: 'name yours (asp profile add work --base-url https://…/v1), or run one here.',
      next: ['asp', 'serve', '--detach'],
    });
  }
  return { ...(await addressesOf(name, place, sources)), layers };
}

async function addressesOf(
  name: string,
  place: string | undefined,
  sources: ProfileSources,
): Promise<Omit<ResolvedProfile, 'layers'>> {
  if (/^https?:\/\//.test(name)) return atAddress(name);
  const { profiles, settings } = await sources.config();
  const entry = Object.hasOwn(profiles, name) ? profiles[name] : undefined;
  if (entry !== undefined)
    return {
      name,
      baseUrl: entry.base_url,
      authUrl: entry.auth_url,
      webUrl: entry.web_url,
      wsUrl: entry.ws_url,
      agent: entry.agent,
      credentialCommand: entry.credential_command,
      local: undefined,
    };
  if (name === LOCAL) {
    const record = await sources.localService();
    if (record === undefined) throw localNotRunning(await sources.endedService());
    return localProfile(record, settings[LOCAL_AGENT_SETTING]);
  }
  const known = [...Object.keys(profiles), LOCAL];
  const near = PROFILE_NAME.test(name) ? suggest(name, known)[0] : undefined;
  const names = place === undefined || place === '--profile' ? '' : `${place} names it; `;
  throw new CliError('ASP_CONFIG', {
    message: `'${name}' is not a profile.`,
    why: `${names}${near === undefined ? `profiles: ${known.join(', ')}.` : `did you mean '${near}'?`}`,
    next: ['asp', 'profile', 'list'],
  });
}

/** A base URL stands for a profile of its own, for machines without a configuration. */
function atAddress(text: string): Omit<ResolvedProfile, 'layers'> {
  try {
    const baseUrl = readServiceUrl(text);
    return { ...NOTHING_MORE, name: baseUrl, baseUrl };
  } catch (error) {
    const why = error instanceof Error ? error.message : 'is not valid';
    throw new CliError('ASP_CONFIG', { message: `'${text}' is not the address of a service.`, why: `it ${why}.` });
  }
}

const NOTHING_MORE = {
  authUrl: undefined,
  webUrl: undefined,
  wsUrl: undefined,
  agent: undefined,
  credentialCommand: undefined,
  local: undefined,
} as const;

function localProfile(record: LocalServiceRecord, agent: string | undefined): Omit<ResolvedProfile, 'layers'> {
  return {
    ...NOTHING_MORE,
    name: LOCAL,
    baseUrl: record.url,
    authUrl: record.auth_url,
    webUrl: record.web_url,
    wsUrl: record.ws_url,
    agent: agent === undefined ? undefined : handleOf(agent),
    local: record,
  };
}
