import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, keysOf, list } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "POST /sessions" and the row of docs/contract.md. The body never names the creator, which is the
// token's agent.

const service = useService();
const typesOf = (events: readonly unknown[]): unknown[] => events.map((event) => field(event, 'type'));
const handlesOf = (session: unknown): unknown[] => list(session, 'participants').map((row) => field(row, 'handle'));

rule('spec/POST-sessions/invite', 'each accepted handle becomes an invited participant', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const session = await alice.mustRead(await alice.mustCreate({ invite: [bob.handle] }));
  expect(list(session, 'participants')[1]).toMatchObject({ handle: bob.handle, status: 'invited' });
});

rule('spec/POST-sessions/topic', 'the topic is kept; without one it is null', async () => {
  const alice = await service.actor('alice');
  expect(await alice.mustRead(await alice.mustCreate({ topic: 'plans' }))).toMatchObject({ topic: 'plans' });
  expect(await alice.mustRead(await alice.mustCreate())).toMatchObject({ topic: null });
});

rule('spec/POST-sessions/initial_message', 'the first message is sent with the creation', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const answer = await alice.post('/sessions', { invite: [bob.handle], initial_message: { content: 'hi' } });
  const json = mustSucceed(answer, 201);
  expect(json).toEqual({
    session_id: expect.stringMatching(/^sess_/),
    message_id: expect.stringMatching(/^msg_/),
    sequence: 2,
  });
  const events = await alice.mustReplay(String(field(json, 'session_id')));
  expect(events.at(-1)).toMatchObject({
    type: 'session.message',
    sequence: 2,
    payload: { id: field(json, 'message_id'), content: 'hi', sequence: 2 },
  });
});

rule(
  ['spec/POST-sessions/end_after_send', 'wire/Sessions/create-order'],
  'invited in request order, the message, then ended',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const answer = await alice.post('/sessions', {
      invite: [carol.handle, bob.handle],
      topic: 'one shot',
      initial_message: { content: 'done' },
      end_after_send: true,
    });
    const id = String(field(mustSucceed(answer, 201), 'session_id'));
    expect(await alice.mustRead(id)).toMatchObject({ state: 'ended', ended_at: expect.any(Number) });
    const events = await alice.mustReplay(id);
    expect(typesOf(events)).toEqual(['session.invited', 'session.invited', 'session.message', 'session.ended']);
    expect(events.map((event) => field(event, 'payload.invitee')).slice(0, 2)).toEqual([carol.handle, bob.handle]);
    expect(events.map((event) => field(event, 'sequence'))).toEqual([1, 2, 3, 4]);
  },
);

rule('spec/POST-sessions/response', 'session_id, and a sequence that is null without a message', async () => {
  const alice = await service.actor('alice');
  const json = mustSucceed(await alice.post('/sessions', {}), 201);
  expect(keysOf(json)).toEqual(['message_id', 'sequence', 'session_id']);
  expect(field(json, 'sequence')).toBeNull();
});

rule('spec/POST-sessions/rule-1', 'the creator is the first participant, joined', async () => {
  const alice = await service.actor('alice');
  const session = await alice.mustRead(await alice.mustCreate());
  expect(list(session, 'participants')).toEqual([
    { handle: alice.handle, status: 'joined', joined_at: field(session, 'created_at'), left_at: null },
  ]);
});

rule(
  ['spec/POST-sessions/rule-2', 'spec/Non-enumeration/rule-4'],
  'if the only invitee is denied, the answer is 404, and nothing is created',
  async () => {
    const alice = await service.actor('alice');
    const closed = await service.actor('closed', { policy: 'allowlist' });
    mustDeny(await alice.post('/sessions', { invite: [closed.handle] }), 404, 'NOT_FOUND');
    mustDeny(await alice.post('/sessions', { invite: ['@no.body'] }), 404, 'NOT_FOUND');
    expect(field((await alice.get('/sessions')).json, 'sessions')).toEqual([]);
  },
);

rule(
  ['spec/POST-sessions/rule-3', 'spec/Non-enumeration/rule-3'],
  'with several invitees, denied ones are absent',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const closed = await service.actor('closed', { policy: 'allowlist' });
    const id = await alice.mustCreate({ invite: [closed.handle, bob.handle, '@no.body'] });
    expect(handlesOf(await alice.mustRead(id))).toEqual([alice.handle, bob.handle]);
  },
);

rule('wire/Sessions/POST-sessions', 'end_after_send without a message is 400', async () => {
  const alice = await service.actor('alice');
  mustDeny(await alice.post('/sessions', { end_after_send: true }), 400, 'VALIDATION_ERROR');
  mustSucceed(await alice.post('/sessions', { end_after_send: false }), 201);
});

rule(
  'wire/Sessions/POST-sessions',
  'duplicate invitees are folded, and the creator is removed from the list',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const id = await alice.mustCreate({ invite: [bob.handle, alice.handle, bob.handle] });
    expect(handlesOf(await alice.mustRead(id))).toEqual([alice.handle, bob.handle]);
    expect(typesOf(await alice.mustReplay(id))).toEqual(['session.invited']);
    await alice.mustCreate({ invite: [alice.handle] });
    await alice.mustCreate({ invite: [] });
  },
);

rule('wire/Sessions/POST-sessions', 'if others were requested and none was accepted, the answer is 404', async () => {
  const alice = await service.actor('alice');
  const closed = await service.actor('closed', { policy: 'allowlist' });
  const body = { invite: [closed.handle, '@no.body', alice.handle] };
  mustDeny(await alice.post('/sessions', body), 404, 'NOT_FOUND');
});

rule('spec/Service/rule-2', 'a body cannot name the actor', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  for (const name of ['sender', 'creator', 'handle', 'agent_id', 'actor'])
    mustDeny(await alice.post('/sessions', { [name]: bob.handle }), 400, 'VALIDATION_ERROR');
  const id = await alice.mustCreate({ initial_message: { content: 'mine' } });
  expect((await alice.mustReplay(id))[0]).toMatchObject({ payload: { sender: alice.handle } });
});
