/** The state of a session, its participants and its numbers. */
export const sessionLock = (sessionId: string): string => `session ${sessionId}`;

/** Whom an agent lets in and shuts out, and whether it is there: shared by those who invite it, alone for those who change it. */
export const agentLock = (handle: string): string => `agent ${handle}`;

/** By which words an account and its agents are found. */
export const accountLock = (accountId: string): string => `account ${accountId}`;

/** One logical operation (spec: Idempotency, rule 2). */
export const keyLock = (actorId: string, endpoint: string, keyHash: string): string =>
  `key ${actorId} ${endpoint} ${keyHash}`;

/** One authorization code or refresh token, by its hash. */
export const secretLock = (hash: string): string => `secret ${hash}`;

export const LOCAL_AGENTS_LOCK = 'local agents';
export const SIGNING_KEYS_LOCK = 'signing keys';
export const SEARCH_INDEX_LOCK = 'search index';
export const EPOCH_LOCK = 'epoch';
export const SCHEMA_LOCK = 'schema';
