import type { ServiceContext } from '../context.js';
import { listPending } from '../store/participant-rows.js';
import { createDelivery, type Delivery } from './delivery.js';
import { closeForFault, type LiveSocket } from './live-socket.js';

const POLL_MS = 1_000;
const SESSIONS_PER_READ = 200;

/** The sockets of one agent, and whether somebody is looking for what they lack. */
interface Audience {
  readonly deliveries: Map<LiveSocket, Delivery>;
  isLooking: boolean;
  mustLookAgain: boolean;
}

/** Gives every socket the events of its agent: the bus says when to look, the store what there is. */
export interface Feed {
  add(socket: LiveSocket): void;
  stop(): void;
}

export function createFeed(context: ServiceContext): Feed {
  const audiences = new Map<string, Audience>();
  let cancelPoll: (() => void) | undefined;

  /** A ring can be lost between machines; this bounds what that costs. */
  const poll = (): void => {
    cancelPoll ??= context.clock.schedule(
      POLL_MS,
      async () => {
        for (const [agentId, audience] of audiences) await look(context, agentId, audience);
        cancelPoll = undefined;
        if (audiences.size > 0) poll();
      },
      true,
    );
  };

  const stopListening = context.bus.listen((signal) => {
    if (signal.kind !== 'events') return;
    for (const agentId of signal.agentIds) {
      const audience = audiences.get(agentId);
      if (audience !== undefined) void look(context, agentId, audience);
    }
  });

  return {
    add(socket) {
      const { agentId } = socket;
      const audience = audiences.get(agentId) ?? { deliveries: new Map(), isLooking: false, mustLookAgain: false };
      audiences.set(agentId, audience);
      audience.deliveries.set(socket, createDelivery(context, socket));
      socket.onClosed(() => {
        audience.deliveries.get(socket)?.stop();
        audience.deliveries.delete(socket);
        if (audience.deliveries.size === 0 && audiences.get(agentId) === audience) audiences.delete(agentId);
      });
      void look(context, agentId, audience);
      poll();
    },
    stop() {
      stopListening();
      cancelPoll?.();
      audiences.clear();
    },
  };
}

async function look(context: ServiceContext, agentId: string, audience: Audience): Promise<void> {
  audience.mustLookAgain = true;
  if (audience.isLooking) return;
  audience.isLooking = true;
  try {
    while (audience.mustLookAgain && audience.deliveries.size > 0) {
      audience.mustLookAgain = false;
      await offerPending(context, agentId, audience.deliveries);
    }
  } catch (error) {
    context.log.error('feed_failed', error);
    for (const socket of audience.deliveries.keys()) closeForFault(socket, error);
  } finally {
    audience.isLooking = false;
  }
}

/** Every socket hears of a session before any of them can confirm it, and so take it off the list. */
async function offerPending(
  context: ServiceContext,
  agentId: string,
  deliveries: ReadonlyMap<LiveSocket, Delivery>,
): Promise<void> {
  let after = '';
  while (deliveries.size > 0) {
    const rows = await context.database.read((query) => listPending(query, agentId, after, SESSIONS_PER_READ));
    for (const row of rows) for (const delivery of deliveries.values()) delivery.offer(row);
    const last = rows.at(-1);
    if (last === undefined || rows.length < SESSIONS_PER_READ) return;
    after = last.session_id;
  }
}
