import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  ENDPOINT,
  ENDPOINT_ALIAS,
  type EndpointRow,
  endpointRow,
  fillPath,
  isWrite,
  type Operation,
} from '../../../src/wire/endpoint.js';
import { ACCOUNT_SCOPES, AGENT_SCOPES } from '../../../src/wire/scope.js';
import { type Actor, callApi } from '../../support/actors.js';
import { mustBeEnvelope, mustDeny } from '../../support/answers.js';
import { mustGrant } from '../../support/grants.js';
import { request } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';

interface Address {
  readonly operation: Operation;
  readonly path: string;
  readonly row: EndpointRow;
}

const ULID = '01ARZ3NDEKTSV4RRFFQ69G5FAV';
const PARAMETER = {
  session_id: `sess_${ULID}`,
  attachment_id: `att_${ULID}`,
  owner: 'no',
  name: 'body',
  entry: '@no.body',
  sender: '@no.body',
  blocked: '@no.body',
};

/** Every row and every alias. Every rule of the table must hold for each of them. */
const ADDRESSES: readonly Address[] = [
  ...(Object.entries(ENDPOINT) as [Operation, EndpointRow][]).map(([operation, row]) => ({
    operation,
    row,
    path: row.path,
  })),
  ...ENDPOINT_ALIAS.map(({ operation, path }) => ({ operation, path, row: endpointRow(operation) })),
];
const named = (addresses: readonly Address[]): [string, Address][] =>
  addresses.map((address) => [`${address.row.method} ${address.path}`, address]);
const pathOf = ({ path }: Address): string => fillPath(path, PARAMETER);

const forAgents = ADDRESSES.filter(({ row }) => row.actor !== 'account');
const forAccounts = ADDRESSES.filter(({ row }) => row.actor === 'account');
const writes = ADDRESSES.filter(({ row }) => isWrite(row));

let service: TestService;
let alice: Actor;
let accountToken: string;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
  alice = await service.createAgent('alice');
  const scope = ACCOUNT_SCOPES.join(' ');
  accountToken = (await mustGrant(service.place, service.operator, alice.handle, { scope })).accessToken;
});
afterAll(() => service.stop());

/** Makes a call that is valid except for what the test leaves out. */
function call(address: Address, token: string | undefined, options: { key?: null; body?: unknown } = {}) {
  const { method } = address.row;
  const body = 'body' in options ? options.body : isWrite(address.row) ? {} : undefined;
  return callApi(service.baseUrl, token, method, pathOf(address), body, 'key' in options ? { key: null } : {});
}

const goodToken = ({ row }: Address) => (row.actor === 'account' ? accountToken : alice.token());

describe('a token', () => {
  it.each(named(ADDRESSES))('%s answers 401 if it is missing, foreign, or for the socket', async (_, address) => {
    for (const token of [undefined, 'x.y.z', await alice.token('ws')])
      mustDeny(await call(address, token), 401, 'UNAUTHORIZED');
  });

  it.each(named(forAgents))(
    '%s answers 403 to each scope but its own, before checking anything else',
    async (_, address) => {
      const others = AGENT_SCOPES.filter((scope) => !address.row.scopes.includes(scope));
      for (const scope of others) {
        const answer = await call(address, await alice.token('api', [scope]), { key: null, body: '{' });
        mustDeny(answer, 403, 'INSUFFICIENT_SCOPE');
      }
    },
  );

  it.each(named(forAccounts))('%s answers 403 FORBIDDEN if it acts as an agent', async (_, address) => {
    mustDeny(await call(address, await alice.token(), { key: null, body: '{' }), 403, 'FORBIDDEN');
  });

  it.each(named(forAgents.filter(({ row }) => row.actor === 'agent')))(
    '%s answers 403 FORBIDDEN if it acts as an account',
    async (_, address) => {
      mustDeny(await call(address, accountToken, { key: null, body: '{' }), 403, 'FORBIDDEN');
    },
  );
});

describe('a request', () => {
  it.each(named(writes))('%s answers 400 without a key, whatever the body is', async (_, address) => {
    for (const body of [{}, '{', { unknown: true }, undefined])
      mustDeny(await call(address, await goodToken(address), { key: null, body }), 400, 'MISSING_IDEMPOTENCY_KEY');
  });

  it.each(named(writes.filter(({ row }) => row.body !== 'file')))(
    '%s answers 400 to a bad body',
    async (_, address) => {
      const token = await goodToken(address);
      for (const body of [{ unknown: 1 }, '[]', '"text"', '7', 'null', '{', '{"a":1}}'])
        mustDeny(await call(address, token, { body }), 400, 'VALIDATION_ERROR');
    },
  );

  it.each(named(ADDRESSES))(
    '%s answers 400 to a query parameter that is unknown or given twice',
    async (_, address) => {
      const token = await goodToken(address);
      for (const query of ['?unknown=1', '?limit=1&limit=2', '?__proto__=1']) {
        const answer = await callApi(service.baseUrl, token, address.row.method, `${pathOf(address)}${query}`);
        mustDeny(answer, 400, 'VALIDATION_ERROR');
      }
    },
  );
});

describe('The service, for addresses and methods outside the table,', () => {
  it('answers 405 with the path’s methods', async () => {
    for (const path of new Set(ADDRESSES.map(({ path }) => path))) {
      const known = ADDRESSES.filter((address) => address.path === path).map(({ row }) => row.method);
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        if ((known as string[]).includes(method)) continue;
        const answer = await request(`${service.baseUrl}${fillPath(path, PARAMETER)}`, { method });
        mustDeny(answer, 405, 'VALIDATION_ERROR');
        const allowed = known.includes('GET') ? [...known, 'HEAD'] : known;
        expect(answer.headers['allow']).toBe([...new Set(allowed)].sort().join(', '));
      }
    }
  });

  it('answers HEAD like GET, without a body, and 405 where there is no GET', async () => {
    for (const path of new Set(ADDRESSES.map(({ path }) => path))) {
      const rows = ADDRESSES.filter((address) => address.path === path);
      const readable = rows.find(({ row }) => row.method === 'GET');
      const url = `${service.baseUrl}${fillPath(path, PARAMETER)}`;
      const token = readable && (await goodToken(readable));
      const headers: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
      const [get, head] = [await request(url, { headers }), await request(url, { method: 'HEAD', headers })];
      expect({ path, status: head.status, text: head.text }).toEqual({ path, status: get.status, text: '' });
      expect(head.headers['content-type']).toBe(get.headers['content-type']);
      expect(head.headers['content-length']).toBe(get.headers['content-length']);
    }
  });

  it('answers 404 with the envelope to unknown paths', async () => {
    for (const path of ['/', '/nothing', '/sessions/x/', '//sessions', '/Sessions', '/agents/a/b/c', '/../v1']) {
      const answer = await request(`${service.baseUrl}${path}`);
      expect(answer.status, path).toBe(404);
      mustBeEnvelope(answer);
    }
  });

  it('allows no page of another origin to read it', async () => {
    for (const method of ['OPTIONS', 'GET', 'POST']) {
      const headers = { origin: 'https://evil.example', 'access-control-request-method': 'POST' };
      const answer = await request(`${service.baseUrl}/sessions`, { method, headers });
      expect(Object.keys(answer.headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
    }
  });
});

describe('path parameters', () => {
  it('give impossible ids the same answer as nonexistent ones', async () => {
    const missing = await alice.get(`/sessions/sess_${ULID}`);
    mustDeny(missing, 404, 'NOT_FOUND');
    for (const id of [
      'sess_',
      'x',
      `msg_${ULID}`,
      `sess_${ULID.toLowerCase()}`,
      '%00',
      '%F0%9F%98%80',
      'a%2Fb',
      '.'.repeat(400),
    ]) {
      const answer = await alice.get(`/sessions/${id}`);
      expect(answer.text, id).toBe(missing.text);
      expect(answer.status).toBe(404);
    }
  });

  it('get INVALID_HANDLE for anything wrong with a handle', async () => {
    for (const path of [
      '/agents/Alice/x',
      '/agents/a.b/c',
      '/agents/@a/b',
      '/agents/a/%20',
      '/agents/a/b%2Fc',
      `/agents/a/${'b'.repeat(200)}`,
    ])
      mustDeny(await alice.get(path), 400, 'INVALID_HANDLE');
    for (const path of ['/blocks/x', '/blocks/@A.b', `/agents/${alice.owner}/${alice.name}/allowlist/@a.**`])
      mustDeny(await alice.delete(path), 400, 'INVALID_HANDLE');
  });

  it('name nothing that exists if they are not percent-encoded text', async () => {
    for (const path of ['/sessions/%', '/sessions/%zz', '/sessions/%c3%28', '/%E0%A4%A'])
      mustDeny(await alice.get(path), 404, 'NOT_FOUND');
    mustDeny(await alice.get('/agents/a/%zz'), 400, 'INVALID_HANDLE');
  });
});
