import { isSameSecret } from '../../../kit/same-secret.js';
import { ID_PREFIX } from '../../../wire/id.js';
import { AGENT_SCOPES, SCOPE_DESCRIPTION, type Scope } from '../../../wire/scope.js';
import { requireRoomFor } from '../../agents/accounts.js';
import type { ServiceContext } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { changeConfidentialClient, createConfidentialClient, revokeConfidentialClient } from '../../oauth/clients.js';
import { parseScopes } from '../../oauth/metadata.js';
import type { Parameters } from '../../oauth/parameters.js';
import { hashSecret, toSecret } from '../../oauth/secret.js';
import { type AgentRecordRow, findAgentByHandle, listAgentsOfAccount } from '../../store/agents.js';
import { AFTER_EVERY_ULID } from '../../store/cursor.js';
import {
  type ClientOfAccountRow,
  findClientOfAccount,
  listClientsOfAccount,
  replaceClientSecret,
} from '../../store/oauth-clients.js';
import {
  type Choices,
  type Field,
  hidden,
  type Mistake,
  renderChoices,
  renderField,
  renderMistakes,
  renderSelection,
  renderTicks,
  toTitle,
} from '../form.js';
import { type Html, html, renderFace } from '../html.js';
import { renderDeadline, renderTime } from '../time.js';
import { renderAgentChoice } from './agents.js';
import {
  isEmpty,
  renderCommand,
  renderEmpty,
  renderHeading,
  renderList,
  renderNote,
  renderQuestion,
  renderTrail,
  type View,
} from './frame.js';
import { describeRefused } from './refusals.js';
import { letShowSecret, renderNewSecret, type TakenSecret, takeSecret } from './shown-secret.js';
import {
  createFormKey,
  type DashboardAnswer,
  mistaken,
  moved,
  movedWithNote,
  once,
  page,
  type Refusal,
  readListed,
  refused,
  toKey,
  UNREFUSED,
  type Visit,
  withHeaders,
} from './visit.js';

const NAME_MAX_LENGTH = 100;
const DAY_MS = 24 * 60 * 60 * 1000;

const NEW_CLIENT = { label: 'New API credential', path: '/dashboard/new-client' } as const;
const BEFORE_ALL = `${ID_PREFIX.oauthClient}${AFTER_EVERY_ULID}`;

export async function showClients(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, note } = visit;
  const listed = await context.database.read((view) =>
    readListed(visit, {
      scope: ['clients', account.id],
      start: [BEFORE_ALL],
      toPosition: ({ id }: ClientOfAccountRow) => [id],
      read: ([before], limit) => listClientsOfAccount(view, account.id, before, limit),
    }),
  );
  const heading = renderHeading({
    title: 'API credentials',
    about: 'Let a server act as one of your agents, without anyone signing in.',
    ...(!isEmpty(listed) && { action: NEW_CLIENT }),
  });
  const nothing = renderEmpty(
    'No API credentials yet',
    html`<p>Create one for a program that runs on its own: a build, a scheduled job, a back end.</p>
<p><a class="button primary" href="${NEW_CLIENT.path}">Create an API credential</a></p>
<p>Its secret is shown once, with the environment variables that the program needs.</p>`,
  );
  const now = context.clock.now();
  const list = renderList('/dashboard/clients', listed, (client) => renderRow(client, now), nothing);
  const main = html`<div class="stack">${heading}${renderNote(note)}${list}</div>`;
  return page({ title: 'API credentials', section: 'clients', main });
}

function renderRow(client: ClientOfAccountRow, now: number): Html {
  const { id, name, handle, created_at: createdAt, last_used_at: usedAt } = client;
  return html`<li class="row">${renderFace(name)}
<div class="who grow"><a class="row-link" href="/dashboard/clients/${id}"><bdi>${name}</bdi></a><span class="mono">${handle}</span></div>
${isExpired(client, now) && html`<p class="badges"><span class="badge warn">Expired</span></p>`}<p class="facts soft small"><span>Created ${renderTime(createdAt, now)}</span><span>${usedAt === null ? 'Never used' : html`Last used ${renderTime(usedAt, now)}`}</span></p></li>`;
}

const isExpired = ({ expires_at: expiresAt }: ClientOfAccountRow, now: number): boolean =>
  expiresAt !== null && expiresAt <= now;

const EXPIRY_DAYS = ['30', '90', '365'];
const EXPIRY = {
  id: 'expiry',
  name: 'expiry',
  label: 'Expires',
  nothing: 'Never',
  isRequired: false,
  options: EXPIRY_DAYS.map((days) => ({ value: days, label: `After ${days} days` })),
};
const NEVER = 'never';
const NEW_EXPIRY = {
  ...EXPIRY,
  nothing: 'No change',
  options: [
    { value: NEVER, label: 'Never' },
    ...EXPIRY_DAYS.map((days) => ({ value: days, label: `${days} days from now` })),
  ],
};

const SCOPE_TICKS: Choices = {
  name: 'scope',
  legend: 'Permissions',
  choices: AGENT_SCOPES.map((scope) => ({ value: scope, label: SCOPE_DESCRIPTION[scope] })),
};

/** The settings of a client, as typed. */
interface FilledSettings {
  readonly name: string;
  readonly scopes: readonly Scope[];
  /** A number of days, or `never`. Empty: a new client never expires, and an existing one keeps its expiry. */
  readonly expiry: string;
}

export async function showNewClient(visit: Visit, form?: Parameters, refusal = UNREFUSED): Promise<DashboardAnswer> {
  const { context, account, csrf, query: asked } = visit;
  const { mistakes } = refusal;
  const filled =
    form === undefined
      ? { name: '', chosen: asked.one('agent'), scopes: AGENT_SCOPES, expiry: '' }
      : readForm(visit, form);
  const agents = await context.database.read((query) => listAgentsOfAccount(query, account.id));
  const rendered = html`<form method="post" action="${NEW_CLIENT.path}" class="card stack" aria-label="New API credential">${hidden({ csrf, key: createFormKey(context) })}
${renderField({ ...NAME_FIELD, hint: 'A name to recognize it by.', value: filled.name }, mistakes)}
${renderAgentChoice(account, agents, { label: 'Acts as', chosen: filled.chosen, mistakes })}
${renderTicks(SCOPE_TICKS, filled.scopes, mistakes)}
${renderSelection(EXPIRY, filled.expiry, mistakes)}
<div class="row-actions"><button class="button primary">Create API credential</button><a class="button plain" href="/dashboard/clients">Cancel</a></div></form>`;
  const noAgents = renderEmpty(
    'You need an agent first',
    html`<p>An API credential acts as one of your agents, and you have none yet.</p><p><a class="button primary" href="/dashboard/new-agent">Create an agent</a></p>`,
  );
  const main = html`<div class="narrow stack">${renderTrail('API credentials', '/dashboard/clients')}<h1>New API credential</h1>
${renderMistakes(mistakes)}${agents.length === 0 ? noAgents : rendered}</div>`;
  return refused({ title: toTitle('New API credential', mistakes), section: 'clients', main }, refusal);
}

const NAME_FIELD: Field = { id: 'name', name: 'name', label: 'Name', autocomplete: 'off', maxLength: NAME_MAX_LENGTH };

/** Shows a client, and once, right after it was created, its secret too. */
export async function showClient(visit: Visit, form?: Parameters, refusal = UNREFUSED): Promise<DashboardAnswer> {
  const { context, csrf, note } = visit;
  const { mistakes } = refusal;
  const client = await context.database.read((query) => requireClientOf(visit, query));
  const { id, name, handle, agent_name: agentName } = client;
  const shown = takeClientSecret(visit, client);
  const filled = form ? readSettings(form) : { name, scopes: parseScopes(client.scope), expiry: '' };
  const path = `/dashboard/clients/${id}`;
  const main = html`<div class="stack">${renderTrail('API credentials', '/dashboard/clients')}
<div class="identity">${renderFace(name, 'large')}<div class="who grow"><h1><bdi>${name}</bdi></h1><span class="soft">acts as <a class="mono" href="/dashboard/agents/${agentName}">${handle}</a></span></div></div>
${renderNote(note)}${renderMistakes(mistakes)}${shown !== undefined && renderSecret(id, shown.secret, context.settings.addresses.baseUrl)}
<div class="columns"><div class="stack">${renderDetails(client, shown !== undefined, visit)}
<section class="card stack-tight" aria-labelledby="replace"><h2 id="replace">Replace or revoke</h2>
<p class="soft small">With a new secret, the old one can keep working until every program has the new one.</p>
<div class="row-actions"><a class="button plain" href="${path}/rotate">New secret…</a><a class="button plain quiet-danger" href="${path}/revoke">Revoke this API credential…</a></div></section></div>
<form method="post" action="${path}" class="card stack" aria-label="Settings">${hidden({ csrf, [SEEN]: toVersion(client) })}
${renderField({ ...NAME_FIELD, value: filled.name }, mistakes)}
${renderTicks(SCOPE_TICKS, filled.scopes, mistakes)}
${renderSelection(NEW_EXPIRY, filled.expiry, mistakes)}
<p class="soft small">Existing access tokens keep their permissions for up to 15 minutes.</p>
<div class="row-actions"><button class="button primary">Save changes</button></div></form></div></div>`;
  const view: View = { title: toTitle(name, mistakes), section: 'clients', main };
  return withHeaders(refused(view, refusal), shown?.headers ?? {});
}

function renderDetails(client: ClientOfAccountRow, isSecretShown: boolean, { context }: Visit): Html {
  const now = context.clock.now();
  const { id, created_at: createdAt, last_used_at: usedAt, expires_at: expiresAt, old_secret_until: oldUntil } = client;
  const expiry = html`<div><dt>${isExpired(client, now) ? 'Expired' : 'Expires'}</dt><dd>${expiresAt === null ? 'Never' : renderDeadline(expiresAt)}</dd></div>`;
  const old =
    oldUntil !== null &&
    oldUntil > now &&
    html`<div><dt>Old secret</dt><dd>Works until ${renderDeadline(oldUntil)}</dd></div>`;
  const [refused] = context.refusals.listCalls(id);
  const limited =
    refused && html`<div><dt>Rate limit of tokens</dt><dd>Reached: ${describeRefused(refused, now)}</dd></div>`;
  return html`<section class="card stack-tight" aria-labelledby="facts"><h2 id="facts">Details</h2>
<dl class="pairs"><div><dt>Client ID</dt><dd class="mono wrap">${id}</dd></div><div><dt>Secret</dt><dd>${isSecretShown ? 'Shown above' : 'Shown only once, at creation'}</dd></div><div><dt>Created</dt><dd>${renderTime(createdAt, now)}</dd></div><div><dt>Last used</dt><dd>${usedAt === null ? 'Never' : renderTime(usedAt, now)}</dd></div>${expiry}${old}${limited}</dl></section>`;
}

function renderSecret(id: string, secret: string, baseUrl: string): Html {
  const use = html`<p class="soft small">Set these in the environment of the program, and check them:</p>${renderCommand([`export ASP_PROFILE=${baseUrl}`, `export ASP_CLIENT_ID=${id}`, `export ASP_CLIENT_SECRET=${secret}`, 'asp whoami'])}`;
  const ifLost = 'If you lose it, revoke this API credential and create another.';
  return renderNewSecret({ id: 'client-secret', secret, ifLost, use });
}

/** The settings that a form has seen: it must not undo what another window changed since. */
const SEEN = 'seen';

const toVersion = ({ name, scope, expires_at: expiresAt }: ClientOfAccountRow): string =>
  JSON.stringify([name, scope, expiresAt]);

const CHANGED: Refusal = {
  mistakes: [{ message: 'Another window changed this API credential. These are its settings now.' }],
  status: 409,
};

export async function actClient(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const { name, scopes, expiry } = readSettings(form);
  const mistakes = [...findNameMistakes(name), ...findScopeMistakes(scopes)];
  if (mistakes.length > 0) return showClient(visit, form, mistaken(...mistakes));
  const isChanged = await context.database.write(async (transaction) => {
    const row = await requireClientOf(visit, transaction);
    if (toVersion(row) !== form.one(SEEN)) return false;
    const expiresAt = expiry === '' ? row.expires_at : toExpiresAt(context, expiry);
    await changeConfidentialClient(context, transaction, row, { name, scopes, expiresAt });
    return true;
  });
  return isChanged
    ? movedWithNote(visit, `/dashboard/clients/${visit.part('id')}`, 'saved')
    : showClient(visit, undefined, CHANGED);
}

function readSettings(form: Parameters): FilledSettings {
  return {
    name: (form.one('name') ?? '').trim(),
    scopes: AGENT_SCOPES.filter((scope) => form.every('scope').includes(scope)),
    expiry: [...EXPIRY_DAYS, NEVER].find((one) => one === form.one('expiry')) ?? '',
  };
}

/** Null: never. */
function toExpiresAt({ clock }: Pick<ServiceContext, 'clock'>, expiry: string): number | null {
  const days = Number(expiry);
  return days > 0 ? clock.now() + days * DAY_MS : null;
}

const OVERLAPS = [
  { value: '86400', label: '24 hours', about: 'Enough time to update every program that uses it.' },
  { value: '604800', label: '7 days' },
  { value: '3600', label: '1 hour' },
  { value: '0', label: 'Not at all', about: 'Choose this if the secret may have leaked.' },
] as const;

export async function showRotateClient(visit: Visit): Promise<DashboardAnswer> {
  const { id, name } = await visit.context.database.read((query) => requireClientOf(visit, query));
  const path = `/dashboard/clients/${id}`;
  const choices = { name: 'overlap', legend: 'The old secret keeps working for', choices: OVERLAPS };
  const main = renderQuestion({
    title: html`New secret for “<bdi>${name}</bdi>”?`,
    consequences: [
      'The new secret is shown once, on the next page.',
      'Access tokens from the old secret expire within 15 minutes after it ends.',
    ],
    path: `${path}/rotate`,
    csrf: visit.csrf,
    label: 'Create new secret',
    fields: html`${hidden({ key: createFormKey(visit.context) })}${renderChoices(choices, OVERLAPS[0].value, [])}`,
    back: { label: html`<bdi>${name}</bdi>`, path },
  });
  return page({ title: `New secret for “${name}”?`, section: 'clients', main });
}

/** Gives the client a new secret; like the first one, only the browser that sent the form can show it (D-103). */
export async function actRotateClient(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const overlap = OVERLAPS.find(({ value }) => value === form.one('overlap')) ?? OVERLAPS[0];
  const key = toKey(form, ['overlap']);
  const id = visit.part('id');
  const path = `/dashboard/clients/${id}`;
  const rotatedAt = await once(visit, { path: `${path}/rotate`, key }, async (transaction) => {
    const row = await requireClientOf(visit, transaction);
    const now = context.clock.now();
    const secretHash = hashSecret(deriveClientSecret(visit, key));
    await replaceClientSecret(transaction, row.id, secretHash, now + Number(overlap.value) * 1000);
    return String(now);
  });
  return moved(path, letShowSecret(visit, path, key, Number(rotatedAt)));
}

export async function showRevokeClient(visit: Visit): Promise<DashboardAnswer> {
  const { id, name, handle } = await visit.context.database.read((query) => requireClientOf(visit, query));
  const path = `/dashboard/clients/${id}`;
  const main = renderQuestion({
    title: html`Revoke “<bdi>${name}</bdi>”?`,
    consequences: [
      html`Programs that use it can no longer act as <span class="mono wrap">${handle}</span>. Their connections are closed at once.`,
      'Existing access tokens expire within 15 minutes.',
      'This cannot be undone. A new API credential has a new ID and secret.',
    ],
    path: `${path}/revoke`,
    csrf: visit.csrf,
    label: 'Revoke API credential',
    back: { label: html`<bdi>${name}</bdi>`, path },
  });
  return page({ title: `Revoke “${name}”?`, section: 'clients', main });
}

export async function actRevokeClient(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  await context.database.write(async (transaction) => {
    const row = await requireClientOf(visit, transaction);
    await revokeConfidentialClient(context, transaction, row.id);
  });
  return movedWithNote(visit, '/dashboard/clients', 'revoked');
}

/**
 * The secret of the client that a form creates. Only the browser that sent the form can derive it again: the service
 * stores only its hash, and a form that was sent twice by a double click has one client and one secret (D-103).
 */
function deriveClientSecret({ browser }: Pick<Visit, 'browser'>, key: string): string {
  return toSecret(browser.chanceFor(`client ${key}`), 'clientSecret');
}

/** The secret to show now. */
function takeClientSecret(visit: Visit, { id, secret_hash: hash }: ClientOfAccountRow): TakenSecret | undefined {
  return takeSecret(
    visit,
    `/dashboard/clients/${id}`,
    (key) => deriveClientSecret(visit, key),
    (secret) => hash !== null && isSameSecret(hashSecret(secret), hash),
  );
}

/** The account's own client in the address; another account's, a revoked one and a nonexistent one look the same. */
async function requireClientOf({ account, part }: Visit, query: Query): Promise<ClientOfAccountRow> {
  const row = await findClientOfAccount(query, account.id, part('id'));
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return row;
}

export async function actNewClient(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  const { name, chosen, scopes, expiry } = readForm(visit, form);
  const agent = await context.database.read((query) => findNamedAgent(visit, query, chosen));
  const agentMistakes = findAgentMistakes({ chosen, isThere: agent !== undefined });
  const mistakes = [...findNameMistakes(name), ...agentMistakes, ...findScopeMistakes(scopes)];
  if (mistakes.length > 0) return showNewClient(visit, form, mistaken(...mistakes));
  const key = toKey(form, ['name', 'agent', 'scope', 'expiry']);
  const clientId = await once(visit, { path: NEW_CLIENT.path, key }, async (transaction) => {
    const found = await findNamedAgent(visit, transaction, chosen);
    if (found === undefined) throw new ServiceError('NOT_FOUND');
    await requireRoomFor('clients', context, transaction, visit.account);
    const secret = deriveClientSecret(visit, key);
    const expiresAt = toExpiresAt(context, expiry);
    const client = { name, accountId: visit.account.id, agentId: found.id, scopes, secret, expiresAt };
    return (await createConfidentialClient(context, transaction, client)).clientId;
  });
  const made = await context.database.read((query) => findClientOfAccount(query, visit.account.id, clientId));
  if (made === undefined) throw new ServiceError('NOT_FOUND');
  const path = `/dashboard/clients/${clientId}`;
  return moved(path, letShowSecret(visit, path, key, made.created_at));
}

function readForm(visit: Visit, form: Parameters) {
  return { ...readSettings(form), chosen: readAgentName(visit, form) };
}

/** The second half of a handle, even if both halves were typed. */
function readAgentName({ account }: Visit, form: Parameters): string {
  const typed = (form.one('agent') ?? '').trim();
  const own = `@${account.username}.`;
  return typed.startsWith(own) ? typed.slice(own.length) : typed;
}

/** Another account's agents have no name here. */
function findNamedAgent({ account }: Visit, query: Query, name: string): Promise<AgentRecordRow | undefined> {
  return findAgentByHandle(query, `@${account.username}.${name}`);
}

function findNameMistakes(name: string): Mistake[] {
  const isFine = name !== '' && name.length <= NAME_MAX_LENGTH;
  return isFine ? [] : [{ field: 'name', message: 'Enter a name of 1 to 100 characters.' }];
}

function findScopeMistakes(scopes: readonly Scope[]): Mistake[] {
  return scopes.length > 0 ? [] : [{ field: 'scope-0', message: 'Choose at least one permission.' }];
}

function findAgentMistakes({ chosen, isThere }: { readonly chosen: string; readonly isThere: boolean }): Mistake[] {
  if (chosen === '') return [{ field: 'agent', message: 'Choose an agent to act as.' }];
  return isThere ? [] : [{ field: 'agent', message: 'You have no agent with this name.' }];
}
