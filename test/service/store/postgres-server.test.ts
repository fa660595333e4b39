import { expect, it } from 'vitest';

import { whyNoPostgres } from '../../support/postgres-server.js';

const reason = await whyNoPostgres();

it.skipIf(reason !== undefined)(
  `what rests on the store is tested on PostgreSQL too${reason === undefined ? '' : `, but not here: ${reason}`}`,
  () => {
    expect(process.env['ASP_TEST_STORE']).toBe('postgres');
  },
);
