import { stat } from 'node:fs/promises';
import { isAbsolute } from 'node:path';
import type { Login, LoginContext, Logins, Removal } from '../../../client/credentials/login.js';
import { inspectLogin } from '../../../client/credentials/open-logins.js';
import { refreshLogin } from '../../../client/credentials/refresh-login.js';
import { listRegistrations } from '../../../client/credentials/register-client.js';
import { RequestError } from '../../../client/http/request-error.js';
import { isFileError } from '../../../kit/private-file.js';
import { isScope, splitScope } from '../../../wire/scope.js';
import type { Context } from '../../context/context.js';
import { createLoginContext } from '../../context/login-store.js';
import { CliError, usageError } from '../../errors.js';
import { listHandles, resolveAgent } from '../../profile/resolve-profile.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';
import type { ItemOf } from '../schema/output-shapes.js';

/**
 * The base URL of the command's service; undefined if none is chosen, or if it is the local one and that is not
 * running.
 */
async function findServiceUrl(context: Context): Promise<string | undefined> {
  // A broken file is an error; no chosen service is a valid answer.
  await Promise.all([context.config(), context.projectFile()]);
  const isNamed = context.globals.profile !== undefined || (context.environment['ASP_PROFILE'] ?? '') !== '';
  try {
    return (await context.profile()).baseUrl;
  } catch (error) {
    const isAnswer =
      error instanceof CliError &&
      (error.code === 'ASP_LOCAL_NOT_RUNNING' || (error.code === 'ASP_CONFIG' && !isNamed));
    if (isAnswer) return undefined;
    throw error;
  }
}

/**
 * The stored login of the agent from the arguments or the usual sources; credentials from the environment do not count.
 * With `isCertain`, it does not fall back to the first of several logins: some actions cannot be undone.
 */
async function requireStoredLogin(
  context: Context,
  handle: string | undefined,
  { isCertain = false } = {},
): Promise<Login> {
  const profile = await context.profile();
  const { globals, environment, projectFile } = context;
  const logins = await context.logins();
  const storedHandles = async (): Promise<string[]> => listHandles(await logins.list(profile.baseUrl));
  const sources = { flag: handle ?? globals.as, environment, profile, projectFile, storedHandles };
  const agent = await resolveAgent(sources, 'stored');
  const handles = isCertain && agent.isFirstLogin ? await storedHandles() : [];
  if (handles.length > 1)
    throw new CliError('ASP_NO_CREDENTIAL', {
      message: `Several agents are signed in at profile ${profile.name}.`,
      why: `signed in: ${handles.sort().slice(0, 8).join(', ')}${handles.length > 8 ? ', …' : ''}.`,
      next: ['asp', 'logout', handles[0] ?? ''],
    });
  const login = await logins.find({ baseUrl: profile.baseUrl, handle: agent.handle ?? null });
  if (login !== undefined) return login;
  throw notSignedIn(agent.handle, profile.baseUrl);
}

function notSignedIn(handle: string | undefined, baseUrl?: string): CliError {
  return new CliError('ASP_NO_CREDENTIAL', {
    message: `Not signed in${handle === undefined ? '' : ` as ${handle}`}${baseUrl === undefined ? ' here' : ` at ${baseUrl}`}.`,
    next: ['asp', 'auth', 'status'],
  });
}

const STATE = {
  signed_in: 'signed in',
  ended: 'ended: sign in again',
  missing: 'missing from its store',
  unavailable: 'its store is locked',
  gone: 'the data of its service is gone',
} as const;

/** Whether a login cannot work again: it was created at a local service whose data no longer exists. */
async function isGone({ isLocalServiceAt }: LoginContext, { baseUrl, localData }: Login): Promise<boolean> {
  if (localData === 'memory') return (await isLocalServiceAt?.(baseUrl)) === false;
  // The data in a database is not on this machine.
  if (localData === undefined || !isAbsolute(localData)) return false;
  return stat(localData).then(
    () => false,
    (error: unknown) => isFileError(error, 'ENOENT', 'ENOTDIR'),
  );
}

/** `auth status` */
export async function listLogins(context: Context): Promise<void> {
  const logins = await (await context.logins()).list();
  const loginContext = await createLoginContext(context);
  const { profiles } = await context.config();
  const findProfile = ({ baseUrl }: Login): string | null =>
    Object.entries(profiles).find(([, { base_url }]) => base_url === baseUrl)?.[0] ?? null;
  const items = [];
  for (const login of logins) {
    const inspected = await inspectLogin(loginContext, login);
    const { state, expiresAtMs } = (await isGone(loginContext, login))
      ? ({ state: 'gone', expiresAtMs: null } as const)
      : inspected;
    items.push({
      handle: login.handle,
      profile: findProfile(login),
      base_url: login.baseUrl,
      store: login.store,
      scopes: login.scopes,
      state,
      expires_at: expiresAtMs,
      signed_in_at: login.savedAtMs,
    });
  }
  const now = context.clock.now();
  await context.output.list({ items, next_cursor: null }, [
    { title: 'handle', value: ({ handle }) => handle ?? '(account)', paint: (text, _, style) => style.bold(text) },
    {
      title: 'service',
      value: ({ profile, base_url }) => profile ?? base_url,
      piped: ({ base_url }) => base_url,
      isFlexible: true,
    },
    { title: 'store', value: ({ store }) => store, isOptional: true },
    {
      title: 'state',
      value: ({ state }) => STATE[state],
      piped: ({ state }) => state,
      paint: (text, { state }, style) => (state === 'signed_in' ? style.green(text) : style.yellow(text)),
    },
    {
      title: 'token',
      value: ({ expires_at }) =>
        expires_at === null ? '-' : expires_at <= now ? 'expired' : relativeTime(expires_at, now),
      piped: ({ expires_at }) => isoTime(expires_at),
    },
    { title: 'scopes', value: ({ scopes }) => scopes.join(' '), isFlexible: true, isOptional: true },
  ]);
  if (items.length === 0) await context.output.note('No logins. To sign in: asp login');
  for (const baseUrl of new Set(items.filter(({ state }) => state === 'gone').map(({ base_url }) => base_url))) {
    const there = items.filter(({ base_url }) => base_url === baseUrl);
    const gone = there.filter(({ state }) => state === 'gone');
    const which =
      gone.length === there.length ? ['--all'] : gone.map(({ handle }) => handle).filter((it) => it !== null);
    const remove = ['asp', 'logout', ...which, '-p', baseUrl, '--local-only'];
    if (which.length > 0)
      await context.output.note(
        `The data of the local service at ${baseUrl} is gone, so its logins no longer work. To remove them: ${remove.join(' ')}`,
      );
  }
}

interface RefreshOptions {
  readonly handle: string | undefined;
  /** Undefined: those of the login. */
  readonly scopes: readonly string[] | undefined;
}

/** `auth refresh` */
export async function refreshStoredLogin(context: Context, { handle, scopes }: RefreshOptions): Promise<void> {
  const login = await requireStoredLogin(context, handle);
  const beyond = scopes?.find((scope) => isScope(scope) && !login.scopes.includes(scope));
  if (beyond !== undefined)
    throw usageError(`The login of ${login.handle} does not have the scope ${beyond}.`, {
      why: `it has ${login.scopes.join(', ')}; a refresh can only narrow.`,
      next: ['asp', 'login', login.handle ?? ''],
    });
  const { signal, output, clock } = context;
  const { token } = await refreshLogin(await createLoginContext(context), login, 'api', {
    isForced: true,
    scopes,
    signal,
  });
  const granted = token.scope === undefined ? (scopes ?? login.scopes) : splitScope(token.scope);
  await output.note(`New access token, expires ${relativeTime(token.expiresAtMs, clock.now())}: ${granted.join(' ')}`);
  const { baseUrl: base_url } = login;
  await output.document(
    { handle: login.handle, base_url, scopes: granted, expires_at: token.expiresAtMs },
    (safe) => safe.handle ?? '(account)',
  );
}

/** `auth clients` */
export async function listClients(context: Context): Promise<void> {
  const registrations = await listRegistrations(await createLoginContext(context));
  const items = registrations.map(({ clientId, issuer, registeredAtMs }) => ({
    client_id: clientId,
    issuer,
    registered_at: registeredAtMs,
  }));
  await context.output.list({ items, next_cursor: null }, [
    { title: 'client id', value: ({ client_id }) => client_id },
    { title: 'issuer', value: ({ issuer }) => issuer, isFlexible: true },
    {
      title: 'registered',
      value: ({ registered_at }) => relativeTime(registered_at, context.clock.now()),
      piped: ({ registered_at }) => isoTime(registered_at),
      isOptional: true,
    },
  ]);
  if (items.length === 0) await context.output.note('No client is registered yet; the first login registers one.');
}

interface LogoutOptions {
  /** None: the acting agent. */
  readonly handles: readonly string[];
  readonly isAll: boolean;
  readonly isLocalOnly: boolean;
}

/** The result of signing out of one login. `error`: why the service could not be notified, or why it is still here. */
type SignedOut = ItemOf<'auth logout'>;

export async function logout(context: Context, options: LogoutOptions): Promise<void> {
  const logins = await context.logins();
  const chosen = await chooseLogins(context, logins, options);
  const items: SignedOut[] = [];
  for (const login of chosen) {
    const item = await signOut(context, logins, login, options, chosen.length === 1);
    items.push(item);
    await context.output.note(describeSignedOut(item, login, options));
  }
  if (items.length === 0) await context.output.note('There was no login.');
  await context.output.list({ items, next_cursor: null }, [
    { title: 'handle', value: ({ handle }) => handle ?? '(account)' },
  ]);
  const kept = items.filter(({ deleted }) => !deleted).length;
  if (kept > 0)
    throw new CliError('ASP_PARTIAL', {
      message: `Could not delete ${kept} of ${items.length} logins here.`,
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

/** Without a chosen service, a handle identifies a login if there is only one with it. */
function theOnly(found: readonly Login[], handle: string | undefined): Login {
  const [only, second] = found;
  if (only === undefined) throw notSignedIn(handle);
  if (second === undefined) return only;
  throw usageError('Which login? There are several.', {
    why: `logins: ${found.map((login) => `${login.handle} at ${login.baseUrl}`).join(', ')}.`,
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

function describeSignedOut(item: SignedOut, login: Login, { isLocalOnly }: LogoutOptions): string {
  const who = `${item.handle ?? 'The account'} at ${item.base_url}`;
  if (!item.deleted) return `${who}: still here. ${item.error ?? ''}`.trimEnd();
  if (item.revoked) return `${who}: revoked at the service and deleted here.`;
  if (item.error !== null)
    return `${who}: deleted here, but the service was not notified: ${item.error} The login stays valid there until it expires.`;
  if (isLocalOnly)
    return `${who}: deleted here only. The service was not notified, so the login may still be valid there.`;
  return login.ended === null
    ? `${who}: deleted here; there was no token left to revoke.`
    : `${who}: deleted here; the service had already ended it.`;
}
