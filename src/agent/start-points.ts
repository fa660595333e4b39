import { type Client, RequestError } from '../client/client.js';
import { LIST_LIMIT_MAX } from '../wire/limit.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Session } from '../wire/schemas/session.js';
import type { Cursor } from './cursors.js';
import { isInvited } from './invitation.js';
import type { Progress } from './progress-file.js';

/** Where each session continues, and which later events are already done. */
export interface StartPoints {
  readonly cursors: Readonly<Record<string, Cursor>>;
  /** Sessions that wait for the agent to join, which then answers everything in them. */
  readonly invitations: readonly string[];
  isDone(event: EventEnvelope): boolean;
  /** A session continues earlier: later events are not done. */
  goBack(sessionId: string, cursor: Cursor): void;
}

/** The service's time from its `Date`; ours if it has none. */
export async function serviceTime(client: Client, nowMs: number, signal: AbortSignal): Promise<number> {
  const { headers } = await client.raw({ method: 'GET', path: '/sessions?limit=1', signal });
  const dateMs = Date.parse(headers['date'] ?? '');
  return Number.isNaN(dateMs) ? nowMs : dateMs;
}

/** Every session that may have work waiting. */
export async function findStartPoints(
  client: Client,
  { sinceMs, sessions }: Progress,
  me: string,
  signal: AbortSignal,
): Promise<StartPoints> {
  const known = new Map(sessions);
  const cursors: Record<string, Cursor> = {};
  const invitations: string[] = [];
  let epoch: Promise<string | undefined> | undefined;
  /** A session in which nothing has happened since is not read. */
  const startOf = async ({ id, last_activity_at: changedAt, last_sequence: last }: Session): Promise<Cursor> => {
    if (last === undefined || changedAt === undefined || changedAt >= sinceMs) return { after: 0 };
    epoch ??= findEpoch(client, id, last, signal);
    return { after: last, epoch: await epoch };
  };
  for await (const { sessions: page } of listPages(client, 'active', signal))
    for (const session of page) {
      const { id } = session;
      const isWaiting = isInvited(session, me);
      if (isWaiting) invitations.push(id);
      // After an invitation that was read but not accepted, only the invitation itself appears again.
      cursors[id] = isWaiting ? { after: 0 } : (known.get(id) ?? (await startOf(session)));
    }
  for await (const { sessions: page } of listPages(client, 'ended', signal)) {
    const recent = page.filter(({ ended_at: endedAt }) => (endedAt ?? sinceMs) >= sinceMs);
    for (const { id } of recent) cursors[id] = known.get(id) ?? { after: 0 };
    if (recent.length === 0) break;
  }
  const isWhole = new Set([...known.keys(), ...invitations]);
  return {
    cursors,
    invitations,
    goBack: (id, cursor) => void known.set(id, cursor),
    isDone: ({ session_id: id, sequence, created_at: createdAt }) =>
      sequence <= (known.get(id)?.after ?? 0) || (!isWhole.has(id) && createdAt < sinceMs),
  };
}

/** The epoch of the service's data, which the list of sessions does not say; undefined also if this session is gone. */
async function findEpoch(
  client: Client,
  sessionId: string,
  after: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const query = { after_sequence: after, limit: 1 };
  try {
    const { reply } = await client.call('replayEvents', { path: { session_id: sessionId }, query, signal });
    return reply.epoch;
  } catch (error) {
    if (error instanceof RequestError && error.code === 'NOT_FOUND') return undefined;
    throw error;
  }
}

/** The sessions of an agent in one state, most recently changed first. */
const listPages = (client: Client, state: Session['state'], signal: AbortSignal) =>
  client.pages('listSessions', { query: { state, limit: LIST_LIMIT_MAX }, signal });
