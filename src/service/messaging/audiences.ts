import type { LoggedEvent, NewEvents } from '../core/bus.js';
import type { ServiceContext } from '../core/context.js';
import { listDelivered, listPending, type PendingRow } from '../store/inboxes.js';
import { Batch, createPauses, Delivery, type Pauses } from './delivery.js';
import { closeForFault, type LiveSocket } from './live-socket.js';
import type { MissedEvents } from './missed-events.js';

/**
 * One message can go to a thousand sockets. After this many, less than half a millisecond, everything else on the event
 * loop gets its turn.
 */
const SOCKETS_PER_TURN = 32;

/** Divides the work for many sockets into turns of the event loop. */
export class Turns {
  readonly #work: () => boolean;
  /** Continue with more sockets, one of them in each turn. */
  readonly #continuing: (() => void)[] = [];
  #isDue = false;
  /** Sockets that were written to in this turn. */
  #given = 0;

  /** `work` begins what is due in a turn, and returns whether there is more. */
  constructor(work: () => boolean) {
    this.#work = work;
  }

  get isOver(): boolean {
    return this.#given >= SOCKETS_PER_TURN;
  }

  count(sockets: number): void {
    this.#given += sockets;
  }

  /** After the current acknowledgments have been sent: senders do not wait for recipients. */
  take(): void {
    if (this.#isDue) return;
    this.#isDue = true;
    setImmediate(() => {
      this.#isDue = false;
      this.#given = 0;
      this.#continuing.shift()?.();
      const isMoreDue = this.#work();
      if (isMoreDue || this.#continuing.length > 0) this.take();
    });
  }

  /** Those that wait for it continue one after the other, each with as many sockets. */
  async next(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#continuing.push(resolve);
      this.take();
    });
    this.#given = 0;
  }
}

/** The sockets of one agent, and whether their missing events are being looked for. */
export interface Audience {
  readonly deliveries: Map<LiveSocket, Delivery>;
  isLooking: boolean;
  mustLookAgain: boolean;
}

/**
 * The open sockets of every agent. Sockets of agents that have joined a session are given its events; all others are
 * offered the session, and the log decides what they get. A socket that is new to a session first needs to know where
 * to start.
 */
export class Audiences {
  readonly #context: ServiceContext;
  readonly #turns: Turns;
  readonly #missed: MissedEvents;
  readonly #pauses: Pauses;
  readonly #byAgent = new Map<string, Audience>();

  constructor(context: ServiceContext, turns: Turns, missed: MissedEvents) {
    this.#context = context;
    this.#turns = turns;
    this.#missed = missed;
    this.#pauses = createPauses(context.clock, async (deliveries) => {
      for (const delivery of deliveries) {
        if (turns.isOver) await turns.next();
        delivery.askAgain();
        turns.count(1);
      }
    });
  }

  get isEmpty(): boolean {
    return this.#byAgent.size === 0;
  }

  add(socket: LiveSocket, since: number): Audience {
    const { agentId } = socket;
    const audience = this.#byAgent.get(agentId) ?? { deliveries: new Map(), isLooking: false, mustLookAgain: false };
    this.#byAgent.set(agentId, audience);
    audience.deliveries.set(socket, new Delivery(this.#context, socket, this.#pauses, since));
    return audience;
  }

  remove(socket: LiveSocket, audience: Audience): void {
    const { agentId } = socket;
    audience.deliveries.get(socket)?.stop();
    audience.deliveries.delete(socket);
    if (audience.deliveries.size === 0 && this.#byAgent.get(agentId) === audience) this.#byAgent.delete(agentId);
  }

  /** Sends the next events of a session to the sockets of agents that have joined it, serialized once. */
  async give(sessionId: string, agentIds: readonly string[], events: readonly LoggedEvent[]): Promise<void> {
    let batch: Batch | undefined;
    const unknown: string[] = [];
    for (const agentId of agentIds) {
      if (this.#turns.isOver) await this.#turns.next();
      const audience = this.#byAgent.get(agentId);
      if (audience === undefined) continue;
      batch ??= new Batch(sessionId, events);
      let isKnown = true;
      for (const delivery of audience.deliveries.values())
        if (delivery.knows(sessionId)) delivery.give(batch);
        else isKnown = false;
      this.#turns.count(audience.deliveries.size);
      if (!isKnown) unknown.push(agentId);
    }
    if (unknown.length > 0 && batch !== undefined) await this.#beginFor(unknown, batch);
  }

  /** Agents that have not joined see some events of some types, and those that left see earlier ones; the log decides. */
  async offer({ sessionId, first, last }: Omit<NewEvents, 'kind'>, agentIds: readonly string[]): Promise<void> {
    const concerned = agentIds.filter((id) => this.#byAgent.has(id));
    if (concerned.length === 0) return;
    const findStart = await this.#readStarts(sessionId, concerned, first);
    for (const agentId of concerned)
      for (const delivery of this.#deliveriesTo(agentId)) delivery.offer(sessionId, findStart(agentId, delivery), last);
  }

  /** A socket that is new to a `heard` session begins with the events that were heard. */
  offerPending(row: PendingRow, heard: ReadonlySet<string>): void {
    const { session_id: sessionId, delivered_sequence: delivered, last_sequence: last } = row;
    for (const delivery of this.#deliveriesTo(row.agent_id))
      if (delivery.knows(sessionId) || !heard.has(sessionId)) delivery.offer(sessionId, delivered, last);
  }

  /** Offers the sockets of an agent everything that it has not received yet. */
  async look(agentId: string, audience: Audience): Promise<void> {
    audience.mustLookAgain = true;
    if (audience.isLooking) return;
    audience.isLooking = true;
    try {
      while (audience.mustLookAgain && audience.deliveries.size > 0) {
        audience.mustLookAgain = false;
        // Later events are announced; earlier ones are in the inbox after this.
        await this.#context.inboxes.settle();
        await offerAllPending(this.#context, agentId, audience.deliveries);
      }
    } catch (error) {
      this.#context.log.error('feed_failed', error);
      for (const socket of audience.deliveries.keys()) closeForFault(socket, error);
    } finally {
      audience.isLooking = false;
    }
  }

  /** Closes all sockets: it is unknown which events they miss. */
  failAll(error: unknown): void {
    this.#context.log.error('feed_failed', error);
    for (const { deliveries } of this.#byAgent.values())
      for (const socket of deliveries.keys()) closeForFault(socket, error);
  }

  stop(): void {
    this.#pauses.stop();
    this.#byAgent.clear();
  }

  #deliveriesTo(agentId: string): Iterable<Delivery> {
    return this.#byAgent.get(agentId)?.deliveries.values() ?? [];
  }

  async #beginFor(agentIds: readonly string[], batch: Batch): Promise<void> {
    const { sessionId, first } = batch;
    const findStart = await this.#readStarts(sessionId, agentIds, first);
    for (const agentId of agentIds) {
      if (this.#turns.isOver) await this.#turns.next();
      for (const delivery of this.#deliveriesTo(agentId)) {
        if (!delivery.knows(sessionId)) delivery.begin(sessionId, findStart(agentId, delivery));
        delivery.give(batch);
        this.#turns.count(1);
      }
    }
  }

  /**
   * A socket without deliveries of this session starts at its agent's delivery cursor, and before the new events. Another
   * socket of the agent may have moved that cursor past events whose notification did not arrive here, or not yet: the
   * socket then starts before those that happened after it opened and after the last look at the log.
   */
  #readStarts(
    sessionId: string,
    agentIds: readonly string[],
    first: number,
  ): Promise<(agentId: string, delivery: Delivery) => number> {
    const missed = this.#missed;
    return this.#context.database.behind.read(async (query) => {
      const cursors = await listDelivered(query, sessionId, agentIds);
      const furthest = Math.min(Math.max(...cursors.values(), 0), first - 1);
      const sinces = agentIds.flatMap((id) => [...this.#deliveriesTo(id)].map(({ since }) => since));
      const oldest = sinces.reduce((least, since) => Math.min(least, since), Number.MAX_SAFE_INTEGER);
      const unsure = await missed.listUnsure(query, sessionId, oldest, furthest);
      return (agentId, { since }) => {
        const next = unsure.find(({ position }) => position > missed.unsureAfter(since))?.sequence ?? first;
        return Math.min(cursors.get(agentId) ?? 0, first - 1, next - 1);
      };
    });
  }
}

/** Every socket learns about a session before any of them can confirm it, and so take it off the list. */
async function offerAllPending(
  context: ServiceContext,
  agentId: string,
  deliveries: ReadonlyMap<LiveSocket, Delivery>,
): Promise<void> {
  const { pageRows } = context.database;
  let after = '';
  while (deliveries.size > 0) {
    const rows = await context.database.behind.read((query) => listPending(query, agentId, after, pageRows));
    for (const { session_id, delivered_sequence, last_sequence } of rows)
      for (const delivery of deliveries.values()) delivery.offer(session_id, delivered_sequence, last_sequence);
    const last = rows.at(-1);
    if (last === undefined || rows.length < pageRows) return;
    after = last.session_id;
  }
}
