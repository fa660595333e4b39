import type { Clock } from '../kit/clock.js';
import type { Ids } from '../kit/ids.js';
import type { Random } from '../kit/random.js';
import type { Handle } from '../wire/handle.js';
import type { Scope } from '../wire/scope.js';
import type { AttachmentFiles } from './attachments/attachment-files.js';
import type { Bus } from './bus/bus.js';
import type { Faults } from './faults/faults.js';
import type { RateLimits } from './limits/rate-limits.js';
import type { Meter } from './meter.js';
import type { Database } from './store/database.js';

/** Public addresses of this service, each without a trailing slash, from configuration alone, never from a request. */
export interface Addresses {
  /** The REST resource, ending in `/v1`. */
  readonly baseUrl: string;
  /** The authorization server, which is its issuer. */
  readonly authUrl: string;
  readonly webUrl: string;
  /** The WebSocket resource. */
  readonly wsUrl: string;
}

export interface AccountQuota {
  readonly agents: number;
  /** Confidential clients. */
  readonly clients: number;
  /** Of all attachments of its agents. */
  readonly attachmentBytes: number;
  /** New ones of all its agents. */
  readonly sessionsPerHour: number;
}

/** What the operator lets accounts do. */
export interface AccountPolicy {
  /** Which accounts may have agents that anyone can invite: those the operator trusts, or all. */
  readonly openAgents: 'trusted' | 'all';
  /** Who may make an account on the sign-up page: everybody, whoever has an invitation of the operator, or nobody. */
  readonly signUp: 'open' | 'invite' | 'off';
  /** The most that an account may have which is neither local nor trusted. */
  readonly quota: AccountQuota;
}

export const DEFAULT_ACCOUNT_QUOTA: AccountQuota = {
  agents: 100,
  clients: 50,
  attachmentBytes: 2 * 1024 ** 3,
  sessionsPerHour: 300,
};

export const DEFAULT_ACCOUNT_POLICY: AccountPolicy = {
  openAgents: 'trusted',
  signUp: 'open',
  quota: DEFAULT_ACCOUNT_QUOTA,
};

export interface Settings {
  readonly addresses: Addresses;
  /** `symmetric`: the inviter's own allowlist must admit the invitee too. */
  readonly trust: 'recipient' | 'symmetric';
  readonly areLimitsOn: boolean;
  /** How many a session may have, those who left included. */
  readonly participantsMax: number;
  readonly accountPolicy: AccountPolicy;
  /** Undefined: nobody leaves because a socket closed. */
  readonly presenceGraceMs: number | undefined;
  readonly isBehindProxy: boolean;
  /** A proxy makes everybody's address this machine's, and may not be believed: limits by address would hit everybody at once. */
  readonly isAddressShared: boolean;
}

/** What every part of the service is given. */
export interface ServiceContext {
  readonly clock: Clock;
  readonly ids: Ids;
  readonly random: Random;
  readonly database: Database;
  /** Opened by `openAttachmentFiles`. */
  readonly files: AttachmentFiles;
  readonly bus: Bus;
  readonly limits: RateLimits;
  readonly settings: Settings;
  readonly log: Log;
  readonly meter: Meter;
  /** Undefined: nothing fails on purpose. */
  readonly faults?: Faults | undefined;
}

/** What the security log tells of. */
export type SecurityEvent =
  | 'signed_up'
  | 'signed_in'
  | 'sign_in_failed'
  | 'consent'
  | 'code_reused'
  | 'refresh_token_reused'
  | 'account_acted'
  | 'operator_acted'
  | 'keys_rotated';

/** Structured log; fields never hold tokens, secrets or message text. */
export interface Log {
  info(event: string, fields?: Readonly<Record<string, string | number | boolean>>): void;
  error(event: string, error: unknown, fields?: Readonly<Record<string, string | number | boolean>>): void;
  /** Who did what from where, and whether it worked, for whoever looks into an intrusion; no secret, and nothing that was said. */
  security?(event: SecurityEvent, fields: Readonly<Record<string, string>>): void;
}

/** Who makes a request, as its verified access token says. */
export interface AgentActor {
  readonly kind: 'agent';
  readonly agentId: string;
  readonly handle: Handle;
  readonly accountId: string;
  readonly scopes: readonly Scope[];
}

export interface AccountActor {
  readonly kind: 'account';
  readonly accountId: string;
  readonly scopes: readonly Scope[];
}

export type Actor = AgentActor | AccountActor;
