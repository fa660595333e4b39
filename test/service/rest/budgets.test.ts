import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { RATE_LIMIT } from '../../../src/wire/limit.js';
import type { Actor } from '../../support/actors.js';
import { mustDeny, mustSucceed } from '../../support/answers.js';
import { createTestClock, type TestClock } from '../../support/clock.js';
import type { Answer } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';

const GENERAL = RATE_LIMIT.general.count;

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

  it('is asked before the path, the key and the body are looked at', async () => {
    await repeat(GENERAL, read);
    mustDeny(await alice.get('/sessions/x'), 429, 'RATE_LIMITED');
    mustDeny(await alice.post('/blocks', '{', { key: null }), 429, 'RATE_LIMITED');
  });

  it('is not what a row with its own limit costs when it takes effect', async () => {
    const id = await alice.mustCreate();
    await repeat(GENERAL, read);
    await alice.mustSend(id, 'one more');
    mustDeny(await read(), 429, 'RATE_LIMITED');
  });

  it('is what refusals and replays cost, whatever the row (D-24)', async () => {
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
  it('is per agent for searches and uploads', async () => {
    const bob = await service.createAgent('bob');
    const search = (actor: Actor) => () => actor.get('/search/agents?q=alice');
    const found = await repeat(RATE_LIMIT.search.count + 1, search(alice));
    expect(found.map(({ status }) => status)).toEqual([...Array(RATE_LIMIT.search.count).fill(200), 429]);
    mustSucceed(await search(bob)());
    const file = { name: 'file', filename: 'a.txt', type: 'text/plain', bytes: Buffer.from('x') };
    const uploaded = await repeat(RATE_LIMIT.uploadAttachment.count + 1, () => alice.upload(file));
    expect(uploaded.map(({ status }) => status)).toEqual([...Array(RATE_LIMIT.uploadAttachment.count).fill(201), 429]);
    mustSucceed(await bob.upload(file), 201);
  });
});
