import { readdirSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Transaction } from '../../../src/service/core/database.js';
import { prepareSchema, toSqlite } from '../../../src/service/store/sqlite.js';
import { loadSqlite, type SqliteConnection } from '../../../src/service/store/sqlite-driver.js';

const STORE = new URL('../../../src/service/store/', import.meta.url);
/** Intended scans: of a few rows, from the oldest with a limit, or of a list passed as a parameter. */
const MAY_BE_WALKED: readonly RegExp[] = [
  /^SCAN (search_progress|inbox_progress|service_key|signing_key|server_process|deleted_session)\b/,
  /^SCAN (CONSTANT ROW|\d+ CONSTANT ROWS?)\b/,
  /^SCAN (absence USING INDEX absence_by_age|socket USING INDEX socket_by_process|account USING INDEX account_(with_password|local))$/,
  // Whether there is one.
  /^SCAN webhook EXISTS\b/,
  /^SCAN (asked|each|word|json_each|pragma_page_(count|size)) VIRTUAL TABLE INDEX \d+:$/,
];
/** Statements of the operator's command line, of the start of a service and of tests, which are rare and cover everything. */
const ASKED_FOR_EVERYTHING =
  /^(?:deleted-sessions\.ts deleteAllButAgents|webhooks\.ts queueAllWebhooks|operator\.ts (?:countAll|countOldSessions|measureDatabase|sumAttachmentBytes|listInvitations)) /;
/** The databases themselves, and queries that only one of them uses. */
const DATABASES = /^(sql\b|sqlite|postgres|prepare-postgres|migrate-postgres|schema|epochs|stored-limits)/;

/** Earlier steps of the plan find the rows of a subquery. */
const isSubquery = (detail: string, sql: string): boolean => sql.includes(`) AS ${detail.slice(5)}`);

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

/** Returns every statement that a function of a rows file makes for any arguments. */
async function statementsOf(make: (...parameters: never[]) => unknown): Promise<string[]> {
  const statements: string[] = [];
  const note =
    <T>(reply: T) =>
    async (sql: string) => {
      statements.push(sql);
      return reply;
    };
  const recorder: Transaction = {
    dialect: 'sqlite',
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

describe('every statement of the store', async () => {
  const files = readdirSync(STORE).filter((name) => !DATABASES.test(name));
  const found = new Map<string, string>();
  for (const file of files) {
    const module: Record<string, unknown> = await import(new URL(file, STORE).pathname);
    for (const [name, make] of Object.entries(module)) {
      if (typeof make !== 'function') continue;
      const statements = await statementsOf(make as (...parameters: never[]) => unknown);
      for (const [index, sql] of new Set(statements).entries()) {
        const asked = `${file} ${name} ${index}`;
        if (!ASKED_FOR_EVERYTHING.test(asked)) found.set(asked, String(sql));
      }
    }
  }
  let connection: SqliteConnection;
  beforeAll(async () => {
    connection = (await loadSqlite())(':memory:');
    prepareSchema(connection);
  });
  afterAll(() => connection.close());

  it('is covered by this test', () => expect(found.size).toBeGreaterThan(60));

  it.each([...found])('%s finds its rows by an index', (_name, sql) => {
    const plan = connection.prepare(`EXPLAIN QUERY PLAN ${toSqlite(sql)}`).all() as {
      detail: string;
    }[];
    const walks = plan
      .map((step) => step.detail)
      .filter((detail) => detail.startsWith('SCAN') && !isSubquery(detail, sql))
      .filter((detail) => !MAY_BE_WALKED.some((pattern) => pattern.test(detail)));
    expect(walks).toEqual([]);
  });
});
