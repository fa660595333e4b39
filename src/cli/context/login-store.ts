import type { Login, LoginContext, Logins, StoreKind } from '../../client/credentials/login.js';
import { codeOf } from '../../kit/format.js';
import { readIfPresent, writePrivateFile } from '../../kit/private-file.js';
import { CliError, usageError } from '../errors.js';
import { findServiceAt } from '../profile/local-service.js';
import type { Context } from './context.js';
import { findRuntimeDirectory } from './runtime-directory.js';

const CHOICE_FILE = 'store';
const isKind = (text: string | undefined): text is StoreKind => text === 'keychain' || text === 'file';

/** Where new logins go: the option, ASP_TOKEN_STORE, the setting, the previous choice, the keychain. */
async function chooseStore(context: Context, requested?: StoreKind): Promise<StoreKind> {
  if (requested !== undefined) return requested;
  const { ASP_TOKEN_STORE: named } = context.environment;
  if (named !== undefined && named !== '') {
    if (isKind(named)) return named;
    throw usageError(`ASP_TOKEN_STORE must be keychain or file, not '${named}'.`, {
      why: 'unset it to use the default.',
    });
  }
  if (isKind(context.globals.store)) return context.globals.store;
  const { stateDirectory } = context.paths;
  const text = stateDirectory === undefined ? undefined : await readIfPresent(`${stateDirectory}/${CHOICE_FILE}`);
  const remembered = text?.trim();
  return isKind(remembered) ? remembered : 'keychain';
}

/** Stores the choice for the next login. */
export async function rememberStore(context: Context, kind: StoreKind): Promise<void> {
  const { stateDirectory } = context.paths;
  if (stateDirectory !== undefined) await writePrivateFile(`${stateDirectory}/${CHOICE_FILE}`, `${kind}\n`);
}

/** The dependencies of stored logins, from the context of a command. */
export async function createLoginContext(context: Context, requested?: StoreKind): Promise<LoginContext> {
  const { paths, environment, machine, random, globals } = context;
  if (paths.stateDirectory === undefined)
    throw new CliError('ASP_STORE_UNAVAILABLE', {
      message: 'Logins cannot be stored: this user has no home directory.',
      why: 'set XDG_STATE_HOME to a folder, or set ASP_CLIENT_ID and ASP_CLIENT_SECRET.',
    });
  const { profiles } = await context.config();
  return {
    transport: await context.transport(),
    random,
    retries: globals.retries,
    kind: await chooseStore(context, requested),
    directories: { state: paths.stateDirectory, runtime: await findRuntimeDirectory(paths) },
    // Treat an empty passphrase as not set: encrypting with it would protect nothing.
    passphrase: environment['ASP_STORE_PASSPHRASE'] === '' ? undefined : environment['ASP_STORE_PASSPHRASE'],
    platform: machine.platform,
    environment,
    async isLocalServiceAt(baseUrl) {
      return (await findServiceAt(paths, machine, baseUrl)) !== undefined;
    },
    holdExit: context.holdExit,
    findAddresses(baseUrl) {
      const entry = Object.values(profiles).find((profile) => profile.base_url === baseUrl);
      return entry === undefined ? undefined : { baseUrl, authUrl: entry.auth_url, wsUrl: entry.ws_url };
    },
  };
}

/** Why logins cannot be stored in files either; undefined if they can. */
export async function findFileStoreFault(context: Context): Promise<Error | undefined> {
  const { openLogins } = await import('../../client/credentials/open-logins.js');
  try {
    await openLogins(await createLoginContext(context, 'file')).probe();
    return undefined;
  } catch (error) {
    if (error instanceof Error && codeOf(error) === 'ASP_STORE_UNAVAILABLE') return error;
    throw error;
  }
}

/** The stored logins; empty if they cannot be stored. */
export async function openStoredLogins(context: Context): Promise<Logins> {
  const { openLogins } = await import('../../client/credentials/open-logins.js');
  return openLogins(await createLoginContext(context));
}

/** The stored logins at one service; empty if they cannot be stored. */
export async function loginsAt(context: Context, baseUrl: string): Promise<readonly Login[]> {
  return context.paths.stateDirectory === undefined ? [] : (await context.logins()).list(baseUrl);
}
