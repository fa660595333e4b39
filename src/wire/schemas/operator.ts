import * as z from 'zod/mini';

import { INVITATION_LIFETIME_MS } from '../limit.js';
import { CLOSE_CODES } from '../realtime.js';
import { InboundPolicy } from './agent.js';
import { EpochMs, Ok } from './base.js';
import { Handle, Scope } from './requests.js';

/** An agent as the operator sees it. */
export const OperatorAgent = z.looseObject({
  handle: z.string(),
  inbound_policy: InboundPolicy,
  paused: z.boolean(),
  is_online: z.boolean(),
  created_at: EpochMs,
});

export type OperatorAgent = z.infer<typeof OperatorAgent>;

/** A client-credentials client, with its secret, which is shown only once. */
export const OperatorClient = z.looseObject({
  client_id: z.string(),
  client_secret: z.string(),
  handle: z.string(),
  scope: z.string(),
  created_agent: z.boolean(),
});

export type OperatorClient = z.infer<typeof OperatorClient>;

/** The limits of one account. */
const OperatorQuota = z.looseObject({
  agents: z.int(),
  clients: z.int(),
  attachment_bytes: z.int(),
  sessions_per_hour: z.int(),
});

/** The limits of one account. */
export type OperatorQuota = z.infer<typeof OperatorQuota>;

/** State of a running service. */
export const OperatorStatus = z.looseObject({
  version: z.string(),
  pid: z.int(),
  started_at: EpochMs,
  /** Why `/ready` answers with 503; null: it does not. */
  not_ready: z.nullable(z.string()),
  /** This count and the next ones are null if the database cannot be read. */
  accounts: z.nullable(z.int()),
  agents: z.nullable(z.int()),
  sessions: z.nullable(z.int()),
  sockets: z.nullable(z.int()),
  sign_up: z.enum(['open', 'invite', 'off']),
  /** For each account that is neither local nor trusted; null: unlimited. */
  quota: z.nullable(OperatorQuota),
});

export type OperatorStatus = z.infer<typeof OperatorStatus>;

/** A key that signs access tokens: about to sign, signing, or still published for the tokens that it has signed. */
export const OperatorKey = z.looseObject({
  kid: z.string(),
  state: z.enum(['next', 'signing', 'retired']),
  created_at: EpochMs,
  signs_from: EpochMs,
  /** Null while no other key has taken over. */
  published_until: z.nullable(EpochMs),
});

export type OperatorKey = z.infer<typeof OperatorKey>;

/** A client with a secret, as the operator sees it. */
export const OperatorClientSummary = z.looseObject({
  client_id: z.string(),
  handle: z.string(),
  name: z.string(),
  scope: z.string(),
  created_at: EpochMs,
  last_used_at: z.nullable(EpochMs),
});

export type OperatorClientSummary = z.infer<typeof OperatorClientSummary>;

const Tier = z.enum(['standard', 'trusted']);

/** An account as the operator sees it. */
export const OperatorAccount = z.looseObject({
  username: z.string(),
  display_name: z.string(),
  state: z.enum(['active', 'suspended']),
  tier: Tier,
  /** It belongs to the OS user who runs the service, and has no password. */
  is_local: z.boolean(),
  /** It may use the operator's area of the dashboard. */
  is_operator: z.boolean(),
  agents: z.int(),
  clients: z.int(),
  attachment_bytes: z.int(),
  /** The account's limits; null: unlimited. */
  quota: z.nullable(OperatorQuota),
  created_at: EpochMs,
});

export type OperatorAccount = z.infer<typeof OperatorAccount>;

/** Body that suspends, resumes or trusts an account, or makes it an operator. */
export const UpdateOperatorAccountRequest = z.strictObject({
  suspended: z.optional(z.boolean()),
  tier: z.optional(Tier),
  operator: z.optional(z.boolean()),
});

export type UpdateOperatorAccountRequest = z.infer<typeof UpdateOperatorAccountRequest>;

/** Ended sessions that are older than some age, which is null if nothing is deleted by age. */
export const OperatorRetention = z.looseObject({
  /** How long the service keeps ended sessions; null: forever. */
  retention_ms: z.nullable(z.int()),
  age_ms: z.nullable(z.int()),
  sessions: z.int(),
  events: z.int(),
  attachments: z.int(),
  attachment_bytes: z.int(),
  oldest_ended_at: z.nullable(EpochMs),
});

export type OperatorRetention = z.infer<typeof OperatorRetention>;

/** A backup that was made, or failed. */
export const BackupRecord = z.looseObject({
  /** It holds everything that was acknowledged before. */
  began_at: EpochMs,
  /** `done`, or the code of an error. */
  outcome: z.string(),
  /** Of the archive; null: there is none. */
  bytes: z.nullable(z.int()),
  attachments: z.nullable(z.int()),
});

export type BackupRecord = z.infer<typeof BackupRecord>;

/** An account that was removed, and how much of it no one else could see. */
export const ErasedAccount = z.looseObject({
  ok: z.literal(true),
  sessions: z.int(),
  events: z.int(),
  attachments: z.int(),
});

export type ErasedAccount = z.infer<typeof ErasedAccount>;

/** All data of an account, in the form of the download in its settings. */
export const ExportedAccount = z.looseObject({
  exported_at: EpochMs,
  account: z.looseObject({ username: z.string() }),
  sessions: z.array(z.looseObject({})),
});

export type ExportedAccount = z.infer<typeof ExportedAccount>;

/** An address that lets its holder into an account once, until `expires_at`; `code` is the secret in it. */
export const EntryLink = z.looseObject({ id: z.string(), url: z.string(), code: z.string(), expires_at: EpochMs });

export type EntryLink = z.infer<typeof EntryLink>;

/** Body that creates an invitation. */
export const CreateInvitationRequest = z.strictObject({
  lifetime_ms: z.int().check(z.minimum(INVITATION_LIFETIME_MS.min), z.maximum(INVITATION_LIFETIME_MS.max)),
});

export type CreateInvitationRequest = z.infer<typeof CreateInvitationRequest>;

/** An invitation as the operator sees it; its code is never shown again. */
export const Invitation = z.looseObject({
  id: z.string(),
  state: z.enum(['open', 'used', 'expired']),
  /** Who signed up with it. */
  account: z.nullable(z.string()),
  created_at: EpochMs,
  expires_at: EpochMs,
});

export type Invitation = z.infer<typeof Invitation>;

/** Body that adds an agent, and its account if that is new. */
export const AddOperatorAgentRequest = z.strictObject({
  handle: Handle,
  inbound_policy: z.optional(InboundPolicy),
  display_name: z.optional(z.string().check(z.minLength(1), z.maxLength(100))),
});

export type AddOperatorAgentRequest = z.infer<typeof AddOperatorAgentRequest>;

/** Body that pauses or resumes an agent. */
export const UpdateOperatorAgentRequest = z.strictObject({ paused: z.boolean() });

/** Body that adds a client bound to one agent; the agent is added if it is new. */
export const AddOperatorClientRequest = z.strictObject({
  handle: Handle,
  scopes: z.optional(z.array(Scope)),
});

export type AddOperatorClientRequest = z.infer<typeof AddOperatorClientRequest>;

/** A hundred years. */
const ADVANCE_MAX_MS = 36_600 * 86_400_000;

/** Body that lets time pass at a service for tests. */
const AdvanceClockRequest = z.strictObject({ by_ms: z.int().check(z.minimum(0), z.maximum(ADVANCE_MAX_MS)) });

/** The time of the service. */
export const ServiceTime = z.looseObject({ now: EpochMs });

/** Body that causes an event at a service for tests: to the sockets or tokens of an agent, or to the next calls of anyone. */
export const TriggerEventRequest = z.discriminatedUnion('event', [
  z.strictObject({ event: z.literal('drop'), handle: Handle, code: z.optional(z.literal(CLOSE_CODES)) }),
  z.strictObject({ event: z.literal('expire'), handle: Handle }),
  z.strictObject({
    event: z.literal('fault'),
    fault: z.literal([429, 500, 502, 503, 504, 'lost', 'cut']),
    times: z.int().check(z.minimum(1), z.maximum(1_000)),
  }),
]);

/** How many sockets, tokens or calls are affected. */
const TriggeredEvent = z.looseObject({ count: z.int() });

/**
 * Body that requests a link which signs in as this local account (default: the only one, or that of the first seed), and
 * opens the operator's area if asked.
 */
export const CreateSignInLinkRequest = z.strictObject({
  account: z.optional(z.string().check(z.minLength(1), z.maxLength(64))),
  operator: z.optional(z.boolean()),
});

export type CreateSignInLinkRequest = z.infer<typeof CreateSignInLinkRequest>;

/** An address that signs in a browser on this machine once, until `expires_at`. */
export const SignInLink = z.looseObject({ url: z.string(), account: z.string(), expires_at: EpochMs });

export type SignInLink = z.infer<typeof SignInLink>;

/**
 * Operator endpoints below `operator_url`, authenticated by the record's secret as a bearer, from loopback peers only.
 * They are this program's own and not part of the specification.
 */
export const OPERATOR_ENDPOINT = {
  readStatus: { method: 'GET', path: '/status', reply: OperatorStatus },
  stopService: { method: 'POST', path: '/stop', reply: Ok },
  listOperatorAgents: { method: 'GET', path: '/agents', reply: z.looseObject({ agents: z.array(OperatorAgent) }) },
  addOperatorAgent: { method: 'POST', path: '/agents', body: AddOperatorAgentRequest, reply: OperatorAgent },
  updateOperatorAgent: {
    method: 'PATCH',
    path: '/agents/{handle}',
    body: UpdateOperatorAgentRequest,
    reply: OperatorAgent,
  },
  removeOperatorAgent: { method: 'DELETE', path: '/agents/{handle}', reply: Ok },
  listOperatorAccounts: {
    method: 'GET',
    path: '/accounts',
    reply: z.looseObject({ accounts: z.array(OperatorAccount) }),
  },
  readOperatorAccount: { method: 'GET', path: '/accounts/{account}', reply: OperatorAccount },
  updateOperatorAccount: {
    method: 'PATCH',
    path: '/accounts/{account}',
    body: UpdateOperatorAccountRequest,
    reply: OperatorAccount,
  },
  removeOperatorAccount: { method: 'DELETE', path: '/accounts/{account}', reply: Ok },
  eraseOperatorAccount: { method: 'POST', path: '/accounts/{account}/erase', reply: ErasedAccount },
  /** Sent while it is read: it may be larger than memory. */
  exportOperatorAccount: { method: 'POST', path: '/accounts/{account}/export', reply: ExportedAccount },
  createPasswordLink: { method: 'POST', path: '/accounts/{account}/password-links', reply: EntryLink },
  createInvitation: { method: 'POST', path: '/invitations', body: CreateInvitationRequest, reply: EntryLink },
  listInvitations: { method: 'GET', path: '/invitations', reply: z.looseObject({ invitations: z.array(Invitation) }) },
  revokeInvitation: { method: 'DELETE', path: '/invitations/{id}', reply: Ok },
  listOperatorClients: {
    method: 'GET',
    path: '/clients',
    reply: z.looseObject({ clients: z.array(OperatorClientSummary) }),
  },
  revokeOperatorClient: { method: 'DELETE', path: '/clients/{client}', reply: Ok },
  /** `age` is a number of milliseconds, or `configured`. */
  readRetention: { method: 'GET', path: '/retention/{age}', reply: OperatorRetention },
  listSigningKeys: { method: 'GET', path: '/keys', reply: z.looseObject({ keys: z.array(OperatorKey) }) },
  rotateSigningKeys: {
    method: 'POST',
    path: '/keys/rotate',
    reply: z.looseObject({ rotated: z.boolean(), keys: z.array(OperatorKey) }),
  },
  createSignInLink: { method: 'POST', path: '/sign-in-links', body: CreateSignInLinkRequest, reply: SignInLink },
  advanceClock: { method: 'POST', path: '/clock', body: AdvanceClockRequest, reply: ServiceTime },
  triggerEvent: { method: 'POST', path: '/events', body: TriggerEventRequest, reply: TriggeredEvent },
  addOperatorClient: { method: 'POST', path: '/clients', body: AddOperatorClientRequest, reply: OperatorClient },
} as const;

/** Below the root of a service, or of the address that it has for operators. */
export const OPERATOR_PATH = '/operator';

/** The name of an operator endpoint. */
export type OperatorOperation = keyof typeof OPERATOR_ENDPOINT;

/** They are only for programs on the machine of the service: a token does not open them. */
export const LOCAL_OPERATIONS: ReadonlySet<OperatorOperation> = new Set([
  'stopService',
  'createSignInLink',
  'advanceClock',
  'triggerEvent',
] as const);

/** What the log of actions has entries for: also what the service does on the operator's behalf. */
export type RecordedOperation = OperatorOperation | 'deleteOldSessions' | 'disconnectApp';
