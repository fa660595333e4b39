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

/** The item of a login whose tokens may be sent now. @throws RequestError, `ASP_LOCAL_NOT_RUNNING` among them */
export async function requireUsableLogin(
  context: LoginContext,
  key: LoginKey,
): Promise<{ store: SecretStore; item: LoginItem; login: Login | undefined }> {
  const found = await requireLogin(context, key);
  await confirmService(context, found.login);
  return found;
}

/** Refuses a login of a local service that does not run: another program may have its port. */
export async function confirmService(context: LoginContext, login: Login | undefined): Promise<void> {
  if (login?.isLocal !== true || (await context.isLocalServiceAt?.(login.baseUrl)) !== false) return;
  throw new RequestError({
    code: 'ASP_LOCAL_NOT_RUNNING',
    message: `The local service at ${login.baseUrl} is not running. The login of ${login.handle ?? 'the account'} is for that service alone, so nothing was sent there.`,
    isRetryable: true,
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
