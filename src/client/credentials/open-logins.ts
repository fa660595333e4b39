import { randomBytes } from 'node:crypto';
import { RequestError } from '../http/request-error.js';
import { revokeRefreshToken } from '../oauth/token-endpoint.js';
import type { Login, LoginItem, LoginKey, Logins, NewLogin, Removal } from './login.js';
import {
  cacheDirectory,
  discoverFor,
  type LoginContext,
  lockContextOf,
  lockNameOf,
  oauthContext,
  openStore,
  readItem,
} from './login-context.js';
import { openLoginRecords } from './login-records.js';
import { withProcessLock } from './process-lock.js';
import { confirmService } from './require-login.js';
import { nameOf } from './secret-store.js';
import { createTokenCache } from './token-cache.js';

const KEY_BYTES = 32;
const REVOCATION_TIMEOUT_MS = 5_000;
const PROBE_KEY: LoginKey = { baseUrl: 'probe', handle: null };

/** The logins of this OS user, in the keychain or in files. */
export function openLogins(context: LoginContext): Logins {
  const records = openLoginRecords(`${context.directories.state}/logins`);
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

async function save(context: LoginContext, given: NewLogin): Promise<Login> {
  const { refreshToken, accessTokens, ...facts } = given;
  const records = openLoginRecords(`${context.directories.state}/logins`);
  const before = await records.find(given);
  const store = await openStore(context, context.kind);
  const key = randomBytes(KEY_BYTES);
  const item: LoginItem = { v: 1, rt: refreshToken, cid: given.clientId, key: key.toString('base64') };
  await store.set(given, JSON.stringify(item));
  const cache = createTokenCache(cacheDirectory(context));
  await cache.write(nameOf(given), key, { ...accessTokens });
  const now = context.transport.clock.now();
  const login: Login = {
    ...facts,
    scopes: [...given.scopes],
    store: context.kind,
    savedAtMs: now,
    firstSavedAtMs: before?.firstSavedAtMs ?? before?.savedAtMs ?? now,
    ended: null,
  };
  await records.write(login);
  if (before !== undefined && before.store !== context.kind) {
    const old = await openStore(context, before.store);
    await old.delete(given).catch(() => false);
  }
  return login;
}

async function remove(
  context: LoginContext,
  key: LoginKey,
  options: { isLocalOnly?: boolean; signal?: AbortSignal },
): Promise<Removal> {
  const records = openLoginRecords(`${context.directories.state}/logins`);
  const login = await records.find(key);
  const store = await openStore(context, login?.store ?? context.kind);
  const item = await readItem(store, key);
  const revocation =
    item === undefined || options.isLocalOnly === true
      ? { isRevoked: false, error: undefined }
      : await revoke(context, key, login, item);
  await createTokenCache(cacheDirectory(context)).remove(nameOf(key));
  const hadItem = await store.delete(key);
  const hadRecord = await records.remove(key);
  return { isRevoked: revocation.isRevoked, isDeleted: hadItem || hadRecord, revocationError: revocation.error };
}

async function revoke(
  context: LoginContext,
  key: LoginKey,
  login: Login | undefined,
  item: LoginItem,
): Promise<{ isRevoked: boolean; error: unknown }> {
  const { clock } = context.transport;
  const controller = new AbortController();
  const late = new RequestError({ code: 'ASP_TIMEOUT', message: 'The service did not confirm in time.' });
  const stop = clock.schedule(REVOCATION_TIMEOUT_MS, () => controller.abort(late));
  try {
    await confirmService(context, login);
    const discovery = await discoverFor(context, key.baseUrl, { retries: 0, signal: controller.signal });
    if (discovery.issuer !== login?.issuer) throw otherIssuer(discovery.issuer);
    const token = { clientId: item.cid, refreshToken: item.rt };
    const deadline = clock.monotonic() + REVOCATION_TIMEOUT_MS;
    await revokeRefreshToken({ ...oauthContext(context, discovery, 1), deadline }, token, controller.signal);
    return { isRevoked: true, error: undefined };
  } catch (error) {
    return { isRevoked: false, error };
  } finally {
    stop();
  }
}

function otherIssuer(issuer: string): RequestError {
  return new RequestError({
    code: 'ASP_DISCOVERY',
    message: `It names another authorization server now (${issuer}), and the login is not for that one.`,
    isRetryable: false,
  });
}

function locked<Result>(
  context: LoginContext,
  key: LoginKey,
  signal: AbortSignal | undefined,
  work: () => Promise<Result>,
): Promise<Result> {
  return withProcessLock(lockContextOf(context), lockNameOf(key), work, signal);
}
