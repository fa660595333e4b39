import { afterEach, beforeEach, expect, it } from 'vitest';

import type { Query, SharedDatabase } from '../../../../src/service/core/database.js';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import { indexTerms, listCandidates } from '../../../../src/service/store/search.js';
import { createSchema, type Schema } from '../../../support/stores.js';

const SESSION = 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV';
const ALL = { session_id: SESSION, until: Number.MAX_SAFE_INTEGER };

let schema: Schema;
let database: SharedDatabase;
beforeEach(async () => {
  schema = createSchema();
  database = await openPostgres(schema.url);
});
afterEach(async () => {
  await database.close();
  await schema.drop();
});

/** How PostgreSQL would answer what `work` asks. */
async function planOf(work: (query: Query) => Promise<unknown>): Promise<string> {
  const steps: string[] = [];
  await database.read(async (query) => {
    const all: Query['all'] = async (sql, ...parameters) => {
      const rows = await query.all<{ 'QUERY PLAN': string }>(`EXPLAIN ${sql}`, ...parameters);
      steps.push(...rows.map((row) => row['QUERY PLAN']));
      return [];
    };
    await work({ ...query, all });
  });
  return steps.join('\n');
}

it('the newest of a long session are read at the end of an index, not gathered and sorted (D-186)', async () => {
  await database.write(async (transaction) => {
    await indexTerms(transaction, { session_id: SESSION, position: 1 }, ['heron']);
    await transaction.run(`INSERT INTO message_word (session, word, position)
      SELECT session, word, later FROM message_word CROSS JOIN generate_series(2, 20000) AS later`);
    // Said elsewhere too, in sessions of one message: so few of a word are in a session as a rule.
    for (const said of ['word', 'other % 997'])
      await transaction.run(`INSERT INTO message_word (session, word, position)
        SELECT other, ${said}, other FROM message_word CROSS JOIN generate_series(20001, 70000) AS other WHERE position = 1`);
  });
  await database.aside.run('ANALYZE message_word');
  const plan = await planOf((query) => listCandidates(query, [ALL], ['heron'], Number.MAX_SAFE_INTEGER, 20));
  expect(plan).toContain('Index Only Scan Backward using message_word_pkey');
  expect(plan).not.toMatch(/Bitmap|Seq Scan on message_word/);
});
