import type { IncomingMessage } from 'node:http';

import { isLoopbackPeer } from '../kit/loopback.js';

/** What a proxy adds; one on this machine makes every peer a local one. */
const TRACES = ['forwarded', 'via', 'x-forwarded-for', 'x-forwarded-host', 'x-forwarded-proto', 'x-real-ip'];

/** Whether a request comes from a program on this machine, and not through one. */
export function isFromThisMachine({ socket, headers }: IncomingMessage): boolean {
  return isLoopbackPeer(socket.remoteAddress) && TRACES.every((name) => headers[name] === undefined);
}
