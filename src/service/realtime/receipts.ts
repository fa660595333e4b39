import type { ServiceContext } from '../context.js';
import { sessionLock } from '../store/lock-names.js';
import { advanceDelivery } from '../store/participant-rows.js';
import type { LiveSocket } from './live-socket.js';
import type { Positions, Progress } from './positions.js';

const CONFIRM_INTERVAL_MS = 100;

interface Sending {
  isOver(): boolean;
  giveUp(error: unknown): void;
}

/**
 * Moves delivery cursors once the other side has proved that what was sent arrived. One proof is asked for at a time, and
 * at most ten a second: what is sent meanwhile waits for the next, and would be sent again if the socket broke.
 */
export function createReceipts(context: ServiceContext, socket: LiveSocket, positions: Positions, sending: Sending) {
  const expected = new Set<string>();
  let isConfirming = false;
  let endPause = (): void => {};
  socket.onClosed(() => endPause());
  const pause = (): Promise<void> =>
    new Promise((resolve) => {
      const cancel = context.clock.schedule(CONFIRM_INTERVAL_MS, resolve, true);
      endPause = () => {
        cancel();
        resolve();
      };
    });

  const confirmAll = async (): Promise<void> => {
    isConfirming = true;
    try {
      while (expected.size > 0 && !sending.isOver()) await confirmOnce();
    } catch (error) {
      sending.giveUp(error);
    } finally {
      isConfirming = false;
    }
  };

  const confirmOnce = async (): Promise<void> => {
    const batch = new Map<string, Progress>();
    for (const sessionId of expected) {
      const at = positions.progressOf(sessionId);
      if (at !== undefined) batch.set(sessionId, at);
    }
    expected.clear();
    if (!(await socket.confirm())) return;
    await record(context, socket.agentId, batch);
    for (const [sessionId, recorded] of batch) positions.forget(sessionId, recorded);
    if (!sending.isOver()) await pause();
  };

  return {
    /** What was sent of this session so far is to be confirmed. */
    expect(sessionId: string): void {
      expected.add(sessionId);
      if (!isConfirming) void confirmAll();
    },
  };
}

function record(context: ServiceContext, agentId: string, batch: ReadonlyMap<string, Progress>): Promise<void> {
  return context.database.write(async (transaction) => {
    await transaction.lock([...batch.keys()].map(sessionLock));
    for (const [sessionId, { sent, readThrough }] of batch)
      await advanceDelivery(transaction, sessionId, agentId, sent, readThrough);
  });
}
