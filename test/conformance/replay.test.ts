import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, keysOf, list } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "GET /sessions/{session_id}/events". What a caller sees depends only on its current status. The
// tests compute the expected windows from the full stream that a joined participant sees, for every cursor and several
// limits.

const service = useService();
const sequencesOf = (events: readonly unknown[]): unknown[] => events.map((event) => field(event, 'sequence'));
const typesOf = (events: readonly unknown[]): unknown[] => events.map((event) => field(event, 'type'));

/**
 * Expects every window that `actor` sees to be a window of `visible`, with a cursor that shows whether more follows.
 */
async function mustSeeExactly(actor: Actor, id: string, visible: readonly unknown[], last: number): Promise<void> {
  for (let after = 0; after <= last + 1; after += 1) {
    for (const limit of [1, 2, 5, 1000]) {
      const { json } = await actor.get(`/sessions/${id}/events?after_sequence=${after}&limit=${limit}`);
      const due = visible.filter((event) => Number(field(event, 'sequence')) > after);
      const page = due.slice(0, limit);
      const next = due.length > limit ? String(field(page.at(-1), 'sequence')) : null;
      // Additions of this service (wire: Sessions, epochs): the last event that the caller may see, no matter what it
      // has read.
      const additions = { epoch: expect.any(String), last_sequence: field(visible.at(-1), 'sequence') };
      expect({ after, limit, json }).toEqual({ after, limit, json: { ...additions, events: page, next_cursor: next } });
    }
  }
}

/** Creates a session with a long history: alice and bob joined, carol left in the middle, dave is only invited. */
async function tellStory() {
  const { alice, bob, carol, dave } = await service.actors('alice', 'bob', 'carol', 'dave');
  const id = await alice.mustCreate({ invite: [bob.handle, carol.handle], initial_message: { content: 'first' } });
  await bob.mustJoin(id);
  await carol.mustJoin(id);
  await carol.mustSend(id, 'from carol');
  await carol.mustLeave(id);
  await alice.mustInvite(id, dave.handle);
  await bob.mustSend(id, 'after carol');
  await alice.mustEnd(id);
  return { alice, bob, carol, dave, id };
}

rule(
  ['spec/events/response', 'wire/Sessions/events'],
  'the answer has events and next_cursor, in order, with messages and lifecycle merged',
  async () => {
    const { alice, id } = await tellStory();
    const json = mustSucceed(await alice.get(`/sessions/${id}/events`));
    expect(keysOf(json)).toEqual(['epoch', 'events', 'last_sequence', 'next_cursor']);
    expect(field(json, 'last_sequence')).toBe(10);
    expect(typesOf(list(json, 'events'))).toEqual([
      'session.invited',
      'session.invited',
      'session.message',
      'session.joined',
      'session.joined',
      'session.message',
      'session.left',
      'session.invited',
      'session.message',
      'session.ended',
    ]);
    expect(sequencesOf(list(json, 'events'))).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    expect(field(json, 'next_cursor')).toBeNull();
  },
);

rule(
  ['spec/events/joined', 'spec/events/after_sequence', 'spec/events/limit'],
  'joined: sees the full stream, for every cursor and limit',
  async () => {
    const { alice, bob, id } = await tellStory();
    const all = await alice.mustReplay(id);
    expect(sequencesOf(all)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
    await mustSeeExactly(bob, id, all, 10);
  },
);

rule(
  'spec/events/invited',
  'invited: sees its own session.invited and session.ended, for every cursor and limit',
  async () => {
    const { alice, dave, id } = await tellStory();
    const all = await alice.mustReplay(id);
    await mustSeeExactly(
      dave,
      id,
      all.filter((event) => [8, 10].includes(Number(field(event, 'sequence')))),
      10,
    );
  },
);

rule('spec/events/left', 'left: sees everything up to its own session.left, for every cursor and limit', async () => {
  const { alice, carol, id } = await tellStory();
  const all = await alice.mustReplay(id);
  await mustSeeExactly(
    carol,
    id,
    all.filter((event) => Number(field(event, 'sequence')) <= 7),
    10,
  );
});

rule('spec/events/left', 'a creator who left sees no more than anyone else who left', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  await alice.mustLeave(id);
  await bob.mustSend(id, 'in private');
  await mustSeeExactly(alice, id, (await bob.mustReplay(id)).slice(0, 3), 4);
});

rule(
  ['spec/events/invited', 'wire/Events/eligibility'],
  'invited again: sees only its invitations, by its current status; joined again: sees everything',
  async () => {
    const { alice, carol, id } = await tellStory();
    await alice.mustReopen(id);
    const all = await alice.mustReplay(id);
    const own = all.filter(
      (event) => field(event, 'type') === 'session.ended' || field(event, 'payload.invitee') === carol.handle,
    );
    await mustSeeExactly(carol, id, own, all.length);
    await carol.mustJoin(id);
    await mustSeeExactly(carol, id, await alice.mustReplay(id), all.length + 1);
  },
);

rule('spec/events/left', 'left a second time: sees everything up to the later session.left', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  await bob.mustLeave(id);
  await alice.mustSend(id, 'while bob was away');
  await alice.mustInvite(id, bob.handle);
  await bob.mustJoin(id);
  await bob.mustLeave(id);
  await alice.mustSend(id, 'after bob');
  const all = await alice.mustReplay(id);
  await mustSeeExactly(bob, id, all.slice(0, -1), all.length);
});

rule('spec/events/left', 'removed while invited again: still sees what it saw when it left', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const attachmentId = await alice.mustUpload();
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await alice.mustSend(id, [{ type: 'file', attachment_id: attachmentId }]);
  await bob.mustJoin(id);
  await bob.mustLeave(id);
  await alice.mustSend(id, 'while bob was away');
  await alice.mustInvite(id, bob.handle);
  mustSucceed(await alice.post('/blocks', { handle: bob.handle }), 201);
  const all = await alice.mustReplay(id);
  expect(typesOf(all).slice(-4)).toEqual(['session.left', 'session.message', 'session.invited', 'session.left']);
  const seen = all.filter((event) => Number(field(event, 'sequence')) !== all.length - 2);
  await mustSeeExactly(bob, id, seen, all.length);
  mustSucceed(await bob.get(`/attachments/${attachmentId}`));
});

rule('wire/Sessions/events', 'after_sequence from 0, limit 1 to 1000; anything else is 400', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  const bad = ['limit=0', 'limit=1001', 'limit=-1', 'limit=1.5', 'limit=1e2', 'limit=x', 'limit=', 'limit=%2B1'];
  const worse = ['after_sequence=-1', 'after_sequence=x', 'after_sequence=0.5', 'after_sequence=1e300', 'unknown=1'];
  for (const query of [...bad, ...worse])
    mustDeny(await alice.get(`/sessions/${id}/events?${query}`), 400, 'VALIDATION_ERROR');
  for (const query of ['limit=1000', 'limit=1', 'after_sequence=0', 'after_sequence=9007199254740991'])
    mustSucceed(await alice.get(`/sessions/${id}/events?${query}`));
});

rule('wire/Sessions/events', 'the limit is 100 when absent, and following next_cursor visits everything', async () => {
  const alice = await service.actor('alice');
  const id = await alice.mustCreate();
  for (let count = 0; count < 103; count += 1) await alice.mustSend(id, `message ${count}`);
  const first = mustSucceed(await alice.get(`/sessions/${id}/events`));
  expect(list(first, 'events')).toHaveLength(100);
  expect(field(first, 'next_cursor')).toBe('100');
  const rest = mustSucceed(await alice.get(`/sessions/${id}/events?after_sequence=100`));
  expect(sequencesOf(list(rest, 'events'))).toEqual([101, 102, 103]);
  expect(field(rest, 'next_cursor')).toBeNull();
});

rule('wire/Sessions/events', 'strangers get the answer for a missing session', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate();
  mustDeny(await bob.get(`/sessions/${id}/events`), 404, 'NOT_FOUND');
});
