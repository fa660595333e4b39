import type { Login } from '../../client/credentials/login.js';
import { CliError } from '../errors.js';
import { handleOf, readHandle } from '../values.js';
import { type Candidate, choose } from './layers.js';
import type { ProjectFile } from './project-file.js';
import type { ResolvedProfile } from './resolve-profile.js';

/** The agent to act as. `handle` is undefined where the credential decides it. */
export interface ResolvedAgent {
  readonly handle: string | undefined;
  /** Whether the user named it for this very run: then another one is a conflict, not a preference. */
  readonly isExplicit: boolean;
  /** Whether nothing names an agent, so that it is whoever signed in first. */
  readonly isFirstLogin: boolean;
}

export interface AgentSources {
  readonly flag: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly profile: ResolvedProfile;
  readonly projectFile: () => Promise<ProjectFile | undefined>;
  /** Handles of the stored logins at this service; see {@link handlesOf}. */
  readonly storedHandles: () => Promise<readonly string[]>;
}

/**
 * What the credential leaves open: nothing (it is bound to one agent), which agent (a program gives tokens for any), or
 * which of the stored logins is used.
 */
export type AgentChoice = 'bound' | 'free' | 'stored';

const FIRST_LOGIN = 'the first login';

/** The places that may name the agent, in the order of asking; `profile` is undefined where no service is chosen. */
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
    { place: 'ASP_AGENT', ask: () => (named === undefined || named === '' ? undefined : readHandle(named)) },
    ...(credential === 'bound' ? [] : settled),
    ...(credential === 'stored' ? [firstLogin] : []),
  ];
}

/** Flag, environment, project file, profile, the first login: the first that says something. */
export async function resolveAgent(sources: AgentSources, credential: AgentChoice): Promise<ResolvedAgent> {
  const { profile } = sources;
  const { value, place } = await choose('agent', agentCandidates(sources, credential));
  if (value === undefined && credential === 'stored') throw noAgent(profile.name);
  return {
    handle: value === undefined ? undefined : handleOf(value),
    isExplicit: place === '--as' || place === 'ASP_AGENT',
    isFirstLogin: place === FIRST_LOGIN,
  };
}

/** The agents of some logins, in the order of their first sign-in: a second login changes nothing for running scripts. */
export function handlesOf(logins: readonly Login[]): string[] {
  const since = ({ firstSavedAtMs, savedAtMs }: Login): number => firstSavedAtMs ?? savedAtMs;
  return [...logins]
    .sort((left, right) => since(left) - since(right))
    .flatMap(({ handle }) => (handle === null ? [] : [handle]));
}

function noAgent(profile: string): CliError {
  return new CliError('ASP_NO_CREDENTIAL', {
    message: `Nobody is signed in at profile ${profile}.`,
    next: ['asp', 'login', '-p', profile],
  });
}
