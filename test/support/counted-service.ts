import { once } from 'node:events';
import type { RequestListener } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';
import type { Clock } from '../../src/kit/clock.js';
import { createIds } from '../../src/kit/ids.js';
import { systemRandom } from '../../src/kit/random.js';
import { toAddresses } from '../../src/service/addresses.js';
import { openAttachmentFiles } from '../../src/service/attachments/files.js';
import { DEFAULT_ACCOUNT_POLICY, type Log } from '../../src/service/core/context.js';
import type { Database, Query, SharedDatabase, Transaction, Work } from '../../src/service/core/database.js';
import { type Meter, unmetered } from '../../src/service/core/meter.js';
import { createMemoryLimits, unlimited } from '../../src/service/core/rate-limits.js';
import { createHeldBytes } from '../../src/service/core/semaphore.js';
import { createHttpServer } from '../../src/service/http/app.js';
import { createLocalBus, createSharedBus } from '../../src/service/messaging/shared-bus.js';
import { composeService } from '../../src/service/service.js';
import { createStoredLimits } from '../../src/service/store/stored-limits.js';
import { UNREAD_MAX_BYTES } from '../../src/wire/limit.js';
import { type Actor, createActor } from './actors.js';
import { discover } from './oauth.js';
import { isShared, openTestStore } from './stores.js';

/** How many times in a row, a millisecond apart, the database must be idle to count as settled. */
const QUIET_LOOKS = 20;

/** The queries that a service makes. */
interface Counts {
  reads: number;
  writes: number;
  statements: number;
  /** The calls that the database has not answered yet. */
  open: number;
  /** Requests that were refused at once. */
  shed: number;
}

export interface CountedService {
  readonly counts: Counts;
  /** The statements since the last reset. */
  readonly asked: string[];
  reset(): void;
  /** Resolves when the database has answered everything, and is asked for nothing more. */
  settle(): Promise<void>;
  createAgent(name: string): Promise<Actor>;
  readonly readyUrl: string;
  stop(): Promise<void>;
}

/** Starts a whole service on a new store of the kind under test and counts every query that it makes. */
export async function startCountedService(options: {
  clock: Clock;
  areLimitsOn?: boolean;
  /** How long requests appear to wait for the database. */
  queueMs?: () => number;
}): Promise<CountedService> {
  const { clock, areLimitsOn = false, queueMs } = options;
  const counts: Counts = { reads: 0, writes: 0, statements: 0, open: 0, shed: 0 };
  const asked: string[] = [];
  const faults: unknown[] = [];
  const log: Log = { info: () => {}, warn: () => {}, error: (_event, error) => void faults.push(error) };
  const real = await openTestStore();
  const database = { ...countedDatabase(real, counts, asked), ...(queueMs && { queueMs }) };
  const onFault = (error: unknown): void => void faults.push(error);
  const bus = isShared(real)
    ? createSharedBus(real.calls, { processId: createIds(clock, systemRandom).ulid(), onFault, clock })
    : createLocalBus(onFault);
  const limits = isShared(database) ? createStoredLimits(database.aside, () => clock.now()) : createMemoryLimits(clock);
  const files = await openAttachmentFiles(undefined);
  let listener: RequestListener = () => {};
  const meter: Meter = {
    ...unmetered,
    shed() {
      counts.shed += 1;
    },
  };
  const server = createHttpServer((request, response) => listener(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const { port } = server.address() as AddressInfo;
  const service = await composeService({
    options: { host: '127.0.0.1', port, data: 'memory' },
    context: {
      clock,
      random: systemRandom,
      ids: createIds(clock, systemRandom),
      database,
      files,
      bus,
      limits: areLimitsOn ? limits : unlimited,
      unread: createHeldBytes(UNREAD_MAX_BYTES),
      meter,
      log,
      settings: {
        addresses: toAddresses({ host: '127.0.0.1', isBehindProxy: false }, port),
        trust: 'recipient',
        areLimitsOn,
        participantsMax: 1_000,
        accountPolicy: DEFAULT_ACCOUNT_POLICY,
        presenceGraceMs: undefined,
        isBehindProxy: false,
        isAddressShared: false,
      },
    },
    server,
    port,
    useListener: (next) => {
      listener = next;
    },
    metricsUrl: undefined,
    undo: [files, database, bus].map((one) => () => one.close()),
  });
  const place = await discover(service.baseUrl);
  const operator = { url: service.operatorUrl, secret: service.operatorSecret };
  return {
    counts,
    asked,
    reset() {
      Object.assign(counts, { reads: 0, writes: 0, statements: 0 });
      asked.length = 0;
    },
    async settle() {
      for (let quiet = 0; quiet < QUIET_LOOKS; quiet = counts.open === 0 ? quiet + 1 : 0) await pause(1);
    },
    createAgent: (name) => createActor(place, operator, name),
    readyUrl: `http://127.0.0.1:${port}/ready`,
    async stop() {
      await service.stop();
      if (faults.length > 0) throw faults[0];
    },
  };
}

/** Counts it as open until it has ended. */
async function whileOpen<T>(counts: Counts, ask: () => Promise<T>): Promise<T> {
  counts.open += 1;
  try {
    return await ask();
  } finally {
    counts.open -= 1;
  }
}

function countedDatabase(real: Database, counts: Counts, asked: string[]): Database | SharedDatabase {
  const note = (sql: string): void => {
    counts.statements += 1;
    asked.push(sql);
  };
  const countedQuery = (query: Query): Query => ({
    dialect: query.dialect,
    all: (sql, ...parameters) => {
      note(sql);
      return whileOpen(counts, () => query.all(sql, ...parameters));
    },
    get: (sql, ...parameters) => {
      note(sql);
      return whileOpen(counts, () => query.get(sql, ...parameters));
    },
    run: (sql, ...parameters) => {
      note(sql);
      return whileOpen(counts, () => query.run(sql, ...parameters));
    },
  });
  const countedTransaction = (transaction: Transaction): Transaction => ({
    ...countedQuery(transaction),
    send: (sql, ...parameters) => {
      note(sql);
      transaction.send(sql, ...parameters);
    },
    lock: transaction.lock,
    afterCommit: transaction.afterCommit,
    attempt: (step) => transaction.attempt((inner) => step(countedTransaction(inner))),
  });
  const countedWork = (work: Work): Work => ({
    read: (step) => {
      counts.reads += 1;
      return whileOpen(counts, () => work.read((query) => step(countedQuery(query))));
    },
    write: (step, holds) => {
      counts.writes += 1;
      return whileOpen(counts, () => work.write((transaction) => step(countedTransaction(transaction)), holds));
    },
  });
  return {
    ...real,
    ...(isShared(real) && { aside: countedQuery(real.aside) }),
    ...countedWork(real),
    behind: countedWork(real.behind),
  };
}
