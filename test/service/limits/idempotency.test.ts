import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Database, Transaction } from '../../../src/service/core/database.js';
import { ServiceError } from '../../../src/service/core/errors.js';
import { forgetOldKeys, type KeyedRequest, withIdempotency } from '../../../src/service/messaging/idempotency.js';
import { openTestStore } from '../../support/stores.js';
import { createHandClock, type HandClock } from '../sessions/stage.js';

const REQUEST: KeyedRequest = { actorId: 'agt_a', endpoint: 'POST /v1/x', key: 'k', fingerprint: 'f' };

describe('Idempotency', () => {
  let database: Database;
  let clock: HandClock;
  let runs: number;

  beforeEach(async () => {
    clock = createHandClock();
    database = await openTestStore();
    await database.write((transaction) => transaction.run('CREATE TABLE note (name TEXT PRIMARY KEY, value TEXT)'));
    runs = 0;
  });
  afterEach(() => database.close());

  const effect = async (transaction: Transaction) => {
    runs += 1;
    await transaction.run('INSERT INTO note (name, value) VALUES ($1, $2)', `run ${runs}`, 'x');
    return { status: 201, body: `{"run":${runs}}` };
  };
  const call = (change: Partial<KeyedRequest> = {}, work = effect) =>
    withIdempotency({ clock, database }, { ...REQUEST, ...change }, work);
  const effects = () => database.read((query) => query.all('SELECT name FROM note'));
  const records = () => database.read((query) => query.all('SELECT * FROM idempotency_record'));
  const refuseWith = (code: ConstructorParameters<typeof ServiceError>[0]) => async (transaction: Transaction) => {
    await effect(transaction);
    throw new ServiceError(code);
  };

  it('rule 3: the same key with the same body gives the original answer verbatim and creates nothing new', async () => {
    const first = await call();
    expect(await call()).toEqual(first);
    expect(await effects()).toHaveLength(1);
  });

  it('64 calls with one key at the same time: one effect, 64 identical answers', async () => {
    const answers = await Promise.all(Array.from({ length: 64 }, () => call()));
    expect(new Set(answers.map((answer) => JSON.stringify(answer)))).toEqual(
      new Set([JSON.stringify({ status: 201, body: '{"run":1}' })]),
    );
    expect(await effects()).toHaveLength(1);
  });

  it('one key with two bodies at the same time: one runs, the other is IDEMPOTENCY_MISMATCH', async () => {
    const outcomes = await Promise.allSettled([call(), call({ fingerprint: 'g' })]);
    expect(outcomes[0]).toMatchObject({ status: 'fulfilled' });
    expect(outcomes[1]).toMatchObject({ status: 'rejected', reason: { code: 'IDEMPOTENCY_MISMATCH', status: 400 } });
    expect(await effects()).toHaveLength(1);
    expect(await call()).toEqual({ status: 201, body: '{"run":1}' });
  });

  it('rule 2: a different actor, endpoint or key is a different operation', async () => {
    await call();
    for (const other of [{ actorId: 'agt_b' }, { endpoint: 'POST /v1/y' }, { key: 'l' }])
      expect((await call(other)).body).toBe(`{"run":${runs}}`);
    expect(await effects()).toHaveLength(4);
  });

  it('rule 5: one second before 24 hours it replays, one second after the request is new', async () => {
    await call();
    clock.advance((24 * 3600 - 1) * 1000);
    expect((await call()).body).toBe('{"run":1}');
    expect(await forgetOldKeys({ clock, database })).toBe(0);
    clock.advance(2000);
    expect((await call({ fingerprint: 'g' })).body).toBe('{"run":2}');
    expect((await call({ fingerprint: 'g' })).body).toBe('{"run":2}');
    await expect(call()).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
  });

  it.each(['NOT_FOUND', 'AGENT_NOT_FOUND', 'DUPLICATE_HANDLE'] as const)(
    'a business %s is recorded and replayed, although the work’s writes are rolled back',
    async (code) => {
      await expect(call({}, refuseWith(code))).rejects.toMatchObject({ code });
      expect(await effects()).toEqual([]);
      expect(await records()).toHaveLength(1);
      const { message, status } = new ServiceError(code);
      await expect(call()).rejects.toMatchObject({ code, message, status });
      await expect(call({ fingerprint: 'g' })).rejects.toMatchObject({ code: 'IDEMPOTENCY_MISMATCH' });
      expect(runs).toBe(1);
    },
  );

  it.each(['VALIDATION_ERROR', 'UNAUTHORIZED', 'FORBIDDEN', 'RATE_LIMITED', 'INTERNAL_ERROR'] as const)(
    'a %s is not recorded, and the key can be used again',
    async (code) => {
      await expect(call({}, refuseWith(code))).rejects.toMatchObject({ code });
      expect(await effects()).toEqual([]);
      expect(await records()).toEqual([]);
      expect((await call({ fingerprint: 'g' })).status).toBe(201);
    },
  );

  it('a fault is not recorded', async () => {
    const fault = async (transaction: Transaction) => {
      await effect(transaction);
      throw new TypeError('a bug');
    };
    await expect(call({}, fault)).rejects.toThrow('a bug');
    expect(await records()).toEqual([]);
    expect(await effects()).toEqual([]);
    expect((await call()).status).toBe(201);
  });

  it('keys are kept as hashes', async () => {
    await call({ key: 'a-very-recognizable-key' });
    expect(JSON.stringify(await records())).not.toContain('a-very-recognizable-key');
  });

  it('forgets only old records, in batches', async () => {
    await Promise.all(Array.from({ length: 1203 }, (_, i) => call({ key: `old ${i}` })));
    clock.advance(24 * 3600 * 1000);
    await call({ key: 'young' });
    expect(await forgetOldKeys({ clock, database })).toBe(1203);
    expect(await records()).toHaveLength(1);
  });

  it('forgets no live record when the clock jumps back', async () => {
    await call();
    clock.advance(-7 * 24 * 3600 * 1000);
    expect(await forgetOldKeys({ clock, database })).toBe(0);
    expect((await call()).body).toBe('{"run":1}');
  });
});
