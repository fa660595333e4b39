import type { FastifyReply, FastifyRequest } from 'fastify';

import { type Handle, HandlePart, isHandle, splitHandle } from '../../wire/handle.js';
import { createAgentRecord } from '../agents/create-agent.js';
import type { ServiceContext } from '../context.js';
import { isFromThisMachine } from '../local-peer.js';
import { NEW_AGENT, renderConsentPage } from '../pages/consent-page.js';
import type { Mistake } from '../pages/form.js';
import { pageHeaders } from '../pages/layout.js';
import { renderErrorPage } from '../pages/message-page.js';
import { ServiceError } from '../service-error.js';
import { type AccountRow, findAccount } from '../store/account-rows.js';
import { type AgentRow, findAgentByHandle, listAgentsOfAccount } from '../store/agent-rows.js';
import {
  type AuthorizationRequestRow,
  deleteAuthorizationRequest,
  insertAuthorizationCode,
} from '../store/authorization-rows.js';
import type { Query, Transaction } from '../store/database.js';
import { markOAuthClientUsed, type OAuthClientRow } from '../store/oauth-client-rows.js';
import { type Browser, findAccountOf, isCsrfOf, meetBrowser, readBrowser } from './account/browser.js';
import { forgedForm, requireSameOrigin } from './account/same-origin.js';
import { sendSignInPage } from './account/sign-in.js';
import { bodyOf, placeOf, redirect } from './api-scope.js';
import {
  type AnswerAddress,
  type AuthorizationRequest,
  answeredRequest,
  type ReadRequest,
  readAuthorizationRequest,
  requireClient,
  requireRedirectUri,
  requireStoredRequest,
  storeRequest,
} from './authorization-request.js';
import { isDocumentUrl } from './client-document.js';
import { PATH } from './metadata.js';
import { OAuthError } from './oauth-error.js';
import { type Parameters, queryOf, readParameters } from './parameters.js';
import { describeRedirectUri, withParameters } from './redirect-uri.js';
import { isForAccount, parseScopes } from './scope-and-resource.js';
import { createSecret, hashSecret, isSameSecret } from './secret.js';
import { type AuthorizationServer, takeForAddress } from './server.js';

const DISPLAY_NAME_MAX_LENGTH = 100;
const BEARER = /^Bearer ([!-~]+)$/i;

/** GET authorization endpoint: shows a page and grants nothing. */
export async function showAuthorization(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  const read = await readRequest(server, request);
  if (read.kind === 'refused') return answerUnaskedError(server, reply, read.address, read.error);
  await takeForAddress(context, 'authorize', request);
  const browser = meetBrowser(server, request, reply);
  const { id, row } = await storeRequest(context, read.request, browser.hash);
  return showRequest(server, reply, { browser, id, row, client: read.request.client });
}

/** A client that describes itself is fetched before anything is read, since no transaction may wait for a stranger. */
async function readRequest(server: AuthorizationServer, request: FastifyRequest): Promise<ReadRequest> {
  const { context } = server;
  const parameters = readParameters(queryOf(request.raw.url ?? ''));
  const [clientId, ...others] = parameters.every('client_id');
  if (clientId !== undefined && others.length === 0)
    await server.clientDocuments.learn(clientId, () => takeForAddress(context, 'fetchClientDocument', request));
  return context.database.read((query) => readAuthorizationRequest(context, query, parameters));
}

/** Shows the page of a stored request again. */
export async function showStoredRequest(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  const id = readParameters(queryOf(request.raw.url ?? '')).one('request');
  const browser = readBrowser(server, request);
  const { row, client } = await context.database.read(async (query) => {
    const stored = await requireStoredRequest(context, query, browser?.hash, id);
    const known = await requireClient(query, stored.client_id);
    requireRedirectUri(known, stored.redirect_uri);
    return { row: stored, client: known };
  });
  if (browser === undefined || id === undefined) throw new Error('a stored request without its browser');
  return showRequest(server, reply, { browser, id, row, client });
}

/** A stored request and the browser that answers it. */
interface ShownRequest {
  readonly browser: Browser;
  readonly id: string;
  readonly row: AuthorizationRequestRow;
  readonly client: OAuthClientRow;
}

async function showRequest(
  server: AuthorizationServer,
  reply: FastifyReply,
  shown: ShownRequest,
): Promise<FastifyReply> {
  const account = await server.context.database.read((query) => findAccountOf(server, query, shown.browser));
  if (account !== undefined) return sendConsentPage(server, reply, shown, account);
  return sendSignInPage(server, reply, {
    browser: shown.browser,
    waiting: { id: shown.id, clientName: shown.client.name },
    returnTo: undefined,
  });
}

/** The person's input, shown again after a mistake. */
interface ConsentCorrection {
  readonly mistakes: readonly Mistake[];
  readonly chosen: string | undefined;
  readonly filled: { readonly name?: string; readonly displayName?: string };
}

async function sendConsentPage(
  server: AuthorizationServer,
  reply: FastifyReply,
  { browser, id, row, client }: ShownRequest,
  account: AccountRow,
  correction?: ConsentCorrection,
): Promise<FastifyReply> {
  const scopes = parseScopes(row.scope);
  const agents = isForAccount(scopes)
    ? undefined
    : await server.context.database.read(listFor(account, row.agent_handle));
  const answerTarget = describeRedirectUri(row.redirect_uri);
  const page = renderConsentPage({
    place: placeOf(server),
    request: id,
    csrf: browser.csrfFor(id),
    decidePath: PATH.authorize,
    signOutPath: PATH.signOut,
    clientName: client.name,
    clientUrl: isDocumentUrl(client.id) ? client.id : undefined,
    answerTarget,
    scopes,
    account: { username: account.username, displayName: account.display_name },
    agents: agents?.map(({ handle, display_name }) => ({ handle, displayName: display_name })),
    mistakes: [],
    ...preselect(row.agent_handle, account, agents ?? []),
    ...correction,
  });
  return reply.headers(pageHeaders([answerTarget.policySource])).send(page);
}

/** As many agents as the page can show, and always the one that was asked for. */
const listFor =
  (account: AccountRow, asked: Handle | null) =>
  async (query: Query): Promise<AgentRow[]> => {
    const agents = await listAgentsOfAccount(query, account.id);
    if (asked === null || agents.some(({ handle }) => handle === asked)) return agents;
    const named = await findAgentByHandle(query, asked);
    return named?.account_id === account.id ? [named, ...agents] : agents;
  };

/** Preselects the agent that was asked for, or the only one. Otherwise the person chooses. */
function preselect(asked: Handle | null, account: AccountRow, agents: readonly AgentRow[]) {
  const [first, ...others] = agents;
  if (asked !== null) {
    const { owner, name } = splitHandle(asked);
    if (agents.some(({ handle }) => handle === asked)) return { chosen: asked, missingHandle: undefined, filled: {} };
    const isOwn = owner === account.username;
    return {
      chosen: isOwn || first === undefined ? NEW_AGENT : undefined,
      missingHandle: asked,
      filled: isOwn ? { name } : {},
    };
  }
  const chosen = first === undefined ? NEW_AGENT : others.length === 0 ? first.handle : undefined;
  return { chosen, missingHandle: undefined, filled: {} };
}

/** POST authorization endpoint, from the consent page. Grants only what the stored request says. */
export async function decide(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  requireSameOrigin(server, request);
  const form = readParameters(bodyOf(request));
  const id = form.one('request');
  const browser = readBrowser(server, request);
  if (browser === undefined || id === undefined || !isCsrfOf(browser, id, form.one('csrf'))) throw forgedForm('csrf');

  const { row, client, account } = await context.database.read(async (query) => {
    const stored = await requireStoredRequest(context, query, browser.hash, id);
    const known = await requireClient(query, stored.client_id);
    requireRedirectUri(known, stored.redirect_uri);
    return { row: stored, client: known, account: await findAccountOf(server, query, browser) };
  });
  if (account === undefined) return redirect(reply, `${PATH.consent}?request=${id}`);
  const address = { redirectUri: row.redirect_uri, state: row.state };
  const tell = (outcome: string): void =>
    context.log.security?.('consent', {
      account: account.username,
      address: request.ip,
      client: client.id,
      scope: row.scope,
      outcome,
    });
  if (form.one('decision') !== 'allow') {
    await context.database.write((transaction) => answerOnce(transaction, row));
    tell('denied');
    return answerWithError(server, reply, address, denied('The request was denied.'));
  }
  try {
    const code = await context.database.write((transaction) => approve(context, transaction, { row, account, form }));
    tell('allowed');
    return answerWithCode(server, reply, address, code);
  } catch (error) {
    if (!(error instanceof ChoiceMistake)) throw error;
    return sendConsentPage(server, reply.code(400), { browser, id, row, client }, account, {
      mistakes: [error.mistake],
      chosen: form.one('agent'),
      filled: { name: form.one('agent_name') ?? '', displayName: form.one('agent_display_name') ?? '' },
    });
  }
}

/** A mistake that the person must correct before the request can be approved. */
class ChoiceMistake extends Error {
  override readonly name = 'ChoiceMistake';
  readonly mistake: Mistake;

  constructor(mistake: Mistake) {
    super(mistake.message);
    this.mistake = mistake;
  }
}

interface Approval {
  readonly row: AuthorizationRequestRow;
  readonly account: AccountRow;
  readonly form: Parameters;
}

/** One transaction: the answered request, a new agent and the code exist together or not at all. */
async function approve(context: ServiceContext, transaction: Transaction, approval: Approval): Promise<string> {
  const { row, account } = approval;
  await requireClient(transaction, row.client_id);
  const agentId = isForAccount(parseScopes(row.scope)) ? null : await chooseAgent(context, transaction, approval);
  await answerOnce(transaction, row);
  return issueCode(context, transaction, {
    clientId: row.client_id,
    redirectUri: row.redirect_uri,
    scope: row.scope,
    codeChallenge: row.code_challenge,
    resources: row.resources,
    accountId: account.id,
    agentId,
  });
}

async function answerOnce(transaction: Transaction, row: AuthorizationRequestRow): Promise<void> {
  if (!(await deleteAuthorizationRequest(transaction, row.id_hash))) throw answeredRequest();
}

/** An agent of another account is answered like one that does not exist. */
async function chooseAgent(
  context: ServiceContext,
  transaction: Transaction,
  { account, form }: Approval,
): Promise<string> {
  const choice = form.one('agent');
  if (choice === NEW_AGENT) return createChosenAgent(context, transaction, account, form);
  if (choice === undefined) throw new ChoiceMistake({ field: 'agent-0', message: 'Choose an agent.' });
  const agent = isHandle(choice) ? await findAgentByHandle(transaction, choice) : undefined;
  if (agent === undefined || agent.account_id !== account.id) {
    throw new ChoiceMistake({ message: 'This agent is not one of yours. Choose another.' });
  }
  return agent.id;
}

async function createChosenAgent(
  context: ServiceContext,
  transaction: Transaction,
  account: AccountRow,
  form: Parameters,
): Promise<string> {
  const field = 'agent-name';
  const name = (form.one('agent_name') ?? '').trim();
  const displayName = (form.one('agent_display_name') ?? '').trim() || name;
  if (name === '') throw new ChoiceMistake({ field, message: 'Enter an address for the new agent.' });
  if (!HandlePart.safeParse(name).success) {
    throw new ChoiceMistake({ field, message: 'Use lowercase letters, digits, underscores and hyphens only.' });
  }
  if (displayName.length > DISPLAY_NAME_MAX_LENGTH) {
    throw new ChoiceMistake({ field: 'agent-display-name', message: 'The display name is too long.' });
  }
  try {
    return (await createAgentRecord(context, transaction, account, { name, displayName })).id;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.code === 'DUPLICATE_HANDLE') {
      throw new ChoiceMistake({ field, message: 'This address is or was in use. Choose another.' });
    }
    if (error.code === 'FEATURE_NOT_AVAILABLE') throw new ChoiceMistake({ message: error.message });
    throw new OAuthError('invalid_request', 'The agent cannot be created.', error.code);
  }
}

/**
 * Approves an authorization request without a page. The caller proves with the secret of the local service's record that
 * it is the OS user who runs the service and owns its local accounts.
 */
export async function approveLocally(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  requireLocalUser(server, request);
  const { context } = server;
  const read = await readRequest(server, request);
  if (read.kind === 'refused') return answerWithError(server, reply, read.address, read.error);
  const { request: asked } = read;
  const owner = await context.database.read((query) => findLocalOwner(query, asked));
  if (owner === undefined) {
    return answerWithError(server, reply, asked, denied('No local account of this service has that agent.'));
  }
  const code = await context.database.write((transaction) =>
    issueCode(context, transaction, {
      clientId: asked.client.id,
      redirectUri: asked.redirectUri,
      scope: asked.scopes.join(' '),
      codeChallenge: asked.codeChallenge,
      resources: JSON.stringify(asked.resources),
      accountId: owner.accountId,
      agentId: isForAccount(asked.scopes) ? null : owner.agentId,
    }),
  );
  return answerWithCode(server, reply, asked, code);
}

function requireLocalUser(server: AuthorizationServer, request: FastifyRequest): void {
  const { settings } = server.context;
  if (settings.isBehindProxy || !isFromThisMachine(request.raw)) {
    throw new OAuthError('access_denied', 'Local approval works from the same machine only.');
  }
  const given = BEARER.exec(request.headers.authorization ?? '')?.[1];
  if (given === undefined || !isSameSecret(given, server.localSecret)) {
    throw new OAuthError('access_denied', 'The secret of the local service is missing or wrong.', undefined, {
      status: 401,
      headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
    });
  }
}

/** With account scopes, any agent's handle names its account. */
async function findLocalOwner(
  query: Query,
  { agentHandle }: AuthorizationRequest,
): Promise<{ accountId: string; agentId: string } | undefined> {
  const agent = agentHandle === null ? undefined : await findAgentByHandle(query, agentHandle);
  const account = agent === undefined ? undefined : await findAccount(query, agent.account_id);
  if (agent === undefined || account === undefined || account.is_local !== 1) return undefined;
  return { accountId: account.id, agentId: agent.id };
}

interface ApprovedAuthorization {
  readonly clientId: string;
  readonly redirectUri: string;
  readonly scope: string;
  readonly codeChallenge: string;
  /** JSON: the granted resources. */
  readonly resources: string;
  readonly accountId: string;
  readonly agentId: string | null;
}

/** Issues a code that is bound to everything that was approved. */
async function issueCode(
  context: ServiceContext,
  transaction: Transaction,
  approved: ApprovedAuthorization,
): Promise<string> {
  const now = context.clock.now();
  const code = createSecret(context.random, 'authorizationCode');
  await insertAuthorizationCode(transaction, {
    code_hash: hashSecret(code),
    client_id: approved.clientId,
    account_id: approved.accountId,
    agent_id: approved.agentId,
    redirect_uri: approved.redirectUri,
    scope: approved.scope,
    code_challenge: approved.codeChallenge,
    resources: approved.resources,
    created_at: now,
    used_at: null,
    family_id: null,
  });
  await markOAuthClientUsed(transaction, approved.clientId, now);
  return code;
}

/** Sends the browser back to the client with a code (RFC 6749 §4.1.2; RFC 9207 §2). */
function answerWithCode(
  server: AuthorizationServer,
  reply: FastifyReply,
  { redirectUri, state }: AnswerAddress,
  code: string,
): FastifyReply {
  return redirect(reply, withParameters(redirectUri, { code, state, iss: issuerOf(server) }));
}

/** Sends the browser back to the client with an error (RFC 6749 §4.1.2.1; RFC 9207 §2). */
function answerWithError(
  server: AuthorizationServer,
  reply: FastifyReply,
  address: AnswerAddress,
  error: OAuthError,
): FastifyReply {
  return redirect(reply, locationOfError(server, address, error));
}

function locationOfError(
  server: AuthorizationServer,
  { redirectUri, state }: AnswerAddress,
  { error, description }: OAuthError,
): string {
  return withParameters(redirectUri, { error, error_description: description, state, iss: issuerOf(server) });
}

/**
 * Reports an error before anybody was asked. A program on this computer hears it at once; to a website or an app the
 * person goes by a link, or anybody who registers a client could send browsers anywhere through us (D-122).
 */
function answerUnaskedError(
  server: AuthorizationServer,
  reply: FastifyReply,
  address: AnswerAddress,
  error: OAuthError,
): FastifyReply {
  const target = describeRedirectUri(address.redirectUri);
  if (target.kind === 'program') return answerWithError(server, reply, address, error);
  const page = renderErrorPage({
    place: placeOf(server),
    title: 'This request cannot continue',
    message: error.description,
    advice: 'The application made a mistake. If you trust the address below, you can go there and report it.',
    code: error.error,
    onward: {
      href: locationOfError(server, address, error),
      label: target.kind === 'app' ? 'Go back to the app' : `Go to ${target.name}`,
    },
  });
  return reply.code(400).headers(pageHeaders()).send(page);
}

function denied(description: string): OAuthError {
  return new OAuthError('access_denied', description);
}

function issuerOf({ context }: AuthorizationServer): string {
  return context.settings.addresses.authUrl;
}
