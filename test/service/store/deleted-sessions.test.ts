import { describe, expect, it } from 'vitest';

import { deleteAllButAgents } from '../../../src/service/store/deleted-sessions.js';
import { openSqlite } from '../../../src/service/store/sqlite.js';

/** Who there is, who is signed in, and how far the service's own work is. */
const KEPT = [
  ...['account', 'account_session', 'activity', 'agent', 'authorization_code', 'authorization_request'],
  ...['entry_link', 'epoch', 'oauth_client', 'operator_action', 'passkey', 'push_subscription', 'schema_version'],
  ...['refresh_family', 'refresh_token', 'server_process', 'service_key', 'signing_key', 'socket'],
  ...['used_challenge', 'inbox_progress', 'search_progress', 'search_term'],
];

describe('The reset between tests', () => {
  it('empties each table, or keeps it on purpose', async () => {
    const database = await openSqlite('memory');
    const emptied: string[] = [];
    await database.write(async (transaction) => {
      await deleteAllButAgents({
        ...transaction,
        run: async (sql, ...values) => {
          emptied.push(/^DELETE FROM (\w+)/.exec(sql)?.[1] ?? sql);
          return transaction.run(sql, ...values);
        },
      });
    });
    const tables = await database.read((query) =>
      query.all<{ name: string }>("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"),
    );
    await database.close();
    const hint = 'add a new table to ACTIVITY_TABLES in src/service/store/deleted-sessions.ts, or to KEPT in this test';
    expect([...emptied, ...KEPT].sort(), hint).toEqual(tables.map(({ name }) => name).sort());
  });
});
