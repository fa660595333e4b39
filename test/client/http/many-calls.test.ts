import { once } from 'node:events';
import { createServer as createHttpServer } from 'node:http';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';

import {
  type Client,
  connect,
  createTokenCredential,
  createTransport,
  systemClock,
} from '../../../src/library/library.js';

const closers: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closers.splice(0)) await close();
});

async function listen(server: Server): Promise<Client> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  closers.push(() => server.close());
  return clientOf(port, 0);
}

function clientOf(port: number, retries: number): Client {
  const transport = createTransport({ clock: systemClock });
  closers.push(() => transport.close());
  const service = { baseUrl: `http://127.0.0.1:${port}/v1` };
  return connect({ service, credential: createTokenCredential({ api: 'a-token', ws: undefined }), transport, retries });
}

const created = '{"session_id":"sess_1","sequence":null}';
const answer = (status: string, body: string): string =>
  `HTTP/1.1 ${status}\r\ncontent-type: application/json\r\ncontent-length: ${body.length}\r\n\r\n${body}`;

/** Calls `onRequest` for each request that has arrived in full, numbered from 1 on its connection. */
function rawServer(onRequest: (socket: Socket, number: number) => void): Server {
  return createServer((socket) => {
    let text = '';
    let number = 0;
    socket.on('error', () => {});
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1');
      while (text.includes('\r\n\r\n{}')) {
        text = text.slice(text.indexOf('\r\n\r\n{}') + 6);
        number += 1;
        onRequest(socket, number);
      }
    });
  });
}

describe('more calls at once than there are connections', () => {
  it('a write whose connection was cut after the service did it is never reported as not applied', async () => {
    let done = 0;
    const client = await listen(
      rawServer((socket, number) => {
        done += 1;
        if (number === 1) socket.write(answer('201 Created', created));
        else socket.resetAndDestroy();
      }),
    );
    const calls = Array.from({ length: 20 }, () => client.call('createSession', { body: {} }));
    const settled = await Promise.allSettled(calls);
    const failures = settled.flatMap((call) => (call.status === 'rejected' ? [call.reason] : []));
    expect(done).toBe(20);
    expect(failures.length).toBeGreaterThan(0);
    for (const failure of failures) expect(failure).toMatchObject({ code: 'ASP_UNREACHABLE', outcome: 'unknown' });
  });

  it('calls that wait for a free connection do not count that wait as connecting', async () => {
    let open = 0;
    let most = 0;
    const server = createHttpServer((_, response) => {
      open += 1;
      most = Math.max(most, open);
      setTimeout(() => {
        open -= 1;
        response.setHeader('content-type', 'application/json');
        response.end('{"sessions":[],"next_cursor":null}');
      }, 3000);
    });
    closers.push(() => server.closeAllConnections());
    const client = await listen(server);
    const calls = Array.from({ length: 64 }, () => client.call('listSessions', {}));
    await Promise.all(calls);
    expect(most).toBeLessThanOrEqual(16);
  });

  it('every call fails, and none hangs, if nothing listens', async () => {
    const server = createServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    await new Promise((resolve) => server.close(resolve));
    const client = clientOf(port, 0);
    const settled = await Promise.allSettled(
      Array.from({ length: 100 }, () => client.call('createSession', { body: {} })),
    );
    for (const call of settled)
      expect(call).toMatchObject({ reason: { code: 'ASP_UNREACHABLE', outcome: 'not_applied' } });
  });

  it('hundreds of calls under one signal print no warning', async () => {
    const warnings: string[] = [];
    const onWarning = (warning: Error): void => void warnings.push(`${warning.name}: ${warning.message}`);
    process.on('warning', onWarning);
    closers.push(() => process.off('warning', onWarning));
    const client = await listen(rawServer((socket) => socket.write(answer('201 Created', created))));
    const { signal } = new AbortController();
    await Promise.all(Array.from({ length: 500 }, () => client.call('createSession', { body: {}, signal })));
    await new Promise(setImmediate);
    expect(warnings).toEqual([]);
  });

  it('a call that is canceled while it waits for a connection is never sent', async () => {
    let requests = 0;
    let isHolding = true;
    const held: Socket[] = [];
    const client = await listen(
      rawServer((socket) => {
        requests += 1;
        if (isHolding) held.push(socket);
        else socket.write(answer('201 Created', created));
      }),
    );
    const calls = Array.from({ length: 16 }, () => client.call('createSession', { body: {} }));
    await expect.poll(() => requests).toBe(16);
    const controller = new AbortController();
    const queued = client.call('createSession', { body: {}, signal: controller.signal });
    controller.abort(new Error('changed my mind'));
    await expect(queued).rejects.toMatchObject({ code: 'ASP_ABORTED', outcome: 'not_applied' });
    isHolding = false;
    for (const socket of held) socket.write(answer('201 Created', created));
    await Promise.all(calls);
    await client.call('createSession', { body: {} });
    expect(requests).toBe(17);
  });
});
