import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AgentActor } from '../../../src/service/core/context.js';
import { claimSession } from '../../../src/service/messaging/claims.js';
import type { BodyOf } from '../../../src/wire/schemas/endpoint.js';
import type { EventEnvelope } from '../../../src/wire/schemas/event.js';
import { startTestService } from '../../support/service.js';
import { until } from '../../support/until.js';
import { must, openStage, type Stage } from './stage.js';

const DAY_MS = 24 * 60 * 60_000;
const FREE = { is_yours: false, is_done: false, expires_in_ms: 0, attempt: 0 };
const DONE = { ...FREE, is_done: true };

describe('A claim of a session', () => {
  let stage: Stage;
  let alice: AgentActor;
  let bob: AgentActor;
  let sid: string;
  let message: EventEnvelope;
  beforeEach(async () => {
    stage = await openStage();
    const [one, two] = [await stage.addAccount('alice'), await stage.addAccount('bob')];
    alice = await stage.addAgent(one, 'main', { inbound_policy: 'open' });
    bob = await stage.addAgent(two, 'main', { inbound_policy: 'open' });
    ({ session_id: sid } = must(await stage.create(alice, { invite: [bob.handle] })));
    must(await stage.join(bob, sid));
    message = await say('hello');
  });
  afterEach(() => stage.close());

  const say = async (content: string): Promise<EventEnvelope> => {
    const { sequence } = must(await stage.send(alice, sid, { content }));
    const event = (await stage.eventsOf(alice, sid)).find((one) => one.sequence === sequence);
    if (event === undefined) throw new Error('The message has no event.');
    return event;
  };
  const claim = (
    worker: string,
    body: Partial<BodyOf<'claimSession'>> = {},
    { by = bob, event = message }: { by?: AgentActor; event?: EventEnvelope } = {},
  ) => {
    const about = { event_id: event.event_id, sequence: event.sequence };
    const input = { path: { session_id: sid }, body: { worker, ...about, lease_ms: 15_000, ...body } };
    return stage.write((transaction) => claimSession(stage.context, by, input, transaction));
  };

  it('belongs to one worker until it ends, and the same worker extends it', async () => {
    expect(await claim('one')).toEqual({ is_yours: true, is_done: false, expires_in_ms: 15_000, attempt: 1 });
    stage.clock.advance(5_000);
    expect(await claim('two')).toEqual({ ...FREE, expires_in_ms: 10_000 });
    expect(await claim('one')).toMatchObject({ is_yours: true, expires_in_ms: 15_000, attempt: 1 });
    stage.clock.advance(14_999);
    expect(await claim('two')).toMatchObject({ is_yours: false, expires_in_ms: 1 });
    stage.clock.advance(1);
    expect(await claim('two')).toMatchObject({ is_yours: true, attempt: 2 });
    expect(await claim('one')).toMatchObject({ is_yours: false });
  });

  it('keeps no worker waiting for a time from before the clock was set back', async () => {
    await claim('one');
    stage.clock.advance(-DAY_MS);
    expect(await claim('two')).toMatchObject({ is_yours: true, expires_in_ms: 15_000, attempt: 2 });
    expect(await claim('one')).toMatchObject({ is_yours: false, expires_in_ms: 15_000 });
  });

  it('is given to exactly one of many workers that ask at the same moment', async () => {
    const claims = await Promise.all(Array.from({ length: 12 }, (_, at) => claim(`worker-${at}`)));
    expect(claims.filter((one) => 'attempt' in one && one.is_yours && one.attempt === 1)).toHaveLength(1);
  });

  it('keeps workers from other messages of the session, too', async () => {
    const next = await say('and?');
    await claim('one');
    expect(await claim('two', {}, { event: next })).toMatchObject({ is_yours: false });
  });

  it('tells each worker which messages are done, and only those', async () => {
    const next = await say('and?');
    await claim('one', {}, { event: next });
    expect(await claim('one', { lease_ms: 0, done: true }, { event: next })).toEqual(DONE);
    expect(await claim('two', {}, { event: next })).toEqual(DONE);
    // The earlier message was skipped by the first worker.
    expect(await claim('two')).toMatchObject({ is_yours: true, is_done: false, attempt: 1 });
  });

  it('records a message as done if its worker lost the claim in the meantime, and leaves the claim of the other one', async () => {
    const next = await say('and?');
    await claim('one');
    stage.clock.advance(15_000);
    await claim('two', {}, { event: next });
    await claim('one', { lease_ms: 0, done: true });
    expect(await claim('three')).toMatchObject({ is_yours: false, is_done: true });
    expect(await claim('three', {}, { event: next })).toMatchObject({ is_yours: false, is_done: false });
  });

  it('does not record an event that does not exist, such as one that a restore removed', async () => {
    const gone = { ...message, event_id: 'evt_00000000000000000000000000' };
    expect(await claim('one', { lease_ms: 0, done: true }, { event: gone })).toEqual(FREE);
    expect(await claim('one')).toMatchObject({ is_yours: true });
  });

  it('counts the workers that claimed it for one message, but not the returns of one', async () => {
    await claim('one');
    await claim('one', { lease_ms: 0 });
    expect(await claim('one')).toMatchObject({ attempt: 1 });
    await claim('one', { lease_ms: 0 });
    expect(await claim('two')).toMatchObject({ attempt: 2 });
    await claim('two', { lease_ms: 0, done: true });
    expect(await claim('one', {}, { event: await say('next') })).toMatchObject({ attempt: 1 });
  });

  it('leaves messages from before the invitation to no worker', async () => {
    const carol = await stage.addAgent(await stage.addAccount('carol'), 'main', { inbound_policy: 'open' });
    must(await stage.invite(alice, sid, [carol.handle]));
    must(await stage.join(carol, sid));
    expect(await claim('one', {}, { by: carol })).toEqual(DONE);
    expect(await claim('one', {}, { by: carol, event: await say('hi') })).toMatchObject({ is_yours: true });
  });

  it('belongs to the agent: another participant has its own', async () => {
    await claim('one');
    expect(await claim('two', {}, { by: alice })).toMatchObject({ is_yours: true, attempt: 1 });
  });

  it('is possible in an ended session whose only message came with the invitation', async () => {
    const body = { invite: [bob.handle], initial_message: { content: 'hi' }, end_after_send: true };
    ({ session_id: sid } = must(await stage.create(alice, body)));
    const event = (await stage.eventsOf(bob, sid)).find(({ type }) => type === 'session.invited');
    if (event === undefined) throw new Error('There is no invitation.');
    expect(await claim('one', {}, { event })).toMatchObject({ is_yours: true });
  });

  it('is refused to strangers, as in a session that does not exist', async () => {
    const eve = await stage.addAgent(await stage.addAccount('eve'), 'main');
    const refusal = expect.objectContaining({ code: 'NOT_FOUND' });
    await expect(claim('one', {}, { by: eve })).rejects.toEqual(refusal);
    sid = 'sess_00000000000000000000000000';
    await expect(claim('one')).rejects.toEqual(refusal);
  });
});

describe('A repeated call of a claim', () => {
  it('says how things are now, although its key is the same', async () => {
    const service = await startTestService();
    try {
      const bob = await service.createAgent('bob');
      const sid = await bob.mustCreate({});
      const about = { event_id: 'evt_00000000000000000000000000', sequence: 1 };
      const ask = async (worker: string, leaseMs: number, key: string): Promise<unknown> =>
        (await bob.post(`/sessions/${sid}/claim`, { worker, ...about, lease_ms: leaseMs }, { key })).json;
      expect(await ask('one', 1, 'first-claim')).toMatchObject({ is_yours: true });
      await until('the other worker has the session', async () => {
        const claimed = (await ask('two', 60_000, 'second-claim')) as { is_yours: boolean };
        return claimed.is_yours;
      });
      expect(await ask('one', 1, 'first-claim')).toMatchObject({ is_yours: false });
    } finally {
      await service.stop();
    }
  });
});
