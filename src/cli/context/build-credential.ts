import { accessSync, constants } from 'node:fs';
import type { Credential } from '../../client/credentials/credential.js';
import type { Environment } from '../../kit/environment.js';
import { CliError, usageError } from '../errors.js';
import type { AgentChoice, ResolvedProfile } from '../profile/resolve-profile.js';
import { childEnvironment } from '../terminal/child-environment.js';
import type { Context } from './context.js';
import { findRuntimeDirectory } from './runtime-directory.js';

/** The kind of credential that a command uses: the first one that the user has set. */
export type CredentialKind = 'token' | 'client' | 'command' | 'login';

const isSet = (value: string | undefined): value is string => value !== undefined && value !== '';

export function credentialKind(environment: Environment, profile: ResolvedProfile | undefined): CredentialKind {
  if (isSet(environment['ASP_TOKEN'])) return 'token';
  if (isSet(environment['ASP_CLIENT_ID'])) return 'client';
  return profile?.credentialCommand === undefined ? 'login' : 'command';
}

const SOURCE = { token: 'ASP_TOKEN', client: 'ASP_CLIENT_ID', command: 'credential_command', login: 'login' } as const;
const CHOICE = { token: 'bound', client: 'bound', command: 'free', login: 'stored' } as const;

/** Where the credential comes from, as errors and `whoami` name it. */
export function describeSource(environment: Environment, profile: ResolvedProfile): string {
  return SOURCE[credentialKind(environment, profile)];
}

/** What the credential leaves open about the agent. */
export function agentChoice(environment: Environment, profile: ResolvedProfile | undefined): AgentChoice {
  return CHOICE[credentialKind(environment, profile)];
}

/** The credential of a command. No request is made until a token is needed. */
export async function buildCredential(context: Context): Promise<Credential> {
  const profile = await context.profile();
  const { environment, clock, random } = context;
  refuseProjectsChoice(environment, profile);
  switch (credentialKind(environment, profile)) {
    case 'token': {
      const { createTokenCredential } = await import('../../client/credentials/credential.js');
      return createTokenCredential({ api: environment['ASP_TOKEN'], ws: environment['ASP_WS_TOKEN'] });
    }
    case 'client': {
      const { createClientCredential } = await import('../../client/credentials/credential.js');
      return createClientCredential({
        transport: await context.transport(),
        random,
        service: profile,
        retries: context.globals.retries,
        clientId: environment['ASP_CLIENT_ID'] ?? '',
        clientSecret: await readClientSecret(context),
        cacheDirectory: await findCacheDirectory(context),
      });
    }
    case 'command': {
      const { createCommandCredential } = await import('../../client/credentials/command-credential.js');
      const [program = '', ...words] = profile.credentialCommand ?? [];
      const { handle } = await context.agent();
      const resources = { api: profile.baseUrl, ws: profile.wsUrl };
      const inherited = childEnvironment(environment);
      return createCommandCredential({
        clock,
        platform: context.machine.platform,
        command: [program, ...words],
        environment: inherited,
        resources,
        handle,
      });
    }
    case 'login': {
      const [{ createLoginCredential }, { createLoginContext }] = await Promise.all([
        import('../../client/credentials/login-credential.js'),
        import('./login-store.js'),
      ]);
      const { handle } = await context.agent();
      return createLoginCredential(await createLoginContext(context), {
        baseUrl: profile.baseUrl,
        handle: handle ?? null,
      });
    }
  }
}

/** A project's file must not choose the service that gets the credentials of the environment. */
function refuseProjectsChoice(environment: Environment, profile: ResolvedProfile): void {
  const kind = credentialKind(environment, profile);
  if (kind !== 'token' && kind !== 'client') return;
  if (!profile.layers.some(({ place, isChosen }) => isChosen && place === '.asp.json')) return;
  throw usageError(`Profile ${profile.name} comes from .asp.json, and ${SOURCE[kind]} from the environment.`, {
    why: 'a folder must not choose where the credentials from the environment are sent. Choose the service yourself.',
    next: ['asp', 'whoami', '-p', profile.name],
  });
}

/** The secret from the environment, or from the file that it names. */
async function readClientSecret({ environment }: Context): Promise<string> {
  const { ASP_CLIENT_SECRET: secret, ASP_CLIENT_SECRET_FILE: path } = environment;
  if (isSet(secret)) return secret;
  if (isSet(path)) {
    const { readSecretFile } = await import('./client-secret.js');
    return readSecretFile(path, { name: 'ASP_CLIENT_SECRET_FILE', code: 'ASP_NO_CREDENTIAL' });
  }
  throw new CliError('ASP_NO_CREDENTIAL', {
    message: 'ASP_CLIENT_ID is set without a secret.',
    why: 'set ASP_CLIENT_SECRET or ASP_CLIENT_SECRET_FILE. Commands that asp starts inherit only ASP_CLIENT_SECRET_FILE.',
  });
}

/**
 * The runtime directory, if it is private: anyone else who could write there could choose where the secret goes. A user
 * without a home directory to write to, as in CI, leaves no traces.
 */
async function findCacheDirectory({ paths, machine, environment }: Context): Promise<string | undefined> {
  try {
    const { HOME: home = machine.platform === 'win32' ? machine.homeDirectory : undefined } = environment;
    if (home === undefined) return undefined;
    accessSync(home, constants.W_OK);
    const directory = await findRuntimeDirectory(paths);
    return directory && `${directory}/clients`;
  } catch {
    return undefined;
  }
}
