import { wait } from '../../kit/clock.js';
import type { Random } from '../../kit/random.js';
import { SOCKET_PATH } from '../../wire/realtime.js';
import type { EventEnvelope } from '../../wire/schemas/event.js';
import type { Credential } from '../credentials/credential.js';
import type { ServiceAddresses } from '../http/address.js';
import { RequestError } from '../http/request-error.js';
import type { Transport } from '../http/transport.js';
import { discover, getResource } from '../oauth/discover.js';
import { callEndpoint, type RestContext, sendRaw } from '../rest/call.js';
import { FollowedSessions, findStartOfLast, listSessions, type ReplayPage, replayPages } from './followed-sessions.js';
import { keepConnected, type LiveSocket, type OpenSocket, type SocketAddress } from './socket.js';

/**
 * After this many sessions in a row without new events, the rest of a list sorted by latest change has none, either.
 */
const QUIET_MAX = 20;

/** The polling interval of a session whose stream cannot be opened. */
const POLL_MS = 2000;

/** If fewer sessions are followed, polling each costs no more than requesting their list. */
const SESSIONS_PER_LIST = 10;

/** Dependencies of a tail. */
export interface TailContext {
  readonly service: ServiceAddresses;
  readonly credential: Credential;
  readonly transport: Transport;
  readonly random: Random;
  readonly rest: RestContext;
  /** Opens the stream that tails share. */
  readonly openShared: OpenSocket;
}

interface Tail {
  readonly context: TailContext;
  readonly options: TailOptions;
  readonly followed: FollowedSessions;
  /** The service's time when the tail began: for a session that turns up later, older events are not delivered. */
  beganAtMs: number;
}

type Items = readonly TailItem[];

/**
 * Follows sessions for as long as the iterator is read. On every connection the socket opens first and queues events.
 * Then each session is replayed from its last delivered event, and then the queued events follow, minus those in the
 * replay. So each event is delivered once and in the order of its session, even if connections break (spec: Events; GET
 * …/events). Items that are there together, such as those of a page, come together: passing each through all these
 * generators would cost more than reading and printing it.
 * @throws RequestError for errors that waiting cannot fix.
 */
export async function* tailSessions(context: TailContext, options: TailOptions): AsyncGenerator<Items> {
  const { sessions, handle, signal } = options;
  const followed = new FollowedSessions({ handle, isEndReported: sessions !== undefined });
  const tail: Tail = { context, options, followed, beganAtMs: context.transport.clock.now() };
  try {
    if (options.isFollowing === false) {
      await begin(tail);
      yield* readOnce(tail);
    } else yield* follow(tail);
  } catch (error) {
    if (signal?.aborted !== true) throw error;
  }
}

/** Finds where each session starts; a named session that cannot be seen is an error now, not later. */
async function begin({ context, options, followed }: Tail): Promise<void> {
  const { rest } = context;
  const { signal } = options;
  for (const [sessionId, cursor] of Object.entries(options.cursors ?? {}))
    followed.follow(sessionId, typeof cursor === 'number' ? { after: cursor } : cursor);
  for (const { sessionId, after, last, epoch } of options.sessions ?? []) {
    const { reply } = await callEndpoint(rest, 'getSession', { path: { session_id: sessionId }, signal });
    const start = last === undefined ? (after ?? 0) : await findStartOfLast(rest, sessionId, last, signal);
    const me = reply.participants.find(({ handle }) => handle === options.handle);
    followed.follow(
      sessionId,
      { after: start, epoch },
      { isEnded: reply.state === 'ended', hasLeft: me?.status === 'left' },
    );
  }
}

async function* readOnce(tail: Tail): AsyncGenerator<Items> {
  const { context, options, followed } = tail;
  if (options.sessions === undefined)
    for await (const { id } of listSessions(context.rest, options.signal))
      if (!followed.has(id)) followed.follow(id, { after: 0 });
  for (const sessionId of followed.ids) {
    yield* replayOne(tail, sessionId, 0);
    yield [followed.takeEnd(sessionId) ?? { kind: 'end', sessionId, reason: 'read' }];
  }
}

async function* follow(tail: Tail): AsyncGenerator<Items> {
  const { context, options, followed } = tail;
  const { transport, random, credential } = context;
  const { signal } = options;
  // A command with a deadline tries as often as any request. Without one it waits for the service, and says so.
  const { retries } = context.rest;
  const waitsAtStart = transport.deadline === undefined && retries > 0;
  const retriesAtStart = waitsAtStart ? Number.POSITIVE_INFINITY : retries;
  const starting: TailContext = waitsAtStart ? { ...context, rest: { ...context.rest, retries: 0 } } : context;
  const prepare = async (): Promise<SocketAddress> => {
    await begin({ ...tail, context: starting });
    return findSocket(starting, signal);
  };
  let isReconnect = false;
  let wasOpen = false;
  let brokeAtMs: number | undefined;
  const open = options.sessions !== undefined && options.sharesStream === true ? context.openShared : undefined;
  const connections = keepConnected({ transport, random, credential, open, prepare, retriesAtStart, signal });
  const refusal = { error: undefined as unknown };
  for await (const item of untilRefused(connections, refusal)) {
    if (item.kind === 'reconnecting') {
      brokeAtMs ??= transport.clock.monotonic();
      yield [item];
      if (!wasOpen && item.reason === 'RATE_LIMITED') yield* readWithoutStream(tail);
      wasOpen = false;
      continue;
    }
    wasOpen = true;
    try {
      yield* catchUp(tail, isReconnect, item.socket.epoch);
      const downMs = brokeAtMs === undefined ? 0 : Math.round(transport.clock.monotonic() - brokeAtMs);
      yield [{ kind: 'ready', isReconnect, sessions: followed.size, downMs }];
      brokeAtMs = undefined;
      isReconnect = true;
      yield* readLive(tail, item.socket);
    } catch (error) {
      if (!(error instanceof RequestError && error.isRetryable) || signal?.aborted === true) throw error;
      transport.trace?.({ kind: 'failure', text: `${error.code}: reconnecting` });
      item.fail(error);
    } finally {
      item.socket.close();
    }
    brokeAtMs ??= transport.clock.monotonic();
  }
  if (refusal.error === undefined) return;
  if (isReconnect || followed.size === 0 || followed.size !== options.sessions?.length) throw refusal.error;
  transport.trace?.({ kind: 'failure', text: 'the event stream is not allowed: polling instead' });
  yield* poll(tail);
}

/** The connections, until one that this credential may not open. */
async function* untilRefused<Item>(items: AsyncIterable<Item>, refusal: { error: unknown }): AsyncGenerator<Item> {
  try {
    yield* items;
  } catch (error) {
    if (!isNotAllowed(error)) throw error;
    refusal.error = error;
  }
}

/** Whether the credential may not open the event stream. It may still be able to read over REST. */
function isNotAllowed(error: unknown): boolean {
  if (!(error instanceof RequestError) || error.isRetryable) return false;
  return error.status === 401 || NOT_ALLOWED.includes(error.code);
}

const NOT_ALLOWED = [
  'INSUFFICIENT_SCOPE',
  'ASP_NO_CREDENTIAL',
  'invalid_scope',
  'invalid_target',
  'unauthorized_client',
];

/** The new events of named sessions while the agent has as many event streams as the service allows. */
async function* readWithoutStream(tail: Tail): AsyncGenerator<Items> {
  const { context, options, followed } = tail;
  if (options.sessions === undefined) return;
  const rest = { ...context.rest, retries: 0 };
  try {
    for (const sessionId of followed.ids) yield* readNamed({ ...tail, context: { ...context, rest } }, sessionId);
  } catch (error) {
    if (!(error instanceof RequestError && error.isRetryable)) throw error;
  }
}

/** The new events of one session, and its end. */
async function* readNamed(tail: Tail, sessionId: string): AsyncGenerator<Items> {
  yield* replayOne(tail, sessionId, 0);
  const end = tail.followed.takeEnd(sessionId);
  if (end !== undefined) yield [end];
}

/** Polls named sessions without the event stream. @throws RequestError */
async function* poll(tail: Tail): AsyncGenerator<Items> {
  const { context, options, followed } = tail;
  const { clock } = context.transport;
  let isReconnect = false;
  let brokeAtMs: number | undefined = clock.monotonic();
  let attempt = 0;
  while (options.signal?.aborted !== true) {
    const delayMs = POLL_MS * Math.max(1, followed.size);
    try {
      for (const sessionId of followed.ids) yield* readNamed(tail, sessionId);
      if (brokeAtMs !== undefined) {
        const downMs = isReconnect ? Math.round(clock.monotonic() - brokeAtMs) : 0;
        yield [{ kind: 'ready', isReconnect, sessions: followed.size, downMs, isPolling: true }];
      }
      isReconnect = true;
      brokeAtMs = undefined;
      attempt = 0;
    } catch (error) {
      if (!isReconnect || !(error instanceof RequestError && error.isRetryable)) throw error;
      brokeAtMs ??= clock.monotonic();
      attempt += 1;
      yield [{ kind: 'reconnecting', attempt, delayMs, reason: error.code }];
    }
    await wait(clock, delayMs, options.signal);
  }
}

/** Events from before the socket was open. */
async function* catchUp(tail: Tail, isReconnect: boolean, epoch: string | undefined): AsyncGenerator<Items> {
  const { options, followed, context } = tail;
  const isEverySession = options.sessions === undefined;
  if (isEverySession && isReconnect) {
    yield* catchUpWithEvery(tail);
    return;
  }
  if (isEverySession) tail.beganAtMs = options.sinceMs ?? (await serviceTime(context, options.signal));
  const isListWorthIt = isEverySession && followed.size > SESSIONS_PER_LIST;
  const upToDate = isListWorthIt ? await findUpToDate(tail, epoch) : new Set();
  for (const sessionId of followed.ids) {
    if (!upToDate.has(sessionId)) yield* readNamed(tail, sessionId);
  }
  // Sessions that began after the cursors were read, before the socket was open.
  if (isEverySession && options.sinceMs !== undefined) yield* catchUpWithEvery(tail, true);
}

/** Sessions that are up to date according to their list; the socket is open, so later events are not missed. */
async function findUpToDate({ context, options, followed }: Tail, epoch: string | undefined): Promise<Set<string>> {
  const found = new Set<string>();
  for await (const { id, last_sequence: last } of listSessions(context.rest, options.signal))
    if (followed.has(id) && followed.isIn(id, epoch) && last === followed.getCursor(id)) found.add(id);
  return found;
}

/** Sessions that changed while there was no connection: the beginning of the list sorted by latest change. */
async function* catchUpWithEvery(tail: Tail, areKnownRead = false): AsyncGenerator<Items> {
  const { context, options, followed } = tail;
  let quiet = 0;
  for await (const { id, last_activity_at: changedAt } of listSessions(context.rest, options.signal)) {
    const isKnown = followed.has(id);
    const sinceMs = isKnown ? 0 : tail.beganAtMs;
    let hasNews = false;
    // Of a session that was quiet since then, there is no need to read everything to find nothing.
    const mayHaveNews = isKnown ? !areKnownRead : changedAt === undefined || changedAt >= sinceMs;
    if (mayHaveNews)
      for await (const items of replayOne(tail, id, sinceMs)) {
        hasNews = true;
        yield items;
      }
    quiet = hasNews ? 0 : quiet + 1;
    if (quiet >= QUIET_MAX) return;
  }
}

async function* replayOne(tail: Tail, sessionId: string, sinceMs: number): AsyncGenerator<Items> {
  const { context, options, followed } = tail;
  try {
    for await (const page of replayPages(context.rest, sessionId, followed.getPosition(sessionId), options.signal)) {
      const items: TailItem[] = enterEpoch(followed, sessionId, page);
      for (const event of page.events) {
        if (!followed.accept(event, page.epoch)) continue;
        if (event.created_at >= sinceMs) items.push({ kind: 'event', event, isReplay: true, epoch: page.epoch });
        await noticeLeave(tail, event);
      }
      if (items.length > 0) yield items;
    }
  } catch (error) {
    if (!isGone(error)) throw error;
    yield [{ kind: 'gap', sessionId, from: followed.getCursor(sessionId), to: null, reason: error.code }];
    followed.drop(sessionId);
  }
}

/** After a restore of the service's data, events delivered after the restore point no longer exist. */
function enterEpoch(followed: FollowedSessions, sessionId: string, page: ReplayPage): TailItem[] {
  const { after, epoch } = page;
  const { after: from } = followed.getPosition(sessionId);
  followed.enter(sessionId, { after, epoch });
  return after < from ? [{ kind: 'restored', sessionId, after, from, epoch }] : [];
}

async function* readLive(tail: Tail, socket: LiveSocket): AsyncGenerator<Items> {
  const { followed, options } = tail;
  const named = options.sessions === undefined ? undefined : new Set(options.sessions.map((start) => start.sessionId));
  for await (const event of socket.events) {
    if (named !== undefined && !named.has(event.session_id)) continue;
    const isKnown = followed.has(event.session_id);
    // Known positions may be from before a restore that reuses their numbers.
    if (isKnown && !followed.isIn(event.session_id, socket.epoch)) yield* replayOne(tail, event.session_id, 0);
    if (isKnown && event.sequence > followed.getCursor(event.session_id) + 1) yield* fillHole(tail, event);
    if (!followed.accept(event, socket.epoch)) continue;
    await noticeLeave(tail, event);
    const end = followed.takeEnd(event.session_id);
    const item: TailItem = { kind: 'event', event, isReplay: false, epoch: socket.epoch };
    yield end === undefined ? [item] : [item, end];
  }
}

/**
 * A gap in the sequences is normal if eligibility hides events, but the missing events may also have become visible by
 * joining, or be lost: the tail requests them. It reports those it cannot load.
 */
async function* fillHole(tail: Tail, event: EventEnvelope): AsyncGenerator<Items> {
  const { context, options, followed } = tail;
  const { session_id: sessionId } = event;
  const from = followed.getCursor(sessionId);
  try {
    for await (const page of replayPages(context.rest, sessionId, followed.getPosition(sessionId), options.signal)) {
      const items: TailItem[] = enterEpoch(followed, sessionId, page);
      const missing = page.events.filter(({ sequence }) => sequence < event.sequence);
      for (const missed of missing)
        if (followed.accept(missed, page.epoch))
          items.push({ kind: 'event', event: missed, isReplay: true, epoch: page.epoch });
      if (items.length > 0) yield items;
      if (missing.length < page.events.length) return;
    }
  } catch (error) {
    if (!isGone(error)) throw error;
    yield [{ kind: 'gap', sessionId, from, to: event.sequence - 1, reason: error.code }];
  }
}

/** If a service does not say who left, the session does (spec: Events). */
async function noticeLeave({ context, options, followed }: Tail, event: EventEnvelope): Promise<void> {
  const { type, session_id, payload } = event;
  const { handle, sessions, signal } = options;
  if (type !== 'session.left' || typeof payload['agent'] === 'string') return;
  if (handle === undefined || sessions === undefined) return;
  const { reply } = await callEndpoint(context.rest, 'getSession', { path: { session_id }, signal });
  const hasLeft = reply.participants.some((one) => one.handle === handle && one.status === 'left');
  if (hasLeft) followed.leave(session_id);
}

function isGone(error: unknown): error is RequestError {
  return error instanceof RequestError && (error.code === 'NOT_FOUND' || error.code === 'FORBIDDEN');
}

/**
 * The address of the WebSocket. A service without metadata probably has it at the usual address (wire: Reading what
 * others send).
 */
async function findSocket(context: TailContext, signal: AbortSignal | undefined): Promise<SocketAddress> {
  const { service, transport, random, rest } = context;
  if (service.wsUrl !== undefined) return { url: service.wsUrl, isGuessed: false };
  try {
    const discovery = await discover({ transport, random, retries: rest.retries }, service, signal);
    return { url: getResource(discovery, 'ws'), isGuessed: false };
  } catch (error) {
    const hasNoMetadata = error instanceof RequestError && error.code === 'ASP_DISCOVERY' && error.status !== undefined;
    if (!hasNoMetadata) throw error;
    return { url: `${service.baseUrl.replace(/^http/, 'ws')}${SOCKET_PATH}`, isGuessed: true };
  }
}

/** The service's clock from its `Date`, minus a second; ours if it has none. */
async function serviceTime(context: TailContext, signal: AbortSignal | undefined): Promise<number> {
  const { headers } = await sendRaw(context.rest, { method: 'GET', path: '/sessions?limit=1', signal });
  const dateMs = Date.parse(headers['date'] ?? '');
  return (Number.isNaN(dateMs) ? context.transport.clock.now() : dateMs) - 1000;
}

/** Where a tail begins in one session. */
export interface TailStart {
  readonly sessionId: string;
  /** Events with a greater sequence (spec: GET …/events); all existing events if neither is given. */
  readonly after?: number | undefined;
  /** The last N existing events, instead of `after`. */
  readonly last?: number | undefined;
  /** The epoch in which `after` was read, from the event with that sequence. */
  readonly epoch?: string | undefined;
}

/** What to follow. */
export interface TailOptions {
  /**
   * These sessions; undefined: every session of the acting agent, from the events that the service has not delivered
   * yet.
   */
  readonly sessions?: readonly TailStart[] | undefined;
  /** For a tail of every session: continue after these sequences, by session id. */
  readonly cursors?:
    | Readonly<Record<string, number | { readonly after: number; readonly epoch?: string | undefined }>>
    | undefined;
  /** With `cursors`: deliver the events since this time, by the service's clock, in sessions that have none. */
  readonly sinceMs?: number | undefined;
  /** The acting agent, so that the tail can tell its own departure from that of others. */
  readonly handle?: string | undefined;
  /** False: stop after the existing events. Default: true. */
  readonly isFollowing?: boolean | undefined;
  /**
   * For a tail of named sessions: shares one event stream with the other tails of this client that do. The service allows
   * an agent only 16. A tail that is read too slowly continues with a request. Default: false.
   */
  readonly sharesStream?: boolean | undefined;
  /** Ends the tail quietly. */
  readonly signal?: AbortSignal | undefined;
}

/** The items of a tail, in order: events, and changes of the connection. */
export type TailItem =
  | {
      readonly kind: 'event';
      readonly event: EventEnvelope;
      readonly isReplay: boolean;
      /**
       * Names the stretch of the data's history that the event belongs to. Store it with the sequence and pass it back
       * as `epoch`: then the tail can tell whether the service's data was restored in the meantime.
       */
      readonly epoch?: string | undefined;
    }
  /** All existing events were delivered; live events follow. `downMs`: how long there was no connection. */
  | {
      readonly kind: 'ready';
      readonly isReconnect: boolean;
      readonly sessions: number;
      readonly downMs: number;
      /** The credential may not open the event stream, so the tail polls every few seconds. */
      readonly isPolling?: boolean | undefined;
    }
  /** The connection broke or could not be opened; the next attempt starts after `delayMs`. */
  | { readonly kind: 'reconnecting'; readonly attempt: number; readonly delayMs: number; readonly reason: string }
  /** Could not load the events from `from` to `to`, both included; `to` null: from there on. */
  | {
      readonly kind: 'gap';
      readonly sessionId: string;
      readonly from: number;
      readonly to: number | null;
      readonly reason: string;
    }
  /**
   * The service's data was restored: the events of this session after `after`, up to `from`, are gone, and their
   * sequences may be used again for other events. The tail continues after `after`.
   */
  | {
      readonly kind: 'restored';
      readonly sessionId: string;
      readonly after: number;
      readonly from: number;
      readonly epoch?: string | undefined;
    }
  /**
   * A session has no more events for now: it ended, the acting agent left, or (if not following) all existing events
   * were read.
   */
  | { readonly kind: 'end'; readonly sessionId: string; readonly reason: 'ended' | 'left' | 'read' };
