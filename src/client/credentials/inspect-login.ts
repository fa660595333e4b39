import { RequestError } from '../http/request-error.js';
import type { Login } from './login.js';
import { cacheDirectory, type LoginContext } from './login-context.js';
import { requireLogin } from './require-login.js';
import { nameOf } from './secret-store.js';
import { createTokenCache } from './token-cache.js';

/**
 * What has become of a login: `signed_in`; `ended`, the service refused it for good; `missing`, its store holds it no more;
 * `unavailable`, its store cannot be asked.
 */
export type LoginState = 'signed_in' | 'ended' | 'missing' | 'unavailable';

/** A look at a login that asks the store and nobody else. */
export interface LoginInspection {
  readonly state: LoginState;
  /** When the cached access token for the REST resource expires, in epoch milliseconds; null: there is none. */
  readonly expiresAtMs: number | null;
}

const STATE_OF: Readonly<Record<string, LoginState>> = { ASP_LOGIN_ENDED: 'ended', ASP_NO_CREDENTIAL: 'missing' };

/** What is known of a login on this machine; no secret of it, and no request to the service. */
export async function inspectLogin(context: LoginContext, login: Login): Promise<LoginInspection> {
  try {
    const { item } = await requireLogin(context, login);
    const cache = createTokenCache(cacheDirectory(context));
    const tokens = await cache.read(nameOf(login), Buffer.from(item.key, 'base64'));
    return { state: 'signed_in', expiresAtMs: tokens.api?.expiresAtMs ?? null };
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    return { state: STATE_OF[error.code] ?? 'unavailable', expiresAtMs: null };
  }
}
