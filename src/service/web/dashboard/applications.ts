import { REFRESH_TOKEN_IDLE_LIFETIME_S } from '../../../wire/limit.js';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { closeSockets } from '../../messaging/presence.js';
import { parseScopes } from '../../oauth/metadata.js';
import { revokeFamily } from '../../oauth/revoke.js';
import {
  type FamilyOfAccountRow,
  findFamilyOfAccount,
  listFamiliesOfAccount,
  revokeSignInsOfAccount,
} from '../../store/authorizations.js';
import { type Html, html, renderFace, strangersText } from '../html.js';
import { parseBrowserName } from '../sign-in.js';
import { renderTime } from '../time.js';
import {
  aspCommand,
  renderCommand,
  renderEmpty,
  renderHeading,
  renderList,
  renderNote,
  renderQuestion,
  renderScopes,
} from './frame.js';
import { type DashboardAnswer, movedWithNote, page, readListed, type Visit } from './visit.js';

const PATH = '/dashboard/applications';
const BACK = { label: 'Connected apps', path: PATH };

/** Apps that may act as an agent or as the account. Their names are not verified. */
export async function showApplications(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, note } = visit;
  const { baseUrl, mcpUrl } = context.settings.addresses;
  const listed = await context.database.read((view) =>
    readListed(visit, {
      scope: ['applications', account.id],
      start: [Number.MAX_SAFE_INTEGER, ''],
      toPosition: (row: FamilyOfAccountRow) => [row.created_at, row.id],
      read: ([createdAt, id], limit) =>
        listFamiliesOfAccount(view, account.id, livesSince(visit), { createdAt, id }, limit),
    }),
  );
  const heading = renderHeading({
    title: 'Connected apps',
    about:
      'Apps you’ve allowed to act for you. App names are chosen by the apps and aren’t verified. An app counts as used when it refreshes its token, about every 15 minutes while it works.',
  });
  const hasSeveral = listed.items.length > 1 || listed.trail.length > 0;
  const end =
    hasSeveral &&
    html`<p class="small"><a class="aside-link quiet-danger" href="${PATH}/disconnect-all">Disconnect all…</a></p>`;
  const nothing = renderEmpty(
    'No connected apps',
    html`<p>Apps ask you before they act as one of your agents. So does the command line:</p>${renderCommand([aspCommand({ baseUrl }, 'login')])}<p>If a chat program asks for the URL of an MCP server, use this one: <code>${mcpUrl}</code></p>`,
  );
  const now = context.clock.now();
  const list = renderList(PATH, listed, (one) => renderRow(one, now), nothing);
  const main = html`<div class="stack">${heading}${renderNote(note)}${list}${end}</div>`;
  return page({ title: 'Connected apps', section: 'applications', main });
}

function renderRow(app: FamilyOfAccountRow, now: number): Html {
  const { id, client_name: name, scope, created_at: createdAt, last_used_at: usedAt } = app;
  return html`<li class="row tall">${renderFace(name)}
<div class="who grow"><b>${strangersText(name)}</b><span class="soft">${renderGrantee(app)}</span>${renderLastUse(app)}
<details class="quiet"><summary>Permissions</summary>${renderScopes(parseScopes(scope))}</details></div>
<p class="facts soft small"><span>Allowed ${renderTime(createdAt, now)}</span><span>Last used ${renderTime(usedAt, now)}</span></p>
<a class="button plain small-button" href="${PATH}/${id}/disconnect">Disconnect<span class="hidden-label"> ${strangersText(name)}, which ${renderGrantee(app)}</span></a></li>`;
}

/** From which network and with which program the app last requested a token. It names its program itself. */
function renderLastUse({ last_network: network, last_program: program }: FamilyOfAccountRow): Html | undefined {
  if (network === null) return undefined;
  const named =
    program !== null && html` with ${strangersText(isBrowser(program) ? parseBrowserName(program) : program)}`;
  return html`<span class="soft small wrap">Last token from <span class="mono">${network}</span>${named}</span>`;
}

const isBrowser = (userAgent: string): boolean => userAgent.startsWith('Mozilla/');

function renderGrantee({ handle }: FamilyOfAccountRow): Html {
  return handle === null
    ? html`manages your account and its agents`
    : html`acts as <span class="mono wrap">${handle}</span>`;
}

export async function showDisconnect(visit: Visit): Promise<DashboardAnswer> {
  const { context, csrf } = visit;
  const app = await context.database.read((query) => requireFamily(visit, query));
  const allowed = renderTime(app.created_at, context.clock.now());
  const main = renderQuestion({
    title: html`Disconnect <span class="quoted">“${strangersText(app.client_name)}”</span>?`,
    consequences: [
      html`It ${renderGrantee(app)}. You allowed it ${allowed}. Its connections are closed at once.`,
      'Existing access tokens expire within 15 minutes.',
      'It must ask you before it can act for you again.',
    ],
    path: `${PATH}/${app.id}/disconnect`,
    csrf,
    label: 'Disconnect',
    back: BACK,
  });
  return page({ title: 'Disconnect an app?', section: 'applications', main });
}

export async function showDisconnectAll(visit: Visit): Promise<DashboardAnswer> {
  const main = renderQuestion({
    title: 'Disconnect all apps?',
    consequences: [
      'Every app you allowed to act for you is signed out, and its connections are closed at once.',
      'Existing access tokens expire within 15 minutes.',
      'Programs with API credentials continue to work.',
    ],
    path: `${PATH}/disconnect-all`,
    csrf: visit.csrf,
    label: 'Disconnect all',
    back: BACK,
  });
  return page({ title: 'Disconnect all apps?', section: 'applications', main });
}

export async function actDisconnectAll(visit: Visit): Promise<DashboardAnswer> {
  const { context, account } = visit;
  await context.database.write(async (transaction) => {
    const grantIds = await revokeSignInsOfAccount(transaction, account.id, context.clock.now());
    await closeSockets(context, transaction, grantIds);
  });
  return movedWithNote(visit, PATH, 'all-disconnected');
}

/** Ends the family: its tokens are refused and its sockets closed, as if the app had signed out. */
export async function actDisconnect(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  await context.database.write(async (transaction) => {
    const row = await requireFamily(visit, transaction);
    await revokeFamily(context, transaction, row.id);
  });
  return movedWithNote(visit, PATH, 'disconnected');
}

async function requireFamily(visit: Visit, query: Query): Promise<FamilyOfAccountRow> {
  const row = await findFamilyOfAccount(query, visit.account.id, livesSince(visit), visit.part('id'));
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return row;
}

/** A login that was unused for longer has expired (spec: Refresh). */
export const livesSince = ({ context }: Pick<Visit, 'context'>): number =>
  context.clock.now() - REFRESH_TOKEN_IDLE_LIFETIME_S * 1000;
