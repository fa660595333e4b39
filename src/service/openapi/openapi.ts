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
import type { Addresses } from '../context.js';
import { operationText } from './operation-text.js';
import { parametersOf, pathParameter } from './parameters.js';
import { createSchemas, type Json, type Schemas } from './schemas.js';
import { securityOf, securityScheme } from './security.js';

const OPENAPI_VERSION = '3.1.0';
/** Of the interface: which program serves it is nobody's business. */
const API_VERSION = '1';

/** The REST interface of a service at these addresses, as an OpenAPI 3.1 document: the endpoint table, and nothing else. */
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
      description: 'Sessions between agents: create, join, talk, end and read them again.',
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
    id: `${operation}At${camelOf(path)}`,
  }));
  return [...rows, ...aliases];
}

function camelOf(path: string): string {
  const words = path.split(/[^a-z]+/i).filter((word) => word !== '');
  return words.map((word) => `${word.charAt(0).toUpperCase()}${word.slice(1)}`).join('');
}

function describe(operation: Operation, row: EndpointRow, path: string, id: string, schemas: Schemas): Json {
  const isAlias = path !== row.path;
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => name);
  const body = bodyOf(row, operation, schemas);
  return {
    operationId: id,
    ...operationText(operation),
    ...(isAlias && { description: `Another address of \`${row.method} ${row.path}\`.`, 'x-alias-of': operation }),
    security: securityOf(row),
    parameters: [
      ...names.map(pathParameter),
      ...(row.query === undefined ? [] : parametersOf(row.query, schemas)),
      ...(isWrite(row) ? [{ $ref: '#/components/parameters/IdempotencyKey' }] : []),
    ],
    ...(body === undefined ? {} : { requestBody: body }),
    responses: { ...success(row, operation, path, schemas), ...failures(row, names) },
  };
}

function bodyOf(row: EndpointRow, operation: Operation, schemas: Schemas): Json | undefined {
  if (row.body === undefined) return undefined;
  if (row.body !== 'file') {
    const schema = schemas.of(row.body.schema, 'input', `${pascalOf(operation)}Request`);
    return { required: !row.body.isOptional, content: { 'application/json': { schema } } };
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
  if (row.reply === 'nothing') return done({ description: 'Done.' });
  if (row.reply === 'markdown') return done(answer('text/markdown', { type: 'string' }, 'A page of Markdown.'));
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
  return done(answer('application/json', schemas.of(row.reply, 'output', `${pascalOf(operation)}Reply`)));
}

const pascalOf = (name: string): string => `${name.charAt(0).toUpperCase()}${name.slice(1)}`;

/** Which answers a row can give beside the good one. */
function failures(row: EndpointRow, parameters: readonly string[]): Json {
  const statuses = new Set([401, 403, 429, 500]);
  if (isWrite(row) || row.query !== undefined || parameters.length > 0) statuses.add(400);
  if (parameters.length > 0 || row.limit === 'createSession' || row.body !== undefined) statuses.add(404);
  if (row.path === '/agents' && row.method === 'POST') statuses.add(409);
  return Object.fromEntries(
    [...statuses].sort().map((status) => [String(status), { $ref: `#/components/responses/Error${status}` }]),
  );
}

/** One response for each status of the error table, with the codes that it may carry (spec: Errors). */
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
      const description = ofStatus.map((code) => `\`${code}\`: ${ERROR[code].message}`).join('\n\n');
      return [`Error${status}`, { description, ...headersOf(status), content: { 'application/json': { schema } } }];
    }),
  );
}

function headersOf(status: number): Json {
  const header = (name: string, description: string, type: string): Json => ({
    headers: { [name]: { description, schema: { type } } },
  });
  if (status === 429) return header('Retry-After', 'Whole seconds to wait.', 'integer');
  if (status === 401) return header('WWW-Authenticate', 'What is wrong with the token (RFC 6750 §3).', 'string');
  return {};
}

const idempotencyKey: Json = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'One key for all attempts of one operation: it happens once, and every attempt gets the same answer. Where a body carries `idempotency_key`, that key wins.',
  required: true,
  schema: { type: 'string', minLength: 1, maxLength: IDEMPOTENCY_KEY_MAX_LENGTH, pattern: '^[\\x20-\\x7e]+$' },
};
