import type { NewEvents } from '../core/bus.js';
import type { ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';
import { findSequenceAt, listPositionsAfter, listPositionsIn, type PositionRow } from '../store/events.js';
import { listPendingOfProcess, type PendingRow } from '../store/inboxes.js';

const POLL_MS = 1_000;
/** Applies even if no notification is known to be lost. */
const POLL_ANYWAY_MS = 30_000;
/** If a socket starts further back, it may get events again. */
const LATER_MAX = 256;

/** Delivers the events that were missed. */
export interface Deliverer {
  hasSockets(): boolean;
  hear(signal: NewEvents): void;
  /** `heard`: the sessions whose events the log has just shown. */
  offerPending(row: PendingRow, heard: ReadonlySet<string>): void;
  /** No one knows what the sockets have missed. */
  failAll(error: unknown): void;
}

/**
 * Finds events whose notification was lost, within a second, and repeats notifications that could not be followed. It
 * looks at the log and at the inboxes: an inbox says only what none of its agent's sockets has received.
 */
export class MissedEvents {
  readonly #context: ServiceContext;
  readonly #processId: string;
  readonly #deliverer: Deliverer;
  readonly #mayHaveMissed: () => boolean;
  #lookedAtMs: number;
  /** Notifications of events after this position may not have arrived. */
  #unsureAfter: number | undefined;
  /** The same before the last look at the log: sockets may still be on their way to the events that it found. */
  #lookedAfter = 0;
  /** Notifications that could not be followed. */
  readonly #failed: NewEvents[] = [];
  #cancelPoll: (() => void) | undefined;
  #cancelRetry: (() => void) | undefined;
  #isStopped = false;

  constructor(context: ServiceContext, processId: string, deliverer: Deliverer) {
    this.#context = context;
    this.#processId = processId;
    this.#deliverer = deliverer;
    this.#mayHaveMissed = context.bus.watchLosses();
    this.#lookedAtMs = context.clock.monotonic();
  }

  /** Until now there were no sockets that could miss an event. */
  beginHere(): void {
    this.#unsureAfter = this.#context.bus.settledPosition();
  }

  /** The same positions may be used again. */
  startOver(): void {
    this.#unsureAfter = undefined;
    this.#lookedAfter = 0;
  }

  /** Looks when a notification may have been lost, as long as there are sockets. */
  watch(): void {
    const { bus, clock } = this.#context;
    if (this.#isStopped || bus.isReliable) return;
    this.#cancelPoll ??= clock.schedule(
      POLL_MS,
      async () => {
        if (this.#mayHaveMissed() || clock.monotonic() - this.#lookedAtMs >= POLL_ANYWAY_MS) await this.#look();
        this.#cancelPoll = undefined;
        if (this.#deliverer.hasSockets()) this.watch();
      },
      true,
    );
  }

  /** This notification could not be followed. */
  hearLater(signal: NewEvents): void {
    if (this.#isStopped) return;
    this.#failed.push(signal);
    this.#cancelRetry ??= this.#context.clock.schedule(
      POLL_MS,
      async () => {
        this.#cancelRetry = undefined;
        const signals = this.#failed.splice(0);
        await this.#look();
        for (const each of signals) this.#deliverer.hear(each);
      },
      true,
    );
  }

  /** A socket that opened at the position `since` may have missed events after this one. */
  unsureAfter(since: number): number {
    return Math.max(since, this.#lookedAfter);
  }

  /** The events of a session up to `through` that a socket that opened at `since` may have missed, in order. */
  listUnsure(query: Query, sessionId: string, since: number, through: number): Promise<readonly PositionRow[]> {
    if (this.#context.bus.isReliable) return Promise.resolve([]);
    return listLater(query, sessionId, this.unsureAfter(since), through);
  }

  stop(): void {
    this.#isStopped = true;
    this.#cancelPoll?.();
    this.#cancelRetry?.();
  }

  async #look(): Promise<void> {
    const { clock, database, inboxes } = this.#context;
    const { pageRows } = database;
    this.#lookedAtMs = clock.monotonic();
    try {
      await inboxes.settle();
      const heard = await this.#lookAtLog();
      let after = { agentId: '', sessionId: '' };
      let rows: PendingRow[];
      do {
        rows = await database.behind.read((query) => listPendingOfProcess(query, this.#processId, after, pageRows));
        for (const row of rows) this.#deliverer.offerPending(row, heard);
        const last = rows.at(-1);
        if (last !== undefined) after = { agentId: last.agent_id, sessionId: last.session_id };
      } while (rows.length === pageRows && !this.#isStopped);
    } catch (error) {
      this.#deliverer.failAll(error);
    }
  }

  /** Returns the sessions that it found. */
  async #lookAtLog(): Promise<ReadonlySet<string>> {
    const { bus, database } = this.#context;
    const { pageRows } = database;
    const heard = new Set<string>();
    const before = this.#unsureAfter;
    const next = bus.settledPosition();
    if (before !== undefined) {
      let after = before;
      let rows: PositionRow[];
      do {
        rows = await database.behind.read((query) => listPositionsAfter(query, after, pageRows));
        for (const signal of toSignals(rows)) {
          heard.add(signal.sessionId);
          this.#deliverer.hear(signal);
        }
        after = rows.at(-1)?.position ?? after;
      } while (rows.length === pageRows && !this.#isStopped);
      this.#lookedAfter = before;
    }
    this.#unsureAfter = next;
    return heard;
  }
}

/** The growth of each session. */
function toSignals(rows: readonly PositionRow[]): NewEvents[] {
  const signals = new Map<string, NewEvents>();
  for (const { session_id: sessionId, sequence } of rows)
    signals.set(sessionId, {
      kind: 'events',
      sessionId,
      first: signals.get(sessionId)?.first ?? sequence,
      last: sequence,
    });
  return [...signals.values()];
}

/** Those of a session that are past a position of the log, up to the event `through`, in order. */
async function listLater(query: Query, sessionId: string, position: number, through: number): Promise<PositionRow[]> {
  if (through === 0) return [];
  const before = await findSequenceAt(query, sessionId, position);
  const count = through - before;
  if (count <= 0) return [];
  const rows = await listPositionsIn(query, sessionId, before, Math.min(count, LATER_MAX));
  // Too many to look at each of them.
  const [first] = rows;
  return count > LATER_MAX && first !== undefined ? [{ ...first, position: Number.MAX_SAFE_INTEGER }] : rows;
}
