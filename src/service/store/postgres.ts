import type { Client, ClientBase, PoolClient } from 'pg';
import { backoffMs, type Clock, orAborted, systemClock, wait } from '../../kit/clock.js';
import { messageOf } from '../../kit/format.js';
import { systemRandom } from '../../kit/random.js';
import { keepOpen, repeat } from '../../kit/repeat.js';
import {
  type Calls,
  type DatabaseFailure,
  DEFAULT_POSTGRES_LIMITS,
  type Epoch,
  type PostgresLimits,
  type Query,
  type SharedDatabase,
  type Transaction,
  type Work,
} from '../core/database.js';
import { isOutage, OperatorError } from '../core/errors.js';
import { estimateWaitMs } from '../core/semaphore.js';
import { type DatabaseAddress, readDatabaseAddress } from './database-address.js';
import { isAtOrigin, openEpoch, readEpoch } from './epochs.js';
import { seal } from './keys.js';
import { EPOCH_LOCK } from './lock-names.js';
import {
  type ConnectionPool,
  createDriver,
  type Driver,
  explainUnusable,
  isBusy,
  isCollision,
  isLostConnection,
  isMixedUp,
  isOutOfSpace,
  isReadOnly,
  isStalePlan,
  prepareConnection,
  wasNeverSent,
} from './postgres-driver.js';
import { createWriteGroups, runEffect } from './postgres-groups.js';
import { type Committed, createQuery, type Done, lockNames, openQuery, runWork } from './postgres-query.js';
import { keepsSession, noSession, type PrepareOptions, preparePostgres } from './prepare-postgres.js';

interface CallsOptions {
  readonly driver: Driver;
  /** Refuses a new connection by throwing. */
  readonly check: (client: Client) => Promise<void>;
  readonly channel: string;
  readonly aside: Query;
  readonly onFault: (error: unknown) => void;
}

/** A process receives its own notifications. If none comes back for this long, the connection that listens is dead. */
const ECHO_WITHIN_MS = 10_000;

interface OwnCalls extends Calls {
  /** Listens on a new connection. */
  reopen(): void;
  close(): Promise<void>;
}

/**
 * LISTEN on its own connection, which is reopened when it is lost; NOTIFY outside of every transaction, because
 * inside one it would hold a lock on the whole server through COMMIT.
 */
function createCalls({ driver, check, channel, aside, onFault }: CallsOptions): OwnCalls {
  const listeners = new Set<(text: string) => void>();
  const upListeners: (() => void)[] = [];
  const stop = new AbortController();
  let isUp = false;
  let end = (): void => {};
  /** When the first notification was sent after the last one that came back. */
  let sentAtMs: number | undefined;
  let running: Promise<void> | undefined;

  /** Resolves when the connection is lost. */
  const listenOnce = async (client: Client): Promise<void> => {
    const lost = new Promise<void>((resolve) => {
      const onLost = (): void => {
        isUp = false;
        resolve();
      };
      client.on('error', onLost);
      client.on('end', onLost);
    });
    // A throw in an event of the driver would end the process.
    client.on('notification', ({ payload = '' }) => {
      sentAtMs = undefined;
      for (const listener of [...listeners]) {
        try {
          listener(payload);
        } catch (error) {
          onFault(error);
        }
      }
    });
    await check(client);
    await client.query(`LISTEN ${channel}`);
    // A closing handshake would wait for the other side.
    end = () => client.connection.stream.destroy();
    sentAtMs = undefined;
    isUp = true;
    for (const listener of upListeners) listener();
    await orAborted(lost, stop.signal, () => {});
  };
  const listenUntilLost = (): Promise<void> =>
    driver.useClient(listenOnce).finally(() => {
      isUp = false;
    });
  return {
    async send(text) {
      if (isUp) {
        const nowMs = systemClock.monotonic();
        sentAtMs ??= nowMs;
        if (nowMs - sentAtMs >= ECHO_WITHIN_MS) end();
      }
      await aside.all('SELECT pg_notify($1, $2)', channel, text);
    },
    listen(listener) {
      listeners.add(listener);
      running ??= keepOpen(systemClock, listenUntilLost, onFault, stop.signal);
      return () => {
        listeners.delete(listener);
      };
    },
    isUp: () => isUp,
    lines: () => ({ listen: isUp }),
    onUp: (listener) => void upListeners.push(listener),
    reopen: () => end(),
    async close() {
      stop.abort();
      await running;
    },
  };
}

/** How long a call waits for a database that is down, so that no call fails during a restart or a failover. */
const PATIENCE_MS = 5_000;
const NOTICED_AFTER_MS = 1_000;
/** How often one call goes through to a database that has been away for longer. */
const PROBE_EVERY_MS = 250;

/** Whether the database responds. */
interface Outage {
  /**
   * Throws at once while the database has been away for long, except for an occasional call that finds out whether it
   * is back.
   */
  admit(): void;
  succeeded(): void;
  failed(error: unknown): void;
  /** From now on nothing is admitted, and what succeeds does not count; then, with undefined, all of it does again. */
  hold(error: unknown): void;
  /** The error for the caller of a call that the database refused for now. Such a refusal is worth a line in the log. */
  refused(error: unknown): OperatorError;
  /** Whether a retry makes sense: not once every caller has waited enough. */
  readonly isLong: boolean;
  /** Calls have succeeded just now, so waiting calls wait for each other and not for the database. */
  readonly isAnswering: boolean;
  /** Nothing has succeeded for this long, whatever the reason. */
  readonly isStuck: boolean;
  /** The failure, if nothing has succeeded for a while: a single lost connection is replaced by the next call. */
  readonly fault: unknown;
}

const ANSWERING_MS = 1_000;

interface OutageOptions {
  readonly clock: Clock;
  /** Called once when the database is down for longer than callers wait, and once when it is back. */
  readonly onChange: (fault: unknown) => void;
  /** Called for each call that the database refused while it responds. */
  readonly onFault: (error: unknown) => void;
  /** Called when the connection of a call turned out to have the prepared statements of another one. */
  readonly onMixedUp: () => void;
  /** Called for each call that failed, even if it is tried again. */
  readonly onFailure: (failure: DatabaseFailure) => void;
}

function createOutage({ clock, onChange, onFault, onMixedUp, onFailure }: OutageOptions): Outage {
  let fault: unknown;
  let isHeld = false;
  let sinceMs = 0;
  let probedAtMs = 0;
  let succeededAtMs = clock.monotonic();
  let isReported = false;
  const isLong = (): boolean => fault !== undefined && clock.monotonic() - sinceMs >= PATIENCE_MS;
  return {
    admit() {
      if (!isLong()) return;
      if (isHeld) throw new OperatorError('DATABASE_LOST', messageOf(fault), fault);
      const now = clock.monotonic();
      if (now - probedAtMs < PROBE_EVERY_MS) throw new OperatorError('DATABASE_LOST', 'The database is down.', fault);
      probedAtMs = now;
    },
    succeeded() {
      succeededAtMs = clock.monotonic();
      if (isHeld) return;
      fault = undefined;
      if (isReported) onChange(undefined);
      isReported = false;
    },
    failed(error) {
      onFailure('lost');
      if (isMixedUp(error)) onMixedUp();
      if (isHeld) return;
      if (fault === undefined) sinceMs = clock.monotonic();
      fault = error;
      if (!isLong() || isReported) return;
      isReported = true;
      onChange(error);
    },
    hold(error) {
      isHeld = error !== undefined;
      fault = error;
      sinceMs = clock.monotonic() - PATIENCE_MS;
      if (isHeld || isReported) onChange(error);
      isReported = isHeld;
    },
    refused(error) {
      onFailure('refused');
      onFault(error);
      return withReason('DATABASE_BUSY', 'The database cannot do this now', error);
    },
    get isLong() {
      return isLong();
    },
    get isAnswering() {
      return fault === undefined && clock.monotonic() - succeededAtMs < ANSWERING_MS;
    },
    get isStuck() {
      return clock.monotonic() - succeededAtMs >= PATIENCE_MS;
    },
    get fault() {
      return clock.monotonic() - sinceMs >= NOTICED_AFTER_MS ? fault : undefined;
    },
  };
}

/** Lets this many run at once; the others wait in line, up to a limit. */
export interface Slots {
  /** How long a call that comes now will wait for its turn. */
  waitMs(): number;
  /** How many calls wait for theirs. */
  waiting(): number;
  /** Throws `DATABASE_LOST` after a wait in which no call made progress. */
  use<T>(work: () => Promise<T>): Promise<T>;
  /** Accepts nothing new, and resolves when all accepted work has ended. */
  close(): Promise<void>;
}

export interface SlotsOptions {
  readonly clock: Clock;
  readonly patienceMs: number;
  /** Whether the running calls make no progress. */
  readonly isStuck: () => boolean;
}

export function createSlots(count: number, waitingMax: number, options: SlotsOptions): Slots {
  /** The first in line first. */
  const waiting: Waiting = new Map();
  let free = count;
  let turns = 0;
  let isClosed = false;
  let onIdle: (() => void) | undefined;

  const leave = (): void => {
    turns += 1;
    const [next] = waiting.keys();
    if (next === undefined) free += 1;
    else next();
    if (free === count) onIdle?.();
  };

  return {
    waiting: () => waiting.size,
    waitMs() {
      const [first] = waiting.values();
      if (first === undefined) return 0;
      const firstWaitedMs = options.clock.monotonic() - first.sinceMs;
      return estimateWaitMs({ firstWaitedMs, turnsSince: turns - first.turns, turnsAhead: waiting.size });
    },
    async use(work) {
      if (isClosed) throw new Error('The database is closed.');
      if (waiting.size >= waitingMax)
        throw new OperatorError('DATABASE_LOST', 'Too many calls are waiting for the database.');
      if (free > 0) free -= 1;
      else await waitForTurn(waiting, turns, options);
      try {
        return await work();
      } finally {
        leave();
      }
    },
    close() {
      isClosed = true;
      if (free === count) return Promise.resolve();
      return new Promise((resolve) => {
        onIdle = resolve;
      });
    },
  };
}

/** Since when each waits, and how many turns had ended then. */
type Waiting = Map<() => void, { readonly sinceMs: number; readonly turns: number }>;

function waitForTurn(waiting: Waiting, turns: number, { clock, patienceMs, isStuck }: SlotsOptions): Promise<void> {
  return new Promise((resolve, reject) => {
    let cancel = (): void => {};
    const go = (): void => {
      cancel();
      waiting.delete(go);
      resolve();
    };
    const look = (): void => {
      if (!isStuck()) {
        cancel = clock.schedule(patienceMs, look);
        return;
      }
      waiting.delete(go);
      reject(new OperatorError('DATABASE_LOST', 'The database does not respond.'));
    };
    waiting.set(go, { sinceMs: clock.monotonic(), turns });
    cancel = clock.schedule(patienceMs, look);
  });
}

/** For limits, heartbeats and notifications. */
const ASIDE_CONNECTIONS = 3;
const LISTENING_CONNECTIONS = 1;
const CONNECTIONS_BEHIND_MIN = 2;
const SHARE_BEHIND = 1 / 5;
const WAITING_MAX = 10_000;
const COLLISIONS_MAX = 12;
const CHANNEL_LENGTH = 32;
const RETRY_PAUSE_MS = 10;
const RETRY_PAUSE_MAX_MS = 500;

/** The connections for requests, and for what happens behind them: delivery, inboxes, presence. */
export function shareConnections(connections: number): { readonly requests: number; readonly behind: number } {
  const left = connections - ASIDE_CONNECTIONS - LISTENING_CONNECTIONS;
  const behind = Math.max(CONNECTIONS_BEHIND_MIN, Math.floor(left * SHARE_BEHIND));
  return { requests: left - behind, behind };
}

export interface PostgresOptions extends PrepareOptions {
  /** Differences from the defaults. */
  readonly limits?: Partial<PostgresLimits> | undefined;
  /** Called with errors of effects that run after COMMIT, and with changes of a connection. */
  readonly onFault?: (error: unknown) => void;
  /** Called with the number of writes in a commit, and how long it took. */
  readonly onCommit?: (writes: number, ms: number) => void;
  /** Called for each call that failed, even if it is tried again. */
  readonly onFailure?: (failure: DatabaseFailure) => void;
  /**
   * Called when writes have failed for longer than callers wait, with the reason; then, with undefined, when they
   * succeed again.
   */
  readonly onOutage?: (fault: unknown) => void;
  /** Called when the answer to a COMMIT was lost: the work may be done, and its effects do not run. */
  readonly onUnknownCommit?: () => void;
  /** Called with warnings about the database's settings. */
  readonly onWarning?: (warning: string) => void;
}

/** The database at `url`, which any number of services may use at the same time. */
export async function openPostgres(url: string, options: PostgresOptions = {}): Promise<SharedDatabase> {
  const { onFault = () => {}, onCommit = () => {}, onOutage = () => {}, onWarning = () => {} } = options;
  const { onFailure = () => {} } = options;
  const onUnknownCommit = (): void => {
    onFailure('unknown');
    options.onUnknownCommit?.();
  };
  const address = readDatabaseAddress(url);
  const limits = { ...DEFAULT_POSTGRES_LIMITS, ...options.limits };
  const driver = createDriver(address, limits);
  const { schema, channel, epoch, warnings } = await prepare(driver, address, options);
  for (const warning of warnings) onWarning(warning);
  const epochs = createEpochWatch(epoch);
  const check = async (client: ClientBase): Promise<void> => {
    await prepareConnection(client, schema, limits);
    epochs.enter(await enterEpoch(client, schema));
  };
  const { requests, behind } = shareConnections(limits.connections);
  const pool = driver.createPool(requests + behind, check);
  const asidePool = driver.createPool(ASIDE_CONNECTIONS, check);
  const sessions = createSessionWatch(driver, (fault) => {
    // They may lead to connections without our settings behind the pooler, and LISTEN is lost.
    for (const each of [pool, asidePool]) each.renew();
    calls.reopen();
    reads.hold(fault);
    writes.hold(fault);
  });
  const outageOptions = { clock: systemClock, onFault, onMixedUp: sessions.look, onFailure };
  const reads = createOutage({ ...outageOptions, onChange: () => {} });
  const writes = createOutage({ ...outageOptions, onChange: onOutage });
  const aside = createQuery((statement) =>
    again(writes, isLostOrReadOnly, () => withClient(asidePool, (client) => client.query(statement))),
  );
  const calls = createCalls({ driver, check, channel, aside, onFault });
  const slotsOptions = {
    clock: systemClock,
    patienceMs: PATIENCE_MS,
    isStuck: () => reads.isStuck && writes.isStuck,
  };
  const slots = createSlots(requests, WAITING_MAX, slotsOptions);
  const slotsBehind = createSlots(behind, WAITING_MAX, slotsOptions);
  const writer: Writer = { pool, schema, outage: writes, onFault, onCommit, onUnknownCommit };
  const workOn = ({ use }: Slots): Work => ({
    read: (work) => use(() => again(reads, isLostConnection, () => readOnce(pool, work))),
    write: (work) => use(() => writeUntilCommitted(writer, work)),
  });
  const onRequests = workOn(slots);
  const groups = createWriteGroups({
    ...slotsOptions,
    schema,
    waitingMax: WAITING_MAX,
    transact: (run) =>
      slots.use(async () => {
        if (writes.isLong) throw new OperatorError('DATABASE_LOST', 'The database is down.');
        const done = await transact(pool, run);
        writes.succeeded();
        return done;
      }),
    writeAlone: onRequests.write,
    onFault,
    onCommit,
    onUnknownCommit,
  });
  return {
    isExclusive: false,
    pageRows: limits.pageRows,
    aside,
    calls,
    writeFault: () => writes.fault,
    epoch: epochs.epoch,
    onNewEpoch: epochs.onNewEpoch,
    refreshEpoch: async () => epochs.enter(await readEpoch(aside)),
    queueMs: () => (reads.isAnswering || writes.isAnswering ? Math.max(slots.waitMs(), groups.waitMs()) : 0),
    load: () => ({
      waiting: slots.waiting() + slotsBehind.waiting() + groups.waiting(),
      pools: { work: pool.load(), aside: asidePool.load() },
    }),
    read: onRequests.read,
    write: (work, holds) => (holds === undefined ? onRequests.write(work) : groups.write(work, holds)),
    behind: workOn(slotsBehind),
    async close() {
      const rest = groups.close();
      if (rest !== undefined) await rest;
      await Promise.all([slots.close(), slotsBehind.close()]);
      await Promise.all([calls.close(), sessions.close()]);
      await Promise.all([pool.close(), asidePool.close()]);
    },
  };
}

/** Derived from the service's secret: any role that can connect may send on a channel whose name it knows. */
async function findChannel(query: Query): Promise<string> {
  const sealed = await seal(query, 'bells', 'channel');
  return `asp_${sealed.toString('hex').slice(0, CHANNEL_LENGTH)}`;
}

interface Prepared {
  readonly schema: string;
  /** The channel for notifications. */
  readonly channel: string;
  readonly epoch: Epoch;
  readonly warnings: readonly string[];
}

/** Connects to the first usable host. The refusal of the first one is the most informative. */
async function prepare(driver: Driver, address: DatabaseAddress, options: PrepareOptions): Promise<Prepared> {
  const refusals: unknown[] = [];
  for (const _ of address.connectionStrings)
    try {
      return await driver.useClient(async (client) => {
        const prepared = await preparePostgres(driver, client, address, options);
        const channel = await findChannel(createQuery((statement) => client.query(statement)));
        return { ...prepared, channel, epoch: await enterEpoch(client, prepared.schema) };
      });
    } catch (error) {
      refusals.push(error);
    }
  throw explainUnusable(address, refusals[0]);
}

const LOOK_AT_SESSIONS_MS = 1_000;

/**
 * A service does not start behind a pooler that gives each transaction another connection, but a pooler can become one
 * later. Settings, locks and LISTEN are lost there without an error; only prepared statements are missed. Then `look`
 * checks as at the start. While the pooler is like that, all calls are refused: `hold` gets the reason, and undefined
 * when it is over.
 */
function createSessionWatch(driver: Driver, hold: (fault: unknown) => void) {
  let isHeld = false;
  let stop: (() => Promise<void>) | undefined;
  const look = async (): Promise<void> => {
    const isKept = await driver.useClient((client) => keepsSession(driver, client), PATIENCE_MS);
    if (isHeld === isKept) hold(isKept ? undefined : noSession());
    isHeld = !isKept;
    if (!isKept) return;
    void stop?.();
    stop = undefined;
  };
  return {
    look(): void {
      // A check that fails, as during an outage, says nothing about sessions.
      stop ??= repeat(systemClock, LOOK_AT_SESSIONS_MS, look, () => {});
    },
    close: async () => stop?.(),
  };
}

function createEpochWatch(first: Epoch) {
  const listeners = new Set<() => void>();
  let current = first;
  return {
    epoch: (): Epoch => current,
    enter(epoch: Epoch): void {
      if (epoch.token === current.token) return;
      current = epoch;
      for (const listener of [...listeners]) listener();
    },
    onNewEpoch(listener: () => void): () => void {
      listeners.add(listener);
      return () => {
        listeners.delete(listener);
      };
    },
  };
}

/**
 * The epoch of the data that a new connection leads to. A new epoch begins before anything is written at a new origin:
 * the first connection there begins it, and no other connection is used before it has checked.
 */
async function enterEpoch(client: ClientBase, schema: string): Promise<Epoch> {
  const query = createQuery((statement) => client.query(statement));
  const origin = (await query.get<{ origin: string }>('SELECT data_origin() AS origin'))?.origin ?? '';
  if (await isAtOrigin(query, origin)) return readEpoch(query);
  await client.query('BEGIN');
  try {
    await lockNames(query, schema, [EPOCH_LOCK], 'exclusive');
    const epoch = await openEpoch(query, origin, systemClock.now());
    await client.query('COMMIT');
    return epoch;
  } catch (error) {
    await client.query('ROLLBACK').catch(() => {});
    throw error;
  }
}

/** COMMIT was sent and no answer came: the work is done, or not at all. */
const isUnknownCommit = (error: unknown): boolean => isOutage(error) && error.code === 'COMMIT_UNKNOWN';

const isLostOrReadOnly = (error: unknown): boolean => isLostConnection(error) || isReadOnly(error);

/** Runs `step` until it succeeds, fails in a way that a retry does not fix, or its caller has waited enough. */
async function again<T>(
  outage: Outage,
  isWorthwhile: (error: unknown, tries: number) => boolean,
  step: () => Promise<T>,
): Promise<T> {
  outage.admit();
  const startedAt = systemClock.monotonic();
  for (let tries = 1; ; tries += 1) {
    try {
      const result = await step();
      outage.succeeded();
      return result;
    } catch (error) {
      const isAway = isLostOrReadOnly(error) || isOutOfSpace(error);
      if (isAway) outage.failed(error);
      if (!isWorthwhile(error, tries)) throw isBusy(error) ? outage.refused(error) : error;
      const hasWaitedEnough = outage.isLong || systemClock.monotonic() - startedAt >= PATIENCE_MS;
      if (isAway && hasWaitedEnough) throw withReason('DATABASE_LOST', 'The database does not respond', error);
      const pause = backoffMs(RETRY_PAUSE_MS, tries, RETRY_PAUSE_MAX_MS);
      await wait(systemClock, pause * systemRandom.fraction());
    }
  }
}

function withReason(code: 'DATABASE_LOST' | 'DATABASE_BUSY', message: string, cause: unknown): OperatorError {
  const reason = cause instanceof Error ? `: ${cause.message}` : '';
  return new OperatorError(code, `${message}${reason}`, cause);
}

/** One snapshot for the whole of `work`. */
function readOnce<T>(pool: ConnectionPool, work: (query: Query) => Promise<T>): Promise<T> {
  return withClient(pool, async (client) => {
    const begun = begin(client, 'REPEATABLE READ READ ONLY');
    const { query, end } = openQuery(client);
    try {
      const result = await work(query);
      await begun;
      await client.query('COMMIT');
      return result;
    } catch (error) {
      await rollBack(client, error);
      throw error;
    } finally {
      end();
    }
  });
}

interface Writer extends Required<Pick<PostgresOptions, 'onFault' | 'onCommit' | 'onUnknownCommit'>> {
  readonly pool: ConnectionPool;
  readonly schema: string;
  readonly outage: Outage;
}

/**
 * READ COMMITTED: a transaction locks by name (`lock`) what it reads before writing, the first writer of a row holds
 * it, and each statement sees everything committed before it. So writes to different sessions never fail each other,
 * and those to one session wait in line. Work that collides anyway, or loses its connection before COMMIT, runs again.
 */
async function writeUntilCommitted<T>(
  { pool, schema, outage, onFault, onCommit, onUnknownCommit }: Writer,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  const isWorthwhile = (error: unknown, tries: number): boolean =>
    (tries < COLLISIONS_MAX && isCollision(error, tries)) || isLostOrReadOnly(error);
  const writeOnce = (): Promise<Committed<T>> => transact(pool, (client) => runWork(client, schema, work));
  const { result, effects, commitMs } = await again(outage, isWorthwhile, writeOnce).catch((error) => {
    if (isUnknownCommit(error)) onUnknownCommit();
    throw error;
  });
  onCommit(1, commitMs);
  for (const effect of effects) runEffect(effect, onFault);
  return result;
}

/** Runs this in one transaction, once. */
function transact<T>(pool: ConnectionPool, run: (client: ClientBase) => Promise<Done<T>>): Promise<Committed<T>> {
  return withClient(pool, async (client) => {
    const begun = begin(client, 'READ COMMITTED');
    try {
      const done = await run(client);
      const [commitMs] = await Promise.all([commit(client, done.failure), begun]);
      return { ...done, commitMs };
    } catch (error) {
      await rollBack(client, error);
      throw error;
    }
  });
}

/** A lost connection ends the transaction on its own; waiting for it would take as long as the failed statement. */
async function rollBack(client: ClientBase, error: unknown): Promise<void> {
  if (!(isUnknownCommit(error) || isLostConnection(error))) await client.query('ROLLBACK').catch(() => {});
}

/** Sent with the first statement. The caller of that statement sees its failure too. */
function begin(client: ClientBase, level: string): Promise<unknown> {
  const begun = client.query(`BEGIN ISOLATION LEVEL ${level}`);
  begun.catch(() => {});
  return begun;
}

/** Sent with the statements that were not awaited, and answered after them. Returns how long that took. */
async function commit(client: ClientBase, failure: () => unknown): Promise<number> {
  const sentAtMs = systemClock.monotonic();
  const { command } = await client.query('COMMIT').catch((error: unknown) => {
    if (isLostConnection(error) && !wasNeverSent(error))
      throw new OperatorError('COMMIT_UNKNOWN', 'The connection was lost while a write was committed.', error);
    throw error;
  });
  // PostgreSQL answers ROLLBACK when a statement has failed.
  if (command !== 'COMMIT') throw failure() ?? new Error('The database rolled back the transaction.');
  return systemClock.monotonic() - sentAtMs;
}

async function withClient<T>(pool: ConnectionPool, work: (client: PoolClient) => Promise<T>): Promise<T> {
  const client = await pool.connect();
  let fault: unknown;
  try {
    return await work(client);
  } catch (error) {
    fault = error;
    throw error;
  } finally {
    // A connection whose failure says something about it, or about its prepared statements, is not used again.
    const isSpoilt = isUnknownCommit(fault) || isLostOrReadOnly(fault) || isStalePlan(fault);
    client.release(isSpoilt);
  }
}
