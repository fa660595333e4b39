import type { FastifyReply, FastifyRequest } from 'fastify';

import type { Browser } from '../../authorization-server/account/browser.js';
import { isOfSameOrigin } from '../../authorization-server/account/same-origin.js';
import type { AuthorizationServer } from '../../authorization-server/server.js';
import { ServiceError } from '../../service-error.js';
import { readVisit, type Visit } from '../visit.js';
import { agentIdsOf, createLiveStream, type LiveStream, readStep, renderStep } from './live-stream.js';
import { findSeenSession } from './seen-session.js';
import { readSequence } from './transcript.js';

const POLL_MS = 1_000;
const STREAMS_MAX = 200;
const STREAMS_PER_ACCOUNT_MAX = 8;
const RETRY_AFTER_S = 5;

/** The transcripts that somebody is looking at, each fed by server-sent events. */
export interface LiveTranscripts {
  open(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply>;
  /** Ends every stream, and from now on refuses new ones. */
  stop(): void;
}

/** Who looks at what. */
export interface Onlooker {
  readonly browser: Browser;
  readonly accountId: string;
  readonly username: string;
  readonly sessionId: string;
}

/** The bus says when to look, the log what there is; a ring that is lost costs a second. */
export function createLiveTranscripts(server: AuthorizationServer): LiveTranscripts {
  const { bus, clock } = server.context;
  const streams = new Set<LiveStream>();
  let isStopping = false;
  let cancelPoll: (() => void) | undefined;
  const stopListening = bus.listen((signal) => {
    if (signal.kind !== 'events') return;
    for (const stream of streams) if (stream.concerns(signal.agentIds)) stream.look();
  });
  const poll = (): void => {
    cancelPoll ??= clock.schedule(
      POLL_MS,
      () => {
        cancelPoll = undefined;
        for (const stream of streams) stream.look();
        if (streams.size > 0) poll();
      },
      true,
    );
  };
  const requireRoom = (accountId: string): void => {
    if (isStopping) throw new ServiceError('INTERNAL_ERROR', 'The service is shutting down.', { status: 503 });
    const own = [...streams].filter((stream) => stream.accountId === accountId).length;
    if (streams.size >= STREAMS_MAX || own >= STREAMS_PER_ACCOUNT_MAX)
      throw new ServiceError('RATE_LIMITED', 'As many transcripts are open as can be.', { retryAfterS: RETRY_AFTER_S });
  };
  return {
    async open(request, reply) {
      if (!isOfSameOrigin(server, request)) throw new ServiceError('FORBIDDEN');
      const visit = await readVisit(server, request);
      if (visit === undefined) throw new ServiceError('UNAUTHORIZED', 'Nobody is signed in in this browser.');
      const onlooker = onlookerOf(visit);
      const after = placeOf(request, visit);
      if (request.headers.accept === 'application/json') return answerPoll(server, reply, onlooker, after);
      const seen = await server.context.database.read((query) =>
        findSeenSession(query, onlooker.accountId, onlooker.sessionId),
      );
      if (seen === undefined) throw new ServiceError('NOT_FOUND');
      requireRoom(onlooker.accountId);
      reply.hijack();
      // Whoever has gone already will not be seen to go: nothing would ever take the stream away.
      if (reply.raw.destroyed) return reply;
      const stream = createLiveStream(server, onlooker, {
        response: reply.raw,
        agentIds: agentIdsOf(seen),
        after,
      });
      streams.add(stream);
      reply.raw.once('close', () => streams.delete(stream));
      stream.look();
      poll();
      return reply;
    },
    stop() {
      isStopping = true;
      stopListening();
      cancelPoll?.();
      for (const stream of streams) stream.end();
    },
  };
}

/** What is new, once: for a page to which its browser has no stream to give. */
async function answerPoll(
  server: AuthorizationServer,
  reply: FastifyReply,
  onlooker: Onlooker,
  after: number,
): Promise<FastifyReply> {
  const found = await readStep(server, onlooker, after);
  if (found === 'signed-out') throw new ServiceError('UNAUTHORIZED');
  if (found === 'gone') throw new ServiceError('NOT_FOUND');
  reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
  return reply.send(renderStep(found, onlooker.username, server.context.clock.now()));
}

function onlookerOf({ browser, account, part }: Visit): Onlooker {
  return { browser, accountId: account.id, username: account.username, sessionId: part('session_id') };
}

/** What a browser that reconnects has seen counts for more than what its page has seen. */
function placeOf(request: FastifyRequest, { query }: Visit): number {
  const seen = request.headers['last-event-id'];
  return readSequence(typeof seen === 'string' ? seen : undefined) ?? readSequence(query.one('after')) ?? 0;
}
