import { inspectLogin } from '../../../client/credentials/inspect-login.js';
import type { Login } from '../../../client/credentials/login.js';
import { listRegistrations } from '../../../client/credentials/obtain-client-id.js';
import { refreshLogin } from '../../../client/credentials/refresh-login.js';
import { isScope, splitScope } from '../../../wire/scope.js';
import type { Context } from '../../context/context.js';
import { loginContextOf } from '../../context/login-place.js';
import { CliError, UsageError } from '../../errors.js';
import { handlesOf, resolveAgent } from '../../profile/resolve-agent.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';

/** The base URL of the service a command is about; undefined when none is chosen, or when it is the local one and that does not run. */
export async function findServiceUrl(context: Context): Promise<string | undefined> {
  // What is broken in a file is told; that no service is chosen is an answer.
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
 * The stored login of the agent that the arguments or the usual layers name; credentials of the environment do not count.
 * What cannot be undone is not done to the first of several logins because nothing else was said (`isCertain`).
 */
export async function requireStoredLogin(
  context: Context,
  handle: string | undefined,
  { isCertain = false } = {},
): Promise<Login> {
  const profile = await context.profile();
  const { globals, environment, projectFile } = context;
  const logins = await context.logins();
  const storedHandles = async (): Promise<string[]> => handlesOf(await logins.list(profile.baseUrl));
  const sources = { flag: handle ?? globals.as, environment, profile, projectFile, storedHandles };
  const agent = await resolveAgent(sources, 'stored');
  const handles = isCertain && agent.isFirstLogin ? await storedHandles() : [];
  if (handles.length > 1)
    throw new CliError('ASP_NO_CREDENTIAL', {
      message: `Several agents are signed in at profile ${profile.name}.`,
      why: `they are ${handles.sort().slice(0, 8).join(', ')}${handles.length > 8 ? ', …' : ''}.`,
      next: ['asp', 'logout', handles[0] ?? ''],
    });
  const login = await logins.find({ baseUrl: profile.baseUrl, handle: agent.handle ?? null });
  if (login !== undefined) return login;
  throw notSignedIn(agent.handle, profile.baseUrl);
}

export function notSignedIn(handle: string | undefined, baseUrl?: string): CliError {
  return new CliError('ASP_NO_CREDENTIAL', {
    message: `Nobody is signed in${handle === undefined ? '' : ` as ${handle}`}${baseUrl === undefined ? ' here' : ` at ${baseUrl}`}.`,
    next: ['asp', 'auth', 'status'],
  });
}

const STATE = {
  signed_in: 'signed in',
  ended: 'ended: sign in again',
  missing: 'gone from its store',
  unavailable: 'its store is closed',
} as const;

/** `auth status` */
export async function listLogins(context: Context): Promise<void> {
  const logins = await (await context.logins()).list();
  const loginContext = await loginContextOf(context);
  const { profiles } = await context.config();
  const profileOf = ({ baseUrl }: Login): string | null =>
    Object.entries(profiles).find(([, { base_url }]) => base_url === baseUrl)?.[0] ?? null;
  const items = [];
  for (const login of logins) {
    const { state, expiresAtMs } = await inspectLogin(loginContext, login);
    items.push({
      handle: login.handle,
      profile: profileOf(login),
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
    { title: 'service', value: ({ profile, base_url }) => profile ?? base_url, piped: ({ base_url }) => base_url },
    { title: 'store', value: ({ store }) => store },
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
    { title: 'scopes', value: ({ scopes }) => scopes.join(' '), isFlexible: true },
  ]);
  if (items.length === 0) await context.output.note('Nobody is signed in. Begin with: asp login');
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
    throw new UsageError(`The login of ${login.handle} does not have the scope ${beyond}.`, {
      why: `it has ${login.scopes.join(', ')}; a refresh can only narrow.`,
      next: ['asp', 'login', login.handle ?? ''],
    });
  const { signal, output, clock } = context;
  const { token } = await refreshLogin(await loginContextOf(context), login, 'api', { isForced: true, scopes, signal });
  const granted = token.scope === undefined ? (scopes ?? login.scopes) : splitScope(token.scope);
  await output.note(
    `A new access token that expires ${relativeTime(token.expiresAtMs, clock.now())}: ${granted.join(' ')}`,
  );
  const { baseUrl: base_url } = login;
  await output.document(
    { handle: login.handle, base_url, scopes: granted, expires_at: token.expiresAtMs },
    (safe) => safe.handle ?? '(account)',
  );
}

/** `auth clients` */
export async function listClients(context: Context): Promise<void> {
  const registrations = await listRegistrations(await loginContextOf(context));
  const items = registrations.map(({ clientId, issuer, registeredAtMs }) => ({
    client_id: clientId,
    issuer,
    registered_at: registeredAtMs,
  }));
  await context.output.list({ items, next_cursor: null }, [
    { title: 'client id', value: ({ client_id }) => client_id },
    { title: 'authorization server', value: ({ issuer }) => issuer, isFlexible: true },
    {
      title: 'registered',
      value: ({ registered_at }) => relativeTime(registered_at, context.clock.now()),
      piped: ({ registered_at }) => isoTime(registered_at),
    },
  ]);
  if (items.length === 0) await context.output.note('No client is registered yet: the first login does it.');
}
