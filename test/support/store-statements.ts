import { readdirSync } from 'node:fs';

import type { Transaction } from '../../src/service/core/database.js';

const STORE = new URL('../../src/service/store/', import.meta.url);
/** The databases themselves, and queries that only one of them uses. */
const DATABASES = /^(sql\b|sqlite|postgres|prepare-postgres|migrate-postgres|schema|epochs|stored-limits)/;

/** A stand-in for any argument: every member is another stand-in, it is iterable, and its text is `1`. */
function anything(): never {
  const target = (): unknown => anything();
  return new Proxy(target, {
    get: (_, name) => {
      if (name === Symbol.toPrimitive) return () => '1';
      if (name === Symbol.iterator) return function* () {};
      if (name === 'then') return undefined;
      if (name === 'length') return 0;
      return anything();
    },
  }) as never;
}

/** Inserts the members of a row, of which a stand-in has none. It reads nothing. */
const INSERT_ROW = / \(\) VALUES \(\)/;

/** Returns every statement that a function of a rows file makes for any arguments. */
async function statementsOf(
  make: (...parameters: never[]) => unknown,
  dialect: Transaction['dialect'],
): Promise<string[]> {
  const statements: string[] = [];
  const note =
    <T>(reply: T) =>
    async (sql: string) => {
      if (!INSERT_ROW.test(sql)) statements.push(sql);
      return reply;
    };
  const recorder: Transaction = {
    dialect,
    lock: async () => {},
    all: note([]) as Transaction['all'],
    get: note(undefined) as Transaction['get'],
    run: note(1) as Transaction['run'],
    send: (sql) => void statements.push(sql),
    afterCommit: () => {},
    attempt: (step) => step(recorder),
  };
  for (const argument of [anything(), undefined as never]) {
    try {
      await make(recorder as never, ...Array.from({ length: 8 }, () => argument));
    } catch {
      // Only the queries before it found no rows matter.
    }
  }
  return statements;
}

/** Every statement of the store as it is for that kind of database, by file, function and number. */
export async function listStatements(dialect: Transaction['dialect']): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>();
  for (const file of readdirSync(STORE).filter((name) => !DATABASES.test(name))) {
    const module: Record<string, unknown> = await import(new URL(file, STORE).pathname);
    for (const [name, make] of Object.entries(module)) {
      if (typeof make !== 'function') continue;
      const statements = await statementsOf(make as (...parameters: never[]) => unknown, dialect);
      for (const [index, sql] of new Set(statements).entries()) found.set(`${file} ${name} ${index}`, String(sql));
    }
  }
  return found;
}
