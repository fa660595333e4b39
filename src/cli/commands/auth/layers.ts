import { agentChoice, credentialKind } from '../../context/build-credential.js';
import type { Context } from '../../context/context.js';
import { choose, type Layer } from '../../profile/layers.js';
import { resolveAgent } from '../../profile/resolve-agent.js';
import type { ResolvedProfile } from '../../profile/resolve-profile.js';
import { CliError } from '../../terminal/cli-error.js';

/** Every place that was asked for the service, the agent and the credential, and what it said. */
export async function explainLayers(context: Context): Promise<readonly Layer[]> {
  const profile = await context.profile();
  return [...profile.layers, ...(await agentLayers(context, profile)), ...(await credentialLayers(context, profile))];
}

async function agentLayers(context: Context, profile: ResolvedProfile): Promise<readonly Layer[]> {
  const choice = agentChoice(context.environment, profile);
  let layers: readonly Layer[];
  try {
    layers = (await context.agent()).layers;
  } catch (error) {
    if (!(error instanceof CliError) || error.code !== 'ASP_NO_CREDENTIAL') throw error;
    // Nobody answered: the places are the same, and the logins are the reason.
    const { globals, environment, projectFile } = context;
    const storedHandles = async (): Promise<string[]> => [];
    const sources = { flag: globals.as, environment, profile, projectFile, storedHandles };
    const stored = await storedHandlesOf(context, profile);
    const several = stored.length === 0 ? null : `several: ${stored.join(', ')}`;
    const last: Layer = { question: 'agent', place: 'the only login', said: several, isChosen: false };
    return [...(await resolveAgent(sources, 'free')).layers, last];
  }
  if (choice !== 'bound' || layers.some(({ isChosen }) => isChosen)) return layers;
  return [...layers, { question: 'agent', place: 'the credential', said: 'decides', isChosen: true }];
}

async function storedHandlesOf(context: Context, { baseUrl }: ResolvedProfile): Promise<string[]> {
  const logins = await (await context.logins()).list(baseUrl);
  return logins.flatMap(({ handle }) => (handle === null ? [] : [handle]));
}

/** What is set for each kind of credential; of a secret only that it is there. */
async function credentialLayers(context: Context, profile: ResolvedProfile): Promise<readonly Layer[]> {
  const { environment } = context;
  const text = (name: string): string | undefined => environment[name] || undefined;
  const kind = credentialKind(environment, profile);
  const login = async (): Promise<string | undefined> => {
    if (kind !== 'login') return undefined;
    const agent = await context.agent().catch(() => undefined);
    if (agent?.handle === undefined) return undefined;
    const key = { baseUrl: profile.baseUrl, handle: agent.handle };
    const found = await (await context.logins()).find(key);
    return found === undefined
      ? undefined
      : `${agent.handle} in ${found.store === 'keychain' ? 'the keychain' : 'a file'}`;
  };
  const { layers } = await choose<string>('credential', [
    { place: 'ASP_TOKEN', ask: () => (text('ASP_TOKEN') === undefined ? undefined : 'set') },
    { place: 'ASP_CLIENT_ID', ask: () => text('ASP_CLIENT_ID') },
    { place: `profile ${profile.name}`, ask: () => profile.credentialCommand?.[0] },
    { place: 'stored login', ask: login },
  ]);
  return layers;
}
