import { expect } from 'vitest';

import { mustDeny } from '../support/answers.js';
import { field, list } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "States and transitions". A session is active or ended; a participant is invited, joined or left.
// Each test performs one row of the table with real agents, then reads back the session and the log.

const service = useService();
const MISSING = 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV';

const participant = (session: unknown, handle: string): unknown =>
  list(session, 'participants').find((row) => field(row, 'handle') === handle);
const typesOf = (events: readonly unknown[]): unknown[] => events.map((event) => field(event, 'type'));

rule('spec/States/create', 'the creator becomes joined, each accepted invitee invited', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const session = await alice.mustRead(await alice.mustCreate({ invite: [bob.handle, carol.handle] }));
  expect(field(session, 'state')).toBe('active');
  expect(list(session, 'participants')).toEqual([
    { handle: alice.handle, status: 'joined', joined_at: expect.any(Number), left_at: null },
    { handle: bob.handle, status: 'invited', joined_at: null, left_at: null },
    { handle: carol.handle, status: 'invited', joined_at: null, left_at: null },
  ]);
});

rule('spec/States/join', 'the invited participant becomes joined, with joined_at and session.joined', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  expect(participant(await alice.mustRead(id), bob.handle)).toMatchObject({
    status: 'joined',
    joined_at: expect.any(Number),
  });
  expect((await alice.mustReplay(id)).at(-1)).toMatchObject({ type: 'session.joined', payload: { agent: bob.handle } });
});

rule(
  'spec/States/invite',
  'a joined participant invites; one session.invited each, denied handles left out',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const closed = await service.actor('closed', { policy: 'allowlist' });
    const id = await alice.mustCreate();
    const invited = await alice.mustInvite(id, bob.handle, closed.handle, '@nobody.at-all', carol.handle);
    expect(invited).toEqual([bob.handle, carol.handle]);
    const events = await alice.mustReplay(id);
    expect(events.map((event) => [field(event, 'type'), field(event, 'payload.invitee')])).toEqual([
      ['session.invited', bob.handle],
      ['session.invited', carol.handle],
    ]);
    expect(list(await alice.mustRead(id), 'participants').map((row) => field(row, 'handle'))).toEqual([
      alice.handle,
      bob.handle,
      carol.handle,
    ]);
  },
);

rule('spec/States/leave', 'a joined participant leaves: left, left_at, session.left with reason left', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  await bob.mustLeave(id);
  expect(participant(await alice.mustRead(id), bob.handle)).toMatchObject({
    status: 'left',
    left_at: expect.any(Number),
  });
  expect((await alice.mustReplay(id)).at(-1)).toMatchObject({
    type: 'session.left',
    payload: { agent: bob.handle, reason: 'left' },
  });
});

rule('spec/States/end', 'a joined participant ends the session, with session.ended', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  await bob.mustEnd(id);
  expect(await alice.mustRead(id)).toMatchObject({ state: 'ended', ended_at: expect.any(Number) });
  expect((await alice.mustReplay(id)).at(-1)).toMatchObject({
    type: 'session.ended',
    payload: { ended_by: bob.handle },
  });
});

rule(
  'spec/States/reopen',
  'an agent that was joined at the end reopens: all earlier participants and new ones are invited',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const dave = await service.actor('dave');
    const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    await bob.mustJoin(id);
    await carol.mustJoin(id);
    await carol.mustLeave(id);
    await alice.mustEnd(id);
    await bob.mustReopen(id, { invite: [dave.handle], initial_message: { content: 'again' } });
    const session = await bob.mustRead(id);
    expect(session).toMatchObject({ state: 'active', ended_at: null });
    expect(list(session, 'participants').map((row) => [field(row, 'handle'), field(row, 'status')])).toEqual([
      [alice.handle, 'invited'],
      [bob.handle, 'joined'],
      [carol.handle, 'invited'],
      [dave.handle, 'invited'],
    ]);
    const events = await bob.mustReplay(id);
    expect(typesOf(events).slice(-5)).toEqual([
      'session.reopened',
      'session.invited',
      'session.invited',
      'session.invited',
      'session.message',
    ]);
  },
);

rule('spec/States/reopen', 'an active session cannot be reopened, nor an ended one ended again', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  mustDeny(await alice.post(`/sessions/${id}/reopen`), 404, 'NOT_FOUND');
  await alice.mustEnd(id);
  mustDeny(await alice.post(`/sessions/${id}/end`), 404, 'NOT_FOUND');
});

rule(
  ['spec/States/rule-1', 'spec/States/rule-3'],
  'invited and left participants may not invite, end or reopen',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    await carol.mustJoin(id);
    await carol.mustLeave(id);
    for (const actor of [bob, carol]) {
      mustDeny(await actor.post(`/sessions/${id}/invite`, { invite: [alice.handle] }), 404, 'NOT_FOUND');
      mustDeny(await actor.post(`/sessions/${id}/end`), 404, 'NOT_FOUND');
      mustDeny(await actor.post(`/sessions/${id}/leave`), 404, 'NOT_FOUND');
    }
    await alice.mustEnd(id);
    for (const actor of [bob, carol]) mustDeny(await actor.post(`/sessions/${id}/reopen`), 404, 'NOT_FOUND');
    await alice.mustReopen(id);
  },
);

rule(['spec/States/rule-2', 'spec/messages/rules'], 'only joined participants of active sessions send', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  const say = { content: 'hello' };
  mustDeny(await bob.post(`/sessions/${id}/messages`, say), 404, 'NOT_FOUND');
  mustDeny(await carol.post(`/sessions/${id}/messages`, say), 404, 'NOT_FOUND');
  await bob.mustJoin(id);
  await bob.mustSend(id, 'hello');
  await bob.mustLeave(id);
  mustDeny(await bob.post(`/sessions/${id}/messages`, say), 404, 'NOT_FOUND');
  await alice.mustEnd(id);
  mustDeny(await alice.post(`/sessions/${id}/messages`, say), 404, 'NOT_FOUND');
});

rule('spec/States/rule-3', 'every ineligible operation gets the answer for a missing session', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate();
  for (const verb of ['join', 'leave', 'end', 'reopen']) {
    const foreign = await bob.post(`/sessions/${id}/${verb}`);
    const missing = await bob.post(`/sessions/${MISSING}/${verb}`);
    mustDeny(foreign, 404, 'NOT_FOUND');
    expect(foreign.text).toBe(missing.text);
  }
});

rule(
  ['spec/States/rule-5', 'wire/Sessions/left'],
  'a left participant may not join on its own, but may be invited again',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(id);
    await bob.mustLeave(id);
    mustDeny(await bob.post(`/sessions/${id}/join`), 404, 'NOT_FOUND');
    expect(await alice.mustInvite(id, bob.handle)).toEqual([bob.handle]);
    expect(participant(await alice.mustRead(id), bob.handle)).toMatchObject({ status: 'invited' });
    await bob.mustJoin(id);
    await bob.mustSend(id, 'back');
  },
);
