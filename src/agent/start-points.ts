import type { Client } from '../client/client.js';
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
  for await (const { sessions: page } of listPages(client, 'active', signal))
    for (const session of page) {
      const { id, last_activity_at: changedAt, last_sequence: last } = session;
      const isWaiting = isInvited(session, me);
      if (isWaiting) invitations.push(id);
      const isOld = last !== undefined && changedAt !== undefined && changedAt < sinceMs;
      if (isOld && !known.has(id)) {
        epoch ??= findEpoch(client, id, last, signal);
        cursors[id] = { after: last, epoch: await epoch };
      }
      // After an invitation that was read but not accepted, only the invitation itself appears again.
      else cursors[id] = isWaiting ? { after: 0 } : (known.get(id) ?? { after: 0 });
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

/** The epoch of the service's data; the list of sessions does not say. */
async function findEpoch(
  client: Client,
  sessionId: string,
  after: number,
  signal: AbortSignal,
): Promise<string | undefined> {
  const query = { after_sequence: after, limit: 1 };
  const { reply } = await client.call('replayEvents', { path: { session_id: sessionId }, query, signal });
  return reply.epoch;
}

/** The sessions of an agent in one state, most recently changed first. */
const listPages = (client: Client, state: Session['state'], signal: AbortSignal) =>
  client.pages('listSessions', { query: { state, limit: LIST_LIMIT_MAX }, signal });
