import type { Login } from '../../../client/credentials/login.js';
import { ACCOUNT_SCOPES, AGENT_SCOPES, isAccountScope, isScope } from '../../../wire/scope.js';
import type { Context } from '../../context/context.js';
import { usageError } from '../../errors.js';
import { approveLocally, awaitCallback, listenOnLoopback, onlyAgent, readLocalRecord } from '../../login/loopback.js';
import { completeSignIn, finishSignIn, keepPending, prepareSignIn, requestSignIn } from '../../login/sign-in.js';
import { loginArgs } from '../../profile/resolve-profile.js';
import type { LoginOptions } from './auth.js';

/** Nothing listens there between the two steps: the browser shows an error, and the user pastes its address back. */
const UNATTENDED_REDIRECT_URI = 'http://127.0.0.1:8745/callback';

export async function login(context: Context, options: LoginOptions): Promise<void> {
  if (options.isStart) return start(context, options);
  if (options.finish !== undefined)
    return announce(context, await finishSignIn(context, options.finish, options.store));
  const signIn = context.globals.isYes ? signInLocally : signInByBrowser;
  await announce(context, await signIn(context, options));
}

async function signInByBrowser(context: Context, options: LoginOptions): Promise<Login> {
  const handle = options.handle ?? context.globals.as;
  const signIn = await prepareSignIn(context, { ...options, handle });
  const loopback = await listenOnLoopback(options.callbackPort);
  try {
    const request = await requestSignIn(signIn, loopback.redirectUri);
    const again = loginArgs(handle, options.scopes);
    const browser = { isWanted: options.opensBrowser, command: options.browserCommand, again };
    const callback = await awaitCallback(context, request, loopback, browser);
    return await completeSignIn(signIn, request, callback);
  } finally {
    await loopback.close();
  }
}

async function signInLocally(context: Context, options: LoginOptions): Promise<Login> {
  const { baseUrl } = await context.profile();
  const record = await readLocalRecord(context, baseUrl);
  const handle = options.handle ?? context.globals.as ?? (await onlyAgent(context, record, options.scopes));
  const signIn = await prepareSignIn(context, { ...options, handle });
  const request = await requestSignIn(signIn, UNATTENDED_REDIRECT_URI);
  return completeSignIn(signIn, request, await approveLocally(context, record, request));
}

/** The first of two steps, for callers that cannot wait. */
async function start(context: Context, options: LoginOptions): Promise<void> {
  const handle = options.handle ?? context.globals.as;
  const signIn = await prepareSignIn(context, { ...options, handle });
  const request = await requestSignIn(signIn, UNATTENDED_REDIRECT_URI);
  const pending = await keepPending(context, {
    base_url: signIn.baseUrl,
    handle: handle ?? null,
    request: { ...request, scopes: [...request.scopes] },
  });
  const next = ['asp', 'login', '--finish', '-'];
  await context.output.document(
    { login_id: pending.login_id, authorize_url: request.url, expires_at: pending.expires_at, next },
    (safe) => safe.authorize_url,
  );
  await context.output.note('Open the address, approve, and enter the address that the browser ends up at:');
  await context.output.note(`  ${next.join(' ')}`);
}

async function announce(context: Context, login: Login): Promise<void> {
  const { handle, baseUrl, store, scopes } = login;
  const where = store === 'keychain' ? 'the keychain' : 'a file that only you can read';
  await context.output.note(`Signed in at ${baseUrl}. The login is stored in ${where}.`);
  await context.output.document({ handle, base_url: baseUrl, store, scopes }, (safe) => safe.handle ?? '(account)');
  if (handle === null) return;
  const winner = ['ASP_TOKEN', 'ASP_CLIENT_ID'].find((name) => (context.environment[name] ?? '') !== '');
  if (winner !== undefined) await context.output.note(`${winner} is set, so commands use that instead of this login.`);
  else await tellWhoActs(context, handle, baseUrl);
}

/** A second login changes nothing for commands that name no agent. */
async function tellWhoActs(context: Context, handle: string, baseUrl: string): Promise<void> {
  if ((await context.profile()).baseUrl !== baseUrl) return;
  const acting = await context.agent().catch(() => undefined);
  if (acting?.handle !== undefined && acting.handle !== handle)
    await context.output.note(`Commands still act as ${acting.handle}. To change that: asp use ${handle}, or --as.`);
}

export { ACCOUNT_SCOPES, AGENT_SCOPES } from '../../../wire/scope.js';

/** The scopes of `--scopes`, separated by commas or spaces. */
export function readScopes(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const scopes = text.split(/[\s,]+/).filter((scope) => scope !== '');
  const unknown = scopes.find((scope) => !isScope(scope));
  if (unknown !== undefined || scopes.length === 0)
    throw usageError(`'${unknown ?? text}' is not a scope.`, {
      why: `scopes: ${AGENT_SCOPES.join(', ')}; for the account: ${ACCOUNT_SCOPES.join(', ')}.`,
    });
  const ofAccount = scopes.filter((scope) => isScope(scope) && isAccountScope(scope)).length;
  if (ofAccount > 0 && ofAccount < scopes.length)
    throw usageError('Account scopes and agent scopes need two separate logins.', {
      next: ['asp', 'login', '--scopes', ACCOUNT_SCOPES.join(',')],
    });
  return scopes;
}
