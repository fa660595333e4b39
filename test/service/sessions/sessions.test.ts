import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AccountActor, AgentActor } from '../../../src/service/context.js';
import { createSlidingWindow } from '../../../src/service/limits/sliding-window.js';
import { ServiceError } from '../../../src/service/service-error.js';
import { findTransition, LIFECYCLE, type Verb } from '../../../src/service/sessions/lifecycle.js';
import { listAccountSessions } from '../../../src/service/sessions/list-account-sessions.js';
import { listSessions } from '../../../src/service/sessions/list-sessions.js';
import { findAgent, updateAgentRow } from '../../../src/service/store/agent-rows.js';
import { must, openStage, type Stage } from './stage.js';

const VERBS: Verb[] = ['join', 'invite', 'send', 'leave', 'end', 'reopen'];

describe('States table', () => {
  const allowed = new Map([
    ['join active invited', 'caller joins'],
    ['join active joined', 'none'],
    ['invite active joined', 'others invited'],
    ['send active joined', 'message sent'],
    ['leave active joined', 'caller leaves'],
    ['leave ended joined', 'caller leaves'],
    ['end active joined', 'ends'],
  ]);
  it('allows exactly what the specification lists, and reopening to those joined at the end', () => {
    for (const verb of VERBS)
      for (const session_state of ['active', 'ended'] as const)
        for (const status of ['invited', 'joined', 'left'] as const)
          for (const was_joined_at_end of [0, 1]) {
            const wanted =
              verb === 'reopen'
                ? session_state === 'ended' && was_joined_at_end === 1
                  ? 'reopens'
                  : undefined
                : allowed.get(`${verb} ${session_state} ${status}`);
            const found = findTransition(verb, { session_state, status, was_joined_at_end });
            expect([verb, session_state, status, was_joined_at_end, found]).toEqual([
              verb,
              session_state,
              status,
              was_joined_at_end,
              wanted,
            ]);
          }
    expect(new Set(LIFECYCLE.map((row) => row.verb))).toEqual(new Set(VERBS));
  });
});

describe('sessions', () => {
  let stage: Stage;
  let alice: AgentActor;
  let bob: AgentActor;
  let carol: AgentActor;
  let stranger: AgentActor;

  beforeEach(async () => {
    stage = await openStage();
    const crew = await stage.addAccount('crew');
    alice = await stage.addAgent(crew, 'alice');
    bob = await stage.addAgent(crew, 'bob');
    carol = await stage.addAgent(crew, 'carol');
    stranger = await stage.addAgent(await stage.addAccount('other'), 'stranger');
  });
  afterEach(() => stage.close());

  it('POST /sessions, rule 1: the creator is the first joined participant; events come in the order of the contract', async () => {
    const reply = must(
      await stage.create(alice, {
        invite: [bob.handle, bob.handle, alice.handle, stranger.handle, carol.handle],
        topic: 'plans',
        initial_message: { content: 'hi', metadata: { a: [1] } },
        idempotency_key: 'a secret of the sender',
      }),
    );
    expect(reply.sequence).toBe(3);
    const now = stage.clock.now();
    expect(must(await stage.get(bob, reply.session_id))).toEqual({
      id: reply.session_id,
      state: 'active',
      topic: 'plans',
      participants: [
        { handle: alice.handle, status: 'joined', joined_at: now, left_at: null },
        { handle: bob.handle, status: 'invited', joined_at: null, left_at: null },
        { handle: carol.handle, status: 'invited', joined_at: null, left_at: null },
      ],
      created_at: now,
      ended_at: null,
    });
    const events = await stage.eventsOf(alice, reply.session_id);
    expect(events.map(({ type, sequence, payload }) => [type, sequence, payload])).toEqual([
      ['session.invited', 1, { invitee: bob.handle, by: alice.handle, topic: 'plans' }],
      ['session.invited', 2, { invitee: carol.handle, by: alice.handle, topic: 'plans' }],
      [
        'session.message',
        3,
        {
          id: expect.stringMatching(/^msg_/),
          session_id: reply.session_id,
          sender: alice.handle,
          sequence: 3,
          content: 'hi',
          metadata: { a: [1] },
          created_at: now,
        },
      ],
    ]);
    expect(JSON.stringify(events)).not.toContain('a secret of the sender');
  });

  it('one-shot: invitees get the message in their invitation, and the session is ended', async () => {
    const { session_id } = must(
      await stage.create(alice, { invite: [bob.handle], initial_message: { content: 'once' }, end_after_send: true }),
    );
    const log = await stage.eventsOf(alice, session_id);
    expect(log.map((event) => event.type)).toEqual(['session.invited', 'session.message', 'session.ended']);
    expect(log[0]?.payload).toEqual({ invitee: bob.handle, by: alice.handle, initial_message: log[1]?.payload });
    expect((await stage.eventsOf(bob, session_id)).map((event) => event.sequence)).toEqual([1, 3]);
    expect(must(await stage.get(bob, session_id))).toMatchObject({ state: 'ended', ended_at: stage.clock.now() });
    expect(must(await stage.reopen(alice, session_id))).toEqual({ ok: true });
  });

  it('POST /sessions, rules 2 and 3: none of the asked accepted is NOT_FOUND and creates nothing; only oneself is no asking', async () => {
    const nobody = { ok: false, code: 'NOT_FOUND' };
    expect(await stage.create(alice, { invite: [stranger.handle] })).toEqual(nobody);
    expect(await stage.create(alice, { invite: ['@no.body', stranger.handle, alice.handle] })).toEqual(nobody);
    expect((await stage.create(alice, { invite: [alice.handle] })).ok).toBe(true);
    expect((await stage.create(alice, {})).ok).toBe(true);
    const rows = await stage.read((query) => query.all('SELECT id FROM session'));
    expect(rows).toHaveLength(2);
  });

  it('an agent that may not initiate sessions is FORBIDDEN to create any', async () => {
    await stage.write(async (transaction) => {
      const row = await findAgent(transaction, alice.agentId);
      if (row !== undefined) await updateAgentRow(transaction, { ...row, can_initiate_sessions: 0 });
    });
    expect(await stage.create(alice, {})).toEqual({ ok: false, code: 'FORBIDDEN' });
    expect((await stage.create(bob, { invite: [alice.handle] })).ok).toBe(true);
  });

  it('reopen: who left while the session was ended may reopen it, and is joined again', async () => {
    const { session_id } = must(await stage.create(alice, { invite: [bob.handle] }));
    must(await stage.join(bob, session_id));
    must(await stage.end(alice, session_id));
    must(await stage.leave(bob, session_id));
    must(await stage.reopen(bob, session_id));
    expect(await stage.statusOf(bob, session_id)).toEqual({ [alice.handle]: 'invited', [bob.handle]: 'joined' });
    expect(must(await stage.get(bob, session_id)).participants[1]).toMatchObject({ left_at: null });
  });

  it('reopen: who stands across a block becomes left without an event, and keeps what it saw', async () => {
    const { session_id } = must(await stage.create(alice, { invite: [bob.handle, carol.handle] }));
    must(await stage.join(bob, session_id));
    must(await stage.end(alice, session_id));
    await stage.block(bob, alice);
    must(await stage.reopen(alice, session_id, { invite: [bob.handle], initial_message: { content: 'secret' } }));
    expect(await stage.statusOf(alice, session_id)).toEqual({
      [alice.handle]: 'joined',
      [bob.handle]: 'left',
      [carol.handle]: 'invited',
    });
    expect((await stage.eventsOf(bob, session_id)).map((event) => event.sequence)).toEqual([1, 2, 3, 4]);
    const later = (await stage.eventsOf(alice, session_id)).slice(4).map((event) => event.type);
    expect(later).toEqual(['session.reopened', 'session.invited', 'session.message']);
  });

  it('the limit of a session is asked after eligibility: a stranger gets NOT_FOUND, never RATE_LIMITED', async () => {
    await stage.close();
    const clock = { now: () => 0, monotonic: () => 0, schedule: () => () => {} };
    stage = await openStage({ limits: createSlidingWindow(clock) });
    const account = await stage.addAccount('crew');
    alice = await stage.addAgent(account, 'alice');
    bob = await stage.addAgent(account, 'bob');
    const { session_id } = must(await stage.create(alice, {}));
    for (let i = 0; i < 60; i += 1) must(await stage.send(alice, session_id, { content: 'x' }));
    expect(await stage.send(alice, session_id, { content: 'x' })).toEqual({ ok: false, code: 'RATE_LIMITED' });
    expect(await stage.send(bob, session_id, { content: 'x' })).toEqual({ ok: false, code: 'NOT_FOUND' });
    expect(await stage.eventsOf(alice, session_id)).toHaveLength(60);
  });

  it('500 messages an hour reach an open agent, over all its sessions; the session budget is untouched by a refusal', async () => {
    await stage.close();
    let now = 0;
    const clock = { now: () => now, monotonic: () => now, schedule: () => () => {} };
    stage = await openStage({ limits: createSlidingWindow(clock) });
    const account = await stage.addAccount('crew');
    alice = await stage.addAgent(account, 'alice');
    const open = await stage.addAgent(account, 'open', { inboundPolicy: 'open' });
    const ids: string[] = [];
    for (let i = 0; i < 10; i += 1) {
      const { session_id } = must(await stage.create(alice, { invite: [open.handle] }));
      must(await stage.join(open, session_id));
      ids.push(session_id);
    }
    for (let i = 0; i < 500; i += 1) must(await stage.send(alice, ids[i % 10] as string, { content: 'x' }));
    now = 61_000;
    for (let i = 0; i < 70; i += 1)
      expect(await stage.send(alice, ids[0] as string, { content: 'x' })).toEqual({ ok: false, code: 'RATE_LIMITED' });
    must(await stage.leave(open, ids[0] as string));
    for (let i = 0; i < 60; i += 1) must(await stage.send(alice, ids[0] as string, { content: 'x' }));
    expect(await stage.send(alice, ids[0] as string, { content: 'x' })).toEqual({ ok: false, code: 'RATE_LIMITED' });
  });

  describe('lists', () => {
    const pageThrough = async <Row>(
      next: (cursor: string | undefined) => Promise<{ sessions: Row[]; next_cursor: string | null }>,
    ): Promise<Row[]> => {
      const rows: Row[] = [];
      let cursor: string | undefined;
      do {
        const page = await next(cursor);
        rows.push(...page.sessions);
        cursor = page.next_cursor ?? undefined;
      } while (cursor !== undefined);
      return rows;
    };
    const list = (actor: AgentActor, limit: number, state?: 'active' | 'ended', cursor?: string) =>
      stage.read((query) =>
        listSessions(
          stage.context,
          actor,
          { query: { limit, ...(state && { state }), ...(cursor !== undefined && { cursor }) } },
          query,
        ),
      );

    it('GET /sessions: each session once, most recently changed first, by state, whatever the limit', async () => {
      const ids: string[] = [];
      for (let i = 0; i < 7; i += 1) {
        if (i % 3 !== 0) stage.clock.advance(1);
        ids.push(must(await stage.create(alice, { invite: [bob.handle] })).session_id);
      }
      stage.clock.advance(5);
      must(await stage.send(alice, ids[2] as string, { content: 'x' }));
      must(await stage.end(alice, ids[4] as string));
      for (const limit of [1, 2, 3, 100]) {
        const all = (await pageThrough((cursor) => list(alice, limit, undefined, cursor))).map(({ id }) => id);
        expect(new Set(all)).toEqual(new Set(ids));
        expect(all).toHaveLength(7);
        expect(new Set(all.slice(0, 2))).toEqual(new Set([ids[2], ids[4]]));
        const ended = await pageThrough((cursor) => list(alice, limit, 'ended', cursor));
        expect(ended.map(({ id }) => id)).toEqual([ids[4]]);
        expect(await pageThrough((cursor) => list(alice, limit, 'active', cursor))).toHaveLength(6);
      }
      expect((await list(bob, 1)).sessions[0]?.id).toBe(ids[4]);
      expect((await list(stranger, 10)).sessions).toEqual([]);
    });

    it('GET /sessions: a damaged cursor, another agent’s, or one of another filter is VALIDATION_ERROR', async () => {
      for (let i = 0; i < 3; i += 1) must(await stage.create(alice, { invite: [bob.handle] }));
      const cursor = (await list(alice, 1)).next_cursor as string;
      expect((await list(alice, 1, undefined, cursor)).sessions).toHaveLength(1);
      const texts = ['x', '', `${cursor}=`, `A${cursor.slice(1)}`, cursor.slice(0, -2), "' OR 1=1 --", '1e300'];
      const refusals = await Promise.allSettled([
        list(bob, 1, undefined, cursor),
        list(alice, 1, 'active', cursor),
        ...texts.map((text) => list(alice, 1, undefined, text)),
      ]);
      for (const refusal of refusals) {
        expect(refusal).toMatchObject({ status: 'rejected', reason: { code: 'VALIDATION_ERROR' } });
        expect(refusal).toMatchObject({ reason: expect.any(ServiceError) });
      }
    });

    it('GET /accounts/me/sessions: one row a session with the handle to act as: joined, then invited, then left', async () => {
      const account: AccountActor = { kind: 'account', accountId: alice.accountId, scopes: [] };
      const shared: string[] = [];
      for (let i = 0; i < 5; i += 1) {
        stage.clock.advance(1);
        const { session_id } = must(await stage.create(alice, { invite: [bob.handle, carol.handle] }));
        shared.push(session_id);
        if (i >= 1) must(await stage.join(bob, session_id));
        stage.clock.advance(1);
        if (i >= 2) must(await stage.leave(alice, session_id));
        if (i >= 3) must(await stage.leave(bob, session_id));
      }
      const foreign = must(await stage.create(stranger, {})).session_id;
      for (const limit of [1, 2, 3, 100]) {
        const rows = await pageThrough((cursor) =>
          stage.read((query) =>
            listAccountSessions(
              stage.context,
              account,
              { query: { limit, ...(cursor !== undefined && { cursor }) } },
              query,
            ),
          ),
        );
        expect(rows.map((row) => row.session.id)).toEqual(shared.toReversed());
        expect(rows.map((row) => row.acting_handle)).toEqual(
          [alice, alice, bob, carol, carol].map((agent) => agent.handle).toReversed(),
        );
        expect(rows.some((row) => row.session.id === foreign)).toBe(false);
      }
    });
  });
});
