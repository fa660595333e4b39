import * as z from 'zod/mini';
import { type Clock, systemClock } from '../../kit/clock.js';
import { createMutex } from '../../kit/mutex.js';
import { parseIfJson } from '../../kit/parse-json.js';
import type { Bus, LogEnd, NewEvents, Signal } from '../core/bus.js';
import type { Calls } from '../core/database.js';

/**
 * Notifications within this process. A listener that throws does not keep the others from getting them; `onFault` gets
 * the error.
 */
export function createLocalBus(onFault: (error: unknown) => void): Bus {
  const listeners = new Set<(signal: Signal) => void>();
  return {
    isReliable: true,
    watchLosses: () => () => false,
    beat: () => {},
    settledPosition: () => undefined,
    lines: () => ({}),
    noteLoss: () => {},
    notify(signal) {
      for (const listener of [...listeners]) {
        try {
          listener(signal);
        } catch (error) {
          onFault(error);
        }
      }
    },
    listen(listener) {
      // Wrapped, so that listening twice with one function counts as two listeners.
      const entry = (signal: Signal): void => listener(signal);
      listeners.add(entry);
      return () => {
        listeners.delete(entry);
      };
    },
    async close() {
      listeners.clear();
    },
  };
}

/** Notifications within this time are sent together. */
const BATCH_MS = 3;
/** Presence is only shown to people, so it waits for more: many agents can connect one after the other. */
const PRESENCE_MS = 250;
/** PostgreSQL accepts less than 8000 bytes in one call; ids have about 30 characters. */
const SESSIONS_PER_CALL = 100;
const IDS_PER_CALL = 150;

/** A longer text is not from a service: ours stay below the limit of NOTIFY. */
const TEXT_MAX_LENGTH = 8_000;
const VERSION = 1;
const Id = z.string().check(z.maxLength(64));

/**
 * The messages between services, version 1. Members may be added: unknown ones are ignored. A text of another version
 * is ignored as a whole, so two versions of asp can run side by side; each finds by polling what it did not understand.
 */
const NotificationText = z.object({
  v: z.literal(VERSION),
  /** The process that sent it. */
  from: Id,
  /** Sessions with new events, each with the first and the last of them. */
  sessions: z.optional(z.array(z.tuple([Id, z.int(), z.int()]))),
  /** Sessions whose messages got further. */
  progress: z.optional(z.array(Id)),
  /** Agents of which a socket opened or closed. */
  presence: z.optional(z.array(Id)),
  /** Revoked grants. */
  revoked: z.optional(z.array(Id)),
  /** The number of this text among those that its process has sent, from 1 on: a missing number is a lost text. */
  n: z.optional(z.int()),
  /** A heartbeat of this process, by its name in the database. */
  alive: z.optional(Id),
});
type NotificationText = z.infer<typeof NotificationText>;

/** Two heartbeats, plus the time a slow one may take. */
const HEARD_MS = 12_000;
/** The number of processes to remember; in practice there are far fewer. */
const SENDERS_MAX = 1_000;

/**
 * Notices lost notifications: the texts of each process are numbered, and a process that is alive sends one with every
 * heartbeat. A process that dies between a commit and its notification misses its next heartbeat, too.
 */
function createLossWatch(calls: Calls, clock: Clock) {
  const lastNumbers = new Map<string, number>();
  const heardAt = new Map<string, number>();
  let expected: { readonly ids: readonly string[]; readonly atMs: number } | undefined;
  let losses = 0;
  const noteLoss = (): void => {
    losses += 1;
  };
  const put = (map: Map<string, number>, key: string, value: number): void => {
    if (map.size >= SENDERS_MAX && !map.has(key)) map.clear();
    map.set(key, value);
  };
  const isFresh = (atMs: number | undefined): boolean => atMs !== undefined && clock.monotonic() - atMs < HEARD_MS;
  const doAllArrive = (): boolean =>
    calls.isUp() &&
    expected !== undefined &&
    isFresh(expected.atMs) &&
    expected.ids.every((id) => isFresh(heardAt.get(id)));
  calls.onUp(noteLoss);
  return {
    noteLoss,
    expect(ids: readonly string[]): void {
      expected = { ids, atMs: clock.monotonic() };
      for (const [id, atMs] of heardAt) if (!isFresh(atMs)) heardAt.delete(id);
    },
    hear({ from, n, alive }: NotificationText): void {
      if (alive !== undefined) put(heardAt, alive, clock.monotonic());
      if (n === undefined) return;
      const last = lastNumbers.get(from) ?? 0;
      if (n !== last + 1) noteLoss();
      put(lastNumbers, from, Math.max(n, last));
    },
    watch(): () => boolean {
      let seen = losses;
      return () => {
        const isLost = seen !== losses || !doAllArrive();
        seen = losses;
        return isLost;
      };
    },
  };
}

/** Between an event's position and its commit, as a rule. */
const COMMIT_MS = 5_000;
const MARKS_MAX = 100;

/** How far the log was at one moment. */
interface Mark extends LogEnd {
  readonly atMs: number;
}

/**
 * How far the log was. Commits can overtake each other, so a position is settled only after a while, and once every
 * transaction that was writing then has ended.
 */
function createMarks(clock: Clock) {
  let marks: readonly Mark[] = [];
  const isSettled = ({ atMs, writers }: Mark): boolean => clock.monotonic() - atMs >= COMMIT_MS && writers.length === 0;
  return {
    add({ position, writers }: LogEnd): void {
      const known = marks.map((mark) => ({
        // A log is shorter after a restore, and when the newest session was deleted.
        position: Math.min(mark.position, position),
        writers: mark.writers.filter((id) => writers.includes(id)),
        atMs: mark.atMs,
      }));
      const [first, ...later] = known.slice(Math.max(0, known.findLastIndex(isSettled)));
      const latest = { position, writers, atMs: clock.monotonic() };
      // While a commit takes long, the later ones settle with it.
      marks = [...(first === undefined ? [] : [first]), ...later.slice(-MARKS_MAX), latest];
    },
    /** Of a process that has just started, the first one. */
    settled: (): number | undefined => (marks.findLast(isSettled) ?? marks[0])?.position,
  };
}

interface SharedBusOptions {
  /** Tells this process's own notifications from those of others. */
  readonly processId: string;
  readonly onFault: (error: unknown) => void;
  readonly clock?: Clock;
}

/**
 * Notifies this process at once, and everyone else who uses the data a moment later, with many notifications in one
 * call.
 */
export function createSharedBus(calls: Calls, { processId, onFault, clock = systemClock }: SharedBusOptions): Bus {
  const here = createLocalBus(onFault);
  const sessions = new Map<string, { readonly first: number; readonly last: number }>();
  const grantIds = new Set<string>();
  const progressed = new Set<string>();
  const agentIds = new Set<string>();
  const losses = createLossWatch(calls, clock);
  const marks = createMarks(clock);
  const inTurn = createMutex();
  let cancel: (() => void) | undefined;
  let cancelPresence: (() => void) | undefined;
  let sent = 0;
  let name: string | undefined;
  let isBeatDue = false;

  const sendAll = async (): Promise<void> => {
    const grown = [...sessions].map(([id, { first, last }]): [string, number, number] => [id, first, last]);
    const revoked = [...grantIds];
    const further = [...progressed];
    const moved = [...agentIds];
    sessions.clear();
    grantIds.clear();
    progressed.clear();
    agentIds.clear();
    cancelPresence?.();
    cancelPresence = undefined;
    const isBeating = isBeatDue && name !== undefined;
    isBeatDue = false;
    const contents: Omit<NotificationText, 'v' | 'from' | 'n'>[] = [
      ...inParts(grown, SESSIONS_PER_CALL).map((sessions) => ({ sessions })),
      ...inParts(revoked, IDS_PER_CALL).map((part) => ({ revoked: part })),
      ...inParts(further, IDS_PER_CALL).map((progress) => ({ progress })),
      ...inParts(moved, IDS_PER_CALL).map((presence) => ({ presence })),
      ...(isBeating ? [{ alive: name }] : []),
    ];
    for (const content of contents) {
      sent += 1;
      const text: NotificationText = { v: VERSION, from: processId, n: sent, ...content };
      await calls.send(JSON.stringify(text)).catch(onFault);
    }
  };
  const arm = (): void => {
    cancel ??= clock.schedule(
      BATCH_MS,
      () => {
        cancel = undefined;
        void inTurn(sendAll);
      },
      true,
    );
  };
  const armPresence = (): void => {
    cancelPresence ??= clock.schedule(PRESENCE_MS, arm, true);
  };
  const stop = calls.listen((text) => {
    const notification = readNotification(text);
    if (notification === undefined || notification.from === processId) return;
    losses.hear(notification);
    for (const signal of toSignals(notification)) here.notify(signal);
  });

  return {
    isReliable: false,
    lines: calls.lines,
    watchLosses: losses.watch,
    settledPosition: marks.settled,
    beat(processName, others, end) {
      losses.expect(others);
      marks.add(end);
      name = processName;
      isBeatDue = true;
      arm();
    },
    noteLoss() {
      losses.noteLoss();
      // The others notice with the heartbeat that this number is missing.
      sent += 1;
      isBeatDue = true;
      arm();
    },
    notify(signal) {
      here.notify(signal);
      if (signal.kind === 'events') addTo(sessions, signal);
      else if (signal.kind === 'progress') progressed.add(signal.sessionId);
      else if (signal.kind === 'revoked') grantIds.add(signal.grantId);
      else agentIds.add(signal.agentId);
      if (signal.kind === 'presence') armPresence();
      else arm();
    },
    listen: here.listen,
    async close() {
      stop();
      cancel?.();
      cancelPresence?.();
      await inTurn(sendAll);
      await here.close();
    },
  };
}

function addTo(
  sessions: Map<string, { readonly first: number; readonly last: number }>,
  { sessionId, first, last }: NewEvents,
): void {
  const known = sessions.get(sessionId);
  sessions.set(sessionId, {
    first: Math.min(first, known?.first ?? first),
    last: Math.max(last, known?.last ?? last),
  });
}

function inParts<T>(list: readonly T[], size: number): T[][] {
  const parts: T[][] = [];
  for (let start = 0; start < list.length; start += size) parts.push(list.slice(start, start + size));
  return parts;
}

/** Anyone who can reach the channel may have sent the text: anything but a notification of this version is ignored. */
function readNotification(text: string): NotificationText | undefined {
  if (text.length > TEXT_MAX_LENGTH) return undefined;
  return NotificationText.safeParse(parseIfJson(text)).data;
}

function toSignals({ sessions = [], progress = [], presence = [], revoked = [] }: NotificationText): Signal[] {
  return [
    ...sessions.map(([sessionId, first, last]) => ({ kind: 'events' as const, sessionId, first, last })),
    ...progress.map((sessionId) => ({ kind: 'progress' as const, sessionId })),
    ...presence.map((agentId) => ({ kind: 'presence' as const, agentId })),
    ...revoked.map((grantId) => ({ kind: 'revoked' as const, grantId })),
  ];
}
