import { type Clock, systemClock } from '../../kit/clock.js';
import type { Calls } from '../store/database.js';
import type { Bus, Signal } from './bus.js';
import { createLocalBus } from './local-bus.js';

/** What rings within this time goes out together. */
const BATCH_MS = 3;
/** PostgreSQL carries less than 8000 bytes in one call; ids are 30 characters. */
const AGENTS_PER_CALL = 150;
const GRANTS_PER_CALL = 150;

/** One call: who rings, for whom there are events, which grants were revoked. */
interface CallText {
  readonly from: string;
  readonly events?: readonly string[];
  readonly revoked?: readonly string[];
}

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
    const texts: CallText[] = [
      ...inParts(events, AGENTS_PER_CALL).map((part) => ({ from: processId, events: part })),
      ...inParts(revoked, GRANTS_PER_CALL).map((part) => ({ from: processId, revoked: part })),
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
    for (const signal of readCall(text, processId)) here.ring(signal);
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

/** Whoever may call on this database is one of its services, of this version or another. */
function readCall(text: string, processId: string): Signal[] {
  const call = JSON.parse(text) as CallText;
  if (call.from === processId) return [];
  const { events = [], revoked = [] } = call;
  return [
    ...(events.length === 0 ? [] : [{ kind: 'events' as const, agentIds: events }]),
    ...revoked.map((grantId) => ({ kind: 'revoked' as const, grantId })),
  ];
}
