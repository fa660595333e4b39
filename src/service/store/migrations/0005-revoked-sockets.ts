import type { Migration } from './migration.js';

/** A socket that must be closed says so in its row, where the service that has it finds it whatever became of the bell. */
export const revokedSockets: Migration = {
  version: 5,
  statements: [
    'ALTER TABLE socket ADD COLUMN revoked_at BIGINT',
    'CREATE INDEX socket_by_grant ON socket (grant_id)',
    'CREATE INDEX socket_revoked ON socket (process_id) WHERE revoked_at IS NOT NULL',
  ],
};
