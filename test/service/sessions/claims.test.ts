import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AgentActor } from '../../../src/service/core/context.js';
import { claimSession } from '../../../src/service/messaging/claims.js';
import type { BodyOf } from '../../../src/wire/schemas/endpoint.js';
import { must, openStage, type Stage } from './stage.js';

describe('A claim of a session', () => {
  let stage: Stage;
  let alice: AgentActor;
  let bob: AgentActor;
  let sid: string;
  beforeEach(async () => {
    stage = await openStage();
    const [one, two] = [await stage.addAccount('alice'), await stage.addAccount('bob')];
    alice = await stage.addAgent(one, 'main', { inboundPolicy: 'open' });
    bob = await stage.addAgent(two, 'main', { inboundPolicy: 'open' });
    ({ session_id: sid } = must(await stage.create(alice, { invite: [bob.handle] })));
    must(await stage.join(bob, sid));
  });
  afterEach(() => stage.close());

  const claim = (worker: string, body: Partial<BodyOf<'claimSession'>> = {}, by = bob) => {
    const input = { path: { session_id: sid }, body: { worker, lease_ms: 15_000, ...body } };
    return stage.write((transaction) => claimSession(stage.context, by, input, transaction));
  };

  it('belongs to one worker until it ends, and the same worker extends it', async () => {
    expect(await claim('one')).toEqual({ is_yours: true, expires_in_ms: 15_000, done: 0, attempt: 1 });
    stage.clock.advance(5_000);
    expect(await claim('two')).toEqual({ is_yours: false, expires_in_ms: 10_000, done: 0, attempt: 1 });
    expect(await claim('one')).toMatchObject({ is_yours: true, expires_in_ms: 15_000, attempt: 1 });
    stage.clock.advance(14_999);
    expect(await claim('two')).toMatchObject({ is_yours: false, expires_in_ms: 1 });
    stage.clock.advance(1);
    expect(await claim('two')).toMatchObject({ is_yours: true, attempt: 2 });
    expect(await claim('one')).toMatchObject({ is_yours: false });
  });

  it('is given to exactly one of many workers that ask at the same moment', async () => {
    const claims = await Promise.all(Array.from({ length: 12 }, (_, at) => claim(`worker-${at}`)));
    expect(claims).toContainEqual(expect.objectContaining({ is_yours: true }));
    expect(claims.filter((one) => 'is_yours' in one && one.is_yours)).toHaveLength(1);
    expect(new Set(claims.map((one) => 'attempt' in one && one.attempt))).toEqual(new Set([1]));
  });

  it('tells each worker how far the others got, and never goes back', async () => {
    await claim('one');
    const given = await claim('one', { lease_ms: 0, done: 7 });
    expect(given).toEqual({ is_yours: false, expires_in_ms: 0, done: 7, attempt: 0 });
    expect(await claim('two')).toMatchObject({ is_yours: true, done: 7, attempt: 1 });
    expect(await claim('two', { done: 3 })).toMatchObject({ is_yours: true, done: 7, attempt: 1 });
    expect(await claim('one', { done: 99 })).toMatchObject({ is_yours: false, done: 7 });
    expect(await claim('two', { done: 9 })).toMatchObject({ is_yours: true, done: 9, attempt: 1 });
  });

  it('counts the workers that held it without finishing, but not the returns of one', async () => {
    await claim('one');
    await claim('one', { lease_ms: 0 });
    expect(await claim('one')).toMatchObject({ attempt: 1 });
    await claim('one', { lease_ms: 0 });
    expect(await claim('two')).toMatchObject({ attempt: 2 });
    await claim('two', { lease_ms: 0, done: 5 });
    expect(await claim('one')).toMatchObject({ attempt: 1 });
  });

  it('belongs to the agent: another participant has its own', async () => {
    await claim('one');
    expect(await claim('two', {}, alice)).toMatchObject({ is_yours: true, attempt: 1 });
  });

  it('is possible in an ended session whose only message came with the invitation', async () => {
    const body = { invite: [bob.handle], initial_message: { content: 'hi' }, end_after_send: true };
    ({ session_id: sid } = must(await stage.create(alice, body)));
    expect(await claim('one')).toMatchObject({ is_yours: true });
  });

  it('is refused to strangers, as in a session that does not exist', async () => {
    const eve = await stage.addAgent(await stage.addAccount('eve'), 'main');
    const refusal = expect.objectContaining({ code: 'NOT_FOUND' });
    await expect(claim('one', {}, eve)).rejects.toEqual(refusal);
    sid = 'sess_00000000000000000000000000';
    await expect(claim('one')).rejects.toEqual(refusal);
  });
});
