import { randomUUID } from 'node:crypto';

import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import type { Answer } from '../support/http.js';
import { field } from '../support/json.js';
import { multipart } from '../support/multipart.js';
import { askClientToken } from '../support/oauth.js';
import { rawBytes } from '../support/raw-http.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Rate limits": exactly N calls succeed, and the next one gets 429 and whole seconds to wait.
// lifetimes.test.ts, where the test moves the clock, checks that those seconds are enough.

const service = useService({ limits: 'on' });

const NOBODY = `@nobody-${randomUUID().slice(0, 8)}.main`;

/** Sends the head of an upload and half of its body. Returns the answer to that. */
async function beginUpload(actor: Actor): Promise<string> {
  const { type, body } = multipart([{ bytes: Buffer.alloc(100_000, 'x') }]);
  const { host, hostname, pathname, port } = new URL(service.place.baseUrl);
  const head = [
    `POST ${pathname}/attachments HTTP/1.1`,
    `host: ${host}`,
    'connection: close',
    `authorization: Bearer ${await actor.token()}`,
    `idempotency-key: ${randomUUID()}`,
    `content-type: ${type}`,
    `content-length: ${body.length}`,
  ];
  const half = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body.subarray(0, body.length / 2)]);
  return (await rawBytes(hostname, Number(port), half)).toString('latin1');
}

/** Makes `count` calls, several at a time, and returns their answers. */
async function repeat(count: number, call: () => Promise<Answer>): Promise<Answer[]> {
  const answers: Answer[] = [];
  while (answers.length < count)
    answers.push(...(await Promise.all(Array.from({ length: Math.min(20, count - answers.length) }, call))));
  return answers;
}

/** Makes `limit` + 10 calls. Exactly `limit` succeed; the others must say to wait, for at most `windowS`. */
async function mustAllow(limit: number, status: number, windowS: number, call: () => Promise<Answer>): Promise<void> {
  const answers = await repeat(limit + 10, call);
  const counts = [status, 429].map((code) => answers.filter((answer) => answer.status === code).length);
  expect(counts, answers.find((answer) => ![status, 429].includes(answer.status))?.text).toEqual([limit, 10]);
  for (const answer of answers.filter(({ status: code }) => code === 429)) {
    mustDeny(answer, 429, 'RATE_LIMITED');
    const wait = Number(answer.headers['retry-after']);
    expect(wait).toSatisfy(Number.isInteger);
    expect(wait).toBeGreaterThanOrEqual(1);
    expect(wait).toBeLessThanOrEqual(windowS);
  }
}

rule(
  ['spec/Rate/create', 'spec/Errors/RATE_LIMITED', 'spec/Errors/retry-after'],
  'an agent gets 30 sessions per hour',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    await mustAllow(30, 201, 3600, () => alice.post('/sessions', {}));
    mustSucceed(await bob.post('/sessions', {}), 201);
  },
);

rule('spec/Rate/send', 'a session gets 60 messages per minute from all senders', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  const senders: readonly Actor[] = [alice, bob];
  let turn = 0;
  await mustAllow(60, 201, 60, () => {
    turn += 1;
    const sender = senders[turn % 2] ?? alice;
    return sender.post(`/sessions/${id}/messages`, { content: 'x' });
  });
  const other = await alice.mustCreate();
  await alice.mustSend(other, 'another session has its own');
});

rule('spec/Rate/send', 'a stranger cannot tell from 429 that the session exists', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate();
  await repeat(61, () => alice.post(`/sessions/${id}/messages`, { content: 'x' }));
  mustDeny(await alice.post(`/sessions/${id}/messages`, { content: 'x' }), 429, 'RATE_LIMITED');
  mustDeny(await bob.post(`/sessions/${id}/messages`, { content: 'x' }), 404, 'NOT_FOUND');
});

rule(
  'spec/Rate/send-open',
  'an open agent gets 500 messages per hour, over all sessions and senders',
  async () => {
    const target = await service.actor('target');
    const senders = await Promise.all(Array.from({ length: 9 }, () => service.actor('sender')));
    const sessions = await Promise.all(
      senders.map(async (sender) => {
        const id = await sender.mustCreate({ invite: [target.handle] });
        await target.mustJoin(id);
        return { sender, id };
      }),
    );
    const answers: Answer[] = [];
    for (const { sender, id } of sessions)
      answers.push(...(await repeat(57, () => sender.post(`/sessions/${id}/messages`, { content: 'x' }))));
    const counts = [201, 429].map((status) => answers.filter((answer) => answer.status === status).length);
    expect(counts).toEqual([500, 13]);
  },
  300_000,
);

rule('spec/Rate/search', 'an agent gets 30 searches per minute, over all kinds of search', async () => {
  const alice = await service.actor('alice');
  const kinds = ['agents', 'directory', 'messages'];
  let turn = 0;
  await mustAllow(30, 200, 60, () => {
    turn += 1;
    return alice.get(`/search/${kinds[turn % 3]}?q=ab`);
  });
});

rule('spec/Rate/upload', 'an agent gets 60 uploads per hour', async () => {
  const alice = await service.actor('alice');
  await mustAllow(60, 201, 3600, () => alice.upload({ filename: 'a.txt', type: 'text/plain', bytes: 'x' }));
});

rule('spec/Rate/general', 'an agent gets 300 calls per minute, over tokens and endpoints', async () => {
  const alice = await service.actor('alice');
  const tokens = [await alice.token(), await alice.token('api', ['agents:read', 'sessions:read'])];
  let turn = 0;
  await mustAllow(300, 200, 60, () => {
    turn += 1;
    return alice.get(turn % 2 === 0 ? '/agents/me' : '/sessions', { token: tokens[turn % tokens.length] ?? '' });
  });
});

rule('spec/Rate/token', 'a client gets 120 tokens per minute', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const answers = await repeat(130, () => askClientToken(service.place, alice.credentials, service.place.baseUrl));
  const counts = [200, 429].map((status) => answers.filter((answer) => answer.status === status).length);
  expect(counts).toEqual([120, 10]);
  for (const answer of answers.filter(({ status }) => status === 429))
    expect(answer.headers['retry-after']).toMatch(/^[1-9]\d?$/);
  expect((await askClientToken(service.place, bob.credentials, service.place.baseUrl)).status).toBe(200);
});

rule('spec/Rate/create', 'refused creations do not count toward the limit', async () => {
  const alice = await service.actor('alice');
  const answers = await repeat(40, () => alice.post('/sessions', { invite: [NOBODY] }));
  for (const answer of answers) mustDeny(answer, 404, 'NOT_FOUND');
  await mustAllow(30, 201, 3600, () => alice.post('/sessions', {}));
});

rule('spec/Rate/create', 'once it is used up, 429 does not reveal who would have been invited', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  for (let count = 0; count < 30; count += 1) await alice.mustCreate();
  const [reachable, missing] = await Promise.all(
    [bob.handle, NOBODY].map((handle) => alice.post('/sessions', { invite: [handle] })),
  );
  for (const answer of [reachable, missing]) mustDeny(answer as Answer, 429, 'RATE_LIMITED');
  expect(reachable?.text).toBe(missing?.text);
});

rule(
  ['spec/Rate/upload', 'spec/Idempotency/rule-3'],
  'an upload is refused before its body arrives, unless its key is known',
  async () => {
    const alice = await service.actor('alice');
    const small = { filename: 'a.txt', type: 'text/plain', bytes: 'x' };
    const key = randomUUID();
    const first = await alice.upload(small, { key });
    await repeat(59, () => alice.upload(small));
    expect(await beginUpload(alice)).toMatch(/^HTTP\/1\.1 429 .*\r\nretry-after: [1-9]\d*\r\n.*"RATE_LIMITED"/is);
    const again = await alice.upload(small, { key });
    expect([again.status, again.text]).toEqual([201, first.text]);
    mustDeny(await alice.upload(small), 429, 'RATE_LIMITED');
  },
);

rule('spec/Rate/upload', 'refused files do not count toward the limit', async () => {
  const alice = await service.actor('alice');
  const wrong = await repeat(60, () => alice.upload({ filename: 'a.png', type: 'image/png', bytes: 'x' }));
  for (const answer of wrong) mustDeny(answer, 400, 'VALIDATION_ERROR');
  await mustAllow(60, 201, 3600, () => alice.upload({ filename: 'a.txt', type: 'text/plain', bytes: 'x' }));
});

rule('spec/Rate/send', 'refused messages do not count toward the limit of the session', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const content = [{ type: 'file', attachment_id: `att_${'0'.repeat(26)}` }];
  for (const answer of await repeat(60, () => alice.post(`/sessions/${id}/messages`, { content })))
    mustDeny(answer, 404, 'NOT_FOUND');
  await mustAllow(60, 201, 60, () => alice.post(`/sessions/${id}/messages`, { content: 'x' }));
});

rule(
  'spec/Rate/general',
  'endpoints with their own limit are not part of it, and their 429 does not count',
  async () => {
    const alice = await service.actor('alice');
    await mustAllow(30, 200, 60, () => alice.get('/search/agents?q=ab'));
    const id = await alice.mustCreate();
    await mustAllow(300, 200, 60, () => alice.get('/agents/me'));
    await alice.mustSend(id, 'sent all the same');
    await alice.mustUpload();
    mustDeny(await alice.get('/agents/me'), 429, 'RATE_LIMITED');
  },
);

rule('spec/Rate/create', 'a repeated key does not count toward the limit', async () => {
  const alice = await service.actor('alice');
  const key = randomUUID();
  const answers = await repeat(50, () => alice.post('/sessions', {}, { key }));
  expect(new Set(answers.map((answer) => field(answer.json, 'session_id'))).size).toBe(1);
  for (let count = 0; count < 29; count += 1) await alice.mustCreate();
  mustDeny(await alice.post('/sessions', {}), 429, 'RATE_LIMITED');
});
