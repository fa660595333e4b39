import { Validator } from '@seriousme/openapi-schema-validator';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  ENDPOINT,
  ENDPOINT_ALIAS,
  endpointRow,
  fillPath,
  isWrite,
  type Operation,
} from '../../../src/wire/endpoint.js';
import { ERROR } from '../../../src/wire/error.js';
import { SCOPES } from '../../../src/wire/scope.js';
import { request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';

interface Parameter {
  readonly $ref?: string;
  readonly name?: string;
  readonly in?: string;
  readonly required?: boolean;
  readonly schema?: {
    readonly type?: string;
    readonly minimum?: number;
    readonly maximum?: number;
    readonly default?: number;
  };
}

interface Described {
  readonly operationId: string;
  readonly summary: string;
  readonly parameters: readonly Parameter[];
  readonly security: readonly Readonly<Record<string, readonly string[]>>[];
  readonly requestBody?: { readonly required: boolean; readonly content: Readonly<Record<string, unknown>> };
  readonly responses: Readonly<Record<string, unknown>>;
  readonly 'x-alias-of'?: string;
}

interface Document {
  readonly openapi: string;
  readonly servers: readonly { readonly url: string }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
  readonly components: {
    readonly schemas: Readonly<Record<string, unknown>>;
    readonly responses: Readonly<Record<string, unknown>>;
    readonly parameters: Readonly<Record<string, Parameter>>;
    readonly securitySchemes: Readonly<
      Record<string, { readonly flows: Readonly<Record<string, { scopes: object }>> }>
    >;
  };
}

const PARAMETER = {
  session_id: `sess_01ARZ3NDEKTSV4RRFFQ69G5FAV`,
  attachment_id: `att_01ARZ3NDEKTSV4RRFFQ69G5FAV`,
  owner: 'no',
  name: 'body',
  entry: '@no.body',
  sender: '@no.body',
  blocked: '@no.body',
};
const METHODS = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace'];

describe('the OpenAPI document of a service', () => {
  let service: TestService;
  let document: Document;
  beforeAll(async () => {
    service = await startTestService();
    const answer = await request(`${service.authUrl}/openapi.json`);
    expect(answer.status).toBe(200);
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8');
    document = JSON.parse(answer.text) as Document;
  });
  afterAll(() => service.stop());

  const operations = (): [path: string, method: string, described: Described][] =>
    Object.entries(document.paths).flatMap(([path, item]) =>
      Object.entries(item).map(([method, described]): [string, string, Described] => [path, method, described]),
    );
  const addresses = [
    ...Object.entries(ENDPOINT).map(([operation, row]) => ({ operation, path: row.path, method: row.method })),
    ...ENDPOINT_ALIAS.map(({ operation, path }) => ({ operation, path, method: endpointRow(operation).method })),
  ];

  it('follows the rules of OpenAPI 3.1', async () => {
    const validator = new Validator();
    const result = await validator.validate(JSON.stringify(document, undefined, 1));
    expect(result.errors ?? []).toEqual([]);
    expect(result.valid).toBe(true);
    expect(validator.version).toBe('3.1');
    expect(document.openapi).toMatch(/^3\.1\.\d+$/);
    expect(document.servers).toEqual([{ url: service.baseUrl }]);
  });

  it('reveals the version of the API to everyone, and that of the program to no one', async () => {
    const named = await startTestService({ version: '7.8.9-secret' });
    try {
      const { text, json } = await request(`${named.authUrl}/openapi.json`);
      expect(field(json, 'info.version')).toBe('1');
      expect(text).not.toContain('7.8.9');
    } finally {
      await named.stop();
    }
  });

  it('refers only to what it contains', () => {
    const references = [...JSON.stringify(document).matchAll(/"\$ref":"#\/([^"]+)"/g)].map(([, target = '']) => target);
    expect(references.length).toBeGreaterThan(50);
    expect(Object.keys(document.components.schemas).filter((name) => !/^[A-Z][A-Za-z]+$/.test(name))).toEqual([]);
    for (const target of new Set(references)) {
      const found = target.split('/').reduce<unknown>((place, name) => Reflect.get(Object(place), name), document);
      expect(found, target).toBeTypeOf('object');
    }
  });

  it('contains exactly the rows of the endpoint table and the aliases', () => {
    const described = operations().map(([path, method]) => `${method.toUpperCase()} ${path}`);
    expect(described.sort()).toEqual(addresses.map(({ method, path }) => `${method} ${path}`).sort());
    const ids = operations().map(([, , { operationId }]) => operationId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const operation of Object.keys(ENDPOINT)) expect(ids).toContain(operation);
    for (const [path, , one] of operations())
      if (one['x-alias-of'] !== undefined) expect(endpointRow(one['x-alias-of'] as Operation).path).not.toBe(path);
  });

  it('matches the router: described methods require a token, others are refused', async () => {
    for (const [path, item] of Object.entries(document.paths))
      for (const method of METHODS) {
        if (method === 'trace') continue;
        const answer = await request(`${service.baseUrl}${fillPath(path, PARAMETER)}`, {
          method: method.toUpperCase(),
        });
        // HEAD is answered where GET is, and is not described.
        const known = 'get' in item ? [...Object.keys(item), 'head'] : Object.keys(item);
        expect(answer.status, `${method} ${path}`).toBe(known.includes(method) ? 401 : 405);
        if (!known.includes(method))
          expect(answer.headers['allow']?.toLowerCase().split(', ').sort()).toEqual(known.sort());
      }
  });

  it('names the scopes of each row, and offers all of them', () => {
    for (const { flows } of Object.values(document.components.securitySchemes))
      for (const flow of Object.values(flows)) expect(Object.keys(flow.scopes)).toEqual([...SCOPES]);
    for (const [path, method, { operationId, security, 'x-alias-of': original }] of operations()) {
      const row = endpointRow((original ?? operationId) as Operation);
      const wanted = row.accountScopes === undefined ? [row.scopes] : [row.scopes, row.accountScopes];
      expect(security, `${method} ${path}`).toEqual(wanted.map((scopes) => ({ oauth: [...scopes] })));
    }
  });

  it('requires an Idempotency-Key on every write and nowhere else (spec: Idempotency, rule 1)', () => {
    for (const [path, method, { operationId, parameters, 'x-alias-of': original }] of operations()) {
      const asked = parameters.some(({ $ref }) => $ref === '#/components/parameters/IdempotencyKey');
      expect(asked, `${method} ${path}`).toBe(isWrite(endpointRow((original ?? operationId) as Operation)));
    }
    expect(document.components.parameters['IdempotencyKey']).toMatchObject({ name: 'Idempotency-Key', in: 'header' });
  });

  it('describes numbers of a query as integers with their bounds and defaults', () => {
    const limit = document.paths['/sessions']?.['get']?.parameters.find(({ name }) => name === 'limit');
    expect(limit).toMatchObject({
      in: 'query',
      required: false,
      schema: { type: 'integer', minimum: 1, maximum: 100, default: 50 },
    });
    const after = document.paths['/sessions/{session_id}/events']?.['get']?.parameters.find(
      ({ name }) => name === 'after_sequence',
    );
    expect(after).toMatchObject({ required: false, schema: { type: 'integer', minimum: 0, default: 0 } });
    const words = document.paths['/search/agents']?.['get']?.parameters.find(({ name }) => name === 'q');
    expect(words).toMatchObject({ required: true, schema: { type: 'string', minLength: 2, maxLength: 100 } });
  });

  it('answers every error with the envelope and names every code once (spec: Errors)', () => {
    const named = Object.values(document.components.responses).flatMap((response) => {
      const [, codes = ''] = /"code":\{"type":"string","enum":\[([^\]]*)\]/.exec(JSON.stringify(response)) ?? [];
      return codes.split(',').map((code) => code.replaceAll('"', ''));
    });
    expect(named.sort()).toEqual(Object.keys(ERROR).sort());
    for (const [path, method, { responses }] of operations())
      for (const status of ['401', '403', '429', '500']) expect(responses, `${method} ${path}`).toHaveProperty(status);
  });

  it('describes bodies as the service reads them: closed', () => {
    expect(document.components.schemas['CreateSessionRequest']).toMatchObject({
      type: 'object',
      additionalProperties: false,
    });
    expect(document.components.schemas['Session']).toMatchObject({ required: expect.arrayContaining(['topic']) });
    expect(document.paths['/attachments']?.['post']?.requestBody?.content).toHaveProperty('multipart/form-data');
    expect(document.paths['/sessions/{session_id}/join']?.['post']?.requestBody?.required).toBe(false);
  });
});
