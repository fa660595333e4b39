import type { Migration } from './migration.js';

/** The sign-in page asks whether there is any. */
export const localAccounts: Migration = {
  version: 7,
  statements: ['CREATE INDEX account_local ON account (id) WHERE is_local = 1'],
};
