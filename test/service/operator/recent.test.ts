import { expect, it } from 'vitest';

import { type Meter, unmetered } from '../../../src/service/core/meter.js';
import { createMemoryLimits } from '../../../src/service/core/rate-limits.js';
import { createRecentWatch, MINUTES, type Minute } from '../../../src/service/operator/recent.js';
import { createTestClock } from '../../support/clock.js';

const MINUTE_MS = 60_000;

function open() {
  const clock = createTestClock();
  const watch = createRecentWatch(clock);
  const seen: string[] = [];
  const told: Meter = {
    ...unmetered,
    answered: () => void seen.push('answered'),
    refused: () => void seen.push('refused'),
  };
  const { meter, limits } = watch.attach({ meter: told, limits: createMemoryLimits(clock) });
  return { clock, watch, seen, meter, limits };
}
const request = (status: number, ms: number, route = '/v1/agents/me') => ({ method: 'GET', route, status, ms });
const shown = (minutes: readonly Minute[], read: (minute: Minute) => unknown): unknown[] => minutes.slice(-4).map(read);

it('records each of the last sixty minutes separately, the current one last', () => {
  const { clock, watch, meter, seen } = open();
  meter.answered(request(200, 3));
  meter.answered(request(503, 3));
  clock.advance(2 * MINUTE_MS);
  meter.answered(request(404, 3));
  meter.delivered();
  meter.signInFailed();
  const { minutes } = watch.read();
  expect(minutes).toHaveLength(MINUTES);
  expect(shown(minutes, ({ requests, failures }) => [requests, failures])).toEqual([
    [0, 0],
    [2, 1],
    [0, 0],
    [1, 0],
  ]);
  expect(minutes.at(-1)).toMatchObject({ delivered: 1, failedSignIns: 1 });
  expect(seen).toEqual(['answered', 'answered', 'answered']);
});

it('forgets everything older than an hour, even in reused slots', () => {
  const { clock, watch, meter } = open();
  const sum = () => watch.read().minutes.reduce((total, { requests }) => total + requests, 0);
  for (let minute = 0; minute < 3 * MINUTES; minute += 1) {
    meter.answered(request(200, 3));
    clock.advance(MINUTE_MS);
  }
  expect(sum()).toBe(MINUTES - 1);
  clock.advance((MINUTES - 2) * MINUTE_MS);
  expect(sum()).toBe(1);
  clock.advance(MINUTE_MS);
  expect(sum()).toBe(0);
});

it('keeps the number of open sockets through minutes in which none opens or closes', () => {
  const { clock, watch, meter } = open();
  const sockets = () => shown(watch.read().minutes, (minute) => minute.sockets);
  meter.socketOpened();
  meter.socketOpened();
  clock.advance(2 * MINUTE_MS);
  expect(sockets()).toEqual([0, 2, 2, 2]);
  meter.socketClosed(1000);
  expect(sockets()).toEqual([0, 2, 2, 2]);
  clock.advance(MINUTE_MS);
  expect(sockets()).toEqual([2, 2, 2, 1]);
  clock.advance(2 * MINUTES * MINUTE_MS);
  expect(sockets()).toEqual([1, 1, 1, 1]);
});

it('returns the time in which 95 % of the requests were answered, without those that stay open', () => {
  const { clock, watch, meter } = open();
  const latest = () => watch.read().minutes.at(-1)?.responseMs;
  expect(latest()).toBeUndefined();
  for (let count = 0; count < 95; count += 1) meter.answered(request(200, 4));
  for (let count = 0; count < 5; count += 1) meter.answered(request(200, 700));
  for (let count = 0; count < 50; count += 1) meter.answered(request(200, 60_000, '/dashboard/sessions/:id/live'));
  expect(latest()).toBe(5);
  meter.answered(request(200, 700));
  expect(latest()).toBe(1_000);
  clock.advance(MINUTE_MS);
  meter.answered(request(200, 10_001));
  expect(latest()).toBe(Number.POSITIVE_INFINITY);
});

it('counts refusals by limit, and refuses as before', async () => {
  const { clock, watch, limits } = open();
  await expect(
    (async () => {
      for (;;) await limits.take('search', 'someone');
    })(),
  ).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  await expect(limits.take('search', 'someone')).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  await limits.take('search', 'someone else');
  expect([...watch.read().refusals]).toEqual([['search', 2]]);
  expect(watch.read().minutes.at(-1)?.refusals).toBe(2);
  clock.advance(MINUTES * MINUTE_MS);
  expect(watch.read().refusals.size).toBe(0);
});
