import { createHash } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isSameSecret } from '../../kit/same-secret.js';
import {
  ACCESS_TOKEN_LIFETIME_S,
  AUTHORIZATION_CODE_LIFETIME_S,
  CODE_VERIFIER_MAX_LENGTH,
  CODE_VERIFIER_MIN_LENGTH,
  REFRESH_TOKEN_IDLE_LIFETIME_S,
} from '../../wire/limit.js';
import { GRANT_TYPES, type GrantType } from '../../wire/oauth.js';
import type { TokenReply } from '../../wire/schemas/oauth.js';
import type { Scope } from '../../wire/scope.js';
import { recordActivity } from '../agents/activity.js';
import type { ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { hasCode } from '../core/errors.js';
import { findAccount } from '../store/accounts.js';
import { findAgent } from '../store/agents.js';
import {
  type AuthorizationCodeRow,
  findAuthorizationCode,
  findRefreshToken,
  insertRefreshFamily,
  insertRefreshToken,
  type LastUse,
  markRefreshFamilyUsed,
  markRefreshTokenRotated,
  type RefreshTokenOfFamily,
  revokeRefreshFamily,
  undoRotation,
  useAuthorizationCode,
} from '../store/authorizations.js';
import { secretLock } from '../store/lock-names.js';
import { findOAuthClient, markOAuthClientUsed, type OAuthClientRow } from '../store/oauth-clients.js';
import { signAccessToken } from './access-tokens.js';
import { toNetwork } from './attempts.js';
import { isDocumentUrl } from './client-documents.js';
import { invalidClient, matchesSecret, type PresentedClient, readPresentedClient } from './clients.js';
import { allResources, chooseResources, type GrantedResources, narrowScopes, parseScopes } from './metadata.js';
import { getBody, OAuthError, type Parameters, readParameters } from './parameters.js';
import { createSecret, hashSecret } from './secret.js';
import type { AuthorizationServer } from './server.js';

const FAMILY_PREFIX = 'fam_';
const VERIFIER = new RegExp(`^[A-Za-z0-9._~-]{${CODE_VERIFIER_MIN_LENGTH},${CODE_VERIFIER_MAX_LENGTH}}$`);

/** The result of a grant: everything an access token says, and the other members of the answer. */
interface Granted {
  readonly clientId: string;
  readonly accountId: string;
  readonly agentId: string | null;
  /** Null for an account token. */
  readonly agentHandle: string | null;
  readonly grantId: string;
  readonly scopes: readonly Scope[];
  readonly resources: readonly string[];
  /** Only a refresh leaves it out of the answer (spec: POST /token). */
  readonly isScopeShown: boolean;
  readonly refreshToken: string | undefined;
}

/**
 * A returned error keeps the grant's writes, such as the end of a family. A thrown error undoes them, so the request
 * changed nothing.
 */
type GrantOutcome = Granted | OAuthError;

interface TokenRequest {
  readonly parameters: Parameters;
  readonly presented: PresentedClient;
  readonly from: LastUse;
}

interface GrantRequest extends TokenRequest {
  readonly client: OAuthClientRow;
}

type Grant = (context: ServiceContext, transaction: Transaction, request: GrantRequest) => Promise<GrantOutcome>;

/** POST /token: form → client → limit → grant → access token (spec: POST /token). */
export async function answerToken(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const parameters = readParameters(getBody(request));
  if (parameters.isRepeating) throw new OAuthError('invalid_request', 'A parameter was sent more than once.');
  const grantType = requireGrantType(parameters.one('grant_type'));
  const presented = readPresentedClient(request.headers.authorization, parameters);
  await countAttempt(server, presented, toNetwork(request.ip));
  const asked = { parameters, presented, from: describeCaller(request) };
  if (grantType === 'refresh_token') return answerRefresh(server, asked, reply);
  const granted = await runGrant(server, GRANT[grantType], asked);
  const body = await toTokenReply(server, granted);
  server.context.meter.issuedToken(grantType);
  return reply.send(body);
}

const PROGRAM_MAX_LENGTH = 200;

/** Where a token request came from. Its owner sees it on the page of connected apps. */
function describeCaller({ ip, headers }: FastifyRequest): LastUse {
  return { last_network: toNetwork(ip), last_program: headers['user-agent']?.slice(0, PROGRAM_MAX_LENGTH) ?? null };
}

/**
 * A rotation is complete when its answer was written (spec: Refresh). If the connection went away before that, or no
 * access token could be signed, the successor is removed and the presented token is valid again.
 */
async function answerRefresh(
  server: AuthorizationServer,
  request: TokenRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const delivery = watchDelivery(reply.raw);
  const presentedHash = hashSecret(request.parameters.one('refresh_token') ?? '');
  const unlock = await server.rotations.acquire(presentedHash);
  let rotatedTo: string | undefined;
  try {
    const granted = await runGrant(server, grantRefreshToken, request, () => reply.raw.destroyed);
    rotatedTo = granted.refreshToken;
    const body = await toTokenReply(server, granted);
    server.context.meter.issuedToken('refresh_token');
    void settle(server, delivery, { presentedHash, rotatedTo }).finally(unlock);
    return reply.send(body);
  } catch (error) {
    await settle(server, Promise.resolve(false), { presentedHash, rotatedTo }).finally(unlock);
    throw error;
  }
}

/**
 * Whether the answer was handed to the operating system before its connection went away. Only `finish` says so:
 * `writableFinished` is also true of a response that has lost its socket.
 */
function watchDelivery(response: ServerResponse): Promise<boolean> {
  return new Promise((resolve) => {
    response.once('finish', () => resolve(true));
    response.once('close', () => resolve(false));
    if (response.destroyed) resolve(false);
  });
}

async function settle(
  { context }: AuthorizationServer,
  delivery: Promise<boolean>,
  rotation: { readonly presentedHash: string; readonly rotatedTo: string | undefined },
): Promise<void> {
  const { presentedHash, rotatedTo } = rotation;
  if ((await delivery) || rotatedTo === undefined) return;
  try {
    const successorHash = hashSecret(rotatedTo);
    const isUndone = await context.database.write((transaction) =>
      undoRotation(transaction, presentedHash, successorHash),
    );
    context.log.info('rotation_undone', { isUndone });
  } catch (error) {
    context.log.error('rotation_not_undone', error);
  }
}

/** Grants nothing to a caller that is gone: if its retry came first, this request would look like a theft. */
async function runGrant(
  server: AuthorizationServer,
  grant: Grant,
  asked: TokenRequest,
  isGone: () => boolean = () => false,
): Promise<Granted> {
  const { context } = server;
  const outcome = await context.database.write(async (transaction) => {
    if (isGone()) throw new OAuthError('invalid_request', 'The connection was closed before an answer.');
    const now = context.clock.now();
    const client = await authenticateClient(transaction, asked.presented, asked.parameters.one('grant_type'), now);
    return grant(context, transaction, { ...asked, client });
  });
  if (outcome instanceof OAuthError) throw outcome;
  return outcome;
}

async function toTokenReply(server: AuthorizationServer, granted: Granted): Promise<TokenReply> {
  return {
    access_token: await signAccessToken(server.context, server.keys, granted),
    token_type: 'Bearer',
    expires_in: ACCESS_TOKEN_LIFETIME_S,
    ...(granted.isScopeShown && { scope: granted.scopes.join(' ') }),
    ...(granted.refreshToken !== undefined && { refresh_token: granted.refreshToken }),
    ...(granted.agentHandle !== null && { agent_handle: granted.agentHandle.slice(1) }),
  };
}

/**
 * Counts every attempt for the client and its network, so that no one can use up another client's limit by failing. All
 * nonexistent clients count as one, so that invented ids leave only one count.
 */
async function countAttempt({ context }: AuthorizationServer, { id }: PresentedClient, network: string): Promise<void> {
  if (!context.settings.areLimitsOn) return;
  const client = await context.database.read((query) => findOAuthClient(query, id));
  try {
    await context.limits.take('issueToken', hashSecret(`${client?.id ?? ''} ${network}`));
  } catch (error) {
    if (client !== undefined && hasCode(error, 'RATE_LIMITED')) context.refusals.call('issueToken', client.id);
    throw error;
  }
}

/**
 * Takes one of the client's 120 tokens a minute. The last of all checks: a refusal has consumed nothing. An app that
 * describes itself has one id for all its users, so one account has a share of its limit.
 */
async function takeFromLimit({ limits }: ServiceContext, { id }: OAuthClientRow, accountId: string): Promise<void> {
  await limits.takeAll([
    { name: 'issueToken', subjectId: id },
    ...(isDocumentUrl(id) ? [{ name: 'issueTokenToAccount', subjectId: `${id} ${accountId}` } as const] : []),
  ]);
}

function requireGrantType(grantType: string | undefined): GrantType {
  if (grantType === undefined) throw new OAuthError('invalid_request', 'The grant_type parameter is missing.');
  const known = GRANT_TYPES.find((candidate) => candidate === grantType);
  if (known === undefined) throw new OAuthError('unsupported_grant_type', 'This grant type is not supported.');
  return known;
}

/** The client of a token request by its credentials: `none`, `client_secret_post` or `client_secret_basic`. */
async function authenticateClient(
  query: Query,
  presented: PresentedClient,
  grantType: string | undefined,
  now: number,
): Promise<OAuthClientRow> {
  const client = await findOAuthClient(query, presented.id);
  if (client === undefined) throw invalidClient('unknown client', presented);
  if (client.kind === 'public') requirePublicUse(presented, grantType);
  else if (presented.secret === undefined || !matchesSecret(client, presented.secret, now))
    throw invalidClient('wrong secret', presented);
  if (client.expires_at !== null && client.expires_at <= now) throw invalidClient('expired', presented);
  return client;
}

/** A public client has no secret, so one that is sent is wrong, and it cannot act for itself (RFC 6749 §4.4). */
function requirePublicUse(presented: PresentedClient, grantType: string | undefined): void {
  if (grantType === 'client_credentials')
    throw new OAuthError('unauthorized_client', 'This client cannot use the client_credentials grant.');
  if (presented.secret !== undefined) throw invalidClient('secret of a public client', presented);
}

/** A confidential client acts as the one agent it was made for; `sub` is that agent's account (spec: Flows). */
const grantClientCredentials: Grant = async (context, transaction, { parameters, presented, client }) => {
  if (client.account_id === null || client.agent_id === null) {
    throw new OAuthError('unauthorized_client', 'This client cannot use the client_credentials grant.');
  }
  const agent = await findAgent(transaction, client.agent_id);
  if (agent === undefined) throw invalidClient('agent was removed', presented);
  if (agent.is_suspended === 1) throw invalidClient('account is suspended', presented);
  const scopes = narrowScopes(parameters.one('scope'), parseScopes(client.scope));
  const resources = chooseResources(parameters, allResources(context.settings.addresses));
  await takeFromLimit(context, client, client.account_id);
  await markOAuthClientUsed(transaction, client.id, context.clock.now());
  return {
    clientId: client.id,
    accountId: client.account_id,
    agentId: agent.id,
    agentHandle: agent.handle,
    grantId: client.id,
    scopes,
    resources,
    isScopeShown: true,
    refreshToken: undefined,
  };
};

/**
 * Exchanges a code, once. A mistake in the request alone leaves the code usable. A wrong verifier or redirect URI
 * invalidates it, because no one may guess twice. A second use ends what the first one got (RFC 6749 §4.1.2).
 */
const grantAuthorizationCode: Grant = async (context, transaction, { parameters, client, from }) => {
  const now = context.clock.now();
  const presented = requireParameter(parameters, 'code');
  const proof = {
    redirectUri: requireParameter(parameters, 'redirect_uri'),
    verifier: requireParameter(parameters, 'code_verifier'),
  };
  await transaction.lock([secretLock(hashSecret(presented))]);
  const code = await findAuthorizationCode(transaction, hashSecret(presented));
  if (code === undefined || code.client_id !== client.id) throw invalidGrant('unknown code, or of another client');
  if (code.used_at !== null) return refuseReuse(context, transaction, code);
  if (now >= code.created_at + AUTHORIZATION_CODE_LIFETIME_S * 1000) throw invalidGrant('expired code');
  if (!isProven(code, proof)) {
    await useAuthorizationCode(transaction, code.code_hash, now, null);
    return invalidGrant('wrong verifier or redirect URI');
  }
  const granted = JSON.parse(code.resources) as GrantedResources;
  const resources = chooseResources(parameters, granted);
  const grantee = await findGrantee(transaction, code);
  if (grantee === undefined) throw invalidGrant('account or agent was removed, or is suspended');
  await takeFromLimit(context, client, code.account_id);

  const familyId = createFamilyId(context);
  // Another use would have waited for the lock, so the code was removed, as by a change of the password.
  if (!(await useAuthorizationCode(transaction, code.code_hash, now, familyId)))
    throw invalidGrant('removed in the meantime');
  const refreshToken = await startFamily(context, transaction, familyId, {
    ...code,
    ...from,
    resources: JSON.stringify({ ...granted, usual: resources }),
  });
  return {
    clientId: client.id,
    accountId: code.account_id,
    agentId: code.agent_id,
    agentHandle: grantee.agentHandle,
    grantId: familyId,
    scopes: parseScopes(code.scope),
    resources,
    isScopeShown: true,
    refreshToken,
  };
};

async function refuseReuse(
  context: ServiceContext,
  transaction: Transaction,
  code: AuthorizationCodeRow,
): Promise<GrantOutcome> {
  const { log, clock } = context;
  const facts = { account_id: code.account_id, client: code.client_id, outcome: 'refused' };
  await recordActivity(context, transaction, {
    accountId: code.account_id,
    kind: 'app-copied',
    detail: code.client_id,
  });
  transaction.afterCommit(() => log.security?.('code_reused', facts));
  if (code.family_id !== null) await revokeRefreshFamily(transaction, code.family_id, clock.now());
  return invalidGrant('code was used before');
}

/** Missing, it is a mistake in the request, which consumes nothing (RFC 6749 §5.2). */
function requireParameter(parameters: Parameters, name: string): string {
  const value = parameters.one(name);
  if (value === undefined) throw new OAuthError('invalid_request', `The ${name} parameter is missing.`);
  return value;
}

/** (RFC 7636 §4.6, S256) */
function isProven(
  code: AuthorizationCodeRow,
  { redirectUri, verifier }: { readonly redirectUri: string; readonly verifier: string },
): boolean {
  if (redirectUri !== code.redirect_uri || !VERIFIER.test(verifier)) return false;
  return isSameSecret(createHash('sha256').update(verifier).digest('base64url'), code.code_challenge);
}

function invalidGrant(detail: string): OAuthError {
  return new OAuthError('invalid_grant', 'The authorization code is not valid.', detail);
}

/**
 * Rotates a refresh token (spec: Refresh). Scope and resource are checked before anything is consumed. A token that was
 * rotated before ends its family. Another client's attempt changes nothing.
 */
export const grantRefreshToken: Grant = async (context, transaction, { parameters, client, from }) => {
  const now = context.clock.now();
  const presented = requireParameter(parameters, 'refresh_token');
  await transaction.lock([secretLock(hashSecret(presented))]);
  const family = await findRefreshToken(transaction, hashSecret(presented));
  if (family === undefined || family.client_id !== client.id) throw invalidRefresh('unknown, or of another client');
  if (family.revoked_at !== null) throw invalidRefresh('family is revoked');
  if (now > family.last_used_at + REFRESH_TOKEN_IDLE_LIFETIME_S * 1000) throw invalidRefresh('expired');
  if (family.rotated_at !== null) return refuseRefreshReuse(context, transaction, family);
  const scopes = narrowScopes(parameters.one('scope'), parseScopes(family.scope));
  const resources = chooseResources(parameters, JSON.parse(family.resources) as GrantedResources);
  const grantee = await findGrantee(transaction, family);
  if (grantee === undefined) throw invalidRefresh('account or agent was removed, or is suspended');
  await takeFromLimit(context, client, family.account_id);

  if (!(await markRefreshTokenRotated(transaction, family.token_hash, now)))
    throw invalidRefresh('removed in the meantime');
  if (!(await markRefreshFamilyUsed(transaction, family.id, now, from)))
    throw invalidRefresh('family was revoked in the meantime');
  return {
    clientId: client.id,
    accountId: family.account_id,
    agentId: family.agent_id,
    agentHandle: grantee.agentHandle,
    grantId: family.id,
    scopes,
    resources,
    isScopeShown: false,
    refreshToken: await addRefreshToken(context, transaction, family.id, family.token_hash),
  };
};

/** The holder of the other copy is signed out too, because it is impossible to tell which one is the thief's. */
async function refuseRefreshReuse(
  context: ServiceContext,
  transaction: Transaction,
  family: RefreshTokenOfFamily,
): Promise<GrantOutcome> {
  const { clock, log, meter } = context;
  await revokeRefreshFamily(transaction, family.id, clock.now());
  await recordActivity(context, transaction, {
    accountId: family.account_id,
    kind: 'app-copied',
    detail: family.client_id,
  });
  const facts = { account_id: family.account_id, client: family.client_id, outcome: 'family_revoked' };
  transaction.afterCommit(() => {
    meter.refreshTokenReused();
    log.security?.('refresh_token_reused', facts);
  });
  return invalidRefresh('rotated before: family revoked');
}

/** One answer for every reason (spec: Authentication failures). */
function invalidRefresh(detail: string): OAuthError {
  return new OAuthError('invalid_client', 'The refresh token is not valid. A new authorization is needed.', detail);
}

const GRANT: Record<GrantType, Grant> = {
  client_credentials: grantClientCredentials,
  authorization_code: grantAuthorizationCode,
  refresh_token: grantRefreshToken,
};

export function createFamilyId(context: Pick<ServiceContext, 'ids'>): string {
  return `${FAMILY_PREFIX}${context.ids.ulid()}`;
}

/** Starts the refresh-token family of an authorization and returns its first token (spec: Refresh). */
export async function startFamily(
  context: ServiceContext,
  transaction: Transaction,
  familyId: string,
  grant: Pick<AuthorizationCodeRow, 'client_id' | 'account_id' | 'agent_id' | 'scope' | 'resources'> & LastUse,
): Promise<string> {
  const now = context.clock.now();
  await insertRefreshFamily(transaction, {
    id: familyId,
    client_id: grant.client_id,
    account_id: grant.account_id,
    agent_id: grant.agent_id,
    scope: grant.scope,
    resources: grant.resources,
    created_at: now,
    last_used_at: now,
    revoked_at: null,
    last_network: grant.last_network,
    last_program: grant.last_program,
  });
  return addRefreshToken(context, transaction, familyId, null);
}

async function addRefreshToken(
  context: ServiceContext,
  transaction: Transaction,
  familyId: string,
  parentHash: string | null,
): Promise<string> {
  const refreshToken = createSecret(context.random, 'refreshToken');
  await insertRefreshToken(transaction, {
    token_hash: hashSecret(refreshToken),
    family_id: familyId,
    parent_hash: parentHash,
    created_at: context.clock.now(),
    rotated_at: null,
  });
  return refreshToken;
}

/** The holder of a grant while it exists; a null handle stands for the account itself. */
async function findGrantee(
  query: Query,
  grant: { readonly account_id: string; readonly agent_id: string | null },
): Promise<{ agentHandle: string | null } | undefined> {
  if (grant.agent_id === null) {
    return (await findAccount(query, grant.account_id)) === undefined ? undefined : { agentHandle: null };
  }
  const agent = await findAgent(query, grant.agent_id);
  return agent === undefined || agent.is_suspended === 1 ? undefined : { agentHandle: agent.handle };
}
