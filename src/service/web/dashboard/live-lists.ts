import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../../core/errors.js';
import { readListMark } from '../../messaging/list-sessions.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import { type Browser, findAccountOf, isOfSameOrigin } from '../browser.js';
import { beginStream, type LiveTranscripts, requireRoom } from './live.js';
import { readVisit } from './visit.js';

/** At most one look in this time for each list, however much happens. */
const PAUSE_MS = 1_000;
/** Without a notification: someone may have come online, or a notification was lost. */
const POLL_MS = 5_000;

interface ListStream {
  readonly accountId: string;
  readonly browser: Browser;
  readonly response: ServerResponse;
  mark: string;
}

/** Tells open lists that they have changed; their pages then fetch themselves again. */
export function createLiveLists(server: AuthorizationServer): Pick<LiveTranscripts, 'open' | 'stop'> {
  const { bus, clock, database, inboxes, log } = server.context;
  const streams = new Set<ListStream>();
  let isStopping = false;
  let isPausing = false;
  let mustLookAgain = false;
  let cancelPause: (() => void) | undefined;
  let cancelPoll: (() => void) | undefined;

  const look = async (): Promise<void> => {
    await inboxes.settle();
    for (const stream of streams) {
      const mark = await database.read(async (query) => {
        const account = await findAccountOf(server, query, stream.browser);
        return account?.id === stream.accountId ? readListMark(query, stream.accountId) : undefined;
      });
      if (mark === undefined) stream.response.end('event: end\ndata: signed-out\n\n');
      else if (mark !== stream.mark && stream.response.writableLength === 0) {
        // A slow reader gets it later.
        stream.response.write(`event: changed\ndata: ${mark}\n\n`);
        stream.mark = mark;
      }
    }
  };
  const lookSoon = (): void => {
    mustLookAgain = true;
    if (isPausing || isStopping || streams.size === 0) return;
    isPausing = true;
    mustLookAgain = false;
    look()
      .catch((error) => log.error('live_lists_failed', error))
      .finally(() => {
        cancelPause = clock.schedule(
          PAUSE_MS,
          () => {
            isPausing = false;
            if (mustLookAgain) lookSoon();
          },
          true,
        );
      });
  };
  const poll = (): void => {
    cancelPoll ??= clock.schedule(
      POLL_MS,
      () => {
        cancelPoll = undefined;
        lookSoon();
        if (streams.size > 0) poll();
      },
      true,
    );
  };
  const stopListening = bus.listen((signal) => {
    if (signal.kind === 'events') lookSoon();
  });
  return {
    async open(request: FastifyRequest, reply: FastifyReply) {
      if (!isOfSameOrigin(server, request)) throw new ServiceError('FORBIDDEN');
      const visit = await readVisit(server, request);
      if (visit === undefined) throw new ServiceError('UNAUTHORIZED', 'This browser is not signed in.');
      const { account, browser, query: asked } = visit;
      const mark = await database.read((query) => readListMark(query, account.id));
      if (request.headers.accept === 'application/json') {
        reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
        return reply.send({ mark });
      }
      requireRoom(streams, account.id, isStopping);
      reply.hijack();
      // A browser that is already gone sends no further event, so its stream would never be removed.
      if (reply.raw.destroyed) return reply;
      const stream = { accountId: account.id, browser, response: reply.raw, mark };
      beginStream(server, reply.raw);
      if (asked.one('mark') !== mark) reply.raw.write(`event: changed\ndata: ${mark}\n\n`);
      streams.add(stream);
      reply.raw.once('close', () => streams.delete(stream));
      poll();
      return reply;
    },
    stop() {
      isStopping = true;
      stopListening();
      cancelPause?.();
      cancelPoll?.();
      for (const { response } of streams) response.end();
    },
  };
}
