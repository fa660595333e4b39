import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { readListMark } from '../../messaging/list-sessions.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import { type Browser, findAccountOf, isOfSameOrigin } from '../browser.js';
import { beginStream, type LiveTranscripts, requireRoom } from './live.js';
import { listNeeds } from './needs-you.js';
import { readVisit } from './visit.js';

/** Each list is checked at most once in this time, no matter how much happens. */
const PAUSE_MS = 1_000;
/** Checks happen this often without a notification: someone may have come online, or a notification was lost. */
const POLL_MS = 5_000;

/** What a stream sends when the list has changed. */
interface Subject {
  readonly event: 'changed' | 'needs';
  read(query: Query, accountId: string): Promise<string>;
}

interface ListStream {
  readonly accountId: string;
  readonly browser: Browser;
  readonly response: ServerResponse;
  readonly subject: Subject;
  /** The state of the page. */
  data: string | undefined;
}

/**
 * Tells open lists that they have changed, so that their pages fetch themselves again; and tells one page of each
 * browser with notifications about new entries on the Needs you page.
 */
export function createLiveLists(server: AuthorizationServer): Pick<LiveTranscripts, 'open' | 'stop'> {
  const { bus, clock, database, inboxes, log } = server.context;
  const lists: Subject = { event: 'changed', read: readListMark };
  const needs: Subject = {
    event: 'needs',
    read: async (query, accountId) => JSON.stringify(await listNeeds(server.context, accountId, query)),
  };
  const streams = new Set<ListStream>();
  let isStopping = false;
  let isPausing = false;
  let mustLookAgain = false;
  let cancelPause: (() => void) | undefined;
  let cancelPoll: (() => void) | undefined;

  const tell = (stream: ListStream, data: string): void => {
    if (data === stream.data) return;
    stream.response.write(`event: ${stream.subject.event}\ndata: ${data}\n\n`);
    stream.data = data;
  };
  const look = async (): Promise<void> => {
    await inboxes.settle();
    for (const stream of streams) {
      const data = await database.read(async (query) => {
        const account = await findAccountOf(server, query, stream.browser);
        return account?.id === stream.accountId ? stream.subject.read(query, stream.accountId) : undefined;
      });
      if (data === undefined) stream.response.end('event: end\ndata: signed-out\n\n');
      // A slow reader gets the change later.
      else if (stream.response.writableLength === 0) tell(stream, data);
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
      const subject = asked.one('of') === 'needs' ? needs : lists;
      const data = await database.read((query) => subject.read(query, account.id));
      if (request.headers.accept === 'application/json') {
        reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
        return reply.send({ mark: data });
      }
      requireRoom(streams, account.id, isStopping);
      reply.hijack();
      // A browser that is already gone sends no further event, so its stream would never be removed.
      if (reply.raw.destroyed) return reply;
      const stream = { accountId: account.id, browser, response: reply.raw, subject, data: asked.one('mark') };
      beginStream(server, reply.raw);
      tell(stream, data);
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
