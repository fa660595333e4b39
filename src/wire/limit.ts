/** Every number of the specification and of the contract, once, with its unit in its name (spec: Limits). */

export const ACCESS_TOKEN_LIFETIME_S = 900;
export const REFRESH_TOKEN_IDLE_LIFETIME_S = 30 * 24 * 60 * 60;
export const REFRESH_THRESHOLD_S = 60;
export const AUTHORIZATION_CODE_LIFETIME_S = 60;
export const AUTHORIZATION_REQUEST_LIFETIME_S = 10 * 60;
export const CODE_VERIFIER_MIN_LENGTH = 43;
export const CODE_VERIFIER_MAX_LENGTH = 128;

export const ATTACHMENTS_PER_MESSAGE_MAX = 5;
export const ATTACHMENT_MAX_BYTES = 10 * 1024 * 1024;
export const ATTACHMENT_URL_LIFETIME_S = 5 * 60;
export const UPLOADS_PER_AGENT_MAX = 16;
/** Of one agent, beside those that are being received. */
export const UPLOADS_WAITING_MAX = 100;
export const PENDING_ATTACHMENT_LIFETIME_S = 60 * 60;
export const ATTACHMENT_FILENAME_MAX_LENGTH = 180;

export const MESSAGE_BODY_MAX_BYTES = 256 * 1024;
export const TOPIC_MAX_LENGTH = 500;
export const INVITEES_PER_CALL_MAX = 100;
export const JSON_DEPTH_MAX = 64;
/** Members and elements at any depth, the whole counted as one. */
export const JSON_VALUES_MAX = 10_000;

/** Requests that are in work, or whose answers have not gone out whole. */
export const REQUESTS_PER_AGENT_MAX = 32;
export const REQUESTS_PER_ACCOUNT_MAX = 64;
/** Behind a proxy, which says whose they are. */
export const REQUESTS_PER_ADDRESS_MAX = 256;
/** Of one agent, beside those that are in work. */
export const REQUESTS_WAITING_MAX = 2_000;
/** What the requests of one agent may bring each second, each counted as 4 KiB and its JSON body; and at once after a pause. */
export const AGENT_BYTES_PER_SECOND = 2 * 1024 * 1024;
export const AGENT_BURST_BYTES = 8 * 1024 * 1024;
export const ACCOUNT_BYTES_PER_SECOND = 8 * 1024 * 1024;
export const ACCOUNT_BURST_BYTES = 32 * 1024 * 1024;
/** A body up to this size is received whatever else is on its way. */
export const SMALL_BODY_MAX_BYTES = 16 * 1024;
/** Larger bodies that are on their way at one moment, of all agents together. */
export const LARGE_BODIES_MAX = 128;

export const IDEMPOTENCY_KEY_LIFETIME_S = 24 * 60 * 60;
export const IDEMPOTENCY_KEY_MAX_LENGTH = 255;

export const LIST_LIMIT_MAX = 100;
export const LIST_LIMIT_DEFAULT = 50;
export const REPLAY_LIMIT_MAX = 1000;
export const REPLAY_LIMIT_DEFAULT = 100;
export const SEARCH_LIMIT_MAX = 50;
export const MESSAGE_SEARCH_LIMIT_MAX = 100;
export const SEARCH_LIMIT_DEFAULT = 20;
export const SEARCH_QUERY_MIN_LENGTH = 2;
export const SEARCH_QUERY_MAX_LENGTH = 100;

export const SOCKET_FRAME_MAX_BYTES = 64 * 1024;
export const SOCKET_BUFFER_MAX_BYTES = 1024 * 1024;
/** Between two pings of the service; a client needs one. */
export const SOCKET_FRAMES_MAX = 1_000;
export const SOCKETS_PER_AGENT_MAX = 16;

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** What a rate limit is counted by (spec: Rate limits, column Scope). */
export type RateLimitSubject = 'agent' | 'session' | 'open_agent' | 'client';

/** One row of the specification's rate-limit table: `count` calls in any window of `window_ms`. */
export interface RateLimit {
  readonly count: number;
  readonly window_ms: number;
  readonly subject: RateLimitSubject;
}

/** (spec: Limits, Rate limits) */
export const RATE_LIMIT = {
  createSession: { count: 30, window_ms: HOUR_MS, subject: 'agent' },
  sendMessage: { count: 60, window_ms: MINUTE_MS, subject: 'session' },
  sendToOpenAgent: { count: 500, window_ms: HOUR_MS, subject: 'open_agent' },
  search: { count: 30, window_ms: MINUTE_MS, subject: 'agent' },
  uploadAttachment: { count: 60, window_ms: HOUR_MS, subject: 'agent' },
  general: { count: 300, window_ms: MINUTE_MS, subject: 'agent' },
  issueToken: { count: 120, window_ms: MINUTE_MS, subject: 'client' },
} as const satisfies Record<string, RateLimit>;
export type RateLimitName = keyof typeof RATE_LIMIT;

/** Limits of `asp serve` beside those of the specification; what each counts is in docs/contract.md, "Limits of our own". */
export const OWN_RATE_LIMIT = {
  /** Messages of one account to an open agent that does not list it: a fifth of what reaches the agent in all. */
  sendAsStranger: { count: 100, window_ms: HOUR_MS },
  /** Invitations of one agent by one account that it does not list. */
  inviteAsStranger: { count: 50, window_ms: HOUR_MS },
  /** Invitations of one agent by all accounts that it does not list. */
  inviteByStrangers: { count: 500, window_ms: HOUR_MS },
  /** Sessions that all agents of one account create; the operator may say another count. */
  createSessionOfAccount: { count: 300, window_ms: HOUR_MS },
  /** Downloads of all that an account has: each may read very much. */
  exportAccount: { count: 10, window_ms: HOUR_MS },
  /** The rest from one address. */
  registerClient: { count: 20, window_ms: HOUR_MS },
  signUp: { count: 20, window_ms: HOUR_MS },
  /** Each leaves a stored request for ten minutes. */
  authorize: { count: 200, window_ms: 10 * MINUTE_MS },
  /** Each asks a stranger's server for a client document. */
  fetchClientDocument: { count: 60, window_ms: HOUR_MS },
} as const satisfies Record<string, Omit<RateLimit, 'subject'>>;
export type OwnRateLimitName = keyof typeof OWN_RATE_LIMIT;

export const PARTICIPANTS_PER_SESSION_MAX = 1_000;
/** A call that invites costs one call of the general limit for each started hundred of those it reaches. */
export const INVITED_PER_CALL_COST = 100;
/** Participants in one page of a list of sessions; a page may end before its limit. */
export const LISTED_PARTICIPANTS_MAX = 2_000;

/**
 * Added wait before each retry, in milliseconds: nothing beyond `Retry-After` before the first, then a random amount
 * from the range (spec: Rate limits, recommended back-off). Five tries in all.
 */
export const RETRY_JITTER_MS: readonly (readonly [min: number, max: number])[] = [
  [0, 0],
  [1 * SECOND_MS, 3 * SECOND_MS],
  [4 * SECOND_MS, 8 * SECOND_MS],
  [10 * SECOND_MS, 20 * SECOND_MS],
];
