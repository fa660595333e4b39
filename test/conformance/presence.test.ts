import { expect } from 'vitest';

import { field } from '../support/json.js';
import { until } from '../support/until.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// docs/contract.md "Presence" with --presence-grace: the public network's rule that a lost connection ends a
// participation.

const service = useService({ presenceGrace: '1s' });

const typesOf = (events: readonly unknown[]): unknown[] => events.map((event) => field(event, 'type'));

async function meet() {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  await bob.mustJoin(id);
  const socket = await bob.mustConnect();
  await socket.mustPing();
  return { alice, bob, id, socket };
}

rule(
  ['wire/Events/session.disconnected', 'wire/Events/session.reconnected', 'wire/Live/presence'],
  'losing the last socket is session.disconnected, returning in time is session.reconnected',
  async () => {
    const { alice, bob, id, socket } = await meet();
    const toAlice = await alice.mustConnect();
    await socket.close();
    const gone = await toAlice.mustReceiveEvent('session.disconnected', id);
    expect(field(gone, 'payload')).toEqual({ agent: bob.handle });
    const again = await bob.mustConnect();
    const back = await toAlice.mustReceiveEvent('session.reconnected', id);
    expect(field(back, 'payload')).toEqual({ agent: bob.handle });
    await again.close();
    await toAlice.close();
  },
);

rule(
  ['wire/Live/presence', 'wire/Events/session.left'],
  'not returning in time is session.left with grace_expired',
  async () => {
    const { alice, bob, id, socket } = await meet();
    await socket.close();
    const last = await until('bob has left', async () => {
      const event = (await alice.mustReplay(id)).at(-1);
      return field(event, 'type') === 'session.left' ? event : undefined;
    });
    expect(last).toMatchObject({ payload: { agent: bob.handle, reason: 'grace_expired' } });
    expect(typesOf(await alice.mustReplay(id)).slice(-2)).toEqual(['session.disconnected', 'session.left']);
    expect(field(await alice.mustRead(id), 'participants.1.status')).toBe('left');
  },
);

rule(
  'wire/Live/presence',
  'an agent that never connected is never disconnected, nor one with another socket left',
  async () => {
    const { alice, bob, id, socket } = await meet();
    const second = await bob.mustConnect();
    await second.mustPing();
    await socket.close();
    const { other, third } = await service.actors('other', 'third');
    const witness = await other.mustCreate({ invite: [third.handle] });
    await third.mustJoin(witness);
    const watched = await third.mustConnect();
    await watched.mustPing();
    await watched.close();
    // Once the witness has left, a whole grace period has passed since bob's first socket closed.
    await until('the witness has left', async () => typesOf(await other.mustReplay(witness)).includes('session.left'));
    expect(typesOf(await alice.mustReplay(id))).toEqual(['session.invited', 'session.joined']);
    expect(typesOf(await other.mustReplay(witness))).toEqual([
      'session.invited',
      'session.joined',
      'session.disconnected',
      'session.left',
    ]);
    await second.close();
  },
);
