import type { Clock } from '../../kit/clock.js';
import type { Ids } from '../../kit/ids.js';
import type { Random } from '../../kit/random.js';
import type { ENDPOINT, Operation, PathOf } from '../../wire/endpoint.js';
import type { Handle } from '../../wire/handle.js';
import type { BodyOf, QueryOf, ReplyOf } from '../../wire/schemas/endpoint.js';
import type { JsonObject } from '../../wire/schemas/requests.js';
import type { Scope } from '../../wire/scope.js';
import type { HeldBytes } from '../core/semaphore.js';
import type { AttachmentFiles } from './attachment-store.js';
import type { Bus } from './bus.js';
import type { Database, Query, Transaction } from './database.js';
import type { Faults } from './faults.js';
import type { Meter } from './meter.js';
import type { Budget, RateLimits } from './rate-limits.js';
import type { Refusals } from './refusals.js';
import type { Tracer } from './tracer.js';

/** Public addresses of this service, each without a trailing slash, from configuration only, never from a request. */
export interface Addresses {
  /** The REST resource, ending in `/v1`. */
  readonly baseUrl: string;
  /** The authorization server, which is its issuer. */
  readonly authUrl: string;
  readonly webUrl: string;
  /** The WebSocket resource. */
  readonly wsUrl: string;
  /** The resource of the Model Context Protocol. */
  readonly mcpUrl: string;
}

export interface AccountQuota {
  readonly agents: number;
  /** Confidential clients. */
  readonly clients: number;
  /** Bytes of all attachments of its agents. */
  readonly attachmentBytes: number;
  /** New ones of all its agents. */
  readonly sessionsPerHour: number;
}

/** Limits that the operator sets for accounts. */
export interface AccountPolicy {
  /** Which accounts may have agents that anyone can invite: those the operator trusts, or all. */
  readonly openAgents: 'trusted' | 'all';
  /**
   * Who may create an account on the sign-up page: everyone, people with an invitation from the operator, or no one.
   */
  readonly signUp: 'open' | 'invite' | 'off';
  /** The limits of an account that is neither local nor trusted. */
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
  /** Of the program that runs the service. */
  readonly version?: string | undefined;
  /** The name of this service for people; default: `asp`. */
  readonly name?: string | undefined;
  readonly addresses: Addresses;
  /** `symmetric`: the inviter's own allowlist must admit the invitee too. */
  readonly trust: 'recipient' | 'symmetric';
  readonly areLimitsOn: boolean;
  /** Maximum participants of a session, including those who left. */
  readonly participantsMax: number;
  readonly accountPolicy: AccountPolicy;
  /** `off`: the words of messages are not indexed, and searches for messages are refused. Default: `builtin`. */
  readonly search?: 'builtin' | 'off' | undefined;
  /** Undefined: closed sockets do not end participation. */
  readonly presenceGraceMs: number | undefined;
  /** Ended sessions are deleted this long after their last event. Undefined: never. */
  readonly retentionMs?: number | undefined;
  /** The contact that push services get; undefined: this service sends no push notifications. */
  readonly webPush?: string | undefined;
  /**
   * Which addresses the owners of agents may have the service call: those on the public internet with https, or any;
   * undefined: none.
   */
  readonly webhooks?: 'public' | 'any' | undefined;
  /** `off`: no one can make a link with which anyone can read a session, or use one. Default: `on`. */
  readonly shareLinks?: 'on' | 'off' | undefined;
  readonly isBehindProxy: boolean;
  /**
   * Behind a proxy that may not be trusted, all clients have this machine's address: limits by address would hit
   * everyone at once.
   */
  readonly isAddressShared: boolean;
}

export interface SearchSetting {
  readonly settings?: Pick<Settings, 'search'>;
}

/** Whether messages can be found by their words. */
export function isSearchOn({ settings }: SearchSetting): boolean {
  return settings?.search !== 'off';
}

/** How far a socket is in a session. */
export interface Progress {
  /** The last sequence that was sent over this socket, or delivered before it. */
  readonly sent: number;
  /** The last sequence of the session when there was nothing more to send; 0 while there is. */
  readonly readThrough: number;
}

/** The unseen events of each agent, kept slightly behind the log. */
export interface Inboxes {
  /** Resolves once they contain everything that was committed or delivered before the call. */
  settle(): Promise<void>;
  /** The same for one agent, without waiting for the inboxes of others. */
  settleFor(agentId: string): Promise<void>;
  /** The same for the agents of an account. Their delivery cursors may be behind. */
  settleForAccount(accountId: string): Promise<void>;
  /** Events sent to an agent have arrived; its delivery cursor follows. */
  delivered(agentId: string, sessionId: string, progress: Progress): void;
}

/** Stops sessions in which only programs write. */
export interface LoopGuard {
  /**
   * Before a message is written after `lastSequence`, the last event of its session, which the transaction has locked.
   * Throws LOOP_GUARD if only a person may write now.
   */
  check(
    query: Query,
    sessionId: string,
    lastSequence: number,
    message: { readonly content: string | readonly object[]; readonly metadata?: JsonObject | undefined },
  ): Promise<void>;
}

/** The dependencies of every part of the service. */
export interface ServiceContext {
  readonly clock: Clock;
  readonly ids: Ids;
  readonly random: Random;
  readonly database: Database;
  /** Opened by `openAttachmentFiles`. */
  readonly files: AttachmentFiles;
  readonly bus: Bus;
  readonly inboxes: Inboxes;
  readonly limits: RateLimits;
  readonly refusals: Refusals;
  /** Memory for answers that slow readers have not taken yet. */
  readonly unread: HeldBytes;
  readonly settings: Settings;
  readonly log: Log;
  readonly meter: Meter;
  /** Undefined: no traces are exported. */
  readonly tracer?: Tracer | undefined;
  /** Undefined: programs may write to each other forever. */
  readonly loopGuard?: LoopGuard | undefined;
  /** What each message counts toward in addition, if a model sends it. */
  readonly messageBudget?: Budget | undefined;
  /** Undefined: no injected faults. */
  readonly faults?: Faults | undefined;
}

/** The events of the security log. */
type SecurityEvent =
  | 'signed_up'
  | 'signed_in'
  | 'sign_in_failed'
  | 'consent'
  | 'code_reused'
  | 'refresh_token_reused'
  | 'account_acted'
  | 'operator_acted'
  | 'operator_refused'
  | 'keys_rotated';

export type LogFields = Readonly<Record<string, string | number | boolean>>;

/** This process, of those that share the data. */
export interface OwnProcess {
  /** The name by which the others know it. */
  readonly processId: string;
  /** False: work that depends on the time must wait. Also after a jump, until the database's clock was asked again. */
  readonly isClockRight: boolean;
}

/** Structured log; fields never hold tokens, secrets or message text. */
export interface Log {
  /**
   * Each step of each request, for debugging. Undefined if no one wants it, so that its fields need not be collected.
   */
  debug?(event: string, fields: LogFields): void;
  info(event: string, fields?: LogFields): void;
  /** A warning: something is wrong, but not with this service, or a separate line reports it. */
  warn(event: string, error: unknown, fields?: LogFields): void;
  error(event: string, error: unknown, fields?: LogFields): void;
  /**
   * Who did what from where, and whether it worked, for investigating intrusions; without secrets or message content.
   */
  security?(event: SecurityEvent, fields: Readonly<Record<string, string>>): void;
}

/** The caller of a request, according to its verified access token. */
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

type Row<Name extends Operation> = (typeof ENDPOINT)[Name];

/** The caller of an operation. */
type ActorOf<Name extends Operation> = Row<Name>['actor'] extends 'agent'
  ? AgentActor
  : Row<Name>['actor'] extends 'account'
    ? AccountActor
    : Actor;

type Part<Name extends string, Value> = keyof Value extends never ? unknown : { [Key in Name]: Value };

/** The parts of a request that the operation has, checked. */
export type HandlerInput<Name extends Operation> = Part<'path', PathOf<Name>> &
  Part<'query', QueryOf<Name>> &
  Part<'body', BodyOf<Name>>;

/** Writes get the transaction that also records their answer; reads get a snapshot. */
type StoreOf<Name extends Operation> = Row<Name>['method'] extends 'GET' ? Query : Transaction;

/** The handler of one row in the endpoint table. */
export type Handler<Name extends Operation, Input = HandlerInput<Name>, Reply = ReplyOf<Name>> = (
  context: ServiceContext,
  actor: ActorOf<Name>,
  input: Input,
  store: StoreOf<Name>,
) => Promise<Reply>;
