import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ServiceError } from '../../../src/service/core/errors.js';
import { checkBody } from '../../../src/service/http/request.js';
import type { Operation } from '../../../src/wire/endpoint.js';
import { JSON_DEPTH_MAX, JSON_VALUES_MAX, MESSAGE_BODY_MAX_BYTES, TOPIC_MAX_LENGTH } from '../../../src/wire/limit.js';
import type { Actor } from '../../support/actors.js';
import { mustDeny, mustSucceed } from '../../support/answers.js';
import { field } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';

let service: TestService;
let alice: Actor;
let session: string;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
  alice = await service.createAgent('alice');
  session = await alice.mustCreate();
});
afterAll(() => service.stop());

const send = (body: string | Uint8Array, headers: Record<string, string> = {}) =>
  alice.post(`/sessions/${session}/messages`, body, { headers });
const message = (content: string): string => JSON.stringify({ content });
/** Returns a message whose data part is nested, `depth` levels deep in total. */
const nested = (depth: number): string => {
  const inner = depth - 4;
  return `{"content":[{"type":"data","data":{"a":${'['.repeat(inner)}${']'.repeat(inner)}}}]}`;
};

const CLAIM = { worker: 'one', event_id: 'evt_00000000000000000000000000', sequence: 1, lease_ms: 0 };

describe('a size that is refused', () => {
  const sizes: readonly (readonly [operation: Operation, body: object, message: string])[] = [
    ['sendMessage', { content: '' }, '"content" must not be empty.'],
    ['sendMessage', { content: [] }, '"content" must not be empty.'],
    ['sendMessage', { content: [{ type: 'text', text: '' }] }, '"content.0.text" must not be empty.'],
    ['inviteToSession', { invite: [] }, '"invite" must not be empty.'],
    ['createSession', { topic: 'x'.repeat(2000) }, `"topic" is longer than ${TOPIC_MAX_LENGTH} characters.`],
    ['reportTaken', { sequences: Array(101).fill(1) }, '"sequences" has more than 100 items.'],
    ['claimSession', { ...CLAIM, worker: '' }, '"worker" must not be empty.'],
    ['claimSession', { ...CLAIM, lease_ms: 600_001 }, '"lease_ms" is above its maximum of 600000.'],
    ['reportTaken', { sequences: [0] }, '"sequences.0" is below its minimum of 1.'],
  ];
  for (const [operation, body, message] of sizes)
    it(`is named by what is too long or too short: ${message}`, () => {
      const refusal = expect.objectContaining({ code: 'VALIDATION_ERROR', message });
      expect(() => checkBody(operation, body)).toThrow(refusal);
    });
});

describe('a part of a message that is refused', () => {
  const parts: readonly (readonly [content: unknown, message: string])[] = [
    [[{ type: 'video' }], '"content.0.type" must be one of: text, data, file, image.'],
    [[{ type: 'text', text: 'x' }, {}], '"content.1.type" must be one of: text, data, file, image.'],
    [[{ type: 'text', text: 5 }], '"content.0.text" must be of type string.'],
    [['hi'], '"content.0" must be of type object.'],
    [[{ type: 'image' }], '"content.0": exactly one of attachment_id, file_id, url and data_uri.'],
    [[{ type: 'text', text: 'x', size: 1 }], '"content.0" has an unknown field: "size".'],
    [5, '"content" is not valid.'],
  ];
  for (const [content, message] of parts)
    it(`is named, with its problem: ${message}`, () => {
      const refusal = expect.objectContaining({ code: 'VALIDATION_ERROR', message });
      expect(() => checkBody('sendMessage', { content })).toThrow(refusal);
    });
});

describe('a JSON body', () => {
  it('has the type application/json in UTF-8, in any spelling', async () => {
    for (const type of [
      'application/json',
      'Application/JSON',
      'application/json; charset=utf-8',
      'application/json;charset="UTF-8"',
      'application/json ;\tcharset = utf-8 ; ',
      'application/json;',
    ])
      mustSucceed(await send(message('x'), { 'content-type': type }), 201);
  });

  it('is refused with 415 in any other type, charset or encoding', async () => {
    for (const type of [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/json; charset=latin1',
      'application/jsonp',
      'nonsense',
      '',
    ])
      mustDeny(await send(message('x'), { 'content-type': type }), 415, 'VALIDATION_ERROR');
    mustDeny(await send(gzipSync(message('x')), { 'content-encoding': 'gzip' }), 415, 'VALIDATION_ERROR');
  });

  it(`has at most ${MESSAGE_BODY_MAX_BYTES} bytes`, async () => {
    const frame = message('').length;
    mustSucceed(await send(message('a'.repeat(MESSAGE_BODY_MAX_BYTES - frame))), 201);
    mustDeny(await send(message('a'.repeat(MESSAGE_BODY_MAX_BYTES - frame + 1))), 413, 'VALIDATION_ERROR');
  });

  it('stays intact among many others, and contains nothing of earlier ones', async () => {
    const own = await alice.mustCreate();
    const texts = Array.from(
      { length: 80 },
      (_, index) => `${index}:${'abcdefgh'[index % 8]?.repeat(20_000 + 2_500 * index)}`,
    );
    const sent = await Promise.all(
      texts.map((text, index) =>
        // A refused message releases its memory too.
        index % 10 === 9
          ? send(message(text), { 'content-type': 'text/plain' })
          : alice.post(`/sessions/${own}/messages`, message(text)),
      ),
    );
    for (const [index, answer] of sent.entries()) expect(answer.status).toBe(index % 10 === 9 ? 415 : 201);
    const kept = (await alice.mustReplay(own)).flatMap((event) =>
      field(event, 'type') === 'session.message' ? [String(field(event, 'payload.content'))] : [],
    );
    expect(kept.sort()).toEqual(texts.filter((_, index) => index % 10 !== 9).sort());
  });

  it(`is nested at most ${JSON_DEPTH_MAX} deep`, async () => {
    mustSucceed(await send(nested(JSON_DEPTH_MAX)), 201);
    mustDeny(await send(nested(JSON_DEPTH_MAX + 1)), 400, 'VALIDATION_ERROR');
    mustDeny(await send('['.repeat(100_000)), 400, 'VALIDATION_ERROR');
    mustSucceed(await send(message('[{"'.repeat(1000))), 201);
  });

  it(`has at most ${JSON_VALUES_MAX} values, of any kind and in any place`, async () => {
    const body = (values: string) => `{"content":"[,{,[\\",[","metadata":{"a":${values}}}`;
    const around = 4;
    const list = (count: number, value: string) => `[ ${Array<string>(count).fill(value).join(' , ')} ]`;
    for (const value of ['7', '"x,["', '{}', '[ ]', 'null', 'true']) {
      mustSucceed(await send(body(list(JSON_VALUES_MAX - around, value))), 201);
      mustDeny(await send(body(list(JSON_VALUES_MAX - around + 1, value))), 400, 'VALIDATION_ERROR');
    }
    const nestedTwice = (JSON_VALUES_MAX - around) / 2;
    mustSucceed(await send(body(list(nestedTwice, '{"a":1}'))), 201);
    mustDeny(await send(body(list(nestedTwice + 1, '{"a":1}'))), 400, 'VALIDATION_ERROR');
  });

  it('has no number that a reader could not reproduce', async () => {
    const metadata = (number: string) => `{"content":"x","metadata":{"n":${number}}}`;
    for (const number of [
      '1e999',
      '-1E+400',
      '1e309',
      '9'.repeat(400),
      `${'9'.repeat(310)}.5`,
      `0.1e${'9'.repeat(20)}`,
    ])
      mustDeny(await send(metadata(number)), 400, 'VALIDATION_ERROR');
    for (const number of [
      '1e308',
      '-1.7976931348623157E308',
      '9'.repeat(300),
      '1e-999',
      '0e999',
      `1.${'0'.repeat(500)}`,
    ])
      mustSucceed(await send(metadata(number)), 201);
    mustSucceed(await send('{"content":"1e999"}'), 201);
  });

  const elements: readonly (readonly [
    operation: Operation,
    body: (elements: unknown) => unknown,
    faults: readonly unknown[],
  ])[] = [
    [
      'sendMessage',
      (content) => ({ content }),
      [
        ...[
          {},
          [],
          7,
          'x',
          null,
          { type: 'x' },
          { type: 'text' },
          { type: 'text', text: '' },
          { type: 'text', text: 7 },
        ],
        ...[
          { type: 'data', data: [] },
          { type: 'data', data: { a: Number.POSITIVE_INFINITY } },
        ],
        ...[{ type: 'file' }, { type: 'file', attachment_id: 'x' }, { type: 'file', url: 'x' }],
        ...[
          { type: 'file', url: 'https://x/', name: '' },
          { type: 'file', url: 'https://x/', mime_type: 'x' },
        ],
        ...[
          { type: 'file', url: 'https://x/', size: -1 },
          { type: 'file', url: 'https://x/', size: 0.5 },
        ],
        ...[
          { type: 'file', url: 'https://x/', name: 'n'.repeat(200) },
          { type: 'file', url: 'https://x/', more: 1 },
        ],
        ...[{ type: 'image' }, { type: 'image', url: 'x' }, { type: 'image', data_uri: 'x' }],
      ],
    ],
    ['inviteToSession', (invite) => ({ invite }), [7, '', 'x', '@a.b.c', `@a.${'b'.repeat(200)}`, '@a.*']],
    ['addToAllowlist', (entries) => ({ entries }), [7, '', 'x', '@a.b.c', `@${'a'.repeat(200)}.*`]],
    [
      'updateActingAgent',
      (skills) => ({ skills }),
      [{}, { name: '', description: '' }, { name: 'n', description: 'd'.repeat(2000) }, { name: 'n'.repeat(200) }],
    ],
  ];
  it.each(elements)('is refused at its first fault, no matter how many follow (%s)', (operation, body, faults) => {
    for (const fault of faults) {
      let looks = 0;
      const many = new Proxy(Array<unknown>(5_000).fill(fault), {
        get(target, key, receiver) {
          if (typeof key === 'string' && /^\d+$/.test(key)) looks += 1;
          return Reflect.get(target, key, receiver);
        },
      });
      expect(() => checkBody(operation, body(many)), JSON.stringify(fault)).toThrow(ServiceError);
      expect(looks, JSON.stringify(fault)).toBeLessThan(10);
    }
  });

  it('is UTF-8 text without lone surrogates', async () => {
    mustDeny(await send(Buffer.from('{"content":"\xff"}', 'latin1')), 400, 'VALIDATION_ERROR');
    mustDeny(await send(`\ufeff${message('x')}`), 400, 'VALIDATION_ERROR');
    mustDeny(await send('{"content":"\\ud800"}'), 400, 'VALIDATION_ERROR');
    mustDeny(await send('{"content":"x","metadata":{"\\udc00":1}}'), 400, 'VALIDATION_ERROR');
    mustSucceed(await send('{"content":"\\ud83d\\ude00","metadata":{"a":null,"b":[null]}}'), 201);
  });

  it('keeps __proto__, constructor and prototype as data', async () => {
    const metadata = '{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":2}},"prototype":3}';
    const body = `{"content":[{"type":"data","data":${metadata}}],"metadata":${metadata}}`;
    mustSucceed(await send(body), 201);
    const last = (await alice.mustReplay(session)).at(-1);
    expect(JSON.stringify(field(last, 'payload.metadata'))).toBe(metadata);
    expect(JSON.stringify(field(last, 'payload.content.0.data'))).toBe(metadata);
    expect(Reflect.get({}, 'polluted')).toBeUndefined();
  });

  it('has no member __proto__ of its own', async () => {
    mustDeny(await send('{"content":"x","__proto__":{"metadata":{}}}'), 400, 'VALIDATION_ERROR');
  });

  it('may be absent or empty only if it is optional', async () => {
    const id = await alice.mustCreate();
    for (const body of [undefined, '', {}]) mustSucceed(await alice.post(`/sessions/${id}/join`, body));
    mustDeny(await alice.post(`/sessions/${id}/join`, { a: 1 }), 400, 'VALIDATION_ERROR');
    for (const body of [undefined, ''])
      mustDeny(await alice.post(`/sessions/${id}/messages`, body), 400, 'VALIDATION_ERROR');
    for (const body of [undefined, '', {}])
      mustDeny(await alice.call('DELETE', '/blocks/@no.body', body), 404, 'NOT_FOUND');
  });
});

describe('a handle in a body', () => {
  it('is INVALID_HANDLE whatever is wrong with it', async () => {
    for (const handle of [
      'alice',
      '@a',
      '@A.b',
      '@a.b.c',
      '@a.b ',
      '',
      7,
      null,
      {},
      ['@a.b'],
      `@a.${'b'.repeat(1000)}`,
      '@ａ.b',
    ]) {
      mustDeny(await alice.post('/sessions', { invite: ['@a.b', handle] }), 400, 'INVALID_HANDLE');
      mustDeny(await alice.post(`/sessions/${session}/invite`, { invite: [handle] }), 400, 'INVALID_HANDLE');
      mustDeny(await alice.post(`/sessions/${session}/reopen`, { invite: [handle] }), 400, 'INVALID_HANDLE');
      mustDeny(await alice.post('/blocks', { handle }), 400, 'INVALID_HANDLE');
      mustDeny(await alice.post('/agents/me/allowlist', { entries: [handle] }), 400, 'INVALID_HANDLE');
    }
  });

  it('is VALIDATION_ERROR if it is missing or misplaced', async () => {
    mustDeny(await alice.post('/blocks', {}), 400, 'VALIDATION_ERROR');
    mustDeny(await alice.post('/sessions', { invite: '@a.b' }), 400, 'VALIDATION_ERROR');
    mustDeny(await alice.post('/sessions', { invite: ['@a.b'], sender: '@a.b' }), 400, 'VALIDATION_ERROR');
  });
});

describe('an idempotency key', () => {
  it('is 1 to 255 printable characters', async () => {
    for (const key of ['k', 'a key', 'k'.repeat(255), '"8e03978e-40d5-43dd-bc93-6894a57f9324"'])
      mustSucceed(await alice.post(`/sessions/${session}/messages`, { content: key }, { key }), 201);
    for (const key of ['k'.repeat(256), 'ü'])
      mustDeny(await alice.post(`/sessions/${session}/messages`, { content: 'x' }, { key }), 400, 'VALIDATION_ERROR');
    mustDeny(
      await alice.post(`/sessions/${session}/messages`, { content: 'x' }, { key: '' }),
      400,
      'MISSING_IDEMPOTENCY_KEY',
    );
  });

  it('may be in the body of the two calls of ASP, and is not shown', async () => {
    const created = await alice.post('/sessions', { topic: 't', idempotency_key: 'in the body' }, { key: null });
    const again = await alice.post('/sessions', { topic: 't', idempotency_key: 'in the body' }, { key: null });
    mustSucceed(created, 201);
    expect(again.text).toBe(created.text);
    const id = String(field(created.json, 'session_id'));
    const body = { content: 'x', idempotency_key: 'secret key' };
    const sent = await alice.post(`/sessions/${id}/messages`, body, { key: null });
    expect((await alice.post(`/sessions/${id}/messages`, body, { key: null })).text).toBe(sent.text);
    expect((await alice.post(`/sessions/${id}/messages`, { content: 'x' }, { key: 'secret key' })).text).toBe(
      sent.text,
    );
    expect(JSON.stringify(await alice.mustReplay(id))).not.toContain('secret key');
    for (const key of [7, null, '', {}])
      mustDeny(
        await alice.post(`/sessions/${id}/messages`, { content: 'x', idempotency_key: key }, { key: null }),
        400,
        key === '' ? 'VALIDATION_ERROR' : 'MISSING_IDEMPOTENCY_KEY',
      );
  });

  it('covers a path under each of its addresses', async () => {
    const bob = await service.createAgent('bob');
    const key = 'one for both';
    const first = await alice.post('/blocks', { handle: bob.handle }, { key });
    mustSucceed(first, 201);
    expect((await alice.post('/agents/me/blocks', { handle: bob.handle }, { key })).text).toBe(first.text);
    mustDeny(await alice.post('/agents/me/blocks', { handle: '@no.body' }, { key }), 400, 'IDEMPOTENCY_MISMATCH');
  });
});
