import { join } from 'node:path';
import { readPrivateFile, removePrivateFile, writePrivateFile } from '../../kit/private-file.js';
import { RequestError } from '../http/request-error.js';
import { type Discovery, getResource } from '../oauth/discover.js';
import { refreshTokens, type TokenSet } from '../oauth/token-endpoint.js';
import type { AccessTokenRequest, Resource } from './credential.js';
import {
  cacheDirectory,
  discoverFor,
  type LoginContext,
  type LoginItem,
  type LoginKey,
  oauthContext,
  readItem,
  toLockContext,
  toLockName,
} from './login.js';
import { loginEnded, openLoginRecords, requireUsableLogin } from './open-logins.js';
import { withProcessLock } from './process-lock.js';
import { digest, type SecretStore, toName } from './secret-store.js';
import { type CachedToken, createTokenCache, isUsable, toCached, withToken } from './token-cache.js';

const DEFERRED = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;

/** Signals wait until no work is left. */
interface Deferral {
  works: number;
  readonly end: () => void;
}

let deferral: Deferral | undefined;

function deferSignals(): Deferral {
  const received = new Set<NodeJS.Signals>();
  const note = (signal: NodeJS.Signals): void => void received.add(signal);
  const suspended = DEFERRED.map((signal) => ({ signal, listeners: process.listeners(signal) }));
  for (const { signal, listeners } of suspended) {
    // There is always a listener: without one, Node.js forgets a signal that has arrived but was not handled yet.
    process.on(signal, note);
    for (const listener of listeners) process.removeListener(signal, listener);
  }
  const end = (): void => {
    for (const { signal, listeners } of suspended) {
      for (const listener of listeners) process.on(signal, listener);
      process.removeListener(signal, note);
    }
    for (const signal of received) {
      // On Windows, kill would end the process before anything could handle the signal.
      if (process.platform !== 'win32' || !process.emit(signal, signal)) process.kill(process.pid, signal);
    }
  };
  return { works: 0, end };
}

/**
 * Runs `work` to its end even if the process gets a signal, and handles the signal afterwards: if the process died
 * after a refresh token was spent and before its successor is stored, the login would be lost. Calls that overlap, such
 * as renewals of two logins, share one deferral; otherwise each would restore the listeners of the other.
 */
export async function withDeferredSignals<Result>(work: () => Promise<Result>): Promise<Result> {
  deferral ??= deferSignals();
  const mine = deferral;
  mine.works += 1;
  try {
    return await work();
  } finally {
    mine.works -= 1;
    if (mine.works === 0) {
      deferral = undefined;
      mine.end();
    }
  }
}

/** Retries of a token request under the lock. */
const RETRIES = 2;
/** Codes that mean that a refresh token no longer works (spec: Authentication failures; RFC 6749 §5.2; D-25). */
const TERMINAL: readonly string[] = ['invalid_client', 'invalid_grant'];

/** Options of a refresh. */
export interface RefreshRequest extends AccessTokenRequest {
  /** Refreshes even if the current token is still usable. */
  readonly isForced?: boolean | undefined;
  /** Narrower scopes for this access token (spec: Refresh). */
  readonly scopes?: readonly string[] | undefined;
}

/** A token of a login and the item it was obtained with. */
export interface Refreshed {
  readonly token: CachedToken;
  readonly item: LoginItem;
}

/**
 * Renews an access token of a login: one process at a time, and only if no other process has done it in the meantime. The new
 * refresh token is stored before anything is used. If a refresh token is refused, it is compared with the store again
 * before the login is declared ended; that is recorded, so that no later command asks again.
 * @throws RequestError `ASP_NO_CREDENTIAL`, `ASP_LOGIN_ENDED`, `ASP_STORE_…`, `ASP_DISCOVERY`, or a network error.
 */
export async function refreshLogin(
  context: LoginContext,
  key: LoginKey,
  resource: Resource,
  request: RefreshRequest,
): Promise<Refreshed> {
  const discovery = await discoverFor(context, key.baseUrl, { signal: request.signal });
  const work = (): Promise<Refreshed> => refreshLocked(context, key, resource, request, discovery);
  const refreshed = withProcessLock(toLockContext(context), toLockName(key), work, request.signal);
  context.holdExit?.(refreshed);
  return refreshed;
}

async function refreshLocked(
  context: LoginContext,
  key: LoginKey,
  resource: Resource,
  request: RefreshRequest,
  discovery: Discovery,
): Promise<Refreshed> {
  const { store, item, login } = await requireUsableLogin(context, key);
  if (login !== undefined && login.issuer !== discovery.issuer)
    throw new RequestError({
      code: 'ASP_DISCOVERY',
      message:
        'The service now names a different authorization server than the one that issued this login. Sign in again.',
    });
  const cache = createTokenCache(cacheDirectory(context));
  const cacheKey = Buffer.from(item.key, 'base64');
  const tokens = await cache.read(toName(key), cacheKey);
  const known = tokens[resource];
  if (request.isForced !== true && known !== undefined && isUsable(known, request, context.transport.clock.now()))
    return { token: known, item };
  const target = getResource(discovery, resource);
  return withDeferredSignals(async () => {
    await noteIntent(context, key, item);
    // On a full or read-only disk this fails, and not the write below, after the refresh token is spent: that ends a login.
    if (store.kind === 'file') await store.set(key, JSON.stringify(item));
    const set = await spend(context, discovery, item, target, request).catch((error: unknown) =>
      judge(context, key, store, item, error),
    );
    const next: LoginItem = { ...item, rt: set.refreshToken ?? item.rt };
    if (next.rt !== item.rt) await store.set(key, JSON.stringify(next));
    const token = toCached(set);
    await cache.write(toName(key), cacheKey, withToken(tokens, resource, token));
    await removePrivateFile(intentPath(context, key)).catch(() => false);
    return { token, item: next };
  });
}

/** The request that spends the refresh token; outdated metadata is read again once. */
async function spend(
  context: LoginContext,
  discovery: Discovery,
  item: LoginItem,
  target: string,
  request: RefreshRequest,
): Promise<TokenSet> {
  const login = { clientId: item.cid, refreshToken: item.rt };
  const { scopes } = request;
  try {
    return await refreshTokens(oauthContext(context, discovery, RETRIES), login, target, { scopes });
  } catch (error) {
    const isAddressWrong =
      error instanceof RequestError &&
      (error.code === 'ASP_BAD_ANSWER' || (error.code === 'ASP_UNREACHABLE' && error.outcome === 'not_applied'));
    if (!isAddressWrong) throw error;
    const again = discoverFor(context, discovery.resources.api, { isForced: true, retries: 0 });
    const fresh = await again.catch(() => undefined);
    if (fresh === undefined || fresh.issuer !== discovery.issuer) throw error;
    if (fresh.metadata.token_endpoint === discovery.metadata.token_endpoint) throw error;
    return refreshTokens(oauthContext(context, fresh, RETRIES), login, target, { scopes });
  }
}

/** What a failed refresh means for the login; only a parsed OAuth error can end it. */
async function judge(
  context: LoginContext,
  key: LoginKey,
  store: SecretStore,
  spent: LoginItem,
  error: unknown,
): Promise<never> {
  const isTerminal = error instanceof RequestError && error.oauthError !== undefined && TERMINAL.includes(error.code);
  if (!isTerminal) throw error;
  const current = await readItem(store, key);
  if (current !== undefined && current.rt !== spent.rt)
    throw new RequestError({
      code: 'ASP_STORE_LOCKED',
      message: 'Another program renewed this login at the same time. Try again.',
      isRetryable: true,
      cause: error,
    });
  const interrupted = await wasInterrupted(context, key, spent);
  const records = openLoginRecords(context);
  const login = await records.find(key);
  if (login !== undefined) {
    const atMs = context.transport.clock.now();
    await records.write({ ...login, ended: { atMs, error: error.code, digest: digest(spent.rt) } });
  }
  if (current !== undefined) await store.delete(key);
  throw loginEnded(error.code, interrupted, error);
}

function intentPath(context: LoginContext, key: LoginKey): string {
  return join(context.directories.state, 'logins', `${toName(key)}.intent`);
}

/** Written before a refresh token is spent; if it is still there later, the process died in between. */
async function noteIntent(context: LoginContext, key: LoginKey, item: LoginItem): Promise<void> {
  const path = intentPath(context, key);
  const before = await readPrivateFile(path).catch(() => undefined);
  const isSecond = before?.split('\n')[0] === digest(item.rt);
  await writePrivateFile(path, `${digest(item.rt)}\n${isSecond ? 'again' : 'first'}`).catch(() => undefined);
}

async function wasInterrupted(context: LoginContext, key: LoginKey, item: LoginItem): Promise<boolean> {
  const note = await readPrivateFile(intentPath(context, key)).catch(() => undefined);
  return note === `${digest(item.rt)}\nagain`;
}
