import { formatBytes, formatQuantity } from '../../../kit/format.js';
import { splitHandle } from '../../../wire/handle.js';
import { ID_PREFIX } from '../../../wire/id.js';
import type {
  Invitation,
  OperatorAccount,
  OperatorOperation,
  UpdateOperatorAccountRequest,
} from '../../../wire/schemas/operator.js';
import type { ServiceContext } from '../../core/context.js';
import { ServiceError } from '../../core/errors.js';
import type { Parameters } from '../../oauth/parameters.js';
import { revokeFamily } from '../../oauth/revoke.js';
import { findAccountByUsername } from '../../store/accounts.js';
import { type AgentRecordRow, findAgentByHandle, listAgentsByHandle, listAgentsOfAccount } from '../../store/agents.js';
import { type FamilyOfAccountRow, findFamilyOfAccount, listFamiliesOfAccount } from '../../store/authorizations.js';
import { AFTER_EVERY_ULID } from '../../store/cursor.js';
import { type ClientOfAccountRow, findClientOfAccount, listClientsOfAccount } from '../../store/oauth-clients.js';
import {
  type InvitationRow,
  listAccountsByName,
  listInvitations,
  type OperatorAccountRow,
} from '../../store/operator.js';
import { livesSince } from '../../web/dashboard/applications.js';
import {
  isEmpty,
  type Listed,
  type NoteName,
  OPERATOR_AREA,
  renderButton,
  renderCopyable,
  renderEmpty,
  renderList,
  renderNote,
  renderQuestion,
  renderTrail,
} from '../../web/dashboard/frame.js';
import { type DashboardAnswer, moved, movedWithNote, page, readListed, type Visit } from '../../web/dashboard/visit.js';
import { type Field, hidden, renderField, renderSelection } from '../../web/form.js';
import { type Html, html, renderAgentFace, renderFace, renderName, strangersText } from '../../web/html.js';
import { renderDeadline, renderTime } from '../../web/time.js';
import {
  createInvitation,
  createPasswordLink,
  eraseOperatorAccount,
  LAST_LINK,
  readOperatorAccount,
  removeOperatorAccount,
  revokeInvitation,
  servesPagesHere,
  toInvitation,
  toOperatorAccount,
  updateOperatorAccount,
} from '../accounts.js';
import { revokeOperatorClient, updateOperatorAgent } from '../operator.js';
import { actFor, inArea, renderAreaPage } from './area.js';

const PATH = `${OPERATOR_AREA}/accounts`;
const SEARCHED_MAX_LENGTH = 65;

const pathOf = (username: string): string => `${PATH}/${username}`;

export async function showAccounts(visit: Visit): Promise<DashboardAnswer> {
  const { context, note, query } = visit;
  const prefix = (query.one('q') ?? '').trim().replace(/^@/, '').toLowerCase();
  const { items, ...rest } = await context.database.read((view) =>
    readListed(visit, {
      scope: ['operator accounts', prefix],
      start: [''],
      toPosition: ({ username }: OperatorAccountRow) => [username],
      read: ([afterName], limit) => listAccountsByName(view, prefix, afterName, limit),
    }),
  );
  const listed = { items: items.map((row) => toOperatorAccount(context, row)), ...rest };
  const now = context.clock.now();
  const path = prefix === '' ? PATH : `${PATH}?q=${encodeURIComponent(prefix)}`;
  const nothing = renderEmpty(
    'No account found',
    html`<p>No username begins with this.</p><p><a href="${PATH}">All accounts</a></p>`,
  );
  const search = renderSearch(PATH, 'Beginning of the username', prefix);
  const list = renderList(path, listed, (account) => renderRow(account, now), nothing);
  const heading = {
    title: 'Accounts',
    about: 'Everyone who can sign in to this service, by username.',
  };
  const hasSearch = prefix !== '' || !isEmpty(listed);
  return page(renderAreaPage('accounts', { heading, note, body: html`${hasSearch && search}${list}` }));
}

function renderSearch(path: string, label: string, value: string): Html {
  const field: Field = {
    id: 'q',
    name: 'q',
    label,
    value,
    autocomplete: 'off',
    maxLength: SEARCHED_MAX_LENGTH,
    isIdentifier: true,
    isRequired: false,
  };
  return html`<form method="get" action="${path}" role="search" class="search-form">${renderField(field, [])}<button class="button plain">Search</button></form>`;
}

const AGENTS_PATH = `${OPERATOR_AREA}/agents`;

/** The agents of all accounts. An operator changes an agent on the page of its account. */
export async function showAgents(visit: Visit): Promise<DashboardAnswer> {
  const { context, note, query } = visit;
  const typed = (query.one('q') ?? '').trim().replace(/^@/, '').toLowerCase();
  const prefix = `@${typed}`;
  const listed = await context.database.read((view) =>
    readListed(visit, {
      scope: ['operator all agents', prefix],
      start: [''],
      toPosition: ({ handle }: AgentRecordRow) => [handle],
      read: ([afterHandle], limit) => listAgentsByHandle(view, prefix, afterHandle, limit),
    }),
  );
  const now = context.clock.now();
  const path = typed === '' ? AGENTS_PATH : `${AGENTS_PATH}?q=${encodeURIComponent(typed)}`;
  const nothing = renderEmpty(
    typed === '' ? 'No agents' : 'No agent found',
    typed === ''
      ? html`<p>No account has an agent yet.</p>`
      : html`<p>No handle begins with this.</p><p><a href="${AGENTS_PATH}">All agents</a></p>`,
  );
  const list = renderList(path, listed, (agent) => renderAnyAgent(agent, now), nothing);
  const heading = { title: 'Agents', about: 'The agents of every account, by handle.' };
  const hasSearch = typed !== '' || !isEmpty(listed);
  const search = renderSearch(AGENTS_PATH, 'Beginning of the handle', typed);
  return page(renderAreaPage('agents', { heading, note, body: html`${hasSearch && search}${list}` }));
}

function renderAnyAgent(agent: AgentRecordRow, now: number): Html {
  const { handle, display_name: name, created_at: createdAt } = agent;
  const { owner } = splitHandle(handle);
  return html`<li class="row">${renderAgentFace(handle, 'small')}<div class="who grow"><a class="row-link" href="${pathOf(owner)}">${renderName(name, handle)}</a><span class="mono wrap">${handle}</span></div>
${renderAgentBadges(agent)}<div class="facts"><span class="soft small">Created ${renderTime(createdAt, now)}</span></div></li>`;
}

const renderAgentBadges = ({
  is_suspended: isSuspended,
  is_paused: isPaused,
  is_online: isOnline,
}: AgentRecordRow): Html =>
  html`<div class="badges">${isSuspended === 1 && html`<span class="badge warn">Suspended</span>`}${isPaused === 1 && html`<span class="badge warn">Paused</span>`}${isOnline === 1 && html`<span class="badge good">Online</span>`}</div>`;

function renderRow(account: OperatorAccount, now: number): Html {
  const { username, display_name: name, agents, created_at: createdAt } = account;
  return html`<li class="row">${renderFace(name)}<div class="who grow"><a class="row-link" href="${pathOf(username)}">${renderName(name, `@${username}`)}</a><span class="mono">@${username}</span></div>
${renderBadges(account)}<div class="facts"><span class="soft small">${formatQuantity(agents, 'agent')}</span><span class="soft small">Created ${renderTime(createdAt, now)}</span></div></li>`;
}

function renderBadges({ state, is_operator: isOperator, is_local: isLocal, tier }: OperatorAccount): Html {
  return html`<div class="badges">${state === 'suspended' && html`<span class="badge warn">Suspended</span>`}${isOperator && html`<span class="badge good">Operator</span>`}${isLocal ? html`<span class="badge">Local</span>` : tier === 'trusted' && html`<span class="badge">Trusted</span>`}</div>`;
}

export async function showAccount(visit: Visit): Promise<DashboardAnswer> {
  const { context, csrf, note } = visit;
  const account = await readOperatorAccount(context, visit.part('account'));
  const { username, display_name: name } = account;
  const { agents, ...grants } = await context.database.read(async (query) => {
    const id = (await findAccountByUsername(query, username))?.id ?? '';
    const newest = { createdAt: Number.MAX_SAFE_INTEGER, id: '' };
    return {
      agents: await readListed(visit, {
        scope: ['operator agents', id],
        start: [''],
        toPosition: (row: AgentRecordRow) => [row.id],
        read: ([afterId], limit) => listAgentsOfAccount(query, id, { afterId, limit }),
      }),
      clients: await listClientsOfAccount(query, id, `${ID_PREFIX.oauthClient}${AFTER_EVERY_ULID}`, GRANTS_SHOWN),
      apps: await listFamiliesOfAccount(query, id, livesSince(visit), newest, GRANTS_SHOWN),
    };
  });
  const body = html`<div class="stack">${renderTrail('Accounts', PATH)}
<div class="identity">${renderFace(name, 'large')}<div class="who grow"><h1>${renderName(name, `@${username}`)}</h1><span class="mono wrap">@${username}</span></div>${renderBadges(account)}</div>
${renderNote(note)}
<div class="columns"><div class="stack">${renderFacts(account, context.clock.now())}${renderAgents(account, agents, csrf)}${renderGrants(account, grants, csrf, context.clock.now())}</div>
<div class="stack">${account.is_operator ? renderOperator(account) : renderActions(visit, account, csrf)}</div></div></div>`;
  return page(inArea(`@${username}`, body));
}

function renderAgents(account: OperatorAccount, listed: Listed<AgentRecordRow>, csrf: string): Html | undefined {
  if (isEmpty(listed)) return undefined;
  const path = pathOf(account.username);
  const rows = renderList(path, listed, (agent) => renderAgent(account, agent, csrf), html``);
  return html`<section class="stack-tight" aria-labelledby="agents"><h2 id="agents">Agents</h2>${rows}</section>`;
}

function renderAgent(account: OperatorAccount, agent: AgentRecordRow, csrf: string): Html {
  const { handle, name, is_paused: isPaused } = agent;
  const button = renderButton({
    path: `${pathOf(account.username)}/agents/${name}/pause`,
    csrf,
    label: isPaused === 1 ? 'Resume' : 'Pause',
    about: handle,
    values: { paused: isPaused === 1 ? 'false' : 'true' },
  });
  return html`<li class="row">${renderAgentFace(handle, 'small')}<div class="who grow"><span class="mono wrap">${handle}</span>${renderAgentBadges(agent)}</div>${!account.is_operator && button}</li>`;
}

/** The newest are shown; those before them follow as these are revoked. */
const GRANTS_SHOWN = 50;

/** The programs that can act for an account. */
interface Grants {
  readonly clients: readonly ClientOfAccountRow[];
  readonly apps: readonly FamilyOfAccountRow[];
}

function renderGrants(account: OperatorAccount, { clients, apps }: Grants, csrf: string, now: number): Html {
  const path = pathOf(account.username);
  const rowsOf = (id: string, title: string, rows: readonly Html[]): Html | undefined =>
    rows.length === 0
      ? undefined
      : html`<section class="stack-tight" aria-labelledby="${id}"><h2 id="${id}">${title}</h2><ul class="rows">${rows}</ul>${rows.length === GRANTS_SHOWN && html`<p class="soft small">These are the newest ${String(GRANTS_SHOWN)}.</p>`}</section>`;
  const row = (name: string, about: Html, lastUsedAt: number | null, button: Html): Html =>
    html`<li class="row"><div class="who grow"><b>${strangersText(name)}</b>${about}</div>
<div class="facts"><span class="soft small">${lastUsedAt === null ? 'Never used' : html`Last used ${renderTime(lastUsedAt, now)}`}</span></div>${!account.is_operator && button}</li>`;
  const credentials = clients.map(({ id, name, handle, last_used_at: usedAt }) =>
    row(
      name,
      html`<span class="mono wrap">${handle}</span><span class="soft small mono wrap">${id}</span>`,
      usedAt,
      renderButton({ path: `${path}/clients/${id}/revoke`, csrf, label: 'Revoke', about: id, kind: 'danger' }),
    ),
  );
  const connected = apps.map(({ id, client_name: name, handle, last_used_at: usedAt }) =>
    row(
      name,
      html`<span class="soft">${handle === null ? 'manages the account' : html`acts as <span class="mono wrap">${handle}</span>`}</span>`,
      usedAt,
      renderButton({ path: `${path}/apps/${id}/disconnect`, csrf, label: 'Disconnect', about: name, kind: 'danger' }),
    ),
  );
  return html`${rowsOf('credentials', 'API credentials', credentials)}${rowsOf('apps', 'Connected apps', connected)}`;
}

function renderFacts(account: OperatorAccount, now: number): Html {
  const { agents, clients, attachment_bytes: bytes, quota, created_at: createdAt } = account;
  const of = (used: string, most: string | undefined): string => (most === undefined ? used : `${used} of ${most}`);
  const pairs: readonly (readonly [label: string, value: Html | string])[] = [
    ['Created', renderTime(createdAt, now)],
    ['Agents', of(String(agents), quota?.agents.toString())],
    ['Credentials', of(String(clients), quota?.clients.toString())],
    ['Attachments', of(formatBytes(bytes), quota === null ? undefined : formatBytes(quota.attachment_bytes))],
    ['Sessions', quota === null ? 'no limit' : `at most ${quota.sessions_per_hour} new ones an hour`],
  ];
  return html`<section class="card stack-tight" aria-labelledby="facts"><h2 id="facts">Usage</h2><dl class="pairs">${pairs.map(([label, value]) => html`<div><dt>${label}</dt><dd>${value}</dd></div>`)}</dl></section>`;
}

function renderOperator({ username }: OperatorAccount): Html {
  return html`<section class="card stack-tight" aria-labelledby="operator"><h2 id="operator">This account is an operator</h2>
<p>You can’t change an operator’s account here. To make this an ordinary account, run <code class="mono wrap">asp serve account operator ${username} no</code> on the machine of the service.</p></section>`;
}

function renderActions({ context }: Visit, account: OperatorAccount, csrf: string): Html {
  const { username, state, tier, is_local: isLocal } = account;
  const path = pathOf(username);
  const isSuspended = state === 'suspended';
  const signsInLocally = isLocal && servesPagesHere(context.settings);
  const access = isSuspended
    ? html`<p class="soft">No one can act for this account. If you resume it, people have to sign in again, and programs with API credentials continue.</p>
<div class="row-actions">${renderButton({ path: `${path}/resume`, csrf, label: 'Resume account' })}</div>`
    : html`<p class="soft">Suspending signs out all browsers and apps at once and invalidates all tokens. You can undo it.</p>
<div class="row-actions">${renderButton({ path: `${path}/suspend`, csrf, label: 'Suspend account', kind: 'danger' })}</div>`;
  const reset = html`<section class="card stack-tight" aria-labelledby="password"><h2 id="password">Password</h2>
<p class="soft">Create a link that lets the owner set a new password, once, within an hour.</p>
<div class="row-actions">${renderButton({ path: `${path}/password-link`, csrf, label: 'Create link' })}</div></section>`;
  const trust = html`<section class="card stack-tight" aria-labelledby="trust"><h2 id="trust">Trust</h2>
<p class="soft">Trusted accounts may have open agents, and account limits do not apply to them.</p>
<div class="row-actions">${tier === 'trusted' ? renderButton({ path: `${path}/distrust`, csrf, label: 'Stop trusting' }) : renderButton({ path: `${path}/trust`, csrf, label: 'Trust account' })}</div></section>`;
  return html`<section class="card stack-tight" aria-labelledby="access"><h2 id="access">Access</h2>${access}</section>
${!isSuspended && !signsInLocally && reset}${!isLocal && trust}
<p class="small"><a class="aside-link quiet-danger" href="${path}/remove">Remove this account…</a></p>
<p class="small"><a class="aside-link quiet-danger" href="${path}/erase">Remove it and erase its data…</a></p>`;
}

/** Other operators are changed on the machine of the service, so one stolen browser cannot shut out all of them. */
async function requireOrdinary(visit: Visit): Promise<OperatorAccount> {
  const account = await readOperatorAccount(visit.context, visit.part('account'));
  if (account.is_operator)
    throw new ServiceError('VALIDATION_ERROR', 'This account is an operator. Only asp serve account can change it.');
  return account;
}

interface Action {
  readonly operation: OperatorOperation;
  readonly changes?: UpdateOperatorAccountRequest;
}

/** Does something with the account in the address, for the operator in front of the page. */
async function act<Answer>(visit: Visit, action: Action, work: (username: string) => Promise<Answer>): Promise<Answer> {
  const { username } = await requireOrdinary(visit);
  return actFor(visit, { ...action, target: username }, () => work(username));
}

/** The form that sets these fields. */
function actChange(changes: UpdateOperatorAccountRequest, note: NoteName): (visit: Visit) => Promise<DashboardAnswer> {
  return async (visit) => {
    const { username } = await act(visit, { operation: 'updateOperatorAccount', changes }, (name) =>
      updateOperatorAccount(visit.context, name, changes),
    );
    return movedWithNote(visit, pathOf(username), note);
  };
}

export const actSuspend = actChange({ suspended: true }, 'account-suspended');
export const actResume = actChange({ suspended: false }, 'account-resumed');
export const actTrustAccount = actChange({ tier: 'trusted' }, 'account-trusted');
export const actDistrustAccount = actChange({ tier: 'standard' }, 'account-standard');

/** A paused agent cannot be invited. */
export async function actPauseAgent(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const { username } = await requireOrdinary(visit);
  const handle = `@${username}.${visit.part('name')}`;
  if ((await context.database.read((query) => findAgentByHandle(query, handle))) === undefined)
    throw new ServiceError('NOT_FOUND');
  const changes = { paused: form.one('paused') === 'true' };
  const action = { operation: 'updateOperatorAgent', target: handle, changes } as const;
  await actFor(visit, action, () => updateOperatorAgent(context, handle, changes));
  return movedWithNote(visit, pathOf(username), changes.paused ? 'paused' : 'resumed');
}

/** The id of the ordinary account in the address. */
async function requireOrdinaryId(visit: Visit): Promise<{ readonly id: string; readonly username: string }> {
  const { username } = await requireOrdinary(visit);
  const account = await visit.context.database.read((query) => findAccountByUsername(query, username));
  if (account === undefined) throw new ServiceError('NOT_FOUND');
  return account;
}

/** Its secret gets no more tokens, and its sockets close. */
export async function actRevokeClient(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  const { id, username } = await requireOrdinaryId(visit);
  const client = await context.database.read((query) => findClientOfAccount(query, id, visit.part('id')));
  if (client === undefined) throw new ServiceError('NOT_FOUND');
  const action = { operation: 'revokeOperatorClient', target: client.id } as const;
  await actFor(visit, action, () => revokeOperatorClient(context, client.id));
  return movedWithNote(visit, pathOf(username), 'revoked');
}

/** The app is signed out, and its sockets close. */
export async function actDisconnectApp(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  const { id, username } = await requireOrdinaryId(visit);
  const app = await context.database.read((query) =>
    findFamilyOfAccount(query, id, livesSince(visit), visit.part('id')),
  );
  if (app === undefined) throw new ServiceError('NOT_FOUND');
  const action = { operation: 'disconnectApp', target: `@${username}: ${app.client_name}` } as const;
  await actFor(visit, action, () =>
    context.database.write((transaction) => revokeFamily(context, transaction, app.id)),
  );
  return movedWithNote(visit, pathOf(username), 'app-disconnected');
}

/** The link is on this page alone; its secret is not stored. */
export async function actPasswordLink(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  const username = visit.part('account');
  const { url, expires_at: expiresAt } = await act(visit, { operation: 'createPasswordLink' }, (name) =>
    createPasswordLink(context, name),
  );
  const main = html`<div class="narrow stack">${renderTrail(html`<bdi>@${username}</bdi>`, pathOf(username))}<h1>Copy this link now</h1>
<section class="card secret stack"><p>You won’t see it again. Anyone who opens it can set the password of <span class="mono wrap">@${username}</span>, once.</p>
${renderCopyable(html`<p class="command"><code class="take">${url}</code></p>`)}<p class="soft small">Valid until ${renderDeadline(expiresAt)}. Earlier links stopped working.</p></section></div>`;
  return page(inArea(`Password link for @${username}`, main));
}

/** The address of a form that is not a page; a browser comes here after signing in again. */
export async function showFormOfAccount(visit: Visit): Promise<DashboardAnswer> {
  return moved(pathOf((await readOperatorAccount(visit.context, visit.part('account'))).username));
}

/** The page that asks before an account ends. */
const askToEnd =
  (verb: 'Remove' | 'Erase', consequences: readonly string[]) =>
  async (visit: Visit): Promise<DashboardAnswer> => {
    const { username, agents } = await requireOrdinary(visit);
    const path = pathOf(username);
    const left = `Its ${formatQuantity(agents, 'agent')} can’t be reached anymore, and ${agents === 1 ? 'leaves' : 'leave'} every session.`;
    const main = renderQuestion({
      title: html`${verb} <span class="mono wrap">@${username}</span>?`,
      consequences: [
        ...(agents === 0 ? [] : [left]),
        'All its browsers and apps are signed out, and its API credentials stop working.',
        ...consequences,
        'The username can never be used again. This cannot be undone.',
      ],
      path: `${path}/${verb.toLowerCase()}`,
      csrf: visit.csrf,
      label: `${verb} account`,
      back: { label: html`<bdi>@${username}</bdi>`, path },
    });
    return page(inArea(`${verb} @${username}?`, main));
  };

export const showRemoveAccount = askToEnd('Remove', [
  'Messages that its agents sent stay with those who received them.',
]);
export const showEraseAccount = askToEnd('Erase', [
  'Sessions in which only its agents ever took part are deleted, with their attachments, and so is what was written about its agents.',
  'Messages that other people’s agents received stay with them.',
]);

export async function actRemoveAccount(visit: Visit): Promise<DashboardAnswer> {
  await act(visit, { operation: 'removeOperatorAccount' }, (name) => removeOperatorAccount(visit.context, name));
  return movedWithNote(visit, PATH, 'account-removed');
}

export async function actEraseAccount(visit: Visit): Promise<DashboardAnswer> {
  await act(visit, { operation: 'eraseOperatorAccount' }, (name) => eraseOperatorAccount(visit.context, name));
  return movedWithNote(visit, PATH, 'account-erased');
}

const INVITATIONS = `${OPERATOR_AREA}/invitations`;
const DAY_MS = 24 * 60 * 60 * 1000;
const DAYS = ['1', '7', '30'] as const;

const SIGN_UP: Readonly<Record<ServiceContext['settings']['accountPolicy']['signUp'], string>> = {
  open: 'Everyone can sign up here, so no one needs an invitation.',
  invite: 'People need an invitation to sign up here. Each is for one person.',
  off: 'No one can sign up here, with or without an invitation.',
};

export async function showInvitations(visit: Visit): Promise<DashboardAnswer> {
  const { context, csrf, note } = visit;
  const now = context.clock.now();
  const listed = await context.database.read((query) =>
    readListed(visit, {
      scope: ['invitations'],
      start: [LAST_LINK],
      toPosition: ({ id }: InvitationRow) => [id],
      read: ([beforeId], limit) => listInvitations(query, beforeId, limit),
    }),
  );
  const nothing = renderEmpty('No invitations', html`<p>An invitation is a link that lets one person sign up.</p>`);
  const rows = renderList(INVITATIONS, listed, (row) => renderInvitation(toInvitation(row, now), csrf, now), nothing);
  const heading = { title: 'Invitations', about: SIGN_UP[context.settings.accountPolicy.signUp] };
  return page(renderAreaPage('invitations', { heading, note, body: html`${renderInvite(csrf)}${rows}` }));
}

function renderInvite(csrf: string): Html {
  const options = DAYS.map((days) => ({ value: days, label: days === '1' ? 'One day' : `${days} days` }));
  const selection = { id: 'days', name: 'days', label: 'Valid for', nothing: 'Choose', options };
  return html`<form method="post" action="${INVITATIONS}" class="card add narrow">${hidden({ csrf })}${renderSelection(selection, '7', [])}<button class="button primary">Create invitation</button></form>`;
}

function renderInvitation({ id, state, account, created_at, expires_at }: Invitation, csrf: string, now: number): Html {
  const badge = {
    open: html`<span class="badge good">Open</span>`,
    used: html`<span class="badge">Used</span>`,
    expired: html`<span class="badge warn">Expired</span>`,
  }[state];
  const by = account !== null && html`<span class="mono wrap">@${account}</span>`;
  const until = state === 'open' && html`<span>Valid until ${renderDeadline(expires_at)}</span>`;
  const revoke = renderButton({ path: `${INVITATIONS}/${id}/revoke`, csrf, label: 'Revoke', about: id });
  return html`<li class="row"><div class="who grow"><span class="mono wrap">${id}</span>${by}</div><p class="badges">${badge}</p>
<p class="facts soft small"><span>Created ${renderTime(created_at, now)}</span>${until}</p>${state === 'open' && revoke}</li>`;
}

/** The link is on this page alone; its secret is not stored. */
export async function actInvite(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const days = DAYS.find((one) => one === form.one('days')) ?? '7';
  const changes = { lifetime_ms: Number(days) * DAY_MS };
  const action = { operation: 'createInvitation', target: '', changes } as const;
  const { url, expires_at: expiresAt } = await actFor(visit, action, () => createInvitation(context, changes));
  const main = html`<div class="narrow stack">${renderTrail('Invitations', INVITATIONS)}<h1>Copy this link now</h1>
<section class="card secret stack"><p>You won’t see it again. One person who opens it can sign up.</p>
${renderCopyable(html`<p class="command"><code class="take">${url}</code></p>`)}<p class="soft small">Valid until ${renderDeadline(expiresAt)}.</p></section></div>`;
  return page(inArea('Invitation link', main));
}

export async function actRevokeInvitation(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  const target = visit.part('id');
  const action = { operation: 'revokeInvitation', target } as const;
  await actFor(visit, action, () => revokeInvitation(context, target));
  return movedWithNote(visit, INVITATIONS, 'invitation-revoked');
}

/** The address of a form that is not a page; a browser comes here after signing in again. */
export async function showFormOfInvitations(): Promise<DashboardAnswer> {
  return moved(INVITATIONS);
}
