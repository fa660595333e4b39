import type { ClientBase } from 'pg';
import type { Clock } from '../../kit/clock.js';
import type { Transaction } from '../core/database.js';
import { isOutage, OperatorError } from '../core/errors.js';
import { keepScope } from '../core/request-scope.js';
import { estimateWaitMs } from '../core/semaphore.js';
import { type Ask, type Committed, createQuery, type Done, tryNames } from './postgres-query.js';

type Step<T> = (transaction: Transaction) => Promise<T>;

/** A write that names all of its locks before it begins, and so can share its transaction with others. */
interface Member {
  /** Its locks, each once. */
  readonly holds: readonly string[];
  /** Returns what to do once the transaction is durable. */
  run(transaction: Transaction, effects: readonly (() => void)[]): Promise<() => void>;
  /** Runs in its own transaction. */
  runAlone(): void;
  fail(error: unknown): void;
}

/** One is filled while the other waits for the disk. */
const GROUPS_MAX = 2;
const MEMBERS_MAX = 64;

export interface WriteGroups {
  /** `work` may only lock `holds`. */
  write<T>(work: Step<T>, holds: readonly string[]): Promise<T>;
  /** How long a write that comes now will wait for its group. */
  waitMs(): number;
  /** How many writes wait for theirs. */
  waiting(): number;
  /** Accepts nothing new, and resolves when no group is left; undefined: there is none. */
  close(): Promise<void> | undefined;
}

export interface GroupOptions {
  readonly clock: Clock;
  readonly schema: string;
  readonly waitingMax: number;
  readonly patienceMs: number;
  /** Whether the running calls make no progress. */
  readonly isStuck: () => boolean;
  /** Runs this in one transaction, once. */
  readonly transact: (run: (client: ClientBase) => Promise<Done<Outcomes>>) => Promise<Committed<Outcomes>>;
  readonly writeAlone: <T>(work: Step<T>) => Promise<T>;
  readonly onFault: (error: unknown) => void;
  /** Called with the number of writes in a commit, and how long it took. */
  readonly onCommit: (writes: number, ms: number) => void;
  readonly onUnknownCommit: () => void;
}

interface Waiting {
  readonly member: Member;
  readonly sinceMs: number;
  /** How many groups had begun when it came. */
  readonly turns: number;
}

/**
 * Writes that arrive while others are being committed share the next transaction and its flush, as on SQLite. A write
 * that needs a lock of a running group waits for that group here, not in the database. No write fails another: if one of
 * them fails after it has written, or the transaction fails, each of them runs alone.
 */
export function createWriteGroups(options: GroupOptions): WriteGroups {
  const { clock, patienceMs, onFault } = options;
  /** Locks of the running groups. */
  const held = new Set<string>();
  let waiting: Waiting[] = [];
  let running = 0;
  let turns = 0;
  let isDue = false;
  let isClosed = false;
  let onIdle: (() => void) | undefined;
  let isWatched = false;

  /** A write does not overtake an earlier one with the same lock. */
  const takeNext = (): Member[] => {
    const passed = new Set(held);
    const group: Member[] = [];
    const left: Waiting[] = [];
    for (const one of waiting)
      if (group.length < MEMBERS_MAX && !one.member.holds.some((name) => passed.has(name))) group.push(one.member);
      else {
        left.push(one);
        for (const name of one.member.holds) passed.add(name);
      }
    waiting = left;
    return group;
  };
  const runGroup = async (group: readonly Member[]): Promise<void> => {
    const names = new Set(group.flatMap(({ holds }) => holds));
    for (const name of names) held.add(name);
    running += 1;
    turns += 1;
    await commitTogether(options, group, names);
    for (const name of names) held.delete(name);
    running -= 1;
    beginAll();
  };
  const beginAll = (): void => {
    isDue = false;
    while (running < GROUPS_MAX) {
      const group = takeNext();
      if (group.length === 0) break;
      runGroup(group).catch(onFault);
    }
    if (running === 0 && waiting.length === 0) onIdle?.();
  };
  /** Ends the wait of those that have waited enough for a database that does not respond. */
  const look = (): void => {
    isWatched = false;
    const before = options.isStuck() ? clock.monotonic() - patienceMs : Number.NEGATIVE_INFINITY;
    const late = waiting.filter(({ sinceMs }) => sinceMs <= before);
    waiting = waiting.filter(({ sinceMs }) => sinceMs > before);
    for (const { member } of late) member.fail(new OperatorError('DATABASE_LOST', 'The database does not respond.'));
    if (waiting.length > 0) watch();
  };
  const watch = (): void => {
    if (!isWatched) clock.schedule(patienceMs, look, true);
    isWatched = true;
  };

  return {
    write: <T>(work: Step<T>, holds: readonly string[]) =>
      new Promise<T>((resolve, reject) => {
        if (isClosed) throw new Error('The database is closed.');
        if (waiting.length >= options.waitingMax)
          throw new OperatorError('DATABASE_LOST', 'Too many calls are waiting for the database.');
        const member: Member = {
          holds: [...new Set(holds)],
          // A group runs in the scope of its first member.
          run: keepScope(async (transaction: Transaction, effects: readonly (() => void)[]) => {
            const result = await work(transaction);
            return keepScope(() => {
              for (const effect of effects) runEffect(effect, onFault);
              resolve(result);
            });
          }),
          runAlone: keepScope(() => void options.writeAlone(work).then(resolve, reject)),
          fail: reject,
        };
        waiting.push({ member, sinceMs: clock.monotonic(), turns });
        watch();
        if (!isDue) setImmediate(beginAll);
        isDue = true;
      }),
    waiting: () => waiting.length,
    waitMs() {
      const [first] = waiting;
      if (first === undefined) return 0;
      const firstWaitedMs = clock.monotonic() - first.sinceMs;
      const turnsAhead = Math.ceil(waiting.length / MEMBERS_MAX);
      return estimateWaitMs({ firstWaitedMs, turnsSince: turns - first.turns, turnsAhead });
    },
    close() {
      isClosed = true;
      if (running === 0 && waiting.length === 0) return undefined;
      return new Promise((resolve) => {
        onIdle = resolve;
      });
    },
  };
}

export function runEffect(effect: () => void, onFault: (error: unknown) => void): void {
  try {
    effect();
  } catch (error) {
    onFault(error);
  }
}

/** For each member, what to do once the transaction is durable. */
type Outcomes = readonly (() => void)[];

async function commitTogether(
  { transact, schema, onCommit, onUnknownCommit }: GroupOptions,
  group: readonly Member[],
  names: ReadonlySet<string>,
): Promise<void> {
  try {
    const { result, commitMs } = await transact((client) => runTogether(client, schema, group, names));
    onCommit(group.length, commitMs);
    for (const settle of result) settle();
  } catch (error) {
    const isUnknown = isOutage(error) && error.code === 'COMMIT_UNKNOWN';
    for (const member of group) {
      if (isUnknown) onUnknownCommit();
      if (isUnknown) member.fail(error);
      else member.runAlone();
    }
  }
}

/** The state that all members of a transaction share. */
interface Shared {
  readonly client: ClientBase;
  /** The names that others hold, known before any member gets its first answer. */
  readonly taken: Promise<ReadonlySet<string>>;
  /** Why nothing of this transaction may be committed. */
  failure: unknown;
}

/**
 * Members with a common lock run one after the other, all others at once, so that what they ask travels together. No
 * member waits for a lock in the database, which would delay the others: if its lock is taken, it runs alone.
 */
async function runTogether(
  client: ClientBase,
  schema: string,
  group: readonly Member[],
  names: ReadonlySet<string>,
): Promise<Done<Outcomes>> {
  const query = createQuery((statement) => client.query(statement));
  const taken = tryNames(query, schema, [...names]);
  // Members may still be waiting for other answers when it fails, and an error that no one waits for ends the process.
  taken.catch(() => {});
  const shared: Shared = { client, taken, failure: undefined };
  const tails = new Map<string, Promise<unknown>>();
  const outcomes = group.map((member) => {
    const before = member.holds.map((name) => tails.get(name));
    const outcome = Promise.all(before).then(() => runMember(shared, member));
    for (const name of member.holds) tails.set(name, outcome);
    return outcome;
  });
  const result = await Promise.all(outcomes);
  await shared.taken;
  if (shared.failure !== undefined) throw shared.failure;
  return { result, effects: [], failure: () => shared.failure };
}

const READS = /^\s*SELECT\b/;

/** Never throws: what has failed for all of them is noted in `shared`. */
async function runMember(shared: Shared, member: Member): Promise<() => void> {
  const effects: (() => void)[] = [];
  let writes = 0;
  let isFree = false;
  let isTaken = false;
  let isOver = false;
  const learn = async (): Promise<void> => {
    const taken = await shared.taken;
    isTaken = member.holds.some((name) => taken.has(name));
    isFree = !isTaken;
    if (isTaken) throw new Error('Another transaction holds the lock of this write.');
  };
  const ask: Ask = async (statement) => {
    if (isOver) throw new Error('This query was used after its work ended.');
    if (!READS.test(statement.text)) {
      if (!isFree) await learn();
      writes += 1;
    }
    const answer = await shared.client.query(statement).catch((error: unknown) => {
      shared.failure ??= error;
      throw error;
    });
    if (!isFree) await learn();
    return answer;
  };
  const query = createQuery(ask);
  const transaction: Transaction = {
    ...query,
    async lock(names) {
      if (names.every((name) => member.holds.includes(name))) return;
      shared.failure ??= new Error('A write locked more than it had announced.');
      throw shared.failure;
    },
    send(sql, ...parameters) {
      query.run(sql, ...parameters).catch(() => {});
    },
    afterCommit: (effect) => effects.push(effect),
    async attempt(step) {
      const [kept, before] = [effects.length, writes];
      try {
        return await step(transaction);
      } catch (error) {
        effects.length = kept;
        if (writes > before) shared.failure ??= error;
        throw error;
      }
    },
  };
  try {
    if (shared.failure !== undefined) throw shared.failure;
    return await member.run(transaction, effects);
  } catch (error) {
    if (isTaken) return member.runAlone;
    if (writes > 0) shared.failure ??= error;
    return () => member.fail(error);
  } finally {
    isOver = true;
  }
}
