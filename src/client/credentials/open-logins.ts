import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { abortAfter } from '../../kit/clock.js';
import { parseIfJson } from '../../kit/parse-json.js';
import {
  fileFault,
  listPrivateFiles,
  readPrivateFile,
  removePrivateFile,
  writePrivateFile,
} from '../../kit/private-file.js';
import { RequestError } from '../http/request-error.js';
import {
  cacheDirectory,
  discoverFor,
  Login,
  type LoginContext,
  type LoginItem,
  type LoginKey,
  type Logins,
  type NewLogin,
  oauthContext,
  openStore,
  type Removal,
  readItem,
  toLockContext,
  toLockName,
} from './login.js';
import { withProcessLock } from './process-lock.js';
import { digest, type SecretStore, storeUnavailable, toName } from './secret-store.js';
import { createTokenCache } from './token-cache.js';

/** The list of logins: one file per login, so that two processes never write the same file for different logins. */
export interface LoginRecords {
  list(): Promise<Login[]>;
  find(key: LoginKey): Promise<Login | undefined>;
  write(login: Login): Promise<void>;
  remove(key: LoginKey): Promise<boolean>;
}

/** The records of this user. Keychains are never searched: some crash on items of other programs. */
export function openLoginRecords({ directories }: Pick<LoginContext, 'directories'>): LoginRecords {
  const directory = `${directories.state}/logins`;
  const getPath = (key: LoginKey): string => join(directory, `${toName(key)}.json`);
  const read = async (path: string): Promise<Login | undefined> => {
    const text = await readPrivateFile(path).catch((error: unknown) => {
      throw storeUnavailable(`Could not use the list of logins: ${fileFault(error) ?? 'reading failed'}.`, error);
    });
    return Login.safeParse(parseIfJson(text)).data;
  };
  return {
    async list() {
      const found = await Promise.all((await listPrivateFiles(directory, '.json')).map(read));
      const order = (login: Login): string => `${login.baseUrl}\n${login.handle ?? ''}`;
      return found
        .filter((login) => login !== undefined)
        .sort((left, right) => (order(left) < order(right) ? -1 : order(left) > order(right) ? 1 : 0));
    },
    find: (key) => read(getPath(key)),
    async write(login) {
      await writePrivateFile(getPath(login), JSON.stringify(login)).catch((error: unknown) => {
        throw storeUnavailable(`Could not write the list of logins: ${fileFault(error) ?? 'writing failed'}.`, error);
      });
    },
    remove: (key) => removePrivateFile(getPath(key)),
  };
}

/** The item of a login that is not known to have ended. @throws RequestError */
async function requireLogin(
  context: LoginContext,
  key: LoginKey,
): Promise<{ store: SecretStore; item: LoginItem; login: Login | undefined }> {
  const login = await openLoginRecords(context).find(key);
  const store = await openStore(context, login?.store ?? context.kind);
  const item = await readItem(store, key).catch((error: unknown) => {
    // No one signed in here, so a missing keychain is not the reason.
    const isAbsent = error instanceof RequestError && error.code === 'ASP_STORE_UNAVAILABLE';
    if (login === undefined && store.kind === 'keychain' && isAbsent) return undefined;
    throw error;
  });
  if (login?.ended != null && (item === undefined || digest(item.rt) === login.ended.digest))
    throw loginEnded(login.ended.error);
  if (item !== undefined) return { store, item, login };
  throw new RequestError({
    code: 'ASP_NO_CREDENTIAL',
    message:
      login === undefined
        ? `${key.handle ?? 'The account'} is not signed in at ${key.baseUrl}.`
        : `The login of ${key.handle ?? 'the account'} is no longer in the ${store.kind}.`,
  });
}

/** The item of a login whose tokens may be sent now. @throws RequestError, including `ASP_LOCAL_NOT_RUNNING` */
export async function requireUsableLogin(
  context: LoginContext,
  key: LoginKey,
): Promise<{ store: SecretStore; item: LoginItem; login: Login | undefined }> {
  const found = await requireLogin(context, key);
  await confirmService(context, found.login);
  return found;
}

/** Refuses a login of a local service that is not running: another program may have its port. */
async function confirmService(context: LoginContext, login: Login | undefined): Promise<void> {
  if (login?.isLocal !== true || (await context.isLocalServiceAt?.(login.baseUrl)) !== false) return;
  throw new RequestError({
    code: 'ASP_LOCAL_NOT_RUNNING',
    message: `The local service at ${login.baseUrl} is not running, and the login of ${login.handle ?? 'the account'} is only for that service.`,
    isRetryable: true,
  });
}

/** The login has ended: a person must sign in again. */
export function loginEnded(code: string, isInterrupted = false, cause?: unknown): RequestError {
  const why = isInterrupted ? ' An earlier renewal was interrupted before its answer could be stored.' : '';
  return new RequestError({
    code: 'ASP_LOGIN_ENDED',
    message: `The service no longer accepts this login (${code}).${why}`,
    oauthError: code,
    status: 401,
    isRetryable: false,
    cause,
  });
}

const KEY_BYTES = 32;
const REVOCATION_TIMEOUT_MS = 5_000;
/** No one asked for it, so no one waits long. */
const REPLACED_TIMEOUT_MS = 2_000;
const PROBE_KEY: LoginKey = { baseUrl: 'probe', handle: null };

/** The logins of this OS user, in the keychain or in files. */
export function openLogins(context: LoginContext): Logins {
  const records = openLoginRecords(context);
  return {
    kind: context.kind,
    probe: () => probe(context),
    async list(baseUrl) {
      const all = await records.list();
      return baseUrl === undefined ? all : all.filter((login) => login.baseUrl === baseUrl);
    },
    find: (key) => records.find(key),
    save: (login) => locked(context, login, undefined, () => save(context, login)),
    remove: (key, options = {}) => locked(context, key, options.signal, () => remove(context, key, options)),
  };
}

async function probe(context: LoginContext): Promise<void> {
  if (context.kind === 'keychain') {
    const { createKeychain } = await import('./keychain.js');
    const { platform, environment, transport } = context;
    return createKeychain({ clock: transport.clock, platform, environment }).probe();
  }
  const store = await openStore(context, 'file');
  const key = { ...PROBE_KEY, handle: `@probe.${randomBytes(6).toString('hex')}` };
  await store.set(key, 'probe');
  await store.get(key);
  await store.delete(key);
}

async function save(context: LoginContext, input: NewLogin): Promise<Login> {
  const { refreshToken, accessTokens, ...facts } = input;
  const records = openLoginRecords(context);
  const before = await records.find(input);
  const replaced = before === undefined || before.ended !== null ? undefined : await readReplaced(context, before);
  const store = await openStore(context, context.kind);
  const key = randomBytes(KEY_BYTES);
  const item: LoginItem = { v: 1, rt: refreshToken, cid: input.clientId, key: key.toString('base64') };
  await store.set(input, JSON.stringify(item));
  const cache = createTokenCache(cacheDirectory(context));
  await cache.write(toName(input), key, { ...accessTokens });
  const now = context.transport.clock.now();
  const login: Login = {
    ...facts,
    scopes: [...input.scopes],
    store: context.kind,
    savedAtMs: now,
    firstSavedAtMs: before?.firstSavedAtMs ?? before?.savedAtMs ?? now,
    ended: null,
  };
  await records.write(login);
  if (before !== undefined && before.store !== context.kind) {
    const old = await openStore(context, before.store);
    await old.delete(input).catch(() => false);
  }
  if (before !== undefined && replaced !== undefined && replaced.rt !== refreshToken) {
    // Otherwise each login adds a connected app at the service. A failure changes nothing here.
    const revocation = revoke(context, input, before, replaced, REPLACED_TIMEOUT_MS);
    context.holdExit?.(revocation);
  }
  return login;
}

/** The secret of a login that is about to be replaced; if the store cannot be read, the login goes on. */
async function readReplaced(context: LoginContext, before: Login): Promise<LoginItem | undefined> {
  try {
    return await readItem(await openStore(context, before.store), before);
  } catch {
    return undefined;
  }
}

async function remove(
  context: LoginContext,
  key: LoginKey,
  options: { isLocalOnly?: boolean; signal?: AbortSignal },
): Promise<Removal> {
  const records = openLoginRecords(context);
  const login = await records.find(key);
  const store = await openStore(context, login?.store ?? context.kind);
  const item = await readItem(store, key);
  const revocation =
    item === undefined || options.isLocalOnly === true
      ? { isRevoked: false, error: undefined }
      : await revoke(context, key, login, item);
  await createTokenCache(cacheDirectory(context)).remove(toName(key));
  await store.delete(key);
  await records.remove(key);
  return { isRevoked: revocation.isRevoked, revocationError: revocation.error };
}

async function revoke(
  context: LoginContext,
  key: LoginKey,
  login: Login | undefined,
  item: LoginItem,
  timeoutMs = REVOCATION_TIMEOUT_MS,
): Promise<{ isRevoked: boolean; error: unknown }> {
  const { clock } = context.transport;
  const late = (): RequestError =>
    new RequestError({ code: 'ASP_TIMEOUT', message: 'The service did not confirm in time.' });
  const confirm = async (signal: AbortSignal): Promise<void> => {
    const { revokeRefreshToken } = await import('../oauth/token-endpoint.js');
    await confirmService(context, login);
    const discovery = await discoverFor(context, key.baseUrl, { retries: 0, signal });
    if (discovery.issuer !== login?.issuer) throw otherIssuer(discovery.issuer);
    const token = { clientId: item.cid, refreshToken: item.rt };
    const deadline = clock.monotonic() + timeoutMs;
    await revokeRefreshToken({ ...oauthContext(context, discovery, 1), deadline }, token, signal);
  };
  try {
    await abortAfter(clock, timeoutMs, late, confirm);
    return { isRevoked: true, error: undefined };
  } catch (error) {
    return { isRevoked: false, error };
  }
}

function otherIssuer(issuer: string): RequestError {
  return new RequestError({
    code: 'ASP_DISCOVERY',
    message: `It now names a different authorization server (${issuer}), and the login is not for that one.`,
    isRetryable: false,
  });
}

function locked<Result>(
  context: LoginContext,
  key: LoginKey,
  signal: AbortSignal | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  return withProcessLock(toLockContext(context), toLockName(key), work, signal);
}

/**
 * The state of a login: `signed_in`; `ended`, the service refused it for good; `missing`, it is no longer in its store;
 * `unavailable`, its store cannot be read.
 */
type LoginState = 'signed_in' | 'ended' | 'missing' | 'unavailable';

/** The state of a login according to its store, without a request. */
export interface LoginInspection {
  readonly state: LoginState;
  /** When the cached access token for the REST resource expires, in epoch milliseconds; null if there is none. */
  readonly expiresAtMs: number | null;
  /** Why its store cannot be read. */
  readonly fault?: unknown;
}

const STATE_OF: Readonly<Record<string, LoginState>> = { ASP_LOGIN_ENDED: 'ended', ASP_NO_CREDENTIAL: 'missing' };

/** Everything known about a login on this machine, without its secrets and without a request to the service. */
export async function inspectLogin(context: LoginContext, login: Login): Promise<LoginInspection> {
  try {
    const { item } = await requireLogin(context, login);
    const cache = createTokenCache(cacheDirectory(context));
    const tokens = await cache.read(toName(login), Buffer.from(item.key, 'base64'));
    return { state: 'signed_in', expiresAtMs: tokens.api?.expiresAtMs ?? null };
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    return { state: STATE_OF[error.code] ?? 'unavailable', expiresAtMs: null, fault: error.cause };
  }
}
