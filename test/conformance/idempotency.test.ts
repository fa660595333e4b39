import { randomUUID } from 'node:crypto';

import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import type { Answer } from '../support/http.js';
import { field, list } from '../support/json.js';
import { multipart } from '../support/multipart.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Idempotency" and docs/contract.md "Common rules". lifetimes.test.ts covers the day after which a
// key can be used again.

const service = useService();
const MISSING = 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV';

rule(
  ['spec/Idempotency/rule-1', 'spec/Service/rule-7', 'spec/Endpoints/key', 'spec/Errors/MISSING_IDEMPOTENCY_KEY'],
  'every write needs a key, and its presence is checked before the body',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    const writes = [
      ['POST', '/sessions'],
      ...['join', 'invite', 'messages', 'leave', 'end', 'reopen'].map((verb) => ['POST', `/sessions/${id}/${verb}`]),
      ['POST', `/sessions/${MISSING}/join`],
      ['POST', '/attachments'],
      ['PATCH', '/agents/me'],
      ['POST', `/agents/${alice.owner}/${alice.name}/allowlist`],
      ['DELETE', `/agents/${alice.owner}/${alice.name}/allowlist/%40a.b`],
      ['POST', '/blocks'],
      ['DELETE', '/blocks/%40a.b'],
    ];
    for (const [method = '', path = ''] of writes) {
      mustDeny(await alice.call(method, path, { bad: 'body' }, { key: null }), 400, 'MISSING_IDEMPOTENCY_KEY');
      mustDeny(await alice.call(method, path, undefined, { key: null }), 400, 'MISSING_IDEMPOTENCY_KEY');
    }
  },
);

rule(
  'wire/Common/idempotency',
  'a key in the body of a create or a message serves as the key and is never shown',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const body = { invite: [bob.handle], idempotency_key: randomUUID() };
    const first = mustSucceed(await alice.post('/sessions', body, { key: null }), 201);
    expect(mustSucceed(await alice.post('/sessions', body, { key: null }), 201)).toEqual(first);
    const id = String(field(first, 'session_id'));
    await bob.mustJoin(id);
    const message = { content: 'x', idempotency_key: 'any text, up to 255' };
    const sent = mustSucceed(await alice.post(`/sessions/${id}/messages`, message, { key: null }), 201);
    expect(mustSucceed(await alice.post(`/sessions/${id}/messages`, message, { key: null }), 201)).toEqual(sent);
    expect((await bob.get(`/sessions/${id}/events`)).text).not.toContain('idempotency_key');
    for (const bad of ['', 'x'.repeat(256), 1])
      expect((await alice.post('/sessions', { idempotency_key: bad }, { key: null })).status).toBe(400);
  },
);

rule('spec/Idempotency/rule-2', 'a key belongs to an agent and an endpoint', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const key = randomUUID();
  const create = async (actor: typeof alice) =>
    field(mustSucceed(await actor.post('/sessions', {}, { key }), 201), 'session_id');
  const [first, second] = [String(await create(alice)), String(await create(bob))];
  expect(first).not.toBe(second);
  const other = await alice.mustCreate();
  const send = async (id: string) =>
    mustSucceed(await alice.post(`/sessions/${id}/messages`, { content: 'x' }, { key }), 201);
  expect(field(await send(first), 'message_id')).not.toBe(field(await send(other), 'message_id'));
});

rule(
  ['spec/Idempotency/rule-3', 'spec/Client/5xx', 'spec/Client/MISSING_IDEMPOTENCY_KEY'],
  'the same key and body get the first answer verbatim and create nothing new',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    const key = randomUUID();
    const answers = [];
    for (let count = 0; count < 3; count += 1)
      answers.push(await alice.post(`/sessions/${id}/messages`, { content: 'once' }, { key }));
    for (const answer of answers) expect([answer.status, answer.text]).toEqual([201, answers[0]?.text]);
    expect(await alice.mustReplay(id)).toHaveLength(1);
    const create = randomUUID();
    const bodies = await Promise.all([1, 2, 3].map(() => alice.post('/sessions', { topic: 'x' }, { key: create })));
    expect(new Set(bodies.map((answer) => answer.text)).size).toBe(1);
  },
);

rule('spec/Idempotency/rule-3', 'key order, white space and a new access token make no difference', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const key = randomUUID();
  const token = await alice.token('api', ['sessions:write']);
  const path = `/sessions/${id}/messages`;
  const first = await alice.post(path, '{"content":"x","metadata":{"a":1,"b":[1,2]}}', { key });
  const again = await alice.post(path, '{ "metadata": {"b":[1, 2], "a":1}, "content":"x" }', { key, token });
  expect(again.text).toBe(first.text);
  mustSucceed(again, 201);
});

rule(
  ['spec/Idempotency/rule-4', 'spec/Errors/IDEMPOTENCY_MISMATCH', 'spec/Client/IDEMPOTENCY_MISMATCH'],
  'a different body is a mismatch; a fresh key or the original body works',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    const key = randomUUID();
    const path = `/sessions/${id}/messages`;
    const first = await alice.post(path, { content: 'one' }, { key });
    mustDeny(await alice.post(path, { content: 'two' }, { key }), 400, 'IDEMPOTENCY_MISMATCH');
    mustDeny(await alice.post(path, { content: 'one', metadata: {} }, { key }), 400, 'IDEMPOTENCY_MISMATCH');
    mustSucceed(await alice.post(path, { content: 'two' }), 201);
    expect((await alice.post(path, { content: 'one' }, { key })).text).toBe(first.text);
  },
);

rule('spec/Idempotency/rule-6', 'reads ignore the header', async () => {
  const alice = await service.actor('alice');
  const key = randomUUID();
  await alice.post('/sessions', {}, { key });
  const before = await alice.get('/sessions', { key, headers: { 'idempotency-key': key } });
  await alice.mustCreate();
  const after = await alice.get('/sessions', { key, headers: { 'idempotency-key': key } });
  expect(list(after.json, 'sessions')).toHaveLength(list(before.json, 'sessions').length + 1);
});

rule('wire/Common/idempotency', 'a key in the body wins over the one in the header', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const path = `/sessions/${id}/messages`;
  const message = { content: 'once', idempotency_key: randomUUID() };
  const first = await alice.post(path, message, { key: randomUUID() });
  mustSucceed(first, 201);
  expect((await alice.post(path, message, { key: randomUUID() })).text).toBe(first.text);
  expect((await alice.post(path, message, { key: null })).text).toBe(first.text);
  mustDeny(await alice.post(path, { ...message, content: 'other' }), 400, 'IDEMPOTENCY_MISMATCH');
  const header = randomUUID();
  await alice.post(path, { content: 'two', idempotency_key: randomUUID() }, { key: header });
  await alice.post(path, { content: 'three', idempotency_key: randomUUID() }, { key: header });
  expect(await alice.mustReplay(id)).toHaveLength(3);
  const session = { idempotency_key: randomUUID() };
  const created = await alice.post('/sessions', session);
  expect((await alice.post('/sessions', session)).text).toBe(created.text);
});

rule('wire/Common/idempotency', 'an upload repeated with a different boundary is the same upload', async () => {
  const alice = await service.actor('alice');
  const key = randomUUID();
  const upload = (bytes: string) => {
    const { type, body } = multipart([{ filename: 'a.txt', type: 'text/plain', bytes }]);
    return alice.post('/attachments', body, { key, headers: { 'content-type': type } });
  };
  const first = await upload('same');
  mustSucceed(first, 201);
  expect((await upload('same')).text).toBe(first.text);
  mustDeny(await upload('other'), 400, 'IDEMPOTENCY_MISMATCH');
});

rule('wire/Common/idempotency', 'a replay claims no attachment again', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const content = [{ type: 'file', attachment_id: await alice.mustUpload() }];
  const key = randomUUID();
  const first = await alice.post(`/sessions/${id}/messages`, { content }, { key });
  mustSucceed(first, 201);
  expect((await alice.post(`/sessions/${id}/messages`, { content }, { key })).text).toBe(first.text);
  mustDeny(await alice.post(`/sessions/${id}/messages`, { content }), 404, 'NOT_FOUND');
});

rule('wire/Common/idempotency', 'several calls at the same time: one runs, and all get its answer', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const attempts = Array.from({ length: 64 });
  /** An overloaded service runs nothing and says so. */
  const repeat = async (path: string, body: unknown, key: string): Promise<Answer> => {
    const answer = await alice.post(path, body, { key });
    return answer.status === 503 ? repeat(path, body, key) : answer;
  };
  for (let round = 0; round < 5; round += 1) {
    const id = await alice.mustCreate();
    const key = randomUUID();
    const answers = await Promise.all(attempts.map(() => repeat(`/sessions/${id}/messages`, { content: 'x' }, key)));
    expect(new Set(answers.map((answer) => `${answer.status} ${answer.text}`)).size).toBe(1);
    expect(await alice.mustReplay(id)).toHaveLength(1);
    const invite = randomUUID();
    const invited = await Promise.all(
      attempts.map(() => repeat(`/sessions/${id}/invite`, { invite: [bob.handle] }, invite)),
    );
    expect(new Set(invited.map((answer) => `${answer.status} ${answer.text}`))).toEqual(
      new Set([`200 {"invited":["${bob.handle}"]}`]),
    );
  }
});

rule(
  'wire/Common/idempotency',
  'two bodies with one key at the same time: one wins, the other is a mismatch',
  async () => {
    const alice = await service.actor('alice');
    const id = await alice.mustCreate();
    for (let round = 0; round < 10; round += 1) {
      const key = randomUUID();
      const answers = await Promise.all(
        ['one', 'two'].map((content) => alice.post(`/sessions/${id}/messages`, { content }, { key })),
      );
      expect(answers.map((answer) => answer.status).sort()).toEqual([201, 400]);
    }
    expect(await alice.mustReplay(id)).toHaveLength(10);
  },
);

rule('wire/Common/idempotency', 'impossible keys are 400, never 500', async () => {
  const alice = await service.actor('alice');
  for (const key of ['', ' ', 'x'.repeat(256), '\u0001', 'é']) {
    const answer = await alice
      .post('/sessions', {}, { key: null, headers: { 'idempotency-key': key } })
      .catch(() => undefined);
    if (answer !== undefined) expect([answer.status, key.length]).toEqual([400, key.length]);
  }
});
