import { dirname } from 'node:path';
import type { Cursor } from '../../../agent/cursors.js';
import type { Client, TailItem, TailStart } from '../../../client/client.js';
import { holdProcessLock } from '../../../client/credentials/process-lock.js';
import { abortAfter } from '../../../kit/clock.js';
import { messageOf } from '../../../kit/format.js';
import { makePrivateDirectory } from '../../../kit/private-file.js';
import { randomToken } from '../../../kit/random.js';
import { findActor } from '../../../wire/event.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import { cutEvent, type EventPage, READ_CHARS_MAX } from '../../../wire/schemas/tool.js';
import type { Context } from '../../context/context.js';
import { progressPath } from '../../context/progress-path.js';
import { CliError, usageError } from '../../errors.js';
import { type CursorFile, openCursorFile } from '../tail/cursor-file.js';

/** A page of `read`. */
export interface InboxPage extends EventPage {
  /** The number of events after the cursor that are no longer kept here, only in their sessions. */
  missed: number;
}

/** Which events to return. */
export interface Wanted {
  readonly after: string | undefined;
  readonly limit: number;
  /** How much of a message to return. */
  readonly maxChars: number;
  readonly waitMs: number;
  isWanted(event: EventEnvelope): boolean;
}

/** A page, and a function to call once it has reached the reader: until then it is unread. */
interface Delivery {
  readonly page: InboxPage;
  readonly delivered: () => void;
}

/** A session with something unread from others. */
interface UnreadSession {
  readonly session: { readonly id: string };
  /** Where it begins. */
  readonly unread_after: number;
  readonly unread: number;
  /** Who caused it. */
  readonly from: readonly string[];
}

/** The events of every session of the agent: first the unread ones, then new ones. */
export interface Inbox {
  /** The sessions with something unread from others, up to `limit`. Everything stays unread. */
  listUnread(limit: number, signal: AbortSignal): Promise<{ sessions: readonly UnreadSession[]; has_more: boolean }>;
  /** Waits until there is an event, the time is up, or `signal` is aborted. */
  read(wanted: Wanted, signal: AbortSignal): Promise<Delivery>;
  /** Resolves when the read position is on disk; nothing is kept after that. */
  close(): Promise<void>;
}

/** How long a read waits for the connection, so that it does not report an empty inbox too early. */
const CONNECTING_MS = 5_000;

const KEPT_BYTES_MAX = 16 * 1024 * 1024;

/** An unread session names this many of its authors. */
const FROM_MAX = 20;

/** A start can ask for this many sessions with unread events without coming near a rate limit. */
const UNREAD_SESSIONS_MAX = 200;

interface Received {
  readonly event: EventEnvelope;
  readonly epoch: string | undefined;
  readonly size: number;
}

interface Log {
  readonly name: string;
  readonly me: string;
  readonly record: PositionRecord | undefined;
  readonly events: Received[];
  /** How many events came before the first one that is kept. */
  dropped: number;
  bytes: number;
  /** Where a read without a cursor continues. */
  position: number;
  failure: { readonly error: unknown } | undefined;
  isFollowing: boolean;
  isConnected: boolean;
  /** Whether everything that was unread at the start is in the log. */
  isCaughtUp: boolean;
  readonly wakers: Set<() => void>;
  readonly onEvent: (event: EventEnvelope) => void;
}

/**
 * The inbox of one agent at one service. The read position is kept on disk, because the service counts everything it
 * has sent to this process as delivered. `signal` ends it for good. A fatal connection error is thrown by the next
 * read, which also reconnects.
 */
export async function openInbox(
  context: Context,
  me: string,
  signal: AbortSignal,
  onEvent: (event: EventEnvelope) => void,
): Promise<Inbox> {
  const { client, clock, random } = context;
  const log: Log = {
    name: randomToken(random, 6).replace(/[^A-Za-z0-9]/g, '0'),
    me,
    record: await openRecord(context, me),
    events: [],
    dropped: 0,
    bytes: 0,
    position: 0,
    failure: undefined,
    isFollowing: false,
    isConnected: false,
    isCaughtUp: false,
    wakers: new Set(),
    onEvent,
  };
  void follow(log, client, signal);
  /** Gives `work` the time that it may wait, and for the connection if there is none. */
  const look = async <Found>(
    waitMs: number,
    canceled: AbortSignal,
    work: (until: AbortSignal) => Promise<Found>,
  ): Promise<Found> => {
    if (!log.isFollowing) void follow(log, client, signal);
    return abortAfter(clock, Math.max(waitMs, log.isConnected ? 0 : CONNECTING_MS), timeIsUp, work, canceled);
  };
  return {
    async read(wanted, canceled) {
      const start = parsePosition(log, wanted.after);
      const { events, position, missed } = await look(wanted.waitMs, canceled, (until) =>
        collect(log, start, wanted, until),
      );
      const page = { events, next_cursor: `${log.name}-${position}`, has_more: position < getEnd(log), missed };
      return { page, delivered: () => moveTo(log, position) };
    },
    listUnread: (limit, canceled) =>
      look(0, canceled, async (until) => {
        while (!log.isConnected && !until.aborted) {
          throwFailure(log);
          await woken(log, until);
        }
        return groupUnread(log, limit);
      }),
    close: async () => log.record?.close(),
  };
}

/** The unread part of each session: everything after its cursor. Sessions without unread events are not in it. */
interface PositionRecord {
  readonly cursors: ReadonlyMap<string, Cursor>;
  put(sessionId: string, cursor: Cursor): void;
  forget(sessionId: string): void;
  /** Resolves when all changes until now are on disk, or cannot be written. */
  written(): Promise<void>;
  close(): Promise<void>;
}

/** One process at a time keeps the position of an agent; undefined for a second one, and if nothing can be stored. */
async function openRecord(context: Context, me: string): Promise<PositionRecord | undefined> {
  const { output } = context;
  const note = (why: string): Promise<void> =>
    output.note(`Events that are unread when these tools end will not be read again: ${why}`);
  try {
    const path = await progressPath(context, me, 'mcp');
    const release = await holdProcessLock({}, `mcp\n${path}`);
    if (release === undefined) {
      await note(`another asp mcp acts as ${me}.`);
      return undefined;
    }
    await makePrivateDirectory(dirname(path));
    return createRecord(await openCursorFile(path), release, note);
  } catch (error) {
    await note(messageOf(error));
    return undefined;
  }
}

function createRecord(file: CursorFile, release: () => void, note: (why: string) => Promise<void>): PositionRecord {
  const cursors = new Map(Object.entries(file.cursors));
  let isKept = true;
  const keep = (change: () => void): void => {
    try {
      if (isKept) change();
    } catch (error) {
      isKept = false;
      void note(error instanceof CliError ? error.message : String(error));
    }
  };
  return {
    cursors,
    put(sessionId, cursor) {
      cursors.set(sessionId, cursor);
      keep(() => file.goBack(sessionId, cursor));
    },
    forget(sessionId) {
      if (cursors.delete(sessionId)) keep(() => file.forget(sessionId));
    },
    written: () => file.settle().catch(() => {}),
    async close() {
      await file.settle().catch(() => {});
      release();
    },
  };
}

/** Events caused by this agent do not wake a waiting reader. Returns whether the record has changed. */
function noteUnread({ record, me }: Log, { event, epoch }: Received): boolean {
  if (record === undefined || record.cursors.has(event.session_id) || findActor(event) === me) return false;
  record.put(event.session_id, { after: event.sequence - 1, epoch });
  const [oldest] = record.cursors.keys();
  if (record.cursors.size > UNREAD_SESSIONS_MAX && oldest !== undefined) record.forget(oldest);
  return true;
}

/** Everything before `position` was read. */
function moveTo(log: Log, position: number): void {
  const { record, events, dropped } = log;
  const read = events.slice(Math.max(0, log.position - dropped), Math.max(0, position - dropped));
  if (position <= log.position) return;
  log.position = position;
  if (record === undefined) return;
  const unread = new Set(events.slice(Math.max(0, position - dropped)).map(({ event }) => event.session_id));
  for (const [sessionId, { event, epoch }] of new Map(read.map((one) => [one.event.session_id, one])))
    if (log.isCaughtUp && !unread.has(sessionId)) record.forget(sessionId);
    else if (record.cursors.has(sessionId)) record.put(sessionId, { after: event.sequence, epoch });
}

async function collect(log: Log, start: number, wanted: Wanted, until: AbortSignal) {
  const { waitMs } = wanted;
  const missed = Math.max(0, log.dropped - start);
  const page = createPage(wanted);
  const { events } = page;
  for (let position = start + missed; ; ) {
    position = Math.max(position, log.dropped);
    for (; position < getEnd(log) && !page.isFull(); position += 1) {
      const event = log.events[position - log.dropped]?.event;
      if (event !== undefined) page.add(event);
    }
    const isOver = until.aborted || (waitMs === 0 && log.isConnected);
    if (events.length > 0 || isOver) return { events, position, missed };
    throwFailure(log);
    await woken(log, until);
  }
}

function throwFailure(log: Log): void {
  if (log.failure === undefined) return;
  const { error } = log.failure;
  log.failure = undefined;
  throw error;
}

function groupUnread({ me, events, dropped, position }: Log, limit: number) {
  const sessions = new Map<string, { after: number; unread: number; from: Set<string> }>();
  for (const { event } of events.slice(Math.max(0, position - dropped))) {
    const actor = findActor(event);
    if (actor === me) continue;
    const group = sessions.get(event.session_id) ?? { after: event.sequence - 1, unread: 0, from: new Set() };
    group.unread += 1;
    if (actor !== undefined && group.from.size < FROM_MAX) group.from.add(actor);
    sessions.set(event.session_id, group);
  }
  const first = [...sessions].slice(0, limit);
  return {
    sessions: first.map(([id, { after, unread, from }]) => ({
      session: { id },
      unread_after: after,
      unread,
      from: [...from],
    })),
    has_more: sessions.size > limit,
  };
}

/** Takes events until there are enough of them, or enough text. */
function createPage({ limit, maxChars, isWanted }: Wanted) {
  const events: EventEnvelope[] = [];
  let chars = 0;
  return {
    events,
    isFull: (): boolean => events.length >= limit || chars > READ_CHARS_MAX,
    add(event: EventEnvelope): void {
      if (!isWanted(event)) return;
      const cut = cutEvent(event, maxChars);
      chars += JSON.stringify(cut).length;
      events.push(cut);
    },
  };
}

const getEnd = ({ dropped, events }: Log): number => dropped + events.length;

function parsePosition(log: Log, after: string | undefined): number {
  if (after === undefined) return log.position;
  const [name, number = ''] = after.split('-');
  const position = /^\d{1,15}$/.test(number) ? Number(number) : Number.NaN;
  if (name === log.name && position <= getEnd(log)) return position;
  throw usageError(`'${after}' is not a cursor of this server.`, {
    why: 'cursors over all sessions are valid only while the server runs. Read without one, or read one session after a sequence.',
  });
}

async function woken({ wakers }: Log, until: AbortSignal): Promise<void> {
  await new Promise<void>((resolve) => {
    const wake = (): void => {
      until.removeEventListener('abort', wake);
      wakers.delete(wake);
      resolve();
    };
    wakers.add(wake);
    until.addEventListener('abort', wake, { once: true });
  });
}

async function follow(log: Log, client: () => Promise<Client>, signal: AbortSignal): Promise<void> {
  log.isFollowing = true;
  try {
    const speaking = await client();
    // The service counts an event as delivered once the next one is asked for.
    for await (const item of speaking.tail({ signal, cursors: whereToBegin(log) }))
      if (takeItem(log, item)) await log.record?.written();
  } catch (error) {
    log.failure = { error };
  }
  log.isFollowing = false;
  log.isConnected = false;
  wakeAll(log);
}

/** After the end of the log, or else after the read position. */
function whereToBegin({ record, events }: Log): Readonly<Record<string, Cursor>> {
  const cursors = new Map(record?.cursors);
  for (const { event, epoch } of events) cursors.set(event.session_id, { after: event.sequence, epoch });
  return Object.fromEntries(cursors);
}

/** Returns whether the record has a new unread session. */
function takeItem(log: Log, item: TailItem): boolean {
  const { record } = log;
  if (item.kind === 'gap' && item.to === null) record?.forget(item.sessionId);
  if (item.kind === 'restored' && (record?.cursors.get(item.sessionId)?.after ?? 0) > item.after)
    record?.put(item.sessionId, { after: item.after, epoch: item.epoch });
  if (item.kind === 'ready') {
    log.isConnected = true;
    log.isCaughtUp = true;
    wakeAll(log);
  }
  if (item.kind !== 'event') return false;
  const { event, epoch } = item;
  const received = { event, epoch, size: JSON.stringify(event).length };
  log.events.push(received);
  log.bytes += received.size;
  while (log.bytes > KEPT_BYTES_MAX && log.events.length > 1) {
    log.bytes -= log.events.shift()?.size ?? 0;
    log.dropped += 1;
  }
  const isChanged = noteUnread(log, received);
  log.onEvent(event);
  wakeAll(log);
  return isChanged;
}

function wakeAll({ wakers }: Log): void {
  for (const wake of [...wakers]) wake();
}

/** Events of one session, after a sequence. */
export async function readSession(
  { client, clock }: Pick<Context, 'client' | 'clock'>,
  sessionId: string,
  wanted: Wanted,
  signal: AbortSignal,
): Promise<InboxPage> {
  const { waitMs } = wanted;
  const read = async (until: AbortSignal): Promise<InboxPage> => readFrom(await client(), sessionId, wanted, until);
  return waitMs > 0 ? abortAfter(clock, waitMs, timeIsUp, read, signal) : read(signal);
}

const timeIsUp = (): Error => new Error('the time to wait is over');

async function readFrom(client: Client, sessionId: string, wanted: Wanted, until: AbortSignal): Promise<InboxPage> {
  const { after, waitMs } = wanted;
  const start: TailStart = { sessionId, after: parseSequence(after) };
  const page = createPage(wanted);
  const { events } = page;
  let cursor = start.after ?? 0;
  let hasMore = false;
  for await (const item of client.tail({ sessions: [start], isFollowing: waitMs > 0, signal: until })) {
    if (item.kind === 'ready' && events.length > 0) break;
    if (item.kind === 'end') break;
    if (item.kind !== 'event') continue;
    if (page.isFull()) {
      hasMore = true;
      break;
    }
    cursor = item.event.sequence;
    page.add(item.event);
    if (events.length > 0 && !item.isReplay) break;
  }
  return { events, next_cursor: String(cursor), has_more: hasMore, missed: 0 };
}

function parseSequence(after: string | undefined): number {
  if (after === undefined) return 0;
  if (/^\d{1,15}$/.test(after)) return Number(after);
  throw usageError(`'${after}' is not a sequence of a session.`, {
    why: 'use the next_cursor of a read of this session, or a sequence.',
  });
}
