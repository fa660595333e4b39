import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import { formatQuantity } from '../../../kit/format.js';
import { isId } from '../../../wire/id.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import { signAccountDownload } from '../../attachments/attachments.js';
import type { ServiceContext } from '../../core/context.js';
import type { Query, Transaction } from '../../core/database.js';
import { hasCode, ServiceError } from '../../core/errors.js';
import { GET_AND_HEAD } from '../../http/answers.js';
import { endAt, findExtent, readAccountRows, toEnvelope } from '../../messaging/events.js';
import { type Parameters, readQuery } from '../../oauth/parameters.js';
import { hashSecret } from '../../oauth/secret.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import { findSignedInAccount } from '../../store/browser-sessions.js';
import { accountLock, sessionLock } from '../../store/lock-names.js';
import {
  countShareLinks,
  deleteShareLink,
  findShareLink,
  insertShareLink,
  listShareLinksOfAccount,
  listShareLinksOfSession,
  type ShareLinkRow,
} from '../../store/share-links.js';
import { redirect } from '../api-scope.js';
import { hidden, renderMistakes } from '../form.js';
import { CAUTION, type Html, html, untrustedText } from '../html.js';
import { readLook, sendErrorPage } from '../layout.js';
import { renderDeadline, renderTime } from '../time.js';
import { type EntryContext, prepareEntries, toEntries } from './entries.js';
import {
  readerHeaders,
  renderButton,
  renderCopyable,
  renderEmpty,
  renderHeading,
  renderList,
  renderNote,
  renderReaderPage,
  renderTrail,
  type View,
} from './frame.js';
import { answerStranger, type PageBounds } from './page-bounds.js';
import { pathOfSession, renderTopic } from './sessions.js';
import { letShowSecret, takeSecret } from './shown-secret.js';
import {
  findEvent,
  findSeenSession,
  PER_PAGE,
  queryOf,
  READ_MAX_CHARACTERS,
  readLatest,
  readSequence,
  renderEntries,
  requireSeen,
  type SeenSession,
} from './transcript.js';
import {
  createFormKey,
  type DashboardAnswer,
  mistaken,
  moved,
  movedWithNote,
  once,
  page,
  readListed,
  refused,
  toKey,
  UNREFUSED,
  type Visit,
  withAffected,
} from './visit.js';

/** All links of the account. */
export const LINKS_PATH = '/dashboard/links';
const SHARED = '/shared';
const LINKS_MAX = 100;
const DAY_MS = 24 * 3_600_000;
const DAYS = [1, 7, 30] as const;
const DEFAULT_DAYS: (typeof DAYS)[number] = 7;

const getLinksPath = ({ part }: Pick<Visit, 'part'>): string => `${pathOfSession(part('session_id'))}/links`;

/** Only the browser that sent the form can derive it again (D-103). */
const deriveSecret = ({ browser }: Pick<Visit, 'browser'>, key: string): string =>
  browser.chanceFor(`share link ${key}`);

function requireLinks({ settings }: Pick<ServiceContext, 'settings'>): void {
  if (settings.shareLinks === 'off') throw new ServiceError('NOT_FOUND');
}

/** The links to one session, and the form for another. */
export async function showSessionLinks(visit: Visit, form?: Parameters, refusal = UNREFUSED): Promise<DashboardAnswer> {
  const { context, account, csrf, note } = visit;
  requireLinks(context);
  const now = context.clock.now();
  const { seen, links, canShare } = await context.database.read(async (query) => {
    const seen = await requireSeen(visit, query);
    const of = { accountId: account.id, sessionId: seen.session.id };
    const links = await listShareLinksOfSession(query, of, now, LINKS_MAX);
    return { seen, links, canShare: (await findExtent(query, seen.view)) !== undefined };
  });
  const { session, view } = seen;
  const path = getLinksPath(visit);
  const isCurrent = (secret: string): boolean => links.some(({ secret_hash: hash }) => hash === hashSecret(secret));
  const taken = takeSecret(visit, path, (key) => deriveSecret(visit, key), isCurrent);
  const whose = view.agent === undefined ? 'your agents' : html`<b class="mono wrap">${view.agent.handle}</b>`;
  const main = html`<div class="narrow stack">${renderTrail(renderTopic(session), `${pathOfSession(session.id)}${queryOf(view)}`)}
<div class="stack-tight"><h1>Share this session</h1>
${canShare && html`<p class="soft">Anyone who has the link can read everything that ${whose} can see in this session now, including files, without signing in. They can’t see later messages or take part.</p>`}</div>
${renderNote(note)}${taken !== undefined && renderNewLink(`${context.settings.addresses.webUrl}${SHARED}/${taken.secret}`)}
${renderMistakes(refusal.mistakes)}
${canShare ? renderForm(`${path}${queryOf(view)}`, hidden({ csrf, key: createFormKey(context) }), readDays(form)) : renderOnlyInvited(path, view)}
${links.length > 0 && html`<section class="stack-tight" aria-labelledby="links"><h2 id="links">Links to this session</h2><ul class="rows">${links.map((link) => renderLink(link, { csrf, now }))}</ul></section>`}
<p class="soft small"><a href="${LINKS_PATH}">All your links</a></p></div>`;
  const shown = { title: 'Share a session', section: 'sessions', main } as const;
  return taken === undefined ? refused(shown, refusal) : page(shown, { headers: taken.headers });
}

function renderForm(address: string, fields: Html, chosen: (typeof DAYS)[number]): Html {
  const choices = DAYS.map(
    (count) =>
      html`<option value="${count}"${count === chosen && html` selected`}>${formatQuantity(count, 'day')}</option>`,
  );
  return html`<form method="post" action="${address}" class="card stack">${fields}
<div class="stack-tight"><label for="days">The link works for</label><select id="days" name="days">${choices}</select></div>
<p class="soft small">Others wrote some of these messages. Share the session only with people who may read all of it.</p>
<div class="row-actions"><button class="button primary">Create link</button></div></form>`;
}

/** The view of such an agent does not begin with the session, and a link remembers only where a view ends. */
function renderOnlyInvited(path: string, { agent }: SeenSession['view']): Html {
  return html`<div class="card stack"><p><b class="mono wrap">${agent?.handle}</b> has not joined this session, so its view can’t be shared.</p>
<div class="row-actions"><a class="button plain" href="${path}">Share what your agents see…</a></div></div>`;
}

function renderNewLink(address: string): Html {
  return html`<section class="card secret stack" aria-labelledby="new-link"><div class="stack-tight"><h2 id="new-link">Copy the link now</h2>
<p class="notice">${CAUTION}<span>You won’t see it again. If you lose it, create another one.</span></p></div>
${renderCopyable(html`<p class="command"><code class="take">${address}</code></p>`)}</section>`;
}

interface LinkList {
  readonly csrf: string;
  readonly now: number;
  /** The topic of each link's session, in the list of all links. */
  readonly isOfAll?: boolean;
}

function renderLink(link: ShareLinkRow & { readonly topic?: string | null }, { csrf, now, isOfAll }: LinkList): Html {
  const { id, session_id: sessionId, topic = null, last_sequence: last, created_at: at, expires_at: end } = link;
  const seen = link.view_handle !== null && html`, as seen by <span class="mono wrap">${link.view_handle}</span>`;
  const facts = html`Created ${renderTime(at, now)}, up to event ${last}${seen}`;
  const head =
    isOfAll === true
      ? html`<a href="${pathOfSession(sessionId)}"><b>${renderTopic({ topic })}</b></a><span class="soft small">${facts}</span>`
      : html`<b>${facts}</b>`;
  const revoke = renderButton({
    path: `${LINKS_PATH}/revoke`,
    csrf,
    label: 'Revoke',
    about: html`the link${isOfAll === true && html` to ${renderTopic({ topic })}`} created ${renderDeadline(at)}`,
    values: { id, ...(isOfAll === true && { from: 'links' }) },
  });
  return html`<li class="row"><div class="who grow">${head}<span class="soft small">Works until ${renderDeadline(end)}</span></div>${revoke}</li>`;
}

function readDays(form: Parameters | undefined): (typeof DAYS)[number] {
  return DAYS.find((days) => String(days) === form?.one('days')) ?? DEFAULT_DAYS;
}

/** Makes a link to what the account, or one of its agents, sees of the session now. */
export async function actSessionLink(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account, browser, part, query } = visit;
  requireLinks(context);
  const key = toKey(form, ['days'], query.one('as'));
  const path = getLinksPath(visit);
  const now = context.clock.now();
  const { view, seen } = await context.database.read(async (query) => {
    const { view } = await requireSeen(visit, query);
    return { view, seen: await findExtent(query, view) };
  });
  if (seen === undefined) return showSessionLinks(visit, form, mistaken());
  if (seen.end === 0) return showSessionLinks(visit, form, NOTHING_TO_SHARE);
  const sessionId = part('session_id');
  let hasMade = false;
  const madeAt = await once(visit, { path, key }, async (transaction: Transaction) => {
    await transaction.lock([accountLock(account.id), sessionLock(sessionId)]);
    // A new password or a suspension may have signed this browser out since.
    const current = await findSignedInAccount(transaction, browser.hash, now);
    if (current?.id !== account.id) throw new ServiceError('UNAUTHORIZED');
    const shared = (await requireSeen(visit, transaction)).view;
    const extent = await findExtent(transaction, shared);
    if (extent === undefined) throw new ServiceError('FORBIDDEN');
    if ((await countShareLinks(transaction, account.id, now)) >= LINKS_MAX)
      throw new ServiceError('FEATURE_NOT_AVAILABLE', TOO_MANY);
    await insertShareLink(transaction, {
      id: context.ids.ulid(),
      secret_hash: hashSecret(deriveSecret(visit, key)),
      account_id: account.id,
      session_id: sessionId,
      through_sequence: extent.through,
      last_sequence: extent.end,
      created_at: now,
      expires_at: now + readDays(form) * DAY_MS,
      view_handle: shared.agent?.handle ?? null,
    });
    hasMade = true;
    return String(now);
  });
  const answer = moved(`${path}${queryOf(view)}`, letShowSecret(visit, path, key, Number(madeAt)));
  return withAffected(answer, hasMade ? sessionId : null);
}

const NOTHING_TO_SHARE = mistaken({
  message: 'There is nothing to share yet. You can’t see any messages in this session.',
});
const TOO_MANY = `You have ${LINKS_MAX} links. Revoke one first.`;

/** All links of the account, newest first. */
export async function showLinks(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, csrf, note } = visit;
  requireLinks(context);
  const now = context.clock.now();
  const listed = await context.database.read((query) =>
    readListed(visit, {
      scope: ['share-links', account.id],
      start: ['Z'],
      toPosition: (row: ShareLinkRow & { readonly topic: string | null }) => [row.id],
      read: ([before], limit) => listShareLinksOfAccount(query, account.id, now, before, limit),
    }),
  );
  const heading = renderHeading({
    title: 'Shared sessions',
    about: 'Anyone who has one of these links can read a copy of the session without signing in.',
  });
  const nothing = renderEmpty(
    'No links',
    html`<p>To let someone read a session, open it, and choose <b>Share a link</b> below its title.</p>`,
  );
  const list = renderList(LINKS_PATH, listed, (link) => renderLink(link, { csrf, now, isOfAll: true }), nothing);
  const main = html`<div class="stack">${renderTrail('Settings', '/dashboard/settings')}${heading}${renderNote(note)}${list}</div>`;
  return page({ title: 'Shared sessions', section: 'settings', main });
}

/** It is not an error if the link was revoked in the meantime, or has expired. */
export async function actRevokeLink(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context, account } = visit;
  const sessionId = await context.database.write((transaction) =>
    deleteShareLink(transaction, account.id, form.one('id') ?? ''),
  );
  const isFromList = form.one('from') === 'links' || sessionId === undefined;
  const answer = movedWithNote(visit, isFromList ? LINKS_PATH : `${pathOfSession(sessionId)}/links`, 'link-revoked');
  return withAffected(answer, sessionId ?? null);
}

/** A session as the one who shared it saw it then. */
interface SharedSession extends SeenSession {
  readonly path: string;
  /** Who shared it. */
  readonly username: string;
  readonly link: ShareLinkRow;
}

/** Throws NOT_FOUND for a link that no one may use, and for a session that was deleted. */
async function requireShared(
  { clock, settings }: ServiceContext,
  query: Query,
  secret: string,
): Promise<SharedSession> {
  requireLinks({ settings });
  const link = await findShareLink(query, hashSecret(secret), clock.now());
  if (link === undefined) throw new ServiceError('NOT_FOUND');
  const seen = await findSeenSession(query, link.account_id, link.session_id);
  if (seen === undefined) throw new ServiceError('NOT_FOUND');
  const view = endAt(seen.view, { through: link.through_sequence, end: link.last_sequence });
  return { ...seen, view, path: `${SHARED}/${secret}`, username: link.username, link };
}

/** No agent is the reader's own, and none can write. */
const toReader = ({ path, view }: SharedSession): EntryContext => ({
  path,
  username: undefined,
  through: view.through,
});

type ReaderView = Pick<View, 'title' | 'main'>;

interface Asked {
  readonly context: ServiceContext;
  readonly secret: string;
  /** The number or the id in the address. */
  readonly item: string;
  readonly query: Parameters;
}

/** A part of a shared session, which one reads from its beginning. */
interface Part {
  readonly events: readonly EventEnvelope[];
  readonly hasEarlier: boolean;
  readonly hasLater: boolean;
}

async function readPart(query: Query, { view, link }: SharedSession, asked: Parameters): Promise<Part> {
  const before = readSequence(asked.one('before'));
  if (before !== undefined) {
    const latest = await readLatest(query, view, { before, count: PER_PAGE });
    return { ...latest, hasLater: before <= link.last_sequence };
  }
  const around = readSequence(asked.one('around'));
  const after = around === undefined ? (readSequence(asked.one('after')) ?? 0) : Math.max(0, around - PER_PAGE / 2);
  const { events, hasMore } = await readAccountRows(query, view, after, PER_PAGE, READ_MAX_CHARACTERS);
  return { events: events.map(toEnvelope), hasEarlier: after > 0, hasLater: hasMore };
}

async function renderShared({ context, secret, query }: Asked): Promise<ReaderView> {
  const { shared, part } = await context.database.read(async (view) => {
    const shared = await requireShared(context, view, secret);
    return { shared, part: await readPart(view, shared, query) };
  });
  const { session, username, link, path } = shared;
  const now = context.clock.now();
  const entries = toEntries(part.events, { ...toReader(shared), ...(await prepareEntries(context, part.events)) });
  const first = part.events[0]?.sequence;
  const last = part.events.at(-1)?.sequence;
  const earlier =
    part.hasEarlier &&
    first !== undefined &&
    html`<a class="button plain" rel="prev" href="${path}?before=${first}">Earlier</a>`;
  const later =
    part.hasLater &&
    last !== undefined &&
    html`<a class="button plain" rel="next" href="${path}?after=${last}">Later</a>`;
  const start = (part.hasEarlier || entries.length === 0) && html`<a class="button plain" href="${path}">Beginning</a>`;
  const main = html`<div class="stack transcript"><div class="session-title between"><h1>${renderTopic(session)}</h1><span class="badge">Read only</span></div>
<p class="session-head soft small"><span>Shared by <span class="mono wrap">@${username}</span> ${renderTime(link.created_at, now)}. Later messages are not shown. The link works until ${renderDeadline(link.expires_at)}.</span></p>
<section class="log" aria-label="Transcript">${renderEntries(entries)}
${entries.length === 0 && html`<p class="soft">There is nothing here.</p>`}</section>
${(start || later) && html`<nav class="pager" aria-label="Pages">${start}${earlier}${later}</nav>`}</div>`;
  return { title: untrustedText(session.topic ?? 'Shared session'), main };
}

/** One event with all of its text. */
async function renderSharedEvent({ context, secret, item }: Asked): Promise<ReaderView> {
  const sequence = readSequence(item) ?? 0;
  const { shared, event } = await context.database.read(async (view) => {
    const shared = await requireShared(context, view, secret);
    const event = await findEvent(view, shared.view, sequence);
    if (event === undefined) throw new ServiceError('NOT_FOUND');
    return { shared, event };
  });
  const { path, session } = shared;
  const where = { ...toReader(shared), ...(await prepareEntries(context, [event])), isWhole: true };
  const main = html`<div class="stack transcript">${renderTrail('Session', `${path}?around=${sequence}#e${sequence}`)}
<h1>${renderTopic(session)}</h1>
${renderEntries([{ event, where }])}</div>`;
  return { title: `Message ${sequence}`, main };
}

async function findSharedFile({ context, secret, item }: Asked): Promise<string> {
  if (!isId('attachment', item)) throw new ServiceError('NOT_FOUND');
  return context.database.read(async (query) => {
    const { view } = await requireShared(context, query, secret);
    const { pathname, search } = new URL(await signAccountDownload(context, view, item, query));
    return `${pathname}${search}`;
  });
}

type SharedRequest = FastifyRequest<{ Params: { secret: string; item?: string } }>;

/** The pages for those who have a link. One that never existed, was revoked or has expired gets the same answer. */
export function registerSharedSessions(scope: FastifyInstance, server: AuthorizationServer, bounds: PageBounds): void {
  const { context } = server;
  const add = (path: string, work: (asked: Asked, reply: FastifyReply) => Promise<FastifyReply>): void => {
    scope.get(`${SHARED}/:secret${path}`, GET_AND_HEAD, (request: SharedRequest, reply) => {
      const { secret, item = '' } = request.params;
      const query = readQuery(request);
      return answerStranger(server, bounds, { limit: 'viewSharedSession', request, reply }, async () => {
        try {
          return await work({ context, secret, item, query }, reply);
        } catch (error) {
          if (!hasCode(error, 'NOT_FOUND')) throw error;
          return sendErrorPage(reply, context, 404, UNKNOWN);
        }
      });
    });
  };
  const addPage = (path: string, render: (asked: Asked) => Promise<ReaderView>): void =>
    add(path, async (asked, reply) => {
      const view = await render(asked);
      const frame = { look: readLook(context, reply.request), now: context.clock.now() };
      return reply.headers(readerHeaders()).send(renderReaderPage(view, frame));
    });
  addPage('', renderShared);
  addPage('/events/:item', renderSharedEvent);
  add('/attachments/:item', async (asked, reply) => redirect(reply, await findSharedFile(asked)));
}

const UNKNOWN = {
  title: 'This link does not work',
  message: 'It has expired, was revoked, or is incomplete. Ask the person who sent it for another one.',
  code: 'NOT_FOUND',
};
