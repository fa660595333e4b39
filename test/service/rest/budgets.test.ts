import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { RATE_LIMIT } from '../../../src/wire/limit.js';
import type { Actor } from '../../support/actors.js';
import { mustDeny, mustSucceed } from '../../support/answers.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import type { Answer } from '../../support/http.js';
import { multipart } from '../../support/multipart.js';
import { rawBytes } from '../../support/raw-http.js';
import { startTestService, type TestService } from '../../support/service.js';

const GENERAL = RATE_LIMIT.general.count;
const MISSING_FILE = 'att_01ARZ3NDEKTSV4RRFFQ69G5FAV';

let clock: TestClock;
let service: TestService;
let alice: Actor;
beforeEach(async () => {
  clock = createTestClock();
  service = await startTestService({ clock });
  alice = await service.createAgent('alice');
});
afterEach(() => service.stop());

const repeat = async (count: number, call: () => Promise<Answer>): Promise<Answer[]> => {
  const answers: Answer[] = [];
  for (let index = 0; index < count; index += 1) answers.push(await call());
  return answers;
};
const read = () => alice.get('/sessions');

describe('the general limit', () => {
  it('is exact, and its Retry-After is enough', async () => {
    const answers = await repeat(GENERAL + 5, read);
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(GENERAL);
    const refused = answers.at(-1) as Answer;
    mustDeny(refused, 429, 'RATE_LIMITED');
    clock.advance(Number(refused.headers['retry-after']) * 1000);
    mustSucceed(await read());
  });

  it('is checked before the path, the key and the body', async () => {
    await repeat(GENERAL, read);
    mustDeny(await alice.get('/sessions/x'), 429, 'RATE_LIMITED');
    mustDeny(await alice.post('/blocks', '{', { key: null }), 429, 'RATE_LIMITED');
  });

  it('is not charged for effects of a row with its own limit', async () => {
    const id = await alice.mustCreate();
    await repeat(GENERAL, read);
    await alice.mustSend(id, 'one more');
    mustDeny(await read(), 429, 'RATE_LIMITED');
  });

  it('is charged for refusals and replays of every row (D-24)', async () => {
    const id = await alice.mustCreate();
    const sent = await alice.post(`/sessions/${id}/messages`, { content: 'x' }, { key: 'k' });
    const replay = () => alice.post(`/sessions/${id}/messages`, { content: 'x' }, { key: 'k' });
    const missing = () => alice.post(`/sessions/${id.slice(0, -4)}0000/messages`, { content: 'x' });
    for (const answer of await repeat(GENERAL / 2, replay)) expect(answer.text).toBe(sent.text);
    for (const answer of await repeat(GENERAL / 2, missing)) mustDeny(answer, 404, 'NOT_FOUND');
    mustDeny(await missing(), 429, 'RATE_LIMITED');
    mustDeny(await replay(), 429, 'RATE_LIMITED');
    const left = RATE_LIMIT.sendMessage.count - 1;
    const others = await repeat(left, () => alice.post(`/sessions/${id}/messages`, { content: 'y' }));
    for (const answer of others) mustSucceed(answer, 201);
  });
});

describe('the limit of a row', () => {
  const CREATIONS = RATE_LIMIT.createSession.count;
  const file = { name: 'file', filename: 'a.txt', type: 'text/plain', bytes: Buffer.from('x') };

  it('of creations is exact and not used up by refusals, even among many at once', async () => {
    const denied = () => alice.post('/sessions', { invite: ['@nobody.here'] });
    const unsendable = () =>
      alice.post('/sessions', { initial_message: { content: [{ type: 'file', attachment_id: MISSING_FILE }] } });
    const refused = await Promise.all(
      Array.from({ length: CREATIONS }, (_, index) => (index % 2 ? denied() : unsendable())),
    );
    for (const answer of refused) mustDeny(answer, 404, 'NOT_FOUND');
    const mixed = await Promise.all(
      Array.from({ length: 3 * CREATIONS }, (_, index) => (index % 3 ? alice.post('/sessions', {}) : denied())),
    );
    expect(mixed.filter(({ status }) => status === 201)).toHaveLength(CREATIONS);
  });

  it('of creations, once used up, gives the same answer for all invitees', async () => {
    const bob = await service.createAgent('bob');
    await repeat(CREATIONS, () => alice.mustCreate().then(() => read()));
    const answers = [
      await alice.post('/sessions', { invite: [bob.handle] }),
      await alice.post('/sessions', { invite: ['@nobody.here'] }),
    ];
    for (const answer of answers) mustDeny(answer, 429, 'RATE_LIMITED');
    expect(answers[0]?.text).toBe(answers[1]?.text);
  });

  it('of messages is not used up by a message that is refused', async () => {
    const id = await alice.mustCreate();
    const send = (content: unknown) => alice.post(`/sessions/${id}/messages`, { content });
    const count = RATE_LIMIT.sendMessage.count;
    const foreign = [{ type: 'file', attachment_id: MISSING_FILE }];
    for (const answer of await repeat(count, () => send(foreign))) mustDeny(answer, 404, 'NOT_FOUND');
    for (const answer of await repeat(count, () => send('x'))) mustSucceed(answer, 201);
    mustDeny(await send('x'), 429, 'RATE_LIMITED');
  });

  it('does not charge the general limit for refusals', async () => {
    const id = await alice.mustCreate();
    const send = () => alice.post(`/sessions/${id}/messages`, { content: 'x' });
    await repeat(RATE_LIMIT.sendMessage.count, send);
    for (const answer of await repeat(50, send)) mustDeny(answer, 429, 'RATE_LIMITED');
    for (const answer of await repeat(GENERAL, read)) mustSucceed(answer);
    mustDeny(await read(), 429, 'RATE_LIMITED');
  });

  it('of uploads is checked before the body is received, except for a known key', async () => {
    const first = await alice.upload(file, { key: 'first' });
    await repeat(RATE_LIMIT.uploadAttachment.count - 1, () => alice.upload(file));
    const { type, body } = multipart([{ ...file, bytes: Buffer.alloc(1000, 'x') }]);
    const head = [
      'POST /v1/attachments HTTP/1.1',
      `host: ${new URL(service.baseUrl).host}`,
      `authorization: Bearer ${await alice.token()}`,
      'connection: close',
      'idempotency-key: another',
      `content-type: ${type}`,
      `content-length: ${body.length + 1}`,
    ];
    const unfinished = Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\n\r\n`), body]);
    const { hostname, port } = new URL(service.baseUrl);
    const answer = await rawBytes(hostname, Number(port), unfinished);
    expect(answer.toString('latin1')).toMatch(/^HTTP\/1\.1 429 .*\r\nretry-after: \d+\r\n.*"RATE_LIMITED"/is);
    const again = await alice.upload(file, { key: 'first' });
    mustSucceed(again, 201);
    expect(again.text).toBe(first.text);
  });

  it('of uploads is not used up by a file that is refused', async () => {
    const count = RATE_LIMIT.uploadAttachment.count;
    const wrong = await repeat(count, () => alice.upload({ ...file, type: 'image/png' }));
    for (const answer of wrong) mustDeny(answer, 400, 'VALIDATION_ERROR');
    const right = await Promise.all(Array.from({ length: count + 20 }, () => alice.upload(file)));
    expect(right.filter(({ status }) => status === 201)).toHaveLength(count);
    expect(right.filter(({ status }) => status === 429)).toHaveLength(20);
  });

  it('is per agent for searches and uploads', async () => {
    const bob = await service.createAgent('bob');
    const search = (actor: Actor) => () => actor.get('/search/agents?q=alice');
    const found = await repeat(RATE_LIMIT.search.count + 1, search(alice));
    expect(found.map(({ status }) => status)).toEqual([...Array(RATE_LIMIT.search.count).fill(200), 429]);
    mustSucceed(await search(bob)());
    const uploaded = await repeat(RATE_LIMIT.uploadAttachment.count + 1, () => alice.upload(file));
    expect(uploaded.map(({ status }) => status)).toEqual([...Array(RATE_LIMIT.uploadAttachment.count).fill(201), 429]);
    mustSucceed(await bob.upload(file), 201);
  });
});
