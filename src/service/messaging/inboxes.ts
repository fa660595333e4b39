import type { Inboxes, Progress, ServiceContext, Settings } from '../core/context.js';
import { type Database, isShared, type Transaction } from '../core/database.js';
import { isOutage } from '../core/errors.js';
import {
  advanceDeliveries,
  type DeliveryRow,
  findLastUnspread,
  findNextParticipants,
  isUnspread,
  listLargeSessions,
  listUnspread,
  listUnspreadFor,
  type Members,
  type Reach,
  spreadToInboxes,
  takeUnspread,
  type UnspreadRow,
} from '../store/inboxes.js';
import { queueForPush } from '../store/push.js';
import { queueForWebhooks } from '../store/webhooks.js';

/** How far inboxes and delivery cursors may stay behind: events within this time are written together. */
const LAG_MS = 100;
const RETRY_MS = 1_000;
/** For each row of a page. Other writes wait for a transaction, so it changes no more than necessary. */
const INBOXES_PER_ROW = 2.5;

/** How many inboxes one statement changes. On SQLite it blocks the event loop. */
function inboxesPerStep({ isExclusive, pageRows }: Database): number {
  return isExclusive ? pageRows : pageRows * INBOXES_PER_ROW;
}

/** Inboxes and the work that fills them. */
export interface InboxKeeper extends Inboxes {
  start(): void;
  /** Writes the rest. */
  stop(): Promise<void>;
}

type InboxesContext = Pick<ServiceContext, 'clock' | 'database' | 'bus' | 'log'> & PushSetting;

interface PushSetting {
  readonly settings?: Pick<Settings, 'webPush' | 'webhooks'>;
}

/**
 * Keeps the inboxes of all agents slightly behind the log, and delivery cursors slightly behind the sockets, without
 * delaying anyone. The events to distribute are those past a position that moves in the same transaction, so if a
 * process dies, the next one continues; the cursors of a process that dies are lost, and their events are delivered
 * again.
 */
export function createInboxes(context: InboxesContext): InboxKeeper {
  return new Keeper(context);
}

class Keeper implements InboxKeeper {
  readonly #context: InboxesContext;
  readonly #deliveries: UnwrittenDeliveries;
  /** Until the first check it is unknown what an earlier process left behind. */
  #mayBeBehind = true;
  #running: Promise<void> | undefined;
  #next: Promise<void> | undefined;
  #cancel: (() => void) | undefined;
  #stopListening = (): void => {};
  #stopWatchingEpochs = (): void => {};
  #isStopped = false;

  constructor(context: InboxesContext) {
    this.#context = context;
    this.#deliveries = new UnwrittenDeliveries(context);
  }

  start(): void {
    const { bus, database } = this.#context;
    this.#stopListening = bus.listen((signal) => {
      if (signal.kind !== 'events' || signal.events === undefined) return;
      this.#mayBeBehind = true;
      this.#arm();
    });
    // Delivered events may be gone, and their numbers may be used again.
    if (isShared(database)) this.#stopWatchingEpochs = database.onNewEpoch(() => this.#deliveries.clear());
    this.#arm();
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    this.#stopListening();
    this.#cancel?.();
    await this.settle();
    this.#stopWatchingEpochs();
  }

  delivered(agentId: string, sessionId: string, { sent, readThrough }: Progress): void {
    this.#deliveries.add({ agent_id: agentId, session_id: sessionId, sent, read_through: readThrough });
    this.#arm();
  }

  async settleFor(agentId: string): Promise<void> {
    await this.#deliveries.writeFor(agentId);
    await this.#spreadTo({ first: agentId, last: agentId });
  }

  settleForAccount(accountId: string): Promise<void> {
    return this.#spreadTo({ accountId });
  }

  /** A run that begins after this call. */
  settle(): Promise<void> {
    if (this.#running === undefined) {
      this.#running = this.#run().finally(() => {
        this.#running = undefined;
      });
      return this.#running;
    }
    this.#next ??= this.#running
      .catch(() => {})
      .then(() => {
        this.#next = undefined;
        return this.settle();
      });
    return this.#next;
  }

  #arm(delayMs = LAG_MS): void {
    if (this.#isStopped) return;
    this.#cancel ??= this.#context.clock.schedule(
      delayMs,
      () => {
        this.#cancel = undefined;
        this.settle().catch((error) => {
          // An outage is reported once, by the code that notices it.
          if (!isOutage(error)) this.#context.log.error('inboxes_failed', error);
          this.#arm(RETRY_MS);
        });
      },
      true,
    );
  }

  async #run(): Promise<void> {
    await this.#deliveries.writeAll();
    if (!this.#mayBeBehind && this.#context.bus.isReliable) return;
    this.#mayBeBehind = false;
    try {
      await spreadAll(this.#context);
    } catch (error) {
      this.#mayBeBehind = true;
      throw error;
    }
  }

  /** Resolves once the inboxes of these agents contain every event that was committed before the call. */
  async #spreadTo(members: Members): Promise<void> {
    const { database, bus } = this.#context;
    if (!this.#mayBeBehind && bus.isReliable && this.#running === undefined) return;
    const { pageRows } = database;
    const rows = await database.read((query) => listUnspreadFor(query, members, pageRows));
    // So far behind that the rest of the page would have to be looked through, too.
    if (rows.length === pageRows) return this.settle();
    const theirs = rows.filter((row) => row.is_theirs === 1);
    if (theirs.length === 0) return;
    await database.write((transaction) => spreadToInboxes(transaction, toReaches(theirs), members));
  }
}

/** How far the sockets of this process are ahead of the stored delivery cursors. */
class UnwrittenDeliveries {
  readonly #context: Pick<ServiceContext, 'database' | 'bus'>;
  readonly #rows = new Map<string, DeliveryRow>();

  constructor(context: Pick<ServiceContext, 'database' | 'bus'>) {
    this.#context = context;
  }

  add(row: DeliveryRow): void {
    const known = this.#rows.get(toKey(row));
    this.#rows.set(toKey(row), known === undefined ? row : further(known, row));
  }

  clear(): void {
    this.#rows.clear();
  }

  async writeAll(): Promise<void> {
    const { database } = this.#context;
    while (this.#rows.size > 0) {
      const rows = [...this.#rows.values()].slice(0, inboxesPerStep(database));
      await database.behind.write(this.#advanceTo(rows));
      this.#noteWritten(rows);
    }
  }

  async writeFor(agentId: string): Promise<void> {
    const rows = [...this.#rows.values()].filter((row) => row.agent_id === agentId);
    if (rows.length === 0) return;
    await this.#context.database.write(this.#advanceTo(rows));
    this.#noteWritten(rows);
  }

  /** A write can wait for a failover, after which its numbers may mean other events. */
  #advanceTo(rows: readonly DeliveryRow[]): (transaction: Transaction) => Promise<void> {
    const { database } = this.#context;
    const { token } = database.epoch();
    return async (transaction) => {
      if (database.epoch().token === token) await advanceDeliveries(transaction, rows);
    };
  }

  #noteWritten(rows: readonly DeliveryRow[]): void {
    for (const row of rows) if (this.#rows.get(toKey(row)) === row) this.#rows.delete(toKey(row));
    const sessionIds = new Set(rows.map((row) => row.session_id));
    for (const sessionId of sessionIds) this.#context.bus.notify({ kind: 'progress', sessionId });
  }
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
async function spreadAll({ database, settings }: Pick<ServiceContext, 'database'> & PushSetting): Promise<void> {
  const isPushOn = settings?.webPush !== undefined;
  const areWebhooksOn = settings?.webhooks !== undefined;
  const last = await database.behind.read(findLastUnspread);
  if (last === undefined) return;
  const { pageRows } = database;
  let limit = pageRows;
  let isBehind = true;
  while (isBehind) {
    const ahead = database.isExclusive ? await spreadAhead(database, limit) : undefined;
    const { changed, isDone } = await database.behind.write((transaction) =>
      spread(transaction, { limit, last, ahead, isPushOn, areWebhooksOn }),
    );
    isBehind = !isDone;
    limit = changed > pageRows * INBOXES_PER_ROW ? Math.ceil(limit / 4) : Math.min(limit * 2, pageRows);
  }
}

/** What `spreadAhead` did. */
interface Ahead {
  readonly eventCount: number;
  /** How far the inboxes of each large session are filled. */
  readonly reached: ReadonlyMap<string, number>;
}

/**
 * Distributes the next events of large sessions in steps, each in its own transaction, before the transaction that takes
 * these events. They are read once, so new events of a session that never pauses do not put off the end, and all its
 * members get as far. An agent that joins or leaves in the meantime does so in a later event. If the process dies, the next
 * one starts over.
 */
async function spreadAhead(database: Database, limit: number): Promise<Ahead> {
  const step = inboxesPerStep(database);
  const { eventCount, reaches } = await database.behind.read(async (query) => {
    const events = await listUnspread(query, limit);
    const all = toReaches(events);
    const large = await listLargeSessions(
      query,
      all.map(({ session_id: id }) => id),
      step,
    );
    return { eventCount: events.length, reaches: all.filter(({ session_id: id }) => large.has(id)) };
  });
  for (const reach of reaches) {
    const { session_id: id } = reach;
    const next = (after: string) => database.behind.read((query) => findNextParticipants(query, id, after, step));
    for (let range = await next(''); range !== undefined; range = await next(range.last)) {
      const agents = range;
      await database.behind.write((transaction) => spreadToInboxes(transaction, [reach], agents));
    }
  }
  return { eventCount, reached: new Map(reaches.map(({ session_id: id, sequence }) => [id, sequence])) };
}

interface Spread {
  readonly limit: number;
  /** Everything up to this position has to be distributed. */
  readonly last: number;
  readonly ahead: Ahead | undefined;
  readonly isPushOn: boolean;
  readonly areWebhooksOn: boolean;
}

async function spread(
  transaction: Transaction,
  { limit, last, ahead, isPushOn, areWebhooksOn }: Spread,
): Promise<{ readonly changed: number; readonly isDone: boolean }> {
  let events = await takeUnspread(transaction, ahead?.eventCount ?? limit, 'free');
  if (events.length === 0) events = await takeUnspread(transaction, limit, 'all');
  const reaches = toReaches(events).filter(({ session_id: id, sequence }) => sequence > (ahead?.reached.get(id) ?? 0));
  const changed = reaches.length === 0 ? 0 : await spreadToInboxes(transaction, reaches);
  if (isPushOn) await queueForPush(transaction, events);
  const [{ position } = { position: 0 }] = events;
  if (areWebhooksOn && position > 0) await queueForWebhooks(transaction, toReaches(events), position);
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
