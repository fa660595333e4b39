import type { Migration } from './migration.js';

/** The sign-in page asks whether there is any, the operator for the first. */
export const localAccounts: Migration = {
  version: 7,
  statements: ['CREATE INDEX account_local ON account (username) WHERE is_local = 1'],
};
