import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { createTurnableClock } from '../../../src/kit/turnable-clock.js';
import type { Log } from '../../../src/service/core/context.js';
import { startTestService } from '../../support/service.js';
import { TEST_STORE, takeSchema } from '../../support/stores.js';

const HOUR_MS = 3_600_000;

let directory: string;
const schema = TEST_STORE === 'postgres' ? takeSchema() : undefined;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'asp-clock-'));
});
afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
  await schema?.drop();
});

/** Starts a service on the same data, this far ahead of the machine's clock. Returns its warnings about the clock. */
async function warningsOf(aheadMs: number, writes = false): Promise<{ message: string; behindMs: number }[]> {
  const found: { message: string; behindMs: number }[] = [];
  const log: Log = {
    info: () => {},
    error: () => {},
    warn(event, error, fields) {
      if (event === 'clock_behind' && error instanceof Error)
        found.push({ message: error.message, behindMs: Number(fields?.['behind_ms']) });
    },
  };
  const clock = aheadMs === 0 ? systemClock : createTurnableClock(systemClock, aheadMs);
  const service = await startTestService({ data: { directory }, databaseUrl: schema?.url, clock, log });
  if (writes) await (await service.createAgent('alice')).mustCreate({ initial_message: { content: 'now' } });
  await service.stop();
  return found;
}

it('a service whose clock was set back behind its data says so when it starts, and how far', async () => {
  expect(await warningsOf(0)).toEqual([]);
  expect(await warningsOf(HOUR_MS, true)).toEqual([]);
  expect(await warningsOf(HOUR_MS)).toEqual([]);
  // A few seconds are the difference between machines that share a database.
  expect(await warningsOf(HOUR_MS - 3_000)).toEqual([]);
  const [warning, ...more] = await warningsOf(0);
  expect(more).toEqual([]);
  expect(warning?.behindMs).toBeGreaterThan(HOUR_MS - 60_000);
  expect(warning?.behindMs).toBeLessThanOrEqual(HOUR_MS);
  expect(warning?.message).toMatch(/^This machine's clock says \S+Z, but the newest event is from \S+Z\.$/);
});
