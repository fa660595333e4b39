import type { EventEnvelope } from '../../../wire/schemas/event.js';
import { findLastVisibleTo, readAccountRows, toEnvelope, wholeThrough } from '../../messaging/events.js';
import { PRINT_SCRIPT } from '../assets.js';
import { type Html, html, untrustedText } from '../html.js';
import { renderDeadline } from '../time.js';
import { addressIn, prepareEntries, toEntries } from './entries.js';
import { fromBrowser } from './export.js';
import { renderTrail } from './frame.js';
import { pathOfSession } from './sessions.js';
import {
  findSeenSession,
  listOwnAgents,
  PER_PAGE,
  queryOf,
  readAgent,
  readSequence,
  renderItems,
  renderSessionHead,
  requireSeen,
  type SeenSession,
} from './transcript.js';
import { type DashboardAnswer, REST, type Visit } from './visit.js';

/** What one page has at most: hundreds of sheets. */
const PRINTED_MAX_EVENTS = 2_000;
const PRINTED_MAX_CHARACTERS = 4 * 1024 * 1024;
/** The size of a piece, which is read and rendered at once. */
const PIECE_MAX_CHARACTERS = 256 * 1024;

/** The whole session on one page, for paper. It is read and rendered while it is sent. */
export async function showPrint(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const after = readSequence(query.one('after')) ?? 0;
  const { seen, last } = await context.database.read(async (view) => {
    const seen = await requireSeen(visit, view);
    return { seen, last: await findLastVisibleTo(view, seen.view) };
  });
  await context.limits.take('exportSession', account.id);
  const { session, view } = seen;
  const now = context.clock.now();
  const own = { ownAgents: listOwnAgents(seen), username: account.username, online: new Set<string>() };
  const whose = view.agent?.handle ?? `@${account.username}`;
  const main = html`<div class="stack transcript">${renderTrail('Session', `${pathOfSession(session.id)}${queryOf(view)}`)}
<div id="head">${renderSessionHead(session, own, now)}</div>
<p class="soft small">As <span class="mono wrap">${whose}</span> sees it on ${renderDeadline(now)}.</p>
<div class="row-actions on-screen"><button type="button" class="button primary small-button" id="print" hidden>Print</button><span class="soft small">To print this page, use the print command of your browser.</span></div>
<section class="log" aria-label="Transcript">${REST}</section></div>`;
  const title = untrustedText(session.topic ?? 'Session');
  return {
    kind: 'streamed',
    view: { title, section: 'sessions', main, script: PRINT_SCRIPT, hasPictures: true },
    texts: writePrint(visit, seen, after, last),
  };
}

async function* writePrint(visit: Visit, seen: SeenSession, start: number, last: number): AsyncGenerator<string> {
  let after = start;
  let before: EventEnvelope | undefined;
  let count = 0;
  let characters = 0;
  yield '<ol class="entries">';
  while (after < last && count < PRINTED_MAX_EVENTS && characters < PRINTED_MAX_CHARACTERS) {
    const piece = await readPiece(visit, after, last);
    const events = piece.events.filter(({ sequence }) => sequence <= last);
    if (events.length > 0) yield (await renderPiece(visit, seen, events, before)).map(({ markup }) => markup).join('');
    before = events.at(-1) ?? before;
    after = piece.isLast ? last : (before?.sequence ?? after);
    if (events.length === 0) break;
    count += events.length;
    characters += piece.characters;
  }
  yield `</ol>${renderEnd(visit, seen, { after, last, isEmpty: count === 0 }).markup}`;
}

/**
 * Reads what the account may see now: its sign-in may have ended, the session may have been deleted, or an agent may see
 * less of it. Then no piece is the last.
 */
async function readPiece(visit: Visit, after: number, last: number) {
  const source = fromBrowser(visit);
  const { events, isLast } = await source.read(async (query) => {
    const seen = await findSeenSession(query, visit.account.id, visit.part('session_id'), readAgent(visit));
    if (seen === undefined) return { events: [], isLast: false };
    const { events, hasMore } = await readAccountRows(query, seen.view, after, PER_PAGE, PIECE_MAX_CHARACTERS);
    return { events, isLast: !hasMore && (await findLastVisibleTo(query, seen.view)) >= last };
  });
  const characters = events.reduce((sum, { payload }) => sum + payload.length, 0);
  return { events: events.map(toEnvelope), isLast, characters };
}

async function renderPiece(
  { context, account }: Visit,
  { session, view }: SeenSession,
  events: readonly EventEnvelope[],
  before: EventEnvelope | undefined,
): Promise<readonly Html[]> {
  const prepared = await prepareEntries(context, events);
  const where = {
    path: pathOfSession(session.id),
    viewQuery: queryOf(view),
    username: account.username,
    through: wholeThrough(view),
    ...prepared,
  };
  return renderItems(toEntries(events, { ...where, isWhole: true }), before);
}

interface End {
  readonly after: number;
  readonly last: number;
  readonly isEmpty: boolean;
}

/** Without it, a page that was cut off would look complete. */
function renderEnd({ part }: Visit, { view }: SeenSession, { after, last, isEmpty }: End): Html {
  if (after >= last)
    return html`<p class="soft small">${isEmpty ? 'There is nothing here.' : `Complete up to event ${last}.`}</p>`;
  const path = `${pathOfSession(part('session_id'))}/print`;
  const rest = addressIn({ path, viewQuery: queryOf(view) }, `after=${after}`);
  return html`<p class="soft small">This page ends with event ${after} of ${last}. <a href="${rest}">Print the rest…</a></p>`;
}
