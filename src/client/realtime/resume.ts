import type { Random } from '../../kit/random.js';
import type { EventEnvelope } from '../../wire/event.js';
import type { Credential } from '../credentials/credential.js';
import { RequestError } from '../http/request-error.js';
import { sendWithRetries } from '../http/send.js';
import type { Transport } from '../http/transport.js';
import { discover, resourceOf } from '../oauth/discover.js';
import { callEndpoint, prepare, type RestContext } from '../rest/call.js';
import type { ServiceAddresses } from '../service-addresses.js';
import { FollowedSessions } from './followed-sessions.js';
import { keepConnected } from './reconnect.js';
import { findStartOfLast, listSessions, replayEvents } from './replay.js';
import type { LiveSocket } from './socket.js';
import type { TailItem, TailOptions } from './tail.js';

/** After so many sessions in a row without news, the rest of a list by latest change has none either. */
const QUIET_MAX = 20;

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
 * @throws RequestError what waiting cannot mend.
 */
export async function* tailSessions(context: TailContext, options: TailOptions): AsyncGenerator<TailItem> {
  const { sessions, handle, signal } = options;
  const followed = new FollowedSessions({ handle, isEndTold: sessions !== undefined });
  const tail: Tail = { context, options, followed, beganAtMs: context.transport.clock.now() };
  try {
    await begin(tail);
    yield* options.isFollowing === false ? readOnce(tail) : follow(tail);
  } catch (error) {
    if (signal?.aborted !== true) throw error;
  }
}

/** Finds where each session starts; a named one that cannot be seen is an error now, not later. */
async function begin({ context, options, followed }: Tail): Promise<void> {
  const { rest } = context;
  const { signal } = options;
  for (const [sessionId, cursor] of Object.entries(options.cursors ?? {})) followed.follow(sessionId, cursor);
  for (const { sessionId, after, last } of options.sessions ?? []) {
    const { reply } = await callEndpoint(rest, 'getSession', { path: { session_id: sessionId }, signal });
    const start = last === undefined ? (after ?? 0) : await findStartOfLast(rest, sessionId, last, signal);
    const me = reply.participants.find(({ handle }) => handle === options.handle);
    followed.follow(sessionId, start, { isEnded: reply.state === 'ended', hasLeft: me?.status === 'left' });
  }
}

async function* readOnce(tail: Tail): AsyncGenerator<TailItem> {
  const { context, options, followed } = tail;
  if (options.sessions === undefined)
    for await (const { id } of listSessions(context.rest, options.signal))
      if (!followed.has(id)) followed.follow(id, 0);
  for (const sessionId of followed.ids) {
    yield* replayOne(tail, sessionId, 0);
    yield followed.takeEnd(sessionId) ?? { kind: 'end', sessionId, reason: 'read' };
  }
}

async function* follow(tail: Tail): AsyncGenerator<TailItem> {
  const { context, options, followed } = tail;
  const { transport, random, credential } = context;
  const { signal } = options;
  const url = await socketUrl(context, signal);
  let isReconnect = false;
  let brokeAtMs: number | undefined;
  for await (const item of keepConnected({ transport, random, credential, url, signal })) {
    if (item.kind === 'reconnecting') {
      brokeAtMs ??= transport.clock.monotonic();
      yield item;
      continue;
    }
    try {
      yield* catchUp(tail, isReconnect);
      const downMs = brokeAtMs === undefined ? 0 : Math.round(transport.clock.monotonic() - brokeAtMs);
      yield { kind: 'ready', isReconnect, sessions: followed.size, downMs };
      brokeAtMs = undefined;
      isReconnect = true;
      yield* readLive(tail, item.socket);
    } catch (error) {
      if (!(error instanceof RequestError && error.isRetryable) || signal?.aborted === true) throw error;
      transport.trace?.({ kind: 'failure', text: `${error.code}: the connection is made anew` });
    } finally {
      item.socket.close();
    }
    brokeAtMs ??= transport.clock.monotonic();
  }
}

/** What happened before the socket was open. */
async function* catchUp(tail: Tail, isReconnect: boolean): AsyncGenerator<TailItem> {
  const { options, followed, context } = tail;
  const isEverySession = options.sessions === undefined;
  if (isEverySession && isReconnect) {
    yield* catchUpWithEvery(tail);
    return;
  }
  if (isEverySession) tail.beganAtMs = await serviceTime(context, options.signal);
  for (const sessionId of followed.ids) {
    yield* replayOne(tail, sessionId, 0);
    const end = followed.takeEnd(sessionId);
    if (end !== undefined) yield end;
  }
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
  const from = followed.cursorOf(sessionId);
  try {
    for await (const event of replayEvents(context.rest, sessionId, from, options.signal)) {
      if (followed.accept(event) && event.created_at >= sinceMs) yield { kind: 'event', event, isReplay: true };
    }
  } catch (error) {
    if (!isGone(error)) throw error;
    yield { kind: 'gap', sessionId, from: followed.cursorOf(sessionId), to: null, reason: error.code };
    followed.drop(sessionId);
  }
}

async function* readLive(tail: Tail, socket: LiveSocket): AsyncGenerator<TailItem> {
  const { followed, options } = tail;
  const named = options.sessions === undefined ? undefined : new Set(options.sessions.map((start) => start.sessionId));
  for await (const event of socket.events) {
    if (named !== undefined && !named.has(event.session_id)) continue;
    const isKnown = followed.has(event.session_id);
    if (isKnown && event.sequence > followed.cursorOf(event.session_id) + 1) yield* fillHole(tail, event);
    if (!followed.accept(event)) continue;
    yield { kind: 'event', event, isReplay: false };
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
  const from = followed.cursorOf(event.session_id);
  try {
    for await (const missed of replayEvents(context.rest, event.session_id, from, options.signal)) {
      if (missed.sequence >= event.sequence) return;
      if (followed.accept(missed)) yield { kind: 'event', event: missed, isReplay: true };
    }
  } catch (error) {
    if (!isGone(error)) throw error;
    yield { kind: 'gap', sessionId: event.session_id, from, to: event.sequence - 1, reason: error.code };
  }
}

function isGone(error: unknown): error is RequestError {
  return error instanceof RequestError && (error.code === 'NOT_FOUND' || error.code === 'FORBIDDEN');
}

async function socketUrl(context: TailContext, signal: AbortSignal | undefined): Promise<string> {
  const { service, transport, random, rest } = context;
  if (service.wsUrl !== undefined) return service.wsUrl;
  return resourceOf(await discover({ transport, random, retries: rest.retries }, service, signal), 'ws');
}

/** The service's clock by its `Date`, a second early; ours where it tells none. */
async function serviceTime(context: TailContext, signal: AbortSignal | undefined): Promise<number> {
  const request = { method: 'GET', path: '/sessions', query: { limit: 1 }, accept: 'application/json' } as const;
  const sent = await sendWithRetries(context.transport, context.random, prepare(context.rest, { signal }, request));
  const told = Date.parse(sent.answer.headers['date'] ?? '');
  return (Number.isNaN(told) ? context.transport.clock.now() : told) - 1000;
}
