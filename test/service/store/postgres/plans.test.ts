import { afterEach, beforeEach, expect, it } from 'vitest';

import type { Query, SharedDatabase, Transaction } from '../../../../src/service/core/database.js';
import { findAttachment, listAttachmentsOfSession } from '../../../../src/service/store/attachments.js';
import {
  deleteRowsOfSession,
  deleteSession,
  FIRST_END,
  holdSession,
  listEnded,
} from '../../../../src/service/store/deleted-sessions.js';
import { listUnspread, listUnspreadFor, takeUnspread } from '../../../../src/service/store/inboxes.js';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import {
  deleteWordsOfSession,
  FIRST_WORD,
  indexTerms,
  listCandidates,
  listUnindexed,
  listUnindexedOf,
  listUnindexedOfAccount,
} from '../../../../src/service/store/search.js';
import { listStatements } from '../../../support/store-statements.js';
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

/** Returns PostgreSQL's plan for the queries of `work`. */
async function planOf(work: (query: Query) => Promise<unknown>): Promise<string> {
  const steps: string[] = [];
  await database.read(async (query) => {
    const all: Query['all'] = async (sql, ...parameters) => {
      const rows = await query.all<{ 'QUERY PLAN': string }>(`EXPLAIN ${sql}`, ...parameters);
      steps.push(...rows.map((row) => row['QUERY PLAN']));
      return [];
    };
    const get: Query['get'] = async (sql, ...parameters) => {
      await all(sql, ...parameters);
      return undefined;
    };
    const run: Query['run'] = async (sql, ...parameters) => {
      await all(sql, ...parameters);
      return 0;
    };
    await work({ ...query, all, get, run });
  });
  return steps.join('\n');
}

it('the newest of a long session are read at the end of an index, not gathered and sorted (D-186)', async () => {
  await database.write(async (transaction) => {
    await indexTerms(transaction, [{ session_id: SESSION, position: 1, terms: ['heron'] }]);
    await transaction.run(`INSERT INTO message_word (session, word, position)
      SELECT session, word, later FROM message_word CROSS JOIN generate_series(2, 20000) AS later`);
    // Sends the words in sessions with one message each, so that most sessions contain few of them.
    for (const said of ['word', 'other % 997'])
      await transaction.run(`INSERT INTO message_word (session, word, position)
        SELECT other, ${said}, other FROM message_word CROSS JOIN generate_series(20001, 70000) AS other WHERE position = 1`);
  });
  await database.aside.run('ANALYZE message_word');
  const plan = await planOf((query) => listCandidates(query, [ALL], ['heron'], Number.MAX_SAFE_INTEGER, 20));
  expect(plan).toContain('Index Only Scan Backward using message_word_pkey');
  expect(plan).not.toMatch(/Bitmap|Seq Scan on message_word/);
});

it('events that wait for inboxes or for search are looked up one by one, however few events there are', async () => {
  await database.write(async (transaction) => {
    await transaction.run(`INSERT INTO event (session_id, sequence, id, type, created_at, payload)
      SELECT '${SESSION}', each, 'evt_' || each, 'session.message', 1, '{}' FROM generate_series(1, 4000) AS each`);
    for (const queue of ['search_queue', 'inbox_queue']) {
      await transaction.run(`INSERT INTO ${queue} (position) SELECT position FROM event`);
      await transaction.run(`DELETE FROM ${queue} WHERE position < (SELECT MAX(position) FROM event)`);
    }
  });
  const plan = await planOf(async (query) => {
    await takeUnspread(query as Transaction, 500, 'free');
    await listUnspread(query, 500);
    await listUnspreadFor(query, { first: 'agt_1', last: 'agt_1' }, 500);
    await listUnspreadFor(query, { accountId: 'acc_1' }, 500);
    await listUnindexed(query, 200);
    await listUnindexedOf(query, { agentId: 'agt_1', counterpart: undefined, sessionId: undefined }, 0, 16);
    await listUnindexedOfAccount(query, 'acc', 0, 16);
  });
  expect(plan.match(/Index Scan using event_pkey on event .*\n\s+Index Cond/g)).toHaveLength(7);
});

it('a session is found by its age, and deleted, without reading the tables that hold everyone’s', async () => {
  await database.write(async (transaction) => {
    await transaction.run(`INSERT INTO account (id, username, display_name, tier, is_local, created_at, updated_at)
      VALUES ('acc', 'a', 'A', 'standard', 0, 1, 1)`);
    await transaction.run(`INSERT INTO agent (id, account_id, handle, owner, name, display_name, visibility, inbound_policy,
        can_initiate_sessions, is_paused, skills, created_at, updated_at)
      SELECT 'agt_' || each, 'acc', '@a.b' || each, 'a', 'b' || each, 'B', 'public', 'open', 1, 0, '[]', 1, 1
      FROM generate_series(1, 100) AS each`);
    await transaction.run(`INSERT INTO session (id, state, last_sequence, created_at, ended_at)
      SELECT 'sess_' || each, 'ended', 2, 1, each FROM generate_series(1, 20000) AS each`);
    await transaction.run(`INSERT INTO participant (session_id, agent_id, handle, position, status, was_joined_at_end,
        session_state, is_open)
      SELECT 'sess_' || each, 'agt_' || (1 + (each + two) % 100), '@a.b', two, 'joined', 1, 'ended', 1
      FROM generate_series(1, 20000) AS each CROSS JOIN generate_series(0, 1) AS two`);
    await transaction.run(`INSERT INTO inbox (agent_id, session_id, session_state, changed_at, last_sequence,
        delivered_sequence, is_pending)
      SELECT agent_id, session_id, 'ended', 1, 2, 2, 0 FROM participant`);
    await transaction.run(`INSERT INTO idempotency_record (actor_id, endpoint, key_hash, fingerprint, status, body, created_at)
      SELECT agent_id, 'POST /sessions/' || session_id || '/messages', session_id, '', 201, '', 1 FROM participant`);
    await transaction.run(`INSERT INTO event (session_id, sequence, id, type, created_at, payload)
      SELECT session_id, position + 1, session_id || ' ' || position, 'session.joined', 1, '{}' FROM participant`);
    await transaction.run(`INSERT INTO taken (session_id, sequence, agent_id, taken_at)
      SELECT session_id, 1, agent_id, 1 FROM participant`);
    await transaction.run(`INSERT INTO attachment (id, agent_id, filename, content_type, size, sha256, session_id, sequence, created_at)
      SELECT 'att_' || session_id, agent_id, 'f', 't', 1, '', session_id, 1, 1 FROM participant WHERE position = 0`);
  });
  for (const table of ['session', 'participant', 'inbox', 'idempotency_record', 'event', 'taken', 'attachment'])
    await database.aside.run(`ANALYZE ${table}`);
  const plan = await planOf(async (query) => {
    await listEnded(query, 500, FIRST_END, 200);
    await holdSession(query as Transaction, 'sess_7');
    await deleteSession(query as Transaction, 'sess_7');
    await deleteRowsOfSession(query as Transaction, 'sess_7', 200);
    await listAttachmentsOfSession(query, 'sess_7', 200);
    await deleteWordsOfSession(query as Transaction, 'sess_7', FIRST_WORD, 200);
    await findAttachment(query, 'att_sess_7');
  });
  expect(plan).toContain('session_ended');
  expect(plan).not.toMatch(/Seq Scan on (session|participant|inbox|idempotency_record|event|taken|attachment)/);
});

// Most of the dashboard is tested on SQLite alone (vitest.config.ts).
it('PostgreSQL understands every statement of the store', async () => {
  const statements = [...(await listStatements('postgres'))];
  const refused: string[] = [];
  for (const [at, [name, sql]] of statements.entries())
    await database
      .read((query) => query.all(`PREPARE known_${at} AS ${sql}`))
      .catch((error: unknown) => refused.push(`${name}: ${error}`));
  expect(refused).toEqual([]);
  expect(statements.length).toBeGreaterThan(350);
});
