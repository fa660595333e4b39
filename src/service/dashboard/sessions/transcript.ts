import { isId } from '../../../wire/id.js';
import { getAttachment } from '../../attachments/get-attachment.js';
import { readVisibleEvents } from '../../events/read-events.js';
import { type EntryPlace, renderEntry } from '../../pages/dashboard/entry.js';
import { pathOfSession } from '../../pages/dashboard/sessions-page.js';
import { renderTranscript, renderWholeEvent } from '../../pages/dashboard/transcript-page.js';
import { ServiceError } from '../../service-error.js';
import type { Query } from '../../store/database.js';
import { type DashboardAnswer, moved, page, type Visit } from '../visit.js';
import { readLatest } from './read-latest.js';
import { findSeenSession, type SeenSession } from './seen-session.js';

const PER_PAGE = 50;
const SEQUENCE = /^[1-9]\d{0,14}$/;

/** How events of a session are shown to this account. */
export function placeOfEntries({ session, participation }: SeenSession, username: string): EntryPlace {
  const { status, joined_at: joinedAt } = participation;
  const isInside = status === 'joined' || (status === 'left' && joinedAt !== null);
  return { path: pathOfSession(session.id), username, isInside };
}

export async function showTranscript(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const before = readSequence(query.one('before'));
  return context.database.read(async (view) => {
    const seen = await requireSeen(visit, view);
    const place = placeOfEntries(seen, account.username);
    const asked = { before: before ?? Number.MAX_SAFE_INTEGER, count: PER_PAGE };
    const { events, hasEarlier } = await readLatest(view, seen.participation, asked);
    return page(
      renderTranscript({
        session: seen.session,
        actingHandle: seen.actor.handle,
        path: place.path,
        entries: events.map((event) => renderEntry(event, place)),
        hasEarlier,
        pageSize: PER_PAGE,
        isNewest: before === undefined,
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
    const { events } = await readVisibleEvents(view, seen.participation, sequence - 1, 1);
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
  return context.database.read(async (view) => {
    const { actor } = await requireSeen(visit, view);
    const path = { attachment_id: requireAttachmentId(visit) };
    return moved((await getAttachment(context, actor, { path }, view)).url);
  });
}

function requireAttachmentId({ part }: Visit): string {
  const id = part('attachment_id');
  if (!isId('attachment', id)) throw new ServiceError('NOT_FOUND');
  return id;
}

async function requireSeen({ context, account, part }: Visit, view: Query): Promise<SeenSession> {
  const id = part('session_id');
  const seen = isId('session', id) ? await findSeenSession(context, view, account.id, id) : undefined;
  if (seen === undefined) throw new ServiceError('NOT_FOUND');
  return seen;
}

/** What is no number is taken for none. */
export function readSequence(text: string | undefined): number | undefined {
  return text !== undefined && SEQUENCE.test(text) ? Number(text) : undefined;
}
