import { availableParallelism } from 'node:os';

import { defineConfig } from 'vitest/config';

import { embeddedFiles } from './scripts/embedded-files.mjs';
import { outcomeReporter, secondTryReporter } from './scripts/outcome-reporter.js';
import { whyNoPostgres } from './test/support/postgres-server.js';

const outcomeFile = process.env['ASP_TEST_OUTCOME'];
const longTestsAreWanted = process.env['ASP_TEST_LONG'] === '1';
const withoutLong = longTestsAreWanted ? [] : ['test/**/*.long.test.ts'];

/** What rests on the store, and so is run on each kind of it. */
const ON_EVERY_STORE = [
  ...['sessions', 'events', 'trust', 'limits', 'agents', 'attachments', 'authorization-server', 'dashboard'],
].map((room) => `test/service/${room}/**/*.test.ts`);
/** Of the conformance tests, those in which the store decides: order, numbers, delivery, time, limits (D-126). */
const THROUGH_THE_PROGRAM = [
  ...[
    'delivery-states',
    'events',
    'idempotency',
    'lifecycle',
    'lifetimes',
    'list-sessions',
    'live',
    'presence',
    'rate-limits',
  ],
  ...['refresh', 'replay', 'revoke', 'states', 'total-order'],
].map((name) => `test/conformance/${name}.test.ts`);
/** Of these, what asks nothing of a store, or only what SQLite answers. */
const ON_SQLITE_ALONE = [
  ...['filename', 'content', 'hostile-upload', 'receive-upload'].map((name) => `attachments/${name}`),
  ...['agents/query-plans', 'authorization-server/redirect-uri', 'authorization-server/metadata', 'dashboard/limit'],
].map((name) => `test/service/${name}.test.ts`);

const reason = await whyNoPostgres();
if (reason !== undefined) process.stderr.write(`Nothing is tested on PostgreSQL: ${reason}\n`);

export default defineConfig({
  define: embeddedFiles(),
  test: {
    pool: 'forks',
    // Most of a test's time is spent waiting for disks, sockets and other processes.
    maxWorkers: Math.max(3, availableParallelism()),
    // Two hundred rounds take longer than one.
    testTimeout: longTestsAreWanted ? 1_800_000 : 60_000,
    hookTimeout: 60_000,
    globalSetup: 'test/support/one-folder.ts',
    teardownTimeout: 30_000,
    retry: 1,
    reporters: ['default', secondTryReporter(), ...(outcomeFile === undefined ? [] : [outcomeReporter(outcomeFile)])],
    allowOnly: false,
    restoreMocks: true,
    unstubEnvs: true,
    projects: [
      {
        extends: true,
        test: {
          name: 'sqlite',
          include: ['test/**/*.test.ts'],
          exclude: [
            ...withoutLong,
            ...['test/service/store/postgres/**', 'test/service/bus/**', 'test/promises/postgres/**'],
            ...(reason === undefined ? ['test/service/store/postgres-server.test.ts'] : []),
          ],
        },
      },
      ...(reason === undefined
        ? [
            {
              extends: true as const,
              test: {
                name: 'postgres',
                include: [
                  'test/service/store/{database,postgres-server}.test.ts',
                  ...['test/service/store/postgres/**', 'test/service/bus/**', 'test/promises/postgres/**'],
                  ...ON_EVERY_STORE,
                  ...THROUGH_THE_PROGRAM,
                ],
                exclude: [...withoutLong, ...ON_SQLITE_ALONE],
                env: { ASP_TEST_STORE: 'postgres' },
              },
            },
          ]
        : []),
    ],
  },
});
