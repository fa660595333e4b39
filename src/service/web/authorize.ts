import type { FastifyReply, FastifyRequest } from 'fastify';
import { isSameSecret } from '../../kit/same-secret.js';
import { type Handle, isHandle, splitHandle } from '../../wire/handle.js';
import { HandlePart } from '../../wire/schemas/requests.js';
import { SCOPE_DESCRIPTION, type Scope } from '../../wire/scope.js';
import { type ActivityKind, recordActivity } from '../agents/activity.js';
import { createAgentRecord } from '../agents/agents.js';
import type { ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { isFromThisMachine } from '../http/app.js';
import { toNetwork, toWiderNetwork } from '../oauth/attempts.js';
import { isDocumentUrl } from '../oauth/client-documents.js';
import { describeRedirectUri, withParameters } from '../oauth/clients.js';
import { isForAccount, PATH, parseScopes } from '../oauth/metadata.js';
import { OAuthError, type Parameters, readQuery } from '../oauth/parameters.js';
import { createSecret, hashSecret } from '../oauth/secret.js';
import { type AuthorizationServer, takeForAddress } from '../oauth/server.js';
import { type AccountRow, findAccount } from '../store/accounts.js';
import { type AgentRow, findAgentByHandle, listAgentsOfAccount } from '../store/agents.js';
import {
  type AuthorizationCodeRow,
  type AuthorizationRequestRow,
  deleteAuthorizationRequest,
  insertAuthorizationCode,
} from '../store/authorizations.js';
import { accountLock } from '../store/lock-names.js';
import { markOAuthClientUsed, type OAuthClientRow } from '../store/oauth-clients.js';
import { redirect } from './api-scope.js';
import { PICKER_SCRIPT } from './assets.js';
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
import {
  type Browser,
  findAccountOf,
  forgedForm,
  meetBrowser,
  readBrowser,
  rememberAnswer,
  remembersAnswer,
} from './browser.js';
import { hidden, type Mistake, renderField, renderMistakes, tie, toTitle } from './form.js';
import { CAUTION, type Html, html, PLUS, renderAgentFace, renderName, strangersText, TICK } from './html.js';
import { type Look, layOut, pageHeaders, readLook, sendErrorPage } from './layout.js';
import { DISPLAY_NAME_MAX_LENGTH, describeVisitor, readForm, sendSignInPage } from './sign-in.js';

/** The value of the choice that creates an agent. */
const NEW_AGENT = 'new';

/** With more agents than these, the app's permissions would be pushed far down the page. */
const LISTED_WHOLE_MAX = 6;
const isLongList = (agents: readonly unknown[] = []): boolean => agents.length > LISTED_WHOLE_MAX;

/** For the script `picker.js`, which shows it. It has no name, so it is not sent. */
const FINDER = html`<div class="field finder" id="find-agent-field" hidden><label class="hidden-label" for="find-agent">Find an agent</label><input type="search" id="find-agent" placeholder="Find an agent" autocomplete="off" spellcheck="false" autocapitalize="none"></div>`;
const FOUND = html`<p class="soft small" id="found-agents" role="status"></p>`;

type ConsentAgent = Pick<AgentRow, 'handle' | 'display_name'>;

export interface ConsentPage {
  readonly look: Look;
  /** The hidden fields of its forms. */
  readonly values: { readonly request: string; readonly csrf: string };
  readonly client: Pick<OAuthClientRow, 'id' | 'name'>;
  readonly redirectUri: string;
  readonly scopes: readonly Scope[];
  readonly account: Pick<AccountRow, 'username' | 'display_name'>;
  /** Undefined: the app requests the account itself. */
  readonly agents: readonly ConsentAgent[] | undefined;
  /** A handle, NEW_AGENT, or nothing yet. */
  readonly chosen: string | undefined;
  /** An agent that the app requested by name and that is not this account's. */
  readonly missingHandle: string | undefined;
  readonly mistakes: readonly Mistake[];
  readonly filled: { readonly name?: string; readonly displayName?: string };
}

/** Asks a person whether an app may act as one of their agents, and as which. */
export function renderConsentPage(page: ConsentPage): string {
  const { client, account, agents } = page;
  const name = strangersText(client.name);
  const main = html`<form method="post" action="${PATH.authorize}" class="stack" aria-label="Allow access">
${hidden(page.values)}
<div class="stack-tight">
<h1>${agents === undefined ? html`Let <span class="quoted">“${name}”</span> use your account?` : html`Let <span class="quoted">“${name}”</span> act as your agent?`}</h1>
<p class="soft">${renderReturn(page.redirectUri)}</p>
</div>
${renderMistakes(page.mistakes)}
<div class="notice">${CAUTION}<p>${renderOrigin(client.id)} Only continue if you just started this sign-in yourself.</p></div>
${agents !== undefined && renderPicker(page, agents)}
<section class="stack-tight" aria-labelledby="can"><h2 id="can">This app will be able to</h2>
<ul class="ticks">${page.scopes.map((scope) => html`<li>${TICK}<span>${SCOPE_DESCRIPTION[scope]}</span></li>`)}</ul></section>
<div class="actions lasting"><button class="button primary" name="decision" value="allow">Allow</button><button class="button plain" name="decision" value="deny" formnovalidate>Deny</button></div>
<p class="soft small">Access ends when the app signs out, or after 30 days without use.</p>
</form>`;
  const below = html`<form method="post" action="${PATH.signOut}">${hidden(page.values)}
<span>Signed in as ${renderName(account.display_name, `@${account.username}`)} <span class="mono wrap">@${account.username}</span></span><button class="link">Use another account</button></form>`;
  const title = agents === undefined ? 'Allow access to your account' : 'Allow access to an agent';
  const script = isLongList(agents) && { script: PICKER_SCRIPT };
  return layOut({ look: page.look, title: toTitle(title, page.mistakes), main, below, ...script });
}

/** Who vouches for the name of the app: no one, or the owner of the host in its address. */
function renderOrigin(clientId: string): Html {
  if (!isDocumentUrl(clientId)) return html`This app registered itself, and its name is not verified.`;
  return html`This app is described by <strong class="wrap">${new URL(clientId).host}</strong>, at <span class="mono wrap">${clientId}</span>. This service has not verified it.`;
}

function renderReturn(redirectUri: string): Html {
  const { kind, name } = describeRedirectUri(redirectUri);
  if (kind === 'program')
    return html`You will be returned to a program on this computer, at <span class="mono wrap">${name}</span>.`;
  if (kind === 'app')
    return html`You will be returned to the app on this device that opens <strong class="wrap">${name}:</strong> links.`;
  return html`You will be returned to <strong class="wrap">${name}</strong>.`;
}

function renderPicker(page: ConsentPage, agents: readonly ConsentAgent[]): Html {
  const { account, chosen, missingHandle, mistakes } = page;
  const isLong = isLongList(agents);
  // The selected item of a scrolling list must be visible.
  const listed = isLong
    ? agents.toSorted((one, other) => Number(other.handle === chosen) - Number(one.handle === chosen))
    : agents;
  const firstTied = tie({ id: 'agent-0' }, mistakes);
  const choices = listed.map((agent, index) =>
    renderAgent(agent, index, chosen === agent.handle, index === 0 ? firstTied.attributes : undefined),
  );
  return html`<fieldset>
<legend>${agents.length === 0 ? 'Create an agent for this app' : 'Act as'}</legend>
${missingHandle !== undefined && html`<p class="small soft wrap asked">It asked for <span class="mono">${missingHandle}</span>, which is not an agent of @${account.username}.</p>`}
${firstTied.notes}
${isLong ? html`${FINDER}<div class="choices many">${choices}${FOUND}</div>` : ''}<div class="choices">${!isLong && choices}
${renderNewAgent(page, chosen === NEW_AGENT)}
</div>
</fieldset>`;
}

function renderAgent(
  { handle, display_name: displayName }: ConsentAgent,
  index: number,
  isChosen: boolean,
  attributes: Html | undefined,
): Html {
  return html`<div class="choice"><label for="agent-${index}">
<input type="radio" id="agent-${index}" name="agent" value="${handle}" required${isChosen && html` checked`}${attributes}>
${renderAgentFace(handle)}
<span class="who"><b>${renderName(displayName, handle)}</b><span class="mono">${handle}</span></span>
</label></div>`;
}

function renderNewAgent({ account, mistakes, filled }: ConsentPage, isChosen: boolean): Html {
  return html`<div class="choice"><label for="agent-new">
<input type="radio" id="agent-new" name="agent" value="${NEW_AGENT}" required${isChosen && html` checked`}>
<span class="face agent-face" aria-hidden="true">${PLUS}</span>
<span class="who"><b>A new agent</b><span class="soft small">Choose a handle</span></span>
</label>
<div class="more">
${renderField(
  {
    id: 'agent-name',
    name: 'agent_name',
    label: 'Handle',
    prefix: `@${account.username}.`,
    value: filled.name ?? '',
    hint: html`Lowercase letters, digits, <code>_</code> and <code>-</code>. It cannot be changed later.`,
    autocomplete: 'off',
    maxLength: 64,
    isIdentifier: true,
    isRequired: false,
  },
  mistakes,
)}
${renderField(
  {
    id: 'agent-display-name',
    name: 'agent_display_name',
    label: 'Display name (optional)',
    value: filled.displayName ?? '',
    autocomplete: 'off',
    maxLength: DISPLAY_NAME_MAX_LENGTH,
    isRequired: false,
  },
  mistakes,
)}
</div></div>`;
}

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
  const { client, state, codeChallenge } = read.request;
  if (remembersAnswer(server, request, { client_id: client.id, state, code_challenge: codeChallenge }))
    throw answeredRequest();
  const { id, row } = await storeRequest(context, read.request, browser.hash);
  return showRequest(server, reply, { browser, id, row, client: read.request.client });
}

/**
 * A client that describes itself is fetched before anything is read, because no transaction may wait for a stranger.
 */
async function readRequest(server: AuthorizationServer, request: FastifyRequest): Promise<ReadRequest> {
  const { context } = server;
  const parameters = readQuery(request);
  const [clientId, ...others] = parameters.every('client_id');
  if (clientId !== undefined && others.length === 0)
    await server.clientDocuments.learn(clientId, {
      network: context.settings.isAddressShared ? undefined : (toWiderNetwork(request.ip) ?? toNetwork(request.ip)),
      admit: () => takeForAddress(context, 'fetchClientDocument', request),
    });
  return context.database.read((query) => readAuthorizationRequest(context, query, parameters));
}

/** Shows the page of a stored request again. */
export async function showStoredRequest(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  const id = readQuery(request).one('request');
  const browser = readBrowser(server, request);
  const { row, client } = await context.database.read((query) => readStored(context, query, browser?.hash, id));
  if (browser === undefined || id === undefined) throw new Error('a stored request without its browser');
  return showRequest(server, reply, { browser, id, row, client });
}

async function readStored(
  context: ServiceContext,
  query: Query,
  browserHash: string | undefined,
  id: string | undefined,
): Promise<Pick<ShownRequest, 'row' | 'client'>> {
  const row = await requireStoredRequest(context, query, browserHash, id);
  const client = await requireClient(query, row.client_id);
  requireRedirectUri(client, row.redirect_uri);
  return { row, client };
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
  const page = renderConsentPage({
    look: readLook(server.context, reply.request),
    values: { request: id, csrf: browser.csrfFor(id) },
    ...{ client, redirectUri: row.redirect_uri, scopes, account, agents },
    mistakes: [],
    ...preselect(row.agent_handle, account, agents ?? []),
    ...correction,
  });
  const script = isLongList(agents) ? PICKER_SCRIPT : undefined;
  // Chromium checks each redirect after a form against `form-action`, and the app may pass the browser on (D-55).
  return reply.headers(pageHeaders(script, { 'form-action': undefined })).send(page);
}

/** As many agents as the page can show, always including the requested one. */
const listFor =
  (account: AccountRow, requested: Handle | null) =>
  async (query: Query): Promise<AgentRow[]> => {
    const agents = await listAgentsOfAccount(query, account.id);
    if (requested === null || agents.some(({ handle }) => handle === requested)) return agents;
    const named = await findAgentByHandle(query, requested);
    return named?.account_id === account.id ? [named, ...agents] : agents;
  };

/** Preselects the requested agent, or the only one. Otherwise the person chooses. */
function preselect(requested: Handle | null, account: AccountRow, agents: readonly AgentRow[]) {
  const [first, ...others] = agents;
  if (requested !== null) {
    const { owner, name } = splitHandle(requested);
    if (agents.some(({ handle }) => handle === requested))
      return { chosen: requested, missingHandle: undefined, filled: {} };
    const isOwn = owner === account.username;
    return {
      chosen: isOwn || first === undefined ? NEW_AGENT : undefined,
      missingHandle: requested,
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
  const { form, browser, request: id } = readForm(server, request);
  if (id === undefined) throw forgedForm('csrf');
  const { row, client, account } = await context.database.read(async (query) => ({
    ...(await readStored(context, query, browser.hash, id)),
    account: await findAccountOf(server, query, browser),
  }));
  if (account === undefined) return redirect(reply, `${PATH.consent}?request=${id}`);
  const address = { redirectUri: row.redirect_uri, state: row.state };
  const logOutcome = (outcome: string): void =>
    context.log.security?.('consent', {
      account: account.username,
      address: request.ip,
      client: client.id,
      scope: row.scope,
      outcome,
    });
  const record = (transaction: Transaction, kind: ActivityKind): Promise<void> =>
    recordActivity(context, transaction, {
      ...describeVisitor(request),
      accountId: account.id,
      kind,
      detail: client.name,
    });
  if (form.one('decision') !== 'allow') {
    await context.database.write(async (transaction) => {
      await answerOnce(transaction, row);
      await record(transaction, 'app-denied');
    });
    logOutcome('denied');
    rememberAnswer(server, reply, row);
    return answerWithError(server, reply, address, denied('The request was denied.'));
  }
  const approved = await context.database.write(async (transaction) => {
    await transaction.lock([accountLock(account.id)]);
    // A new password may have signed this browser out since.
    if ((await findAccountOf(server, transaction, browser))?.id !== account.id) return undefined;
    const result = await approve(context, transaction, { row, account, form });
    if ('code' in result) await record(transaction, 'app-allowed');
    return result;
  });
  if (approved === undefined) return redirect(reply, `${PATH.consent}?request=${id}`);
  if ('code' in approved) {
    logOutcome('allowed');
    rememberAnswer(server, reply, row);
    return answerWithCode(server, reply, address, approved.code);
  }
  return sendConsentPage(server, reply.code(400), { browser, id, row, client }, account, {
    mistakes: [approved.mistake],
    chosen: form.one('agent'),
    filled: { name: form.one('agent_name') ?? '', displayName: form.one('agent_display_name') ?? '' },
  });
}

/** A mistake that the person must correct before the request can be approved. Nothing was written yet. */
interface Mistaken {
  readonly mistake: Mistake;
}

const mistaken = (message: string, field?: string): Mistaken => ({
  mistake: field === undefined ? { message } : { field, message },
});

interface Approval {
  readonly row: AuthorizationRequestRow;
  readonly account: AccountRow;
  readonly form: Parameters;
}

/** One transaction: the answered request, a new agent and the code exist together or not at all. */
async function approve(
  context: ServiceContext,
  transaction: Transaction,
  approval: Approval,
): Promise<{ readonly code: string } | Mistaken> {
  const { row, account } = approval;
  await requireClient(transaction, row.client_id);
  const agentId = isForAccount(parseScopes(row.scope)) ? null : await chooseAgent(context, transaction, approval);
  if (agentId !== null && typeof agentId !== 'string') return agentId;
  await answerOnce(transaction, row);
  const { client_id, redirect_uri, scope, code_challenge, resources } = row;
  const approved = { client_id, redirect_uri, scope, code_challenge, resources };
  return { code: await issueCode(context, transaction, { ...approved, account_id: account.id, agent_id: agentId }) };
}

async function answerOnce(transaction: Transaction, row: AuthorizationRequestRow): Promise<void> {
  if (!(await deleteAuthorizationRequest(transaction, row.id_hash))) throw answeredRequest();
}

/** An agent of another account gets the same answer as a nonexistent one. */
async function chooseAgent(
  context: ServiceContext,
  transaction: Transaction,
  { account, form }: Approval,
): Promise<string | Mistaken> {
  const choice = form.one('agent');
  if (choice === NEW_AGENT) return createChosenAgent(context, transaction, account, form);
  if (choice === undefined) return mistaken('Choose an agent.', 'agent-0');
  const agent = isHandle(choice) ? await findAgentByHandle(transaction, choice) : undefined;
  if (agent === undefined || agent.account_id !== account.id) {
    return mistaken('This agent is not one of yours. Choose another.');
  }
  return agent.id;
}

async function createChosenAgent(
  context: ServiceContext,
  transaction: Transaction,
  account: AccountRow,
  form: Parameters,
): Promise<string | Mistaken> {
  const field = 'agent-name';
  const name = (form.one('agent_name') ?? '').trim();
  const displayName = (form.one('agent_display_name') ?? '').trim() || name;
  if (name === '') return mistaken('Enter a handle for the new agent.', field);
  if (!HandlePart.safeParse(name).success) {
    return mistaken('Use lowercase letters, digits, underscores and hyphens only.', field);
  }
  if (displayName.length > DISPLAY_NAME_MAX_LENGTH) {
    return mistaken('The display name is too long.', 'agent-display-name');
  }
  try {
    const agent = { local_name: name, display_name: displayName };
    return (await createAgentRecord(context, transaction, account, agent)).id;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.code === 'DUPLICATE_HANDLE') {
      return mistaken('This handle is or was in use. Choose another.', field);
    }
    if (error.code === 'FEATURE_NOT_AVAILABLE') return mistaken(error.message);
    throw new OAuthError('invalid_request', 'The agent cannot be created.', error.code);
  }
}

/**
 * Approves an authorization request without a page. With the secret of the local service's record, a program on this
 * machine proves that it acts for the OS user who runs the service and owns its local accounts.
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
  const { request: requested } = read;
  const owner = await context.database.read((query) => findLocalOwner(query, requested));
  if (owner === undefined) {
    return answerWithError(server, reply, requested, denied('No local account of this service has that agent.'));
  }
  const code = await context.database.write((transaction) =>
    issueCode(context, transaction, {
      client_id: requested.client.id,
      redirect_uri: requested.redirectUri,
      scope: requested.scopes.join(' '),
      code_challenge: requested.codeChallenge,
      resources: JSON.stringify(requested.resources),
      account_id: owner.account_id,
      agent_id: isForAccount(requested.scopes) ? null : owner.id,
    }),
  );
  return answerWithCode(server, reply, requested, code);
}

export const notLocal = (): OAuthError =>
  new OAuthError('access_denied', 'Local approval works from the same machine only.');

function requireLocalUser(server: AuthorizationServer, request: FastifyRequest): void {
  if (!isFromThisMachine(request.raw)) throw notLocal();
  const received = BEARER.exec(request.headers.authorization ?? '')?.[1];
  if (received === undefined || !isSameSecret(received, server.localSecret)) {
    throw new OAuthError('access_denied', 'The secret of the local service is missing or wrong.', undefined, {
      status: 401,
      headers: { 'www-authenticate': 'Bearer error="invalid_token"' },
    });
  }
}

/** With account scopes, any agent's handle names its account. */
async function findLocalOwner(query: Query, { agentHandle }: AuthorizationRequest): Promise<AgentRow | undefined> {
  const agent = agentHandle === null ? undefined : await findAgentByHandle(query, agentHandle);
  const account = agent && (await findAccount(query, agent.account_id));
  return account?.is_local === 1 ? agent : undefined;
}

/** Issues a code that is bound to everything that was approved. */
async function issueCode(
  context: ServiceContext,
  transaction: Transaction,
  approved: Omit<AuthorizationCodeRow, 'code_hash' | 'created_at' | 'used_at' | 'family_id'>,
): Promise<string> {
  const now = context.clock.now();
  const code = createSecret(context.random, 'authorizationCode');
  await insertAuthorizationCode(transaction, {
    ...approved,
    code_hash: hashSecret(code),
    created_at: now,
    used_at: null,
    family_id: null,
  });
  await markOAuthClientUsed(transaction, approved.client_id, now);
  return code;
}

/** Sends the browser back to the client with a code (RFC 6749 §4.1.2; RFC 9207 §2). */
function answerWithCode(
  server: AuthorizationServer,
  reply: FastifyReply,
  { redirectUri, state }: AnswerAddress,
  code: string,
): FastifyReply {
  return redirect(reply, withParameters(redirectUri, { code, state, iss: getIssuer(server) }));
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
  return withParameters(redirectUri, { error, error_description: description, state, iss: getIssuer(server) });
}

/**
 * Reports an error before a person was asked. A program on this computer gets it at once; to a website or an app the
 * person follows a link, because otherwise anyone who registers a client could send browsers anywhere through us
 * (D-122).
 */
function answerUnaskedError(
  server: AuthorizationServer,
  reply: FastifyReply,
  address: AnswerAddress,
  error: OAuthError,
): FastifyReply {
  const target = describeRedirectUri(address.redirectUri);
  if (target.kind === 'program') return answerWithError(server, reply, address, error);
  return sendErrorPage(reply, server.context, 400, {
    title: 'This request cannot continue',
    message: error.description,
    advice: 'The app sent an invalid request. If you trust the address below, go there and report the problem.',
    code: error.error,
    onward: {
      href: locationOfError(server, address, error),
      label: target.kind === 'app' ? 'Go back to the app' : `Go to ${target.name}`,
    },
  });
}

function denied(description: string): OAuthError {
  return new OAuthError('access_denied', description);
}

function getIssuer({ context }: AuthorizationServer): string {
  return context.settings.addresses.authUrl;
}
