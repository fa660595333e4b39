import { agentChoice, credentialKind } from '../../context/build-credential.js';
import type { Context } from '../../context/context.js';
import { type Layer, survey } from '../../profile/layers.js';
import { agentCandidates } from '../../profile/resolve-agent.js';
import { profileCandidates, type ResolvedProfile } from '../../profile/resolve-profile.js';

/** Every place that was asked for the service, the agent and the credential, and what it said; also when none is chosen. */
export async function explainLayers(context: Context): Promise<readonly Layer[]> {
  const profile = await context.profile().catch(() => undefined);
  const ofProfile = profile?.layers ?? (await survey('profile', profileCandidates(profileSources(context))));
  return [...ofProfile, ...(await agentLayers(context, profile)), ...(await credentialLayers(context, profile))];
}

const profileSources = ({ globals, environment, projectFile, config, localService, endedService }: Context) => ({
  flag: globals.profile,
  environment,
  projectFile,
  config,
  localService,
  endedService,
});

async function agentLayers(context: Context, profile: ResolvedProfile | undefined): Promise<readonly Layer[]> {
  const { globals, environment, projectFile } = context;
  const choice = agentChoice(environment, profile);
  const storedHandles = async (): Promise<string[]> => (profile === undefined ? [] : storedHandlesOf(context, profile));
  const sources = { flag: globals.as, environment, profile, projectFile, storedHandles };
  const found = profile === undefined ? undefined : await context.agent().catch(() => undefined);
  const layers = found?.layers ?? (await survey('agent', agentCandidates(sources, choice)));
  if (choice === 'bound' && !layers.some(({ said }) => said !== null))
    return [...layers, { question: 'agent', place: 'the credential', said: 'decides', isChosen: true }];
  const several = await storedHandles().catch(() => []);
  if (several.length < 2) return layers;
  // Nobody answered, and the logins are the reason.
  return layers.map((layer) => {
    const isTheReason = layer.place === 'the only login' && !layers.some(({ isChosen }) => isChosen);
    return isTheReason ? { ...layer, said: `several: ${several.join(', ')}` } : layer;
  });
}

async function storedHandlesOf(context: Context, { baseUrl }: ResolvedProfile): Promise<string[]> {
  const logins = await (await context.logins()).list(baseUrl);
  return logins.flatMap(({ handle }) => (handle === null ? [] : [handle]));
}

/** What is set for each kind of credential; of a secret only that it is there. */
async function credentialLayers(context: Context, profile: ResolvedProfile | undefined): Promise<readonly Layer[]> {
  const { environment } = context;
  const text = (name: string): string | undefined => environment[name] || undefined;
  const kind = credentialKind(environment, profile);
  const login = async (): Promise<string | undefined> => {
    if (kind !== 'login' || profile === undefined) return undefined;
    const agent = await context.agent().catch(() => undefined);
    if (agent?.handle === undefined) return undefined;
    const key = { baseUrl: profile.baseUrl, handle: agent.handle };
    const found = await (await context.logins()).find(key);
    return found === undefined
      ? undefined
      : `${agent.handle} in ${found.store === 'keychain' ? 'the keychain' : 'a file'}`;
  };
  return survey<string>('credential', [
    { place: 'ASP_TOKEN', ask: () => (text('ASP_TOKEN') === undefined ? undefined : 'set') },
    { place: 'ASP_CLIENT_ID', ask: () => text('ASP_CLIENT_ID') },
    {
      place: profile === undefined ? 'the profile' : `profile ${profile.name}`,
      ask: () => profile?.credentialCommand?.[0],
    },
    { place: 'stored login', ask: login },
  ]);
}
