import type { Senders } from '../../kit/mcp.js';
import { findActor, isMessageEvent } from '../../wire/event.js';
import { isId } from '../../wire/id.js';
import type { Resource } from '../../wire/mcp.js';
import { listSenders } from '../../wire/relation.js';
import type { EventEnvelope } from '../../wire/schemas/event.js';
import type { Message } from '../../wire/schemas/message.js';
import type { Session } from '../../wire/schemas/session.js';
import {
  cutEvent,
  cutToLast,
  type EventPage,
  MESSAGE_CHARS_DEFAULT,
  READ_CHARS_MAX,
  READ_LIMIT_DEFAULT,
} from '../../wire/schemas/tool.js';
import type { AgentActor, ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { findLastVisible, readVisibleRows, toEnvelope } from '../messaging/events.js';
import { viewSessions } from '../messaging/list-sessions.js';
import { relateTo } from '../messaging/trust-gate.js';
import { countPending, listPending, type PendingRow } from '../store/inboxes.js';
import { findParticipation, listParticipants, type ParticipationRow } from '../store/participants.js';
import type { News } from './news.js';

/** A call of a tool: who makes it, and until when it may wait. */
export interface Caller {
  readonly actor: AgentActor;
  /** Aborted when no one waits for the answer anymore, or the service stops. */
  readonly gone: AbortSignal;
  /** Throws if the token was revoked while the call waited. */
  recheck(): Promise<void>;
}

/** The parts of the service that tools use. */
export interface ToolService {
  readonly context: ServiceContext;
  readonly news: News;
}

/** Each author of what a model is about to read, with its relation. */
export async function relateSenders({ database }: ServiceContext, actor: AgentActor, value: object): Promise<Senders> {
  const handles = listSenders(value);
  return handles.length === 0 ? {} : database.read((query) => relateTo(query, actor, handles));
}

/** Calls `look` now and whenever there may be news, until it finds something or the time is up. */
async function waitFor<Found>(
  { context, news }: ToolService,
  caller: Caller,
  { sessionId, waitMs }: { readonly sessionId: string | undefined; readonly waitMs: number },
  look: () => Promise<Found | undefined>,
): Promise<Found | undefined> {
  if (waitMs === 0) return look();
  const watch = news.watch(sessionId === undefined ? { agentId: caller.actor.agentId } : { sessionId });
  const time = new AbortController();
  const cancel = context.clock.schedule(waitMs, () => time.abort());
  const until = AbortSignal.any([caller.gone, time.signal]);
  try {
    for (;;) {
      const found = await look();
      if (found !== undefined || until.aborted) return found;
      await watch.next(until);
      await caller.recheck();
    }
  } finally {
    cancel();
    watch.end();
  }
}

/** Which events to return, and how much of each message. */
export interface Wanted {
  readonly limit: number;
  readonly maxChars: number;
  readonly isOthersOnly: boolean;
}

interface Piece {
  readonly events: readonly EventEnvelope[];
  /** The last event that was read, whether or not it is wanted. */
  readonly last: number;
  readonly hasMore: boolean;
}

/** How many pages without a wanted event one call reads. */
const PIECES_MAX = 20;

async function requireParticipation(
  query: Query,
  sessionId: string,
  { agentId }: AgentActor,
): Promise<ParticipationRow> {
  const participation = isId('session', sessionId) ? await findParticipation(query, sessionId, agentId) : undefined;
  if (participation === undefined) throw new ServiceError('NOT_FOUND');
  return participation;
}

async function readPiece(
  { database }: ServiceContext,
  actor: AgentActor,
  sessionId: string,
  after: number,
  { limit, maxChars, isOthersOnly }: Wanted,
): Promise<Piece> {
  const { events, hasMore } = await database.read(async (query) =>
    readVisibleRows(query, await requireParticipation(query, sessionId, actor), after, limit, READ_CHARS_MAX),
  );
  const envelopes = events.map(toEnvelope).filter((event) => !isOthersOnly || findActor(event) !== actor.handle);
  return {
    events: envelopes.map((event) => cutEvent(event, maxChars)),
    last: events.at(-1)?.sequence ?? after,
    hasMore,
  };
}

/** Reads on until there is an event that is wanted, and no further than one call may. */
async function readWanted(
  context: ServiceContext,
  actor: AgentActor,
  sessionId: string,
  after: number,
  wanted: Wanted,
): Promise<Piece> {
  for (let pieces = 1, last = after; ; pieces += 1) {
    const piece = await readPiece(context, actor, sessionId, last, wanted);
    last = piece.last;
    if (piece.events.length > 0 || !piece.hasMore || pieces === PIECES_MAX) return piece;
  }
}

/** The events of one session after a sequence. */
export async function readSession(
  service: ToolService,
  caller: Caller,
  { sessionId, after, waitMs }: { readonly sessionId: string; readonly after: number; readonly waitMs: number },
  wanted: Wanted,
): Promise<EventPage> {
  let last = after;
  const found = await waitFor(service, caller, { sessionId, waitMs }, async () => {
    const piece = await readWanted(service.context, caller.actor, sessionId, last, wanted);
    last = piece.last;
    return piece.events.length > 0 || piece.hasMore ? piece : undefined;
  });
  return { events: [...(found?.events ?? [])], next_cursor: String(last), has_more: found?.hasMore ?? false };
}

/** What a wait for a reply ended with. */
export interface Awaited {
  /** Null: none has arrived. */
  readonly reply: Message | null;
  /** None can come: the session has ended, or everyone else or the caller has left it. */
  readonly is_over?: true;
}

/** The first message of another agent after a sequence that is the reply. */
export async function waitForReply(
  service: ToolService,
  caller: Caller,
  sent: { readonly sessionId: string; readonly after: number; readonly waitMs: number },
  isReply: (message: Message) => Promise<boolean>,
  wanted: Wanted,
): Promise<Awaited> {
  const { context } = service;
  const { sessionId } = sent;
  let { after } = sent;
  const found = await waitFor(service, caller, sent, async (): Promise<Awaited | undefined> => {
    for (let hasMore = true; hasMore && !caller.gone.aborted; ) {
      const piece = await readWanted(context, caller.actor, sessionId, after, wanted);
      for (const { payload } of piece.events.filter(isMessageEvent))
        if (await isReply(payload)) return { reply: payload };
      after = piece.last;
      hasMore = piece.hasMore;
    }
    return (await isOver(context, caller.actor, sessionId, after)) ? { reply: null, is_over: true } : undefined;
  });
  return found ?? { reply: null };
}

/** Whether everyone but these has left a session. */
export async function isAmong(query: Query, sessionId: string, handles: readonly string[]): Promise<boolean> {
  const participants = await listParticipants(query, sessionId);
  return participants.every(({ status, handle }) => status === 'left' || handles.includes(handle));
}

/** Whether no one can answer an agent that has read a session up to `after`, and nothing has happened since. */
function isOver({ database }: ServiceContext, actor: AgentActor, sessionId: string, after: number): Promise<boolean> {
  return database.read(async (query) => {
    const participation = await requireParticipation(query, sessionId, actor);
    if (participation.status === 'left') return true;
    if (participation.last_sequence > after) return false;
    if (participation.session_state === 'ended') return true;
    return isAmong(query, sessionId, [actor.handle]);
  });
}

const LAST_CHARS_MAX = 1024 * 1024;

/** The last events of a session that a participant may see, in order, in steps that hold a few large ones at most. */
async function* listLast(query: Query, participation: ParticipationRow, window: number): AsyncGenerator<EventEnvelope> {
  let after = Math.max(0, (await findLastVisible(query, participation)) - window);
  for (let hasMore = true; hasMore; ) {
    const page = await readVisibleRows(query, participation, after, window, LAST_CHARS_MAX);
    yield* page.events.map(toEnvelope);
    after = page.events.at(-1)?.sequence ?? after;
    hasMore = page.hasMore && page.events.length > 0;
  }
}

/** The end of a session, as much as fits into one answer. */
export function readLatest({ database }: ServiceContext, actor: AgentActor, sessionId: string): Promise<EventPage> {
  return database.read(async (query) => {
    const participation = await requireParticipation(query, sessionId, actor);
    const events: EventEnvelope[] = [];
    for await (const event of listLast(query, participation, READ_LIMIT_DEFAULT))
      events.push(cutEvent(event, MESSAGE_CHARS_DEFAULT));
    return cutToLast(events);
  });
}

/** This many of the last events are searched for a message to answer. */
const LAST_WINDOW = 32;

/** The latest message of another agent, if it is among the last events. */
export function findLastOfOthers(
  { database }: ServiceContext,
  actor: AgentActor,
  sessionId: string,
): Promise<Message | undefined> {
  return database.read(async (query) => {
    const participation = await requireParticipation(query, sessionId, actor);
    let found: Message | undefined;
    for await (const event of listLast(query, participation, LAST_WINDOW))
      if (isMessageEvent(event) && event.payload.sender !== actor.handle) found = event.payload;
    return found;
  });
}

/** Pending sessions that one look reads; own events alone are not news. */
const PENDING_PER_LOOK = 20;
const LOOKS_MAX = 5;

/** `sess_…-12`: everything in the session up to there has arrived. */
const CURSOR = /^(sess_[0-9A-Z]{26})-(\d{1,15})$/;

/**
 * The events of the next session with something that has not arrived, from its delivery cursor on. The cursor of a page is
 * its receipt: the next read brings it back, and only then the agent has received the page.
 */
export async function readUnread(
  service: ToolService,
  caller: Caller,
  { cursor, waitMs }: { readonly cursor: string | undefined; readonly waitMs: number },
  wanted: Wanted,
): Promise<EventPage> {
  const { context } = service;
  const { actor } = caller;
  const [, received = '', through = '0'] = CURSOR.exec(cursor ?? '') ?? [];
  if (cursor !== undefined && cursor !== '' && received === '')
    throw new ServiceError('VALIDATION_ERROR', 'after is not a next_cursor of a read of all sessions.');
  if (received !== '') await confirm(context, actor, received, Number(through));
  const look = (): Promise<FoundPiece | undefined> => findUnread(context, actor, received, wanted);
  const found = await waitFor(service, caller, { sessionId: undefined, waitMs }, look);
  if (found === undefined) return { events: [], next_cursor: cursor ?? '', has_more: false };
  const { sessionId, events, last, hasMore } = found;
  return { events: [...events], next_cursor: `${sessionId}-${last}`, has_more: hasMore };
}

interface FoundPiece extends Piece {
  readonly sessionId: string;
}

/** Begins after the session that was read last, so that a busy one does not hide the others. */
async function findUnread(
  context: ServiceContext,
  actor: AgentActor,
  afterSessionId: string,
  wanted: Wanted,
): Promise<FoundPiece | undefined> {
  const { agentId } = actor;
  await context.inboxes.settleFor(agentId);
  let from = afterSessionId;
  for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
    const start = from;
    const rows = await context.database.read((query) => listPending(query, agentId, start, PENDING_PER_LOOK));
    for (const { session_id: sessionId, delivered_sequence: delivered } of rows) {
      const piece = await readWanted(context, actor, sessionId, delivered, wanted);
      if (piece.events.length > 0) {
        const pending = await context.database.read((query) => countPending(query, agentId, 2));
        return { ...piece, sessionId, hasMore: piece.hasMore || pending > 1 };
      }
      // Nothing that this agent may see, or nothing but its own.
      await confirm(context, actor, sessionId, piece.last);
      from = sessionId;
    }
    if (rows.length === PENDING_PER_LOOK) continue;
    if (afterSessionId === '' || from === '') return undefined;
    from = '';
    afterSessionId = '';
  }
  return undefined;
}

/** Moves the delivery cursor of the agent, as a pong does on a socket; never past what it may see. */
async function confirm(
  { database, inboxes }: ServiceContext,
  actor: AgentActor,
  sessionId: string,
  through: number,
): Promise<void> {
  const found = await database.read(async (query) => {
    const participation = await findParticipation(query, sessionId, actor.agentId);
    return participation && { last: participation.last_sequence, seen: await findLastVisible(query, participation) };
  });
  if (found === undefined) return;
  const sent = Math.min(through, found.seen);
  inboxes.delivered(actor.agentId, sessionId, { sent, readThrough: sent === found.seen ? found.last : 0 });
  await inboxes.settleFor(actor.agentId);
}

/** A session with events that have not arrived. */
export interface UnreadSession {
  readonly session: Session;
  /** Where they begin. */
  readonly unread_after: number;
  /** How many of them are from others, counted up to a limit, and who caused them. */
  readonly unread: number;
  readonly from: readonly string[];
}

/** The sessions with something new from others, up to `limit`. */
export async function listUnread(
  service: ToolService,
  caller: Caller,
  { limit, waitMs }: { readonly limit: number; readonly waitMs: number },
): Promise<{ sessions: readonly UnreadSession[]; has_more: boolean }> {
  const { context } = service;
  const look = async () => {
    await context.inboxes.settleFor(caller.actor.agentId);
    for (let looks = 0; looks < LOOKS_MAX; looks += 1) {
      const rows = await context.database.read((query) => listPending(query, caller.actor.agentId, '', limit + 1));
      const sessions: UnreadSession[] = [];
      for (const row of rows.slice(0, limit)) {
        const unread = await viewUnread(context, caller.actor, row);
        if (unread !== undefined) sessions.push(unread);
      }
      const hasMore = rows.length > limit;
      if (sessions.length > 0) return { sessions, has_more: hasMore };
      if (!hasMore) return undefined;
    }
    return undefined;
  };
  const found = await waitFor(service, caller, { sessionId: undefined, waitMs }, look);
  return found ?? { sessions: [], has_more: false };
}

const COUNTED: Wanted = { limit: 50, maxChars: 0, isOthersOnly: true };

async function viewUnread(
  context: ServiceContext,
  actor: AgentActor,
  { session_id: sessionId, delivered_sequence: delivered }: PendingRow,
): Promise<UnreadSession | undefined> {
  const { events, last } = await readWanted(context, actor, sessionId, delivered, COUNTED);
  if (events.length === 0) {
    await confirm(context, actor, sessionId, last);
    return undefined;
  }
  const session = await context.database.read(async (query) => {
    const {
      session_state: state,
      topic,
      session_created_at: created_at,
      ended_at,
    } = await requireParticipation(query, sessionId, actor);
    const [viewed] = await viewSessions(query, [{ id: sessionId, state, topic, created_at, ended_at }]);
    return viewed;
  });
  if (session === undefined) return undefined;
  const from = [...new Set(events.map(findActor).filter((handle) => handle !== undefined))];
  return { session, unread_after: delivered, unread: events.length, from };
}

/** Notices changes of some resources of an agent. */
export interface Lookout {
  /** Whether a resource changed for the agent since the last look. */
  hasChanged(resource: Resource): Promise<boolean>;
}

/** Only the first sessions with something unread are watched: a client that never reads costs no more. */
const WATCHED_PENDING_MAX = 100;

/** Remembers a number for each session, and no events. */
export function createLookout(context: ServiceContext, actor: AgentActor): Lookout {
  const visible = new Map<string, number>();
  let pending: ReadonlyMap<string, number> = new Map();
  return {
    async hasChanged(resource) {
      if (resource !== 'inbox') {
        const { sessionId } = resource;
        const last = await findVisible(context, actor, sessionId);
        const before = visible.get(sessionId) ?? 0;
        visible.set(sessionId, last);
        return last > before;
      }
      const { agentId } = actor;
      await context.inboxes.settleFor(agentId);
      const rows = await context.database.read((query) => listPending(query, agentId, '', WATCHED_PENDING_MAX));
      const before = pending;
      pending = new Map(rows.map((row) => [row.session_id, row.last_sequence]));
      for (const { session_id: sessionId, last_sequence: last, delivered_sequence: delivered } of rows) {
        const after = before.get(sessionId) ?? delivered;
        if (last > after && (await readWanted(context, actor, sessionId, after, COUNTED)).events.length > 0)
          return true;
      }
      return false;
    },
  };
}

/** 0 for a session that the agent is not in. */
function findVisible({ database }: ServiceContext, { agentId }: AgentActor, sessionId: string): Promise<number> {
  return database.read(async (query) => {
    const participation = await findParticipation(query, sessionId, agentId);
    return participation === undefined ? 0 : findLastVisible(query, participation);
  });
}
