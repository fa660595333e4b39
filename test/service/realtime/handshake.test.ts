import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';

import { RATE_LIMIT, SOCKET_FRAME_MAX_BYTES, SOCKETS_PER_AGENT_MAX } from '../../../src/wire/limit.js';
import { ACCOUNT_SCOPES } from '../../../src/wire/scope.js';
import type { Actor } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import { createTestClock } from '../../support/clock.js';
import { mustGrant } from '../../support/grants.js';
import type { Answer } from '../../support/http.js';
import { request } from '../../support/http.js';
import { rawBytes } from '../../support/raw-http.js';
import { startTestService, type TestService } from '../../support/service.js';
import { type LiveSocket, openSocket } from '../../support/socket.js';
import { until } from '../../support/until.js';

let service: TestService;
let alice: Actor;
let token: string;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
  alice = await service.createAgent('alice');
  token = await alice.token('ws');
});
afterAll(() => service.stop());

const root = (): string => `ws://127.0.0.1:${service.port}`;
const open = (headers: Record<string, string>, url = service.wsUrl) => openSocket(url, headers);
const rawText = async (text: string): Promise<string> =>
  (await rawBytes('127.0.0.1', service.port, Buffer.from(text), 500)).toString();
const bearer = (value: string): Record<string, string> => ({ authorization: `Bearer ${value}` });

function refused(outcome: LiveSocket | Answer): Answer {
  if (!('status' in outcome)) throw new Error('a socket was opened');
  return outcome;
}

describe('a handshake', () => {
  it('is answered at /connect, / and below the base path, and nowhere else (wire: Aliases)', async () => {
    for (const path of ['/connect', '/', '/v1/connect', '/connect?x=1'])
      await (await alice.mustConnect(token, `${root()}${path}`)).close();
    for (const path of ['/v1', '/v1/sessions', '/connect/', '/CONNECT'])
      mustDeny(refused(await open(bearer(token), `${root()}${path}`)), 404, 'NOT_FOUND');
  });

  it('of another version is refused, and the answer names the version of the service (RFC 6455 §4.4)', async () => {
    const handshake = (version: string): Promise<string> => {
      const head = [
        'GET /connect HTTP/1.1',
        `host: 127.0.0.1:${service.port}`,
        'connection: upgrade',
        'upgrade: websocket',
        version,
        'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
      ];
      return rawText(`${head.join('\r\n')}\r\n\r\n`);
    };
    for (const version of ['sec-websocket-version: 8', 'x-no-version: 13'])
      expect(await handshake(version)).toMatch(
        /^HTTP\/1\.1 400 .*\r\nsec-websocket-version: 13\r\n.*"VALIDATION_ERROR"/is,
      );
    expect(await handshake('sec-websocket-version: 13')).not.toMatch(/\r\nsec-websocket-version:/i);
  });

  it('is refused without a token, and with one anywhere but in the Authorization header', async () => {
    for (const headers of [
      {},
      bearer(''),
      bearer('x.y.z'),
      { authorization: token },
      { authorization: `Basic ${token}` },
    ])
      mustDeny(refused(await open(headers)), 401, 'UNAUTHORIZED');
    for (const name of ['token', 'access_token', 'authorization'])
      mustDeny(refused(await open({}, `${service.wsUrl}?${name}=${token}`)), 401, 'UNAUTHORIZED');
    mustDeny(refused(await open({ 'sec-websocket-protocol': token })), 401, 'UNAUTHORIZED');
    mustDeny(refused(await open({ cookie: `token=${token}` })), 401, 'UNAUTHORIZED');
  });

  it('is refused to a token for the REST API, of an account, or without realtime:read', async () => {
    mustDeny(refused(await open(bearer(await alice.token('api')))), 401, 'UNAUTHORIZED');
    mustDeny(refused(await open(bearer(await alice.token('ws', ['sessions:read'])))), 403, 'INSUFFICIENT_SCOPE');
    const scope = ACCOUNT_SCOPES.join(' ');
    const resource = service.wsUrl;
    const account = await mustGrant(service.place, service.operator, alice.handle, { scope, resource });
    mustDeny(refused(await open(bearer(account.accessToken))), 403, 'FORBIDDEN');
  });

  it('is refused under another name (DNS rebinding)', async () => {
    mustDeny(refused(await open({ ...bearer(token), host: 'evil.example' })), 403, 'FORBIDDEN');
  });

  it('is refused beyond the number of sockets that an agent may have', async () => {
    const bob = await service.createAgent('bob');
    const sockets = await Promise.all(Array.from({ length: SOCKETS_PER_AGENT_MAX }, () => bob.mustConnect()));
    mustDeny(refused(await bob.connect()), 429, 'RATE_LIMITED');
    await sockets.pop()?.close();
    const again = await until('a place is free', async () => {
      const outcome = await bob.connect();
      return 'status' in outcome ? undefined : outcome;
    });
    for (const socket of [...sockets, again]) await socket.close();
  });

  it('costs the general limit of its agent', async () => {
    const limited = await startTestService({ clock: createTestClock() });
    const bob = await limited.createAgent('bob');
    for (let call = 0; call < RATE_LIMIT.general.count; call += 1) await bob.get('/sessions');
    mustDeny(refused(await bob.connect()), 429, 'RATE_LIMITED');
    await limited.stop();
  });

  it('must arrive within ten seconds, like every request, even on a silent connection', async () => {
    const begin = (text: string): Promise<string> => rawBytes('127.0.0.1', service.port, text, 25_000).then(String);
    const answers = await Promise.all([
      begin(''),
      begin(`GET /connect HTTP/1.1\r\nhost: 127.0.0.1:${service.port}\r\n`),
    ]);
    for (const answer of answers) expect(answer).toMatch(/^HTTP\/1\.1 408 .*"VALIDATION_ERROR"/is);
  });

  it('may end at any moment', async () => {
    const head = `GET /connect HTTP/1.1\r\nhost: 127.0.0.1:${service.port}\r\nauthorization: Bearer ${token}\r\n`;
    const rest =
      'connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n';
    for (let round = 0; round < 30; round += 1)
      await new Promise<void>((resolve) => {
        const socket = connect({ host: '127.0.0.1', port: service.port });
        socket.on('error', () => {});
        socket.on('close', () => resolve());
        socket.write(head + rest, () => setTimeout(() => socket.resetAndDestroy(), round % 4));
      });
    await until('nobody is online', async () => (await alice.get('/agents/me')).text.includes('"is_online":false'));
    expect((await request(`${service.authUrl}/health`)).status).toBe(200);
  });
});

it('A socket is never compressed, even if its client offers it', async () => {
  const socket = new WebSocket(service.wsUrl, { headers: bearer(token), perMessageDeflate: true });
  await once(socket, 'open');
  expect(socket.extensions).toBe('');
  socket.terminate();
});

describe('what a client sends', () => {
  const frame = (head: number[], payload = Buffer.alloc(0)): Buffer => Buffer.concat([Buffer.from(head), payload]);
  /** Sends a handshake followed by frames that no client library would send. Returns the answer. */
  const sendRaw = async (...frames: Buffer[]): Promise<Buffer> => {
    const head = [
      'GET /connect HTTP/1.1',
      `host: 127.0.0.1:${service.port}`,
      `authorization: Bearer ${token}`,
      'connection: upgrade',
      'upgrade: websocket',
      'sec-websocket-version: 13',
      'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
    ];
    return rawBytes(
      '127.0.0.1',
      service.port,
      Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), ...frames]),
      500,
    );
  };
  const closeCodeOf = (answer: Buffer): number | undefined => {
    const at = answer.indexOf(Buffer.from([0x88]), answer.indexOf('\r\n\r\n') + 4);
    return at === -1 ? undefined : answer.readUInt16BE(at + 2);
  };

  it('is answered pong if it is a ping, and ignored otherwise', async () => {
    const socket = await alice.mustConnect();
    for (const text of ['hello', '{}', '{"type":"subscribe"}', '[]', 'null', 'x'.repeat(60_000)]) socket.send(text);
    socket.send(Buffer.from('{"type":"ping"}'));
    socket.send('{ "type": "ping" }');
    await socket.mustPing();
    expect(socket.frames).toEqual([{ type: 'pong' }, { type: 'pong' }]);
    await socket.close();
  });

  it('closes the socket with 1009 above 64 KiB', async () => {
    const socket = await alice.mustConnect();
    socket.send('x'.repeat(SOCKET_FRAME_MAX_BYTES + 1));
    expect(await socket.mustBeClosed()).toBe(1009);
  });

  it('closes the socket with exactly the code of the fault', async () => {
    const mask = Buffer.alloc(4);
    const text = (bytes: Buffer): Buffer => frame([0x81, 0x80 | bytes.length], Buffer.concat([mask, bytes]));
    expect(closeCodeOf(await sendRaw(frame([0x81, 0x05], Buffer.from('hello')))), 'unmasked').toBe(1002);
    expect(closeCodeOf(await sendRaw(frame([0xf1, 0x80], mask))), 'reserved bits').toBe(1002);
    expect(closeCodeOf(await sendRaw(frame([0x83, 0x80], mask))), 'reserved opcode').toBe(1002);
    expect(closeCodeOf(await sendRaw(frame([0x09, 0x80], mask))), 'fragmented ping').toBe(1002);
    expect(closeCodeOf(await sendRaw(frame([0x80, 0x80], mask))), 'continuation of nothing').toBe(1002);
    expect(closeCodeOf(await sendRaw(text(Buffer.from([0xff, 0xfe])))), 'no UTF-8').toBe(1007);
    expect(closeCodeOf(await sendRaw(frame([0xc1, 0x80], mask))), 'compressed').toBe(1002);
  });

  it('may be 100 floods of tiny fragments without affecting others', async () => {
    const socket = await alice.mustConnect();
    const fragment = Buffer.from([0x00, 0x81, 0, 0, 0, 0, 0x61]);
    const flood = Buffer.concat([Buffer.from([0x01, 0x81, 0, 0, 0, 0, 0x61]), ...Array<Buffer>(2_000).fill(fragment)]);
    for (let round = 0; round < 100; round += 10) await Promise.all(Array.from({ length: 10 }, () => sendRaw(flood)));
    await socket.mustPing();
    await socket.close();
  });

  it('may be any bytes without harming the service', async () => {
    for (let round = 0; round < 100; round += 10)
      await Promise.all(
        Array.from({ length: 10 }, (_, index) => {
          const bytes = Buffer.alloc(64, (round + index) * 37);
          for (let at = 0; at < bytes.length; at += 1)
            bytes[at] = (bytes[at] ?? 0) ^ ((at * (round + index + 3) * 2_654_435_761) >>> 24);
          return sendRaw(bytes);
        }),
      );
    expect((await request(`${service.authUrl}/health`)).status).toBe(200);
  });
});
