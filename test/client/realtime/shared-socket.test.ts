import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Credential } from '../../../src/client/credentials/credential.js';
import { createSharedSocket } from '../../../src/client/realtime/shared-socket.js';
import { keepConnected } from '../../../src/client/realtime/socket.js';
import { systemClock } from '../../../src/kit/clock.js';
import { systemRandom } from '../../../src/kit/random.js';
import { createTransport } from '../../../src/library/library.js';
import { createTestClock } from '../../support/clock.js';
import { until } from '../../support/until.js';

const credential = {
  accessToken: async () => ({ token: 'x', expiresAtMs: Number.MAX_SAFE_INTEGER }),
} as unknown as Credential;

describe('a shared event stream', () => {
  it('is no longer opened once its last reader has stopped', async () => {
    const silent = createServer();
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const url = `ws://127.0.0.1:${(silent.address() as AddressInfo).port}/`;
    const stop = new AbortController();
    const transport = createTransport({ clock: systemClock });
    const opening = createSharedSocket()({ transport, url, token: 'x', signal: stop.signal });
    opening.catch(() => undefined);
    const [peer] = (await once(silent, 'connection')) as [Socket];
    peer.on('error', () => undefined).resume();
    stop.abort();
    await expect(opening).rejects.toMatchObject({ outcome: 'not_applied' });
    // Less than the time that a handshake may take.
    await until('the end of the connection', async () => peer.readableEnded || peer.destroyed, 5_000);
    silent.close();
  });

  it('is joined again after growing delays by a reader that leaves it at once each time', async () => {
    const server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
    await once(server, 'listening');
    const clock = createTestClock();
    const stop = new AbortController();
    const url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}/`;
    const open = createSharedSocket();
    const connectAgain = () =>
      keepConnected({
        ...{ transport: createTransport({ clock }), random: systemRandom, signal: stop.signal, retriesAtStart: 0 },
        ...{ credential, open, prepare: async () => ({ url, isGuessed: false }) },
      });
    const [{ value: first }, [peer]] = await Promise.all([
      connectAgain().next(),
      once(server, 'connection') as Promise<[WebSocket]>,
    ]);
    if (first?.kind !== 'open') throw new Error('not open');
    peer.send(
      JSON.stringify({ type: 'session.left', session_id: 's', event_id: 'e', sequence: 1, created_at: 1, payload: {} }),
    );
    expect(await first.socket.events[Symbol.asyncIterator]().next()).toMatchObject({ value: { event_id: 'e' } });
    clock.advance(60_000);

    const failing = connectAgain();
    const attempts: number[] = [];
    let next = failing.next();
    while (attempts.length < 3) {
      const { value: item } = await next;
      next = failing.next();
      if (item?.kind === 'reconnecting') {
        attempts.push(item.attempt);
        clock.advance(item.delayMs);
      } else expect(item?.kind).toBe('open');
    }
    expect(attempts).toEqual([1, 2, 3]);
    stop.abort();
    server.close();
  });
});
