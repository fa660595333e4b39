import type { Login } from '../../../client/credentials/login.js';
import { remember } from '../../context/completion-memory.js';
import type { Context } from '../../context/context.js';
import { approveLocally, localRecordOf, onlyAgent } from '../../login/approve-locally.js';
import { awaitCallback } from '../../login/await-callback.js';
import { finishSignIn } from '../../login/finish-sign-in.js';
import { listenOnLoopback } from '../../login/loopback.js';
import { keepPending } from '../../login/pending-sign-in.js';
import { prepareSignIn, requestSignIn } from '../../login/prepare-sign-in.js';
import { completeSignIn } from '../../login/sign-in.js';
import { loginWords } from '../../profile/resolve-profile.js';
import type { LoginOptions } from './auth.js';

/** Nothing listens there between the two steps: the browser shows an error, and its address is what is pasted back. */
const UNATTENDED_REDIRECT_URI = 'http://127.0.0.1:8745/callback';

export async function login(context: Context, options: LoginOptions): Promise<void> {
  if (options.isStart) return start(context, options);
  if (options.finish !== undefined) return tell(context, await finishSignIn(context, options.finish, options.store));
  const signIn = context.globals.isYes ? signInLocally : signInByBrowser;
  await tell(context, await signIn(context, options));
}

async function signInByBrowser(context: Context, options: LoginOptions): Promise<Login> {
  const handle = options.handle ?? context.globals.as;
  const signIn = await prepareSignIn(context, { ...options, handle });
  const loopback = await listenOnLoopback(options.callbackPort);
  try {
    const request = await requestSignIn(signIn, loopback.redirectUri);
    const again = loginWords(handle, options.scopes);
    const browser = { isWanted: options.opensBrowser, command: options.browserCommand, again };
    const callback = await awaitCallback(context, request, loopback, browser);
    return await completeSignIn(signIn, request, callback);
  } finally {
    await loopback.close();
  }
}

async function signInLocally(context: Context, options: LoginOptions): Promise<Login> {
  const { baseUrl } = await context.profile();
  const record = await localRecordOf(context, baseUrl);
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
  await context.output.note('Open the address, approve, and give the address that the browser was sent to:');
  await context.output.note(`  ${next.join(' ')}`);
}

async function tell(context: Context, login: Login): Promise<void> {
  const { handle, baseUrl, store, scopes } = login;
  const place = store === 'keychain' ? 'the keychain' : 'a file that only you can read';
  await context.output.note(`Signed in at ${baseUrl}. The login is kept in ${place}.`);
  await context.output.document({ handle, base_url: baseUrl, store, scopes }, (safe) => safe.handle ?? '(account)');
  if (handle === null) return;
  const winner = ['ASP_TOKEN', 'ASP_CLIENT_ID'].find((name) => (context.environment[name] ?? '') !== '');
  if (winner !== undefined) await context.output.note(`${winner} is set, so commands use that and not this login.`);
  else await tellWhoActs(context, handle, baseUrl);
  await remember(context, 'handles', [handle]);
}

/** A second login changes nothing for commands that name no agent. */
async function tellWhoActs(context: Context, handle: string, baseUrl: string): Promise<void> {
  if ((await context.profile()).baseUrl !== baseUrl) return;
  const acting = await context.agent().catch(() => undefined);
  if (acting?.handle !== undefined && acting.handle !== handle)
    await context.output.note(`Commands still act as ${acting.handle}. To change that: asp use ${handle}, or --as.`);
}
