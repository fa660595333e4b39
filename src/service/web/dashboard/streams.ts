import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { beatEvery } from '../../../kit/repeat.js';
import { ServiceError } from '../../core/errors.js';
import { unfollow } from '../../core/request-scope.js';
import { toNetwork } from '../../oauth/attempts.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import { isOfSameOrigin } from '../browser.js';
import { readVisit, type Visit } from './visit.js';

const STREAMS_MAX = 200;
const STREAMS_PER_ACCOUNT_MAX = 8;
const RETRY_AFTER_S = 5;

const RETRY_MS = 1_000;
const KEEP_ALIVE_MS = 15_000;

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  // nginx would hold back small pieces.
  'x-accel-buffering': 'no',
};

/** Who has a stream, from where, and the connection that it takes. */
interface Seat {
  readonly accountId: string;
  readonly network: string;
  readonly response: ServerResponse;
}

/** The open streams of one kind, oldest first. */
export interface Streams<Stream> extends Iterable<Stream> {
  readonly size: number;
  /** Opens one for an account with `create`, or throws RATE_LIMITED. `onClose` runs when it is over. */
  open(
    request: FastifyRequest,
    reply: FastifyReply,
    accountId: string,
    create: (response: ServerResponse) => Stream,
    onClose?: (stream: Stream) => void,
  ): FastifyReply;
  /** Ends every stream, and refuses new ones. */
  stop(): void;
}

/** `poll` runs regularly while a stream is open: a notification may have been lost. */
export function createStreams<Stream>(
  { context }: AuthorizationServer,
  pollMs: number,
  poll: () => void,
): Streams<Stream> {
  const { clock, settings } = context;
  const seats = new Map<Stream, Seat>();
  let isStopping = false;
  let cancelPoll: (() => void) | undefined;
  const armPoll = (): void => {
    cancelPoll ??= clock.schedule(
      pollMs,
      () => {
        cancelPoll = undefined;
        poll();
        if (seats.size > 0) armPoll();
      },
      true,
    );
  };
  const makeRoom = (accountId: string, network: string): void => {
    if (isStopping) throw new ServiceError('INTERNAL_ERROR', 'The service is shutting down.', { status: 503 });
    const own = [...seats.values()].filter((seat) => seat.accountId === accountId).length;
    if (own < STREAMS_PER_ACCOUNT_MAX && seats.size < STREAMS_MAX) return;
    const leaver = own < STREAMS_PER_ACCOUNT_MAX ? findLeaver(seats, accountId, network) : undefined;
    if (leaver === undefined)
      throw new ServiceError('RATE_LIMITED', 'Too many live pages are open.', { retryAfterS: RETRY_AFTER_S });
    const [stream, { response }] = leaver;
    seats.delete(stream);
    response.end();
    // One that does not read would keep its connection.
    if (response.writableLength > 0) response.destroy();
  };
  /** Sends a comment occasionally, so that proxies do not consider the connection dead. */
  const keepAlive = (response: ServerResponse): void => {
    const stop = beatEvery(clock, KEEP_ALIVE_MS, () => {
      if (!response.writableEnded) response.write(': still here\n\n');
    });
    response.once('close', stop);
  };
  return {
    get size() {
      return seats.size;
    },
    [Symbol.iterator]: () => seats.keys(),
    open(request, reply, accountId, create, onClose) {
      const network = settings.isAddressShared ? '' : toNetwork(request.ip);
      makeRoom(accountId, network);
      reply.hijack();
      unfollow(request.raw);
      const response = reply.raw;
      // A browser that is already gone sends no further event, so its stream would never be removed.
      if (response.destroyed) return reply;
      response.writeHead(200, HEADERS);
      response.write(`retry: ${RETRY_MS}\n\n`);
      keepAlive(response);
      const stream = create(response);
      seats.set(stream, { accountId, network, response });
      response.once('close', () => {
        seats.delete(stream);
        onClose?.(stream);
      });
      armPoll();
      return reply;
    },
    stop() {
      isStopping = true;
      cancelPoll?.();
      for (const { response } of seats.values()) response.end();
    },
  };
}

/**
 * The stream that leaves for a newcomer when no more fit: the oldest of the account with the most, in the network with
 * the most. Undefined: the newcomer would have as many as those who lose one.
 */
function findLeaver<Stream>(
  seats: ReadonlyMap<Stream, Seat>,
  accountId: string,
  network: string,
): readonly [Stream, Seat] | undefined {
  const all = [...seats];
  const crowded = findCrowded(all, ([, seat]) => seat.network, network) ?? network;
  const inNetwork = all.filter(([, seat]) => seat.network === crowded);
  const account =
    crowded === network
      ? findCrowded(inNetwork, ([, seat]) => seat.accountId, accountId)
      : findMost(inNetwork, ([, seat]) => seat.accountId)[0];
  return inNetwork.find(([, seat]) => seat.accountId === account);
}

/** The key with the most entries, if one more entry of `own` would still be fewer. */
function findCrowded<Entry>(
  entries: readonly Entry[],
  keyOf: (entry: Entry) => string,
  own: string,
): string | undefined {
  const [key, most] = findMost(entries, keyOf);
  const ownCount = entries.filter((entry) => keyOf(entry) === own).length;
  return ownCount + 1 < most ? key : undefined;
}

function findMost<Entry>(entries: readonly Entry[], keyOf: (entry: Entry) => string): readonly [string, number] {
  const counts = new Map<string, number>();
  for (const entry of entries) counts.set(keyOf(entry), (counts.get(keyOf(entry)) ?? 0) + 1);
  return [...counts].reduce((most, one) => (one[1] > most[1] ? one : most), ['', 0] as const);
}

/** The signed-in visitor of a page whose script asks what is new. */
export async function readAsker(server: AuthorizationServer, request: FastifyRequest): Promise<Visit> {
  if (!isOfSameOrigin(server, request)) throw new ServiceError('FORBIDDEN');
  const visit = await readVisit(server, request);
  if (visit === undefined) throw new ServiceError('UNAUTHORIZED', 'This browser is not signed in.');
  return visit;
}
