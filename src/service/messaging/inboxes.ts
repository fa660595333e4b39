import type { Inboxes, ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { isOutage } from '../core/errors.js';
import {
  advanceDeliveries,
  type DeliveryRow,
  findLastUnspread,
  isUnspread,
  listUnspread,
  type Reach,
  spreadToInboxes,
  takeUnspread,
  type UnspreadRow,
} from '../store/inboxes.js';

/** How far inboxes and delivery cursors may stay behind: events within this time are written together. */
const LAG_MS = 100;
const RETRY_MS = 1_000;
/** For each row of a page. Other writes wait for a transaction, so it changes no more than necessary. */
const INBOXES_PER_ROW = 2.5;

/** Inboxes and the work that fills them. */
export interface InboxKeeper extends Inboxes {
  start(): void;
  /** Writes the rest. */
  stop(): Promise<void>;
}

/**
 * Keeps the inboxes of all agents slightly behind the log, and delivery cursors slightly behind the sockets, without
 * delaying anyone. The events to distribute are those past a position that moves in the same transaction, so if a
 * process dies, the next one continues; the cursors of a process that dies are lost, and their events are delivered
 * again.
 */
export function createInboxes(context: Pick<ServiceContext, 'clock' | 'database' | 'bus' | 'log'>): InboxKeeper {
  const { clock, database, bus, log } = context;
  const deliveries = new Map<string, DeliveryRow>();
  /** Until the first check it is unknown what an earlier process left behind. */
  let mayBeBehind = true;
  let running: Promise<void> | undefined;
  let next: Promise<void> | undefined;
  let cancel: (() => void) | undefined;
  let stopListening = (): void => {};
  let isStopped = false;

  const arm = (delayMs = LAG_MS): void => {
    if (isStopped) return;
    cancel ??= clock.schedule(
      delayMs,
      () => {
        cancel = undefined;
        run().catch((error) => {
          // An outage is reported once, by the code that notices it.
          if (!isOutage(error)) log.error('inboxes_failed', error);
          arm(RETRY_MS);
        });
      },
      true,
    );
  };
  const work = async (): Promise<void> => {
    await writeDeliveries();
    if (!mayBeBehind && bus.isReliable) return;
    mayBeBehind = false;
    try {
      await spreadAll(context);
    } catch (error) {
      mayBeBehind = true;
      throw error;
    }
  };
  const writeDeliveries = async (): Promise<void> => {
    while (deliveries.size > 0) {
      const rows = [...deliveries.values()].slice(0, database.pageRows * INBOXES_PER_ROW);
      await database.behind.write((transaction) => advanceDeliveries(transaction, rows));
      for (const row of rows) if (deliveries.get(toKey(row)) === row) deliveries.delete(toKey(row));
    }
  };
  /** A run that begins after this call. */
  const run = (): Promise<void> => {
    if (running === undefined) {
      running = work().finally(() => {
        running = undefined;
      });
      return running;
    }
    next ??= running
      .catch(() => {})
      .then(() => {
        next = undefined;
        return run();
      });
    return next;
  };

  return {
    settle: run,
    async settleFor(agentId) {
      if (!mayBeBehind && bus.isReliable && running === undefined) return;
      const { pageRows } = database;
      const rows = await database.read((query) => listUnspread(query, agentId, pageRows));
      // So far behind that the rest of the page would have to be looked through, too.
      if (rows.length === pageRows) return run();
      const its = rows.filter(({ is_its: isIts }) => isIts === 1);
      if (its.length > 0) await database.write((transaction) => spreadToInboxes(transaction, toReaches(its), agentId));
    },
    delivered(agentId, sessionId, { sent, readThrough }) {
      const row = { agent_id: agentId, session_id: sessionId, sent, read_through: readThrough };
      const known = deliveries.get(toKey(row));
      deliveries.set(toKey(row), known === undefined ? row : further(known, row));
      arm();
    },
    start() {
      stopListening = bus.listen((signal) => {
        if (signal.kind !== 'events' || signal.events === undefined) return;
        mayBeBehind = true;
        arm();
      });
      arm();
    },
    async stop() {
      isStopped = true;
      stopListening();
      cancel?.();
      await run();
    },
  };
}

function toKey({ agent_id, session_id }: DeliveryRow): string {
  return `${session_id} ${agent_id}`;
}

function further(one: DeliveryRow, other: DeliveryRow): DeliveryRow {
  return {
    ...one,
    sent: Math.max(one.sent, other.sent),
    read_through: Math.max(one.read_through, other.read_through),
  };
}

/**
 * Distributes everything that was committed before the call, including what others have committed or are distributing
 * now.
 */
async function spreadAll({ database }: Pick<ServiceContext, 'database'>): Promise<void> {
  const last = await database.behind.read(findLastUnspread);
  if (last === undefined) return;
  const { pageRows } = database;
  let limit = pageRows;
  let isBehind = true;
  while (isBehind) {
    const { changed, isDone } = await database.behind.write((transaction) => spread(transaction, limit, last));
    isBehind = !isDone;
    limit = changed > pageRows * INBOXES_PER_ROW ? Math.ceil(limit / 4) : Math.min(limit * 2, pageRows);
  }
}

async function spread(
  transaction: Transaction,
  limit: number,
  last: number,
): Promise<{ readonly changed: number; readonly isDone: boolean }> {
  let events = await takeUnspread(transaction, limit, 'free');
  if (events.length === 0) events = await takeUnspread(transaction, limit, 'all');
  const changed = events.length === 0 ? 0 : await spreadToInboxes(transaction, toReaches(events));
  return { changed, isDone: !(await isUnspread(transaction, last)) };
}

/** The progress of each session with these events. */
function toReaches(events: readonly UnspreadRow[]): Reach[] {
  const reaches = new Map<string, Reach>();
  for (const { session_id, sequence, type, created_at } of events) {
    const known = reaches.get(session_id) ?? {
      session_id,
      sequence: 0,
      changed_at: 0,
      ended_sequence: 0,
      ended_at: 0,
    };
    const isLater = sequence > known.sequence;
    const isLaterEnd = type === 'session.ended' && sequence > known.ended_sequence;
    reaches.set(session_id, {
      ...known,
      ...(isLater && { sequence, changed_at: created_at }),
      ...(isLaterEnd && { ended_sequence: sequence, ended_at: created_at }),
    });
  }
  return [...reaches.values()];
}
