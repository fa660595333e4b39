import * as z from 'zod/mini';
import { capitalized } from '../../kit/format.js';
import {
  ENDPOINT,
  ENDPOINT_ALIAS,
  type EndpointRow,
  endpointRow,
  isWrite,
  type Operation,
} from '../../wire/endpoint.js';
import { ERROR, type ErrorCode } from '../../wire/error.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH } from '../../wire/limit.js';
import { Agent, AgentSummary, Block, InboundPolicy, Visibility } from '../../wire/schemas/agent.js';
import { endpointSchemas } from '../../wire/schemas/endpoint.js';
import { EventEnvelope } from '../../wire/schemas/event.js';
import { Message } from '../../wire/schemas/message.js';
import { Content, Handle, HandlePart, InitialMessage, JsonObject, Part, Skill } from '../../wire/schemas/requests.js';
import { ListAccountSessionsReply, Participant, Session, SessionState } from '../../wire/schemas/session.js';
import { SCOPE_DESCRIPTION, SCOPES } from '../../wire/scope.js';
import type { Addresses } from '../core/context.js';
import { PATH } from '../oauth/metadata.js';

interface OperationText {
  readonly summary: string;
  readonly tags: readonly [string];
}

const text = (tag: string, summary: string): OperationText => ({ summary, tags: [tag] });

/** A one-line summary of each operation. */
export const OPERATION_TEXT: Readonly<Record<Operation, OperationText>> = {
  createSession: text('sessions', 'Create a session, invite agents and send a first message'),
  listSessions: text('sessions', 'List the sessions of the acting agent'),
  getSession: text('sessions', 'Read one session'),
  joinSession: text('sessions', 'Join a session'),
  inviteToSession: text('sessions', 'Invite agents to a session'),
  sendMessage: text('messages', 'Send a message to a session'),
  leaveSession: text('sessions', 'Leave a session'),
  endSession: text('sessions', 'End a session'),
  reopenSession: text('sessions', 'Reopen an ended session'),
  replayEvents: text('messages', 'Replay the events of a session'),
  getDelivery: text('messages', 'Read the delivery state of a message for each recipient'),
  reportTaken: text('messages', 'Report that messages were processed'),
  reportUnanswered: text('messages', 'Report that a message gets no answer'),
  claimSession: text('messages', 'Claim a session for one worker of an agent'),
  listAccountSessions: text('sessions', 'List the sessions of all agents of the account'),
  getAccount: text('account', 'Read the account'),
  uploadAttachment: text('attachments', 'Upload a file'),
  getAttachment: text('attachments', 'Get a download address for a file'),
  getActingAgent: text('agents', 'Read the acting agent'),
  updateActingAgent: text('agents', 'Change the profile of the acting agent'),
  listAgents: text('agents', 'List the agents of the account'),
  createAgent: text('agents', 'Create an agent'),
  getAgent: text('agents', 'Look up an agent'),
  updateAgent: text('agents', 'Change an agent of the account'),
  removeAgent: text('agents', 'Remove an agent of the account'),
  getWebhook: text('agents', 'Read the webhook of an agent'),
  setWebhook: text('agents', 'Set the webhook of an agent, and test it'),
  removeWebhook: text('agents', 'Remove the webhook of an agent'),
  getAgentCard: text('agents', 'Read the card of an agent'),
  searchAgents: text('search', 'Search agents'),
  searchDirectory: text('search', 'Search agents and people'),
  searchMessages: text('search', 'Search messages of joined sessions'),
  listAllowlist: text('trust', 'Read the allowlist'),
  addToAllowlist: text('trust', 'Add to the allowlist'),
  removeFromAllowlist: text('trust', 'Remove from the allowlist'),
  listKnocks: text('trust', 'List the strangers that were refused while the policy was hold'),
  dismissKnock: text('trust', 'Dismiss a refused stranger'),
  listBlocks: text('trust', 'List the agents that the acting agent blocks'),
  blockAgent: text('trust', 'Block an agent'),
  unblockAgent: text('trust', 'Unblock an agent'),
};

const ID = (prefix: string): Json => ({ type: 'string', pattern: `^${prefix}_[0-7][0-9A-HJKMNP-TV-Z]{25}$` });
const PART: Json = { type: 'string', pattern: getPattern(HandlePart) };

/** The parameters of paths. */
const PATH_PARAMETER: Readonly<Record<string, { readonly description: string; readonly schema: Json }>> = {
  session_id: { description: 'The session.', schema: ID('sess') },
  attachment_id: { description: 'The attachment, or the file.', schema: ID('(?:att|file)') },
  owner: { description: 'The first half of a handle, without `@`.', schema: PART },
  name: { description: 'The second half of a handle.', schema: PART },
  entry: { description: 'A handle, or `@owner.*`.', schema: { type: 'string' } },
  sender: { description: 'A handle.', schema: { type: 'string' } },
  blocked: { description: `A handle or the id of an agent.`, schema: { type: 'string' } },
};

function getPattern(schema: typeof HandlePart | typeof Handle): string {
  const pattern = schema._zod.bag['patterns'];
  const [first] = pattern instanceof Set ? [...pattern] : [];
  return first instanceof RegExp ? first.source : '.+';
}

function pathParameter(name: string): Json {
  const known = PATH_PARAMETER[name];
  if (known === undefined) throw new Error(`the path parameter ${name} is not described`);
  return { name, in: 'path', required: true, ...known };
}

/**
 * The members of a query. Their schemas describe the decoded values, so a number is an integer here, as in OpenAPI,
 * although every query value is text on the wire.
 */
function toParameters(query: z.ZodMiniType, schemas: Schemas): Json[] {
  const { properties = {} } = schemas.inline(query, 'output') as { properties?: Record<string, Json> };
  const { required = [] } = schemas.inline(query, 'input') as { required?: readonly string[] };
  return Object.entries(properties).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema,
  }));
}

export type Json = { readonly [member: string]: unknown };

/** Shapes that have their own name in the document; others are named after the operation that uses them. */
const NAMED = {
  Agent,
  AgentSummary,
  Block,
  Content,
  EventEnvelope,
  Handle,
  InboundPolicy,
  InitialMessage,
  JsonObject,
  Message,
  Part,
  Participant,
  Session,
  SessionState,
  Skill,
  Visibility,
} as const satisfies Record<string, z.ZodMiniType>;

type Direction = 'input' | 'output';

/** The JSON Schemas of the document, each once. */
interface Schemas {
  /** A reference to the schema, under its own name or `name`. */
  of(schema: z.ZodMiniType, direction: Direction, name: string): Json;
  /** The schema itself, where a reference is not allowed. */
  inline(schema: z.ZodMiniType, direction: Direction): Json;
  /** The sessions of an account, with rows that are not wrapped (wire: Aliases). */
  unwrapped(): Json;
  /** An attachment as a file, after an upload or with its download address (wire: Aliases). */
  file(isLink: boolean): Json;
  all(): Readonly<Record<string, Json>>;
}

function createSchemas(): Schemas {
  const metadata = z.registry<{ id: string }>();
  for (const [id, schema] of Object.entries(NAMED)) metadata.add(schema, { ...z.globalRegistry.get(schema), id });
  const components: Record<string, Json> = {};

  const convert = (schema: z.ZodMiniType, direction: Direction): Json => {
    const json = z.toJSONSchema(schema, { io: direction, unrepresentable: 'any', metadata, reused: 'inline' });
    const { $schema: _, $defs = {}, ...rest } = moveReferences(json) as { $defs?: Record<string, Json> } & Json;
    for (const [name, definition] of Object.entries($defs)) components[name] ??= withoutId(definition);
    return withoutId(rest);
  };
  const reference = (name: string): Json => ({ $ref: `#/components/schemas/${name}` });
  const put = (name: string, json: Json): Json => {
    components[name] ??= json;
    return reference(name);
  };

  return {
    inline: convert,
    of(schema, direction, name) {
      const json = convert(schema, direction);
      // A schema with its own name comes back in full.
      const known = Object.entries(NAMED).find(([, named]) => named === schema)?.[0];
      return put(known ?? name, json);
    },
    unwrapped() {
      convert(ListAccountSessionsReply, 'output');
      const acting = { type: 'object', properties: { acting_handle: { type: 'string' } }, required: ['acting_handle'] };
      const items = { allOf: [reference('Session'), acting] };
      return put('ListAccountSessionsFlatReply', {
        type: 'object',
        properties: { sessions: { type: 'array', items }, next_cursor: { type: ['string', 'null'] } },
        required: ['sessions', 'next_cursor'],
      });
    },
    file(isLink) {
      const link = isLink ? { url: { type: 'string' }, url_expires_at: { type: 'integer' } } : {};
      const properties = {
        id: { type: 'string' },
        filename: { type: 'string' },
        content_type: { type: 'string' },
        size_bytes: { type: 'integer' },
        ...link,
      };
      return put(isLink ? 'FileLink' : 'File', { type: 'object', properties, required: Object.keys(properties) });
    },
    all: () => Object.fromEntries(Object.entries(components).sort(([a], [b]) => (a < b ? -1 : 1))),
  };
}

/** `#/$defs/X` is `#/components/schemas/X` in this document. */
function moveReferences(json: unknown): unknown {
  if (Array.isArray(json)) return json.map(moveReferences);
  if (typeof json !== 'object' || json === null) return json;
  return Object.fromEntries(
    Object.entries(json).map(([key, value]) => {
      if (key === '$ref' && typeof value === 'string') return [key, value.replace('#/$defs/', '#/components/schemas/')];
      return [key, moveReferences(value)];
    }),
  );
}

/** The name is already in the path. */
function withoutId({ id: _, $id: __, ...rest }: Json): Json {
  return rest;
}

/** (spec: Authentication) */
function securityScheme({ authUrl, webUrl }: Addresses): Json {
  const scopes = Object.fromEntries(SCOPES.map((scope) => [scope, SCOPE_DESCRIPTION[scope]]));
  const tokenUrl = `${authUrl}${PATH.token}`;
  return {
    type: 'oauth2',
    description: 'Bearer access tokens; `resource` names the base URL of this interface (RFC 8707).',
    flows: {
      authorizationCode: { authorizationUrl: `${webUrl}${PATH.authorize}`, tokenUrl, refreshUrl: tokenUrl, scopes },
      clientCredentials: { tokenUrl, scopes },
    },
  };
}

/** All scopes of one requirement, or all of the other. */
function toSecurity(row: EndpointRow): Json[] {
  const alternatives = row.accountScopes === undefined ? [row.scopes] : [row.scopes, row.accountScopes];
  return alternatives.map((scopes) => ({ oauth: [...scopes] }));
}

const OPENAPI_VERSION = '3.1.0';
/** The version of the interface; the version of the program is not public. */
const API_VERSION = '1';

/**
 * The REST interface of a service at these addresses, as an OpenAPI 3.1 document, generated only from the endpoint
 * table.
 */
export function describeApi(addresses: Addresses): Json {
  const schemas = createSchemas();
  const paths: Record<string, Record<string, Json>> = {};
  for (const { path, row, operation, id } of listAddresses()) {
    const item = paths[path] ?? {};
    paths[path] = item;
    item[row.method.toLowerCase()] = describe(operation, row, path, id, schemas);
  }
  return {
    openapi: OPENAPI_VERSION,
    info: {
      title: 'Agent messaging',
      version: API_VERSION,
      description: 'Sessions between agents: create, join, talk, end and replay them.',
      license: { name: 'MIT', identifier: 'MIT' },
    },
    servers: [{ url: addresses.baseUrl }],
    paths,
    components: {
      schemas: schemas.all(),
      parameters: { IdempotencyKey: idempotencyKey },
      responses: errorResponses(),
      securitySchemes: { oauth: securityScheme(addresses) },
    },
  };
}

interface Address {
  readonly path: string;
  readonly operation: Operation;
  readonly row: EndpointRow;
  /** Unique in the document. */
  readonly id: string;
}

function listAddresses(): Address[] {
  const rows = (Object.keys(ENDPOINT) as Operation[]).map((operation) => {
    const row = endpointRow(operation);
    return { path: row.path, operation, row, id: operation };
  });
  const aliases = ENDPOINT_ALIAS.map(({ path, operation }) => ({
    path,
    operation,
    row: endpointRow(operation),
    id: `${operation}At${toCamelCase(path)}`,
  }));
  return [...rows, ...aliases];
}

function toCamelCase(path: string): string {
  const segments = path.split(/[^a-z]+/i).filter((word) => word !== '');
  return segments.map(capitalized).join('');
}

function describe(operation: Operation, row: EndpointRow, path: string, id: string, schemas: Schemas): Json {
  const isAlias = path !== row.path;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const body = toRequestBody(row, operation, schemas);
  const { query } = endpointSchemas(operation);
  return {
    operationId: id,
    ...OPERATION_TEXT[operation],
    ...(isAlias && { description: `Another address of \`${row.method} ${row.path}\`.`, 'x-alias-of': operation }),
    security: toSecurity(row),
    parameters: [
      ...names.map(pathParameter),
      ...(query === undefined ? [] : toParameters(query, schemas)),
      ...(isWrite(row) ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
    ],
    ...(body === undefined ? {} : { requestBody: body }),
    responses: { ...success(row, operation, path, schemas), ...failures(row, query !== undefined, names) },
  };
}

function toRequestBody(row: EndpointRow, operation: Operation, schemas: Schemas): Json | undefined {
  if (row.body === undefined) return undefined;
  const { body } = endpointSchemas(operation);
  if (body !== undefined) {
    const schema = schemas.of(body, 'input', `${capitalized(operation)}Request`);
    return { required: row.body === 'json', content: { 'application/json': { schema } } };
  }
  const file = { type: 'string', contentMediaType: 'application/octet-stream' };
  const schema = { type: 'object', properties: { file }, required: ['file'] };
  return { required: true, content: { 'multipart/form-data': { schema } } };
}

function success(row: EndpointRow, operation: Operation, path: string, schemas: Schemas): Json {
  const answer = (type: string, schema: Json, description = 'Done.'): Json => ({
    description,
    content: { [type]: { schema } },
  });
  const done = (response: Json): Json => ({ [row.status]: response });
  const { reply } = endpointSchemas(operation);
  if (row.reply === 'nothing') return done({ description: 'Done.' });
  if (reply === undefined) return done(answer('text/markdown', { type: 'string' }, 'A page of Markdown.'));
  const alias = ENDPOINT_ALIAS.find((candidate) => candidate.operation === operation && candidate.path === path);
  if (alias !== undefined && 'isUnwrapped' in alias) return done(answer('application/json', schemas.unwrapped()));
  if (alias !== undefined && 'isFile' in alias) {
    if (operation === 'uploadAttachment') return done(answer('application/json', schemas.file(false)));
    const description = 'Follow the redirect for the bytes.';
    const location = { description: 'The signed download address.', schema: { type: 'string' } };
    return {
      302: { ...answer('application/json', schemas.file(true), description), headers: { Location: location } },
    };
  }
  return done(answer('application/json', schemas.of(reply, 'output', `${capitalized(operation)}Reply`)));
}

/** The error codes that a row can return. */
function failures(row: EndpointRow, hasQuery: boolean, parameters: readonly string[]): Json {
  const statuses = new Set([401, 403, 429, 500]);
  if (isWrite(row) || hasQuery || parameters.length > 0) statuses.add(400);
  if (parameters.length > 0 || row.limit === 'createSession' || row.body !== undefined) statuses.add(404);
  if (row.path === '/agents' && row.method === 'POST') statuses.add(409);
  return Object.fromEntries(
    [...statuses].sort().map((status) => [String(status), { $ref: `#/components/responses/Error${status}` }]),
  );
}

/** One response for each status of the error table, with its possible codes (spec: Errors). */
function errorResponses(): Json {
  const codes = Object.keys(ERROR) as ErrorCode[];
  const statuses = [...new Set(codes.map((code) => ERROR[code].status))];
  return Object.fromEntries(
    statuses.map((status) => {
      const ofStatus = codes.filter((code) => ERROR[code].status === status);
      const error = {
        type: 'object',
        properties: {
          code: { type: 'string', enum: ofStatus },
          message: { type: 'string' },
          docs_url: { type: 'string' },
        },
        required: ['code', 'message'],
      };
      const schema = { type: 'object', properties: { error }, required: ['error'] };
      const headers = { 'X-Request-Id': requestId, ...toHeaders(status) };
      const description = ofStatus.map((code) => `\`${code}\`: ${ERROR[code].message}`).join('\n\n');
      return [`Error${status}`, { description, headers, content: { 'application/json': { schema } } }];
    }),
  );
}

const requestId: Json = {
  description: 'Identifies the request in the log of the service. Quote it to the operator.',
  schema: { type: 'string' },
};

function toHeaders(status: number): Json {
  const header = (name: string, description: string, type: string): Json => ({
    [name]: { description, schema: { type } },
  });
  if (status === 429) return header('Retry-After', 'Whole seconds to wait.', 'integer');
  if (status === 401) return header('WWW-Authenticate', 'What is wrong with the token (RFC 6750 §3).', 'string');
  return {};
}

const idempotencyKey: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'One key for all attempts of one operation: it runs once, and every attempt gets the same answer. If the body has `idempotency_key`, that key wins.',
  required: true,
  schema: { type: 'string', minLength: 1, maxLength: IDEMPOTENCY_KEY_MAX_LENGTH, pattern: '^[\\x20-\\x7e]+$' },
};
