import type { Client } from '../../client/client.js';
import { type ResolvedAgent, resolveAgent } from '../profile/resolve-agent.js';
import type { ResolvedProfile } from '../profile/resolve-profile.js';
import { UsageError } from '../terminal/cli-error.js';
import { agentChoice, buildCredential, describeSource } from './build-credential.js';
import type { Context } from './context.js';
import type { Acting } from './describe-failure.js';
import { lazy } from './lazy.js';

/** As whom a command acts, and what speaks for it. */
export type Identity = Pick<
  Context,
  'profile' | 'agent' | 'logins' | 'credential' | 'client' | 'knownHandle' | 'actingHandle'
>;

/** What of it is known by now. */
interface Known {
  profile?: ResolvedProfile;
  agent?: ResolvedAgent;
  source?: string;
  handle?: string;
}

/** The acting agent and its credential, each found when it is first wanted. `context` is complete by then. */
export function createIdentity(
  context: () => Context,
  findProfile: () => Promise<ResolvedProfile>,
): Identity & { acting(): Acting } {
  const known: Known = {};
  const profile = lazy(async () => {
    known.profile = await findProfile();
    return known.profile;
  });
  const logins = lazy(async () => (await import('./login-place.js')).openStoredLogins(context()));
  const agent = lazy(async () => {
    known.agent = await findAgent(context());
    return known.agent;
  });
  const credential = lazy(async () => {
    known.source = describeSource(context().environment, await profile());
    return buildCredential(context());
  });
  const askHandle = async (client: Client): Promise<string> => {
    const { reply } = await client.call('getActingAgent', { signal: context().signal });
    known.handle = reply.canonical_handle;
    return known.handle;
  };
  const client = lazy(async () => {
    const built = await openClient(context());
    const { handle, isExplicit } = await agent();
    // A credential that is bound to an agent acts as that one, whatever the user says.
    if (isExplicit && agentChoice(context().environment, await profile()) !== 'stored') {
      const real = await askHandle(built);
      if (real !== handle)
        throw new UsageError(`${handle} was asked for, but the credential (${known.source}) acts as ${real}.`);
    }
    return built;
  });
  const knownHandle = lazy(async () => {
    const { handle } = await agent();
    return handle ?? (await (await credential()).accessToken('api', { signal: context().signal })).handle;
  });
  return {
    profile,
    logins,
    agent,
    credential,
    client,
    knownHandle,
    actingHandle: lazy(async () => (await knownHandle()) ?? askHandle(await client())),
    acting: () => ({
      as: known.handle ?? known.agent?.handle,
      profile: known.profile?.name,
      source: known.source,
      at: known.profile,
      flags: context().globals,
    }),
  };
}

async function findAgent({ globals, environment, projectFile, profile, logins }: Context): Promise<ResolvedAgent> {
  const at = await profile();
  const storedHandles = async (): Promise<string[]> =>
    (await (await logins()).list(at.baseUrl)).flatMap(({ handle }) => (handle === null ? [] : [handle]));
  const sources = { flag: globals.as, environment, profile: at, projectFile, storedHandles };
  return resolveAgent(sources, agentChoice(environment, at));
}

async function openClient({ profile, credential, transport, globals, random }: Context): Promise<Client> {
  const [{ connect }, at, by, over] = await Promise.all([
    import('../../client/client.js'),
    profile(),
    credential(),
    transport(),
  ]);
  const service = { baseUrl: at.baseUrl, authUrl: at.authUrl, wsUrl: at.wsUrl };
  return connect({ service, credential: by, transport: over, retries: globals.retries, random });
}
