import * as z from 'zod/mini';

import { type Clock, systemClock } from '../../kit/clock.js';
import type { Calls } from '../store/database.js';
import type { Bus, Signal } from './bus.js';
import { createLocalBus } from './local-bus.js';

/** What rings within this time goes out together. */
const BATCH_MS = 3;
/** PostgreSQL carries less than 8000 bytes in one call; ids are 30 characters. */
const AGENTS_PER_CALL = 150;
const GRANTS_PER_CALL = 150;

/** Longer texts are not from a service: ours stay below the limit of NOTIFY. */
const TEXT_MAX_LENGTH = 8_000;
const VERSION = 1;
const Id = z.string().check(z.maxLength(64));

/**
 * What services tell each other, version 1. Members may be added: unknown ones are ignored. A text of another version is
 * ignored as a whole, so two versions of asp can run side by side; each finds by its poll what it did not understand.
 */
const NotificationText = z.object({
  v: z.literal(VERSION),
  /** The process that sent it. */
  from: Id,
  /** Agents that have new events. */
  events: z.optional(z.array(Id)),
  /** Grants that were revoked. */
  revoked: z.optional(z.array(Id)),
});
type NotificationText = z.infer<typeof NotificationText>;

interface SharedBusOptions {
  /** Tells this process's own calls from those of others. */
  readonly processId: string;
  readonly onFault: (error: unknown) => void;
  readonly clock?: Clock;
}

/** Rings here at once, and a moment later, many rings in one call, wherever else the data is used. */
export function createSharedBus(calls: Calls, { processId, onFault, clock = systemClock }: SharedBusOptions): Bus {
  const here = createLocalBus(onFault);
  const agentIds = new Set<string>();
  const grantIds = new Set<string>();
  let sending: Promise<void> = Promise.resolve();
  let isDue = false;

  const sendAll = async (): Promise<void> => {
    isDue = false;
    const [events, revoked] = [[...agentIds], [...grantIds]];
    agentIds.clear();
    grantIds.clear();
    const texts = [
      ...inParts(events, AGENTS_PER_CALL).map(
        (part): NotificationText => ({ v: VERSION, from: processId, events: part }),
      ),
      ...inParts(revoked, GRANTS_PER_CALL).map(
        (part): NotificationText => ({ v: VERSION, from: processId, revoked: part }),
      ),
    ];
    for (const text of texts) await calls.send(JSON.stringify(text)).catch(onFault);
  };
  const arm = (): void => {
    if (isDue) return;
    isDue = true;
    clock.schedule(
      BATCH_MS,
      () => {
        sending = sending.then(sendAll);
      },
      true,
    );
  };
  const stop = calls.listen((text) => {
    for (const signal of readNotification(text, processId)) here.ring(signal);
  });

  return {
    ring(signal) {
      here.ring(signal);
      if (signal.kind === 'events') for (const agentId of signal.agentIds) agentIds.add(agentId);
      else grantIds.add(signal.grantId);
      arm();
    },
    listen: here.listen,
    async close() {
      stop();
      await sending;
      await sendAll();
      await here.close();
    },
  };
}

function inParts(ids: readonly string[], size: number): string[][] {
  const parts: string[][] = [];
  for (let start = 0; start < ids.length; start += size) parts.push(ids.slice(start, start + size));
  return parts;
}

/** Anybody who can reach the channel may have sent the text: what is not a notification of this version means nothing. */
function readNotification(text: string, processId: string): Signal[] {
  const { data } = NotificationText.safeParse(parseJson(text));
  if (data === undefined || data.from === processId) return [];
  const { events = [], revoked = [] } = data;
  return [
    ...(events.length === 0 ? [] : [{ kind: 'events' as const, agentIds: events }]),
    ...revoked.map((grantId) => ({ kind: 'revoked' as const, grantId })),
  ];
}

function parseJson(text: string): unknown {
  if (text.length > TEXT_MAX_LENGTH) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
