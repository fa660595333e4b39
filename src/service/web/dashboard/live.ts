import type { ServerResponse } from 'node:http';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { ServiceError } from '../../core/errors.js';
import { describeScope, scopeOf } from '../../core/request-scope.js';
import { lastVisibleTo, readAccountRows, toVisibleEvents, type VisibleEvents } from '../../messaging/events.js';
import type { AuthorizationServer } from '../../oauth/server.js';
import { listOnline } from '../../store/participants.js';
import { type Browser, findAccountOf, type PageServer } from '../browser.js';
import { renderComposer } from './compose.js';
import { prepareEntries, renderEntry, toEntries } from './entries.js';
import type { PageBounds } from './page-bounds.js';
import { followPresence } from './presence-news.js';
import { markSeen } from './sessions.js';
import { createStreams, readAsker } from './streams.js';
import {
  composerFor,
  findOwnMessage,
  findSeenSession,
  listOwnAgents,
  readAgent,
  readSequence,
  readStatus,
  renderManaging,
  renderSessionHead,
  type SeenSession,
  type SessionStatus,
  toEntryContext,
} from './transcript.js';
import type { Visit } from './visit.js';

const EVENTS_PER_READ = 32;
const SLOW_READER_MS = 20_000;

/** One transcript that someone is viewing. */
interface LiveStream {
  readonly sessionId: string;
  /** The number of the last event that was sent. */
  readonly after: number;
  /** There may be new events, or the status is due because a message got further. */
  look(isStatusDue?: boolean): void;
  /** An agent of the session connected or disconnected. One whose presence is hidden from the viewer changes nothing. */
  presenceMoved(): Promise<void>;
}

interface StreamParts {
  readonly response: ServerResponse;
  /** The number of the last event on the page. */
  readonly after: number;
  /** Who is online on the page. */
  readonly online: ReadonlySet<string>;
}

/** The new events, or the reason why the stream ends. */
type Step = News | 'signed-out' | 'gone';

/** Everything is read at one moment: an agent can leave between two reads. */
interface News extends VisibleEvents {
  readonly seen: SeenSession;
  /** The number of the last message of the account's own. */
  readonly own: number | undefined;
  /** With events, or if it was asked for. */
  readonly status: SessionStatus | undefined;
}

/** Writes the events past the cursor, as fast as the browser takes them, until no one is signed in there. */
function createLiveStream(server: PageServer, viewer: Viewer, parts: StreamParts): LiveStream {
  const { context } = server;
  const { response } = parts;
  let { after, online } = parts;
  let { own } = viewer;
  let statusDueAt = context.clock.now() + STATUS_MS;
  let status = '';
  let isLooking = false;
  let mustLookAgain = false;
  const isOver = (): boolean => response.writableEnded || response.destroyed;
  /** Whether there is more to read at once. */
  const step = async (): Promise<boolean> => {
    // A notification can be lost.
    const isStatusDue = context.clock.now() >= statusDueAt;
    if (isStatusDue) statusDueAt = context.clock.now() + STATUS_MS;
    const found = await readStep(server, { ...viewer, own }, after, isStatusDue);
    if (isOver()) return false;
    if (typeof found === 'string') {
      response.end(`event: end\ndata: ${found}\n\n`);
      return false;
    }
    own = found.own;
    online = found.status?.online ?? online;
    const before = status;
    const shown = renderStatus(server, found, viewer);
    if (shown !== undefined) status = JSON.stringify(shown);
    const last = found.events.at(-1);
    if (last === undefined) {
      if (status !== before) await write(server, response, `event: status\ndata: ${status}\n\n`);
      return false;
    }
    after = last.sequence;
    const data = JSON.stringify({ ...(await renderStep(server, found, viewer)), ...shown });
    await write(server, response, `id: ${after}\nevent: entries\ndata: ${data}\n\n`);
    return found.hasMore && !isOver();
  };
  const lookAll = async (): Promise<void> => {
    isLooking = true;
    try {
      while (mustLookAgain && !isOver()) {
        mustLookAgain = false;
        while (await step());
      }
    } catch (error) {
      if (!isOver()) context.log.error('live_transcript_failed', error, describeScope(scopeOf(response.req)));
      response.destroy();
    } finally {
      isLooking = false;
    }
  };
  return {
    sessionId: viewer.sessionId,
    get after() {
      return after;
    },
    look(isStatusDue = false) {
      if (isStatusDue) statusDueAt = 0;
      mustLookAgain = true;
      if (!isLooking) void lookAll();
    },
    async presenceMoved() {
      const { accountId, username, sessionId } = viewer;
      const now = await context.database.read((query) => listOnline(query, sessionId, { accountId, owner: username }));
      const hasChanged = now.size !== online.size || [...now].some((handle) => !online.has(handle));
      if (hasChanged && !isOver()) this.look(true);
    },
  };
}

/**
 * The events that the account may see past `after`, according to the current sign-in and its agents' current statuses.
 */
function readStep(server: PageServer, viewer: Viewer, after: number, isStatusDue: boolean): Promise<Step> {
  const { context } = server;
  const { browser, accountId, username, sessionId } = viewer;
  return context.database.read(async (query) => {
    const account = await findAccountOf(server, query, browser);
    if (account?.id !== accountId) return 'signed-out';
    const seen = await findSeenSession(query, accountId, sessionId, viewer.agent);
    if (seen === undefined) return 'gone';
    const visible = toVisibleEvents(await readAccountRows(query, seen.view, after, EVENTS_PER_READ));
    const own = findOwnMessage(visible.events, username) ?? viewer.own;
    const status =
      isStatusDue || visible.events.length > 0
        ? await readStatus(context, query, seen, { account: { id: accountId, username }, own })
        : undefined;
    return { ...visible, seen, own, status };
  });
}

/** The entries, and the forms if they may have changed. */
async function renderStep(
  { context }: PageServer,
  { seen, events, hasMore, status }: News,
  viewer: Viewer,
): Promise<object> {
  const { username, browser } = viewer;
  const entryContext = { ...toEntryContext(seen, username), ...(await prepareEntries(context, events)) };
  const composer = composerFor({ context, csrf: browser.csrfFor(undefined) }, seen);
  const hasChanged = events.some(({ type }) => type !== 'session.message');
  return {
    hasMore,
    entries: toEntries(events, entryContext).map((entry) => renderEntry(entry).markup),
    ...(status !== undefined &&
      hasChanged && {
        manage: renderManaging(seen, composer, status.online).markup,
        composer: renderComposer(composer).markup,
      }),
  };
}

/** The session's header with presence, and the delivery of the account's last message, if they were read. */
function renderStatus(
  { context }: PageServer,
  { seen, status }: News,
  { browser, username }: Viewer,
): { readonly head: string; readonly receipt: string; readonly csrf: string } | undefined {
  if (status === undefined) return undefined;
  const page = { ownAgents: listOwnAgents(seen), username, online: status.online };
  const head = renderSessionHead(seen.session, page, context.clock.now()).markup;
  // The sign-in may be newer than the forms of the page.
  return { head, receipt: status.receipt.markup, csrf: browser.csrfFor(undefined) };
}

/**
 * Resolves when the browser has taken enough; one that takes nothing for long is disconnected, and comes back for the
 * rest.
 */
async function write({ context }: PageServer, response: ServerResponse, text: string): Promise<void> {
  if (response.write(text)) return;
  await new Promise<void>((resolve) => {
    const cancel = context.clock.schedule(SLOW_READER_MS, () => response.destroy(), true);
    const goOn = (): void => {
      cancel();
      response.off('drain', goOn).off('close', goOn);
      resolve();
    };
    response.on('drain', goOn).on('close', goOn);
  });
}

const POLL_MS = 1_000;
const STATUS_MS = 5_000;

/** The transcripts that people are viewing, each fed by server-sent events. */
export interface LiveTranscripts {
  open(request: FastifyRequest, reply: FastifyReply): Promise<FastifyReply>;
  /** Ends every stream, and refuses new ones. */
  stop(): void;
}

/** The viewer and the session. */
interface Viewer {
  readonly browser: Browser;
  readonly accountId: string;
  readonly username: string;
  readonly sessionId: string;
  /** The agent whose view is shown; undefined: the account's own. */
  readonly agent?: string | undefined;
  /** The number of the last message of the account's own on the page. */
  readonly own?: number | undefined;
}

/** The bus says when to check, and the log has the events; a lost notification costs a second. */
export function createLiveTranscripts(server: AuthorizationServer, bounds: PageBounds): LiveTranscripts {
  const { bus, database, limits, log } = server.context;
  const streams = createStreams<LiveStream>(server, POLL_MS, () => {
    for (const stream of streams) stream.look();
  });
  const stopListening = bus.listen((signal) => {
    if (signal.kind !== 'events' && signal.kind !== 'progress') return;
    for (const stream of streams) if (stream.sessionId === signal.sessionId) stream.look(signal.kind === 'progress');
  });
  const stopFollowing = followPresence(
    server.context,
    () => (streams.size === 0 ? undefined : [...streams].map(({ sessionId }) => sessionId)),
    async ({ sessionIds }) => {
      for (const stream of streams) if (sessionIds.has(stream.sessionId)) await stream.presenceMoved();
    },
  );
  return {
    async open(request, reply) {
      const visit = await readAsker(server, request);
      const viewer = toViewer(visit);
      // The view of another account does not belong on the page of this one.
      if ((visit.query.one('account') ?? viewer.username) !== viewer.username)
        throw new ServiceError('UNAUTHORIZED', 'Another account is signed in.');
      const { accountId, sessionId } = viewer;
      const after = readStart(request, visit);
      if (request.headers.accept === 'application/json')
        return bounds.forNews(accountId, (mustRender) => answerPoll(server, reply, viewer, { after, mustRender }));
      await limits.take('openStream', accountId);
      const online = await database.read(async (query) => {
        const seen = await findSeenSession(query, accountId, sessionId);
        return seen && listOnline(query, sessionId, { accountId, owner: viewer.username });
      });
      if (online === undefined) throw new ServiceError('NOT_FOUND');
      const create = (response: ServerResponse): LiveStream => {
        const stream = createLiveStream(server, viewer, { response, after, online });
        stream.look();
        return stream;
      };
      return streams.open(request, reply, accountId, create, (stream) => {
        markSeen(server.context, accountId, sessionId, stream.after).catch((error) =>
          log.error('mark_seen_failed', error, describeScope(scopeOf(request.raw))),
        );
      });
    },
    stop() {
      stopListening();
      stopFollowing();
      streams.stop();
    },
  };
}

interface Poll {
  readonly after: number;
  /** Call this before rendering events. */
  readonly mustRender: () => Promise<void>;
}

/** Returns new events once, for a page whose browser has no stream left. */
async function answerPoll(
  server: AuthorizationServer,
  reply: FastifyReply,
  viewer: Viewer,
  { after, mustRender }: Poll,
): Promise<FastifyReply> {
  const found = await readStep(server, viewer, after, true);
  if (found === 'signed-out') throw new ServiceError('UNAUTHORIZED');
  if (found === 'gone') throw new ServiceError('NOT_FOUND');
  if (found.events.length > 0) await mustRender();
  const shown = Math.min(after, lastVisibleTo(found.seen.view));
  await markSeen(server.context, viewer.accountId, viewer.sessionId, shown);
  reply.headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff' });
  return reply.send({ ...(await renderStep(server, found, viewer)), ...renderStatus(server, found, viewer) });
}

function toViewer(visit: Visit): Viewer {
  const { browser, account, part, query } = visit;
  const own = readSequence(query.one('own'));
  return {
    browser,
    accountId: account.id,
    username: account.username,
    sessionId: part('session_id'),
    agent: readAgent(visit),
    own,
  };
}

/** The position of a reconnecting browser takes precedence over that of its page. */
function readStart(request: FastifyRequest, { query }: Visit): number {
  const seen = request.headers['last-event-id'];
  return readSequence(typeof seen === 'string' ? seen : undefined) ?? readSequence(query.one('after')) ?? 0;
}
