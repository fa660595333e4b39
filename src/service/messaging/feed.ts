import type { LoggedEvent, NewEvents } from '../core/bus.js';
import type { ServiceContext } from '../core/context.js';
import { isShared, type Query } from '../core/database.js';
import { findSequenceAt, listEvents, listPlaces, listPlacesIn, type PlaceRow } from '../store/events.js';
import { listDelivered, listPending, listPendingOfProcess, type PendingRow } from '../store/inboxes.js';
import { listMembers, type MemberRow } from '../store/participants.js';
import { findLastSequence } from '../store/sessions.js';
import { Batch, createPauses, Delivery } from './delivery.js';
import { readPage } from './events.js';
import { closeForFault, type LiveSocket } from './live-socket.js';

const POLL_MS = 1_000;
/** Applies even if no notification is known to be lost. */
const POLL_ANYWAY_MS = 30_000;
/** A channel that is further behind sends its sockets to the log. */
const EVENTS_PER_CHANNEL_MAX = 64;
const CHARACTERS_PER_CHANNEL_MAX = 1024 * 1024;
/** Across all channels: each counts as its members, plus a few. */
const WEIGHT_MAX = 200_000;
const CHANNEL_WEIGHT = 4;
/** If a socket starts further back, it may get events again. */
const LATER_MAX = 256;

/**
 * One message can go to a thousand sockets. After this many, less than half a millisecond, everything else on the event
 * loop gets its turn.
 */
const SOCKETS_PER_TURN = 32;

/** Events that do not change who is joined. */
const KEEPS_MEMBERS: ReadonlySet<string> = new Set(['session.message', 'session.disconnected', 'session.reconnected']);

/** The sockets of one agent, and whether their missing events are being looked for. */
interface Audience {
  readonly deliveries: Map<LiveSocket, Delivery>;
  isLooking: boolean;
  mustLookAgain: boolean;
}

/** A session as this process follows it. */
interface Channel {
  readonly sessionId: string;
  /** Events up to here happened before this process followed the session. They may be announced later. */
  start: number;
  /** Everything up to here was passed to the sockets. */
  through: number;
  /** The last known event. */
  last: number;
  /** The joined agents as of `through`; undefined: not known yet. */
  members: readonly string[] | undefined;
  /** Events after `through`, in order and without a gap, unless some were dropped for lack of room. */
  waiting: LoggedEvent[];
  characters: number;
  isBusy: boolean;
}

/** Delivers the events of every socket's agent, from memory if possible and otherwise from the log. */
export interface Feed {
  /** `since`: the last position of the log before it opened, if notifications can be lost. */
  add(socket: LiveSocket, since: number): void;
  stop(): void;
}

/**
 * An event that was committed here goes to all sockets whose agents have joined its session, serialized once. The list
 * of joined agents is read once and stays valid until an event changes it, because every change is an event with a
 * number: as long as the numbers are consecutive, nothing was missed. Everything else is read from the log: commits of
 * other processes, events whose notification was lost, and events from before a socket connected.
 */
export function createFeed(context: ServiceContext, processId: string): Feed {
  const { bus, clock, inboxes } = context;
  const { pageRows } = context.database;
  const audiences = new Map<string, Audience>();
  const channels = new Map<string, Channel>();
  const due = new Set<Channel>();
  /** Continue with more sockets, one of them in each turn. */
  const continuing: (() => void)[] = [];
  let weight = 0;
  let isTurnDue = false;
  /** Sockets that were written to in this turn. */
  let given = 0;
  let isStopped = false;
  let cancelPoll: (() => void) | undefined;

  const forget = (channel: Channel): void => {
    if (!channels.delete(channel.sessionId)) return;
    due.delete(channel);
    weight -= getWeight(channel);
  };
  const keepMembers = (channel: Channel, members: readonly string[]): void => {
    const before = getWeight(channel);
    channel.members = members;
    if (channels.get(channel.sessionId) === channel) weight += getWeight(channel) - before;
    for (const oldest of channels.values()) {
      if (weight <= WEIGHT_MAX) return;
      if (oldest !== channel && !oldest.isBusy && !due.has(oldest)) forget(oldest);
    }
  };
  const forgetAll = (): void => {
    for (const channel of [...channels.values()]) forget(channel);
  };
  const failAll = (error: unknown): void => {
    context.log.error('feed_failed', error);
    for (const { deliveries } of audiences.values())
      for (const socket of deliveries.keys()) closeForFault(socket, error);
  };

  const hear = (signal: NewEvents): void => {
    if (audiences.size === 0) return;
    const known = channels.get(signal.sessionId);
    const channel = known ?? openChannel(signal);
    if (known === undefined) weight += getWeight(channel);
    // Least recently used first.
    channels.delete(channel.sessionId);
    channels.set(channel.sessionId, channel);
    if (signal.first <= channel.start) void lookBack(signal, channel);
    if (signal.last <= channel.last) return;
    takeIn(channel, signal);
    due.add(channel);
    takeTurn();
  };
  /** After the current acknowledgements have been sent: senders do not wait for recipients. */
  const takeTurn = (): void => {
    if (isTurnDue) return;
    isTurnDue = true;
    setImmediate(() => {
      isTurnDue = false;
      given = 0;
      continuing.shift()?.();
      for (const channel of due) {
        if (given >= SOCKETS_PER_TURN) break;
        due.delete(channel);
        if (!channel.isBusy) void advance(channel);
      }
      if (due.size > 0 || continuing.length > 0) takeTurn();
    });
  };
  /** Those that wait for it continue one after the other, each with as many sockets. */
  const nextTurn = async (): Promise<void> => {
    await new Promise<void>((resolve) => {
      continuing.push(resolve);
      takeTurn();
    });
    given = 0;
  };
  const advance = async (channel: Channel): Promise<void> => {
    const { sessionId } = channel;
    channel.isBusy = true;
    let { through } = channel;
    try {
      while (!isStopped && audiences.size > 0 && channel.last > channel.through) {
        through = channel.through;
        await step(channel);
      }
    } catch (error) {
      context.log.error('channel_failed', error, { session: sessionId });
      forget(channel);
      hearLater({ kind: 'events', sessionId, first: through + 1, last: channel.last });
    } finally {
      channel.isBusy = false;
    }
  };
  const step = (channel: Channel): Promise<void> | void => {
    const events = channel.waiting;
    const isWhole = events[0]?.sequence === channel.through + 1;
    if (channel.members === undefined || !isWhole || events.some(({ type }) => !KEEPS_MEMBERS.has(type)))
      return readOn(channel);
    channel.waiting = [];
    channel.characters = 0;
    channel.through = events.at(-1)?.sequence ?? channel.through;
    return giveTo(channel, channel.members, events);
  };
  /** Reads new events that are not in memory, and the joined agents if they may have changed. */
  const readOn = async (channel: Channel): Promise<void> => {
    const { sessionId, through, members: known } = channel;
    const atHand = channel.waiting;
    const found = await context.database.behind.read(async (query) => {
      const last = await findLastSequence(query, sessionId);
      const isAtHand = atHand[0]?.sequence === through + 1 && (atHand.at(-1)?.sequence ?? 0) === last;
      const events = isAtHand ? atHand : await readEvents(query, sessionId, through, last);
      const isSame = known !== undefined && events.every(({ type }) => KEEPS_MEMBERS.has(type));
      return { last, events, members: isSame ? undefined : await listMembers(query, sessionId, through) };
    });
    const { events, members } = found;
    // After a failover the log may end before events that were announced.
    channel.through = events.at(-1)?.sequence ?? found.last;
    channel.last = events.length === 0 ? found.last : Math.max(channel.last, found.last);
    channel.waiting = channel.waiting.filter(({ sequence }) => sequence > channel.through);
    channel.characters = channel.waiting.reduce((sum, { payload }) => sum + payload.length, 0);
    if (members !== undefined) {
      const joined = members.filter(({ status }) => status === 'joined');
      keepMembers(
        channel,
        joined.map((member) => member.agent_id),
      );
      await offerToOthers(channel, members, events);
    }
    await giveTo(channel, channel.members ?? [], events);
  };

  /** Sends to the sockets of agents that have joined. */
  const giveTo = async (
    { sessionId }: Channel,
    agentIds: readonly string[],
    events: readonly LoggedEvent[],
  ): Promise<void> => {
    let batch: Batch | undefined;
    const unknown: string[] = [];
    for (const agentId of agentIds) {
      if (given >= SOCKETS_PER_TURN) await nextTurn();
      const audience = audiences.get(agentId);
      if (audience === undefined) continue;
      batch ??= new Batch(sessionId, events);
      let isKnown = true;
      for (const delivery of audience.deliveries.values())
        if (delivery.knows(sessionId)) delivery.give(batch);
        else isKnown = false;
      given += audience.deliveries.size;
      if (!isKnown) unknown.push(agentId);
    }
    if (unknown.length > 0 && batch !== undefined) await beginFor(unknown, batch);
  };
  const beginFor = async (agentIds: readonly string[], batch: Batch): Promise<void> => {
    const { sessionId, first } = batch;
    const findStart = await readStarts(sessionId, agentIds, first);
    for (const agentId of agentIds) {
      if (given >= SOCKETS_PER_TURN) await nextTurn();
      for (const delivery of audiences.get(agentId)?.deliveries.values() ?? []) {
        if (!delivery.knows(sessionId)) delivery.begin(sessionId, findStart(agentId, delivery));
        delivery.give(batch);
        given += 1;
      }
    }
  };
  const pauses = createPauses(clock, async (deliveries) => {
    for (const delivery of deliveries) {
      if (given >= SOCKETS_PER_TURN) await nextTurn();
      delivery.askAgain();
      given += 1;
    }
  });
  /**
   * A socket without deliveries of this session starts at its agent's delivery cursor, and before the new events. Another
   * socket of the agent may have moved that cursor past events whose notification did not arrive here, or not yet: the
   * socket then starts before those that happened after it opened and after the last look at the log.
   */
  const readStarts = (
    sessionId: string,
    agentIds: readonly string[],
    first: number,
  ): Promise<(agentId: string, delivery: Delivery) => number> =>
    context.database.behind.read(async (query) => {
      const cursors = await listDelivered(query, sessionId, agentIds);
      const furthest = Math.min(Math.max(...cursors.values(), 0), first - 1);
      const sinces = agentIds.flatMap((id) =>
        [...(audiences.get(id)?.deliveries.values() ?? [])].map(({ since }) => since),
      );
      const oldest = sinces.reduce((least, since) => Math.min(least, since), Number.MAX_SAFE_INTEGER);
      const later = bus.isReliable ? [] : await listLater(query, sessionId, Math.max(oldest, looked), furthest);
      return (agentId, { since }) => {
        const next = later.find(({ position }) => position > Math.max(since, looked))?.sequence ?? first;
        return Math.min(cursors.get(agentId) ?? 0, first - 1, next - 1);
      };
    });
  /** Agents that have not joined see some events of some types, and those that left see earlier ones; the log decides. */
  const offerTo = async (
    { sessionId, first, last }: Omit<NewEvents, 'kind'>,
    agentIds: readonly string[],
  ): Promise<void> => {
    const concerned = agentIds.filter((id) => audiences.has(id));
    if (concerned.length === 0) return;
    const findStart = await readStarts(sessionId, concerned, first);
    for (const agentId of concerned)
      for (const delivery of audiences.get(agentId)?.deliveries.values() ?? [])
        delivery.offer(sessionId, findStart(agentId, delivery), last);
  };
  const offerToOthers = (
    { sessionId, last }: Channel,
    members: readonly MemberRow[],
    events: readonly LoggedEvent[],
  ): Promise<void> => {
    const concernsInvited = events.some(({ type }) => type === 'session.invited' || type === 'session.ended');
    const others = members.filter(({ status }) => status === 'left' || (status === 'invited' && concernsInvited));
    return offerTo(
      { sessionId, first: events[0]?.sequence ?? last, last },
      others.map((member) => member.agent_id),
    );
  };

  /**
   * Two processes can announce their commits in a different order than they made them. Joined agents get earlier events
   * from the log; others, such as agents that those events invited, have to check.
   */
  const lookBack = async (signal: NewEvents, channel: Channel): Promise<void> => {
    const { sessionId, first } = signal;
    try {
      const members = await context.database.behind.read((query) => listMembers(query, sessionId, first - 1));
      const others = members.filter(({ status }) => status !== 'joined');
      await offerTo(
        signal,
        others.map((member) => member.agent_id),
      );
      channel.start = Math.min(channel.start, first - 1);
    } catch (error) {
      context.log.error('channel_failed', error, { session: sessionId });
      hearLater(signal);
    }
  };

  const mayHaveMissed = bus.watchLosses();
  let polledAtMs = clock.monotonic();
  /** Notifications of events after this position may not have arrived. */
  let unsure: number | undefined;
  /** The same before the last look at the log: sockets may still be on their way to the events that it found. */
  let looked = 0;
  /** Notifications that could not be followed. */
  const failed: NewEvents[] = [];
  let cancelRetry: (() => void) | undefined;
  const hearLater = (signal: NewEvents): void => {
    if (isStopped) return;
    failed.push(signal);
    cancelRetry ??= clock.schedule(
      POLL_MS,
      async () => {
        cancelRetry = undefined;
        const signals = failed.splice(0);
        await pollOnce();
        for (const each of signals) hear(each);
      },
      true,
    );
  };
  /** Finds out within a second that a notification was lost. */
  const poll = (): void => {
    if (isStopped || bus.isReliable) return;
    cancelPoll ??= clock.schedule(
      POLL_MS,
      async () => {
        if (mayHaveMissed() || clock.monotonic() - polledAtMs >= POLL_ANYWAY_MS) await pollOnce();
        cancelPoll = undefined;
        if (audiences.size > 0) poll();
      },
      true,
    );
  };
  const pollOnce = async (): Promise<void> => {
    polledAtMs = clock.monotonic();
    try {
      await inboxes.settle();
      const heard = await hearAgain();
      let after = { agentId: '', sessionId: '' };
      let rows: PendingRow[];
      do {
        rows = await context.database.behind.read((query) => listPendingOfProcess(query, processId, after, pageRows));
        for (const row of rows) offerPendingRow(row, heard);
        const last = rows.at(-1);
        if (last !== undefined) after = { agentId: last.agent_id, sessionId: last.session_id };
      } while (rows.length === pageRows && !isStopped);
    } catch (error) {
      failAll(error);
    }
  };
  /**
   * Looks at the log for what may not have been announced: an inbox says only what none of its agent's sockets has
   * received. Returns the sessions that it found.
   */
  const hearAgain = async (): Promise<ReadonlySet<string>> => {
    const heard = new Set<string>();
    const before = unsure;
    const next = bus.settledPosition();
    if (before !== undefined) {
      let after = before;
      let rows: PlaceRow[];
      do {
        rows = await context.database.behind.read((query) => listPlaces(query, after, pageRows));
        for (const signal of toSignals(rows)) {
          heard.add(signal.sessionId);
          hear(signal);
        }
        after = rows.at(-1)?.position ?? after;
      } while (rows.length === pageRows && !isStopped);
      looked = before;
    }
    unsure = next;
    return heard;
  };
  const offerPendingRow = (row: PendingRow, heard: ReadonlySet<string>): void => {
    const { session_id: sessionId, delivered_sequence: delivered, last_sequence: last } = row;
    for (const delivery of audiences.get(row.agent_id)?.deliveries.values() ?? [])
      if (delivery.knows(sessionId) || !heard.has(sessionId)) delivery.offer(sessionId, delivered, last);
  };

  const stopListening = bus.listen((signal) => {
    if (signal.kind === 'events') hear(signal);
  });
  // The same numbers may be used again.
  const stopWatchingEpochs = isShared(context.database)
    ? context.database.onNewEpoch(() => {
        forgetAll();
        unsure = undefined;
        looked = 0;
      })
    : () => {};

  return {
    add(socket, since) {
      const { agentId } = socket;
      if (audiences.size === 0) unsure = bus.settledPosition();
      const audience = audiences.get(agentId) ?? { deliveries: new Map(), isLooking: false, mustLookAgain: false };
      audiences.set(agentId, audience);
      audience.deliveries.set(socket, new Delivery(context, socket, pauses, since));
      socket.onClosed(() => {
        audience.deliveries.get(socket)?.stop();
        audience.deliveries.delete(socket);
        if (audience.deliveries.size === 0 && audiences.get(agentId) === audience) audiences.delete(agentId);
        if (audiences.size === 0) forgetAll();
      });
      void look(context, agentId, audience);
      poll();
    },
    stop() {
      isStopped = true;
      pauses.stop();
      stopListening();
      stopWatchingEpochs();
      cancelPoll?.();
      cancelRetry?.();
      audiences.clear();
      forgetAll();
    },
  };
}

function getWeight({ members }: Channel): number {
  return CHANNEL_WEIGHT + (members?.length ?? 0);
}

/** The growth of each session. */
function toSignals(rows: readonly PlaceRow[]): NewEvents[] {
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
async function listLater(query: Query, sessionId: string, position: number, through: number): Promise<PlaceRow[]> {
  if (through === 0) return [];
  const before = await findSequenceAt(query, sessionId, position);
  const count = through - before;
  if (count <= 0) return [];
  const rows = await listPlacesIn(query, sessionId, before, Math.min(count, LATER_MAX));
  // Too many to look at each of them.
  const [first] = rows;
  return count > LATER_MAX && first !== undefined ? [{ ...first, position: Number.MAX_SAFE_INTEGER }] : rows;
}

/** The next events of a session, as many as a channel takes. */
async function readEvents(
  query: Query,
  sessionId: string,
  after: number,
  last: number,
): Promise<readonly LoggedEvent[]> {
  const list = (from: number, limit: number): Promise<LoggedEvent[]> => listEvents(query, sessionId, from, last, limit);
  return (await readPage(list, after, EVENTS_PER_CHANNEL_MAX, CHARACTERS_PER_CHANNEL_MAX)).events;
}

function openChannel({ sessionId, first }: NewEvents): Channel {
  return {
    sessionId,
    start: first - 1,
    through: first - 1,
    last: first - 1,
    members: undefined,
    waiting: [],
    characters: 0,
    isBusy: false,
  };
}

/** Records new events; events without room are read from the log. */
function takeIn(channel: Channel, { last, events = [] }: NewEvents): void {
  channel.last = last;
  let next = (channel.waiting.at(-1)?.sequence ?? channel.through) + 1;
  for (const event of events) {
    if (event.sequence !== next) continue;
    next += 1;
    channel.characters += event.payload.length;
    channel.waiting.push(event);
  }
  if (channel.waiting.length <= EVENTS_PER_CHANNEL_MAX && channel.characters <= CHARACTERS_PER_CHANNEL_MAX) return;
  channel.waiting = [];
  channel.characters = 0;
}

/** Offers the sockets of an agent everything that it has not received yet. */
async function look(context: ServiceContext, agentId: string, audience: Audience): Promise<void> {
  audience.mustLookAgain = true;
  if (audience.isLooking) return;
  audience.isLooking = true;
  try {
    while (audience.mustLookAgain && audience.deliveries.size > 0) {
      audience.mustLookAgain = false;
      // Later events are announced; earlier ones are in the inbox after this.
      await context.inboxes.settle();
      await offerPending(context, agentId, audience.deliveries);
    }
  } catch (error) {
    context.log.error('feed_failed', error);
    for (const socket of audience.deliveries.keys()) closeForFault(socket, error);
  } finally {
    audience.isLooking = false;
  }
}

/** Every socket learns about a session before any of them can confirm it, and so take it off the list. */
async function offerPending(
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
