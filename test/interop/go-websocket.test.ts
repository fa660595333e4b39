import { randomBytes } from 'node:crypto';
import { connect } from 'node:net';

import { expect, it } from 'vitest';

import { useService } from '../conformance/service.js';
import { field } from '../support/json.js';

const service = useService();

/**
 * Sends the handshake of golang.org/x/net/websocket byte for byte, including its Origin, then reads frames as they
 * arrive.
 */
function dial(token: string): {
  readonly head: Promise<string>;
  readonly nextFrame: () => Promise<unknown>;
  close(): void;
} {
  const { hostname, port, host, pathname } = new URL(service.place.wsUrl);
  const socket = connect({ host: hostname, port: Number(port) });
  socket.write(
    [
      `GET ${pathname} HTTP/1.1`,
      `Host: ${host}`,
      'Upgrade: websocket',
      'Connection: Upgrade',
      `Sec-WebSocket-Key: ${randomBytes(16).toString('base64')}`,
      'Origin: http://localhost/',
      'Sec-WebSocket-Version: 13',
      `Authorization: Bearer ${token}`,
      '',
      '',
    ].join('\r\n'),
  );
  const chunks = socket[Symbol.asyncIterator]();
  let rest = Buffer.alloc(0);
  const readUntil = async <T>(take: (bytes: Buffer) => { value: T; size: number } | undefined): Promise<T> => {
    for (;;) {
      const taken = take(rest);
      if (taken !== undefined) {
        rest = rest.subarray(taken.size);
        return taken.value;
      }
      const { value, done } = await chunks.next();
      if (done === true) throw new Error(`closed after ${rest.toString('latin1')}`);
      rest = Buffer.concat([rest, value as Buffer]);
    }
  };
  const head = readUntil((bytes) => {
    const end = bytes.indexOf('\r\n\r\n');
    return end === -1 ? undefined : { value: bytes.toString('latin1', 0, end), size: end + 4 };
  });
  const nextFrame = async (): Promise<unknown> => {
    await head;
    return JSON.parse(await readUntil(readTextFrame));
  };
  return { head, nextFrame, close: () => socket.destroy() };
}

/** Reads an unmasked text frame from a server (RFC 6455 §5.2). */
function readTextFrame(bytes: Buffer): { value: string; size: number } | undefined {
  if (bytes.length < 4) return undefined;
  expect(bytes[0]).toBe(0x81);
  const short = bytes.readUInt8(1);
  const [size, offset] = short === 126 ? [bytes.readUInt16BE(2), 4] : [short, 2];
  if (short === 127 || bytes.length < offset + size) return undefined;
  return { value: bytes.toString('utf8', offset, offset + size), size: offset + size };
}

it('a handshake from Go’s x/net/websocket, with an Origin, is accepted and gets events', async () => {
  const alice = await service.actor('alice');
  const client = dial(await alice.token('ws'));
  expect(await client.head).toMatch(/^HTTP\/1\.1 101 /);
  const id = await alice.mustCreate();
  await alice.mustSend(id, 'hello');
  const frame = await client.nextFrame();
  expect([field(frame, 'type'), field(frame, 'payload.content')]).toEqual(['session.message', 'hello']);
  client.close();
});

it('a handshake from Go’s x/net/websocket with a bad token is refused with the error envelope', async () => {
  const client = dial('not.a.token');
  expect(await client.head).toMatch(/^HTTP\/1\.1 401 /);
  client.close();
});
