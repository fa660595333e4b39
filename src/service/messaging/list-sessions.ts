import { createHash } from 'node:crypto';
import { LISTED_PARTICIPANTS_MAX } from '../../wire/limit.js';
import type { Session } from '../../wire/schemas/session.js';
import type { Handler } from '../core/context.js';
import type { Query } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { listAgentMarks, listAgentsOfAccount } from '../store/agents.js';
import { type CursorScope, decodeCursor, encodeCursor } from '../store/cursor.js';
import {
  findParticipation,
  listParticipants,
  listParticipantsOf,
  type ParticipantRow,
  type ParticipationRow,
} from '../store/participants.js';
import {
  type FilteredRow,
  LIST_START,
  type ListedRow,
  type ListPosition,
  listFilteredSessions,
  listInvitedSessions,
  listSessionsOfAgent,
  type SessionFilter,
  type SessionRow,
} from '../store/sessions.js';
import { type AccountView, findAccountViews } from './events.js';

/** A session as every participant sees it, with its participants in order of arrival (spec: Session). */
function viewSession(
  row: Pick<SessionRow, 'id' | 'state' | 'topic' | 'created_at' | 'ended_at'>,
  participants: readonly ParticipantRow[] = [],
): Session {
  return {
    id: row.id,
    state: row.state,
    topic: row.topic,
    participants: participants.map(({ handle, status, joined_at, left_at }) => ({
      handle,
      status,
      joined_at,
      left_at,
    })),
    created_at: row.created_at,
    ended_at: row.ended_at,
  };
}

const SESSIONS_PER_FIRST_QUERY = 8;

/**
 * The sessions of a page, with their participants: the first of `rows`, at least one, until they have too many
 * participants together.
 */
export async function viewSessions(
  query: Query,
  rows: readonly Pick<SessionRow, 'id' | 'state' | 'topic' | 'created_at' | 'ended_at'>[],
): Promise<Session[]> {
  const sessions: Session[] = [];
  let count = 0;
  let next = SESSIONS_PER_FIRST_QUERY;
  while (sessions.length < rows.length) {
    const some = rows.slice(sessions.length, sessions.length + next);
    const participants = await listParticipantsOf(
      query,
      some.map((row) => row.id),
    );
    for (const row of some) {
      const session = viewSession(row, participants.get(row.id));
      count += session.participants.length;
      if (sessions.length > 0 && count > LISTED_PARTICIPANTS_MAX) return sessions;
      sessions.push(session);
    }
    const fitting = ((LISTED_PARTICIPANTS_MAX - count) * sessions.length) / count;
    next = Math.max(1, Math.ceil(fitting));
  }
  return sessions;
}

/** For current and former participants alike (spec: GET /sessions/{session_id}). */
export const getSession: Handler<'getSession'> = async (_context, actor, input, query) => {
  const participation = await findParticipation(query, input.path.session_id, actor.agentId);
  if (participation === undefined) throw new ServiceError('NOT_FOUND');
  return viewSessionOf(query, participation);
};

/** The session of a participation. */
export async function viewSessionOf(query: Query, participation: ParticipationRow): Promise<Session> {
  const { session_id: id, session_state: state, topic, session_created_at: createdAt, ended_at } = participation;
  const row = { id, state, topic, created_at: createdAt, ended_at };
  return viewSession(row, await listParticipants(query, id));
}

/** Where a list of sessions continues. */
function readListPosition(scope: CursorScope, cursor: string | undefined): ListPosition {
  const [changedAt, sessionId] = decodeCursor(scope, cursor, [LIST_START.changedAt, LIST_START.sessionId]);
  return { changedAt, sessionId };
}

export const listSessions: Handler<'listSessions'> = async (_context, actor, input, query) => {
  const { state, limit, cursor } = input.query;
  const scope = ['sessions', actor.agentId, state];
  const rows = await listSessionsOfAgent(query, actor.agentId, state, readListPosition(scope, cursor), limit + 1);
  const viewed = await viewSessions(query, rows.slice(0, limit));
  const sessions = viewed.map((session, index) => {
    const row = rows[index];
    if (row === undefined) return session;
    const me = session.participants.find(({ handle }) => handle === actor.handle);
    return {
      ...session,
      last_activity_at: row.changed_at,
      // An agent that is not joined sees only some of the events.
      ...(me?.status === 'joined' && { last_sequence: row.last_sequence }),
    };
  });
  const last = rows[sessions.length - 1];
  const hasMore = last !== undefined && rows.length > sessions.length;
  return { sessions, next_cursor: hasMore ? encodeCursor(scope, [last.changed_at, last.id]) : null };
};

const AGENTS_PER_QUERY = 200;

/** One row per session, no matter how many of the account's agents take part (wire: Sessions). */
export const listAccountSessions: Handler<'listAccountSessions'> = async (_context, actor, input, query) => {
  const { state, limit, cursor } = input.query;
  const scope = ['account sessions', actor.accountId, state];
  const position = readListPosition(scope, cursor);
  const agentIds = await listAgentIds(query, actor.accountId);
  const { rows, next } = await readAccountSessions(query, actor.accountId, agentIds, {
    filter: { state },
    position,
    limit,
    walkedMax: Number.MAX_SAFE_INTEGER,
  });
  return {
    sessions: rows.map(({ session, view, changedAt }) => ({
      session: { ...session, last_activity_at: changedAt },
      acting_handle: findActingHandle(view),
    })),
    next_cursor: next === undefined ? null : encodeCursor(scope, [next.changedAt, next.sessionId]),
  };
};

/** A session in the list of an account, with what the account may see of it. */
export interface AccountSession {
  readonly session: Session;
  readonly view: AccountView;
  /** When an event that the account may see last happened in it. */
  readonly changedAt: number;
}

/** A part of the list; `next` is where to continue, undefined at its end. */
export interface AccountSessions<Next = ListPosition> {
  readonly rows: readonly AccountSession[];
  readonly next: Next | undefined;
}

/** The agent with which the account takes part: joined before invited before left, then by handle. */
function findActingHandle({ participations }: AccountView): string {
  const toRank = ({ status }: { status: ParticipantRow['status'] }): number =>
    ({ joined: 0, invited: 1, left: 2 })[status];
  const [acting] = participations
    .filter(({ agent_removed_at: removedAt }) => removedAt === null)
    .sort((one, other) => toRank(one) - toRank(other) || (one.handle < other.handle ? -1 : 1));
  if (acting === undefined) throw new Error('A listed session has none of the agents of the account.');
  return acting.handle;
}

interface AskedSessions {
  readonly filter: SessionFilter;
  readonly position: ListPosition;
  readonly limit: number;
  /** Of each agent, at least; a part of a list that few sessions match may have fewer than `limit`. */
  readonly walkedMax: number;
}

/** The sessions of these agents, each once, most recently changed first. */
export async function readAccountSessions(
  query: Query,
  accountId: string,
  agentIds: readonly string[],
  { filter, position, limit, walkedMax }: AskedSessions,
): Promise<AccountSessions> {
  let found: ListedRow[] = [];
  let stop: ListPosition | undefined;
  for (const agentId of agentIds) {
    const source = { accountId, agentId, isAlone: agentIds.length === 1 };
    const { rows, stoppedAt } = await walk(limit + 1, walkedMax, position, (from, count) =>
      listFilteredSessions(query, source, filter, from, count),
    );
    found = [...found, ...rows].sort(latestFirst).slice(0, limit + 1);
    if (stoppedAt !== undefined && (stop === undefined || isBefore(stoppedAt, stop))) stop = stoppedAt;
  }
  // Other agents may have sessions before those of an agent whose list was not read to its end.
  const known = found.filter((row) => stop === undefined || !isBefore(stop, toPosition(row)));
  const rows = await viewAll(query, accountId, known.slice(0, limit));
  const last = known[rows.length - 1];
  if (last !== undefined && known.length > rows.length) return { rows, next: toPosition(last) };
  return { rows, next: stop };
}

/** Active sessions to which these agents are invited, newest first, before the one with `beforeId`. */
export async function readInvitations(
  query: Query,
  accountId: string,
  agentId: string | undefined,
  { beforeId, limit }: { readonly beforeId: string; readonly limit: number },
): Promise<AccountSessions<string>> {
  const found = await listInvitedSessions(query, accountId, agentId, beforeId, limit + 1);
  const rows = await viewAll(query, accountId, found.slice(0, limit));
  return { rows, next: found.length > rows.length ? rows.at(-1)?.session.id : undefined };
}

async function viewAll(query: Query, accountId: string, rows: readonly ListedRow[]): Promise<AccountSession[]> {
  const sessions = await viewSessions(query, rows);
  const ids = sessions.map(({ id }) => id);
  const views = await findAccountViews(query, accountId, ids);
  return sessions.flatMap((session, index) => {
    const view = views.get(session.id);
    return view === undefined ? [] : [{ session, view, changedAt: rows[index]?.changed_at ?? 0 }];
  });
}

const WALK_STEP_MAX = 500;

/** The first wanted rows from `position` on; `stoppedAt` is set if the walk ended before their number or the list's end. */
async function walk(
  wanted: number,
  walkedMax: number,
  position: ListPosition,
  read: (start: ListPosition, count: number) => Promise<FilteredRow[]>,
): Promise<{ readonly rows: FilteredRow[]; readonly stoppedAt: ListPosition | undefined }> {
  const rows: FilteredRow[] = [];
  let at = position;
  let count = wanted;
  for (let walked = 0; ; walked += count, count = Math.min(2 * count, WALK_STEP_MAX)) {
    const more = await read(at, count);
    rows.push(...more.filter(({ is_match: isMatch }) => isMatch === 1));
    const last = more.at(-1);
    if (last === undefined || more.length < count || rows.length >= wanted) return { rows, stoppedAt: undefined };
    at = toPosition(last);
    if (walked + count >= walkedMax) return { rows, stoppedAt: at };
  }
}

/** Changes whenever a list of the account's agents or sessions does. */
export async function readListMark(query: Query, accountId: string): Promise<string> {
  const rows = await listAgentMarks(query, accountId);
  return createHash('sha256').update(JSON.stringify(rows)).digest('base64url').slice(0, 16);
}

/** All agents of an account, by id. */
export async function listAgentIds(query: Query, accountId: string): Promise<string[]> {
  const ids: string[] = [];
  while (true) {
    const agents = await listAgentsOfAccount(query, accountId, { afterId: ids.at(-1) ?? '', limit: AGENTS_PER_QUERY });
    ids.push(...agents.map(({ id }) => id));
    if (agents.length < AGENTS_PER_QUERY) return ids;
  }
}

const toPosition = ({ changed_at: changedAt, id: sessionId }: ListedRow): ListPosition => ({ changedAt, sessionId });

/** Whether one position comes first in the list. */
function isBefore(one: ListPosition, other: ListPosition): boolean {
  if (one.changedAt !== other.changedAt) return one.changedAt > other.changedAt;
  return one.sessionId > other.sessionId;
}

function latestFirst(a: ListedRow, b: ListedRow): number {
  return b.changed_at - a.changed_at || (a.id < b.id ? 1 : -1);
}
