import type { Login, Logins, StoreKind } from '../../client/credentials/login.js';
import type { LoginContext } from '../../client/credentials/login-context.js';
import { readIfPresent, writePrivateFile } from '../../kit/private-file.js';
import { CliError, UsageError } from '../errors.js';
import { findLocalService } from '../profile/local-service.js';
import type { Context } from './context.js';

const CHOICE_FILE = 'store';
const isKind = (text: string | undefined): text is StoreKind => text === 'keychain' || text === 'file';

/** Where new logins go: what was asked for, ASP_TOKEN_STORE, the choice made before, the keychain. */
export async function chooseStore(context: Context, asked?: StoreKind): Promise<StoreKind> {
  if (asked !== undefined) return asked;
  const { ASP_TOKEN_STORE: named } = context.environment;
  if (named !== undefined && named !== '') {
    if (isKind(named)) return named;
    throw new UsageError(`ASP_TOKEN_STORE '${named}' is no store.`, { why: 'it is keychain or file.' });
  }
  const { stateDirectory } = context.paths;
  const text = stateDirectory === undefined ? undefined : await readIfPresent(`${stateDirectory}/${CHOICE_FILE}`);
  const remembered = text?.trim();
  return isKind(remembered) ? remembered : 'keychain';
}

/** Remembers the choice for the next login. */
export async function rememberStore(context: Context, kind: StoreKind): Promise<void> {
  const { stateDirectory } = context.paths;
  if (stateDirectory !== undefined) await writePrivateFile(`${stateDirectory}/${CHOICE_FILE}`, `${kind}\n`);
}

/** What stored logins need, from the context of a command. */
export async function loginContextOf(context: Context, asked?: StoreKind): Promise<LoginContext> {
  const { paths, environment, machine, random, globals } = context;
  if (paths.stateDirectory === undefined)
    throw new CliError('ASP_STORE_UNAVAILABLE', {
      message: 'There is no place for logins: this user has no home directory.',
      why: 'set XDG_STATE_HOME to a folder, or give credentials by ASP_CLIENT_ID and ASP_CLIENT_SECRET.',
    });
  const { profiles } = await context.config();
  return {
    transport: await context.transport(),
    random,
    retries: globals.retries,
    kind: await chooseStore(context, asked),
    directories: { state: paths.stateDirectory, runtime: paths.runtimeDirectory },
    // Set to nothing it is not set: a login sealed with nothing is not sealed.
    passphrase: environment['ASP_STORE_PASSPHRASE'] === '' ? undefined : environment['ASP_STORE_PASSPHRASE'],
    platform: machine.platform,
    environment,
    async isLocalServiceAt(baseUrl) {
      const found = await findLocalService(paths, machine);
      return found?.isRunning === true && found.record.url === baseUrl;
    },
    holdExit: context.holdExit,
    addressesOf(baseUrl) {
      const entry = Object.values(profiles).find((profile) => profile.base_url === baseUrl);
      return entry === undefined ? undefined : { baseUrl, authUrl: entry.auth_url, wsUrl: entry.ws_url };
    },
  };
}

/** The stored logins; without a place for them there are none. */
export async function openStoredLogins(context: Context): Promise<Logins> {
  const { openLogins } = await import('../../client/credentials/open-logins.js');
  return openLogins(await loginContextOf(context));
}

/** The stored logins at one service; none where there is no place for them. */
export async function loginsAt(context: Context, baseUrl: string): Promise<readonly Login[]> {
  return context.paths.stateDirectory === undefined ? [] : (await context.logins()).list(baseUrl);
}
