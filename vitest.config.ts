import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync } from 'node:fs';
import { availableParallelism } from 'node:os';

import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

import { embeddedFiles } from './scripts/embedded-files.mjs';
import { outcomeReporter, secondTryReporter } from './scripts/outcome-reporter.js';
import { whyNoPostgres } from './test/support/postgres-server.js';
import { whyNotOurs } from './test/support/private-postgres.js';

// With more authorities to read, each program of Node.js takes a tenth of a second longer to start, and the tests start
// thousands. None talks to anything outside this machine.
delete process.env['NODE_EXTRA_CA_CERTS'];

const outcomeFile = process.env['ASP_TEST_OUTCOME'];
const longTestsAreWanted = process.env['ASP_TEST_LONG'] === '1';
const withoutLong = longTestsAreWanted ? [] : ['test/**/*.long.test.ts'];
const quickTestsAreWanted = process.env['ASP_TEST_QUICK'] === '1';

/** What only tests import that start another program, a browser or a server. */
const MORE_THAN_NODE =
  /from '(node:child_process|\S+\/(program|built-program-file|build-program|chromium|other-browsers|private-postgres|nats-server|certificates)\.js)'/;

/** The tests of the parts, without those that need more than this process. */
function quickTests(): string[] {
  const folders = ['kit', 'wire', 'client', 'service'].map((name) => `test/${name}`);
  const paths = folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' }).map((path) => `${folder}/${path}`),
  );
  return paths.filter((path) => path.endsWith('.test.ts') && !MORE_THAN_NODE.test(readFileSync(path, 'utf8')));
}

/** What rests on the store, and so is run on each kind of it. */
const ON_EVERY_STORE = [
  ...[
    'sessions',
    'events',
    'trust',
    'limits',
    'agents',
    'attachments',
    'authorization-server',
    'dashboard',
    'mcp',
    'webhooks',
  ],
  // Which request a callback of the driver belongs to.
  'traces',
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
  ...['agents/query-plans', 'dashboard/limit', 'limits/pace', 'events/envelope-text'],
  ...['redirect-uri', 'metadata', 'client-document', 'browser-name', 'network-of', 'guessing'].map(
    (name) => `authorization-server/${name}`,
  ),
  // Measured: these run no statement on PostgreSQL that the others do not run there.
  ...[
    ...['activity', 'agents', 'guard', 'new-session', 'page-bounds', 'picture', 'print', 'refusals', 'streams'],
    ...['preferences-browser', 'take-part', 'trust-lists', 'webhook'],
  ].map((name) => `dashboard/${name}`),
  // What a browser does with a page is the same on each store; other tests ask for the pages on both.
  ...[
    ...['engines-browser', 'finding-browser', 'live-browser', 'look-browser', 'notify-browser'],
    ...['passkeys-browser', 'push-browser', 'settings-browser', 'times-browser'],
  ].map((name) => `dashboard/${name}`),
].map((name) => `test/service/${name}.test.ts`);

/** These start programs and import little of the sources. */
const STARTS_PROGRAMS = /\/test\/(acceptance|conformance|interop|promises|cli\/(login|serve|demo))\//;

/** These take a quarter of the time for what only a browser shows. */
const USES_BROWSER = /(browser|console-tasks)\.test\.ts$/;

/**
 * Whether time may run out (`ASP_TEST_UNTIL`): starting Node.js takes 25 ms on most machines, and on some that CI uses
 * three or four times as long.
 */
function isTimeShort(): boolean {
  if (process.env['ASP_TEST_UNTIL'] === undefined) return false;
  const took = [1, 2, 3].map(() => {
    const startedAt = performance.now();
    spawnSync(process.execPath, ['-e', '0']);
    return performance.now() - startedAt;
  });
  return Math.min(...took) > SLOW_START_MS;
}
const SLOW_START_MS = 45;

/**
 * A process of tests keeps what it has loaded and grows, and the larger it is, the longer it takes to start another
 * program: 1 ms at first, 20 ms in the end. So the files that do so come first. If time runs out, the last ones are
 * skipped. Where that is likely, these files come after the many quick ones.
 */
class MostInTime extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const sorted = await super.sort(files);
    const programs = isTimeShort() ? 2 : 0;
    const rank = ({ moduleId }: TestSpecification): number => {
      if (USES_BROWSER.test(moduleId)) return 3;
      return STARTS_PROGRAMS.test(moduleId) ? programs : 1;
    };
    const projects = [...new Set(sorted.map(({ project }) => project))];
    return projects.flatMap((project) =>
      sorted.filter((one) => one.project === project).sort((one, other) => rank(one) - rank(other)),
    );
  }
}

const reason = whyNotOurs() === undefined ? undefined : await whyNoPostgres();
if (reason !== undefined) process.stderr.write(`Nothing is tested on PostgreSQL: ${reason}\n`);

export default defineConfig({
  define: embeddedFiles(),
  test: {
    pool: 'forks',
    // Loading the sources anew for each file would cost half a second each time.
    isolate: false,
    sequence: { sequencer: MostInTime },
    // Half of a test's time is spent waiting. Two cores are no faster with six.
    maxWorkers: Math.max(4, availableParallelism()),
    // Two hundred rounds take longer than one. No test measures time with this: it only ends what hangs, on slow machines, too.
    testTimeout: longTestsAreWanted ? 1_800_000 : 180_000,
    hookTimeout: 180_000,
    expect: { poll: { timeout: 30_000 } },
    globalSetup: 'test/support/one-folder.ts',
    setupFiles: ['test/support/time-limit.ts', 'test/support/quick-cryptography.mjs'],
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
          include: quickTestsAreWanted ? quickTests() : ['test/**/*.test.ts'],
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
                  'test/service/rest/request-ids.test.ts',
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
