import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { prepareSchema, toSqlite } from '../../../src/service/store/sqlite.js';
import { loadSqlite, type SqliteConnection } from '../../../src/service/store/sqlite-driver.js';
import { listStatements } from '../../support/store-statements.js';

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
/** Earlier steps of the plan find the rows of a subquery. */
const isSubquery = (detail: string, sql: string): boolean => sql.includes(`) AS ${detail.slice(5)}`);

describe('every statement of the store', async () => {
  const found = [...(await listStatements('sqlite'))].filter(([name]) => !ASKED_FOR_EVERYTHING.test(name));
  let connection: SqliteConnection;
  beforeAll(async () => {
    connection = (await loadSqlite())(':memory:');
    prepareSchema(connection);
  });
  afterAll(() => connection.close());

  it('is covered by this test', () => expect(found.length).toBeGreaterThan(60));

  it.each(found)('%s finds its rows by an index', (_name, sql) => {
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
