import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { AccountActor, AgentActor } from '../../../src/service/core/context.js';
import { ServiceError } from '../../../src/service/core/errors.js';
import { createMemoryLimits } from '../../../src/service/core/rate-limits.js';
import { listAccountSessions, listSessions } from '../../../src/service/messaging/list-sessions.js';
import { findTransition, LIFECYCLE, type Verb } from '../../../src/service/messaging/sessions.js';
import type { AccountRow } from '../../../src/service/store/accounts.js';
import { findAgent, updateAgentRow } from '../../../src/service/store/agents.js';
import { deleteAllowlistEntry, insertAllowlistEntries } from '../../../src/service/store/allowlists.js';
import { createHandClock, must, openStage, type Stage } from './stage.js';

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

  it('POST /sessions, rules 2 and 3: if no invitee is accepted, NOT_FOUND and nothing is created; the creator does not count', async () => {
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

  it('reopen: a participant who left while the session was ended may reopen it, and is joined again', async () => {
    const { session_id } = must(await stage.create(alice, { invite: [bob.handle] }));
    must(await stage.join(bob, session_id));
    must(await stage.end(alice, session_id));
    must(await stage.leave(bob, session_id));
    must(await stage.reopen(bob, session_id));
    expect(await stage.statusOf(bob, session_id)).toEqual({ [alice.handle]: 'invited', [bob.handle]: 'joined' });
    expect(must(await stage.get(bob, session_id)).participants[1]).toMatchObject({ left_at: null });
  });

  it('reopen: a participant with a block on either side becomes left without an event, and keeps what it saw', async () => {
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

  it('reopen: earlier participants that an invitation would not reach now are not invited', async () => {
    const guests = {
      left: await stage.addAgent(await stage.addAccount('left'), 'x', { inbound_policy: 'open' }),
      struckOff: await stage.addAgent(await stage.addAccount('struck'), 'x'),
      paused: await stage.addAgent(await stage.addAccount('paused'), 'x', { inbound_policy: 'open' }),
      listed: await stage.addAgent(await stage.addAccount('listed'), 'x'),
    };
    for (const { agentId } of [guests.struckOff, guests.listed])
      await stage.write((transaction) => insertAllowlistEntries(transaction, agentId, [alice.handle], 1));
    const all = Object.values(guests);
    const { session_id } = must(await stage.create(alice, { invite: all.map(({ handle }) => handle) }));
    for (const guest of all) must(await stage.join(guest, session_id));
    must(await stage.leave(guests.left, session_id));
    await stage.write((transaction) => deleteAllowlistEntry(transaction, guests.struckOff.agentId, alice.handle));
    await stage.write(async (transaction) => {
      const row = await findAgent(transaction, guests.paused.agentId);
      if (row !== undefined) await updateAgentRow(transaction, { ...row, is_paused: 1 });
    });
    for (let round = 0; round < 3; round += 1) {
      must(await stage.end(alice, session_id));
      must(await stage.reopen(alice, session_id, { invite: [guests.struckOff.handle] }));
    }
    expect(await stage.statusOf(alice, session_id)).toEqual({
      [alice.handle]: 'joined',
      [guests.left.handle]: 'invited',
      [guests.struckOff.handle]: 'left',
      [guests.paused.handle]: 'left',
      [guests.listed.handle]: 'invited',
    });
    const invited = (await stage.eventsOf(alice, session_id)).filter(({ type }) => type === 'session.invited');
    const again = invited.slice(all.length).map((event) => (event.payload as { invitee: string }).invitee);
    expect(new Set(again)).toEqual(new Set([guests.left.handle, guests.listed.handle]));
    expect((await stage.eventsOf(guests.struckOff, session_id)).at(-1)?.type).toBe('session.ended');
  });

  it('a session never exceeds its limit, whatever the invitees', async () => {
    await stage.close();
    stage = await openStage({ participantsMax: 4 });
    const account = await stage.addAccount('crew');
    alice = await stage.addAgent(account, 'alice');
    const others: AgentActor[] = [];
    for (const name of ['a', 'b', 'c', 'd']) others.push(await stage.addAgent(account, name));
    const [a, b, c, d] = others.map(({ handle }) => handle) as [string, string, string, string];
    const tooMany = { ok: false, code: 'VALIDATION_ERROR' };
    expect(await stage.create(alice, { invite: [a, b, c, d] })).toEqual(tooMany);
    expect(await stage.create(alice, { invite: [a, b, c, '@no.body'] })).toEqual(tooMany);
    const { session_id } = must(await stage.create(alice, { invite: [a, b, alice.handle, a] }));
    expect(await stage.invite(alice, session_id, [c, d])).toEqual(tooMany);
    expect(must(await stage.invite(alice, session_id, [a, c]))).toEqual({ invited: [c] });
    // The session is full. The answer does not reveal whether an agent could be invited, even if it left earlier.
    for (const handle of [d, '@no.body']) expect(await stage.invite(alice, session_id, [handle])).toEqual(tooMany);
    expect(must(await stage.invite(alice, session_id, [a, b]))).toEqual({ invited: [] });
    must(await stage.end(alice, session_id));
    for (const handle of [d, '@no.body'])
      expect(await stage.reopen(alice, session_id, { invite: [handle] })).toEqual(tooMany);
    must(await stage.reopen(alice, session_id, { invite: [a] }));
  });

  it('a reopening counts as one call for each hundred that it reaches, and waiting for Retry-After is enough', async () => {
    await stage.close();
    const clock = createHandClock();
    stage = await openStage({ limits: createMemoryLimits(clock), participantsMax: 1_000 });
    const account = await stage.addAccount('crew');
    alice = await stage.addAgent(account, 'alice');
    const handles: string[] = [];
    for (let count = 0; count < 250; count += 1) handles.push((await stage.addAgent(account, `a${count}`)).handle);
    const { session_id } = must(await stage.create(alice, { invite: handles.slice(0, 100) }));
    for (let start = 100; start < handles.length; start += 100)
      must(await stage.invite(alice, session_id, handles.slice(start, start + 100)));
    const take = () => stage.context.limits.take('general', alice.agentId);
    const reopen = async () => {
      await take();
      return stage.reopen(alice, session_id);
    };
    await stage.context.limits.takeAll([{ name: 'general', subjectId: alice.agentId, weight: 289 }]);
    for (let round = 0; round < 3; round += 1) {
      must(await stage.end(alice, session_id));
      must(await reopen());
      clock.advance(1);
    }
    must(await stage.end(alice, session_id));
    expect(await reopen()).toEqual({ ok: false, code: 'RATE_LIMITED' });
    clock.advance(60_000);
    must(await reopen());
    await expect(
      stage.context.limits.check({ name: 'general', subjectId: alice.agentId, weight: 298 }),
    ).rejects.toThrow('Too many requests');
    await stage.context.limits.check({ name: 'general', subjectId: alice.agentId, weight: 297 });
  });

  it('the limit of a session is checked after eligibility: a stranger gets NOT_FOUND, never RATE_LIMITED', async () => {
    await stage.close();
    const clock = { now: () => 0, monotonic: () => 0, schedule: () => () => {} };
    stage = await openStage({ limits: createMemoryLimits(clock) });
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
    stage = await openStage({ limits: createMemoryLimits(clock) });
    const account = await stage.addAccount('crew');
    alice = await stage.addAgent(account, 'alice');
    const open = await stage.addAgent(account, 'open', { inbound_policy: 'open' });
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

  it('one stranger may use a fifth of an open agent’s hourly limit, so that others can still reach it', async () => {
    await stage.close();
    let now = 0;
    const clock = { now: () => now, monotonic: () => now, schedule: () => () => {} };
    stage = await openStage({ limits: createMemoryLimits(clock) });
    const open = await stage.addAgent(await stage.addAccount('popular'), 'open', { inbound_policy: 'open' });
    const spammer = await stage.addAccount('spammer');
    const talk = async (account: AccountRow, name: string) => {
      const agent = await stage.addAgent(account, name);
      const ids: string[] = [];
      for (let count = 0; count < 5; count += 1) {
        const { session_id } = must(await stage.create(agent, { invite: [open.handle] }));
        must(await stage.join(open, session_id));
        ids.push(session_id);
      }
      let sent = 0;
      return async (count: number): Promise<number> => {
        let accepted = 0;
        for (let call = 0; call < count; call += 1) {
          sent += 1;
          if ((await stage.send(agent, ids[sent % 5] as string, { content: 'x' })).ok) accepted += 1;
        }
        return accepted;
      };
    };
    expect(await (await talk(spammer, 'one'))(200)).toBe(100);
    expect(await (await talk(spammer, 'two'))(50)).toBe(0);
    expect(await (await talk(await stage.addAccount('friend'), 'x'))(60)).toBe(60);
    const listed = await talk(await stage.addAccount('listed'), 'x');
    await stage.write((transaction) => insertAllowlistEntries(transaction, open.agentId, ['@listed.*'], 1));
    expect(await listed(250)).toBe(250);
    now = 3_600_000;
    expect(await (await talk(spammer, 'three'))(200)).toBe(100);
  });

  it('strangers have an hourly limit of invitations to an open agent; beyond that they are denied like anyone else', async () => {
    await stage.close();
    let now = 0;
    const clock = { now: () => now, monotonic: () => now, schedule: () => () => {} };
    stage = await openStage({ limits: createMemoryLimits(clock) });
    const open = await stage.addAgent(await stage.addAccount('popular'), 'open', { inbound_policy: 'open' });
    const spammer = await stage.addAccount('spammer');
    let accepted = 0;
    for (let count = 0; count < 12; count += 1) {
      const agent = await stage.addAgent(spammer, `s${count}`);
      for (let call = 0; call < 5; call += 1)
        if ((await stage.create(agent, { invite: [open.handle] })).ok) accepted += 1;
    }
    expect(accepted).toBe(50);
    const another = await stage.addAgent(spammer, 'another');
    const denied = [
      await stage.create(another, { invite: [open.handle] }),
      await stage.create(another, { invite: ['@no.body'] }),
    ];
    expect(denied).toEqual([
      { ok: false, code: 'NOT_FOUND' },
      { ok: false, code: 'NOT_FOUND' },
    ]);
    const { session_id } = must(await stage.create(another, {}));
    expect(must(await stage.invite(another, session_id, [open.handle]))).toEqual({ invited: [] });
    const friend = await stage.addAgent(await stage.addAccount('friend'), 'x');
    must(await stage.create(friend, { invite: [open.handle] }));
    await stage.write((transaction) => insertAllowlistEntries(transaction, open.agentId, [another.handle], 1));
    must(await stage.create(another, { invite: [open.handle] }));
    now = 3_600_000;
    must(await stage.create(another, { invite: [open.handle] }));
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

    it('a page ends before its limit if its sessions have a lot of participants, and says that more follow', async () => {
      const account = await stage.addAccount('many');
      const host = await stage.addAgent(account, 'host');
      const handles: string[] = [];
      for (let count = 0; count < 700; count += 1) handles.push((await stage.addAgent(account, `m${count}`)).handle);
      const ids: string[] = [];
      for (let count = 0; count < 5; count += 1) {
        const { session_id } = must(await stage.create(host, { invite: handles.slice(0, 100) }));
        for (let start = 100; start < handles.length; start += 100)
          must(await stage.invite(host, session_id, handles.slice(start, start + 100)));
        ids.push(session_id);
        stage.clock.advance(1);
      }
      const first = await list(host, 100);
      expect(first.sessions.map(({ participants }) => participants.length)).toEqual([701, 701]);
      const all = await pageThrough((cursor) => list(host, 100, undefined, cursor));
      expect(all.map(({ id }) => id)).toEqual(ids.toReversed());
    });

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

    it('GET /sessions: only an agent that has joined learns how many events there are', async () => {
      const id = must(await stage.create(alice, { invite: [bob.handle] })).session_id;
      must(await stage.send(alice, id, { content: 'x' }));
      expect((await list(alice, 1)).sessions).toMatchObject([{ id, last_sequence: 2 }]);
      const seen = (await list(bob, 1)).sessions;
      expect(seen).toMatchObject([{ id }]);
      expect(seen[0]).not.toHaveProperty('last_sequence');
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

    it('GET /accounts/me/sessions: one row per session with the handle to act as: joined, then invited, then left', async () => {
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
