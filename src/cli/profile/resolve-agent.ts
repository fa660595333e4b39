import { CliError } from '../errors.js';
import { handleOf, readHandle } from '../values.js';
import { type Candidate, choose, type Layer } from './layers.js';
import type { ProjectFile } from './project-file.js';
import type { ResolvedProfile } from './resolve-profile.js';

/** The agent to act as. `handle` is undefined where the credential decides it. */
export interface ResolvedAgent {
  readonly handle: string | undefined;
  /** Whether the user named it for this very run: then another one is a conflict, not a preference. */
  readonly isExplicit: boolean;
  readonly layers: readonly Layer[];
}

export interface AgentSources {
  readonly flag: string | undefined;
  readonly environment: Readonly<Record<string, string | undefined>>;
  readonly profile: ResolvedProfile;
  readonly projectFile: () => Promise<ProjectFile | undefined>;
  /** Handles of the stored logins at this service. */
  readonly storedHandles: () => Promise<readonly string[]>;
}

/**
 * What the credential leaves open: nothing (it is bound to one agent), which agent (a program gives tokens for any), or
 * which of the stored logins is used.
 */
export type AgentChoice = 'bound' | 'free' | 'stored';

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
  const onlyLogin = {
    place: 'the only login',
    ask: async () => {
      const stored = await sources.storedHandles();
      return stored.length === 1 ? stored[0] : undefined;
    },
  };
  return [
    { place: '--as', ask: () => flag },
    { place: 'ASP_AGENT', ask: () => (named === undefined || named === '' ? undefined : readHandle(named)) },
    ...(credential === 'bound' ? [] : settled),
    ...(credential === 'stored' ? [onlyLogin] : []),
  ];
}

/** Flag, environment, project file, profile, the only stored login: the first that says something. */
export async function resolveAgent(sources: AgentSources, credential: AgentChoice): Promise<ResolvedAgent> {
  const { profile } = sources;
  const { value, place, layers } = await choose('agent', agentCandidates(sources, credential));
  if (value === undefined && credential === 'stored') throw noAgent(profile.name, await sources.storedHandles());
  return {
    handle: value === undefined ? undefined : handleOf(value),
    isExplicit: place === '--as' || place === 'ASP_AGENT',
    layers,
  };
}

function noAgent(profile: string, handles: readonly string[]): CliError {
  if (handles.length === 0)
    return new CliError('ASP_NO_CREDENTIAL', {
      message: `Nobody is signed in at profile ${profile}.`,
      next: ['asp', 'login', '-p', profile],
    });
  return new CliError('ASP_NO_CREDENTIAL', {
    message: `Several agents are signed in at profile ${profile}, and none is chosen.`,
    why: `${handles.slice(0, 8).join(', ')}${handles.length > 8 ? ', …' : ''}.`,
    next: ['asp', 'use', handles[0] ?? ''],
  });
}
