import { randomInt, randomUUID } from 'node:crypto';

import { expect } from 'vitest';

import { mustBeEnvelope, mustDeny, mustSucceed } from '../support/answers.js';
import { type Answer, request } from '../support/http.js';
import { field } from '../support/json.js';
import { createRandom, type SeededRandom } from '../support/seeded-random.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// No malformed request may cause a 5xx or a crash. Each gets the error envelope. This file covers bodies, queries, and
// OAuth forms that resemble valid ones; hardly-http.test.ts covers bytes that do not. Every run prints its seed;
// `ASP_TEST_SEED` repeats it.

const service = useService();
const seed = Number(process.env['ASP_TEST_SEED'] ?? randomInt(2 ** 31));
const rounds = process.env['ASP_TEST_LONG'] === '1' ? 10_000 : 2_000;

const ODD: readonly unknown[] = [
  null,
  true,
  false,
  0,
  -0,
  -1,
  1.5,
  1e300,
  2 ** 53 + 1,
  '',
  ' ',
  'x',
  '\u0000',
  '\ud800',
  '\u202e',
  '__proto__',
  '@a.b',
  '@A.b',
  '@..',
  'sess_',
  'att_01ARZ3NDEKTSV4RRFFQ69G5FAV',
  [],
  [[]],
  [null],
  {},
  { a: {} },
  { toString: 1 },
  { length: 1e9 },
  'x'.repeat(5000),
  ['@a.b', '@a.b'],
  [{ type: 'text' }],
  [{ type: 'text', text: 'x' }],
  [{ type: '__proto__' }],
  { content: 'x' },
  { content: null },
];
const FIELDS = [
  'invite',
  'topic',
  'initial_message',
  'end_after_send',
  'content',
  'metadata',
  'idempotency_key',
  'handle',
  'entries',
  'display_name',
  'description',
  'card_body',
  'skills',
  'limit',
  'cursor',
  'q',
  'state',
  'after_sequence',
  '__proto__',
  'constructor',
  'toString',
];

/** Lone surrogates cannot be percent-encoded. */
const wellFormed = (text: string): string => Buffer.from(text).toString('utf8');

interface Target {
  readonly method: string;
  readonly path: string;
}

function targets(sessionId: string): readonly Target[] {
  const verbs = ['join', 'invite', 'messages', 'leave', 'reopen'].map((verb) => `/sessions/${sessionId}/${verb}`);
  const odd = [
    '/sessions/%00',
    '/sessions/%E0%A4%A',
    '/agents/%2e%2e/%2e%2e',
    '/agents/a/b/c/d',
    '//',
    '/sessions//join',
    '/%',
    '/a\\b',
  ];
  return [
    ...['/sessions', '/blocks', '/agents/me/allowlist', '/attachments', '/agents', ...verbs, ...odd].map((path) => ({
      method: 'POST',
      path,
    })),
    ...[
      '/sessions',
      '/agents',
      '/search/agents',
      '/search/messages',
      '/search/directory',
      '/blocks',
      '/accounts/me/sessions',
      ...odd,
    ].map((path) => ({ method: 'GET', path })),
    { method: 'GET', path: `/sessions/${sessionId}/events` },
    { method: 'PATCH', path: '/agents/me' },
    { method: 'DELETE', path: '/blocks/%40' },
    { method: 'DELETE', path: '/agents/me/allowlist/%25' },
    { method: 'PUT', path: '/sessions' },
    { method: 'OPTIONS', path: '/sessions' },
    { method: 'HEAD', path: '/sessions' },
  ];
}

function oddBody(random: SeededRandom): string {
  const object: Record<string, unknown> = {};
  for (let count = random.below(4); count >= 0; count -= 1) object[random.pick(FIELDS)] = random.pick(ODD);
  const json = JSON.stringify(random.below(10) === 0 ? random.pick(ODD) : object) ?? '';
  const kind = random.below(20);
  if (kind === 0) return json.slice(0, random.below(json.length + 1));
  if (kind === 1) return `${'['.repeat(3000)}${']'.repeat(3000)}`;
  if (kind === 2) return `{"content":"x","content":"y"}`;
  if (kind === 3) return `\ufeff${json}`;
  return json;
}

function oddQuery(random: SeededRandom): string {
  if (random.below(2) === 0) return '';
  const pairs = Array.from({ length: 1 + random.below(3) }, () => {
    const value = wellFormed(JSON.stringify(random.pick(ODD)));
    return `${random.pick(FIELDS)}=${random.below(8) === 0 ? '%E0%A4%A' : encodeURIComponent(value)}`;
  });
  return `?${pairs.join('&')}`;
}

function mustNotBeAFault(answer: Answer, what: string): void {
  expect(answer.status, `seed ${seed}: ${what} → ${answer.text}`).toBeLessThan(500);
  if (answer.status >= 400 && !what.startsWith('HEAD')) mustBeEnvelope(answer);
}

rule(
  'spec/Errors/INTERNAL_ERROR',
  `no malformed body or query causes a fault (seed ${seed})`,
  async () => {
    const random = createRandom(seed);
    const alice = await service.actor('alice');
    const list = targets(await alice.mustCreate());
    const token = await alice.token();
    const counts = new Map<number, number>();
    const once = async (): Promise<void> => {
      const { method, path } = random.pick(list);
      const url = `${service.place.baseUrl}${path}${oddQuery(random)}`;
      const body = method === 'GET' || method === 'HEAD' ? undefined : oddBody(random);
      const types = [
        'application/json',
        'application/json',
        'application/json',
        'text/plain',
        'multipart/form-data; boundary=x',
        '',
      ];
      const headers = {
        authorization: `Bearer ${token}`,
        'idempotency-key': random.below(20) === 0 ? 'x'.repeat(300) : randomUUID(),
        ...(body === undefined ? {} : { 'content-type': random.pick(types) }),
      };
      const answer = await request(url, { method, headers, ...(body === undefined ? {} : { body }) });
      counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1);
      mustNotBeAFault(answer, `${method} ${url} ${body ?? ''}`);
    };
    for (let done = 0; done < rounds; done += 20) await Promise.all(Array.from({ length: 20 }, once));
    // A run in which everything or nothing was refused has tested nothing.
    expect(counts.get(400) ?? 0).toBeGreaterThan(rounds / 10);
    expect((counts.get(200) ?? 0) + (counts.get(201) ?? 0)).toBeGreaterThan(rounds / 100);
    mustSucceed(await alice.get('/agents/me'));
  },
  300_000,
);

rule(
  'spec/Errors/INTERNAL_ERROR',
  `no malformed form causes a fault of the authorization server (seed ${seed})`,
  async () => {
    const random = createRandom(seed);
    const { tokenUrl, revokeUrl, registerUrl, authorizeUrl, baseUrl } = service.place;
    const names = [
      'grant_type',
      'client_id',
      'client_secret',
      'code',
      'code_verifier',
      'redirect_uri',
      'refresh_token',
      'resource',
      'scope',
      'token',
      'state',
      'response_type',
      'code_challenge',
      'code_challenge_method',
    ];
    const values = [
      '',
      'x',
      'authorization_code',
      'refresh_token',
      'client_credentials',
      baseUrl,
      '\u0000',
      '\ud800',
      '__proto__',
      'S256',
      'code',
      'x'.repeat(5000),
      '%',
      '\r\nx: y',
    ];
    for (let done = 0; done < rounds / 4; done += 1) {
      const form = Array.from(
        { length: random.below(8) },
        () => `${random.pick(names)}=${encodeURIComponent(wellFormed(random.pick(values)))}`,
      );
      const body = random.below(20) === 0 ? '%E0%A4%A=%&&=' : form.join('&');
      const url = random.pick([tokenUrl, revokeUrl, registerUrl, authorizeUrl]);
      const isQuery = url === authorizeUrl && random.below(2) === 0;
      const type = url === registerUrl ? 'application/json' : 'application/x-www-form-urlencoded';
      const sent = url === registerUrl ? oddBody(random) : body;
      const answer = isQuery
        ? await request(`${url}?${body}`)
        : await request(url, { method: 'POST', headers: { 'content-type': type }, body: sent });
      expect(answer.status, `seed ${seed}: ${url} ${sent} → ${answer.text}`).toBeLessThan(500);
      if (answer.status >= 400 && url !== authorizeUrl)
        expect(field(answer.json, 'error'), `${url} ${sent}`).toEqual(expect.any(String));
    }
  },
  120_000,
);

rule(
  ['spec/Client/VALIDATION_ERROR', 'spec/Errors/VALIDATION_ERROR'],
  'the corrected input with a new key works, and so does the old key',
  async () => {
    const alice = await service.actor('alice');
    const key = randomUUID();
    mustDeny(await alice.post('/sessions', { topic: 1 }, { key }), 400, 'VALIDATION_ERROR');
    mustDeny(await alice.post('/sessions', { invite: ['alice'] }, { key }), 400, 'INVALID_HANDLE');
    mustSucceed(await alice.post('/sessions', { topic: 'x' }), 201);
    mustSucceed(await alice.post('/sessions', { topic: 'x' }, { key }), 201);
  },
);
