import { afterEach, beforeEach, expect, it } from 'vitest';

import { systemClock } from '../../../../src/kit/clock.js';
import type { SharedDatabase, Transaction } from '../../../../src/service/core/database.js';
import { ServiceError } from '../../../../src/service/core/errors.js';
import { follow, unfollow } from '../../../../src/service/core/request-scope.js';
import { watchDatabase } from '../../../../src/service/core/tracer.js';
import { withIdempotency } from '../../../../src/service/messaging/idempotency.js';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import { createSchema, type Schema } from '../../../support/stores.js';
import { until } from '../../../support/until.js';
import { addNotes, names } from '../notes.js';

/** Two services. The test counts the writes in each commit of the first one. */
let schema: Schema;
let one: SharedDatabase;
let two: SharedDatabase;
const commits: number[] = [];
const faults: unknown[] = [];

beforeEach(async () => {
  schema = createSchema();
  const onFault = (error: unknown) => faults.push(error);
  one = await openPostgres(schema.url, { onFault, onCommit: (writes) => commits.push(writes) });
  two = await openPostgres(schema.url, { onFault });
  await addNotes(one);
  commits.length = 0;
});
afterEach(async () => {
  await Promise.all([one.close(), two.close()]);
  await schema.drop();
  expect(faults.splice(0)).toEqual([]);
});

/** Longer than the driver waits for an answer: 500 ms for the statement, and two seconds more. */
const FROZEN_MS = 3_500;

const put = (transaction: Transaction, name: string): Promise<number> =>
  transaction.run('INSERT INTO note (name, value) VALUES ($1, $2)', name, 'x');
const times = <T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> =>
  Promise.all(Array.from({ length: count }, (_, index) => work(index)));

it('lets writes that arrive together share a commit, whether or not they have a lock in common', async () => {
  await times(32, (index) => one.write((transaction) => put(transaction, `n${index}`), [`session ${index % 4}`]));
  expect(commits).toEqual([32]);
  expect(await names(one)).toHaveLength(32);
});

it('lets them share a commit when the log or traces watch the database', async () => {
  const lines: string[] = [];
  const note = (event: string) => void lines.push(event);
  const log = { debug: note, info: note, warn: note, error: note };
  const watched = watchDatabase(one, { clock: systemClock, log });
  const request = {};
  await follow(request, { requestId: 'watched' }, () =>
    times(8, (index) => watched.write((transaction) => put(transaction, `n${index}`), [`session ${index}`])),
  );
  unfollow(request);
  expect(lines).toEqual(Array(8).fill('database'));
  expect(commits).toEqual([8]);
});

it('runs those with a common lock one after the other, in the order in which they came', async () => {
  const seen: number[] = [];
  await times(16, (index) =>
    one.write(
      async (transaction) => {
        await transaction.lock(['session a']);
        const [row] = await transaction.all<{ count: number }>('SELECT COUNT(*) AS count FROM note');
        await put(transaction, `n${index}`);
        seen.push(Number(row?.count));
      },
      ['session a'],
    ),
  );
  expect(seen).toEqual(Array.from({ length: 16 }, (_, index) => index));
});

it('waits for the running group of a lock here, and shares the next commit', async () => {
  let release: (() => void) | undefined;
  const first = one.write(
    async (transaction) => {
      await put(transaction, 'first');
      await new Promise<void>((resolve) => {
        release = resolve;
      });
    },
    ['session a'],
  );
  await until('the first group runs', async () => release !== undefined);
  const rest = times(3, (index) => one.write((transaction) => put(transaction, `n${index}`), ['session a']));
  // A group of another session does not wait.
  await one.write((transaction) => put(transaction, 'other'), ['session b']);
  release?.();
  await Promise.all([first, rest]);
  expect(commits).toEqual([1, 1, 3]);
});

it('shows no reader a write before all of its group is durable', async () => {
  const effects: string[] = [];
  await times(4, (index) =>
    one.write(
      async (transaction) => {
        await put(transaction, `n${index}`);
        expect(await names(two)).toEqual([]);
        transaction.afterCommit(() => effects.push(`n${index}`));
        expect(effects).toEqual([]);
      },
      [`session ${index}`],
    ),
  );
  expect(effects).toEqual(['n0', 'n1', 'n2', 'n3']);
});

it('refuses only the write that throws, whether or not it had written something', async () => {
  const outcomes = await Promise.allSettled(
    Array.from({ length: 8 }, (_, index) =>
      one.write(
        async (transaction) => {
          await transaction.all('SELECT 1 AS one');
          if (index === 2) throw new Error('before it wrote');
          await put(transaction, `n${index}`);
          if (index === 5) throw new Error('after it wrote');
          // The database itself refuses this one.
          if (index === 6) transaction.send('INSERT INTO note (name, value) VALUES ($1, NULL)', 'empty');
        },
        [`session ${index % 3}`],
      ),
    ),
  );
  expect(outcomes.flatMap(({ status }, index) => (status === 'rejected' ? [index] : []))).toEqual([2, 5, 6]);
  expect(await names(one)).toEqual(['n0', 'n1', 'n3', 'n4', 'n7']);
});

it('does not let a lock that another service holds delay the rest of a group', async () => {
  let release: (() => void) | undefined;
  const held = two.write(async (transaction) => {
    await transaction.lock(['session b']);
    await new Promise<void>((resolve) => {
      release = resolve;
    });
    await put(transaction, 'before b');
  });
  await until('the other service holds the lock', async () => release !== undefined);
  let isDelayedDone = false;
  const delayed = one
    .write(
      async (transaction) => {
        await transaction.lock(['session b']);
        expect(await transaction.get('SELECT name FROM note WHERE name = $1', 'before b')).toBeDefined();
        await put(transaction, 'b');
      },
      ['session b'],
    )
    .then(() => {
      isDelayedDone = true;
    });
  await one.write((transaction) => put(transaction, 'a'), ['session a']);
  expect(isDelayedDone).toBe(false);
  release?.();
  await Promise.all([held, delayed]);
  expect(await names(one)).toEqual(['a', 'b', 'before b']);
});

it('runs a write alone that locks more than it had said', async () => {
  await times(3, (index) =>
    one.write(
      async (transaction) => {
        await transaction.lock(['session a', ...(index === 1 ? ['agent x'] : [])]);
        await put(transaction, `n${index}`);
      },
      ['session a'],
    ),
  );
  expect(await names(one)).toEqual(['n0', 'n1', 'n2']);
});

it('records a refusal of the domain with its key, next to writes that succeed', async () => {
  const call = (key: string, isRefused: boolean) =>
    withIdempotency(
      { clock: systemClock, database: one },
      { actorId: 'agt_a', endpoint: 'POST /v1/x', key, fingerprint: 'f', holds: ['session a'] },
      async (transaction) => {
        if (isRefused) throw new ServiceError('NOT_FOUND');
        await put(transaction, key);
        return { status: 201, body: key };
      },
    );
  const outcomes = await Promise.allSettled([
    call('k1', false),
    call('k2', true),
    call('k3', false),
    call('k1', false),
  ]);
  expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'fulfilled']);
  expect(commits).toEqual([4]);
  // The refusal is the answer of its key from now on.
  await expect(call('k2', false)).rejects.toThrow(ServiceError);
  expect(await names(one)).toEqual(['k1', 'k3']);
});

it('64 calls with one key at the same time on two services: one effect, 64 identical answers', async () => {
  const database = (index: number): SharedDatabase => (index % 2 === 0 ? one : two);
  for (let round = 0; round < 5; round += 1) {
    const request = {
      actorId: 'agt_a',
      endpoint: 'POST /v1/x',
      key: `k${round}`,
      fingerprint: 'f',
      holds: ['session a'],
    };
    const answers = await times(64, (index) =>
      withIdempotency({ clock: systemClock, database: database(index) }, request, async (transaction) => {
        await put(transaction, `round ${round}`);
        return { status: 201, body: `{"from":${index}}` };
      }),
    );
    expect(new Set(answers.map(({ body }) => body)).size).toBe(1);
  }
  expect(await names(one)).toHaveLength(5);
});

it('fails a write with the error of its first failed statement, whichever answer it reads first', async () => {
  const hasty = await openPostgres(schema.url, { limits: { lockTimeoutMs: 100 } });
  let isHeld = false;
  let release = (): void => {};
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const holder = one.write(async (transaction) => {
    await transaction.lock(['session a']);
    isHeld = true;
    await released;
  });
  await until('the lock is held', async () => isHeld);
  // PostgreSQL refuses the second statement because of the first one.
  const both = async (transaction: Transaction): Promise<unknown> =>
    Promise.all([transaction.lock(['session a']), transaction.all('SELECT name FROM note')]);
  const LOCK_NOT_AVAILABLE = { code: 'DATABASE_BUSY', cause: { code: '55P03' } };
  await expect(hasty.write(both)).rejects.toMatchObject(LOCK_NOT_AVAILABLE);
  await expect(hasty.write((transaction) => transaction.attempt(both))).rejects.toMatchObject(LOCK_NOT_AVAILABLE);
  // A failure that was caught with its step is over.
  await expect(
    hasty.write(async (transaction) => {
      await transaction.attempt(both).catch(() => {});
      await put(transaction, 'kept');
      throw new Error('its own');
    }),
  ).rejects.toThrow('its own');
  release();
  await Promise.all([holder, hasty.close()]);
});

it('survives a freeze that outlasts the time limit of its statements, and writes everything once', async () => {
  const unhandled: unknown[] = [];
  const note = (error: unknown): void => void unhandled.push(error);
  process.on('unhandledRejection', note);
  const hasty = await openPostgres(schema.url, { limits: { statementTimeoutMs: 500, lockTimeoutMs: 250 } });
  let isOver = false;
  /** The statements have been sent. When the process goes on, all are late before it reads an answer. */
  const freezeOnce = (): void => {
    if (!isOver) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, FROZEN_MS);
    isOver = true;
  };
  await times(8, (index) =>
    hasty.write(
      async (transaction) => {
        const counting = transaction.all('SELECT COUNT(*) AS count FROM note');
        freezeOnce();
        await counting;
        await put(transaction, `n${index}`);
      },
      [`session ${index}`],
    ),
  );
  await hasty.close();
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
  expect(await names(one)).toHaveLength(8);
});
