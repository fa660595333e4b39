import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import { removeFromShared } from '../../../src/service/messaging/sessions.js';
import { TEST_STORE } from '../../support/stores.js';
import { IS_LONG } from '../../support/tally.js';
import { SessionModel } from './model.js';
import { must, openStage, type Stage } from './stage.js';

const PATIENCE_MS = IS_LONG ? 1_800_000 : 300_000;
const RUNS = IS_LONG ? 5000 : TEST_STORE === 'postgres' ? 100 : 300;
const LETTERS = ['a', 'b', 'c', 'd'] as const;

const letter = fc.constantFrom(...LETTERS);
const some = fc.subarray([...LETTERS]);
const command = fc.oneof(
  fc.record({ verb: fc.constant('join' as const), by: letter }),
  fc.record({ verb: fc.constant('invite' as const), by: letter, whom: some }),
  fc.record({ verb: fc.constant('send' as const), by: letter }),
  fc.record({ verb: fc.constant('leave' as const), by: letter }),
  fc.record({ verb: fc.constant('end' as const), by: letter }),
  fc.record({ verb: fc.constant('reopen' as const), by: letter, whom: some, says: fc.boolean() }),
  fc.record({ verb: fc.constant('block' as const), by: letter, whom: letter }),
  fc.record({ verb: fc.constant('unblock' as const), by: letter, whom: letter }),
);
type Command = typeof command extends fc.Arbitrary<infer Value> ? Value : never;

describe('States: every sequence of calls', () => {
  let stage: Stage;
  const agents = new Map<string, AgentActor>();
  let names = new Map<string, string>();
  let counts = { ok: 0, refused: 0 };

  beforeAll(async () => {
    stage = await openStage();
    const account = await stage.addAccount('crew');
    for (const name of LETTERS) agents.set(name, await stage.addAgent(account, name));
    names = new Map([...agents].map(([name, agent]) => [agent.handle, name]));
  });
  afterAll(() => stage.close());

  const agent = (name: string): AgentActor => agents.get(name) as AgentActor;
  const handles = (who: readonly string[]): string[] => who.map((name) => agent(name).handle);

  async function runBoth(model: SessionModel, sessionId: string, step: Command): Promise<[unknown, unknown]> {
    const { verb, by } = step;
    switch (verb) {
      case 'join':
      case 'leave':
      case 'end':
        return [(await stage[verb](agent(by), sessionId)).ok, model[verb](by)];
      case 'send':
        return [(await stage.send(agent(by), sessionId, { content: 'hi' })).ok, model.send(by)];
      case 'invite': {
        const outcome = await stage.invite(agent(by), sessionId, handles(step.whom));
        const invited = outcome.ok ? outcome.reply.invited.map((handle) => names.get(handle)) : undefined;
        return [invited, model.invite(by, step.whom)];
      }
      case 'reopen': {
        const body = { invite: handles(step.whom), ...(step.says && { initial_message: { content: 'again' } }) };
        return [(await stage.reopen(agent(by), sessionId, body)).ok, model.reopen(by, step.whom, step.says)];
      }
      case 'block': {
        if (by === step.whom || model.blocks.has(by + step.whom)) return [true, true];
        await stage.block(agent(by), agent(step.whom));
        await stage.write((transaction) =>
          removeFromShared(stage.context, transaction, agent(by), [agent(step.whom).agentId]),
        );
        model.block(by, step.whom);
        return [true, true];
      }
      case 'unblock':
        await stage.write((transaction) =>
          transaction.run(
            'DELETE FROM block WHERE agent_id = $1 AND blocked_handle = $2',
            agent(by).agentId,
            agent(step.whom).handle,
          ),
        );
        model.unblock(by, step.whom);
        return [true, true];
    }
  }

  async function compare(model: SessionModel, sessionId: string): Promise<void> {
    for (const name of LETTERS) {
      const visible = model.visible(name);
      const replay = await stage.replay(agent(name), sessionId, 0, 1000);
      if (visible === undefined) {
        expect(replay).toEqual({ ok: false, code: 'NOT_FOUND' });
        expect(await stage.get(agent(name), sessionId)).toEqual({ ok: false, code: 'NOT_FOUND' });
        continue;
      }
      const { events } = must(replay);
      expect(events.map((event) => event.sequence)).toEqual(visible);
      expect(events.map((event) => event.type)).toEqual(visible.map((number) => model.events[number - 1]?.type));
      const session = must(await stage.get(agent(name), sessionId));
      expect(session.state).toBe(model.state);
      expect(session.participants.map((each) => [names.get(each.handle), each.status])).toEqual(
        [...model.parts].map(([each, part]) => [each, part.status]),
      );
    }
  }

  it('ends in the state, the statuses and the visible events that the specification gives', {
    timeout: PATIENCE_MS,
  }, async () => {
    counts = { ok: 0, refused: 0 };
    const plan = fc.record({
      invitees: fc.subarray(['b', 'c', 'd']),
      says: fc.boolean(),
      ends: fc.boolean(),
      steps: fc.array(command, { maxLength: 25 }),
    });
    await fc.assert(
      fc.asyncProperty(plan, async ({ invitees, says, ends, steps }) => {
        await stage.write((transaction) => transaction.run('DELETE FROM block'));
        const endsNow = says && ends;
        const created = await stage.create(agent('a'), {
          invite: handles(invitees),
          ...(says && { initial_message: { content: 'hello' } }),
          end_after_send: endsNow,
        });
        const sessionId = must(created).session_id;
        const model = new SessionModel('a', invitees, says, endsNow);
        await compare(model, sessionId);
        for (const step of steps) {
          const [actual, expected] = await runBoth(model, sessionId, step);
          expect([step, actual]).toEqual([step, expected]);
          counts[expected === false || expected === undefined ? 'refused' : 'ok'] += 1;
          await compare(model, sessionId);
        }
      }),
      { numRuns: RUNS },
    );
    expect(counts.ok).toBeGreaterThan(RUNS);
    expect(counts.refused).toBeGreaterThan(RUNS);
  });
});
