import type { Transaction } from './database.js';
import { type PreparedConnection, runStep } from './sqlite-query.js';

const WRITES_PER_COMMIT_MAX = 256;
const WAITING_WRITES_MAX = 10_000;

/** One after the other. */
export type Turns = <T>(work: () => Promise<T>) => Promise<T>;

export function createTurns(): Turns {
  let last: Promise<unknown> = Promise.resolve();
  return (work) => {
    const turn = last.then(work);
    last = turn.catch(() => {});
    return turn;
  };
}

interface Waiting {
  /** Runs the work; the answer settles its caller once the fate of the transaction is known. */
  run(): Promise<() => void>;
  fail(error: unknown): void;
}

export interface GroupCommit {
  write<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** Why the last commit failed; undefined: it did not. */
  fault(): unknown;
  drain(): Promise<void>;
}

/**
 * Writes that arrive in one turn of the event loop share one transaction and one fsync. Nobody is answered, not even
 * refused, before COMMIT has returned: a refusal may rest on what another work of the same transaction wrote.
 */
export function createGroupCommit(
  prepared: PreparedConnection,
  turns: Turns,
  onFault: (error: unknown) => void,
  onCommit: (writes: number) => void = () => {},
): GroupCommit {
  const waiting: Waiting[] = [];
  let running: Promise<void> | undefined;
  let fault: unknown;

  const runAll = async (): Promise<void> => {
    while (waiting.length > 0) {
      await new Promise(setImmediate);
      const group = waiting.splice(0, WRITES_PER_COMMIT_MAX);
      fault = await turns(() => commitTogether(prepared, group));
      onCommit(group.length);
    }
    running = undefined;
  };

  return {
    write: (work) =>
      new Promise((resolve, reject) => {
        if (waiting.length >= WAITING_WRITES_MAX) return reject(new Error('Too many writes are waiting.'));
        waiting.push({
          async run() {
            try {
              const { result, effects } = await runStep(prepared, work);
              return () => {
                for (const effect of effects) runEffect(effect, onFault);
                resolve(result);
              };
            } catch (error) {
              return () => reject(error);
            }
          },
          fail: reject,
        });
        running ??= runAll();
      }),
    fault: () => fault,
    async drain() {
      await running;
    },
  };
}

/** Why it failed, if it did. */
async function commitTogether(prepared: PreparedConnection, group: readonly Waiting[]): Promise<unknown> {
  const { connection } = prepared;
  try {
    prepared.prepare('BEGIN IMMEDIATE').run();
    const settlements: (() => void)[] = [];
    for (const member of group) {
      settlements.push(await member.run());
      if (!connection.isTransaction) throw new Error('The database gave up the transaction.');
    }
    prepared.prepare('COMMIT').run();
    for (const settle of settlements) settle();
    return undefined;
  } catch (cause) {
    rollBack(prepared);
    const error = new Error('The write was not committed.', { cause });
    for (const member of group) member.fail(error);
    return error;
  }
}

function rollBack(prepared: PreparedConnection): void {
  try {
    if (prepared.connection.isTransaction) prepared.prepare('ROLLBACK').run();
  } catch {
    // BEGIN of the next group fails for as long as this one stands, so that nothing is acknowledged meanwhile.
  }
}

function runEffect(effect: () => void, onFault: (error: unknown) => void): void {
  try {
    effect();
  } catch (error) {
    onFault(error);
  }
}
