import { connect, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createHttpServer, listen } from '../../../src/service/http/app.js';
import { request } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';
import { until } from '../../support/until.js';

const NEW_MAX = 1_000;
const FIRST_REQUEST_WITHIN_MS = 10_000;

let service: TestService;
const open = new Set<Socket>();
beforeEach(async () => {
  service = await startTestService();
});
afterEach(async () => {
  for (const socket of open) socket.destroy();
  open.clear();
  await service.stop();
});

interface Peer {
  readonly socket: Socket;
  isClosed: boolean;
  text: string;
}

async function openConnection(first = '', port = service.port): Promise<Peer> {
  const socket = connect({ host: '127.0.0.1', port });
  const peer: Peer = { socket, isClosed: false, text: '' };
  open.add(socket);
  socket.on('error', () => {});
  socket.on('data', (data) => {
    peer.text += data;
  });
  socket.on('close', () => {
    peer.isClosed = true;
  });
  await new Promise<void>((resolve) => socket.once('connect', resolve));
  if (first !== '') socket.write(first);
  return peer;
}

const health = async (): Promise<number> => (await request(`http://127.0.0.1:${service.port}/health`)).status;
const wholeRequest = (): string => `GET /health HTTP/1.1\r\nhost: 127.0.0.1:${service.port}\r\n\r\n`;

describe('Idle connections that have had an answer', () => {
  it('are closed when there is no room, so that newcomers get in', async () => {
    const server = createHttpServer((_request, response) => response.end('hello'));
    server.maxConnections = 3;
    const port = await listen(server, '127.0.0.1', 0);
    const idle = await Promise.all([1, 2, 3].map(() => openConnection('GET / HTTP/1.1\r\n\r\n', port)));
    await until('all are answered', async () => idle.every(({ text }) => text.endsWith('hello')));
    const refused = await openConnection('GET / HTTP/1.1\r\n\r\n', port);
    await until('all have ended', async () => [refused, ...idle].every(({ isClosed }) => isClosed));
    const late = await openConnection('GET / HTTP/1.1\r\n\r\n', port);
    await until('it is answered', async () => late.text.endsWith('hello'));
    late.socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
});

describe('Connections that have not sent a request yet', () => {
  it(`are at most ${NEW_MAX}: the oldest is closed, new ones are served, and those that have sent one stay`, async () => {
    const known = await openConnection(wholeRequest());
    await until('it is answered', async () => known.text.includes('"ok":true'));
    const silent: Peer[] = [];
    for (let count = 0; count < NEW_MAX; count += 1) silent.push(await openConnection(count === 1 ? 'GET /hea' : ''));
    expect(await health()).toBe(200);
    const extra = 20;
    for (let count = 0; count < extra; count += 1) silent.push(await openConnection());
    await until('the oldest have ended', async () => silent.slice(0, extra).every(({ isClosed }) => isClosed));
    expect(silent.filter(({ isClosed }) => !isClosed).length).toBeGreaterThanOrEqual(NEW_MAX - 1);
    expect(silent.at(-1)?.isClosed).toBe(false);
    expect(await health()).toBe(200);
    known.text = '';
    known.socket.write(wholeRequest());
    await until('the known one is answered again', async () => known.text.includes('"ok":true'));
  });

  it(
    `have ${FIRST_REQUEST_WITHIN_MS / 1000} seconds to send one`,
    async () => {
      const [silent, slow] = [await openConnection(), await openConnection('GET /health HTTP/1.1\r\n')];
      const known = await openConnection(wholeRequest());
      await until('both have ended', async () => silent.isClosed && slow.isClosed, 2 * FIRST_REQUEST_WITHIN_MS);
      expect(known.isClosed).toBe(false);
    },
    3 * FIRST_REQUEST_WITHIN_MS,
  );
});
