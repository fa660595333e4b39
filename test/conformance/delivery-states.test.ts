import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, list } from '../support/json.js';
import { until } from '../support/until.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// docs/contract.md, "Delivery": the state of a message for each of its recipients. The service claims a state only with
// proof: its own log, a pong, the recipient's report, or a message that names the one it answers.

const service = useService();

type Recipient = { handle: string; status: string; state: string; taken_at: number | null; reports_taken: boolean };

const deliveryOf = async (actor: Actor, id: string, sequence: number): Promise<Recipient[]> =>
  list(mustSucceed(await actor.get(`/sessions/${id}/delivery?sequence=${sequence}`)), 'recipients') as Recipient[];

const statesOf = async (actor: Actor, id: string, sequence: number): Promise<Record<string, string>> =>
  Object.fromEntries((await deliveryOf(actor, id, sequence)).map(({ handle, state }) => [handle, state]));

const take = (actor: Actor, id: string, ...sequences: number[]) => actor.post(`/sessions/${id}/taken`, { sequences });

/** Creates a session between alice and bob in which alice has sent one message. */
async function sendOne() {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  const sent = mustSucceed(await alice.post(`/sessions/${id}/messages`, { content: 'hello' }), 201);
  return { alice, bob, id, sequence: Number(field(sent, 'sequence')), messageId: String(field(sent, 'message_id')) };
}

rule('wire/Delivery/GET', 'a message goes from stored to delivered, taken and answered', async () => {
  const { alice, bob, id, sequence, messageId } = await sendOne();
  const answer = mustSucceed(await alice.get(`/sessions/${id}/delivery?sequence=${sequence}`));
  expect(answer).toEqual({
    message_id: messageId,
    sequence,
    recipients: [
      {
        handle: bob.handle,
        status: 'joined',
        state: 'stored',
        taken_at: null,
        answered_sequence: null,
        reports_taken: true,
      },
    ],
  });
  const socket = await bob.mustConnect();
  await until(
    'the message is delivered',
    async () => (await statesOf(alice, id, sequence))[bob.handle] === 'delivered',
  );
  await socket.close();
  mustSucceed(await take(bob, id, sequence));
  const [taken] = await deliveryOf(alice, id, sequence);
  expect(taken).toMatchObject({ state: 'taken', taken_at: expect.any(Number) });
  const reply = { content: 'hi', metadata: { in_reply_to: messageId } };
  const sent = mustSucceed(await bob.post(`/sessions/${id}/messages`, reply), 201);
  const [answered] = await deliveryOf(alice, id, sequence);
  expect(answered).toMatchObject({ state: 'answered', answered_sequence: field(sent, 'sequence') });
  expect(answered?.taken_at).toBe(taken?.taken_at);
});

rule('wire/Delivery/GET', 'a state belongs to one message: earlier ones prove nothing about it', async () => {
  const { alice, bob, id, sequence } = await sendOne();
  const next = sequence + 1;
  await alice.mustSend(id, 'and this');
  mustSucceed(await take(bob, id, next));
  expect(await statesOf(alice, id, sequence)).toEqual({ [bob.handle]: 'stored' });
  expect(await statesOf(alice, id, next)).toEqual({ [bob.handle]: 'taken' });
});

rule('wire/Delivery/GET', 'reading over REST proves nothing: only a pong or the recipient’s report does', async () => {
  const { alice, bob, id, sequence } = await sendOne();
  await bob.mustReplay(id);
  expect(await statesOf(alice, id, sequence)).toEqual({ [bob.handle]: 'stored' });
});

rule('wire/Delivery/GET', 'an invited agent has received nothing; one that left is not a recipient', async () => {
  const { alice, bob, carol, dave } = await service.actors('alice', 'bob', 'carol', 'dave');
  const id = await alice.mustCreate({ invite: [bob.handle, carol.handle, dave.handle] });
  await bob.mustJoin(id);
  await carol.mustJoin(id);
  await carol.mustLeave(id);
  const socket = await dave.mustConnect();
  await until('a frame', async () => socket.frames.length > 0);
  const { sequence } = await alice.mustSend(id, 'hello');
  expect(await statesOf(alice, id, sequence)).toEqual({ [bob.handle]: 'stored', [dave.handle]: 'stored' });
  expect(await statesOf(bob, id, sequence)).toEqual({ [bob.handle]: 'stored', [dave.handle]: 'stored' });
  await socket.close();
});

rule('wire/Delivery/GET', 'an end that reached an invited agent proves no earlier message', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  const { sequence } = await alice.mustSend(id, 'before the end');
  const socket = await bob.mustConnect();
  await alice.mustEnd(id);
  await until('a frame', async () => socket.frames.some((frame) => field(frame, 'type') === 'session.ended'));
  // The cursor follows the pong, so wait for something later.
  await new Promise((resolve) => setTimeout(resolve, 400));
  await socket.close();
  await alice.mustReopen(id);
  await bob.mustJoin(id);
  expect(await statesOf(alice, id, sequence)).toEqual({ [bob.handle]: 'stored' });
});

rule('wire/Delivery/GET', 'a query names a message of the session by its sequence', async () => {
  const { alice, id, sequence } = await sendOne();
  for (const other of [1, sequence + 1, Number.MAX_SAFE_INTEGER])
    mustDeny(await alice.get(`/sessions/${id}/delivery?sequence=${other}`), 404, 'NOT_FOUND');
  for (const wrong of [
    '',
    '?sequence=',
    '?sequence=0',
    '?sequence=-1',
    '?sequence=1.5',
    '?sequence=x',
    '?sequence=1&x=1',
  ])
    mustDeny(await alice.get(`/sessions/${id}/delivery${wrong}`), 400, 'VALIDATION_ERROR');
});

rule(
  ['wire/Delivery/POST', 'spec/Non-enumeration/rule-2'],
  'only joined agents may query; everyone else gets the same 404',
  async () => {
    const { alice, bob, id, sequence } = await sendOne();
    const { carol, dave, eve } = await service.actors('carol', 'dave', 'eve');
    mustSucceed(await alice.post(`/sessions/${id}/invite`, { invite: [carol.handle, dave.handle] }));
    await dave.mustJoin(id);
    await dave.mustLeave(id);
    const missing = 'sess_01J00000000000000000000000';
    for (const actor of [carol, dave, eve]) {
      const there = [await actor.get(`/sessions/${id}/delivery?sequence=${sequence}`), await take(actor, id, sequence)];
      const nowhere = [
        await actor.get(`/sessions/${missing}/delivery?sequence=${sequence}`),
        await take(actor, missing, sequence),
      ];
      for (const [index, answer] of there.entries()) {
        mustDeny(answer, 404, 'NOT_FOUND');
        expect(answer.text).toBe(nowhere[index]?.text);
      }
    }
    await alice.mustEnd(id);
    mustSucceed(await take(bob, id, sequence));
    expect((await statesOf(alice, id, sequence))[bob.handle]).toBe('taken');
  },
);

rule('wire/Delivery/POST', 'a report returns the sequences that are messages; the first report stands', async () => {
  const { alice, bob, id, sequence } = await sendOne();
  const answer = mustSucceed(await take(bob, id, 1, sequence, sequence, 999));
  expect(answer).toEqual({ taken: [sequence] });
  const [first] = await deliveryOf(alice, id, sequence);
  await new Promise((resolve) => setTimeout(resolve, 5));
  expect(mustSucceed(await take(bob, id, sequence))).toEqual({ taken: [sequence] });
  expect(await deliveryOf(alice, id, sequence)).toEqual([first]);
});

rule('wire/Delivery/POST', 'a report takes 1 to 100 sequences and writes no event', async () => {
  const { alice, bob, id } = await sendOne();
  const before = await alice.mustReplay(id);
  for (const body of [
    {},
    { sequences: [] },
    { sequences: [0] },
    { sequences: ['1'] },
    { sequences: [1.5] },
    { sequence: 1 },
  ])
    mustDeny(await bob.post(`/sessions/${id}/taken`, body), 400, 'VALIDATION_ERROR');
  mustDeny(await take(bob, id, ...Array.from({ length: 101 }, (_, at) => at + 1)), 400, 'VALIDATION_ERROR');
  mustSucceed(await take(bob, id, ...Array.from({ length: 100 }, (_, at) => at + 1)));
  expect(await alice.mustReplay(id)).toEqual(before);
});

rule(
  'wire/Delivery/unanswered',
  'a report of a message is stored, changes nothing for others, and names its reason',
  async () => {
    const { alice, bob, id, sequence } = await sendOne();
    const report = (actor: Actor, body: object) => actor.post(`/sessions/${id}/unanswered`, body);
    const before = [await alice.mustReplay(id), await deliveryOf(alice, id, sequence)];
    for (const body of [
      {},
      { sequence },
      { reason: 'failed' },
      { sequence, reason: 'bored' },
      { sequence: 0, reason: 'failed' },
    ])
      mustDeny(await report(bob, body), 400, 'VALIDATION_ERROR');
    for (const absent of [1, 999])
      mustDeny(await report(bob, { sequence: absent, reason: 'failed' }), 404, 'NOT_FOUND');
    for (const reason of ['max_hops', 'max_hops', 'refused'])
      expect(await report(bob, { sequence, reason })).toMatchObject({ status: 204, text: '' });
    expect([await alice.mustReplay(id), await deliveryOf(alice, id, sequence)]).toEqual(before);
    const { eve } = await service.actors('eve');
    mustDeny(await report(eve, { sequence, reason: 'failed' }), 404, 'NOT_FOUND');
  },
);

rule('wire/Delivery/off', 'an agent that turns it off gets the same answer; nothing is stored or shown', async () => {
  const { alice, bob, id, sequence, messageId } = await sendOne();
  mustSucceed(await take(bob, id, sequence));
  expect((await bob.get('/agents/me')).json).toMatchObject({ reports_taken: true });
  const changed = mustSucceed(await bob.patch('/agents/me', { reports_taken: false }));
  expect(changed).toMatchObject({ reports_taken: false });
  expect(await deliveryOf(alice, id, sequence)).toMatchObject([
    { state: 'stored', taken_at: null, reports_taken: false },
  ]);
  const { sequence: next } = await alice.mustSend(id, 'more');
  expect((await take(bob, id, next)).status).toBe(200);
  mustSucceed(await bob.patch('/agents/me', { reports_taken: true }));
  expect(await statesOf(alice, id, next)).toEqual({ [bob.handle]: 'stored' });
  mustSucceed(await bob.patch('/agents/me', { reports_taken: false }));
  await bob.post(`/sessions/${id}/messages`, { content: 'hi', metadata: { in_reply_to: messageId } });
  expect(await statesOf(alice, id, sequence)).toEqual({ [bob.handle]: 'answered' });
});

rule('wire/Delivery/answered', 'only an answer in the same session, by the recipient, counts', async () => {
  const { alice, bob, id, sequence, messageId } = await sendOne();
  const elsewhere = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(elsewhere);
  const metadata = { in_reply_to: messageId };
  mustSucceed(await bob.post(`/sessions/${elsewhere}/messages`, { content: 'x', metadata }), 201);
  mustSucceed(await alice.post(`/sessions/${id}/messages`, { content: 'x', metadata }), 201);
  for (const other of ['msg_1', 7, { id: messageId }, `${messageId} `])
    mustSucceed(await bob.post(`/sessions/${id}/messages`, { content: 'x', metadata: { in_reply_to: other } }), 201);
  expect(await statesOf(alice, id, sequence)).toEqual({ [bob.handle]: 'stored' });
});
