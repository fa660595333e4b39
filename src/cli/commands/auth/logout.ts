import type { Login, Logins, Removal } from '../../../client/credentials/login.js';
import { RequestError } from '../../../client/http/request-error.js';
import type { Context } from '../../context/context.js';
import { CliError, UsageError } from '../../errors.js';
import { findServiceUrl, notSignedIn, requireStoredLogin } from './stored-logins.js';

interface LogoutOptions {
  /** None: the acting agent. */
  readonly handles: readonly string[];
  readonly isAll: boolean;
  readonly isLocalOnly: boolean;
}

/** What became of one login. */
interface SignedOut {
  readonly handle: string | null;
  readonly base_url: string;
  readonly revoked: boolean;
  readonly deleted: boolean;
  /** Why the service could not be told, or why the login is still here. */
  readonly error: string | null;
}

export async function logout(context: Context, options: LogoutOptions): Promise<void> {
  const logins = await context.logins();
  const chosen = await chooseLogins(context, logins, options);
  const items: SignedOut[] = [];
  for (const login of chosen) {
    const item = await signOut(context, logins, login, options, chosen.length === 1);
    items.push(item);
    await context.output.note(sentenceOf(item, login, options));
  }
  if (items.length === 0) await context.output.note('Nobody was signed in.');
  await context.output.list({ items, next_cursor: null }, [
    { title: 'handle', value: ({ handle }) => handle ?? '(account)' },
  ]);
  const kept = items.filter(({ deleted }) => !deleted).length;
  if (kept > 0)
    throw new CliError('ASP_PARTIAL', {
      message: `${kept} of ${items.length} logins could not be deleted here.`,
      next: ['asp', 'auth', 'status'],
    });
}

async function chooseLogins(
  context: Context,
  logins: Logins,
  { handles, isAll }: LogoutOptions,
): Promise<readonly Login[]> {
  if (isAll) {
    const isOneService = context.globals.profile !== undefined || (context.environment['ASP_PROFILE'] ?? '') !== '';
    return logins.list(isOneService ? await findServiceUrl(context) : undefined);
  }
  const baseUrl = await findServiceUrl(context);
  if (handles.length === 0 && context.globals.as === undefined && baseUrl !== undefined)
    return [await requireStoredLogin(context, undefined, { isCertain: true })];
  const { as } = context.globals;
  const named = handles.length > 0 || as === undefined ? handles : [as];
  const known = await logins.list(baseUrl);
  if (named.length === 0) return [theOnly(known, undefined)];
  return named.map((handle) =>
    theOnly(
      known.filter((login) => login.handle === handle),
      handle,
    ),
  );
}

/** Without a service that is chosen, a login is known by its handle as long as there is one of it. */
function theOnly(found: readonly Login[], handle: string | undefined): Login {
  const [only, second] = found;
  if (only === undefined) throw notSignedIn(handle);
  if (second === undefined) return only;
  throw new UsageError('Which login? There are several.', {
    why: `they are ${found.map((login) => `${login.handle} at ${login.baseUrl}`).join(', ')}.`,
    next: ['asp', 'logout', only.handle ?? '', '-p', only.baseUrl],
  });
}

async function signOut(
  { signal }: Context,
  logins: Logins,
  login: Login,
  { isLocalOnly }: LogoutOptions,
  isOnlyOne: boolean,
): Promise<SignedOut> {
  const about = { handle: login.handle, base_url: login.baseUrl };
  let removal: Removal;
  try {
    removal = await logins.remove(login, { isLocalOnly, signal });
  } catch (error) {
    if (!(error instanceof RequestError) || isOnlyOne || signal.aborted) throw error;
    return { ...about, revoked: false, deleted: false, error: error.message };
  }
  const { isRevoked, revocationError } = removal;
  const error = revocationError instanceof Error ? revocationError.message : null;
  return { ...about, revoked: isRevoked, deleted: true, error };
}

function sentenceOf(item: SignedOut, login: Login, { isLocalOnly }: LogoutOptions): string {
  const who = `${item.handle ?? 'The account'} at ${item.base_url}`;
  if (!item.deleted) return `${who}: still here. ${item.error ?? ''}`.trimEnd();
  if (item.revoked) return `${who}: revoked at the service and deleted here.`;
  if (item.error !== null)
    return `${who}: deleted here, but the service was not told: ${item.error} There the login lasts until it expires.`;
  if (isLocalOnly) return `${who}: deleted here only; at the service it lasts until it expires.`;
  return login.ended === null
    ? `${who}: deleted here; there was no token left to revoke.`
    : `${who}: deleted here; the service had ended it already.`;
}
