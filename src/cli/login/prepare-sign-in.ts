import type { StoreKind } from '../../client/credentials/login.js';
import { discoverFor, oauthContext } from '../../client/credentials/login-context.js';
import { findRegistration, forgetRegistration, obtainClientId } from '../../client/credentials/obtain-client-id.js';
import { openLogins } from '../../client/credentials/open-logins.js';
import { isLoopback } from '../../client/http/address.js';
import { RequestError } from '../../client/http/request-error.js';
import { type AuthorizationRequest, createAuthorizationRequest } from '../../client/oauth/authorization-request.js';
import { resourceOf } from '../../client/oauth/discover.js';
import { exchangeCode } from '../../client/oauth/token-endpoint.js';
import { randomToken } from '../../kit/random.js';
import { SCOPES } from '../../wire/scope.js';
import type { Context } from '../context/context.js';
import { loginContextOf, rememberStore } from '../context/login-place.js';
import { CliError } from '../errors.js';
import { loginWords } from '../profile/resolve-profile.js';
import type { SignIn } from './sign-in.js';

const CLIENT_NAME = 'asp command line';

export interface SignInWish {
  readonly handle: string | undefined;
  readonly scopes: readonly string[];
  readonly store: StoreKind | undefined;
}

/** Service, metadata and store, in this order; the store is tried before anyone is asked. */
export async function prepareSignIn(context: Context, wish: SignInWish, baseUrl?: string): Promise<SignIn> {
  const at = baseUrl ?? (await context.profile()).baseUrl;
  const asked = await loginContextOf(context, wish.store);
  const discovery = await discoverFor(asked, at, { isForced: true, signal: context.signal });
  const loginContext = await probeStore(context, asked, wish);
  return {
    context,
    loginContext,
    logins: openLogins(loginContext),
    discovery,
    baseUrl: at,
    handle: wish.handle,
    scopes: wish.scopes,
  };
}

async function probeStore(
  context: Context,
  loginContext: SignIn['loginContext'],
  wish: SignInWish,
): Promise<SignIn['loginContext']> {
  const asked = wish.store;
  try {
    await openLogins(loginContext).probe();
    if (asked !== undefined) await rememberStore(context, asked);
    return loginContext;
  } catch (error) {
    const isAbsent = error instanceof RequestError && error.code === 'ASP_STORE_UNAVAILABLE';
    const { prompts, globals, environment } = context;
    const isNamed = asked !== undefined || (environment['ASP_TOKEN_STORE'] ?? '') !== '';
    const mayUseFile = isAbsent && loginContext.kind === 'keychain' && (globals.isYes ? !isNamed : prompts.canAsk);
    if (!mayUseFile) throw isAbsent ? withoutKeychain(context, wish, error) : error;
    const question = 'There is no keychain here. Keep logins in a file that only you can read?';
    if (!(await prompts.confirm(question, '--store file'))) throw withoutKeychain(context, wish, error);
    const inFile = await loginContextOf(context, 'file');
    await openLogins(inFile).probe();
    await rememberStore(context, 'file');
    return inFile;
  }
}

/** A machine without a keychain, and the same sign-in with the other store. */
function withoutKeychain({ globals }: Context, { handle, scopes }: SignInWish, cause: RequestError): CliError {
  return new CliError('ASP_STORE_UNAVAILABLE', {
    message: `${cause.message} Nobody was signed in.`,
    why: 'without a keychain a login can be kept in a file that only you can read.',
    next: [...loginWords(handle, scopes), ...(globals.isYes ? ['--yes'] : []), '--store', 'file'],
    cause,
  });
}

/** The authorization request of a sign-in, under our one client id at this server. */
export async function requestSignIn(signIn: SignIn, redirectUri: string): Promise<AuthorizationRequest> {
  const { context, loginContext, discovery, handle, scopes } = signIn;
  const offered = discovery.metadata.scopes_supported;
  const known = offered === undefined ? SCOPES : SCOPES.filter((scope) => offered.includes(scope));
  const registration = { clientName: CLIENT_NAME, scopes: known };
  await forgetUnknownClient(signIn, redirectUri);
  const clientId = await obtainClientId(loginContext, discovery, registration, context.signal);
  const picker = handle === undefined ? { intent: 'select_agent' as const } : { agentHandle: handle };
  return createAuthorizationRequest(discovery, { clientId, redirectUri, scopes, ...picker }, context.random);
}

/**
 * A local service that lost its data does not know our client any more, and its page could tell nobody but the browser. A
 * code that cannot exist is answered `invalid_client` then, and `invalid_grant` otherwise (RFC 6749 §5.2).
 */
async function forgetUnknownClient({ context, loginContext, discovery }: SignIn, redirectUri: string): Promise<void> {
  const { issuer } = discovery;
  const kept = isLoopback(new URL(issuer)) ? await findRegistration(loginContext, issuer) : undefined;
  if (kept === undefined) return;
  const wish = { clientId: kept.clientId, redirectUri, scopes: [] };
  const request = createAuthorizationRequest(discovery, wish, context.random);
  const callback = { code: randomToken(context.random, 16), issuer };
  const oauth = oauthContext(loginContext, discovery, 0);
  const answer = exchangeCode(oauth, request, callback, resourceOf(discovery, 'api'), context.signal);
  await answer.catch(async (error: unknown) => {
    if (error instanceof RequestError && error.oauthError === 'invalid_client')
      await forgetRegistration(loginContext, issuer);
  });
}
