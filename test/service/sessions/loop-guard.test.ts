import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AgentActor, LoopGuard, ServiceContext } from '../../../src/service/core/context.js';
import { createLoopGuard } from '../../../src/service/messaging/loop-guard.js';
import { sendMessage } from '../../../src/service/messaging/sessions.js';
import { LOOP_GUARD_MAX } from '../../../src/wire/limit.js';
import { must, openStage, type Stage } from './stage.js';

const LIMIT = 6;
const PERSON = { sent_by: 'dashboard' };

let stopped = 0;
const guardOf = (limit = LIMIT): LoopGuard =>
  createLoopGuard(limit, {
    loopStopped: () => {
      stopped += 1;
    },
  });

let stage: Stage;
let alice: AgentActor;
let bob: AgentActor;
let id: string;
beforeEach(async () => {
  stopped = 0;
  stage = await openStage({ loopGuard: guardOf() });
  alice = await stage.addAgent(await stage.addAccount('alice'), 'main', { inbound_policy: 'open' });
  bob = await stage.addAgent(await stage.addAccount('bob'), 'main', { inbound_policy: 'open' });
  id = must(await stage.create(alice, { invite: [bob.handle] })).session_id;
  must(await stage.join(bob, id));
});
afterEach(() => stage.close());

/** Agents answer each other until the service refuses, through these contexts in turn. */
async function chatter(contexts: readonly ServiceContext[] = [stage.context]): Promise<number> {
  for (let count = 0; count < 3 * LIMIT; count += 1) {
    const context = contexts[count % contexts.length] ?? stage.context;
    const input = { path: { session_id: id }, body: { content: `message ${count}` } };
    const sent = stage.write((transaction) => sendMessage(context, count % 2 ? bob : alice, input, transaction));
    try {
      await sent;
    } catch (error) {
      expect(error).toMatchObject({ code: 'LOOP_GUARD', status: 403 });
      return count;
    }
  }
  throw new Error('never refused');
}

const person = (by = bob) => stage.send(by, id, { content: 'go on', metadata: PERSON });

describe('asp serve --loop-guard', () => {
  it('stops agents after exactly N messages, and each message of a person allows N more', async () => {
    expect(await chatter()).toBe(LIMIT);
    expect(await chatter()).toBe(0);
    for (let round = 0; round < 3; round += 1) {
      must(await person());
      expect(await chatter()).toBe(LIMIT);
    }
    expect(stopped).toBe(5);
  });

  it('says how many messages there were and who can continue', async () => {
    await chatter();
    const input = { path: { session_id: id }, body: { content: 'once more' } };
    const refused = stage.write((transaction) => sendMessage(stage.context, alice, input, transaction));
    await expect(refused).rejects.toThrow(/6 messages in a row.*person.*dashboard.*asp chat/);
  });

  it('counts the same through two services on one database, and after a restart', async () => {
    const second = { ...stage.context, loopGuard: guardOf() };
    expect(await chatter([stage.context, second, second])).toBe(LIMIT);
    expect(await chatter([{ ...stage.context, loopGuard: guardOf() }])).toBe(0);
    must(await person());
    expect(await chatter([second, stage.context, { ...stage.context, loopGuard: guardOf() }])).toBe(LIMIT);
  });

  it('does not count messages that were never committed, nor miss a person whose message took their place', async () => {
    for (const content of ['one', 'two', 'three']) must(await stage.send(alice, id, { content }));
    const lost = stage.write(async (transaction) => {
      for (const content of ['four', 'five', 'six'])
        await sendMessage(stage.context, alice, { path: { session_id: id }, body: { content } }, transaction);
      throw new Error('the database is lost');
    });
    await expect(lost).rejects.toThrow('the database is lost');
    // They have the numbers of "four" and "five", and the guard does not look at messages from a person.
    for (let count = 0; count < 2; count += 1) must(await person());
    for (const content of ['a', 'b']) must(await stage.send(alice, id, { content }));
    expect(await chatter()).toBe(LIMIT - 2);
  });

  it('is not lifted by a message of a person that was never committed', async () => {
    expect(await chatter()).toBe(LIMIT);
    const lost = stage.write(async (transaction) => {
      for (const metadata of [PERSON, {}, {}])
        await sendMessage(
          stage.context,
          bob,
          { path: { session_id: id }, body: { content: 'x', metadata } },
          transaction,
        );
      throw new Error('the database is lost');
    });
    await expect(lost).rejects.toThrow('the database is lost');
    expect(await chatter()).toBe(0);
  });

  it('counts messages, not joins and invitations between them', async () => {
    const carol = await stage.addAgent(await stage.addAccount('carol'), 'main', { inbound_policy: 'open' });
    for (let count = 0; count < LIMIT; count += 1) {
      must(await stage.send(alice, id, { content: 'x' }));
      must(await stage.invite(alice, id, [carol.handle]));
      must(await stage.join(carol, id));
      must(await stage.leave(carol, id));
    }
    expect(await stage.send(alice, id, { content: 'x' })).toEqual({ ok: false, code: 'LOOP_GUARD' });
    expect(must(await stage.invite(alice, id, [carol.handle])).invited).toEqual([carol.handle]);
  });

  it('is not fooled by what only looks like the mark of a person', async () => {
    const data = [{ type: 'data' as const, data: { sent_by: 'dashboard', metadata: PERSON } }];
    const texts = ['"sent_by":"dashboard"', '{"metadata":{"sent_by":"dashboard"}}'];
    for (const content of [...texts, data]) must(await stage.send(alice, id, { content }));
    for (const metadata of [{ sent_by: '' }, { sent_by: true }, { of: PERSON }])
      must(await stage.send(alice, id, { content: 'x', metadata }));
    expect(await stage.send(alice, id, { content: 'x' })).toEqual({ ok: false, code: 'LOOP_GUARD' });
  });

  it('cannot be passed by ending and reopening the session with a message', async () => {
    await chatter();
    must(await stage.end(alice, id));
    const again = { initial_message: { content: 'again' } };
    expect(await stage.reopen(alice, id, again)).toEqual({ ok: false, code: 'LOOP_GUARD' });
    must(await stage.reopen(alice, id));
    expect(await stage.send(alice, id, { content: 'x' })).toEqual({ ok: false, code: 'LOOP_GUARD' });
    must(await stage.end(alice, id));
    must(await stage.reopen(alice, id, { initial_message: { content: 'again', metadata: PERSON } }));
    must(await stage.join(bob, id));
    expect(await chatter()).toBe(LIMIT);
  });

  it('counts the message that begins a session, and each session for itself', async () => {
    await chatter();
    id = must(await stage.create(alice, { invite: [bob.handle], initial_message: { content: 'hi' } })).session_id;
    must(await stage.join(bob, id));
    expect(await chatter()).toBe(LIMIT - 1);
  });

  it('reveals nothing to agents that may not write: they get the answer of a missing session', async () => {
    await chatter();
    const eve = await stage.addAgent(await stage.addAccount('eve'), 'main');
    expect(await stage.send(eve, id, { content: 'x' })).toEqual({ ok: false, code: 'NOT_FOUND' });
    must(await stage.leave(bob, id));
    expect(await stage.send(bob, id, { content: 'x' })).toEqual({ ok: false, code: 'NOT_FOUND' });
  });

  it('reads a long session in parts once, and then only what is new', async () => {
    const guard = guardOf(LOOP_GUARD_MAX);
    const withoutGuard = { ...stage.context, loopGuard: undefined };
    const first = must(await person()).sequence;
    const last = first + 345;
    for (let hops = 1; hops <= 345; hops += 1) {
      const input = { path: { session_id: id }, body: { content: 'x', metadata: { hops } } };
      await stage.write((transaction) => sendMessage(withoutGuard, alice, input, transaction));
    }
    const asked: number[] = [];
    await stage.read(async (query) => {
      const counting = {
        ...query,
        all: async <Row>(...given: Parameters<typeof query.all>) => {
          const rows = await query.all<Row>(...given);
          asked.push(rows.length);
          return rows;
        },
      };
      await guard.check(counting, id, last, { content: '' });
      await guard.check(counting, id, last, { content: '' });
    });
    expect(asked).toEqual([100, 100, 100, 48, 1]);
  });
});
