/** The state of a session, its participants and its numbers. */
export const sessionLock = (sessionId: string): string => `session ${sessionId}`;

/** An agent's existence, allowlist and blocks: shared by inviters, exclusive for changes. */
export const agentLock = (handle: string): string => `agent ${handle}`;

/** What is known about the strangers that a handle refused. */
export const knockLock = (handle: string): string => `knock ${handle}`;

/** All refusals of one inviter. */
export const inviterLock = (agentId: string): string => `inviter ${agentId}`;

/** Who can sign in to an account, and the words by which it and its agents are found. */
export const accountLock = (accountId: string): string => `account ${accountId}`;

/** The push notifications of an account. */
export const pushLock = (accountId: string): string => `push ${accountId}`;

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
