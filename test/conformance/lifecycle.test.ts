import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, list } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Lifecycle verbs" and the rows of docs/contract.md that define their bodies and answers.

const service = useService();
const typesOf = (events: readonly unknown[]): unknown[] => events.map((event) => field(event, 'type'));
const statusesOf = (session: unknown): unknown[] =>
  list(session, 'participants').map((row) => [field(row, 'handle'), field(row, 'status')]);

rule(
  ['spec/Lifecycle/body', 'wire/Common/empty-body'],
  'an absent body and {} are the same; other bodies are 400',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    mustDeny(await bob.post(`/sessions/${id}/join`, { handle: bob.handle }), 400, 'VALIDATION_ERROR');
    mustDeny(await bob.post(`/sessions/${id}/join`, []), 400, 'VALIDATION_ERROR');
    expect(mustSucceed(await bob.post(`/sessions/${id}/join`, {}))).toEqual({ ok: true });
    expect(mustSucceed(await bob.post(`/sessions/${id}/leave`))).toEqual({ ok: true });
    expect(mustSucceed(await alice.post(`/sessions/${id}/end`, {}))).toEqual({ ok: true });
    expect(mustSucceed(await alice.post(`/sessions/${id}/reopen`))).toEqual({ ok: true });
    mustDeny(await alice.post(`/sessions/${id}/invite`), 400, 'VALIDATION_ERROR');
    mustDeny(await alice.post(`/sessions/${id}/invite`, {}), 400, 'VALIDATION_ERROR');
  },
);

rule('wire/Sessions/join', 'joining again gets the same answer without an event', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  const joinedAt = field(await bob.mustRead(id), 'participants.1.joined_at');
  expect(mustSucceed(await bob.post(`/sessions/${id}/join`))).toEqual({ ok: true });
  expect(typesOf(await bob.mustReplay(id))).toEqual(['session.invited', 'session.joined']);
  expect(field(await bob.mustRead(id), 'participants.1.joined_at')).toBe(joinedAt);
});

rule('wire/Sessions/join', 'joining is 404 after leaving, in an ended session, or as a stranger', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  mustDeny(await carol.post(`/sessions/${id}/join`), 404, 'NOT_FOUND');
  await alice.mustEnd(id);
  mustDeny(await bob.post(`/sessions/${id}/join`), 404, 'NOT_FOUND');
  mustDeny(await alice.post(`/sessions/${id}/join`), 404, 'NOT_FOUND');
});

rule('wire/Sessions/invite', 'inviting needs a handle; only those who became invited now are returned', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  mustDeny(await alice.post(`/sessions/${id}/invite`, { invite: [] }), 400, 'VALIDATION_ERROR');
  const again = [bob.handle, carol.handle, carol.handle, alice.handle];
  expect(await alice.mustInvite(id, ...again)).toEqual([carol.handle]);
  expect(await alice.mustInvite(id, bob.handle)).toEqual([]);
  await bob.mustJoin(id);
  expect(await alice.mustInvite(id, bob.handle)).toEqual([]);
  expect(typesOf(await alice.mustReplay(id))).toEqual(['session.invited', 'session.invited', 'session.joined']);
});

rule('wire/Sessions/invite', 'an invitation in which all are denied is still 200 with an empty list', async () => {
  const alice = await service.actor('alice');
  const closed = await service.actor('closed', { policy: 'allowlist' });
  const id = await alice.mustCreate();
  expect(await alice.mustInvite(id, closed.handle, '@no.body')).toEqual([]);
  expect(await alice.mustReplay(id)).toEqual([]);
});

rule('wire/Sessions/invite', 'a left participant is invited again, and its left_at stays in the past', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  await bob.mustLeave(id);
  expect(await alice.mustInvite(id, bob.handle)).toEqual([bob.handle]);
  expect(statusesOf(await alice.mustRead(id))).toEqual([
    [alice.handle, 'joined'],
    [bob.handle, 'invited'],
  ]);
});

rule('wire/Sessions/leave-end', 'leaving and ending both answer ok, and ending keeps statuses', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
  await bob.mustJoin(id);
  const dave = await service.actor('dave');
  await alice.mustInvite(id, dave.handle);
  await dave.mustJoin(id);
  expect(mustSucceed(await dave.post(`/sessions/${id}/leave`))).toEqual({ ok: true });
  expect(mustSucceed(await bob.post(`/sessions/${id}/end`))).toEqual({ ok: true });
  expect(statusesOf(await alice.mustRead(id))).toEqual([
    [alice.handle, 'joined'],
    [bob.handle, 'joined'],
    [carol.handle, 'invited'],
    [dave.handle, 'left'],
  ]);
});

rule('wire/Sessions/leave-end', 'a session outlives its last joined participant', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await alice.mustLeave(id);
  expect(await alice.mustRead(id)).toMatchObject({ state: 'active' });
  await bob.mustJoin(id);
  await bob.mustSend(id, 'still here');
});

rule(
  'wire/Sessions/reopen',
  'after a reopen, the caller stays joined; session.reopened, the invitations, and the message follow',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const id = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(id);
    await alice.mustEnd(id);
    const before = (await alice.mustReplay(id)).length;
    await alice.mustReopen(id, {
      invite: [carol.handle, '@no.body', bob.handle],
      initial_message: { content: 'again', metadata: { n: 1 } },
    });
    const events = await alice.mustReplay(id, before);
    expect(events.map((event) => [field(event, 'type'), field(event, 'payload.invitee')])).toEqual([
      ['session.reopened', undefined],
      ['session.invited', bob.handle],
      ['session.invited', carol.handle],
      ['session.message', undefined],
    ]);
    expect(events[0]).toMatchObject({ payload: { reopened_by: alice.handle } });
    expect(events[3]).toMatchObject({ payload: { content: 'again', metadata: { n: 1 }, sender: alice.handle } });
  },
);

rule('wire/Sessions/reopen', 'no one is invited again across a block', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
  await bob.mustJoin(id);
  await alice.mustEnd(id);
  mustSucceed(await bob.post('/blocks', { handle: alice.handle }), 201);
  await alice.mustReopen(id);
  const events = await alice.mustReplay(id, 4);
  expect(events.map((event) => field(event, 'payload.invitee'))).toEqual([undefined, carol.handle]);
  mustDeny(await bob.post(`/sessions/${id}/join`), 404, 'NOT_FOUND');
});

rule('wire/Sessions/reopen', 'only an agent that was joined at the end may reopen', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  await alice.mustLeave(id);
  await bob.mustEnd(id);
  mustDeny(await alice.post(`/sessions/${id}/reopen`), 404, 'NOT_FOUND');
  await bob.mustReopen(id);
  expect(statusesOf(await bob.mustRead(id))).toEqual([
    [alice.handle, 'invited'],
    [bob.handle, 'joined'],
  ]);
});

rule('wire/Sessions/sequences', 'every event is numbered from 1, without gaps, throughout a session', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'one' } });
  await bob.mustJoin(id);
  await bob.mustSend(id, 'two');
  await bob.mustLeave(id);
  await alice.mustEnd(id);
  await alice.mustReopen(id, { initial_message: { content: 'three' } });
  const events = await alice.mustReplay(id);
  expect(events.map((event) => field(event, 'sequence'))).toEqual(events.map((_, index) => index + 1));
  expect(new Set(events.map((event) => field(event, 'event_id'))).size).toBe(events.length);
});
