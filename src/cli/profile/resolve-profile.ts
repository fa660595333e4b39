import type { Login } from '../../client/credentials/login.js';
import type { Environment } from '../../kit/environment.js';
import { messageOf } from '../../kit/format.js';
import { hidePasswords } from '../../kit/sanitize.js';
import { didYouMean } from '../../kit/suggest.js';
import type { LocalServiceRecord } from '../../wire/schemas/local-service.js';
import { ACCOUNT_SCOPES, AGENT_SCOPES } from '../../wire/scope.js';
import { CliError } from '../errors.js';
import { parseHandle, readHandle } from '../values.js';
import { type Config, isAddress, LOCAL, LOCAL_AGENT_SETTING, PROFILE_NAME, readServiceUrl } from './config.js';
import { localNotRunning } from './local-service.js';
import type { ProjectFile } from './project-file.js';

/** One source that was checked, in order. `asp whoami --explain` prints them. */
export interface Layer {
  readonly question: 'profile' | 'agent' | 'credential';
  /** The source: `--as`, `ASP_AGENT`, the path of a file. */
  readonly place: string;
  /** Its value; null: none. Never a secret. */
  readonly said: string | null;
  readonly isChosen: boolean;
}

/** A source and its value. Later sources are skipped once one has a value. */
export interface Candidate<Value> {
  readonly place: string;
  readonly ask: () => Value | undefined | Promise<Value | undefined>;
  readonly show?: (value: Value) => string;
}

/** Checks one source after the other; every source is recorded, including the skipped ones. */
async function choose<Value>(
  question: Layer['question'],
  candidates: readonly Candidate<Value>[],
): Promise<{ value: Value | undefined; place: string | undefined; layers: readonly Layer[] }> {
  const layers: Layer[] = [];
  let chosen: { value: Value; place: string } | undefined;
  for (const { place, ask, show = String } of candidates) {
    const value = chosen === undefined ? await ask() : undefined;
    const isChosen = value !== undefined && chosen === undefined;
    if (isChosen) chosen = { value, place };
    layers.push({ question, place, said: value === undefined ? null : hidePasswords(show(value)), isChosen });
  }
  return { value: chosen?.value, place: chosen?.place, layers };
}

/** Checks every source, even after one has a value or fails: a source that cannot be used is listed as such. */
export async function survey<Value>(
  question: Layer['question'],
  candidates: readonly Candidate<Value>[],
): Promise<readonly Layer[]> {
  const layers: Layer[] = [];
  let isSettled = false;
  for (const { place, ask, show = String } of candidates) {
    let said: string | null = null;
    let isChosen = false;
    try {
      const value = await ask();
      if (value !== undefined) said = hidePasswords(show(value));
      isChosen = said !== null && !isSettled;
    } catch (error) {
      said = `cannot be used: ${getReason(error)}`;
    }
    isSettled ||= said !== null;
    layers.push({ question, place, said, isChosen });
  }
  return layers;
}

function getReason(error: unknown): string {
  if (error instanceof CliError && error.why !== undefined) return error.why;
  return messageOf(error);
}

/** The service to talk to, and the reason for the choice. */
export interface ResolvedProfile {
  readonly name: string;
  readonly baseUrl: string;
  readonly authUrl: string | undefined;
  readonly webUrl: string | undefined;
  readonly wsUrl: string | undefined;
  /** The profile's own agent. */
  readonly agent: string | undefined;
  readonly credentialCommand: readonly string[] | undefined;
  /** The running local service, if that is the profile. */
  readonly local: LocalServiceRecord | undefined;
  readonly layers: readonly Layer[];
}

/** The inputs of the choice. Files and the local service are read only when they are needed. */
export interface ProfileSources {
  readonly flag: string | undefined;
  readonly environment: Environment;
  readonly projectFile: () => Promise<ProjectFile | undefined>;
  readonly config: () => Promise<Config>;
  readonly localService: () => Promise<LocalServiceRecord | undefined>;
  readonly endedService: () => Promise<LocalServiceRecord | undefined>;
  /** Whether a login is for a local service: a service that stops leaves no record. */
  readonly hasLocalLogin?: () => Promise<boolean>;
}

/** How to sign in: with the same scopes as before, and never more. */
export function loginArgs(handle: string | undefined, scopes: readonly string[] = AGENT_SCOPES): readonly string[] {
  const hasAll = (wanted: readonly string[]): boolean => wanted.every((scope) => scopes.includes(scope));
  const forAccount = hasAll(ACCOUNT_SCOPES) ? ['--account'] : ['--scopes', scopes.join(',')];
  return [...['asp', 'login'], ...(handle === undefined ? [] : [handle]), ...(hasAll(AGENT_SCOPES) ? [] : forAccount)];
}

const nonEmpty = (text: string | undefined): string | undefined => (text === '' ? undefined : text);

/** The sources for the service, in order. */
export function profileCandidates(sources: ProfileSources): readonly Candidate<string>[] {
  return [
    { place: '--profile', ask: () => nonEmpty(sources.flag) },
    { place: 'ASP_PROFILE', ask: () => nonEmpty(sources.environment['ASP_PROFILE']) },
    { place: '.asp.json', ask: async () => (await sources.projectFile())?.profile },
    { place: 'default_profile', ask: async () => (await sources.config()).default_profile },
    { place: 'local service', ask: async () => ((await sources.localService()) === undefined ? undefined : LOCAL) },
  ];
}

/** Flag, environment, project file, default, local service: the first one with a value. */
export async function resolveProfile(sources: ProfileSources): Promise<ResolvedProfile> {
  const { value: name, place, layers } = await choose('profile', profileCandidates(sources));
  if (name === undefined) {
    const ended = await sources.endedService();
    if (ended !== undefined || (await usesLocalLogin(sources))) throw localNotRunning(ended);
    throw new CliError('ASP_CONFIG', {
      message: 'No service is chosen.',
      why: 'add yours (asp profile add work --base-url https://…/v1), or run one here.',
      next: ['asp', 'serve', '--detach'],
    });
  }
  return { ...(await findAddresses(name, place, sources)), layers };
}

/** A credential in the environment is used instead of logins, so it may be for any service. */
async function usesLocalLogin({ environment, hasLocalLogin }: ProfileSources): Promise<boolean> {
  if (['ASP_TOKEN', 'ASP_CLIENT_ID'].some((name) => nonEmpty(environment[name]) !== undefined)) return false;
  return (await hasLocalLogin?.()) === true;
}

async function findAddresses(
  name: string,
  place: string | undefined,
  sources: ProfileSources,
): Promise<Omit<ResolvedProfile, 'layers'>> {
  if (isAddress(name)) return atAddress(name);
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
  const near = PROFILE_NAME.test(name) ? didYouMean(name, known, "'") : undefined;
  const names = place === undefined || place === '--profile' ? '' : `${place} names it; `;
  throw new CliError('ASP_CONFIG', {
    message: `'${name}' is not a profile.`,
    why: `${names}${near ?? `profiles: ${known.join(', ')}.`}`,
    next: ['asp', 'profile', 'list'],
  });
}

/** A base URL acts as its own profile, for machines without a configuration. */
function atAddress(text: string): Omit<ResolvedProfile, 'layers'> {
  try {
    const baseUrl = readServiceUrl(text);
    return { ...NOTHING_MORE, name: baseUrl, baseUrl };
  } catch (error) {
    const why = messageOf(error);
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
    agent: agent === undefined ? undefined : parseHandle(agent),
    local: record,
  };
}

/** The agent to act as. `handle` is undefined if the credential decides. */
export interface ResolvedAgent {
  readonly handle: string | undefined;
  /** Whether the user named it for this run: then a different one is a conflict, not a preference. */
  readonly isExplicit: boolean;
  /** Whether nothing names an agent, so that the first login is used. */
  readonly isFirstLogin: boolean;
}

export interface AgentSources {
  readonly flag: string | undefined;
  readonly environment: Environment;
  readonly profile: ResolvedProfile;
  readonly projectFile: () => Promise<ProjectFile | undefined>;
  /** Handles of the stored logins at this service; see {@link listHandles}. */
  readonly storedHandles: () => Promise<readonly string[]>;
}

/**
 * What the credential leaves open: nothing (it is bound to one agent), the agent (a program prints tokens for any), or
 * the choice among the stored logins.
 */
export type AgentChoice = 'bound' | 'free' | 'stored';

const FIRST_LOGIN = 'the first login';

/** The sources for the agent, in order; `profile` is undefined if no service is chosen. */
export function agentCandidates(
  sources: Omit<AgentSources, 'profile'> & { readonly profile: ResolvedProfile | undefined },
  credential: AgentChoice,
): readonly Candidate<string>[] {
  const { flag, environment, profile } = sources;
  const named = environment['ASP_AGENT'];
  const settled = [
    {
      place: '.asp.json',
      ask: async () => {
        const file = await sources.projectFile();
        const isOfProfile = file?.profile === undefined || profile === undefined || file.profile === profile.name;
        return isOfProfile ? file?.agent : undefined;
      },
    },
    { place: profile === undefined ? 'the profile' : `profile ${profile.name}`, ask: () => profile?.agent },
  ];
  const firstLogin = { place: FIRST_LOGIN, ask: async () => (await sources.storedHandles())[0] };
  return [
    { place: '--as', ask: () => flag },
    {
      place: 'ASP_AGENT',
      ask: () => (named === undefined || named === '' ? undefined : readHandle(named, 'ASP_AGENT')),
    },
    ...(credential === 'bound' ? [] : settled),
    ...(credential === 'stored' ? [firstLogin] : []),
  ];
}

/** Flag, environment, project file, profile, the first login: the first one with a value. */
export async function resolveAgent(sources: AgentSources, credential: AgentChoice): Promise<ResolvedAgent> {
  const { profile } = sources;
  const { value, place } = await choose('agent', agentCandidates(sources, credential));
  if (value === undefined && credential === 'stored') throw noAgent(profile);
  return {
    handle: value === undefined ? undefined : parseHandle(value),
    isExplicit: place === '--as' || place === 'ASP_AGENT',
    isFirstLogin: place === FIRST_LOGIN,
  };
}

/**
 * The agents of the logins, in the order of their first sign-in: a second login changes nothing for running scripts.
 */
export function listHandles(logins: readonly Login[]): string[] {
  const since = ({ firstSavedAtMs, savedAtMs }: Login): number => firstSavedAtMs ?? savedAtMs;
  return [...logins]
    .sort((left, right) => since(left) - since(right))
    .flatMap(({ handle }) => (handle === null ? [] : [handle]));
}

/** With the address: the profile `local` is a different service after another `asp serve`. */
function noAgent({ name, baseUrl }: ResolvedProfile): CliError {
  return new CliError('ASP_NO_CREDENTIAL', {
    message: `No agent is signed in at ${baseUrl}${name === baseUrl ? '' : ` (profile ${name})`}.`,
    next: ['asp', 'login', '-p', name],
  });
}
