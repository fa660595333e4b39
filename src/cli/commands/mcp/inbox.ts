import type { Client, TailStart } from '../../../client/client.js';
import { randomToken } from '../../../kit/random.js';
import type { EventEnvelope } from '../../../wire/event.js';
import type { Context } from '../../context/context.js';
import { UsageError } from '../../errors.js';

/** Some events, and where the next ones are. */
export interface EventPage {
  readonly events: readonly EventEnvelope[];
  readonly next_cursor: string;
  /** More is there already. */
  readonly has_more: boolean;
  /** So many events after the cursor are not kept any more: they are in their sessions. */
  readonly missed: number;
}

/** What of the events is wanted. */
export interface Wanted {
  readonly after: string | undefined;
  readonly limit: number;
  readonly waitMs: number;
  isWanted(event: EventEnvelope): boolean;
}

/** The events of every session of the agent, from its beginning on. */
export interface Inbox {
  /** Waits until there is something, the time is over, or `signal` is aborted. */
  read(wanted: Wanted, signal: AbortSignal): Promise<EventPage>;
}

/** What a read waits for the connection, so that it does not tell of nothing where there is something. */
const CONNECTING_MS = 5_000;

const KEPT_BYTES_MAX = 16 * 1024 * 1024;

interface Log {
  readonly name: string;
  readonly events: { readonly event: EventEnvelope; readonly size: number }[];
  /** How many came before the first that is kept. */
  dropped: number;
  bytes: number;
  /** Where a read without a cursor goes on. */
  position: number;
  failure: { readonly error: unknown } | undefined;
  isFollowing: boolean;
  isConnected: boolean;
  readonly wakers: Set<() => void>;
}

/** `signal` ends it for good. A connection that cannot be mended is told to who reads next, and tried again after that. */
export function createInbox(
  { client, clock, random }: Pick<Context, 'client' | 'clock' | 'random'>,
  signal: AbortSignal,
): Inbox {
  const log: Log = {
    name: randomToken(random, 6).replace(/[^A-Za-z0-9]/g, '0'),
    events: [],
    dropped: 0,
    bytes: 0,
    position: 0,
    failure: undefined,
    isFollowing: false,
    isConnected: false,
    wakers: new Set(),
  };
  void follow(log, client, signal);
  return {
    async read(wanted, cancelled) {
      if (!log.isFollowing) void follow(log, client, signal);
      const start = positionOf(log, wanted.after);
      const time = new AbortController();
      const waitMs = Math.max(wanted.waitMs, log.isConnected ? 0 : CONNECTING_MS);
      const cancel = clock.schedule(waitMs, () => time.abort());
      try {
        const page = await collect(log, start, wanted, AbortSignal.any([cancelled, time.signal]));
        log.position = page.position;
        const { events, position, missed } = page;
        return { events, next_cursor: `${log.name}-${position}`, has_more: position < endOf(log), missed };
      } finally {
        cancel();
      }
    },
  };
}

async function collect(log: Log, start: number, { limit, waitMs, isWanted }: Wanted, until: AbortSignal) {
  const missed = Math.max(0, log.dropped - start);
  const events: EventEnvelope[] = [];
  for (let position = start + missed; ; ) {
    position = Math.max(position, log.dropped);
    for (; position < endOf(log) && events.length < limit; position += 1) {
      const event = log.events[position - log.dropped]?.event;
      if (event !== undefined && isWanted(event)) events.push(event);
    }
    const isOver = until.aborted || (waitMs === 0 && log.isConnected);
    if (events.length > 0 || isOver) return { events, position, missed };
    if (log.failure !== undefined) {
      const { error } = log.failure;
      log.failure = undefined;
      throw error;
    }
    await woken(log, until);
  }
}

const endOf = ({ dropped, events }: Log): number => dropped + events.length;

function positionOf(log: Log, after: string | undefined): number {
  if (after === undefined) return log.position;
  const [name, number = ''] = after.split('-');
  const position = /^\d{1,15}$/.test(number) ? Number(number) : Number.NaN;
  if (name === log.name && position <= endOf(log)) return position;
  throw new UsageError(`'${after}' is no cursor of this server.`, {
    why: 'cursors over all sessions last as long as the server; read without one, or one session after a sequence.',
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
    for await (const item of speaking.tail({ signal })) {
      if (item.kind === 'ready') {
        log.isConnected = true;
        wakeAll(log);
      }
      if (item.kind !== 'event') continue;
      const size = JSON.stringify(item.event).length;
      log.events.push({ event: item.event, size });
      log.bytes += size;
      while (log.bytes > KEPT_BYTES_MAX && log.events.length > 1) {
        log.bytes -= log.events.shift()?.size ?? 0;
        log.dropped += 1;
      }
      wakeAll(log);
    }
  } catch (error) {
    log.failure = { error };
  }
  log.isFollowing = false;
  log.isConnected = false;
  wakeAll(log);
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
): Promise<EventPage> {
  const time = new AbortController();
  const isWaiting = wanted.waitMs > 0;
  const cancel = isWaiting ? clock.schedule(wanted.waitMs, () => time.abort()) : undefined;
  try {
    return await readFrom(await client(), sessionId, wanted, AbortSignal.any([signal, time.signal]));
  } finally {
    cancel?.();
  }
}

async function readFrom(
  client: Client,
  sessionId: string,
  { after, limit, waitMs, isWanted }: Wanted,
  until: AbortSignal,
): Promise<EventPage> {
  const start: TailStart = { sessionId, after: sequenceOf(after) };
  const events: EventEnvelope[] = [];
  let cursor = start.after ?? 0;
  let hasMore = false;
  for await (const item of client.tail({ sessions: [start], isFollowing: waitMs > 0, signal: until })) {
    if (item.kind === 'ready' && events.length > 0) break;
    if (item.kind === 'end') break;
    if (item.kind !== 'event') continue;
    if (events.length === limit) {
      hasMore = true;
      break;
    }
    cursor = item.event.sequence;
    if (isWanted(item.event)) events.push(item.event);
    if (events.length > 0 && !item.isReplay) break;
  }
  return { events, next_cursor: String(cursor), has_more: hasMore, missed: 0 };
}

function sequenceOf(after: string | undefined): number {
  if (after === undefined) return 0;
  if (/^\d{1,15}$/.test(after)) return Number(after);
  throw new UsageError(`'${after}' is no sequence of a session.`, {
    why: 'it is the next_cursor of a read of this session, or a sequence.',
  });
}
