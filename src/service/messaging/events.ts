import type { PathOf } from '../../wire/endpoint.js';
import type { EventType } from '../../wire/event.js';
import { ID_PREFIX } from '../../wire/id.js';
import type { QueryOf } from '../../wire/schemas/endpoint.js';
import type { EventEnvelope, EventPayload } from '../../wire/schemas/event.js';
import { type AgentActor, isSearchOn, type SearchSetting, type ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import type { HeldBytes } from '../core/semaphore.js';
import { findCommonPosition } from '../store/epochs.js';
import {
  findLastForOutsider,
  findSequenceAt,
  insertEvent,
  listEnds,
  listEvents,
  listEventsAboutAgentsOf,
  listEventsForOutsider,
  type ReadEventRow,
} from '../store/events.js';
import {
  findParticipation,
  listParticipationsOfAccount,
  listParticipationsOfAccountIn,
  type OwnParticipationRow,
  type ParticipantRow,
  type ParticipationRow,
} from '../store/participants.js';
import { continueSequence, reserveSequences } from '../store/sessions.js';

/** What every change of a session needs. */
export type AppendContext = Pick<ServiceContext, 'clock' | 'ids' | 'bus'> & SearchSetting;

/** An event before it has its number. */
export type EventDraft = {
  [Type in EventType]: {
    readonly type: Type;
    readonly payload: EventPayload<Type>;
    /** The invitee or the leaver, which sees the event although it is not joined. */
    readonly subjectAgentId?: string;
  };
}[EventType];

/**
 * Appends `count` events to a session and returns the number of the first: the only place that assigns numbers. `write`
 * gets that number, makes the changes of participants that belong to the events, and returns the events in order.
 * Nothing is written for those who may see them: their inboxes follow the log (inboxes.ts). A caller that holds the session
 * and has read its last number passes it as `lastSequence`, so that no one waits for the reservation, and nothing
 * is written before `write` has checked everything.
 */
export async function append(
  context: AppendContext,
  transaction: Transaction,
  sessionId: string,
  count: number,
  write: (firstSequence: number) => Promise<readonly EventDraft[]>,
  lastSequence?: number,
): Promise<number> {
  const first = lastSequence === undefined ? await reserveSequences(transaction, sessionId, count) : lastSequence + 1;
  const drafts = await write(first);
  if (lastSequence !== undefined) continueSequence(transaction, sessionId, lastSequence, count);
  if (drafts.length !== count) throw new Error(`${count} numbers were reserved for ${drafts.length} events.`);
  const now = context.clock.now();
  const events = drafts.map(({ type, payload }, index) => ({
    session_id: sessionId,
    sequence: first + index,
    id: `${ID_PREFIX.event}${context.ids.ulid()}`,
    type,
    created_at: now,
    payload: JSON.stringify(payload),
  }));
  for (const [index, event] of events.entries()) {
    const row = { ...event, subject_agent_id: drafts[index]?.subjectAgentId ?? null };
    insertEvent(transaction, row, event.type === 'session.message' && isSearchOn(context));
  }
  transaction.afterCommit(() =>
    context.bus.notify({ kind: 'events', sessionId, first, last: first + count - 1, events }),
  );
  return first;
}

const NO_END = Number.MAX_SAFE_INTEGER;

/** A page may end before its limit. */
const PAGE_MAX_CHARACTERS = 4 * 1024 * 1024;
const ROWS_PER_FIRST_QUERY = 16;
const LARGE_EVENT_CHARACTERS = 128 * 1024;
const ROWS_PER_QUERY = 64;

export type Viewer = Presence & Pick<ParticipantRow, 'session_id' | 'agent_id' | 'first_invited_sequence'>;

/** The facts that decide how much of a session a participant sees. */
type Presence = Pick<ParticipantRow, 'status' | 'joined_at' | 'left_sequence' | 'joined_through'>;

export interface Page<Event> {
  readonly events: readonly Event[];
  /** Whether the viewer may see more events after these. */
  readonly hasMore: boolean;
}

export type VisibleEvents = Page<EventEnvelope>;
export type VisibleRows = Page<ReadEventRow>;

export function toVisibleEvents({ events, hasMore }: Page<ReadEventRow>): VisibleEvents {
  return { events: events.map(toEnvelope), hasMore };
}

/**
 * The events after `afterSequence` that a participant may see by its current status, in order: replay and live delivery
 * share this read.
 */
export function readVisibleRows(
  query: Query,
  viewer: Viewer,
  afterSequence: number,
  limit: number,
  maxCharacters = PAGE_MAX_CHARACTERS,
): Promise<VisibleRows> {
  return readPage((after, wanted) => listVisible(query, viewer, after, wanted), afterSequence, limit, maxCharacters);
}

/** A page of a list of events, in small steps: it holds at most a few large events at once. */
export async function readPage(
  list: (after: number, limit: number) => Promise<readonly ReadEventRow[]>,
  afterSequence: number,
  limit: number,
  maxCharacters = PAGE_MAX_CHARACTERS,
): Promise<VisibleRows> {
  const events: ReadEventRow[] = [];
  let after = afterSequence;
  let characters = 0;
  while (true) {
    const wanted = Math.min(rowsToRead(events.length, characters, maxCharacters), limit - events.length + 1);
    const rows = await list(after, wanted);
    for (const row of rows) {
      if (events.length === limit || characters >= maxCharacters) return { events, hasMore: true };
      events.push(row);
      characters += row.payload.length;
      after = row.sequence;
    }
    if (rows.length < wanted) return { events, hasMore: false };
  }
}

/**
 * Few until the size of the events is known: a page with large events takes only a few, and reading many would be
 * wasted.
 */
function rowsToRead(count: number, characters: number, maxCharacters: number): number {
  if (count === 0) return Math.min(ROWS_PER_FIRST_QUERY, Math.ceil(maxCharacters / LARGE_EVENT_CHARACTERS));
  const fitting = Math.ceil(((maxCharacters - characters) * count) / (characters + 1));
  return Math.max(1, Math.min(ROWS_PER_QUERY, fitting + 1));
}

/**
 * The eligibility table (spec: GET …/events), by current status alone (D-10). A participant that was removed while it was
 * invited sees what it saw when it last left, if it had joined before, and then what an invited participant saw, up to
 * its own departure.
 */
async function listVisible(query: Query, viewer: Viewer, after: number, limit: number): Promise<ReadEventRow[]> {
  const { session_id: sessionId, agent_id: agentId } = viewer;
  const through = seesAllThrough(viewer);
  const whole = after < through ? await listEvents(query, sessionId, after, through, limit) : [];
  if (whole.length === limit || !isOutsider(viewer)) return whole;
  const range = { ...getRange(viewer), after: Math.max(after, through) };
  const own = getOwnTypes(viewer);
  return [...whole, ...(await listEventsForOutsider(query, sessionId, agentId, own, range, limit - whole.length))];
}

/** The number of the last event up to `upTo` that a participant may see; 0 if there is none. */
export async function findLastVisible(
  query: Query,
  viewer: Viewer & Pick<ParticipationRow, 'last_sequence'>,
  upTo = Number.MAX_SAFE_INTEGER,
): Promise<number> {
  const whole = Math.min(upTo, seesAllThrough(viewer), viewer.last_sequence);
  if (!isOutsider(viewer)) return whole;
  const range = { ...getRange(viewer), through: Math.min(upTo, lastAllowed(viewer)) };
  const last = await findLastForOutsider(query, viewer.session_id, viewer.agent_id, getOwnTypes(viewer), range);
  return Math.max(whole, last);
}

/** A participant sees every event up to this one. */
export function seesAllThrough({ status, joined_at, left_sequence, joined_through }: Presence): number {
  if (status === 'joined') return NO_END;
  if (status === 'invited') return 0;
  return (joined_at === null ? joined_through : left_sequence) ?? 0;
}

function lastAllowed(viewer: Viewer): number {
  return viewer.status === 'left' ? (viewer.left_sequence ?? 0) : NO_END;
}

function getOwnTypes(viewer: Viewer): readonly [string, string] {
  return ['session.invited', viewer.status === 'left' ? 'session.left' : 'session.invited'];
}

function getRange(viewer: Viewer): { readonly endsAfter: number; readonly through: number } {
  return { endsAfter: viewer.first_invited_sequence ?? NO_END, through: lastAllowed(viewer) };
}

export function toEnvelope(row: ReadEventRow): EventEnvelope {
  return { ...toHead(row), payload: JSON.parse(row.payload) } as EventEnvelope;
}

/** The text of the envelope, with the stored JSON reused: parsing deeply nested payloads once per recipient is slow. */
export function envelopeText(row: ReadEventRow): string {
  return `${JSON.stringify(toHead(row)).slice(0, -1)},"payload":${row.payload}}`;
}

function toHead({ type, session_id, id, sequence, created_at }: ReadEventRow) {
  return { type, session_id, event_id: id, sequence, created_at };
}

/** A reply whose JSON already exists: stored text is not parsed and serialized again. */
export class ReplyText {
  readonly text: string;
  /** More content after it, read while the answer is sent. */
  readonly more: AsyncIterable<string | Buffer> | undefined;

  constructor(text: string, more?: AsyncIterable<string | Buffer>) {
    this.text = text;
    this.more = more;
  }
}

/** The amount read at once, or one event. */
const PIECE_MAX_CHARACTERS = 64 * 1024;
/** The amount passed on at once. */
const CHUNK_BYTES = 64 * 1024;

interface Replay {
  readonly sessionId: string;
  readonly agentId: string;
}

/** The cursor names an event that the caller has just seen, so it reveals nothing about hidden events. */
export async function replayEvents(
  context: Pick<ServiceContext, 'database' | 'unread'>,
  actor: Pick<AgentActor, 'agentId'>,
  input: { path: PathOf<'replayEvents'>; query: QueryOf<'replayEvents'> },
  query: Query,
): Promise<ReplyText> {
  const replay = { sessionId: input.path.session_id, agentId: actor.agentId };
  const { after_sequence: asked, limit, epoch } = input.query;
  const participation = await findParticipation(query, replay.sessionId, replay.agentId);
  if (participation === undefined) throw new ServiceError('NOT_FOUND');
  const after = await findStart(query, participation, asked, epoch);
  const first = await readVisibleRows(query, participation, after, limit, PIECE_MAX_CHARACTERS);
  const head = {
    epoch: context.database.epoch().token,
    last_sequence: await findLastVisible(query, participation),
    ...(after < asked && { resumed_after: after }),
  };
  const text = `${JSON.stringify(head).slice(0, -1)},"events":[`;
  const isWhole = !first.hasMore || first.events.length === limit;
  if (isWhole && charactersIn(first) <= PIECE_MAX_CHARACTERS)
    return new ReplyText(text + first.events.map(envelopeText).join() + toPageEnd(first.hasMore, lastIn(first, after)));
  return new ReplyText(text, readOn(context, replay, after, limit));
}

/**
 * Where the events begin. A cursor from an epoch that a restore has cut off may name events that are gone, or different
 * events that use their numbers now. Then the events begin after the last one that both histories share.
 */
async function findStart(
  query: Query,
  participation: ParticipationRow,
  after: number,
  epoch: string | undefined,
): Promise<number> {
  const common = epoch === undefined ? undefined : await findCommonPosition(query, epoch);
  if (common === undefined) return after;
  const kept = await findSequenceAt(query, participation.session_id, common);
  return after <= kept ? after : findLastVisible(query, participation, kept);
}

/** A piece of a page as it is sent, and the start of the next one. */
interface Piece {
  readonly bytes: Buffer;
  readonly last: number;
  readonly count: number;
  readonly characters: number;
  readonly hasMore: boolean;
}

/** Undefined: there is nothing for this viewer. */
async function readPiece(
  query: Query,
  viewer: Viewer,
  after: number,
  { limit, before }: { readonly limit: number; readonly before: string },
): Promise<Piece | undefined> {
  const rows = await readVisibleRows(query, viewer, after, limit, PIECE_MAX_CHARACTERS);
  if (rows.events.length === 0) return undefined;
  return {
    bytes: Buffer.from(before + rows.events.map(envelopeText).join()),
    last: lastIn(rows, after),
    count: rows.events.length,
    characters: charactersIn(rows),
    hasMore: rows.hasMore,
  };
}

/**
 * The events of a page and its end, read as they are taken. A page with large events ends before its limit. Each piece
 * contains what its reader may see at that moment.
 */
async function* readOn(
  { database, unread }: Pick<ServiceContext, 'database' | 'unread'>,
  { sessionId, agentId }: Replay,
  start: number,
  limit: number,
): AsyncGenerator<Buffer> {
  let after = start;
  let count = 0;
  let characters = 0;
  let hasMore = true;
  while (hasMore && count < limit && characters < PAGE_MAX_CHARACTERS) {
    const viewer = await database.read((query) => findParticipation(query, sessionId, agentId));
    const range = { limit: limit - count, before: count === 0 ? '' : ',' };
    const cutter = createCutter(unread, async () =>
      viewer === undefined ? undefined : database.read((query) => readPiece(query, viewer, after, range)),
    );
    hasMore = false;
    try {
      for (let cut = await cutter.next(); cut !== undefined; cut = await cutter.next()) {
        yield cut.chunk;
        if (cut.end === undefined) continue;
        after = cut.end.last;
        count += cut.end.count;
        characters += cut.end.characters;
        hasMore = cut.end.hasMore;
        break;
      }
    } finally {
      cutter.release();
    }
  }
  yield Buffer.from(toPageEnd(hasMore, after));
}

interface Cut {
  readonly chunk: Buffer;
  /** The last chunk ends the piece. */
  readonly end: Omit<Piece, 'bytes'> | undefined;
}

/**
 * Splits a piece into chunks. Between two chunks the piece is kept only if the memory for unread answers has room.
 * Otherwise it is read again: for the same viewer it begins with the same bytes, because events never change.
 */
function createCutter(
  unread: HeldBytes,
  read: () => Promise<Piece | undefined>,
): { next(): Promise<Cut | undefined>; release(): void } {
  let kept: Piece | undefined;
  let sent = 0;
  let release: (() => void) | undefined;
  return {
    async next() {
      const piece = kept ?? (await read());
      if (piece === undefined && sent === 0) return undefined;
      if (piece === undefined || piece.bytes.length < sent)
        throw new Error('a replay lost its events while it was sent');
      if (sent === 0 && piece.bytes.length > CHUNK_BYTES) release = unread.hold(piece.bytes.length);
      // A copy: a slice would keep the whole piece while it waits in the buffers of its connection.
      const chunk = Buffer.from(piece.bytes.subarray(sent, sent + CHUNK_BYTES));
      sent += chunk.length;
      const isLast = sent === piece.bytes.length;
      kept = release === undefined || isLast ? undefined : piece;
      return {
        chunk,
        end: isLast
          ? { last: piece.last, count: piece.count, characters: piece.characters, hasMore: piece.hasMore }
          : undefined,
      };
    },
    release: () => release?.(),
  };
}

function charactersIn({ events }: VisibleRows): number {
  return events.reduce((sum, event) => sum + event.payload.length, 0);
}

function lastIn({ events }: VisibleRows, after: number): number {
  return events.at(-1)?.sequence ?? after;
}

function toPageEnd(hasMore: boolean, last: number): string {
  return `],"next_cursor":${JSON.stringify(hasMore ? String(last) : null)}}`;
}

/**
 * An account's own view of a session: everything that any of its agents could see while it took part. A single agent
 * sees a session only by its current status, so a session that is reopened, or handed from one agent to another, would
 * otherwise hide from its owner what its own agents said and heard.
 */
export interface AccountView {
  readonly accountId: string;
  /** Its agents that take or took part, including removed ones. Never empty. */
  readonly participations: readonly [OwnParticipationRow, ...OwnParticipationRow[]];
  /** It sees every event up to this one. */
  readonly through: number;
  /** Beyond that: whether one of its agents was invited, which shows it the ends of the session. */
  readonly invited: readonly Range[];
  /** The account is shown no event after this one. The view of one agent has no such end. */
  readonly end: number;
  /** One of its agents, if only what this agent sees by its current status is to be shown. */
  readonly agent?: OwnParticipationRow;
}

/** After `after`, up to and including `through`. */
interface Range {
  readonly after: number;
  readonly through: number;
}

/** Undefined: there is no such session, or none of the account's agents ever took part in it. */
export async function findAccountView(
  query: Query,
  accountId: string,
  sessionId: string,
): Promise<AccountView | undefined> {
  return toAccountView(accountId, await listParticipationsOfAccount(query, accountId, sessionId));
}

/** The same for each of these sessions, by its id. */
export async function findAccountViews(
  query: Query,
  accountId: string,
  sessionIds: readonly string[],
): Promise<ReadonlyMap<string, AccountView | undefined>> {
  const rows = sessionIds.length === 0 ? [] : await listParticipationsOfAccountIn(query, accountId, sessionIds);
  return new Map(
    sessionIds.map((id) => [
      id,
      toAccountView(
        accountId,
        rows.filter(({ session_id }) => session_id === id),
      ),
    ]),
  );
}

function toAccountView(accountId: string, rows: readonly OwnParticipationRow[]): AccountView | undefined {
  const [first, ...others] = rows;
  if (first === undefined) return undefined;
  const participations = [first, ...others] as const;
  const through = Math.max(...participations.map(entitledThrough));
  const invited = listInvited(participations.filter(isOutsider), through);
  return { accountId, participations, through, invited, end: NO_END };
}

/** Where invitations of these agents show the ends of the session, after `through`. */
function listInvited(participations: readonly OwnParticipationRow[], through: number): readonly Range[] {
  const ranges = participations.map(({ status, first_invited_sequence, left_sequence }) => ({
    after: Math.max(through, first_invited_sequence ?? NO_END),
    through: status === 'left' ? (left_sequence ?? 0) : NO_END,
  }));
  return merge(ranges);
}

/** The view of one of the account's agents alone; undefined: the account has no agent of that name in the session. */
export function narrowTo(view: AccountView, handle: string): AccountView | undefined {
  const agent = view.participations.find((one) => one.handle === handle);
  return agent && { ...view, agent };
}

/** Up to this event, the view has messages as events of their own; after it, only those in invitations. */
export function wholeThrough({ through, agent }: AccountView): number {
  if (agent === undefined) return through;
  return seesAllThrough(agent);
}

/** How much of a session an account saw at some time. */
export interface Extent {
  /** It saw every event up to this one; */
  readonly through: number;
  /** after that, up to this one, what its invited agents saw. */
  readonly end: number;
}

/** Undefined: this is the view of an agent that was only invited, which sees parts of the session. */
export async function findExtent(query: Query, view: AccountView): Promise<Extent | undefined> {
  if (view.agent !== undefined && isOutsider(view.agent)) return undefined;
  const end = await findLastVisibleTo(query, view);
  return { through: Math.min(view.through, end), end };
}

/** The view as it was then: an agent that was only invited may have joined since, and sees the whole session now. */
export function endAt(view: AccountView, then: Extent): AccountView {
  const through = Math.min(view.through, then.through);
  const invited = through < then.end ? listInvited(view.participations, through) : [];
  return { ...view, through, invited, end: then.end };
}

/** The account's agents that see less of the session than the account does. */
export function listNarrower({ participations, through }: AccountView): readonly OwnParticipationRow[] {
  const all = Math.min(through, participations[0].last_sequence);
  return participations.filter((one) => Math.min(seesAllThrough(one), one.last_sequence) < all);
}

/** The last event that the account may see, or one after it. */
export function lastVisibleTo({ participations, through, invited, end, agent }: AccountView): number {
  if (agent !== undefined) return Math.min(agent.last_sequence, lastAllowed(agent));
  const ends = [through, ...invited.map((range) => range.through)];
  return Math.min(participations[0].last_sequence, end, Math.max(...ends));
}

/** The last event that the account may see, and never a hidden one after it; 0 if there is none. */
export async function findLastVisibleTo(
  query: Query,
  { participations, through, end, agent }: AccountView,
): Promise<number> {
  if (agent !== undefined) return findLastVisible(query, agent);
  const lastOfAll = Math.min(participations[0].last_sequence, end);
  let last = Math.min(through, lastOfAll);
  if (last === lastOfAll) return last;
  for (const one of participations.filter(isOutsider)) last = Math.max(last, await findLastVisible(query, one, end));
  return last;
}

/** The events after `afterSequence` that the account may see, in order. */
export function readAccountRows(
  query: Query,
  view: AccountView,
  afterSequence: number,
  limit: number,
  maxCharacters?: number,
): Promise<Page<ReadEventRow>> {
  if (view.agent !== undefined) return readVisibleRows(query, view.agent, afterSequence, limit, maxCharacters);
  return readPage((after, wanted) => listForAccount(query, view, after, wanted), afterSequence, limit, maxCharacters);
}

async function listForAccount(query: Query, view: AccountView, after: number, limit: number): Promise<ReadEventRow[]> {
  const { accountId, participations, through, invited, end } = view;
  const sessionId = participations[0].session_id;
  const whole = after < through ? await listEvents(query, sessionId, after, through, limit) : [];
  if (whole.length === limit || invited.length === 0) return whole;
  const beyond = Math.max(after, through);
  const rows = await listEventsAboutAgentsOf(query, accountId, sessionId, beyond, limit);
  for (const range of invited)
    rows.push(...(await listEnds(query, sessionId, Math.max(beyond, range.after), range.through, limit)));
  rows.sort((one, other) => one.sequence - other.sequence);
  return [...whole, ...rows.filter(({ sequence }) => sequence <= end)].slice(0, limit);
}

function entitledThrough(participation: OwnParticipationRow): number {
  return participation.status === 'invited' ? (participation.joined_through ?? 0) : seesAllThrough(participation);
}

function isOutsider({ status, joined_at: joinedAt }: Presence): boolean {
  return status === 'invited' || (status === 'left' && joinedAt === null);
}

/** Separate ranges, so that no event is in two of them. */
function merge(ranges: readonly Range[]): Range[] {
  const merged: Range[] = [];
  for (const range of ranges.filter((one) => one.after < one.through).sort((one, other) => one.after - other.after)) {
    const last = merged.at(-1);
    if (last === undefined || range.after > last.through) merged.push(range);
    else merged[merged.length - 1] = { after: last.after, through: Math.max(last.through, range.through) };
  }
  return merged;
}
