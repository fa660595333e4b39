import type { ServiceContext } from '../context.js';
import { append } from '../events/append.js';
import { removeParticipant } from '../sessions/remove-participant.js';
import {
  type AbsenceRow,
  deleteAbsence,
  insertAbsence,
  listAbsences,
  listAbsencesOf,
  listPresences,
} from '../store/absence-rows.js';
import type { Transaction } from '../store/database.js';
import { sessionLock } from '../store/lock-names.js';
import { findParticipation, type ParticipantRow } from '../store/participant-rows.js';
import { hasSocket } from '../store/socket-rows.js';

/** Sessions a transaction, so that a hundred agents that drop at once hold up nobody. */
const BATCH = 25;

/** Disconnected at once, left when the grace is over, reconnected before (wire: Live delivery, presence). */
export function createGraceRule(context: ServiceContext, graceMs: number) {
  let cancel: (() => void) | undefined;
  let isStopped = false;
  let work: Promise<void> = Promise.resolve();
  /** Whose absence could not be written. */
  const unmarked = new Set<string>();

  /** One piece of work after the other: what is written in between is written by others. */
  const inTurn = (step: () => Promise<void>): Promise<void> => {
    work = work.then(step).catch((error) => context.log.error('presence_failed', error));
    return work;
  };
  const settleDue = async (): Promise<void> => {
    const now = context.clock.now();
    let rows: AbsenceRow[];
    do {
      rows = await context.database.write((transaction) => settleOldest(context, transaction, now - graceMs));
    } while (rows.length === BATCH && !isStopped);
    const [next] = await context.database.read((query) => listAbsences(query, 1));
    if (next !== undefined) arm(next.since + graceMs - now);
  };
  const mark = async (agentId: string): Promise<void> => {
    unmarked.delete(agentId);
    try {
      await markAbsent(context, agentId);
    } catch (error) {
      unmarked.add(agentId);
      throw error;
    }
    arm(graceMs);
  };
  const arm = (delayMs: number): void => {
    if (isStopped) return;
    cancel ??= context.clock.schedule(
      delayMs,
      () => {
        cancel = undefined;
        void inTurn(settleDue);
      },
      true,
    );
  };

  return {
    dropped: (agentId: string) => inTurn(() => mark(agentId)),
    returned: (agentId: string) => inTurn(() => markBack(context, agentId)),
    settle() {
      for (const agentId of unmarked) void inTurn(() => mark(agentId));
      return inTurn(settleDue);
    },
    stop() {
      isStopped = true;
      cancel?.();
      return work;
    },
  };
}

async function markAbsent(context: ServiceContext, agentId: string): Promise<void> {
  let after = '';
  while (true) {
    const marked = await context.database.write(async (transaction) => {
      if (await hasSocket(transaction, agentId)) return [];
      const present = await listPresences(transaction, agentId, after, BATCH);
      await transaction.lock(present.map((row) => sessionLock(row.session_id)));
      for (const participant of present) {
        if (!(await isStillThere(transaction, participant))) continue;
        await appendPresence(context, transaction, participant, 'session.disconnected');
        await insertAbsence(transaction, { ...participant, since: context.clock.now() });
      }
      return present;
    });
    if (marked.length < BATCH) return;
    after = marked.at(-1)?.session_id ?? after;
  }
}

async function markBack(context: ServiceContext, agentId: string): Promise<void> {
  let count = BATCH;
  while (count === BATCH) {
    count = await context.database.write(async (transaction) => {
      const rows = await listAbsencesOf(transaction, agentId, BATCH);
      await transaction.lock(rows.map((row) => sessionLock(row.session_id)));
      for (const row of rows) {
        if (!(await deleteAbsence(transaction, row))) continue;
        const participant = await findJoined(transaction, row);
        if (participant !== undefined) await appendPresence(context, transaction, participant, 'session.reconnected');
      }
      return rows.length;
    });
  }
}

/** Ends the participations of those whose grace is over. */
async function settleOldest(context: ServiceContext, transaction: Transaction, dueAt: number): Promise<AbsenceRow[]> {
  const rows = (await listAbsences(transaction, BATCH)).filter((row) => row.since <= dueAt);
  await transaction.lock(rows.map((row) => sessionLock(row.session_id)));
  for (const row of rows) {
    if (!(await deleteAbsence(transaction, row))) continue;
    const participant = await findJoined(transaction, row);
    if (participant === undefined) continue;
    if (await hasSocket(transaction, row.agent_id))
      await appendPresence(context, transaction, participant, 'session.reconnected');
    else await removeParticipant(context, transaction, participant, 'grace_expired');
  }
  return rows;
}

async function isStillThere(transaction: Transaction, { session_id, agent_id }: ParticipantRow): Promise<boolean> {
  const participant = await findParticipation(transaction, session_id, agent_id);
  return participant?.status === 'joined' && participant.session_state === 'active';
}

/** Undefined unless it is the same participation still: one that joined anew has not been disconnected. */
async function findJoined(transaction: Transaction, row: AbsenceRow): Promise<ParticipantRow | undefined> {
  const participant = await findParticipation(transaction, row.session_id, row.agent_id);
  if (participant?.status !== 'joined' || participant.session_state !== 'active') return undefined;
  return (participant.joined_at ?? 0) <= row.since ? participant : undefined;
}

async function appendPresence(
  context: ServiceContext,
  transaction: Transaction,
  participant: ParticipantRow,
  type: 'session.disconnected' | 'session.reconnected',
): Promise<void> {
  await append(context, transaction, participant.session_id, 1, async () => [
    { type, payload: { agent: participant.handle } },
  ]);
}
