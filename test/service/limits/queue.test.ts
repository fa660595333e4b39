import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';

import { createTestClock } from '../../support/clock.js';
import { startCountedService } from '../../support/counted-service.js';
import { request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { openTestStore, TEST_STORE } from '../../support/stores.js';
import { until } from '../../support/until.js';

const undo: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const step of undo.splice(0).reverse()) await step();
});

describe('a service that has too much to do', () => {
  it('immediately refuses requests that would wait longer than a second, without a query, and stays ready', async () => {
    let waited = 0;
    const service = await startCountedService({ clock: createTestClock(), queueMs: () => waited });
    undo.push(service.stop);
    const alice = await service.createAgent('alice');
    const id = await alice.mustCreate();
    waited = 1_000;
    await alice.mustSend(id, 'in time');
    service.reset();
    waited = 1_001;
    const refused = await alice.post(`/sessions/${id}/messages`, { content: 'too late' });
    expect([refused.status, refused.headers['retry-after'], field(refused.json, 'error.code')]).toEqual([
      503,
      '1',
      'INTERNAL_ERROR',
    ]);
    expect((await alice.get('/sessions')).status).toBe(503);
    expect(service.counts.statements).toBe(0);
    expect(service.counts.shed).toBe(2);
    expect((await request(service.readyUrl)).status).toBe(200);
    waited = 0;
    expect(await alice.mustReplay(id)).toHaveLength(1);
  });
});

describe('the queue for the database', () => {
  it('grows while a request waits, and background work does not wait in it', async () => {
    const database = await openTestStore();
    undo.push(() => database.close());
    await database.read((query) => query.all('SELECT 1 AS one'));
    expect(database.queueMs()).toBe(0);
    let release = (): void => {};
    const released = new Promise<void>((resolve) => {
      release = resolve;
    });
    const isShared = TEST_STORE === 'postgres';
    const holders = Array.from({ length: isShared ? 8 : 1 }, () => database.write(() => released));
    await pause(20);
    const waiting = database.write((transaction) => transaction.all('SELECT 1 AS one'));
    await until('it has waited', async () => database.queueMs() >= 20, 900);
    expect(database.load().waiting).toBe(1);
    if (isShared) await database.behind.write((transaction) => transaction.all('SELECT 1 AS one'));
    release();
    await Promise.all([...holders, waiting]);
    expect(database.queueMs()).toBe(0);
    expect(database.load().waiting).toBe(0);
  });
});
