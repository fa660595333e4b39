import type { PathOf } from '../../wire/endpoint.js';
import { LISTED_PARTICIPANTS_MAX } from '../../wire/limit.js';
import type { QueryOf, ReplyOf } from '../../wire/schemas/endpoint.js';
import type { Participant, Session } from '../../wire/schemas/session.js';
import type { AccountActor, AgentActor, ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { listAgentsOfAccount } from '../store/agents.js';
import { type CursorScope, decodeCursor, encodeCursor } from '../store/cursor.js';
import { findParticipation, listParticipants, listParticipantsOf, type ParticipantRow } from '../store/participants.js';
import {
  findActingHandle,
  LIST_START,
  type ListedRow,
  type ListPlace,
  listSessionsOfAgent,
  listSessionsOfSibling,
  type SessionRow,
} from '../store/sessions.js';

/** A session as every participant sees it, with its participants in order of arrival (spec: Session). */
export function viewSession(
  row: Pick<SessionRow, 'id' | 'state' | 'topic' | 'created_at' | 'ended_at'>,
  participants: readonly ParticipantRow[] = [],
): Session {
  return {
    id: row.id,
    state: row.state,
    topic: row.topic,
    participants: participants.map(viewParticipant),
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

function viewParticipant(row: ParticipantRow): Participant {
  return { handle: row.handle, status: row.status, joined_at: row.joined_at, left_at: row.left_at };
}

/** For current and former participants alike (spec: GET /sessions/{session_id}). */
export async function getSession(
  _context: ServiceContext,
  actor: AgentActor,
  input: { path: PathOf<'getSession'> },
  query: Query,
): Promise<ReplyOf<'getSession'>> {
  const participation = await findParticipation(query, input.path.session_id, actor.agentId);
  if (participation === undefined) throw new ServiceError('NOT_FOUND');
  const session = {
    id: participation.session_id,
    state: participation.session_state,
    topic: participation.topic,
    created_at: participation.session_created_at,
    ended_at: participation.ended_at,
  };
  return viewSession(session, await listParticipants(query, session.id));
}

/** Where a list of sessions continues. */
export function readPlace(scope: CursorScope, cursor: string | undefined): ListPlace {
  const [changedAt, sessionId] = decodeCursor(scope, cursor, [LIST_START.changedAt, LIST_START.sessionId]);
  return { changedAt, sessionId };
}

export async function listSessions(
  _context: ServiceContext,
  actor: AgentActor,
  input: { query: QueryOf<'listSessions'> },
  query: Query,
): Promise<ReplyOf<'listSessions'>> {
  const { state, limit, cursor } = input.query;
  const scope = ['sessions', actor.agentId, state];
  const rows = await listSessionsOfAgent(query, actor.agentId, state, readPlace(scope, cursor), limit + 1);
  const viewed = await viewSessions(query, rows.slice(0, limit));
  const sessions = viewed.map((session, index) => {
    const row = rows[index];
    const me = session.participants.find(({ handle }) => handle === actor.handle);
    // An agent that is not joined sees only some of the events.
    return row !== undefined && me?.status === 'joined' ? { ...session, last_sequence: row.last_sequence } : session;
  });
  const last = rows[sessions.length - 1];
  const hasMore = last !== undefined && rows.length > sessions.length;
  return { sessions, next_cursor: hasMore ? encodeCursor(scope, [last.changed_at, last.id]) : null };
}

const AGENTS_PER_QUERY = 200;

/** One row per session, whichever and however many of the account's agents take part (wire: Sessions). */
export async function listAccountSessions(
  _context: ServiceContext,
  actor: AccountActor,
  input: { query: QueryOf<'listAccountSessions'> },
  query: Query,
): Promise<ReplyOf<'listAccountSessions'>> {
  const { rows, next } = await readAccountSessions(query, actor.accountId, input.query);
  return { sessions: rows.map(({ session, acting_handle }) => ({ session, acting_handle })), next_cursor: next };
}

type AccountSession = ReplyOf<'listAccountSessions'>['sessions'][number] & {
  /** When an event that the account may see last happened in it. */
  readonly changedAt: number;
};

/** The same, and when each last changed. */
export async function readAccountSessions(
  query: Query,
  accountId: string,
  { state, limit, cursor }: QueryOf<'listAccountSessions'>,
): Promise<{ readonly rows: readonly AccountSession[]; readonly next: string | null }> {
  const scope = ['account sessions', accountId, state];
  const place = readPlace(scope, cursor);
  let found: ListedRow[] = [];
  for await (const agentId of eachAgent(query, accountId)) {
    const more = await listSessionsOfSibling(query, accountId, agentId, state, place, limit + 1);
    found = [...found, ...more].sort(latestFirst).slice(0, limit + 1);
  }
  const rows: AccountSession[] = [];
  for (const [index, session] of (await viewSessions(query, found.slice(0, limit))).entries())
    rows.push({
      session,
      acting_handle: await findActingHandle(query, accountId, session.id),
      changedAt: found[index]?.changed_at ?? 0,
    });
  const last = found[rows.length - 1];
  const hasMore = last !== undefined && found.length > rows.length;
  return { rows, next: hasMore ? encodeCursor(scope, [last.changed_at, last.id]) : null };
}

async function* eachAgent(query: Query, accountId: string): AsyncGenerator<string> {
  let afterId = '';
  while (true) {
    const agents = await listAgentsOfAccount(query, accountId, { afterId, limit: AGENTS_PER_QUERY });
    for (const agent of agents) yield agent.id;
    const last = agents.at(-1);
    if (last === undefined || agents.length < AGENTS_PER_QUERY) return;
    afterId = last.id;
  }
}

function latestFirst(a: ListedRow, b: ListedRow): number {
  return b.changed_at - a.changed_at || (a.id < b.id ? 1 : -1);
}
