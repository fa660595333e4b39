import { repeat } from '../../kit/repeat.js';
import { CLOSE_CODE } from '../../wire/realtime.js';
import type { ServiceContext } from '../context.js';
import { listRevokedSockets } from '../store/socket-rows.js';
import type { LiveSocket } from './live-socket.js';

const POLL_MS = 1_000;

/**
 * Closes the sockets of this process whose grant is revoked (spec: POST /revoke). The bell says when to look, the store
 * which they are; a bell that was lost, or that rang while a handshake was on its way, costs a second. The answer stops it.
 */
export function closeRevoked(
  context: ServiceContext,
  processId: string,
  sockets: ReadonlySet<LiveSocket>,
): () => Promise<void> {
  const look = async (): Promise<void> => {
    if (sockets.size === 0) return;
    const ids = new Set(await context.database.read((query) => listRevokedSockets(query, processId)));
    if (ids.size === 0) return;
    for (const socket of sockets) if (ids.has(socket.socketId)) socket.close(CLOSE_CODE.tokenEnded, 'token revoked');
  };
  const onFault = (error: unknown): void => context.log.error('revocations_failed', error);
  const isOurs = (grantId: string): boolean => [...sockets].some((socket) => socket.grantId === grantId);
  const stopListening = context.bus.listen((signal) => {
    if (signal.kind === 'revoked' && isOurs(signal.grantId)) look().catch(onFault);
  });
  const stopLooking = repeat(context.clock, POLL_MS, look, onFault);
  return async () => {
    stopListening();
    await stopLooking();
  };
}
