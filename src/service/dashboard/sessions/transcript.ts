import { splitHandle } from '../../../wire/handle.js';
import { isId } from '../../../wire/id.js';
import { signAccountDownload } from '../../attachments/get-attachment.js';
import type { Parameters } from '../../authorization-server/parameters.js';
import { lastVisibleTo, readAccountRows } from '../../events/account-view.js';
import { toVisibleEvents } from '../../events/read-events.js';
import { type EntryPlace, renderEntry } from '../../pages/dashboard/entry.js';
import { pathOfSession } from '../../pages/dashboard/sessions-page.js';
import { type OwnAgent, renderTranscript, renderWholeEvent } from '../../pages/dashboard/transcript-page.js';
import { ServiceError } from '../../service-error.js';
import type { Query } from '../../store/database.js';
import { type DashboardAnswer, moved, page, type Visit } from '../visit.js';
import { readLatest } from './read-latest.js';
import { findSeenSession, type SeenSession } from './seen-session.js';

const PER_PAGE = 50;
const SEQUENCE = /^[1-9]\d{0,14}$/;

/** How events of a session are shown to this account. */
export function placeOfEntries({ session, view }: SeenSession, username: string): EntryPlace {
  return { path: pathOfSession(session.id), username, through: view.through };
}

/** The account's own agents among the participants; a removed agent has no page any more. */
export function listOwnAgents({ view }: SeenSession): OwnAgent[] {
  return view.participations.map(({ handle, agent_removed_at: removedAt }) => ({
    handle,
    path: removedAt === null ? `/dashboard/agents/${splitHandle(handle).name}` : undefined,
  }));
}

export async function showTranscript(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const before = readBefore(query);
  return context.database.read(async (view) => {
    const seen = await requireSeen(visit, view);
    const place = placeOfEntries(seen, account.username);
    const asked = { before, count: PER_PAGE };
    const { events, hasEarlier } = await readLatest(view, seen.view, asked);
    return page(
      renderTranscript({
        session: seen.session,
        ownAgents: listOwnAgents(seen),
        username: account.username,
        path: place.path,
        entries: events.map((event) => renderEntry(event, place)),
        hasEarlier,
        pageSize: PER_PAGE,
        isNewest: before > lastVisibleTo(seen.view),
        now: context.clock.now(),
      }),
    );
  });
}

/** One event with all of its text. */
export async function showEvent(visit: Visit): Promise<DashboardAnswer> {
  const sequence = readSequence(visit.part('sequence')) ?? 0;
  return visit.context.database.read(async (view) => {
    const seen = await requireSeen(visit, view);
    const { events } = toVisibleEvents(await readAccountRows(view, seen.view, sequence - 1, 1));
    const [event] = events;
    if (event?.sequence !== sequence) throw new ServiceError('NOT_FOUND');
    const place = placeOfEntries(seen, visit.account.username);
    const entry = renderEntry(event, { ...place, isWhole: true });
    return page(renderWholeEvent(seen.session, place.path, entry));
  });
}

/** To an address that is signed now, for whoever may see the message now. */
export async function fetchAttachment(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  return context.database.read(async (query) => {
    const { view } = await requireSeen(visit, query);
    return moved(await signAccountDownload(context, view, requireAttachmentId(visit), query));
  });
}

function requireAttachmentId({ part }: Visit): string {
  const id = part('attachment_id');
  if (!isId('attachment', id)) throw new ServiceError('NOT_FOUND');
  return id;
}

async function requireSeen({ account, part }: Visit, view: Query): Promise<SeenSession> {
  const id = part('session_id');
  const seen = isId('session', id) ? await findSeenSession(view, account.id, id) : undefined;
  if (seen === undefined) throw new ServiceError('NOT_FOUND');
  return seen;
}

/** The address of an event shows it in the middle of a page. */
function readBefore(query: Parameters): number {
  const around = readSequence(query.one('around'));
  if (around !== undefined) return around + PER_PAGE / 2;
  return readSequence(query.one('before')) ?? Number.MAX_SAFE_INTEGER;
}

/** What is no number is taken for none. */
export function readSequence(text: string | undefined): number | undefined {
  return text !== undefined && SEQUENCE.test(text) ? Number(text) : undefined;
}
