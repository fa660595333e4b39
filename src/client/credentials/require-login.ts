import { RequestError } from '../http/request-error.js';
import type { Login, LoginItem, LoginKey } from './login.js';
import { type LoginContext, openStore, readItem } from './login-context.js';
import { openLoginRecords } from './login-records.js';
import { digest, type SecretStore } from './secret-store.js';

/** The item of a login that is not known to have ended. @throws RequestError */
export async function requireLogin(
  context: LoginContext,
  key: LoginKey,
): Promise<{ store: SecretStore; item: LoginItem; login: Login | undefined }> {
  const login = await openLoginRecords(`${context.directories.state}/logins`).find(key);
  const store = await openStore(context, login?.store ?? context.kind);
  const item = await readItem(store, key);
  if (login?.ended != null && (item === undefined || digest(item.rt) === login.ended.digest))
    throw loginEnded(login.ended.error);
  if (item !== undefined) return { store, item, login };
  throw new RequestError({
    code: 'ASP_NO_CREDENTIAL',
    message:
      login === undefined
        ? `${key.handle ?? 'The account'} is not signed in at ${key.baseUrl}.`
        : `The login of ${key.handle ?? 'the account'} is not in the ${store.kind} any more.`,
  });
}

/** The login is over: a person must sign in again. */
export function loginEnded(code: string, isInterrupted = false, cause?: unknown): RequestError {
  const why = isInterrupted ? ' An earlier renewal was interrupted before its answer could be stored.' : '';
  return new RequestError({
    code: 'ASP_LOGIN_ENDED',
    message: `The service does not accept this login any more (${code}).${why}`,
    oauthError: code,
    status: 401,
    isRetryable: false,
    cause,
  });
}
