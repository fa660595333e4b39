import { expect } from 'vitest';

import { field } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Events" and docs/contract.md: each type, its payload, and who receives it live. Every test ends
// by inviting everyone to another session. Once that invitation arrives, nothing else can still be on its way.

const service = useService();

const typesOf = (frames: readonly unknown[], id: string): unknown[] =>
  frames.filter((frame) => field(frame, 'session_id') === id).map((frame) => field(frame, 'type'));

const isInvitationOf = (frame: unknown, id: string, handle: string): boolean =>
  field(frame, 'session_id') === id &&
  field(frame, 'type') === 'session.invited' &&
  field(frame, 'payload.invitee') === handle;

/** Creates a session in which alice and bob joined, carol is invited, and dave left. Then opens a socket for each. */
async function gather() {
  const { alice, bob, carol, dave } = await service.actors('alice', 'bob', 'carol', 'dave');
  const id = await alice.mustCreate({ invite: [bob.handle, carol.handle, dave.handle], topic: 'plans' });
  await bob.mustJoin(id);
  await dave.mustJoin(id);
  await dave.mustLeave(id);
  const [toAlice, toBob, toCarol, toDave] = await Promise.all(
    [alice, bob, carol, dave].map((actor) => actor.mustConnect()),
  );
  if (!toAlice || !toBob || !toCarol || !toDave) throw new Error('unreachable');
  const sockets = [toAlice, toBob, toCarol, toDave];
  for (const socket of [toAlice, toBob, toDave]) await socket.mustReceiveEvent('session.left', id);
  await toCarol.mustReceiveEvent('session.invited', id);
  const seen = sockets.map((socket) => socket.frames.length);
  /** Returns what each of the four has received since. */
  const news = async (): Promise<unknown[][]> => {
    const last = (await alice.mustReplay(id)).at(-1);
    await toAlice.mustReceive('the last event', (frame) => field(frame, 'event_id') === field(last, 'event_id'));
    const witness = await service.actor('witness');
    const elsewhere = await witness.mustCreate({ invite: [alice, bob, carol, dave].map((actor) => actor.handle) });
    for (const socket of sockets) await socket.mustReceiveEvent('session.invited', elsewhere);
    return sockets.map((socket, index) => typesOf(socket.frames.slice(seen[index]), id));
  };
  const close = () => Promise.all(sockets.map((socket) => socket.close()));
  return { alice, bob, carol, dave, id, toAlice, toBob, toCarol, toDave, news, close };
}

rule(
  ['spec/Events/session.message', 'wire/Events/session.message', 'wire/Events/eligibility'],
  'a message goes only to joined participants, including the sender',
  async () => {
    const scene = await gather();
    const { sequence } = await scene.alice.mustSend(scene.id, 'hello');
    const frame = await scene.toBob.mustReceiveEvent('session.message', scene.id);
    expect(frame).toMatchObject({ sequence, payload: { content: 'hello', sender: scene.alice.handle } });
    expect(await scene.news()).toEqual([['session.message'], ['session.message'], [], []]);
    await scene.close();
  },
);

rule(
  ['spec/Events/sequence', 'wire/Events/envelope', 'spec/Events/replay'],
  'a live event and its replay are the same object',
  async () => {
    const scene = await gather();
    const sent = await scene.bob.mustSend(scene.id, [{ type: 'data', data: { a: [1] } }], { m: 1 });
    const frame = await scene.toAlice.mustReceiveEvent('session.message', scene.id);
    expect(frame).toEqual((await scene.bob.mustReplay(scene.id)).at(-1));
    expect(field(frame, 'sequence')).toBe(sent.sequence);
    await scene.close();
  },
);

rule(
  ['spec/Events/session.invited', 'wire/Events/session.invited'],
  'an invitation goes to the invitee and joined participants',
  async () => {
    const scene = await gather();
    const erin = await service.actor('erin');
    const toErin = await erin.mustConnect();
    await scene.bob.mustInvite(scene.id, erin.handle);
    const frame = await toErin.mustReceiveEvent('session.invited', scene.id);
    expect(field(frame, 'payload')).toEqual({ invitee: erin.handle, by: scene.bob.handle, topic: 'plans' });
    expect(await scene.news()).toEqual([['session.invited'], ['session.invited'], [], []]);
    await toErin.close();
    await scene.close();
  },
);

rule('wire/Events/session.invited', 'only a one-shot invitation carries the whole message', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const toBob = await bob.mustConnect();
  const plain = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'x' } });
  const bare = await toBob.mustReceiveEvent('session.invited', plain);
  expect(field(bare, 'payload')).toEqual({ invitee: bob.handle, by: alice.handle });
  const shot = await alice.mustCreate({
    invite: [bob.handle],
    initial_message: { content: 'bang' },
    end_after_send: true,
  });
  const full = await toBob.mustReceiveEvent('session.invited', shot);
  const message = (await alice.mustReplay(shot)).find((event) => field(event, 'type') === 'session.message');
  expect(field(full, 'payload')).toEqual({
    invitee: bob.handle,
    by: alice.handle,
    initial_message: field(message, 'payload'),
  });
  await toBob.mustReceiveEvent('session.ended', shot);
  await toBob.mustPing();
  expect(typesOf(toBob.frames, shot)).toEqual(['session.invited', 'session.ended']);
  await toBob.close();
});

rule(['spec/Events/session.joined', 'wire/Events/session.joined'], 'a join goes to joined participants', async () => {
  const scene = await gather();
  await scene.carol.mustJoin(scene.id);
  const frame = await scene.toBob.mustReceiveEvent('session.joined', scene.id);
  expect(field(frame, 'payload.agent')).toBeDefined();
  const news = await scene.news();
  expect([news[0], news[1], news[3]]).toEqual([['session.joined'], ['session.joined'], []]);
  expect(news[2]?.at(-1)).toBe('session.joined');
  expect((await scene.alice.mustReplay(scene.id)).at(-1)).toMatchObject({ payload: { agent: scene.carol.handle } });
  await scene.close();
});

rule(
  ['spec/Events/session.left', 'wire/Events/session.left'],
  'a leave goes to joined participants, with reason left',
  async () => {
    const scene = await gather();
    const erin = await service.actor('erin');
    await scene.alice.mustInvite(scene.id, erin.handle);
    await erin.mustJoin(scene.id);
    await erin.mustLeave(scene.id);
    const news = await scene.news();
    expect(news[0]).toEqual(['session.invited', 'session.joined', 'session.left']);
    expect([news[1], news[2], news[3]]).toEqual([news[0], [], []]);
    expect((await scene.bob.mustReplay(scene.id)).at(-1)).toMatchObject({
      payload: { agent: erin.handle, reason: 'left' },
    });
    await scene.close();
  },
);

rule('wire/Events/eligibility', 'after its own leave, an agent receives no later event', async () => {
  const scene = await gather();
  await scene.bob.mustLeave(scene.id);
  await scene.alice.mustSend(scene.id, 'after bob');
  const news = await scene.news();
  expect(news[1]?.filter((type) => type === 'session.message')).toEqual([]);
  await scene.close();
});

rule(['spec/Events/session.ended', 'wire/Events/session.ended'], 'an end goes to joined and invited', async () => {
  const scene = await gather();
  await scene.bob.mustEnd(scene.id);
  const frame = await scene.toCarol.mustReceiveEvent('session.ended', scene.id);
  expect(field(frame, 'payload')).toEqual({ ended_by: scene.bob.handle });
  expect(await scene.news()).toEqual([['session.ended'], ['session.ended'], ['session.ended'], []]);
  await scene.close();
});

rule('wire/Events/session.reopened', 'a reopen goes to the agent that reopened; the others are invited', async () => {
  const scene = await gather();
  await scene.alice.mustEnd(scene.id);
  await scene.bob.mustReopen(scene.id);
  const frame = await scene.toBob.mustReceiveEvent('session.reopened', scene.id);
  expect(field(frame, 'payload')).toEqual({ reopened_by: scene.bob.handle });
  await scene.toDave.mustReceiveEvent('session.invited', scene.id);
  await scene.toAlice.mustReceive('her own invitation', (frame) => isInvitationOf(frame, scene.id, scene.alice.handle));
  for (const socket of [scene.toAlice, scene.toBob, scene.toCarol, scene.toDave]) await socket.mustPing();
  for (const socket of [scene.toAlice, scene.toCarol, scene.toDave])
    expect(typesOf(socket.frames, scene.id)).not.toContain('session.reopened');
  expect(typesOf(scene.toAlice.frames, scene.id).at(-1)).toBe('session.invited');
  await scene.close();
});
