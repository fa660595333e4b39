import { randomUUID } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';

import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { mustSucceed } from '../support/answers.js';
import type { Answer } from '../support/http.js';
import { field, whole } from '../support/json.js';
import { multipart } from '../support/multipart.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// Everyone sees one order: what sending returned, what a replay shows, and what every socket received are the same
// numbered list, no matter how many agents write at once. Many simultaneous tries of one call count as one call.

const service = useService();
const isLong = process.env['ASP_TEST_LONG'] === '1';
const [writers, messages] = isLong ? [32, 200] : [16, 20];

interface Written {
  readonly id: unknown;
  readonly sequence: number;
  readonly content: string;
}

/** Makes a call again while the service refuses it, before it does anything, because its line is long (503). */
async function callUntilServed(call: () => Promise<Answer>): Promise<Answer> {
  for (;;) {
    const answer = await call();
    if (answer.status !== 503) return answer;
    await setTimeout(Number(answer.headers['retry-after']) * 1_000);
  }
}

async function writeMany(actor: Actor, id: string, writer: number): Promise<Written[]> {
  const written: Written[] = [];
  for (let count = 0; count < messages; count += 1) {
    const content = `${writer}:${count}`;
    const key = randomUUID();
    const post = (): Promise<Answer> => actor.post(`/sessions/${id}/messages`, { content }, { key });
    const json = mustSucceed(await callUntilServed(post), 201);
    written.push({ id: field(json, 'message_id'), sequence: whole(json, 'sequence'), content });
  }
  return written;
}

rule(
  ['wire/Sessions/sequences', 'spec/Events/sequence', 'spec/Message/sequence', 'wire/Events/envelope'],
  `${writers} writers at once: no gaps, no duplicates, one order for replay and every socket`,
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    await bob.mustJoin(id);
    await carol.mustJoin(id);
    const actors = [alice, bob, carol];
    const sockets = await Promise.all([alice, bob, bob].map((actor) => actor.mustConnect()));
    const written = (
      await Promise.all(
        Array.from({ length: writers }, (_, writer) => writeMany(actors[writer % 3] ?? alice, id, writer)),
      )
    ).flat();
    const events = await carol.mustReplay(id);
    expect(events.map((event) => field(event, 'sequence'))).toEqual(events.map((_, index) => index + 1));
    expect(new Set(events.map((event) => field(event, 'event_id'))).size).toBe(events.length);
    expect(events).toHaveLength(4 + writers * messages);
    for (const { id: messageId, sequence, content } of written)
      expect(events[sequence - 1]).toMatchObject({ sequence, payload: { id: messageId, sequence, content } });
    for (let writer = 0; writer < writers; writer += 1) {
      const own = written.filter(({ content }) => content.startsWith(`${writer}:`)).map(({ sequence }) => sequence);
      expect(own).toEqual(own.toSorted((one, two) => one - two));
    }
    for (const socket of sockets) {
      await socket.mustReceive('the last', (frame) => field(frame, 'sequence') === events.length, 30_000);
      const received = [...new Map(socket.frames.map((frame) => [field(frame, 'event_id'), frame])).values()];
      expect(received).toEqual(events.slice(-received.length));
      expect(received.length).toBeGreaterThanOrEqual(writers * messages);
      await socket.close();
    }
  },
  120_000,
);

rule(
  ['wire/Common/idempotency', 'spec/Idempotency/rule-3'],
  '32 simultaneous tries of any write are one write with one answer',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    const upload = { filename: 'a.txt', type: 'text/plain', bytes: 'x' };
    const writes: readonly (readonly [Actor, string, string, unknown])[] = [
      [alice, 'POST', '/sessions', { topic: 'once' }],
      [bob, 'POST', `/sessions/${id}/join`, undefined],
      [alice, 'POST', `/sessions/${id}/invite`, { invite: [carol.handle] }],
      [alice, 'POST', `/sessions/${id}/messages`, { content: 'once' }],
      [bob, 'POST', `/sessions/${id}/leave`, undefined],
      [alice, 'POST', `/sessions/${id}/end`, undefined],
      [alice, 'POST', `/sessions/${id}/reopen`, { initial_message: { content: 'again' } }],
      [alice, 'POST', '/agents/me/allowlist', { entries: ['@zoe.main'] }],
      [alice, 'DELETE', '/agents/me/allowlist/%40zoe.main', undefined],
      [alice, 'POST', '/blocks', { handle: '@no.body' }],
      [alice, 'DELETE', '/blocks/%40no.body', undefined],
      [alice, 'PATCH', '/agents/me', { description: 'once' }],
    ];
    for (const [actor, method, path, body] of writes) {
      const key = randomUUID();
      const tries = Array.from({ length: 32 }, () => callUntilServed(() => actor.call(method, path, body, { key })));
      const answers = new Set((await Promise.all(tries)).map((answer) => `${answer.status} ${answer.text}`));
      expect([path, answers.size, [...answers][0]]).toEqual([path, 1, expect.stringMatching(/^20[01] /)]);
    }
    const key = randomUUID();
    const uploads = Array.from({ length: 32 }, () => {
      const { type, body } = multipart([upload]);
      return callUntilServed(() => alice.post('/attachments', body, { key, headers: { 'content-type': type } }));
    });
    expect(new Set((await Promise.all(uploads)).map((answer) => answer.text)).size).toBe(1);
    expect((await alice.mustReplay(id)).map((event) => field(event, 'type'))).toEqual([
      'session.invited',
      'session.joined',
      'session.invited',
      'session.message',
      'session.left',
      'session.ended',
      'session.reopened',
      'session.invited',
      'session.invited',
      'session.message',
    ]);
  },
  120_000,
);
