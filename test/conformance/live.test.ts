import { expect } from 'vitest';

import { mustDeny } from '../support/answers.js';
import type { Answer } from '../support/http.js';
import { field } from '../support/json.js';
import { type LiveSocket, openSocket } from '../support/socket.js';
import { until } from '../support/until.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Events" (live delivery) and docs/contract.md.

const service = useService();

function mustBeRefused(outcome: LiveSocket | Answer): Answer {
  if ('frames' in outcome) throw new Error('the handshake was accepted');
  return outcome;
}

rule('wire/Live/address', 'the socket address ends in /connect', async () => {
  expect(service.place.wsUrl).toMatch(/^wss?:\/\/.+\/connect$/);
});

rule(
  ['wire/Live/authentication', 'spec/Events/handshake', 'spec/Events/live', 'spec/Scopes/realtime:read'],
  'a refused handshake is an HTTP answer with the envelope',
  async () => {
    const alice = await service.actor('alice');
    const { wsUrl } = service.place;
    mustDeny(mustBeRefused(await openSocket(wsUrl, {})), 401, 'UNAUTHORIZED');
    mustDeny(mustBeRefused(await alice.connect('not.a.token')), 401, 'UNAUTHORIZED');
    mustDeny(mustBeRefused(await alice.connect(await alice.token('api'))), 401, 'UNAUTHORIZED');
    const token = await alice.token('ws', ['sessions:read', 'sessions:write', 'agents:read']);
    mustDeny(mustBeRefused(await alice.connect(token)), 403, 'INSUFFICIENT_SCOPE');
  },
);

rule('wire/Live/authentication', 'an Origin changes nothing: a token is required and enough', async () => {
  const alice = await service.actor('alice');
  const { wsUrl } = service.place;
  const bearer = { authorization: `Bearer ${await alice.token('ws')}` };
  for (const origin of ['http://localhost', 'https://evil.example', 'null']) {
    const socket = await openSocket(wsUrl, { ...bearer, origin });
    if ('status' in socket) throw new Error(`refused: ${socket.status} ${socket.text}`);
    await socket.close();
    mustDeny(mustBeRefused(await openSocket(wsUrl, { origin })), 401, 'UNAUTHORIZED');
    mustDeny(
      mustBeRefused(await openSocket(wsUrl, { authorization: 'Bearer not.a.token', origin })),
      401,
      'UNAUTHORIZED',
    );
  }
});

rule('wire/Live/authentication', 'a token in the query or the subprotocol does not count', async () => {
  const alice = await service.actor('alice');
  const token = await alice.token('ws');
  const { wsUrl } = service.place;
  for (const name of ['token', 'access_token'])
    mustDeny(mustBeRefused(await openSocket(`${wsUrl}?${name}=${token}`, {})), 401, 'UNAUTHORIZED');
  mustDeny(
    mustBeRefused(await openSocket(wsUrl, { 'sec-websocket-protocol': `bearer, ${token}` })),
    401,
    'UNAUTHORIZED',
  );
});

rule(
  ['wire/Live/framing', 'spec/Service/rule-5'],
  'a socket gets every session of the agent without a subscription, one envelope per frame',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const socket = await bob.mustConnect();
    const ids = [];
    for (const topic of ['one', 'two', 'three']) ids.push(await alice.mustCreate({ invite: [bob.handle], topic }));
    for (const id of ids) {
      const frame = await socket.mustReceiveEvent('session.invited', id);
      expect(Object.keys(Object(frame)).sort()).toEqual([
        'created_at',
        'event_id',
        'payload',
        'sequence',
        'session_id',
        'type',
      ]);
    }
    await socket.close();
  },
);

rule('wire/Live/client-frames', 'ping is answered pong; anything else is ignored', async () => {
  const alice = await service.actor('alice');
  const socket = await alice.mustConnect();
  for (const text of ['', 'x', '{}', '[]', 'null', '{"type":"subscribe"}', '{"type":"ping"', '{"type":1}', '"ping"'])
    socket.send(text);
  socket.send('x'.repeat(64 * 1024));
  await socket.mustPing();
  expect(socket.frames).toEqual([{ type: 'pong' }]);
  await socket.close();
});

rule('wire/Live/client-frames', 'a frame above 64 KiB closes 1009', async () => {
  const alice = await service.actor('alice');
  const socket = await alice.mustConnect();
  socket.send('x'.repeat(64 * 1024 + 1));
  expect(await socket.mustBeClosed()).toBe(1009);
});

rule('wire/Live/on-connect', 'missed events come first, in order, then live events', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  for (let count = 0; count < 150; count += 1) await alice.mustSend(id, `missed ${count}`);
  const socket = await bob.mustConnect();
  await socket.mustReceive('the last one missed', (frame) => field(frame, 'payload.content') === 'missed 149');
  await alice.mustSend(id, 'live');
  await socket.mustReceive('the live one', (frame) => field(frame, 'payload.content') === 'live');
  const replayed = await bob.mustReplay(id);
  const unique = [...new Map(socket.frames.map((frame) => [field(frame, 'event_id'), frame])).values()];
  expect(unique).toEqual(replayed.slice(-unique.length));
  expect(unique.length).toBeGreaterThanOrEqual(151);
  await socket.close();
});

rule('wire/Live/on-connect', 'a reconnect misses nothing that happened in between', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  const first = await bob.mustConnect();
  await alice.mustSend(id, 'one');
  await first.mustReceive('one', (frame) => field(frame, 'payload.content') === 'one');
  await first.close();
  await alice.mustSend(id, 'two');
  const second = await bob.mustConnect();
  await second.mustReceive('two', (frame) => field(frame, 'payload.content') === 'two');
  await alice.mustSend(id, 'three');
  await second.mustReceive('three', (frame) => field(frame, 'payload.content') === 'three');
  const sequences = second.frames.map((frame) => Number(field(frame, 'sequence')));
  expect(sequences).toEqual(sequences.toSorted((one, two) => one - two));
  await second.close();
});

rule('wire/Live/several-sockets', 'each socket gets every event from its connect on', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  const sockets = await Promise.all([1, 2, 3].map(() => bob.mustConnect()));
  for (const content of ['one', 'two', 'three']) await alice.mustSend(id, content);
  for (const socket of sockets) {
    await socket.mustReceive('three', (frame) => field(frame, 'payload.content') === 'three');
    const contents = socket.frames
      .map((frame) => field(frame, 'payload.content'))
      .filter((content) => content !== undefined);
    expect(contents).toEqual(['one', 'two', 'three']);
  }
  await Promise.all(sockets.map((socket) => socket.close()));
});

rule('wire/Live/presence', 'is_online follows sockets, and no one leaves because one closes', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  const isOnline = async () =>
    field((await alice.get(`/agents/${bob.owner}/${bob.name}`)).json, 'agent.is_online') === true;
  expect(await isOnline()).toBe(false);
  const [one, two] = [await bob.mustConnect(), await bob.mustConnect()];
  await until('bob is online', isOnline);
  await one.close();
  await alice.mustSend(id, 'to the other socket');
  await two.mustReceive('it', (frame) => field(frame, 'payload.content') === 'to the other socket');
  expect(await isOnline()).toBe(true);
  await two.close();
  await until('bob is offline', async () => !(await isOnline()));
  expect((await alice.mustReplay(id)).map((event) => field(event, 'type'))).toEqual([
    'session.invited',
    'session.joined',
    'session.message',
  ]);
});

rule(
  'wire/Live/slow-reader',
  'a socket that does not read is closed with 1013 and loses nothing; others are not delayed',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(id);
    const slow = await bob.mustConnect();
    slow.stopReading();
    const quick = await alice.mustConnect();
    const content = 'x'.repeat(200 * 1024);
    let sent = 0;
    const isOffline = async (): Promise<boolean> =>
      field((await alice.get(`/agents/${bob.owner}/${bob.name}`)).json, 'agent.is_online') === false;
    while (sent < 200 && !(await isOffline())) {
      await alice.mustSend(id, content, { count: sent });
      sent += 1;
    }
    await until('the slow socket is dropped', isOffline);
    await quick.mustReceive('the last', (frame) => field(frame, 'payload.metadata.count') === sent - 1);
    await quick.close();
    await slow.close();
    const again = await bob.mustConnect();
    await again.mustReceive('the last', (frame) => field(frame, 'payload.metadata.count') === sent - 1, 30_000);
    const lived = [...slow.frames, ...again.frames].map((frame) => field(frame, 'payload.metadata.count'));
    const missing = Array.from({ length: sent }, (_, count) => count).filter((count) => !lived.includes(count));
    expect(missing).toEqual([]);
    await again.close();
  },
);
