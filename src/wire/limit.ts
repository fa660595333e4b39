/** Every number in the specification and the contract, once, with its unit in its name (spec: Limits). */

/** Access tokens, from their issue (spec: Tokens). */
export const ACCESS_TOKEN_LIFETIME_S = 900;
/** Refresh tokens, from their last use. */
export const REFRESH_TOKEN_IDLE_LIFETIME_S = 30 * 24 * 60 * 60;
/** A client renews an access token this long before it expires. */
export const REFRESH_THRESHOLD_S = 60;
/** Authorization codes, from their issue to their exchange. */
export const AUTHORIZATION_CODE_LIFETIME_S = 60;
/** Authorization requests that wait for the account holder. */
export const AUTHORIZATION_REQUEST_LIFETIME_S = 10 * 60;
/** Characters of a PKCE code verifier (RFC 7636 §4.1). */
export const CODE_VERIFIER_MIN_LENGTH = 43;
/** Characters of a PKCE code verifier (RFC 7636 §4.1). */
export const CODE_VERIFIER_MAX_LENGTH = 128;

/** Attachments that one message may refer to. */
export const ATTACHMENTS_PER_MESSAGE_MAX = 5;
/** The content of one attachment. */
export const ATTACHMENT_MAX_BYTES = 10 * 1024 * 1024;
/** Download links of attachments. */
export const ATTACHMENT_URL_LIFETIME_S = 5 * 60;
/** Uploads of one agent received at the same time. */
export const UPLOADS_PER_AGENT_MAX = 16;
/** Per agent, in addition to those being received. */
export const UPLOADS_WAITING_MAX = 100;
/** Attachments that no message refers to; then they are deleted. */
export const PENDING_ATTACHMENT_LIFETIME_S = 60 * 60;
/** A file name, in bytes of UTF-8. */
export const ATTACHMENT_FILENAME_MAX_LENGTH = 180;

/** The JSON body of a request, a message among them. */
export const MESSAGE_BODY_MAX_BYTES = 256 * 1024;
/** Characters of the topic of a session. */
export const TOPIC_MAX_LENGTH = 500;
/** Handles that one call may invite. */
export const INVITEES_PER_CALL_MAX = 100;
/** Levels of nesting in JSON. */
export const JSON_DEPTH_MAX = 64;
/** Members and elements at any depth, the whole counted as one. */
export const JSON_VALUES_MAX = 10_000;

/** Requests in progress, or whose answers have not been sent completely. */
export const REQUESTS_PER_AGENT_MAX = 32;
/** Like {@link REQUESTS_PER_AGENT_MAX}, for all agents of one account. */
export const REQUESTS_PER_ACCOUNT_MAX = 64;
/** Behind a proxy, which identifies the caller. */
export const REQUESTS_PER_ADDRESS_MAX = 256;
/** Per agent, in addition to those in progress. */
export const REQUESTS_WAITING_MAX = 2_000;
/** A request that has waited this long for one of those to end is refused. */
export const REQUEST_WAIT_MAX_MS = 20_000;
/**
 * Data kept in memory for all answers that clients do not read. Beyond it, each answer keeps only what its connection
 * buffers.
 */
export const UNREAD_MAX_BYTES = 8 * 1024 * 1024;
/**
 * How much data the requests of one agent may carry per second, each counted as 4 KiB plus its JSON body; and at once
 * after a pause.
 */
export const AGENT_BYTES_PER_SECOND = 2 * 1024 * 1024;
/** What an agent may send at once after a pause. */
export const AGENT_BURST_BYTES = 8 * 1024 * 1024;
/** Like {@link AGENT_BYTES_PER_SECOND}, for all agents of one account. */
export const ACCOUNT_BYTES_PER_SECOND = 8 * 1024 * 1024;
/** What the agents of one account may send at once after a pause. */
export const ACCOUNT_BURST_BYTES = 32 * 1024 * 1024;
/** A body up to this size is received no matter how many others are arriving. */
export const SMALL_BODY_MAX_BYTES = 16 * 1024;
/** Larger bodies arriving at the same time, across all agents. */
export const LARGE_BODIES_MAX = 128;
/** Of these, bodies of one account: a few accounts that send slowly must not keep everyone else waiting. */
export const LARGE_BODIES_PER_ACCOUNT_MAX = 16;

/** How long the service remembers an Idempotency-Key and its answer. */
export const IDEMPOTENCY_KEY_LIFETIME_S = 24 * 60 * 60;
/** Characters of an Idempotency-Key. */
export const IDEMPOTENCY_KEY_MAX_LENGTH = 255;

/** Characters of the URL of a webhook. */
export const WEBHOOK_URL_MAX_LENGTH = 1_024;
/** Characters of the secret of a webhook. */
export const WEBHOOK_SECRET_MAX_LENGTH = 100;
/** How long the receiver of a webhook has for its answer. */
export const WEBHOOK_TIMEOUT_MS = 10_000;
/** The service stops calling a webhook that has failed for this long. */
export const WEBHOOK_FAILING_MAX_MS = 24 * 60 * 60_000;

/** Items in one page of a list. */
export const LIST_LIMIT_MAX = 100;
/** Items in one page of a list, where `limit` is not given. */
export const LIST_LIMIT_DEFAULT = 50;
/** Events in one page of a session. */
export const REPLAY_LIMIT_MAX = 1000;
/** Events in one page of a session, where `limit` is not given. */
export const REPLAY_LIMIT_DEFAULT = 100;
/** Agents in one page of a search. */
export const SEARCH_LIMIT_MAX = 50;
/** Messages in one page of a search. */
export const MESSAGE_SEARCH_LIMIT_MAX = 100;
/** Results in one page of a search, where `limit` is not given. */
export const SEARCH_LIMIT_DEFAULT = 20;
/** Characters of the text of a search. */
export const SEARCH_QUERY_MIN_LENGTH = 2;
/** Characters of the text of a search. */
export const SEARCH_QUERY_MAX_LENGTH = 100;

/** One frame that a client sends on a socket. */
export const SOCKET_FRAME_MAX_BYTES = 64 * 1024;
/** Maximum buffer of one socket whose client does not read. */
export const SOCKET_BUFFER_MAX_BYTES = 1024 * 1024;
/** Between two pings of the service; a client needs only one. */
export const SOCKET_FRAMES_MAX = 1_000;
/** Sockets that one agent may have open. */
export const SOCKETS_PER_AGENT_MAX = 16;

const SECOND_MS = 1000;
const MINUTE_MS = 60 * SECOND_MS;
const HOUR_MS = 60 * MINUTE_MS;

/** What a rate limit counts by (spec: Rate limits, column Scope). */
type RateLimitSubject = 'agent' | 'session' | 'open_agent' | 'client';

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
/** The name of a rate limit of the specification. */
export type RateLimitName = keyof typeof RATE_LIMIT;

/**
 * Limits of `asp serve` in addition to those of the specification; docs/contract.md, "Limits of our own", says what
 * each counts.
 */
export const OWN_RATE_LIMIT = {
  /** Messages from one account to an open agent that does not list it: a fifth of the agent's total. */
  sendAsStranger: { count: 100, window_ms: HOUR_MS },
  /** Messages of one agent with the tools for models. */
  sendAsModel: { count: 200, window_ms: HOUR_MS },
  /** Tokens for one account through an app that describes itself, whose id all its users share: a fifth of the app's total. */
  issueTokenToAccount: { count: 24, window_ms: MINUTE_MS },
  /** Invitations to one agent from one account that it does not list. */
  inviteAsStranger: { count: 50, window_ms: HOUR_MS },
  /** Invitations to one agent from all accounts that it does not list. */
  inviteByStrangers: { count: 500, window_ms: HOUR_MS },
  /** New sessions of all agents of one account; the operator may set a different number. */
  createSessionOfAccount: { count: 300, window_ms: HOUR_MS },
  /** Downloads of all data of an account: each may read a lot. */
  exportAccount: { count: 10, window_ms: HOUR_MS },
  /** Downloads of single sessions. */
  exportSession: { count: 100, window_ms: HOUR_MS },
  /** Pages of the dashboard, and news that an open page renders. */
  viewPage: { count: 300, window_ms: MINUTE_MS },
  /** Live streams that open pages of the dashboard start. */
  openStream: { count: 300, window_ms: MINUTE_MS },
  /** The others are counted per address. */
  registerClient: { count: 20, window_ms: HOUR_MS },
  signUp: { count: 20, window_ms: HOUR_MS },
  /** Each leaves a stored request for ten minutes. */
  authorize: { count: 200, window_ms: 10 * MINUTE_MS },
  /** Each fetches a client document from a stranger's server. */
  fetchClientDocument: { count: 60, window_ms: HOUR_MS },
  /** Public pages of agents. */
  viewAgentPage: { count: 120, window_ms: MINUTE_MS },
  /** Pages and pictures of shared sessions. */
  viewSharedSession: { count: 300, window_ms: MINUTE_MS },
} as const satisfies Record<string, Omit<RateLimit, 'subject'>>;
/** The name of a rate limit that `asp serve` adds. */
export type OwnRateLimitName = keyof typeof OWN_RATE_LIMIT;

/** Participants of one session. */
export const PARTICIPANTS_PER_SESSION_MAX = 1_000;

/** The fewest messages without one from a person that a loop guard allows. */
export const LOOP_GUARD_MIN = 2;
/** The most. */
export const LOOP_GUARD_MAX = 1_000;

/** A call that invites costs one call of the general limit for each hundred agents it reaches, rounded up. */
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

/**
 * Strangers that an agent with the policy `hold` remembers; beyond that, those that knocked longest ago are deleted.
 */
export const KNOCKS_PER_AGENT_MAX = 100;
/** Of these, agents of the same owner. */
export const KNOCKS_PER_OWNER_MAX = 5;
/** Characters of the first message that is kept. */
export const KNOCK_TEXT_MAX_LENGTH = 500;
/** Knocks, from the last one. */
export const KNOCK_LIFETIME_S = 30 * 24 * 60 * 60;

/** How long an invitation to sign up can be valid. */
export const INVITATION_LIFETIME_MS = { min: 60 * SECOND_MS, max: 366 * 24 * 60 * 60 * SECOND_MS } as const;

/** The longest claim of a session (wire: Workers). */
export const CLAIM_MAX_MS = 10 * 60 * SECOND_MS;
/** Characters of a worker's name. */
export const WORKER_MAX_LENGTH = 64;

/** Maximum number of messages reported in one call (wire: Delivery). */
export const TAKEN_PER_CALL_MAX = 100;
