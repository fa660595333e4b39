import type * as z from 'zod/mini';

import { Account } from './account.js';
import {
  Agent,
  AgentView,
  CreateAgentRequest,
  ListAgentsQuery,
  ListAgentsReply,
  SearchAgentsReply,
  SearchDirectoryReply,
  SearchMessagesQuery,
  SearchMessagesReply,
  SearchQuery,
  UpdateActingAgentRequest,
  UpdateAgentRequest,
} from './agent.js';
import { Attachment, AttachmentLink } from './attachment.js';
import { ReplayQuery, ReplayReply } from './event.js';
import type { RateLimitName } from './limit.js';
import { SendMessageReply, SendMessageRequest } from './message.js';
import { PageQuery } from './page.js';
import type { Scope } from './scope.js';
import {
  CreateSessionReply,
  CreateSessionRequest,
  EmptyRequest,
  InviteReply,
  InviteRequest,
  ListAccountSessionsReply,
  ListSessionsQuery,
  ListSessionsReply,
  Ok,
  ReopenRequest,
  Session,
} from './session.js';
import { AddAllowlistRequest, Allowlist, Block, BlockRequest, ListBlocksReply, UnblockReply } from './trust.js';

/** Who a token must act as: an agent, the account itself, or either. */
export type Actor = 'agent' | 'account' | 'either';

/** One row of the endpoint table. */
export interface EndpointRow {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Below {base_url}; `{name}` stands for one URL-encoded segment. */
  readonly path: string;
  readonly actor: Actor;
  /** All of these; for an account token, the account scopes of the row. */
  readonly scopes: readonly Scope[];
  /** What an account token needs instead of `scopes`, where `actor` is `either`. */
  readonly accountScopes?: readonly Scope[];
  readonly query?: z.ZodMiniType;
  /** A JSON body, or one multipart file. `isOptional`: no body at all is the same as `{}`. */
  readonly body?: { readonly schema: z.ZodMiniType; readonly isOptional: boolean } | 'file';
  readonly status: 200 | 201 | 204;
  /** A JSON reply, Markdown, or nothing. */
  readonly reply: z.ZodMiniType | 'markdown' | 'nothing';
  /** The limit beside the general one (spec: Rate limits). */
  readonly limit: RateLimitName;
}

const nothingNeeded = { schema: EmptyRequest, isOptional: true } as const;
const needed = <Schema extends z.ZodMiniType>(schema: Schema) => ({ schema, isOptional: false }) as const;

/** Every endpoint of the specification, one row a line of its table (spec: Endpoints; wire: 2, 5, 7). */
export const ENDPOINT = {
  createSession: {
    method: 'POST',
    path: '/sessions',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: needed(CreateSessionRequest),
    status: 201,
    reply: CreateSessionReply,
    limit: 'createSession',
  },
  listSessions: {
    method: 'GET',
    path: '/sessions',
    actor: 'agent',
    scopes: ['sessions:read'],
    query: ListSessionsQuery,
    status: 200,
    reply: ListSessionsReply,
    limit: 'general',
  },
  getSession: {
    method: 'GET',
    path: '/sessions/{session_id}',
    actor: 'agent',
    scopes: ['sessions:read'],
    status: 200,
    reply: Session,
    limit: 'general',
  },
  joinSession: {
    method: 'POST',
    path: '/sessions/{session_id}/join',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: nothingNeeded,
    status: 200,
    reply: Ok,
    limit: 'general',
  },
  inviteToSession: {
    method: 'POST',
    path: '/sessions/{session_id}/invite',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: needed(InviteRequest),
    status: 200,
    reply: InviteReply,
    limit: 'general',
  },
  sendMessage: {
    method: 'POST',
    path: '/sessions/{session_id}/messages',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: needed(SendMessageRequest),
    status: 201,
    reply: SendMessageReply,
    limit: 'sendMessage',
  },
  leaveSession: {
    method: 'POST',
    path: '/sessions/{session_id}/leave',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: nothingNeeded,
    status: 200,
    reply: Ok,
    limit: 'general',
  },
  endSession: {
    method: 'POST',
    path: '/sessions/{session_id}/end',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: nothingNeeded,
    status: 200,
    reply: Ok,
    limit: 'general',
  },
  reopenSession: {
    method: 'POST',
    path: '/sessions/{session_id}/reopen',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: { schema: ReopenRequest, isOptional: true },
    status: 200,
    reply: Ok,
    limit: 'general',
  },
  replayEvents: {
    method: 'GET',
    path: '/sessions/{session_id}/events',
    actor: 'agent',
    scopes: ['sessions:read'],
    query: ReplayQuery,
    status: 200,
    reply: ReplayReply,
    limit: 'general',
  },
  getAccount: {
    method: 'GET',
    path: '/account',
    actor: 'account',
    scopes: ['account:read'],
    status: 200,
    reply: Account,
    limit: 'general',
  },
  listAccountSessions: {
    method: 'GET',
    path: '/accounts/me/sessions',
    actor: 'account',
    scopes: ['account:read'],
    query: ListSessionsQuery,
    status: 200,
    reply: ListAccountSessionsReply,
    limit: 'general',
  },
  uploadAttachment: {
    method: 'POST',
    path: '/attachments',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'file',
    status: 201,
    reply: Attachment,
    limit: 'uploadAttachment',
  },
  getAttachment: {
    method: 'GET',
    path: '/attachments/{attachment_id}',
    actor: 'agent',
    scopes: ['sessions:read'],
    status: 200,
    reply: AttachmentLink,
    limit: 'general',
  },
  getActingAgent: {
    method: 'GET',
    path: '/agents/me',
    actor: 'agent',
    scopes: ['agents:read'],
    status: 200,
    reply: Agent,
    limit: 'general',
  },
  updateActingAgent: {
    method: 'PATCH',
    path: '/agents/me',
    actor: 'agent',
    scopes: ['agents:read'],
    body: needed(UpdateActingAgentRequest),
    status: 200,
    reply: Agent,
    limit: 'general',
  },
  listAgents: {
    method: 'GET',
    path: '/agents',
    actor: 'either',
    scopes: ['agents:read'],
    accountScopes: ['account:agents:read'],
    query: ListAgentsQuery,
    status: 200,
    reply: ListAgentsReply,
    limit: 'general',
  },
  createAgent: {
    method: 'POST',
    path: '/agents',
    actor: 'account',
    scopes: ['account:agents:read'],
    body: needed(CreateAgentRequest),
    status: 201,
    reply: Agent,
    limit: 'general',
  },
  getAgent: {
    method: 'GET',
    path: '/agents/{owner}/{name}',
    actor: 'either',
    scopes: ['agents:read'],
    accountScopes: ['account:agents:read'],
    status: 200,
    reply: AgentView,
    limit: 'general',
  },
  updateAgent: {
    method: 'PATCH',
    path: '/agents/{owner}/{name}',
    actor: 'account',
    scopes: ['account:agents:read'],
    body: needed(UpdateAgentRequest),
    status: 200,
    reply: Agent,
    limit: 'general',
  },
  removeAgent: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}',
    actor: 'account',
    scopes: ['account:agents:read'],
    status: 204,
    reply: 'nothing',
    limit: 'general',
  },
  getAgentCard: {
    method: 'GET',
    path: '/agents/{owner}/{name}/card',
    actor: 'either',
    scopes: ['agents:read'],
    accountScopes: ['account:agents:read'],
    status: 200,
    reply: 'markdown',
    limit: 'general',
  },
  searchAgents: {
    method: 'GET',
    path: '/search/agents',
    actor: 'agent',
    scopes: ['agents:read'],
    query: SearchQuery,
    status: 200,
    reply: SearchAgentsReply,
    limit: 'search',
  },
  searchDirectory: {
    method: 'GET',
    path: '/search/directory',
    actor: 'agent',
    scopes: ['agents:read'],
    query: SearchQuery,
    status: 200,
    reply: SearchDirectoryReply,
    limit: 'search',
  },
  searchMessages: {
    method: 'GET',
    path: '/search/messages',
    actor: 'agent',
    scopes: ['agents:read', 'sessions:read'],
    query: SearchMessagesQuery,
    status: 200,
    reply: SearchMessagesReply,
    limit: 'search',
  },
  listAllowlist: {
    method: 'GET',
    path: '/agents/{owner}/{name}/allowlist',
    actor: 'agent',
    scopes: ['allowlist:read'],
    status: 200,
    reply: Allowlist,
    limit: 'general',
  },
  addToAllowlist: {
    method: 'POST',
    path: '/agents/{owner}/{name}/allowlist',
    actor: 'agent',
    scopes: ['allowlist:write'],
    body: needed(AddAllowlistRequest),
    status: 200,
    reply: Allowlist,
    limit: 'general',
  },
  removeFromAllowlist: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}/allowlist/{entry}',
    actor: 'agent',
    scopes: ['allowlist:write'],
    status: 200,
    reply: Allowlist,
    limit: 'general',
  },
  listBlocks: {
    method: 'GET',
    path: '/blocks',
    actor: 'agent',
    scopes: ['allowlist:read'],
    query: PageQuery,
    status: 200,
    reply: ListBlocksReply,
    limit: 'general',
  },
  blockAgent: {
    method: 'POST',
    path: '/blocks',
    actor: 'agent',
    scopes: ['allowlist:write'],
    body: needed(BlockRequest),
    status: 201,
    reply: Block,
    limit: 'general',
  },
  unblockAgent: {
    method: 'DELETE',
    path: '/blocks/{blocked}',
    actor: 'agent',
    scopes: ['allowlist:write'],
    status: 200,
    reply: UnblockReply,
    limit: 'general',
  },
} as const satisfies Record<string, EndpointRow>;

/** The name of an endpoint, the same in the client, the router and the OpenAPI document. */
export type Operation = keyof typeof ENDPOINT;

/**
 * Second addresses of endpoints, for newer public clients (wire: Aliases). `me` stands for the acting agent. `isFile`: an
 * attachment goes by the name of a file, with `file_` ids and `size_bytes`, and its download address is a redirect.
 */
export const ENDPOINT_ALIAS = [
  { path: '/agents/me/allowlist', operation: 'listAllowlist', agent: 'me' },
  { path: '/agents/me/allowlist', operation: 'addToAllowlist', agent: 'me' },
  { path: '/agents/me/allowlist/{entry}', operation: 'removeFromAllowlist', agent: 'me' },
  { path: '/agents/me/blocks', operation: 'listBlocks' },
  { path: '/agents/me/blocks', operation: 'blockAgent' },
  { path: '/agents/me/blocks/{blocked}', operation: 'unblockAgent' },
  { path: '/search', operation: 'searchDirectory' },
  { path: '/files', operation: 'uploadAttachment', isFile: true },
  { path: '/files/{attachment_id}', operation: 'getAttachment', isFile: true },
  { path: '/account/sessions', operation: 'listAccountSessions', isUnwrapped: true },
  { path: '/account/agents', operation: 'listAgents' },
  { path: '/account/agents', operation: 'createAgent' },
  { path: '/account/agents/{owner}/{name}', operation: 'getAgent' },
  { path: '/account/agents/{owner}/{name}', operation: 'updateAgent' },
  { path: '/account/agents/{owner}/{name}', operation: 'removeAgent' },
] as const satisfies readonly {
  path: string;
  operation: Operation;
  agent?: 'me';
  isUnwrapped?: boolean;
  isFile?: boolean;
}[];

type ParameterOf<Path extends string> = Path extends `${string}{${infer Name}}${infer Rest}`
  ? Name | ParameterOf<Rest>
  : never;

/** The path parameters of an operation, by name. */
export type PathOf<Name extends Operation> = { [Key in ParameterOf<(typeof ENDPOINT)[Name]['path']>]: string };

/** The query of an operation as the service reads it: decoded, with its defaults. */
export type QueryOf<Name extends Operation> = (typeof ENDPOINT)[Name] extends {
  query: infer Schema extends z.ZodMiniType;
}
  ? z.output<Schema>
  : Record<never, never>;

/** The query of an operation as a client gives it. */
export type QueryInputOf<Name extends Operation> = (typeof ENDPOINT)[Name] extends {
  query: infer Schema extends z.ZodMiniType;
}
  ? z.input<Schema>
  : Record<never, never>;

/** The JSON body of an operation. */
export type BodyOf<Name extends Operation> = (typeof ENDPOINT)[Name] extends {
  body: { schema: infer Schema extends z.ZodMiniType };
}
  ? z.output<Schema>
  : Record<never, never>;

/** The reply of an operation: decoded JSON, a string for Markdown, undefined for none. */
export type ReplyOf<Name extends Operation> = (typeof ENDPOINT)[Name]['reply'] extends infer Reply
  ? Reply extends z.ZodMiniType
    ? z.output<Reply>
    : Reply extends 'markdown'
      ? string
      : undefined
  : never;

/** The row of an operation, without its literal types. */
export function endpointRow(operation: Operation): EndpointRow {
  return ENDPOINT[operation];
}

/** Whether calls of this row need an idempotency key (spec: Idempotency, rules 1 and 6). */
export function isWrite(row: Pick<EndpointRow, 'method'>): boolean {
  return row.method !== 'GET';
}

/** The concrete path of a row: each parameter as one percent-encoded segment. */
export function fillPath(path: string, parameters: Readonly<Record<string, string>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters[name];
    if (value === undefined) throw new TypeError(`path parameter ${name} is missing`);
    return encodeURIComponent(value);
  });
}
