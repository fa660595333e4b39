import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket, WebSocketServer } from 'ws';

import { encodeText } from '../../../src/service/messaging/live-socket.js';
import type { Actor } from '../../support/actors.js';
import { field, text, whole } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';
import { type LiveSocket, openSocket } from '../../support/socket.js';
import { type SocketCutter, startSocketCutter } from '../../support/socket-cutter.js';
import { until } from '../../support/until.js';

let service: TestService;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
});
afterAll(() => service.stop());

const sequences = (events: readonly unknown[]): number[] => events.map((event) => whole(event, 'sequence'));
const ofSession = (socket: LiveSocket, id: string): unknown[] =>
  socket.frames.filter((frame) => field(frame, 'session_id') === id);
const hasReceived = (socket: LiveSocket, id: string, count: number) =>
  until(`${count} events`, async () => ofSession(socket, id).length >= count);

/** Creates a session that both agents have joined. */
async function talk(alice: Actor, bob: Actor): Promise<string> {
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  return id;
}

/** Waits until the service knows that the socket received everything: a new socket then gets nothing again. */
async function untilDelivered(actor: Actor, socket: LiveSocket): Promise<void> {
  await socket.mustPing();
  await until('the delivery cursor has moved', async () => {
    const probe = await actor.mustConnect();
    await probe.mustPing();
    const isDelivered = probe.frames.every((frame) => field(frame, 'type') === 'pong');
    await probe.close();
    return isDelivered;
  });
}

describe('a socket', () => {
  it('gets missed events in order of sequence, then new ones', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    for (let index = 0; index < 100; index += 1) await alice.mustSend(id, `missed ${index}`);
    const socket = await bob.mustConnect();
    await alice.mustSend(id, 'live');
    await hasReceived(socket, id, 103);
    expect(sequences(ofSession(socket, id))).toEqual(Array.from({ length: 103 }, (_, index) => index + 1));
    expect(ofSession(socket, id)).toEqual(await bob.mustReplay(id));
    await socket.close();
  });

  it('gets exactly the events that its client has not confirmed', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    const first = await bob.mustConnect();
    await hasReceived(first, id, 2);
    await untilDelivered(bob, first);
    await first.close();
    await alice.mustSend(id, 'while nobody listened');
    const second = await bob.mustConnect();
    await hasReceived(second, id, 1);
    expect(sequences(ofSession(second, id))).toEqual([3]);
    await second.close();
  });

  it('gets again what an earlier socket did not confirm (D-12)', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const carol = await service.createAgent('carol');
    const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    await bob.mustJoin(id);
    const deaf = await bob.mustConnect();
    await hasReceived(deaf, id, 2);
    await untilDelivered(bob, deaf);
    deaf.stopReading();
    await carol.mustJoin(id);
    const witness = await carol.mustConnect();
    for (let index = 0; index < 20; index += 1) await alice.mustSend(id, `${index}`);
    await hasReceived(witness, id, 24);
    await untilDelivered(carol, witness);
    await deaf.close();
    const second = await bob.mustConnect();
    await hasReceived(second, id, 21);
    expect(sequences(ofSession(second, id))).toEqual(Array.from({ length: 21 }, (_, index) => index + 4));
    await second.close();
    await witness.close();
  });

  it('gets everything from its connect on, next to other sockets of its agent', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const id = await talk(alice, bob);
    const sockets = [await bob.mustConnect(), await bob.mustConnect()];
    for (let index = 0; index < 50; index += 1) await alice.mustSend(id, `${index}`);
    sockets.push(await bob.mustConnect());
    for (let index = 0; index < 50; index += 1) await alice.mustSend(id, `${index}`);
    for (const socket of sockets)
      await until('the last event', async () => sequences(ofSession(socket, id)).at(-1) === 102);
    for (const socket of sockets) {
      const seen = sequences(ofSession(socket, id));
      expect(seen).toEqual(Array.from({ length: seen.length }, (_, index) => 103 - seen.length + index));
      expect(seen.length).toBeGreaterThanOrEqual(50);
      await socket.close();
    }
  });

  it('gets no event after its agent leaves, and the whole stream once it joins', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const socket = await bob.mustConnect();
    const id = await alice.mustCreate({ invite: [bob.handle] });
    for (let index = 0; index < 5; index += 1) await alice.mustSend(id, 'before the join');
    await hasReceived(socket, id, 1);
    await socket.mustPing();
    expect(sequences(ofSession(socket, id))).toEqual([1]);
    await bob.mustJoin(id);
    await hasReceived(socket, id, 7);
    expect(sequences(ofSession(socket, id))).toEqual([1, 2, 3, 4, 5, 6, 7]);
    await bob.mustLeave(id);
    for (let index = 0; index < 5; index += 1) await alice.mustSend(id, 'after the leaving');
    await socket.mustReceiveEvent('session.left', id);
    await socket.mustPing();
    expect(sequences(ofSession(socket, id)).at(-1)).toBe(8);
    await socket.close();
  });

  it('is not delayed in one session by a backlog in another', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const long = await talk(alice, bob);
    const short = await talk(alice, bob);
    await Promise.all(Array.from({ length: 500 }, () => alice.mustSend(long, 'x'.repeat(1000))));
    await alice.mustSend(short, 'hello');
    const socket = await bob.mustConnect();
    await hasReceived(socket, short, 3);
    await hasReceived(socket, long, 502);
    expect(
      field(
        socket.frames.findLast((frame) => field(frame, 'session_id') !== undefined),
        'session_id',
      ),
    ).toBe(long);
    await socket.close();
  });
});

describe('2000 events over interrupted sockets', () => {
  let cutter: SocketCutter;
  beforeAll(async () => {
    cutter = await startSocketCutter();
    cutter.targetPort = service.port;
  });
  afterAll(() => cutter.stop());

  it('arrive without loss, in order and without gaps on each connection, and once per event_id', async () => {
    const alice = await service.createAgent('alice');
    const bob = await service.createAgent('bob');
    const ids = [await talk(alice, bob), await talk(alice, bob)];
    const headers = { authorization: `Bearer ${await bob.token('ws')}`, host: `127.0.0.1:${service.port}` };
    const connections: LiveSocket[] = [];
    const received = new Map<string, unknown>();
    let isListening = true;

    const listen = async (): Promise<void> => {
      while (isListening) {
        const socket = await openSocket(`ws://127.0.0.1:${cutter.port}/connect`, headers).catch(() => undefined);
        if (socket === undefined || 'status' in socket) continue;
        connections.push(socket);
        await socket.mustBeClosed(60_000);
      }
    };
    const say = async (id: string): Promise<void> => {
      for (let index = 0; index < 250; index += 1) await alice.mustSend(id, `${index}`);
    };
    const listening = listen();
    const speaking = Promise.all(ids.flatMap((id) => [say(id), say(id), say(id), say(id)]));
    let cuts = 0;
    for (let isOver = false; !isOver; ) {
      isOver = await Promise.race([
        speaking.then(() => true),
        new Promise<false>((resolve) => setTimeout(resolve, 60, false)),
      ]);
      if (!isOver) cuts += cutter.cutAll('reset');
    }
    const fold = (): number => {
      for (const { frames } of connections) for (const frame of frames) received.set(text(frame, 'event_id'), frame);
      return received.size;
    };
    await until('everything', async () => fold() >= 2004);
    isListening = false;
    cutter.cutAll('reset');
    await listening;

    expect(cuts).toBeGreaterThan(5);
    for (const id of ids) {
      const replayed = await bob.mustReplay(id);
      expect(replayed).toHaveLength(1002);
      const folded = [...received.values()].filter((event) => field(event, 'session_id') === id);
      expect(folded.sort((a, b) => whole(a, 'sequence') - whole(b, 'sequence'))).toEqual(replayed);
      for (const connection of connections) {
        const seen = sequences(ofSession(connection, id));
        expect(seen).toEqual(Array.from({ length: seen.length }, (_, index) => (seen[0] ?? 0) + index));
      }
    }
  });
});

describe('an event as a frame', () => {
  it('is read as its text, whatever its length', async () => {
    const lengths = [0, 1, 125, 126, 127, 65_535, 65_536, 300_000];
    const texts = lengths.flatMap((length) => ['x'.repeat(length), 'é'.repeat(length >> 1)]);
    const server = createServer().listen(0, '127.0.0.1');
    const protocol = new WebSocketServer({ noServer: true });
    server.on('upgrade', (request, connection, head) =>
      protocol.handleUpgrade(request, connection, head, () => {
        for (const content of texts) connection.write(encodeText(content));
      }),
    );
    await once(server, 'listening');
    const client = new WebSocket(`ws://127.0.0.1:${(server.address() as AddressInfo).port}`);
    const read: string[] = [];
    client.on('message', (data, isBinary) => read.push(isBinary ? 'binary' : data.toString()));
    await until('all are read', async () => read.length === texts.length);
    expect(read).toEqual(texts);
    client.terminate();
    server.close();
  });
});
