import { isIP } from 'node:net';
import { join } from 'node:path';
import * as z from 'zod/mini';
import { connect } from '../../../client/client.js';
import { createTokenCredential } from '../../../client/credentials/credential.js';
import {
  discoverFor,
  type Login,
  type LoginContext,
  type Logins,
  type NewLogin,
  oauthContext,
  type StoreKind,
} from '../../../client/credentials/login.js';
import { openLogins } from '../../../client/credentials/open-logins.js';
import { findRegistration, forgetRegistration, obtainClientId } from '../../../client/credentials/register-client.js';
import { toCached } from '../../../client/credentials/token-cache.js';
import { RequestError } from '../../../client/http/request-error.js';
import {
  type AuthorizationRequest,
  createAuthorizationRequest,
  readCallback,
} from '../../../client/oauth/authorization-request.js';
import { type Discovery, getResource } from '../../../client/oauth/discover.js';
import { exchangeCode, revokeRefreshToken, type TokenSet } from '../../../client/oauth/token-endpoint.js';
import { abortAfter } from '../../../kit/clock.js';
import { isLoopbackHost } from '../../../kit/loopback.js';
import { parseIfJson } from '../../../kit/parse-json.js';
import { readPrivateFile, removePrivateFile, writePrivateFile } from '../../../kit/private-file.js';
import { randomToken } from '../../../kit/random.js';
import {
  ACCOUNT_SCOPES,
  AGENT_SCOPES,
  isAccountScope,
  isScope,
  SCOPES,
  type Scope,
  splitScope,
} from '../../../wire/scope.js';
import type { Context } from '../../context/context.js';
import { createLoginContext, findFileStoreFault, rememberStore } from '../../context/login-store.js';
import { CliError, usageError } from '../../errors.js';
import { findServiceAt, wordsThatStart } from '../../profile/local-service.js';
import { loginArgs } from '../../profile/resolve-profile.js';
import type { LoginOptions } from './auth.js';
import {
  approveLocally,
  awaitCallback,
  findAccountAgent,
  listenOnLoopback,
  type OwnCallback,
  onlyAgent,
  readLocalRecord,
} from './loopback.js';

/** Nothing listens there between the two steps: the browser shows an error, and the user pastes its address back. */
const UNATTENDED_REDIRECT_URI = 'http://127.0.0.1:8745/callback';

export async function login(context: Context, given: LoginOptions): Promise<void> {
  const options = { ...given, handle: given.handle ?? context.globals.as };
  if (options.isStart) return start(context, options);
  if (options.finish !== undefined)
    return announce(context, await finishSignIn(context, options.finish, options.store));
  const signIn = context.globals.isYes ? signInLocally : signInByBrowser;
  await announce(context, await signIn(context, options));
}

async function signInByBrowser(context: Context, options: LoginOptions): Promise<Login> {
  const signIn = await prepareSignIn(context, options);
  const loopback = await listenOnLoopback(options.callbackPort, options.callbackHost);
  try {
    const request = await requestSignIn(signIn, loopback.redirectUri);
    const again = loginArgs(options.handle, options.scopes);
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
  const choose = isForAccount(options.scopes) ? findAccountAgent : onlyAgent;
  const handle = options.handle ?? (await choose(context, record, options.scopes));
  if (isForAccount(options.scopes)) await context.output.note(`Signing in as the account of ${handle}.`);
  const signIn = await prepareSignIn(context, { ...options, handle });
  const request = await requestSignIn(signIn, UNATTENDED_REDIRECT_URI);
  return completeSignIn(signIn, request, await approveLocally(context, record, request));
}

/** The first of two steps, for callers that cannot wait. */
async function start(context: Context, options: LoginOptions): Promise<void> {
  const signIn = await prepareSignIn(context, options);
  const request = await requestSignIn(signIn, UNATTENDED_REDIRECT_URI);
  const pending = await keepPending(context, {
    base_url: signIn.baseUrl,
    handle: options.handle ?? null,
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

/** The address to listen on; the port is known before, because something must lead there. */
export function readCallbackHost(text: string | undefined, port: number | undefined): string | undefined {
  if (text === undefined) return undefined;
  if (isIP(text) === 0) throw usageError(`--callback-host '${text}' is not an IP address.`);
  if (port === undefined || port === 0)
    throw usageError(`--callback-host needs --callback-port${port === 0 ? ' with a port other than 0' : ''}.`, {
      why: 'the browser goes to 127.0.0.1 on that port, which must be forwarded to the address you name.',
    });
  return text;
}

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

const REVOCATION_TIMEOUT_MS = 5000;
/** The scope that agents/me needs. */
const ASKING_SCOPE: Scope = 'agents:read';

/** Everything that a sign-in determines before it opens the browser. */
interface SignIn {
  readonly context: Context;
  readonly loginContext: LoginContext;
  readonly logins: Logins;
  readonly discovery: Discovery;
  readonly baseUrl: string;
  /** The requested agent; undefined: any agent. */
  readonly handle: string | undefined;
  readonly scopes: readonly string[];
}

/** From the browser's answer to a stored login: exchange the code, check the identity, store the login. */
async function completeSignIn(signIn: SignIn, request: AuthorizationRequest, callback: OwnCallback): Promise<Login> {
  const { context, loginContext, discovery } = signIn;
  if (callback.kind === 'refused') throw refused(signIn, callback.error);
  const oauth = oauthContext(loginContext, discovery, 0);
  const tokens = await exchangeCode(oauth, request, callback, getResource(discovery, 'api'), context.signal);
  const { refreshToken } = tokens;
  if (refreshToken === undefined)
    throw new CliError('ASP_BAD_ANSWER', {
      message: 'The authorization server did not return a refresh token, so there is nothing to store.',
      outcome: 'applied',
    });
  const grant = { clientId: request.clientId, refreshToken };
  const late = (): Error => new Error('no answer in time');
  const giveBack = (): Promise<void> =>
    abortAfter(context.clock, REVOCATION_TIMEOUT_MS, late, (signal) => revokeRefreshToken(oauth, grant, signal)).catch(
      () => {},
    );
  try {
    const scopes = tokens.scope === undefined ? request.scopes : splitScope(tokens.scope);
    const approved = isForAccount(request.scopes) ? ACCOUNT : await identify(signIn, tokens, scopes);
    const isOther = approved.handle !== null && approved.handle !== (signIn.handle ?? approved.handle);
    if (isOther) throw wrongAgent(signIn, approved.handle);
    const local = await findServiceAt(context.paths, context.machine, signIn.baseUrl);
    return await signIn.logins.save({
      baseUrl: signIn.baseUrl,
      issuer: discovery.issuer,
      wsUrl: discovery.resources.ws ?? null,
      scopes,
      ...approved,
      ...grant,
      isLocal: local !== undefined,
      localData: local?.data,
      localStart: local && [...wordsThatStart(local)],
      accessTokens: { api: toCached(tokens) },
    });
  } catch (error) {
    await giveBack();
    throw error;
  }
}

/** For the account itself: it is not an agent, and the service is not asked which account it is. */
const ACCOUNT = { handle: null, agentId: null, accountId: null } as const;

const isForAccount = (scopes: readonly string[]): boolean =>
  scopes.length > 0 && scopes.every((scope) => isScope(scope) && isAccountScope(scope));

/** The approved identity: from the service, or from the token answer if the scopes do not allow asking. */
async function identify(
  { context, loginContext, baseUrl }: SignIn,
  tokens: TokenSet,
  scopes: readonly string[],
): Promise<Pick<NewLogin, 'handle' | 'agentId' | 'accountId'>> {
  if (tokens.handle !== undefined && !scopes.includes(ASKING_SCOPE))
    return { handle: tokens.handle, agentId: null, accountId: null };
  const client = connect({
    service: { baseUrl },
    credential: createTokenCredential({ api: tokens.accessToken, ws: undefined }),
    transport: loginContext.transport,
    random: context.random,
  });
  const { reply } = await client.call('getActingAgent', { signal: context.signal });
  return { handle: reply.canonical_handle, agentId: reply.id, accountId: reply.owner_id };
}

function refused({ context, handle, scopes }: SignIn, error: string): CliError {
  const isDenied = error === 'access_denied';
  if (isDenied && context.globals.isYes)
    return new CliError('ASP_LOGIN_DENIED', {
      message: `There is no ${handle === undefined ? 'such agent' : `agent ${handle}`} on the local service.`,
      next: ['asp', 'serve', 'agent', ...(handle === undefined ? ['list'] : ['add', handle])],
    });
  if (error === 'invalid_scope')
    return new CliError('ASP_LOGIN_DENIED', {
      message: `The service does not grant ${scopes.join(' ')}.`,
      why: isForAccount(scopes)
        ? 'the specification has no logins for accounts, and this service offers none: sign in as an agent.'
        : 'sign in with fewer permissions.',
      next: isForAccount(scopes) ? loginArgs(handle) : [...loginArgs(handle), '--read-only'],
    });
  return new CliError('ASP_LOGIN_DENIED', {
    message: isDenied ? 'The sign-in was denied in the browser.' : `The sign-in was refused: ${error}.`,
    next: loginArgs(handle, scopes),
  });
}

function wrongAgent({ handle, scopes }: SignIn, approved: string | null): CliError {
  return new CliError('ASP_WRONG_AGENT', {
    message: `The browser approved ${approved}, but you asked for ${handle}. The approval was revoked.`,
    next: loginArgs(handle, scopes),
  });
}

/** Tells the machines of a person apart in the list of connected apps. */
function nameOfClient({ machine: { hostName = '' } }: Context): string {
  const [machine = ''] = hostName.split('.');
  return machine === '' ? 'asp command line' : `asp on ${machine}`;
}

interface SignInWish {
  readonly handle: string | undefined;
  readonly scopes: readonly string[];
  readonly store: StoreKind | undefined;
}

/** Service, metadata and store, in this order; the store is tested before the browser opens. */
async function prepareSignIn(context: Context, wish: SignInWish, at?: string): Promise<SignIn> {
  const { handle, scopes, store } = wish;
  const baseUrl = at ?? (await context.profile()).baseUrl;
  const requested = await createLoginContext(context, store);
  const discovery = await discoverFor(requested, baseUrl, { isForced: true, signal: context.signal });
  const loginContext = await probeStore(context, requested, wish);
  return { context, loginContext, logins: openLogins(loginContext), discovery, baseUrl, handle, scopes };
}

async function probeStore(context: Context, loginContext: LoginContext, wish: SignInWish): Promise<LoginContext> {
  const requested = wish.store;
  try {
    await openLogins(loginContext).probe();
    if (requested !== undefined) await rememberStore(context, requested);
    return loginContext;
  } catch (error) {
    const isAbsent = error instanceof RequestError && error.code === 'ASP_STORE_UNAVAILABLE';
    const { prompts, globals, environment } = context;
    const isNamed =
      requested !== undefined || (environment['ASP_TOKEN_STORE'] ?? '') !== '' || globals.store !== undefined;
    const mayUseFile = isAbsent && loginContext.kind === 'keychain' && (globals.isYes ? !isNamed : prompts.canAsk);
    if (!mayUseFile) throw isAbsent ? await withoutStore(context, loginContext.kind, wish, error) : error;
    const question = 'This machine has no keychain. Store logins in a file that only you can read?';
    if (!(await prompts.confirm(question, '--store file'))) throw await withoutStore(context, 'keychain', wish, error);
    const inFile = await createLoginContext(context, 'file');
    const fault = await findFileStoreFault(context);
    if (fault !== undefined) throw await withoutStore(context, 'file', wish, fault);
    await rememberStore(context, 'file');
    return inFile;
  }
}

const NOT_SIGNED_IN = 'You were not signed in.';

/** Nothing can be stored: without a keychain, the same sign-in with the other store can succeed. */
async function withoutStore(
  context: Context,
  kind: StoreKind,
  { handle, scopes }: SignInWish,
  cause: Error,
): Promise<CliError> {
  const fault = kind === 'file' ? cause : await findFileStoreFault(context);
  if (fault !== undefined)
    return new CliError('ASP_STORE_UNAVAILABLE', {
      message: `${kind === 'file' ? '' : `${cause.message} `}${fault.message} ${NOT_SIGNED_IN}`,
      why: 'logins must be stored somewhere: set XDG_STATE_HOME to a writable folder on a disk with free space, or use ASP_CLIENT_ID and ASP_CLIENT_SECRET.',
      cause,
    });
  return new CliError('ASP_STORE_UNAVAILABLE', {
    message: `${cause.message} ${NOT_SIGNED_IN}`,
    why: 'without a keychain, a login can be stored in a file that only you can read.',
    next: [...loginArgs(handle, scopes), ...(context.globals.isYes ? ['--yes'] : []), '--store', 'file'],
    cause,
  });
}

/** The authorization request of a sign-in, under our one client id at this server. */
async function requestSignIn(signIn: SignIn, redirectUri: string): Promise<AuthorizationRequest> {
  const { context, loginContext, discovery, handle, scopes } = signIn;
  const offered = discovery.metadata.scopes_supported;
  // A server that does not list them may know only those of the specification.
  const known = offered === undefined ? AGENT_SCOPES : SCOPES.filter((scope) => offered.includes(scope));
  const registration = { clientName: nameOfClient(context), scopes: known };
  await forgetUnknownClient(signIn, redirectUri);
  const clientId = await obtainClientId(loginContext, discovery, registration, context.signal);
  const picker = handle === undefined ? { intent: 'select_agent' as const } : { agentHandle: handle };
  return createAuthorizationRequest(discovery, { clientId, redirectUri, scopes, ...picker }, context.random);
}

/**
 * A local service that lost its data no longer knows our client, and its page could report that only in the browser. It
 * answers a code that cannot exist with `invalid_client` in that case, and with `invalid_grant` otherwise (RFC 6749
 * §5.2).
 */
async function forgetUnknownClient({ context, loginContext, discovery }: SignIn, redirectUri: string): Promise<void> {
  const { issuer } = discovery;
  const kept = isLoopbackHost(new URL(issuer).hostname) ? await findRegistration(loginContext, issuer) : undefined;
  if (kept === undefined) return;
  const wish = { clientId: kept.clientId, redirectUri, scopes: [] };
  const request = createAuthorizationRequest(discovery, wish, context.random);
  const callback = { code: randomToken(context.random, 16), issuer };
  const oauth = oauthContext(loginContext, discovery, 0);
  const answer = exchangeCode(oauth, request, callback, getResource(discovery, 'api'), context.signal);
  await answer.catch(async (error: unknown) => {
    if (error instanceof RequestError && error.oauthError === 'invalid_client')
      await forgetRegistration(loginContext, issuer);
  });
}

const LIFETIME_MS = 10 * 60_000;

const PendingSignIn = z.object({
  login_id: z.string(),
  base_url: z.string(),
  handle: z.nullable(z.string()),
  expires_at: z.number(),
  request: z.object({
    url: z.string(),
    issuer: z.string(),
    clientId: z.string(),
    redirectUri: z.string(),
    state: z.string(),
    codeVerifier: z.string(),
    scopes: z.array(z.string()),
    isIssuerExpected: z.boolean(),
  }),
});

/** A sign-in between its two steps. It is secret. */
type PendingSignIn = z.infer<typeof PendingSignIn>;

/** Stores a sign-in for its second step; one at a time, the newest. */
async function keepPending(
  context: Context,
  pending: Omit<PendingSignIn, 'login_id' | 'expires_at'>,
): Promise<PendingSignIn> {
  const expires_at = context.clock.now() + LIFETIME_MS;
  const kept = { ...pending, login_id: `login_${randomToken(context.random, 9)}`, expires_at };
  await writePrivateFile(getPendingPath(context), JSON.stringify(kept));
  return kept;
}

/** The sign-in that was started and not yet finished. @throws CliError */
async function readPending(context: Context): Promise<PendingSignIn> {
  const text = await readPrivateFile(getPendingPath(context));
  const pending = PendingSignIn.safeParse(parseIfJson(text)).data;
  if (pending === undefined || pending.expires_at < context.clock.now())
    throw usageError('There is no sign-in to finish.', { next: ['asp', 'login', '--start'] });
  return pending;
}

function getPendingPath({ paths }: Context): string {
  if (paths.stateDirectory !== undefined) return join(paths.stateDirectory, 'pending-sign-in.json');
  throw new CliError('ASP_STORE_UNAVAILABLE', {
    message: 'asp cannot store the unfinished sign-in: this user has no home directory.',
  });
}

const ADDRESS_MAX_LENGTH = 16_384;

/** The second of two steps: the address of the redirect completes the sign-in. */
async function finishSignIn(context: Context, address: string, store: StoreKind | undefined): Promise<Login> {
  const pending = await readPending(context);
  const callback = readCallback(pending.request, (address === '-' ? await readInput(context) : address).trim());
  if (callback.kind === 'foreign')
    throw usageError('That is not the address this sign-in redirects to.', {
      why: 'copy the whole address bar; it starts with http://127.0.0.1:…/callback.',
      next: ['asp', 'login', '--finish', '-'],
    });
  const { scopes } = pending.request;
  const signIn = await prepareSignIn(context, { handle: pending.handle ?? undefined, scopes, store }, pending.base_url);
  // A code works once: whatever happens, this sign-in is over.
  await removePrivateFile(getPendingPath(context));
  return completeSignIn(signIn, pending.request, callback);
}

async function readInput({ streams, signal }: Context): Promise<string> {
  let text = '';
  for await (const bytes of streams.stdin.read(signal)) {
    text += Buffer.from(bytes).toString('utf8');
    if (text.includes('\n') || text.length > ADDRESS_MAX_LENGTH) break;
  }
  return text.slice(0, ADDRESS_MAX_LENGTH);
}
