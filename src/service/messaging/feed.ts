import type { LoggedEvent, NewEvents } from '../core/bus.js';
import type { ServiceContext } from '../core/context.js';
import { isShared, type Query } from '../core/database.js';
import { listEvents } from '../store/events.js';
import { listMembers, type MemberRow } from '../store/participants.js';
import { findLastSequence } from '../store/sessions.js';
import { Audiences, Turns } from './audiences.js';
import { readPage } from './events.js';
import type { LiveSocket } from './live-socket.js';
import { MissedEvents } from './missed-events.js';

/** A channel that is further behind sends its sockets to the log. */
const EVENTS_PER_CHANNEL_MAX = 64;
const CHARACTERS_PER_CHANNEL_MAX = 1024 * 1024;
/** Across all channels: each counts as its members, plus a few. */
const WEIGHT_MAX = 200_000;
const CHANNEL_WEIGHT = 4;

/** Events that do not change who is joined. */
const KEEPS_MEMBERS: ReadonlySet<string> = new Set(['session.message', 'session.disconnected', 'session.reconnected']);

/** A session as this process follows it: how far its events were passed on, and those that still have to be. */
class Channel {
  readonly sessionId: string;
  /** Events up to here happened before this process followed the session. They may be announced later. */
  start: number;
  /** Everything up to here was passed to the sockets. */
  through: number;
  /** The last known event. */
  last: number;
  /** The joined agents as of `through`; undefined: not known yet. */
  members: readonly string[] | undefined;
  isBusy = false;
  /** Events after `through`, in order and without a gap, unless some were dropped for lack of room. */
  #waiting: LoggedEvent[] = [];
  #characters = 0;

  constructor({ sessionId, first }: NewEvents) {
    this.sessionId = sessionId;
    this.start = first - 1;
    this.through = first - 1;
    this.last = first - 1;
  }

  get weight(): number {
    return CHANNEL_WEIGHT + (this.members?.length ?? 0);
  }

  get waiting(): readonly LoggedEvent[] {
    return this.#waiting;
  }

  /** Records new events; events without room are read from the log. */
  takeIn({ last, events = [] }: NewEvents): void {
    this.last = last;
    let next = (this.#waiting.at(-1)?.sequence ?? this.through) + 1;
    for (const event of events) {
      if (event.sequence !== next) continue;
      next += 1;
      this.#characters += event.payload.length;
      this.#waiting.push(event);
    }
    if (this.#waiting.length > EVENTS_PER_CHANNEL_MAX || this.#characters > CHARACTERS_PER_CHANNEL_MAX) this.#empty();
  }

  /** All events that wait are passed on now. */
  passWaiting(): void {
    this.through = this.#waiting.at(-1)?.sequence ?? this.through;
    this.#empty();
  }

  /** These events were read, and are passed on now; `end`: the last event in the log. */
  passRead(events: readonly LoggedEvent[], end: number): void {
    // After a failover the log may end before events that were announced.
    this.through = events.at(-1)?.sequence ?? end;
    this.last = events.length === 0 ? end : Math.max(this.last, end);
    this.#waiting = this.#waiting.filter(({ sequence }) => sequence > this.through);
    this.#characters = this.#waiting.reduce((sum, { payload }) => sum + payload.length, 0);
  }

  #empty(): void {
    this.#waiting = [];
    this.#characters = 0;
  }
}

/** The sessions that this process follows. If they take too much memory, it forgets those that were not used lately. */
class Channels {
  /** Those with new events, which wait for a turn. */
  readonly due = new Set<Channel>();
  /** Least recently used first. */
  readonly #bySession = new Map<string, Channel>();
  #weight = 0;

  /** The channel of a session with new events. One that was not followed until now starts before them. */
  use(signal: NewEvents): Channel {
    const { sessionId } = signal;
    const known = this.#bySession.get(sessionId);
    const channel = known ?? new Channel(signal);
    if (known === undefined) this.#weight += channel.weight;
    else this.#bySession.delete(sessionId);
    this.#bySession.set(sessionId, channel);
    return channel;
  }

  setMembers(channel: Channel, members: readonly string[]): void {
    const before = channel.weight;
    channel.members = members;
    if (this.#bySession.get(channel.sessionId) === channel) this.#weight += channel.weight - before;
    for (const oldest of this.#bySession.values()) {
      if (this.#weight <= WEIGHT_MAX) return;
      if (oldest !== channel && !oldest.isBusy && !this.due.has(oldest)) this.forget(oldest);
    }
  }

  forget(channel: Channel): void {
    if (!this.#bySession.delete(channel.sessionId)) return;
    this.due.delete(channel);
    this.#weight -= channel.weight;
  }

  forgetAll(): void {
    for (const channel of [...this.#bySession.values()]) this.forget(channel);
  }
}

/**
 * Delivers the events of every socket's agent. An event that was committed here goes to all sockets whose agents have
 * joined its session, serialized once. The list of joined agents is read once and stays valid until an event changes it,
 * because every change is an event with a number: as long as the numbers are consecutive, nothing was missed. Everything
 * else is read from the log: commits of other processes, events whose notification was lost, and events from before a
 * socket connected.
 */
export class Feed {
  readonly #context: ServiceContext;
  readonly #channels = new Channels();
  readonly #turns: Turns;
  readonly #missed: MissedEvents;
  readonly #audiences: Audiences;
  readonly #stopListening: () => void;
  readonly #stopWatchingEpochs: () => void;
  #isStopped = false;

  constructor(context: ServiceContext, processId: string) {
    const { bus, database } = context;
    this.#context = context;
    this.#turns = new Turns(() => this.#takeTurn());
    this.#missed = new MissedEvents(context, processId, {
      hasSockets: () => !this.#audiences.isEmpty,
      hear: (signal) => this.#hear(signal),
      offerPending: (row, heard) => this.#audiences.offerPending(row, heard),
      failAll: (error) => this.#audiences.failAll(error),
    });
    this.#audiences = new Audiences(context, this.#turns, this.#missed);
    this.#stopListening = bus.listen((signal) => {
      if (signal.kind === 'events') this.#hear(signal);
    });
    // The same numbers may be used again.
    this.#stopWatchingEpochs = isShared(database)
      ? database.onNewEpoch(() => {
          this.#channels.forgetAll();
          this.#missed.startOver();
        })
      : () => {};
  }

  /** `since`: the last position of the log before it opened, if notifications can be lost. */
  add(socket: LiveSocket, since: number): void {
    const audiences = this.#audiences;
    if (audiences.isEmpty) this.#missed.beginHere();
    const audience = audiences.add(socket, since);
    socket.onClosed(() => {
      audiences.remove(socket, audience);
      if (audiences.isEmpty) this.#channels.forgetAll();
    });
    void audiences.look(socket.agentId, audience);
    this.#missed.watch();
  }

  stop(): void {
    this.#isStopped = true;
    this.#stopListening();
    this.#stopWatchingEpochs();
    this.#missed.stop();
    this.#audiences.stop();
    this.#channels.forgetAll();
  }

  #hear(signal: NewEvents): void {
    if (this.#audiences.isEmpty) return;
    const channel = this.#channels.use(signal);
    if (signal.first <= channel.start) void this.#lookBack(signal, channel);
    if (signal.last <= channel.last) return;
    channel.takeIn(signal);
    this.#channels.due.add(channel);
    this.#turns.take();
  }

  /** Begins to advance what is due, and returns whether there is more. */
  #takeTurn(): boolean {
    const { due } = this.#channels;
    for (const channel of due) {
      if (this.#turns.isOver) break;
      due.delete(channel);
      if (!channel.isBusy) void this.#advance(channel);
    }
    return due.size > 0;
  }

  async #advance(channel: Channel): Promise<void> {
    const { sessionId } = channel;
    channel.isBusy = true;
    let { through } = channel;
    try {
      while (!this.#isStopped && !this.#audiences.isEmpty && channel.last > channel.through) {
        through = channel.through;
        await this.#step(channel);
      }
    } catch (error) {
      this.#context.log.error('channel_failed', error, { session: sessionId });
      this.#channels.forget(channel);
      this.#missed.hearLater({ kind: 'events', sessionId, first: through + 1, last: channel.last });
    } finally {
      channel.isBusy = false;
    }
  }

  #step(channel: Channel): Promise<void> {
    const { sessionId, members, waiting } = channel;
    const isWhole = waiting[0]?.sequence === channel.through + 1;
    if (members === undefined || !isWhole || !waiting.every(keepsMembers)) return this.#readOn(channel);
    channel.passWaiting();
    return this.#audiences.give(sessionId, members, waiting);
  }

  /** Reads new events that are not in memory, and the joined agents if they may have changed. */
  async #readOn(channel: Channel): Promise<void> {
    const { sessionId } = channel;
    // Events that come in during the read must not be passed on with members from before them.
    const waiting = [...channel.waiting];
    const { database } = this.#context;
    const { events, end, members } = await database.behind.read((query) => readNews(query, channel, waiting));
    channel.passRead(events, end);
    if (members !== undefined) {
      this.#channels.setMembers(channel, findJoined(members));
      const { last } = channel;
      const signal = { sessionId, first: events[0]?.sequence ?? last, last };
      await this.#audiences.offer(signal, findOthers(members, events));
    }
    await this.#audiences.give(sessionId, channel.members ?? [], events);
  }

  /**
   * Two processes can announce their commits in a different order than they made them. Joined agents get earlier events
   * from the log; others, such as agents that those events invited, have to check.
   */
  async #lookBack(signal: NewEvents, channel: Channel): Promise<void> {
    const { database, log } = this.#context;
    const { sessionId, first } = signal;
    try {
      const members = await database.behind.read((query) => listMembers(query, sessionId, first - 1));
      const others = members.filter(({ status }) => status !== 'joined').map((member) => member.agent_id);
      await this.#audiences.offer(signal, others);
      channel.start = Math.min(channel.start, first - 1);
    } catch (error) {
      log.error('channel_failed', error, { session: sessionId });
      this.#missed.hearLater(signal);
    }
  }
}

const keepsMembers = ({ type }: LoggedEvent): boolean => KEEPS_MEMBERS.has(type);

function findJoined(members: readonly MemberRow[]): string[] {
  return members.filter(({ status }) => status === 'joined').map((member) => member.agent_id);
}

/** The agents that have not joined and may see one of these events. */
function findOthers(members: readonly MemberRow[], events: readonly LoggedEvent[]): string[] {
  const concernsInvited = events.some(({ type }) => type === 'session.invited' || type === 'session.ended');
  const others = members.filter(({ status }) => status === 'left' || (status === 'invited' && concernsInvited));
  return others.map((member) => member.agent_id);
}

interface News {
  /** The next events, as many as a channel takes. */
  readonly events: readonly LoggedEvent[];
  /** The last event in the log. */
  readonly end: number;
  /** The members before these events; undefined: still the known ones. */
  readonly members: readonly MemberRow[] | undefined;
}

/** `atHand`: the events that wait, if they are all that the log has. */
async function readNews(
  query: Query,
  { sessionId, through, members: known }: Channel,
  atHand: readonly LoggedEvent[],
): Promise<News> {
  const end = await findLastSequence(query, sessionId);
  const isAtHand = atHand[0]?.sequence === through + 1 && (atHand.at(-1)?.sequence ?? 0) === end;
  const events = isAtHand ? atHand : await readEvents(query, sessionId, through, end);
  const isSame = known !== undefined && events.every(keepsMembers);
  return { end, events, members: isSame ? undefined : await listMembers(query, sessionId, through) };
}

async function readEvents(
  query: Query,
  sessionId: string,
  after: number,
  last: number,
): Promise<readonly LoggedEvent[]> {
  const list = (from: number, limit: number): Promise<LoggedEvent[]> => listEvents(query, sessionId, from, last, limit);
  return (await readPage(list, after, EVENTS_PER_CHANNEL_MAX, CHARACTERS_PER_CHANNEL_MAX)).events;
}
