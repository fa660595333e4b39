import { connect } from '../../client/client.js';
import type { Login, Logins, NewLogin } from '../../client/credentials/login.js';
import type { LoginContext } from '../../client/credentials/login-context.js';
import { oauthContext } from '../../client/credentials/login-context.js';
import { toCached } from '../../client/credentials/token-cache.js';
import { createTokenCredential } from '../../client/credentials/token-credential.js';
import type { AuthorizationRequest } from '../../client/oauth/authorization-request.js';
import { type Discovery, resourceOf } from '../../client/oauth/discover.js';
import { exchangeCode, revokeRefreshToken } from '../../client/oauth/token-endpoint.js';
import type { TokenSet } from '../../client/oauth/token-set.js';
import { isAccountScope, isScope, type Scope, splitScope } from '../../wire/scope.js';
import type { Context } from '../context/context.js';
import { CliError } from '../errors.js';
import { loginWords } from '../profile/resolve-profile.js';
import type { OwnCallback } from './loopback.js';

const REVOCATION_TIMEOUT_MS = 5000;
/** What agents/me asks for. */
const ASKING_SCOPE: Scope = 'agents:read';

/** What a sign-in has settled before anyone was asked. */
export interface SignIn {
  readonly context: Context;
  readonly loginContext: LoginContext;
  readonly logins: Logins;
  readonly discovery: Discovery;
  readonly baseUrl: string;
  /** The agent that was asked for; any agent is right when there is none. */
  readonly handle: string | undefined;
  readonly scopes: readonly string[];
}

/** From the answer of the browser to a stored login: exchange, check who it is, keep it. */
export async function completeSignIn(
  signIn: SignIn,
  request: AuthorizationRequest,
  callback: OwnCallback,
): Promise<Login> {
  const { context, loginContext, discovery } = signIn;
  if (callback.kind === 'refused') throw refused(signIn, callback.error);
  const oauth = oauthContext(loginContext, discovery, 0);
  const tokens = await exchangeCode(oauth, request, callback, resourceOf(discovery, 'api'), context.signal);
  const { refreshToken } = tokens;
  if (refreshToken === undefined)
    throw new CliError('ASP_BAD_ANSWER', {
      message: 'The authorization server gave no refresh token, so there is nothing to keep.',
      outcome: 'applied',
    });
  const grant = { clientId: request.clientId, refreshToken };
  const giveBack = (): Promise<void> =>
    revokeRefreshToken(oauth, grant, AbortSignal.timeout(REVOCATION_TIMEOUT_MS)).catch(() => {});
  try {
    const scopes = tokens.scope === undefined ? request.scopes : splitScope(tokens.scope);
    const approved = isForAccount(request.scopes) ? ACCOUNT : await identify(signIn, tokens, scopes);
    const isOther = approved.handle !== null && approved.handle !== (signIn.handle ?? approved.handle);
    if (isOther) throw wrongAgent(signIn, approved.handle);
    return await signIn.logins.save({
      baseUrl: signIn.baseUrl,
      issuer: discovery.issuer,
      wsUrl: discovery.resources.ws ?? null,
      scopes,
      ...approved,
      ...grant,
      isLocal: (await context.localService())?.url === signIn.baseUrl,
      accessTokens: { api: toCached(tokens) },
    });
  } catch (error) {
    await giveBack();
    throw error;
  }
}

/** The account itself: it is no agent, and the service is not asked which one it is. */
const ACCOUNT = { handle: null, agentId: null, accountId: null } as const;

const isForAccount = (scopes: readonly string[]): boolean =>
  scopes.length > 0 && scopes.every((scope) => isScope(scope) && isAccountScope(scope));

/** Who was approved: what the service says, or the token answer where the scopes do not let us ask. */
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
      message: `There is no agent ${handle ?? 'like that'} on the local service.`,
      next: ['asp', 'serve', 'agent', ...(handle === undefined ? ['list'] : ['add', handle])],
    });
  return new CliError('ASP_LOGIN_DENIED', {
    message: isDenied ? 'The sign-in was denied in the browser.' : `The sign-in was refused: ${error}.`,
    next: loginWords(handle, scopes),
  });
}

function wrongAgent({ handle, scopes }: SignIn, approved: string | null): CliError {
  return new CliError('ASP_WRONG_AGENT', {
    message: `${approved} was approved, but ${handle} was asked for. The approval was given back.`,
    next: loginWords(handle, scopes),
  });
}
