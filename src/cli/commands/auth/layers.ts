import { agentChoice } from '../../context/build-credential.js';
import type { Context } from '../../context/context.js';
import { type Layer, survey } from '../../profile/layers.js';
import { agentCandidates, handlesOf } from '../../profile/resolve-agent.js';
import { profileCandidates, type ResolvedProfile } from '../../profile/resolve-profile.js';

/** Every place that could name the service, the agent and the credential, and what it says, also where it lost. */
export async function explainLayers(context: Context): Promise<readonly Layer[]> {
  const profile = await context.profile().catch(() => undefined);
  const ofProfile = await survey('profile', profileCandidates(profileSources(context)));
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
  const storedHandles = async (): Promise<string[]> => (profile === undefined ? [] : storedHandlesAt(context, profile));
  const sources = { flag: globals.as, environment, profile, projectFile, storedHandles };
  const layers = await survey('agent', agentCandidates(sources, choice));
  return choice === 'bound' && !layers.some(({ said }) => said !== null)
    ? [...layers, { question: 'agent', place: 'the credential', said: 'decides', isChosen: true }]
    : layers;
}

async function storedHandlesAt(context: Context, { baseUrl }: ResolvedProfile): Promise<string[]> {
  return handlesOf(await (await context.logins()).list(baseUrl));
}

/** What is set for each kind of credential; of a secret only that it is there. */
async function credentialLayers(context: Context, profile: ResolvedProfile | undefined): Promise<readonly Layer[]> {
  const { environment } = context;
  const text = (name: string): string | undefined => environment[name] || undefined;
  const login = async (): Promise<string | undefined> => {
    if (profile === undefined) return undefined;
    const agent = await context.agent().catch(() => undefined);
    const handle = agent?.handle ?? (await storedHandlesAt(context, profile))[0];
    if (handle === undefined) return undefined;
    const found = await (await context.logins()).find({ baseUrl: profile.baseUrl, handle });
    return found === undefined ? undefined : `${handle} in ${found.store === 'keychain' ? 'the keychain' : 'a file'}`;
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
