import { expect } from 'vitest';

import type { TestClock } from './clock.js';
import type { TestService } from './service.js';
import type { LiveSocket } from './socket.js';
import { until } from './until.js';

const SOCKETS_PER_AGENT = 14;

/** Opens sockets, stops the service, and returns how many it has closed before its clock went on. */
export async function stopWithSockets(service: TestService, clock: TestClock, count: number): Promise<number> {
  const sockets: LiveSocket[] = [];
  for (let index = 0; sockets.length < count; index += 1) {
    const agent = await service.createAgent(`agent${index}`);
    for (let open = 0; open < SOCKETS_PER_AGENT && sockets.length < count; open += 1)
      sockets.push(await agent.mustConnect());
  }
  const countClosed = (): number => sockets.filter((socket) => !socket.isOpen).length;
  const stopped = service.stop();
  await until('the first are closed', async () => countClosed() > 0);
  for (const socket of sockets) if (socket.isOpen) await socket.mustPing().catch(() => {});
  const closed = countClosed();
  clock.advance(10);
  await stopped;
  expect(await Promise.all(sockets.map((socket) => socket.mustBeClosed()))).toEqual(sockets.map(() => 1001));
  return closed;
}
