import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { systemClock } from '../../../../src/kit/clock.js';
import { createIds } from '../../../../src/kit/ids.js';
import { systemRandom } from '../../../../src/kit/random.js';
import type { Signal } from '../../../../src/service/core/bus.js';
import type { SharedDatabase, Transaction } from '../../../../src/service/core/database.js';
import { ServiceError } from '../../../../src/service/core/errors.js';
import { append } from '../../../../src/service/messaging/events.js';
import { withIdempotency } from '../../../../src/service/messaging/idempotency.js';
import { createLocalBus, createSharedBus } from '../../../../src/service/messaging/shared-bus.js';
import { openSigningKeys } from '../../../../src/service/oauth/access-tokens.js';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import { takeTurn } from '../../../../src/service/store/prepare-postgres.js';
import { insertSession } from '../../../../src/service/store/sessions.js';
import { createStoredLimits } from '../../../../src/service/store/stored-limits.js';
import { RATE_LIMIT } from '../../../../src/wire/limit.js';
import { type Schema, takeSchema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';

/** The two services have separate connections. */
let schema: Schema;
let one: SharedDatabase;
let two: SharedDatabase;
const faults: unknown[] = [];

beforeEach(async () => {
  faults.length = 0;
  schema = takeSchema();
  const options = { onFault: (error: unknown) => faults.push(error) };
  [one, two] = await Promise.all([openPostgres(schema.url, options), openPostgres(schema.url, options)]);
});
afterEach(async () => {
  await Promise.all([one.close(), two.close()]);
  await schema.drop();
});

const times = <T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));
const either = (index: number): SharedDatabase => (index % 2 === 0 ? one : two);
const SESSIONS = ['sess_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAW'];

describe('sequences', () => {
  it('have no gaps and no duplicates: 16 writers in two services, some of which roll back', async () => {
    const parts = { clock: systemClock, ids: createIds(systemClock, systemRandom), bus: createLocalBus(() => {}) };
    for (const id of SESSIONS)
      await one.write((transaction) => insertSession(transaction, { id, topic: null, created_at: 1 }));
    const acknowledged = new Map(SESSIONS.map((id) => [id, [] as number[]]));
    await times(16, async (writer) => {
      for (let i = 0; i < 25; i += 1) {
        const sessionId = SESSIONS[(writer + i) % 2] ?? '';
        const isDoomed = i % 5 === 4;
        const write = either(writer).write(async (transaction) => {
          const sequence = await append(parts, transaction, sessionId, 1, async () => [
            { type: 'session.joined', payload: { agent: '@a.b' } },
          ]);
          if (isDoomed) throw new Error('changed my mind');
          return sequence;
        });
        if (isDoomed) await expect(write).rejects.toThrow('changed my mind');
        else acknowledged.get(sessionId)?.push(await write);
      }
    });
    for (const [id, numbers] of acknowledged) {
      const rows = await two.read((query) =>
        query.all<{ sequence: number }>('SELECT sequence FROM event WHERE session_id = $1 ORDER BY sequence', id),
      );
      expect(rows.map((row) => row.sequence)).toEqual(rows.map((_, index) => index + 1));
      expect(numbers.sort((a, b) => a - b)).toEqual(rows.map((row) => row.sequence));
    }
  });
});

describe('Idempotency', () => {
  it('64 calls with one key at the same time on two services: one effect, 64 identical answers', async () => {
    await one.write((transaction) => transaction.run('CREATE TABLE note (name TEXT)'));
    for (let round = 0; round < 5; round += 1) {
      let runs = 0;
      const request = { actorId: 'agt_a', endpoint: 'POST /v1/x', key: `k${round}`, fingerprint: 'f' };
      const effect = async (transaction: Transaction) => {
        runs += 1;
        await transaction.run('INSERT INTO note (name) VALUES ($1)', `round ${round}`);
        return { status: 201, body: `{"run":"${round} ${runs}"}` };
      };
      const answers = await times(64, (index) =>
        withIdempotency({ clock: systemClock, database: either(index) }, request, effect),
      );
      expect(new Set(answers.map((answer) => JSON.stringify(answer))).size).toBe(1);
      const notes = await one.read((query) => query.all('SELECT name FROM note WHERE name = $1', `round ${round}`));
      expect([notes.length, runs]).toEqual([1, 1]);
    }
  });
});

describe('writes that collide', () => {
  const make = (database: SharedDatabase): Promise<unknown> =>
    database.write((transaction) =>
      transaction.run('CREATE TABLE tally (name TEXT PRIMARY KEY, count INTEGER NOT NULL)'),
    );
  const bump = (transaction: Transaction, name: string): Promise<number> =>
    transaction.run('UPDATE tally SET count = count + 1 WHERE name = $1', name);

  it('are run again inside the service when the database picks them against a deadlock', async () => {
    await make(one);
    await one.write((transaction) => transaction.run("INSERT INTO tally VALUES ('a', 0), ('b', 0)"));
    let runs = 0;
    await times(4, (index) =>
      either(index).write(async (transaction) => {
        runs += 1;
        const [first, second] = index < 2 ? ['a', 'b'] : ['b', 'a'];
        await bump(transaction, first ?? '');
        await bump(transaction, second ?? '');
      }),
    );
    expect(await one.read((query) => query.all('SELECT * FROM tally ORDER BY name'))).toEqual([
      { name: 'a', count: 4 },
      { name: 'b', count: 4 },
    ]);
    expect(runs).toBeGreaterThanOrEqual(4);
  });

  it('see what the other wrote if they read before they write', async () => {
    await make(one);
    await times(20, (index) =>
      either(index).write(async (transaction) => {
        const known = await transaction.get("SELECT 1 AS found FROM tally WHERE name = 'x'");
        if (known === undefined) await transaction.run("INSERT INTO tally VALUES ('x', 1)");
        else await bump(transaction, 'x');
      }),
    );
    expect(await one.read((query) => query.all('SELECT count FROM tally'))).toEqual([{ count: 20 }]);
  });

  it('wait for a named lock that another one holds, and read what it has committed', async () => {
    await make(one);
    await one.write((transaction) => transaction.run("INSERT INTO tally VALUES ('x', 0)"));
    await times(32, (index) =>
      either(index).write(async (transaction) => {
        await transaction.lock(['x', 'y']);
        const row = await transaction.get<{ count: number }>("SELECT count FROM tally WHERE name = 'x'");
        await transaction.run("UPDATE tally SET count = $1 WHERE name = 'x'", (row?.count ?? 0) + 1);
      }),
    );
    expect(await one.read((query) => query.all('SELECT count FROM tally'))).toEqual([{ count: 32 }]);
  });

  it('do not count as committed when a statement failed and its error was caught', async () => {
    await make(one);
    const write = one.write(async (transaction) => {
      await transaction.run("INSERT INTO tally VALUES ('lost', 1)");
      await transaction.run('SELECT 1 / 0').catch(() => {});
      return 'done';
    });
    await expect(write).rejects.toThrow('rolled back the transaction');
    expect(await one.read((query) => query.all('SELECT * FROM tally'))).toEqual([]);
  });
});

describe('A lost connection', () => {
  const terminateOthers = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
    WHERE pid <> pg_backend_pid() AND application_name = 'asp' AND query LIKE '%in the middle%'`;

  it('in the middle of a write costs nothing: it is run again, once', async () => {
    await one.write((transaction) => transaction.run('CREATE TABLE note (name TEXT)'));
    let runs = 0;
    await one.write(async (transaction) => {
      runs += 1;
      await transaction.run('INSERT INTO note (name) VALUES ($1)', `run ${runs}`);
      await transaction.all("SELECT 'in the middle' AS here");
      if (runs === 1) await two.aside.all(terminateOthers);
      await transaction.all('SELECT 1 AS one');
    });
    expect(await one.read((query) => query.all('SELECT name FROM note'))).toEqual([{ name: 'run 2' }]);
  });

  it('in the middle of a read costs nothing', async () => {
    let runs = 0;
    const rows = await one.read(async (query) => {
      runs += 1;
      await query.all("SELECT 'in the middle' AS here");
      if (runs === 1) await two.aside.all(terminateOthers);
      return query.all('SELECT 1 AS one');
    });
    expect([rows, runs]).toEqual([[{ one: 1 }], 2]);
  });
});

describe('Rate limits', () => {
  it('are exact over two services: of 60 + 140 calls at once, exactly 60 succeed', async () => {
    const limits = [one, two].map((database) => createStoredLimits(database.aside));
    const outcomes = await Promise.allSettled(
      Array.from({ length: 200 }, (_, index) => limits[index % 2]?.take('sendMessage', 's')),
    );
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(200 - refused.length).toBe(RATE_LIMIT.sendMessage.count);
    for (const { reason } of refused) {
      expect(reason).toBeInstanceOf(ServiceError);
      expect(reason).toMatchObject({ code: 'RATE_LIMITED' });
      expect(reason.options.retryAfterS).toBeGreaterThanOrEqual(59);
      expect(reason.options.retryAfterS).toBeLessThanOrEqual(60);
    }
  });

  it('charge several budgets together or not at all, in any order', async () => {
    const limits = [one, two].map((database) => createStoredLimits(database.aside));
    const pair = [
      { name: 'sendMessage', subjectId: 's' },
      { name: 'search', subjectId: 'a' },
    ] as const;
    const outcomes = await Promise.allSettled(
      Array.from({ length: 80 }, (_, index) =>
        limits[index % 2]?.takeAll(index % 3 === 0 ? pair : [...pair].reverse()),
      ),
    );
    const taken = outcomes.filter((outcome) => outcome.status === 'fulfilled').length;
    expect(taken).toBe(Math.min(RATE_LIMIT.sendMessage.count, RATE_LIMIT.search.count));
    for (let i = taken; i < RATE_LIMIT.sendMessage.count; i += 1) await limits[0]?.take('sendMessage', 's');
    await expect(limits[1]?.take('sendMessage', 's')).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  });
});

describe('A clock that is set back', () => {
  const DAY_MS = 24 * 60 * 60_000;

  it('refuses no one for longer than the window of a limit', async () => {
    let now = Date.now() + DAY_MS;
    const limits = createStoredLimits(one.aside, () => now);
    const name = 'search';
    for (let i = 0; i < RATE_LIMIT[name].count; i += 1) await limits.take(name, 'a');
    now -= DAY_MS;
    await limits.check({ name, subjectId: 'a' });
    for (let i = 0; i < RATE_LIMIT[name].count; i += 1) await limits.take(name, 'a');
    const late = { code: 'RATE_LIMITED', options: { retryAfterS: RATE_LIMIT[name].window_ms / 1_000 } };
    await expect(limits.take(name, 'a')).rejects.toMatchObject(late);
    await expect(limits.check({ name, subjectId: 'a' })).rejects.toMatchObject(late);
  });

  it('stops no chores', async () => {
    const now = Date.now();
    const take = (at: number) => takeTurn(one.aside, 'sweep', 60_000, at);
    const turns = [await take(now + DAY_MS), await take(now), await take(now), await take(now + 60_000)];
    expect(turns).toEqual([true, true, false, true]);
  });
});

describe('signing keys', () => {
  it('are the same for services that start together', async () => {
    const clock = systemClock;
    const log = { info: () => {}, warn: () => {}, error: () => {} };
    const rings = await times(4, (index) => openSigningKeys({ clock, database: either(index), log }));
    const kids = await Promise.all(rings.map(async (ring) => (await ring.signingKey()).kid));
    expect(new Set(kids).size).toBe(1);
  });
});

describe('the notification', () => {
  it('arrives at this service at once and at the other soon, in few calls, and never twice here', async () => {
    const onFault = (error: unknown): void => void faults.push(error);
    const buses = [one, two].map((database, index) =>
      createSharedBus(database.calls, { processId: `p${index}`, onFault }),
    );
    const heard: Signal[][] = [[], []];
    const isProbe = (signal: Signal): boolean => signal.kind === 'revoked' && signal.grantId === 'probe';
    for (const [index, bus] of buses.entries()) bus.listen((signal) => heard[index]?.push(signal));
    let calls = 0;
    two.calls.listen(() => {
      calls += 1;
    });
    await until('both lines are up', async () => {
      buses[0]?.notify({ kind: 'revoked', grantId: 'probe' });
      return (heard[1]?.length ?? 0) > 0;
    });
    for (const list of heard) list.length = 0;
    calls = 0;
    const ids = Array.from({ length: 500 }, (_, index) => `sess_${String(index).padStart(26, '0')}`);
    for (const sessionId of ids) buses[0]?.notify({ kind: 'events', sessionId, first: 3, last: 4 });
    buses[0]?.notify({ kind: 'revoked', grantId: 'fam_1' });
    expect(heard[0]).toHaveLength(501);
    const reached = () => (heard[1] ?? []).flatMap((signal) => (signal.kind === 'events' ? [signal.sessionId] : []));
    await until('all are heard', async () => reached().length >= 500);
    await until('the end of the grant is heard', async () =>
      heard[1]?.some((signal) => signal.kind === 'revoked' && signal.grantId === 'fam_1'),
    );
    expect(new Set(reached())).toEqual(new Set(ids));
    // A second probe may arrive late.
    expect(heard[1]?.find((signal) => !isProbe(signal))).toEqual({
      kind: 'events',
      sessionId: ids[0],
      first: 3,
      last: 4,
    });
    expect(calls).toBeLessThan(50);
    expect(heard[0]).toHaveLength(501);
    await Promise.all(buses.map((bus) => bus.close()));
    expect(faults).toEqual([]);
  });
});
