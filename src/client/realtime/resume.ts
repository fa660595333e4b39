import { wait } from '../../kit/clock.js';
import type { Random } from '../../kit/random.js';
import type { EventEnvelope } from '../../wire/event.js';
import { SOCKET_PATH } from '../../wire/realtime.js';
import type { Credential } from '../credentials/credential.js';
import { RequestError } from '../http/request-error.js';
import { sendWithRetries } from '../http/send.js';
import type { Transport } from '../http/transport.js';
import { discover, resourceOf } from '../oauth/discover.js';
import { callEndpoint, prepare, type RestContext } from '../rest/call.js';
import type { ServiceAddresses } from '../service-addresses.js';
import { FollowedSessions } from './followed-sessions.js';
import { keepConnected, type SocketAddress } from './reconnect.js';
import { findStartOfLast, listSessions, type ReplayPage, replayPages } from './replay.js';
import type { LiveSocket } from './socket.js';
import type { TailItem, TailOptions } from './tail.js';

/** After so many sessions in a row without news, the rest of a list by latest change has none either. */
const QUIET_MAX = 20;

/** How often new events of a session are asked for where the stream cannot be opened. */
const POLL_MS = 2000;

/** Where fewer are followed, asking each costs no more than asking for their list. */
const SESSIONS_PER_LIST = 10;

/** What a tail needs. */
export interface TailContext {
  readonly service: ServiceAddresses;
  readonly credential: Credential;
  readonly transport: Transport;
  readonly random: Random;
  readonly rest: RestContext;
}

interface Tail {
  readonly context: TailContext;
  readonly options: TailOptions;
  readonly followed: FollowedSessions;
  /** The service's time when the tail began: what is older in a session that turns up later was not asked for. */
  beganAtMs: number;
}

/**
 * Follows sessions for as long as it is read. At every connection the socket opens first and waits, then each session is
 * replayed from its last given event, then what waited is given, without what the replay gave already; so each event comes
 * once and in the order of its session, whatever breaks (spec: Events; GET …/events).
 * @throws RequestError what waiting cannot fix.
 */
export async function* tailSessions(context: TailContext, options: TailOptions): AsyncGenerator<TailItem> {
  const { sessions, handle, signal } = options;
  const followed = new FollowedSessions({ handle, isEndTold: sessions !== undefined });
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

/** Finds where each session starts; a named one that cannot be seen is an error now, not later. */
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

async function* readOnce(tail: Tail): AsyncGenerator<TailItem> {
  const { context, options, followed } = tail;
  if (options.sessions === undefined)
    for await (const { id } of listSessions(context.rest, options.signal))
      if (!followed.has(id)) followed.follow(id, { after: 0 });
  for (const sessionId of followed.ids) {
    yield* replayOne(tail, sessionId, 0);
    yield followed.takeEnd(sessionId) ?? { kind: 'end', sessionId, reason: 'read' };
  }
}

async function* follow(tail: Tail): AsyncGenerator<TailItem> {
  const { context, options, followed } = tail;
  const { transport, random, credential } = context;
  const { signal } = options;
  // A command with a deadline, or without retries, reports what is wrong at its start. Else trying again is the loop's part, which
  // says that it does.
  const waitsAtStart = transport.deadline === undefined && context.rest.retries > 0;
  const starting: TailContext = waitsAtStart ? { ...context, rest: { ...context.rest, retries: 0 } } : context;
  const prepare = async (): Promise<SocketAddress> => {
    await begin({ ...tail, context: starting });
    return findSocket(starting, signal);
  };
  let isReconnect = false;
  let brokeAtMs: number | undefined;
  const connections = keepConnected({ transport, random, credential, prepare, waitsAtStart, signal });
  const refusal = { error: undefined as unknown };
  for await (const item of untilRefused(connections, refusal)) {
    if (item.kind === 'reconnecting') {
      brokeAtMs ??= transport.clock.monotonic();
      yield item;
      continue;
    }
    try {
      yield* catchUp(tail, isReconnect, item.socket.epoch);
      const downMs = brokeAtMs === undefined ? 0 : Math.round(transport.clock.monotonic() - brokeAtMs);
      yield { kind: 'ready', isReconnect, sessions: followed.size, downMs };
      brokeAtMs = undefined;
      isReconnect = true;
      yield* readLive(tail, item.socket);
    } catch (error) {
      if (!(error instanceof RequestError && error.isRetryable) || signal?.aborted === true) throw error;
      transport.trace?.({ kind: 'failure', text: `${error.code}: the connection is made anew` });
      item.fail(error);
    } finally {
      item.socket.close();
    }
    brokeAtMs ??= transport.clock.monotonic();
  }
  if (refusal.error === undefined) return;
  if (isReconnect || followed.size === 0 || followed.size !== options.sessions?.length) throw refusal.error;
  transport.trace?.({ kind: 'failure', text: 'the event stream is not allowed: asking for events instead' });
  yield* poll(tail);
}

/** The connections, up to the one that this credential may not open. */
async function* untilRefused<Item>(items: AsyncIterable<Item>, refusal: { error: unknown }): AsyncGenerator<Item> {
  try {
    yield* items;
  } catch (error) {
    if (!isNotAllowed(error)) throw error;
    refusal.error = error;
  }
}

/** Whether the credential does not open the event stream. It may well read over REST. */
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

/** Follows named sessions without the event stream. @throws RequestError */
async function* poll(tail: Tail): AsyncGenerator<TailItem> {
  const { context, options, followed } = tail;
  const { clock } = context.transport;
  let isReconnect = false;
  let brokeAtMs: number | undefined = clock.monotonic();
  let attempt = 0;
  while (options.signal?.aborted !== true) {
    const delayMs = POLL_MS * Math.max(1, followed.size);
    try {
      for (const sessionId of followed.ids) {
        yield* replayOne(tail, sessionId, 0);
        const end = followed.takeEnd(sessionId);
        if (end !== undefined) yield end;
      }
      if (brokeAtMs !== undefined) {
        const downMs = isReconnect ? Math.round(clock.monotonic() - brokeAtMs) : 0;
        yield { kind: 'ready', isReconnect, sessions: followed.size, downMs, isPolling: true };
      }
      isReconnect = true;
      brokeAtMs = undefined;
      attempt = 0;
    } catch (error) {
      if (!isReconnect || !(error instanceof RequestError && error.isRetryable)) throw error;
      brokeAtMs ??= clock.monotonic();
      attempt += 1;
      yield { kind: 'reconnecting', attempt, delayMs, reason: error.code };
    }
    await wait(clock, delayMs, options.signal);
  }
}

/** What happened before the socket was open. */
async function* catchUp(tail: Tail, isReconnect: boolean, epoch: string | undefined): AsyncGenerator<TailItem> {
  const { options, followed, context } = tail;
  const isEverySession = options.sessions === undefined;
  if (isEverySession && isReconnect) {
    yield* catchUpWithEvery(tail);
    return;
  }
  if (isEverySession) tail.beganAtMs = await serviceTime(context, options.signal);
  const isListWorthIt = isEverySession && followed.size > SESSIONS_PER_LIST;
  const upToDate = isListWorthIt ? await findUpToDate(tail, epoch) : new Set();
  for (const sessionId of followed.ids) {
    if (upToDate.has(sessionId)) continue;
    yield* replayOne(tail, sessionId, 0);
    const end = followed.takeEnd(sessionId);
    if (end !== undefined) yield end;
  }
}

/** Sessions of which everything was given, by what their list says; the socket is open, so what comes after is not missed. */
async function findUpToDate({ context, options, followed }: Tail, epoch: string | undefined): Promise<Set<string>> {
  const found = new Set<string>();
  for await (const { id, last_sequence: last } of listSessions(context.rest, options.signal))
    if (followed.has(id) && followed.isIn(id, epoch) && last === followed.cursorOf(id)) found.add(id);
  return found;
}

/** Sessions that changed while there was no connection: the first of the list by latest change. */
async function* catchUpWithEvery(tail: Tail): AsyncGenerator<TailItem> {
  const { context, options, followed } = tail;
  let quiet = 0;
  for await (const { id } of listSessions(context.rest, options.signal)) {
    const isKnown = followed.has(id);
    let hasNews = false;
    for await (const item of replayOne(tail, id, isKnown ? 0 : tail.beganAtMs)) {
      hasNews = true;
      yield item;
    }
    quiet = hasNews ? 0 : quiet + 1;
    if (quiet >= QUIET_MAX) return;
  }
}

async function* replayOne(tail: Tail, sessionId: string, sinceMs: number): AsyncGenerator<TailItem> {
  const { context, options, followed } = tail;
  try {
    for await (const page of replayPages(context.rest, sessionId, followed.positionOf(sessionId), options.signal)) {
      yield* enterEpoch(followed, sessionId, page);
      for (const event of page.events)
        if (followed.accept(event, page.epoch) && event.created_at >= sinceMs)
          yield { kind: 'event', event, isReplay: true, epoch: page.epoch };
    }
  } catch (error) {
    if (!isGone(error)) throw error;
    yield { kind: 'gap', sessionId, from: followed.cursorOf(sessionId), to: null, reason: error.code };
    followed.drop(sessionId);
  }
}

/** A restore of the service's data takes back what was given after the point to which they went. */
function* enterEpoch(followed: FollowedSessions, sessionId: string, page: ReplayPage): Generator<TailItem> {
  const { after, epoch } = page;
  const { after: from } = followed.positionOf(sessionId);
  followed.enter(sessionId, { after, epoch });
  if (after < from) yield { kind: 'restored', sessionId, after, from, epoch };
}

async function* readLive(tail: Tail, socket: LiveSocket): AsyncGenerator<TailItem> {
  const { followed, options } = tail;
  const named = options.sessions === undefined ? undefined : new Set(options.sessions.map((start) => start.sessionId));
  for await (const event of socket.events) {
    if (named !== undefined && !named.has(event.session_id)) continue;
    const isKnown = followed.has(event.session_id);
    // What is known of it may be from before a restore, in which its numbers were given again.
    if (isKnown && !followed.isIn(event.session_id, socket.epoch)) yield* replayOne(tail, event.session_id, 0);
    if (isKnown && event.sequence > followed.cursorOf(event.session_id) + 1) yield* fillHole(tail, event);
    if (!followed.accept(event, socket.epoch)) continue;
    yield { kind: 'event', event, isReplay: false, epoch: socket.epoch };
    const end = followed.takeEnd(event.session_id);
    if (end !== undefined) yield end;
  }
}

/**
 * A hole in the sequences is normal where eligibility hides events, but it may also be what became visible by joining, or a
 * loss: what exists between is asked for. What cannot be had is reported.
 */
async function* fillHole(tail: Tail, event: EventEnvelope): AsyncGenerator<TailItem> {
  const { context, options, followed } = tail;
  const { session_id: sessionId } = event;
  const from = followed.cursorOf(sessionId);
  try {
    for await (const page of replayPages(context.rest, sessionId, followed.positionOf(sessionId), options.signal)) {
      yield* enterEpoch(followed, sessionId, page);
      for (const missed of page.events) {
        if (missed.sequence >= event.sequence) return;
        if (followed.accept(missed, page.epoch))
          yield { kind: 'event', event: missed, isReplay: true, epoch: page.epoch };
      }
    }
  } catch (error) {
    if (!isGone(error)) throw error;
    yield { kind: 'gap', sessionId, from, to: event.sequence - 1, reason: error.code };
  }
}

function isGone(error: unknown): error is RequestError {
  return error instanceof RequestError && (error.code === 'NOT_FOUND' || error.code === 'FORBIDDEN');
}

/** Where the WebSocket is. A service without metadata probably has it where most do (wire: Reading what others send). */
async function findSocket(context: TailContext, signal: AbortSignal | undefined): Promise<SocketAddress> {
  const { service, transport, random, rest } = context;
  if (service.wsUrl !== undefined) return { url: service.wsUrl, isGuessed: false };
  try {
    const discovery = await discover({ transport, random, retries: rest.retries }, service, signal);
    return { url: resourceOf(discovery, 'ws'), isGuessed: false };
  } catch (error) {
    const hasNoMetadata = error instanceof RequestError && error.code === 'ASP_DISCOVERY' && error.status !== undefined;
    if (!hasNoMetadata) throw error;
    return { url: `${service.baseUrl.replace(/^http/, 'ws')}${SOCKET_PATH}`, isGuessed: true };
  }
}

/** The service's clock by its `Date`, a second early; ours where it tells none. */
async function serviceTime(context: TailContext, signal: AbortSignal | undefined): Promise<number> {
  const request = { method: 'GET', path: '/sessions', query: { limit: 1 }, accept: 'application/json' } as const;
  const sent = await sendWithRetries(context.transport, context.random, prepare(context.rest, { signal }, request));
  const told = Date.parse(sent.answer.headers['date'] ?? '');
  return (Number.isNaN(told) ? context.transport.clock.now() : told) - 1000;
}
