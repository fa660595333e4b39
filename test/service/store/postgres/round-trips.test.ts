import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { POSTGRES_URL } from '../../../support/postgres-server.js';
import { startTestService, type TestService } from '../../../support/service.js';
import { createSchema, type Schema } from '../../../support/stores.js';

const HELD_MS = 5;
const WAITS = 4;

let schema: Schema;
let service: TestService;
const sockets = new Set<Socket>();
/** How often the service waited for answers; parallel waits count once. */
let waits = 0;
let open = 0;
const isNotification = (data: Buffer): boolean => data.includes('"sessions":[[');
/** Delays what the service sends, so that queries that do not wait for an answer arrive together. */
const relay = createServer((client) => {
  const target = new URL(POSTGRES_URL);
  const server = connect(Number(target.port === '' ? 5432 : target.port), target.hostname);
  let isWaiting = false;
  const settle = (): void => {
    if (isWaiting) open -= 1;
    isWaiting = false;
  };
  const end = (): void => {
    settle();
    client.destroy();
    server.destroy();
  };
  for (const socket of [client, server]) {
    sockets.add(socket);
    socket.on('error', () => {}).once('close', end);
  }
  client.on('data', async (data: Buffer) => {
    if (!isWaiting && !isNotification(data)) {
      isWaiting = true;
      if (open === 0) waits += 1;
      open += 1;
    }
    await pause(HELD_MS);
    server.write(data);
  });
  server.on('data', (data: Buffer) => {
    settle();
    client.write(data);
  });
});

beforeAll(async () => {
  await once(relay.listen(0, '127.0.0.1'), 'listening');
  schema = createSchema();
  const url = new URL(schema.url);
  url.hostname = '127.0.0.1';
  url.port = String((relay.address() as AddressInfo).port);
  service = await startTestService({ databaseUrl: url.href });
});
afterAll(async () => {
  await service?.stop();
  for (const socket of sockets) socket.destroy();
  relay.close();
  await schema.drop();
});

it(`a message with its key and its limits waits ${WAITS} times for PostgreSQL`, async () => {
  const [alice, bob] = [await service.createAgent('alice'), await service.createAgent('bob')];
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  const counts: number[] = [];
  for (let round = 0; round < 12; round += 1) {
    // Excludes work after the commit and the chores of each second.
    await pause(250);
    waits = 0;
    await alice.mustSend(id, `message ${round}`);
    counts.push(waits);
  }
  // Occasionally a chore comes due at the same time.
  expect(counts.sort((one, other) => one - other)[counts.length / 2]).toBe(WAITS);
});
