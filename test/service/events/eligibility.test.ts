import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import { removeParticipant } from '../../../src/service/messaging/sessions.js';
import { findParticipation } from '../../../src/service/store/participants.js';
import type { EventEnvelope } from '../../../src/wire/schemas/event.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

describe('GET …/events: eligibility filtering', () => {
  let stage: Stage;
  let sessionId: string;
  const viewers: Record<string, { actor: AgentActor; sees: number[] }> = {};

  /**
   * The log: 1 invited bob, 2 invited carol, 3 message, 4 joined bob, 5 left bob, 6 ended, 7 reopened, 8 invited bob, 9
   * invited carol, 10 joined carol, 11 invited erin, 12 joined erin, 13 left erin, 14 invited dave, 15 invited frank,
   * 16 left frank, 17 message, 18 left alice, 19 ended.
   */
  beforeAll(async () => {
    stage = await openStage();
    const account = await stage.addAccount('crew');
    const [alice, bob, carol, dave, erin, frank] = (await Promise.all(
      ['alice', 'bob', 'carol', 'dave', 'erin', 'frank'].map((name) => stage.addAgent(account, name)),
    )) as [AgentActor, AgentActor, AgentActor, AgentActor, AgentActor, AgentActor];
    const created = await stage.create(alice, {
      invite: [bob.handle, carol.handle],
      initial_message: { content: 'hi' },
    });
    sessionId = must(created).session_id;
    must(await stage.join(bob, sessionId));
    must(await stage.leave(bob, sessionId));
    must(await stage.end(alice, sessionId));
    must(await stage.reopen(alice, sessionId));
    must(await stage.join(carol, sessionId));
    must(await stage.invite(alice, sessionId, [erin.handle]));
    must(await stage.join(erin, sessionId));
    must(await stage.leave(erin, sessionId));
    must(await stage.invite(alice, sessionId, [dave.handle, frank.handle]));
    await stage.write(async (transaction) => {
      const row = await findParticipation(transaction, sessionId, frank.agentId);
      if (row !== undefined) await removeParticipant(stage.context, transaction, row, 'left');
    });
    must(await stage.send(carol, sessionId, { content: 'bye' }));
    must(await stage.leave(alice, sessionId));
    must(await stage.end(carol, sessionId));
    const upTo = (last: number): number[] => Array.from({ length: last }, (_, index) => index + 1);
    Object.assign(viewers, {
      joined: { actor: carol, sees: upTo(19) },
      'left, the creator': { actor: alice, sees: upTo(18) },
      'left, invited late': { actor: erin, sees: upTo(13) },
      'invited again after it left': { actor: bob, sees: [1, 6, 8, 19] },
      'invited, after an earlier end': { actor: dave, sees: [14, 19] },
      'left without having joined': { actor: frank, sees: [15, 16] },
    });
  });
  afterAll(() => stage.close());

  it.each([
    'joined',
    'left, the creator',
    'left, invited late',
    'invited again after it left',
    'invited, after an earlier end',
    'left without having joined',
  ])('%s gets the right events for every after_sequence and limit, and the number of its last one', async (name) => {
    const { actor, sees } = viewers[name] as { actor: AgentActor; sees: number[] };
    for (let after = 0; after <= 21; after += 1)
      for (const limit of [1, 2, 3, 5, 18, 19, 20, 1000]) {
        const { events, next_cursor, last_sequence } = must(await stage.replay(actor, sessionId, after, limit));
        expect(last_sequence).toBe(sees.at(-1));
        const rest = sees.filter((sequence) => sequence > after);
        const page = rest.slice(0, limit);
        expect(events.map((event) => event.sequence)).toEqual(page);
        expect(next_cursor).toBe(rest.length > limit ? String(page.at(-1)) : null);
      }
  });

  it('following next_cursor visits each visible event once, whatever the limit', async () => {
    for (const { actor, sees } of Object.values(viewers))
      for (const limit of [1, 2, 7]) {
        const seen: number[] = [];
        let cursor: string | null = '0';
        while (cursor !== null) {
          const page: { events: EventEnvelope[]; next_cursor: string | null } = must(
            await stage.replay(actor, sessionId, Number(cursor), limit),
          );
          seen.push(...page.events.map((event) => event.sequence));
          cursor = page.next_cursor;
        }
        expect(seen).toEqual(sees);
      }
  });

  it('marks only the inboxes of those who may see the event as pending, with a new time', async () => {
    const account = await stage.addAccount('watch');
    const [host, guest, gone] = (await Promise.all(
      ['host', 'guest', 'gone'].map((name) => stage.addAgent(account, name)),
    )) as [AgentActor, AgentActor, AgentActor];
    const id = must(await stage.create(host, { invite: [guest.handle, gone.handle] })).session_id;
    must(await stage.join(gone, id));
    must(await stage.leave(gone, id));
    const inboxOf = (actor: AgentActor) =>
      stage.read((query) =>
        query.get('SELECT * FROM inbox WHERE session_id = $1 AND agent_id = $2', id, actor.agentId),
      );
    await stage.context.inboxes.settle();
    await stage.write((transaction) => transaction.run('UPDATE inbox SET is_pending = 0 WHERE session_id = $1', id));
    const before = stage.clock.now();
    stage.clock.advance(1000);
    stage.signals.length = 0;
    must(await stage.send(host, id, { content: 'psst' }));
    expect(stage.signals).toMatchObject([
      { kind: 'events', sessionId: id, first: 5, last: 5, events: [{ sequence: 5 }] },
    ]);
    expect(await inboxOf(host)).toMatchObject({ is_pending: 1, changed_at: before + 1000, last_sequence: 5 });
    expect(await inboxOf(guest)).toMatchObject({ is_pending: 0, changed_at: before, last_sequence: 1 });
    expect(await inboxOf(gone)).toMatchObject({ is_pending: 0, changed_at: before, last_sequence: 4 });
    must(await stage.end(host, id));
    expect(await inboxOf(guest)).toMatchObject({ is_pending: 1, changed_at: before + 1000, last_sequence: 6 });
    expect(await inboxOf(gone)).toMatchObject({ is_pending: 0, changed_at: before, last_sequence: 4 });
  });

  it('sends no notification for a write that is rolled back, and leaves no gap', async () => {
    const account = await stage.addAccount('undo');
    const host = await stage.addAgent(account, 'host');
    const id = must(await stage.create(host, {})).session_id;
    stage.signals.length = 0;
    const foreign = [{ type: 'file', attachment_id: 'att_01ARZ3NDEKTSV4RRFFQ69G5FAV' }] as const;
    expect(await stage.send(host, id, { content: [...foreign] })).toEqual({ ok: false, code: 'NOT_FOUND' });
    expect(stage.signals).toEqual([]);
    expect(must(await stage.send(host, id, { content: 'x' }))).toMatchObject({ sequence: 1 });
  });

  it('ends a page early rather than hold many large messages in memory, and says that more follow', async () => {
    const account = await stage.addAccount('bulk');
    const host = await stage.addAgent(account, 'host');
    const id = must(await stage.create(host, {})).session_id;
    const large = 'x'.repeat(250 * 1024);
    for (let i = 0; i < 40; i += 1) must(await stage.send(host, id, { content: large }));
    const first = must(await stage.replay(host, id, 0, 1000));
    expect(first.events.length).toBeLessThan(40);
    expect(first.next_cursor).toBe(String(first.events.length));
    let seen = 0;
    let cursor: string | null = '0';
    while (cursor !== null) {
      const page: { events: EventEnvelope[]; next_cursor: string | null } = must(
        await stage.replay(host, id, Number(cursor), 1000),
      );
      seen += page.events.length;
      cursor = page.next_cursor;
    }
    expect(seen).toBe(40);
  });
});
