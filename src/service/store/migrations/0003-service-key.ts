import { randomBytes } from 'node:crypto';

import type { Migration } from './migration.js';

/** The one secret of this service, from which keys are derived for each purpose; made where the data is made. */
export const serviceKey: Migration = {
  version: 3,
  get statements() {
    return [
      `CREATE TABLE service_key (
        secret TEXT NOT NULL
      )`,
      `INSERT INTO service_key (secret) VALUES ('${randomBytes(32).toString('base64url')}')`,
    ];
  },
};
