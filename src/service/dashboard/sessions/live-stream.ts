import type { ServerResponse } from 'node:http';

import { findAccountOf, type PageServer } from '../../authorization-server/account/browser.js';
import { readAccountRows } from '../../events/account-view.js';
import { toVisibleEvents, type VisibleEvents } from '../../events/read-events.js';
import { renderEntry } from '../../pages/dashboard/entry.js';
import { renderSessionHead } from '../../pages/dashboard/transcript-page.js';
import type { Onlooker } from './live.js';
import { findSeenSession, type SeenSession } from './seen-session.js';
import { listOwnAgents, placeOfEntries } from './transcript.js';

const EVENTS_PER_READ = 32;
const RETRY_MS = 1_000;
const KEEP_ALIVE_MS = 15_000;
const SLOW_READER_MS = 20_000;

const HEADERS = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'cross-origin-resource-policy': 'same-origin',
  // nginx would hold back what it thinks is too little to send.
  'x-accel-buffering': 'no',
};

/** One transcript that somebody is looking at. */
export interface LiveStream {
  readonly accountId: string;
  /** Whether one of these agents is the account's own in this session. */
  concerns(agentIds: readonly string[]): boolean;
  /** There may be something new. */
  look(): void;
  end(): void;
}

interface StreamParts {
  readonly response: ServerResponse;
  /** The account's agents in the session. */
  readonly agentIds: readonly string[];
  /** The number of the last event that the page shows. */
  readonly after: number;
}

/** What there is to show, or why there will be nothing any more. */
export type Step = (VisibleEvents & { readonly seen: SeenSession }) | 'signed-out' | 'gone';

/** Writes what is past the cursor, as far as the browser takes it, until nobody is signed in there any more. */
export function createLiveStream(server: PageServer, onlooker: Onlooker, parts: StreamParts): LiveStream {
  const { context } = server;
  const { response } = parts;
  let { agentIds, after } = parts;
  let isLooking = false;
  let mustLookAgain = false;
  const isOver = (): boolean => response.writableEnded || response.destroyed;
  /** Whether there is more to read at once. */
  const step = async (): Promise<boolean> => {
    const found = await readStep(server, onlooker, after);
    if (isOver()) return false;
    if (typeof found === 'string') {
      response.end(`event: end\ndata: ${found}\n\n`);
      return false;
    }
    agentIds = agentIdsOf(found.seen);
    const last = found.events.at(-1);
    if (last === undefined) return false;
    after = last.sequence;
    const data = JSON.stringify(renderStep(found, onlooker.username, context.clock.now()));
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
      if (!isOver()) context.log.error('live_transcript_failed', error);
      response.destroy();
    } finally {
      isLooking = false;
    }
  };
  response.writeHead(200, HEADERS);
  response.write(`retry: ${RETRY_MS}\n\n`);
  keepAlive(server, response);
  return {
    accountId: onlooker.accountId,
    concerns: (rung) => rung.some((agentId) => agentIds.includes(agentId)),
    look() {
      mustLookAgain = true;
      if (!isLooking) void lookAll();
    },
    end: () => void response.end(),
  };
}

/** What the account may see past `after`, by the sign-in and its agents' statuses as they are now. */
export function readStep(server: PageServer, onlooker: Onlooker, after: number): Promise<Step> {
  const { context } = server;
  const { browser, accountId, sessionId } = onlooker;
  return context.database.read(async (query) => {
    const account = await findAccountOf(server, query, browser);
    if (account?.id !== accountId) return 'signed-out';
    const seen = await findSeenSession(query, accountId, sessionId);
    if (seen === undefined) return 'gone';
    return { seen, ...toVisibleEvents(await readAccountRows(query, seen.view, after, EVENTS_PER_READ)) };
  });
}

/** The entries, and what the page says of the session where that has changed. */
export function renderStep({ seen, events, hasMore }: Exclude<Step, string>, username: string, now: number): object {
  const place = placeOfEntries(seen, username);
  const hasChanged = events.some(({ type }) => type !== 'session.message');
  return {
    hasMore,
    entries: events.map((event) => renderEntry(event, place).item.markup),
    ...(hasChanged && {
      head: renderSessionHead(seen.session, { ownAgents: listOwnAgents(seen), username }, now).markup,
    }),
  };
}

export function agentIdsOf({ view }: SeenSession): string[] {
  return view.participations.map((participation) => participation.agent_id);
}

/** Resolves when the browser has taken enough; one that takes nothing for long is let go, and comes back for the rest. */
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

/** Says something now and then, so that no proxy thinks the connection dead. */
function keepAlive({ context }: PageServer, response: ServerResponse): void {
  let cancel = (): void => {};
  const arm = (): void => {
    cancel = context.clock.schedule(
      KEEP_ALIVE_MS,
      () => {
        if (response.writableEnded) return;
        response.write(': still here\n\n');
        arm();
      },
      true,
    );
  };
  arm();
  response.once('close', () => cancel());
}
