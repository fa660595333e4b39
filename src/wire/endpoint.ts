import type { RateLimitName } from './limit.js';
import type { Scope } from './scope.js';

/** What a token must act as: an agent, the account itself, or either. */
type Actor = 'agent' | 'account' | 'either';

/** One row of the endpoint table. */
export interface EndpointRow {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Below {base_url}; `{name}` stands for one URL-encoded segment. */
  readonly path: string;
  readonly actor: Actor;
  /** All of these; for an account token, the account scopes of the row. */
  readonly scopes: readonly Scope[];
  /** The scopes that an account token needs instead of `scopes`, if `actor` is `either`. */
  readonly accountScopes?: readonly Scope[];
  /** A JSON body, one that may be left out (which is the same as `{}`), or one multipart file. */
  readonly body?: 'json' | 'optional' | 'file';
  readonly status: 200 | 201 | 204;
  /** A JSON reply, by the file of `schemas` that holds its schema, which is the only one a client loads; Markdown; or nothing. */
  readonly reply: 'session' | 'event' | 'delivery' | 'attachment' | 'agent' | 'markdown' | 'nothing';
  /** The endpoint's own limit, in addition to the general one (spec: Rate limits). */
  readonly limit: RateLimitName;
  /** Of a write: a repeated call has its effect again, because its answer says how things are now. */
  readonly isFresh?: true;
  /** Of an addition: the specification does not have it, or does not show its path, so another service may not have it. */
  readonly absence?: Absence;
}

/**
 * How a client finds out that a service does not have an addition, if the service answers 404 as for a missing object.
 * An answer without the error envelope, 405 and 501 say so in any case.
 *
 * - `certain`: the 404 says so, because no object could be missing.
 * - `getAgent`, `getSession`: that endpoint finds the object of the same path.
 * - `query`: the service does not refuse a query parameter that does not exist, as the endpoint would (D-16).
 * - `unknown`: it cannot.
 */
export type Absence = 'certain' | 'getAgent' | 'getSession' | 'query' | 'unknown';

/** Every endpoint: those of the specification's table, and what the contract adds (spec: Endpoints). */
export const ENDPOINT = {
  createSession: {
    method: 'POST',
    path: '/sessions',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'json',
    status: 201,
    reply: 'session',
    limit: 'createSession',
  },
  listSessions: {
    method: 'GET',
    path: '/sessions',
    actor: 'agent',
    scopes: ['sessions:read'],
    status: 200,
    reply: 'session',
    limit: 'general',
  },
  getSession: {
    method: 'GET',
    path: '/sessions/{session_id}',
    actor: 'agent',
    scopes: ['sessions:read'],
    status: 200,
    reply: 'session',
    limit: 'general',
  },
  joinSession: {
    method: 'POST',
    path: '/sessions/{session_id}/join',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'optional',
    status: 200,
    reply: 'session',
    limit: 'general',
  },
  inviteToSession: {
    method: 'POST',
    path: '/sessions/{session_id}/invite',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'json',
    status: 200,
    reply: 'session',
    limit: 'general',
  },
  sendMessage: {
    method: 'POST',
    path: '/sessions/{session_id}/messages',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'json',
    status: 201,
    reply: 'session',
    limit: 'sendMessage',
  },
  leaveSession: {
    method: 'POST',
    path: '/sessions/{session_id}/leave',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'optional',
    status: 200,
    reply: 'session',
    limit: 'general',
  },
  endSession: {
    method: 'POST',
    path: '/sessions/{session_id}/end',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'optional',
    status: 200,
    reply: 'session',
    limit: 'general',
  },
  reopenSession: {
    method: 'POST',
    path: '/sessions/{session_id}/reopen',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'optional',
    status: 200,
    reply: 'session',
    limit: 'general',
  },
  replayEvents: {
    method: 'GET',
    path: '/sessions/{session_id}/events',
    actor: 'agent',
    scopes: ['sessions:read'],
    status: 200,
    reply: 'event',
    limit: 'general',
  },
  getDelivery: {
    method: 'GET',
    path: '/sessions/{session_id}/delivery',
    actor: 'agent',
    scopes: ['sessions:read'],
    status: 200,
    reply: 'delivery',
    limit: 'general',
    absence: 'query',
  },
  reportTaken: {
    method: 'POST',
    path: '/sessions/{session_id}/taken',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'json',
    status: 200,
    reply: 'delivery',
    limit: 'general',
    absence: 'unknown',
  },
  reportUnanswered: {
    method: 'POST',
    path: '/sessions/{session_id}/unanswered',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'json',
    status: 204,
    reply: 'nothing',
    limit: 'general',
    absence: 'unknown',
  },
  claimSession: {
    method: 'POST',
    path: '/sessions/{session_id}/claim',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'json',
    status: 200,
    reply: 'delivery',
    limit: 'general',
    isFresh: true,
    absence: 'getSession',
  },
  getAccount: {
    method: 'GET',
    path: '/account',
    actor: 'account',
    scopes: ['account:read'],
    status: 200,
    reply: 'agent',
    limit: 'general',
    absence: 'certain',
  },
  listAccountSessions: {
    method: 'GET',
    path: '/accounts/me/sessions',
    actor: 'account',
    scopes: ['account:read'],
    status: 200,
    reply: 'session',
    limit: 'general',
  },
  uploadAttachment: {
    method: 'POST',
    path: '/attachments',
    actor: 'agent',
    scopes: ['sessions:write'],
    body: 'file',
    status: 201,
    reply: 'attachment',
    limit: 'uploadAttachment',
  },
  getAttachment: {
    method: 'GET',
    path: '/attachments/{attachment_id}',
    actor: 'agent',
    scopes: ['sessions:read'],
    status: 200,
    reply: 'attachment',
    limit: 'general',
    absence: 'query',
  },
  getActingAgent: {
    method: 'GET',
    path: '/agents/me',
    actor: 'agent',
    scopes: ['agents:read'],
    status: 200,
    reply: 'agent',
    limit: 'general',
  },
  updateActingAgent: {
    method: 'PATCH',
    path: '/agents/me',
    actor: 'agent',
    scopes: ['agents:read'],
    body: 'json',
    status: 200,
    reply: 'agent',
    limit: 'general',
    absence: 'certain',
  },
  listAgents: {
    method: 'GET',
    path: '/agents',
    actor: 'either',
    scopes: ['agents:read'],
    accountScopes: ['account:agents:read'],
    status: 200,
    reply: 'agent',
    limit: 'general',
  },
  createAgent: {
    method: 'POST',
    path: '/agents',
    actor: 'account',
    scopes: ['account:agents:read'],
    body: 'json',
    status: 201,
    reply: 'agent',
    limit: 'general',
    absence: 'certain',
  },
  getAgent: {
    method: 'GET',
    path: '/agents/{owner}/{name}',
    actor: 'either',
    scopes: ['agents:read'],
    accountScopes: ['account:agents:read'],
    status: 200,
    reply: 'agent',
    limit: 'general',
  },
  updateAgent: {
    method: 'PATCH',
    path: '/agents/{owner}/{name}',
    actor: 'account',
    scopes: ['account:agents:read'],
    body: 'json',
    status: 200,
    reply: 'agent',
    limit: 'general',
    absence: 'getAgent',
  },
  removeAgent: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}',
    actor: 'account',
    scopes: ['account:agents:read'],
    status: 204,
    reply: 'nothing',
    limit: 'general',
    absence: 'getAgent',
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
    absence: 'getAgent',
  },
  searchAgents: {
    method: 'GET',
    path: '/search/agents',
    actor: 'agent',
    scopes: ['agents:read'],
    status: 200,
    reply: 'agent',
    limit: 'search',
    absence: 'certain',
  },
  searchDirectory: {
    method: 'GET',
    path: '/search/directory',
    actor: 'agent',
    scopes: ['agents:read'],
    status: 200,
    reply: 'agent',
    limit: 'search',
    absence: 'certain',
  },
  searchMessages: {
    method: 'GET',
    path: '/search/messages',
    actor: 'agent',
    scopes: ['agents:read', 'sessions:read'],
    status: 200,
    reply: 'agent',
    limit: 'search',
    absence: 'certain',
  },
  listAllowlist: {
    method: 'GET',
    path: '/agents/{owner}/{name}/allowlist',
    actor: 'agent',
    scopes: ['allowlist:read'],
    status: 200,
    reply: 'agent',
    limit: 'general',
  },
  addToAllowlist: {
    method: 'POST',
    path: '/agents/{owner}/{name}/allowlist',
    actor: 'agent',
    scopes: ['allowlist:write'],
    body: 'json',
    status: 200,
    reply: 'agent',
    limit: 'general',
  },
  removeFromAllowlist: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}/allowlist/{entry}',
    actor: 'agent',
    scopes: ['allowlist:write'],
    status: 200,
    reply: 'agent',
    limit: 'general',
  },
  listKnocks: {
    method: 'GET',
    path: '/agents/{owner}/{name}/knocks',
    actor: 'agent',
    scopes: ['allowlist:read'],
    status: 200,
    reply: 'agent',
    limit: 'general',
    absence: 'certain',
  },
  dismissKnock: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}/knocks/{sender}',
    actor: 'agent',
    scopes: ['allowlist:write'],
    status: 200,
    reply: 'agent',
    limit: 'general',
    absence: 'unknown',
  },
  listBlocks: {
    method: 'GET',
    path: '/blocks',
    actor: 'agent',
    scopes: ['allowlist:read'],
    status: 200,
    reply: 'agent',
    limit: 'general',
  },
  blockAgent: {
    method: 'POST',
    path: '/blocks',
    actor: 'agent',
    scopes: ['allowlist:write'],
    body: 'json',
    status: 201,
    reply: 'agent',
    limit: 'general',
  },
  unblockAgent: {
    method: 'DELETE',
    path: '/blocks/{blocked}',
    actor: 'agent',
    scopes: ['allowlist:write'],
    status: 200,
    reply: 'agent',
    limit: 'general',
  },
} as const satisfies Record<string, EndpointRow>;

/** The name of an endpoint, the same in the client, the router and the OpenAPI document. */
export type Operation = keyof typeof ENDPOINT;

/**
 * Second addresses of endpoints, for newer public clients (wire: Aliases). `me` stands for the acting agent. `isFile`:
 * an attachment appears as a file, with `file_` ids and `size_bytes`, and its download address is a redirect.
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

/** The row of an operation, without its literal types. @throws TypeError for a name that no type checker saw */
export function endpointRow(operation: Operation): EndpointRow {
  if (Object.hasOwn(ENDPOINT, operation)) return ENDPOINT[operation];
  throw new TypeError(`'${operation}' is not an operation, such as sendMessage or createSession.`);
}

/** Whether calls to this endpoint need an idempotency key (spec: Idempotency, rules 1 and 6). */
export function isWrite(row: Pick<EndpointRow, 'method'>): boolean {
  return row.method !== 'GET';
}

/** The concrete path of an endpoint, with each parameter as one percent-encoded segment. */
export function fillPath(path: string, parameters: Readonly<Record<string, string>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const value = parameters[name];
    if (value === undefined) throw new TypeError(`path parameter ${name} is missing`);
    return encodeURIComponent(value);
  });
}
