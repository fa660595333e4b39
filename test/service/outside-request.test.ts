import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { systemClock } from '../../src/kit/clock.js';
import { type OutsideNetwork, requestOutside } from '../../src/service/core/public-internet.js';

const HERE: OutsideNetwork = { resolve: async () => ['127.0.0.1'], isAllowed: () => true };

describe('A request to a server that someone else chose', () => {
  let server: Server;
  beforeEach(async () => {
    server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterEach(() => {
    server.closeAllConnections();
    server.close();
  });

  const ask = (network: OutsideNetwork, timeoutMs: number): Promise<number | undefined> => {
    const url = new URL(`http://receiver.example:${(server.address() as AddressInfo).port}/`);
    const request = { url, method: 'GET', headers: {}, timeoutMs } as const;
    return requestOutside(systemClock, network, request, async ({ statusCode }) => statusCode);
  };

  it('ends if the server changes the protocol in place of an answer', async () => {
    server.on('request', ({ socket }) => {
      socket.end('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\n');
    });
    await expect(ask(HERE, 5_000)).rejects.toThrow('closed without an answer');
  });

  it('ends in time, even if the search for its addresses does not', async () => {
    const endless: OutsideNetwork = { ...HERE, resolve: () => new Promise(() => {}) };
    await expect(ask(endless, 100)).rejects.toThrow('timed out');
  });
});
