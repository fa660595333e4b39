import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isId } from '../../../wire/id.js';
import type { Query } from '../../core/database.js';
import { findAccountView, findLastVisibleTo } from '../../messaging/events.js';
import { readListMark } from '../../messaging/list-sessions.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import type { AccountRow } from '../../store/accounts.js';
import { listOnline } from '../../store/participants.js';
import { type Browser, findAccountOf } from '../browser.js';
import type { LiveTranscripts } from './live.js';
import { listNeeds } from './needs-you.js';
import type { PageBounds } from './page-bounds.js';
import { followPresence } from './presence-news.js';
import { createStreams, readAsker } from './streams.js';

/** Events lead to at most one check of each list in this time, no matter how many there are. */
const PAUSE_MS = 1_000;
/** Checks happen this often without a notification, which can be lost. */
const POLL_MS = 5_000;
/** Sessions of one stream. Pages beyond this limit poll on their own. */
const SESSIONS_MAX = 20;

type Reader = Pick<AccountRow, 'id' | 'username'>;

/** What a stream sends when the list has changed. */
interface Subject {
  readonly event: 'changed' | 'needs' | 'session';
  /** The session that it is about. */
  readonly sessionId?: string;
  /** A message of the session got further. */
  moved?(): void;
  /** An agent of the session connected or disconnected. */
  presenceMoved?(): void;
  /**
   * Whether who is online must be read. Ask before the read begins: its snapshot can be older than what is announced
   * after that.
   */
  takeOnlineDue?(): boolean;
  read(query: Query, account: Reader, isOnlineDue: boolean): Promise<string>;
}

interface ListStream {
  readonly accountId: string;
  readonly browser: Browser;
  readonly response: ServerResponse;
  readonly subjects: readonly Subject[];
  /** The state of the pages. */
  readonly told: Map<Subject, string | undefined>;
}

/**
 * The last event of a session that the account may see (0: it sees none of them), and how often a message got further,
 * or who is online changed. That is for those who have joined: to others it would show that something happens. An agent
 * whose presence is hidden from the account changes nothing.
 */
function toSessionSubject(sessionId: string): Subject {
  let moves = 0;
  let online: string | undefined;
  let isOnlineDue = true;
  const readOnline = async (query: Query, { id, username }: Reader): Promise<void> => {
    const handles = await listOnline(query, sessionId, { accountId: id, owner: username });
    const before = online;
    online = [...handles].sort().join(' ');
    if (before !== undefined && before !== online) moves += 1;
  };
  return {
    event: 'session',
    sessionId,
    moved() {
      moves += 1;
    },
    presenceMoved() {
      isOnlineDue = true;
    },
    takeOnlineDue() {
      const isDue = isOnlineDue;
      isOnlineDue = false;
      return isDue;
    },
    async read(query, account, isDue) {
      const view = await findAccountView(query, account.id, sessionId);
      const hasJoined = view?.participations.some(({ status }) => status === 'joined') === true;
      if (hasJoined && isDue) await readOnline(query, account);
      const last = view === undefined ? 0 : await findLastVisibleTo(query, view);
      return `${sessionId} ${last} ${hasJoined ? moves : 0}`;
    },
  };
}

/**
 * Tells all pages of a browser over one stream what has changed: a list, a session, or the entries on the Needs you page.
 * The pages fetch the changes themselves.
 */
export function createLiveLists(server: AuthorizationServer, bounds: PageBounds): LiveTranscripts {
  const { bus, clock, database, inboxes, limits, log } = server.context;
  const lists: Subject = { event: 'changed', read: (query, { id }) => readListMark(query, id) };
  const needs: Subject = {
    event: 'needs',
    read: async (query, { id }) => JSON.stringify(await listNeeds(server.context, id, query)),
  };
  const listFollowed = (): string[] =>
    [...streams].flatMap(({ subjects }) => subjects.flatMap(({ sessionId = [] }) => sessionId));
  const streams = createStreams<ListStream>(server, POLL_MS, () => {
    lookSoon();
    for (const { subjects } of streams) for (const subject of subjects) subject.presenceMoved?.();
    lookAtSessions(listFollowed());
  });
  let isStopping = false;
  let isPausing = false;
  let mustLookAgain = false;
  let cancelPause: (() => void) | undefined;

  const tell = ({ response, told }: ListStream, subject: Subject, data: string): void => {
    if (data === told.get(subject) || response.writableEnded) return;
    response.write(`event: ${subject.event}\ndata: ${data}\n\n`);
    told.set(subject, data);
  };
  /** What each subject says to an account, read at one moment; undefined if there is no account. */
  const readAll = async (
    subjects: readonly Subject[],
    findAccount: (query: Query) => Promise<Reader | undefined>,
  ): Promise<readonly (readonly [Subject, string])[] | undefined> => {
    const due = new Set(subjects.filter((subject) => subject.takeOnlineDue?.() === true));
    try {
      return await database.read(async (query) => {
        const account = await findAccount(query);
        if (account === undefined) return undefined;
        return Promise.all(
          subjects.map(async (subject) => [subject, await subject.read(query, account, due.has(subject))] as const),
        );
      });
    } catch (error) {
      for (const subject of due) subject.presenceMoved?.();
      throw error;
    }
  };
  const lookAt = async (stream: ListStream, subjects: readonly Subject[]): Promise<void> => {
    const found = await readAll(subjects, async (query) => {
      const account = await findAccountOf(server, query, stream.browser);
      return account?.id === stream.accountId ? account : undefined;
    });
    if (stream.response.writableEnded) return;
    if (found === undefined) stream.response.end('event: end\ndata: signed-out\n\n');
    // A reader who takes nothing for long gets it later.
    else if (!stream.response.writableNeedDrain) for (const [subject, data] of found) tell(stream, subject, data);
  };
  const look = async (): Promise<void> => {
    await inboxes.settle();
    for (const stream of streams) {
      const subjects = stream.subjects.filter(({ sessionId }) => sessionId === undefined);
      if (subjects.length > 0) await lookAt(stream, subjects);
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
  /** Sessions with new events. Those that come while one look is on its way are found by the next. */
  const changed = new Set<string>();
  let isLooking = false;
  const lookAtChanged = async (): Promise<void> => {
    isLooking = true;
    try {
      while (changed.size > 0 && !isStopping) {
        const ids = new Set(changed);
        changed.clear();
        for (const stream of streams) {
          const subjects = stream.subjects.filter(({ sessionId }) => sessionId !== undefined && ids.has(sessionId));
          if (subjects.length > 0) await lookAt(stream, subjects);
        }
      }
    } catch (error) {
      log.error('live_lists_failed', error);
    } finally {
      isLooking = false;
    }
  };
  const lookAtSessions = (ids: readonly string[]): void => {
    for (const id of ids) changed.add(id);
    if (!isLooking) void lookAtChanged();
  };
  const stopListening = bus.listen((signal) => {
    if ((signal.kind !== 'events' && signal.kind !== 'progress') || streams.size === 0) return;
    if (signal.kind === 'events') lookSoon();
    else
      for (const { subjects } of streams) subjects.find(({ sessionId }) => sessionId === signal.sessionId)?.moved?.();
    lookAtSessions([signal.sessionId]);
  });
  const listIfRead = (): string[] | undefined => (streams.size === 0 ? undefined : listFollowed());
  const stopFollowing = followPresence(server.context, listIfRead, async ({ accountIds, sessionIds }) => {
    for (const { subjects } of streams)
      for (const subject of subjects)
        if (subject.sessionId !== undefined && sessionIds.has(subject.sessionId)) subject.presenceMoved?.();
    lookAtSessions([...sessionIds]);
    for (const stream of streams)
      if (accountIds.has(stream.accountId) && stream.subjects.includes(lists)) await lookAt(stream, [lists]);
  });
  return {
    async open(request: FastifyRequest, reply: FastifyReply) {
      const { account, browser, query: asked } = await readAsker(server, request);
      await limits.take('openStream', account.id);
      const of = asked.every('of');
      const sessions = of.filter((one) => isId('session', one)).slice(0, SESSIONS_MAX);
      const subjects = [
        ...(of.length === 0 || of.includes('list') ? [lists] : []),
        ...(of.includes('needs') ? [needs] : []),
        ...sessions.map(toSessionSubject),
      ];
      const found = (await bounds.forNews(account.id, () => readAll(subjects, async () => account))) ?? [];
      if (request.headers.accept === 'application/json') {
        reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
        return reply.send({ mark: found.find(([subject]) => subject === lists)?.[1] });
      }
      streams.open(request, reply, account.id, (response) => {
        const told = new Map([[lists, asked.one('mark')]]);
        const stream: ListStream = { accountId: account.id, browser, response, subjects, told };
        for (const [subject, data] of found) tell(stream, subject, data);
        return stream;
      });
      // What happened since it was read.
      lookAtSessions(sessions);
      return reply;
    },
    stop() {
      isStopping = true;
      stopListening();
      stopFollowing();
      cancelPause?.();
      streams.stop();
    },
  };
}
