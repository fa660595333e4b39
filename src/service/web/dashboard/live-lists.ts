import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { createThrottle, type Throttle } from '../../../kit/repeat.js';
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
import { followPresence, type PresenceNews } from './presence-news.js';
import { createStreams, readAsker, type Streams } from './streams.js';

/** Events lead to at most one check of each list in this time, no matter how many there are. */
const PAUSE_MS = 1_000;
/** Checks happen this often without a notification, which can be lost. */
const POLL_MS = 5_000;
/** Sessions of one stream. Pages beyond this limit poll on their own. */
const SESSIONS_MAX = 20;

type Reader = Pick<AccountRow, 'id' | 'username'>;

/** What a stream reports when it has changed. */
interface Subject {
  readonly event: 'changed' | 'needs' | 'session';
  /** Call it before the read begins. It returns the function that reads. */
  prepare(): (query: Query, account: Reader) => Promise<string>;
}

/**
 * The last event of a session that the account may see (0: it sees none of them), and how often a message got further,
 * or who is online changed. That is for those who have joined: to others it would show that something happens. An agent
 * whose presence is hidden from the account changes nothing.
 */
class SessionSubject implements Subject {
  readonly event = 'session';
  readonly sessionId: string;
  #moves = 0;
  #online: string | undefined;
  #presenceChanges = 1;
  #presenceChangesRead = 0;

  constructor(sessionId: string) {
    this.sessionId = sessionId;
  }

  /** A message of the session got further. */
  moved(): void {
    this.#moves += 1;
  }

  /** An agent of the session connected or disconnected. */
  presenceMoved(): void {
    this.#presenceChanges += 1;
  }

  prepare() {
    // The read may not see a change that is announced from now on.
    const presenceChanges = this.#presenceChanges;
    return async (query: Query, account: Reader): Promise<string> => {
      const view = await findAccountView(query, account.id, this.sessionId);
      const hasJoined = view?.participations.some(({ status }) => status === 'joined') === true;
      if (hasJoined && presenceChanges !== this.#presenceChangesRead) {
        await this.#readOnline(query, account);
        this.#presenceChangesRead = presenceChanges;
      }
      const last = view === undefined ? 0 : await findLastVisibleTo(query, view);
      return `${this.sessionId} ${last} ${hasJoined ? this.#moves : 0}`;
    };
  }

  async #readOnline(query: Query, { id, username }: Reader): Promise<void> {
    const handles = await listOnline(query, this.sessionId, { accountId: id, owner: username });
    const before = this.#online;
    this.#online = [...handles].sort().join(' ');
    if (before !== undefined && before !== this.#online) this.#moves += 1;
  }
}

interface ListStream {
  readonly accountId: string;
  readonly browser: Browser;
  readonly response: ServerResponse;
  readonly lists: readonly Subject[];
  readonly sessions: readonly SessionSubject[];
  /** The state of the pages. */
  readonly sent: Map<Subject, string | undefined>;
}

export function createLiveLists(server: AuthorizationServer, bounds: PageBounds): LiveTranscripts {
  return new LiveLists(server, bounds);
}

/**
 * Tells all pages of a browser over one stream what has changed: a list, a session, or the entries on the Needs you page.
 * The pages fetch the changes themselves.
 */
class LiveLists implements LiveTranscripts {
  readonly #server: AuthorizationServer;
  readonly #bounds: PageBounds;
  readonly #streams: Streams<ListStream>;
  readonly #sessionList: Subject = {
    event: 'changed',
    prepare:
      () =>
      (query, { id }) =>
        readListMark(query, id),
  };
  readonly #needs: Subject = {
    event: 'needs',
    prepare: () => async (query, account) => JSON.stringify(await listNeeds(this.#server.context, account.id, query)),
  };
  readonly #looks: Throttle;
  readonly #stopListening: () => void;
  readonly #stopFollowing: () => void;
  /** Sessions with new events. Those that come while one look is on its way are found by the next. */
  readonly #changed = new Set<string>();
  #isLooking = false;
  #isStopping = false;

  constructor(server: AuthorizationServer, bounds: PageBounds) {
    const { bus, clock, log } = server.context;
    this.#server = server;
    this.#bounds = bounds;
    this.#streams = createStreams<ListStream>(server, POLL_MS, () => this.#lookAtEverything());
    this.#looks = createThrottle(
      clock,
      PAUSE_MS,
      () => (this.#streams.size === 0 ? undefined : this.#lookAtLists()),
      (error) => log.error('live_lists_failed', error),
    );
    this.#stopListening = bus.listen((signal) => {
      if ((signal.kind !== 'events' && signal.kind !== 'progress') || this.#streams.size === 0) return;
      const { sessionId } = signal;
      if (signal.kind === 'events') this.#looks.call();
      else for (const session of this.#listSessions()) if (session.sessionId === sessionId) session.moved();
      this.#lookAtSessions([sessionId]);
    });
    this.#stopFollowing = followPresence(
      server.context,
      () => (this.#streams.size === 0 ? undefined : this.#listSessions().map(({ sessionId }) => sessionId)),
      (news) => this.#notePresence(news),
    );
  }

  async open(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply> {
    const { account, browser, query: asked } = await readAsker(this.#server, request);
    await this.#server.context.limits.take('openStream', account.id);
    const of = asked.every('of');
    const lists = [
      ...(of.length === 0 || of.includes('list') ? [this.#sessionList] : []),
      ...(of.includes('needs') ? [this.#needs] : []),
    ];
    const sessionIds = of.filter((one) => isId('session', one)).slice(0, SESSIONS_MAX);
    const sessions = sessionIds.map((id) => new SessionSubject(id));
    const read = () => this.#read([...lists, ...sessions], async () => account);
    const found = (await this.#bounds.forNews(account.id, read)) ?? [];
    if (request.headers.accept === 'application/json') {
      reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
      return reply.send({ mark: found.find(([subject]) => subject === this.#sessionList)?.[1] });
    }
    this.#streams.open(request, reply, account.id, (response) => {
      const sent = new Map([[this.#sessionList, asked.one('mark')]]);
      const stream: ListStream = { accountId: account.id, browser, response, lists, sessions, sent };
      for (const [subject, data] of found) tell(stream, subject, data);
      return stream;
    });
    // What happened since it was read.
    this.#lookAtSessions(sessionIds);
    return reply;
  }

  stop(): void {
    this.#isStopping = true;
    this.#stopListening();
    this.#stopFollowing();
    this.#looks.stop();
    this.#streams.stop();
  }

  #listSessions(): SessionSubject[] {
    return [...this.#streams].flatMap(({ sessions }) => sessions);
  }

  #lookAtEverything(): void {
    this.#looks.call();
    const sessions = this.#listSessions();
    for (const session of sessions) session.presenceMoved();
    this.#lookAtSessions(sessions.map(({ sessionId }) => sessionId));
  }

  async #notePresence({ accountIds, sessionIds }: PresenceNews): Promise<void> {
    for (const session of this.#listSessions()) if (sessionIds.has(session.sessionId)) session.presenceMoved();
    this.#lookAtSessions(sessionIds);
    for (const stream of this.#streams)
      if (accountIds.has(stream.accountId) && stream.lists.includes(this.#sessionList))
        await this.#lookAt(stream, [this.#sessionList]);
  }

  async #lookAtLists(): Promise<void> {
    await this.#server.context.inboxes.settle();
    for (const stream of this.#streams) await this.#lookAt(stream, stream.lists);
  }

  #lookAtSessions(ids: Iterable<string>): void {
    for (const id of ids) this.#changed.add(id);
    if (!this.#isLooking) void this.#lookAtChanged();
  }

  async #lookAtChanged(): Promise<void> {
    this.#isLooking = true;
    try {
      while (this.#changed.size > 0 && !this.#isStopping) {
        const ids = new Set(this.#changed);
        this.#changed.clear();
        for (const stream of this.#streams)
          await this.#lookAt(
            stream,
            stream.sessions.filter(({ sessionId }) => ids.has(sessionId)),
          );
      }
    } catch (error) {
      this.#server.context.log.error('live_lists_failed', error);
    } finally {
      this.#isLooking = false;
    }
  }

  async #lookAt(stream: ListStream, subjects: readonly Subject[]): Promise<void> {
    if (subjects.length === 0) return;
    const found = await this.#read(subjects, async (query) => {
      const account = await findAccountOf(this.#server, query, stream.browser);
      return account?.id === stream.accountId ? account : undefined;
    });
    if (stream.response.writableEnded) return;
    if (found === undefined) stream.response.end('event: end\ndata: signed-out\n\n');
    // A reader who takes nothing for long gets it later.
    else if (!stream.response.writableNeedDrain) for (const [subject, data] of found) tell(stream, subject, data);
  }

  /** What each subject says to an account, read at one moment; undefined if there is no account. */
  #read(
    subjects: readonly Subject[],
    findAccount: (query: Query) => Promise<Reader | undefined>,
  ): Promise<readonly (readonly [Subject, string])[] | undefined> {
    const reads = subjects.map((subject) => [subject, subject.prepare()] as const);
    return this.#server.context.database.read(async (query) => {
      const account = await findAccount(query);
      if (account === undefined) return undefined;
      return Promise.all(reads.map(async ([subject, read]) => [subject, await read(query, account)] as const));
    });
  }
}

function tell({ response, sent }: ListStream, subject: Subject, data: string): void {
  if (data === sent.get(subject) || response.writableEnded) return;
  response.write(`event: ${subject.event}\ndata: ${data}\n\n`);
  sent.set(subject, data);
}
