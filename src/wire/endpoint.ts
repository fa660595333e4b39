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
  /** Of a write: a repeated call takes effect again, because its answer says how things are now. */
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

/** What most rows have, and so leave out. */
const USUAL = { actor: 'agent', status: 200, limit: 'general' } as const;

const ROWS = {
  createSession: {
    method: 'POST',
    path: '/sessions',
    scopes: ['sessions:write'],
    body: 'json',
    status: 201,
    reply: 'session',
    limit: 'createSession',
  },
  listSessions: { method: 'GET', path: '/sessions', scopes: ['sessions:read'], reply: 'session' },
  getSession: { method: 'GET', path: '/sessions/{session_id}', scopes: ['sessions:read'], reply: 'session' },
  joinSession: {
    method: 'POST',
    path: '/sessions/{session_id}/join',
    scopes: ['sessions:write'],
    body: 'optional',
    reply: 'session',
  },
  inviteToSession: {
    method: 'POST',
    path: '/sessions/{session_id}/invite',
    scopes: ['sessions:write'],
    body: 'json',
    reply: 'session',
  },
  sendMessage: {
    method: 'POST',
    path: '/sessions/{session_id}/messages',
    scopes: ['sessions:write'],
    body: 'json',
    status: 201,
    reply: 'session',
    limit: 'sendMessage',
  },
  leaveSession: {
    method: 'POST',
    path: '/sessions/{session_id}/leave',
    scopes: ['sessions:write'],
    body: 'optional',
    reply: 'session',
  },
  endSession: {
    method: 'POST',
    path: '/sessions/{session_id}/end',
    scopes: ['sessions:write'],
    body: 'optional',
    reply: 'session',
  },
  reopenSession: {
    method: 'POST',
    path: '/sessions/{session_id}/reopen',
    scopes: ['sessions:write'],
    body: 'optional',
    reply: 'session',
  },
  replayEvents: { method: 'GET', path: '/sessions/{session_id}/events', scopes: ['sessions:read'], reply: 'event' },
  getDelivery: {
    method: 'GET',
    path: '/sessions/{session_id}/delivery',
    scopes: ['sessions:read'],
    reply: 'delivery',
    absence: 'query',
  },
  reportTaken: {
    method: 'POST',
    path: '/sessions/{session_id}/taken',
    scopes: ['sessions:write'],
    body: 'json',
    reply: 'delivery',
    absence: 'unknown',
  },
  reportUnanswered: {
    method: 'POST',
    path: '/sessions/{session_id}/unanswered',
    scopes: ['sessions:write'],
    body: 'json',
    status: 204,
    reply: 'nothing',
    absence: 'unknown',
  },
  claimSession: {
    method: 'POST',
    path: '/sessions/{session_id}/claim',
    scopes: ['sessions:write'],
    body: 'json',
    reply: 'delivery',
    isFresh: true,
    absence: 'getSession',
  },
  getAccount: {
    method: 'GET',
    path: '/account',
    actor: 'account',
    scopes: ['account:read'],
    reply: 'agent',
    absence: 'certain',
  },
  listAccountSessions: {
    method: 'GET',
    path: '/accounts/me/sessions',
    actor: 'account',
    scopes: ['account:read'],
    reply: 'session',
  },
  uploadAttachment: {
    method: 'POST',
    path: '/attachments',
    scopes: ['sessions:write'],
    body: 'file',
    status: 201,
    reply: 'attachment',
    limit: 'uploadAttachment',
  },
  getAttachment: {
    method: 'GET',
    path: '/attachments/{attachment_id}',
    scopes: ['sessions:read'],
    reply: 'attachment',
    absence: 'query',
  },
  getActingAgent: { method: 'GET', path: '/agents/me', scopes: ['agents:read'], reply: 'agent' },
  updateActingAgent: {
    method: 'PATCH',
    path: '/agents/me',
    scopes: ['agents:read'],
    body: 'json',
    reply: 'agent',
    absence: 'certain',
  },
  listAgents: {
    method: 'GET',
    path: '/agents',
    actor: 'either',
    scopes: ['agents:read'],
    accountScopes: ['account:agents:read'],
    reply: 'agent',
  },
  createAgent: {
    method: 'POST',
    path: '/agents',
    actor: 'account',
    scopes: ['account:agents:read'],
    body: 'json',
    status: 201,
    reply: 'agent',
    absence: 'certain',
  },
  getAgent: {
    method: 'GET',
    path: '/agents/{owner}/{name}',
    actor: 'either',
    scopes: ['agents:read'],
    accountScopes: ['account:agents:read'],
    reply: 'agent',
  },
  updateAgent: {
    method: 'PATCH',
    path: '/agents/{owner}/{name}',
    actor: 'account',
    scopes: ['account:agents:read'],
    body: 'json',
    reply: 'agent',
    absence: 'getAgent',
  },
  removeAgent: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}',
    actor: 'account',
    scopes: ['account:agents:read'],
    status: 204,
    reply: 'nothing',
    absence: 'getAgent',
  },
  getWebhook: {
    method: 'GET',
    path: '/agents/{owner}/{name}/webhook',
    actor: 'account',
    scopes: ['account:agents:read'],
    reply: 'agent',
    absence: 'getAgent',
  },
  setWebhook: {
    method: 'POST',
    path: '/agents/{owner}/{name}/webhook',
    actor: 'account',
    scopes: ['account:agents:read'],
    body: 'json',
    reply: 'agent',
    isFresh: true,
    absence: 'getAgent',
  },
  removeWebhook: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}/webhook',
    actor: 'account',
    scopes: ['account:agents:read'],
    status: 204,
    reply: 'nothing',
    absence: 'getAgent',
  },
  getAgentCard: {
    method: 'GET',
    path: '/agents/{owner}/{name}/card',
    actor: 'either',
    scopes: ['agents:read'],
    accountScopes: ['account:agents:read'],
    reply: 'markdown',
    absence: 'getAgent',
  },
  searchAgents: {
    method: 'GET',
    path: '/search/agents',
    scopes: ['agents:read'],
    reply: 'agent',
    limit: 'search',
    absence: 'certain',
  },
  searchDirectory: {
    method: 'GET',
    path: '/search/directory',
    scopes: ['agents:read'],
    reply: 'agent',
    limit: 'search',
    absence: 'certain',
  },
  searchMessages: {
    method: 'GET',
    path: '/search/messages',
    scopes: ['agents:read', 'sessions:read'],
    reply: 'agent',
    limit: 'search',
    absence: 'certain',
  },
  listAllowlist: {
    method: 'GET',
    path: '/agents/{owner}/{name}/allowlist',
    scopes: ['allowlist:read'],
    reply: 'agent',
  },
  addToAllowlist: {
    method: 'POST',
    path: '/agents/{owner}/{name}/allowlist',
    scopes: ['allowlist:write'],
    body: 'json',
    reply: 'agent',
  },
  removeFromAllowlist: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}/allowlist/{entry}',
    scopes: ['allowlist:write'],
    reply: 'agent',
  },
  listKnocks: {
    method: 'GET',
    path: '/agents/{owner}/{name}/knocks',
    scopes: ['allowlist:read'],
    reply: 'agent',
    absence: 'certain',
  },
  dismissKnock: {
    method: 'DELETE',
    path: '/agents/{owner}/{name}/knocks/{sender}',
    scopes: ['allowlist:write'],
    reply: 'agent',
    absence: 'unknown',
  },
  listBlocks: { method: 'GET', path: '/blocks', scopes: ['allowlist:read'], reply: 'agent' },
  blockAgent: {
    method: 'POST',
    path: '/blocks',
    scopes: ['allowlist:write'],
    body: 'json',
    status: 201,
    reply: 'agent',
  },
  unblockAgent: { method: 'DELETE', path: '/blocks/{blocked}', scopes: ['allowlist:write'], reply: 'agent' },
} as const satisfies Record<string, Omit<EndpointRow, keyof typeof USUAL> & Partial<EndpointRow>>;

type Rows = typeof ROWS;

/** Every endpoint: those of the specification's table, and what the contract adds (spec: Endpoints). */
export const ENDPOINT = Object.fromEntries(
  Object.entries(ROWS).map(([operation, row]) => [operation, { ...USUAL, ...row }]),
) as { readonly [Name in keyof Rows]: EndpointRow & Rows[Name] & Omit<typeof USUAL, keyof Rows[Name]> };

/** The name of an operation of the service, as in its OpenAPI document. */
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
