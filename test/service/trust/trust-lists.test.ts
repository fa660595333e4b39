import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import type { Transaction } from '../../../src/service/core/database.js';
import { ServiceError } from '../../../src/service/core/errors.js';
import { createSession } from '../../../src/service/messaging/sessions.js';
import {
  ALLOWLIST_MAX_ENTRIES,
  addToAllowlist,
  blockAgent,
  listAllowlist,
  listBlocks,
  removeFromAllowlist,
  unblockAgent,
} from '../../../src/service/messaging/trust-lists.js';
import type { AccountRow } from '../../../src/service/store/accounts.js';
import { splitHandle } from '../../../src/wire/handle.js';
import { isId } from '../../../src/wire/id.js';
import { TEST_STORE } from '../../support/stores.js';
import { until } from '../../support/until.js';
import { codeOf } from '../attachments/desk.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
let owner: AccountRow;
let alice: AgentActor;
let bob: AgentActor;
let carol: AgentActor;

beforeEach(async () => {
  stage = await openStage();
  owner = await stage.addAccount('alice');
  alice = await stage.addAgent(owner, 'main', { inbound_policy: 'open' });
  bob = await stage.addAgent(await stage.addAccount('bob'), 'main', { inbound_policy: 'open' });
  carol = await stage.addAgent(await stage.addAccount('carol'), 'main', { inbound_policy: 'open' });
});
afterEach(() => stage.close());

const listOf = (actor: AgentActor, handle: string = actor.handle) =>
  stage.read((query) => listAllowlist(stage.context, actor, { path: splitHandle(handle) }, query));
const add = (actor: AgentActor, entries: string[], handle: string = actor.handle) =>
  stage.write((transaction) =>
    addToAllowlist(stage.context, actor, { path: splitHandle(handle), body: { entries } }, transaction),
  );
const remove = (actor: AgentActor, entry: string, handle: string = actor.handle) =>
  stage.write((transaction) =>
    removeFromAllowlist(stage.context, actor, { path: { ...splitHandle(handle), entry } }, transaction),
  );
const block = (actor: AgentActor, handle: string) =>
  stage.write((transaction) => blockAgent(stage.context, actor, { body: { handle } }, transaction));
const unblock = (actor: AgentActor, blocked: string) =>
  stage.write((transaction) => unblockAgent(stage.context, actor, { path: { blocked } }, transaction));
const blocksOf = (actor: AgentActor, query: { limit?: number; cursor?: string } = {}) =>
  stage.read((view) => listBlocks(stage.context, actor, { query: { limit: 50, ...query } }, view));

async function refusalOf(promise: Promise<unknown>): Promise<string> {
  return await promise.then(
    () => 'allowed',
    (error: ServiceError) => JSON.stringify([error.status, error.code, error.message, error.options]),
  );
}

describe('Trust › allowlist', () => {
  it('is the whole sorted list; adding is idempotent, and never checks whether the agent exists', async () => {
    expect(await listOf(alice)).toEqual({ entries: ['@alice.*'] });
    const all = { entries: ['@adam.*', '@alice.*', '@no.body', '@zoe.main'] };
    expect(await add(alice, ['@zoe.main', '@adam.*', '@no.body', '@zoe.main'])).toEqual(all);
    expect(await add(alice, ['@zoe.main'])).toEqual(all);
    expect(await listOf(alice)).toEqual(all);
    expect(await listOf(bob)).toEqual({ entries: ['@bob.*'] });
  });

  it('returns the rest after a removal; an absent entry is NOT_FOUND, a malformed one INVALID_HANDLE', async () => {
    expect(await remove(alice, '@alice.*')).toEqual({ entries: [] });
    expect(await codeOf(remove(alice, '@alice.*'))).toBe('NOT_FOUND');
    for (const entry of ['', 'alice', '@alice', '@*.x', '@a.b.c', '@alice.%', "@a.b' --"])
      expect(await codeOf(remove(alice, entry)), entry).toBe('INVALID_HANDLE');
  });

  it('is FORBIDDEN for another agent, even of the same account, and whether or not it exists', async () => {
    const sibling = await stage.addAgent(owner, 'two', { visibility: 'private' });
    const refusals = new Set<string>();
    for (const handle of [bob.handle, sibling.handle, '@no.body']) {
      refusals.add(await refusalOf(listOf(alice, handle)));
      refusals.add(await refusalOf(add(alice, ['@x.y'], handle)));
      refusals.add(await refusalOf(remove(alice, '@bob.*', handle)));
    }
    expect([...refusals]).toEqual([await refusalOf(Promise.reject(new ServiceError('FORBIDDEN')))]);
    expect(await listOf(bob)).toEqual({ entries: ['@bob.*'] });
  });

  // SQLite writes one after the other.
  it.runIf(TEST_STORE === 'postgres')('lets no invitation follow the answer to a removal', async () => {
    const dave = await stage.addAgent(await stage.addAccount('dave'), 'main');
    await add(dave, [alice.handle]);
    const order: string[] = [];
    let isWritten = false;
    const invitation = stage.write(async (transaction) => {
      await createSession(stage.context, alice, { body: { invite: [dave.handle] } }, transaction);
      isWritten = true;
      await pause(300);
    });
    await until('the invitation is written', async () => isWritten);
    await Promise.all([
      invitation.then(() => order.push('invited')),
      remove(dave, alice.handle).then(() => order.push('removed')),
    ]);
    expect(order).toEqual(['invited', 'removed']);
  });

  it('takes many entries with as many statements as two', async () => {
    const countFor = (entries: string[]): Promise<number> =>
      stage.write(async (transaction) => {
        let statements = 0;
        const counted: Transaction = {
          ...transaction,
          run: (sql, ...parameters) => {
            statements += 1;
            return transaction.run(sql, ...parameters);
          },
          send: (sql, ...parameters) => {
            statements += 1;
            transaction.send(sql, ...parameters);
          },
        };
        await addToAllowlist(stage.context, alice, { path: splitHandle(alice.handle), body: { entries } }, counted);
        return statements;
      });
    const two = await countFor(['@one.*', '@one.main']);
    const many = Array.from({ length: 100 }, (_, index) => [`@many${index}.*`, `@many${index}.main`]).flat();
    expect(await countFor(many)).toBe(two);
    expect((await listOf(alice)).entries).toHaveLength(203);
  });

  it('has a limited number of entries', async () => {
    const entries = Array.from({ length: ALLOWLIST_MAX_ENTRIES - 1 }, (_, index) => `@owner${index}.*`);
    expect((await add(alice, entries)).entries).toHaveLength(ALLOWLIST_MAX_ENTRIES);
    expect(await codeOf(add(alice, ['@one.more']))).toBe('VALIDATION_ERROR');
    expect((await listOf(alice)).entries).toHaveLength(ALLOWLIST_MAX_ENTRIES);
  });
});

describe('Trust › blocks', () => {
  it('of an owner exclude all its agents, even later ones, and remove them from shared sessions', async () => {
    const spam = await stage.addAccount('spam');
    const first = await stage.addAgent(spam, 'first', { inbound_policy: 'open' });
    const second = await stage.addAgent(spam, 'second', { inbound_policy: 'open' });
    const { session_id: shared } = must(await stage.create(first, { invite: [alice.handle, second.handle] }));
    must(await stage.join(alice, shared));
    must(await stage.join(second, shared));
    const { session_id: apart } = must(await stage.create(first, { invite: [second.handle] }));

    const answer = await block(alice, '@spam.*');
    expect(answer).toMatchObject({ blocked_handle: '@spam.*' });
    expect(isId('agent', answer.blocked_agent_id)).toBe(true);
    expect(await block(alice, '@spam.*')).toEqual(answer);
    expect(await stage.statusOf(alice, shared)).toEqual({
      [alice.handle]: 'joined',
      [first.handle]: 'left',
      [second.handle]: 'left',
    });
    expect(await stage.statusOf(first, apart)).toEqual({ [first.handle]: 'joined', [second.handle]: 'invited' });

    const later = await stage.addAgent(spam, 'later', { inbound_policy: 'open' });
    const namesake = await stage.addAgent(await stage.addAccount('spam-not'), 'x', { inbound_policy: 'open' });
    for (const agent of [first, later]) {
      const denied = await stage.create(agent, { invite: [alice.handle] });
      expect(denied).toEqual(await stage.create(agent, { invite: ['@no.body'] }));
      expect(denied).toEqual({ ok: false, code: 'NOT_FOUND' });
      expect(await stage.create(alice, { invite: [agent.handle] })).toEqual({ ok: false, code: 'NOT_FOUND' });
    }
    must(await stage.create(namesake, { invite: [alice.handle] }));
    must(await stage.end(alice, shared));
    must(await stage.reopen(alice, shared));
    expect(await stage.statusOf(alice, shared)).toMatchObject({ [first.handle]: 'left', [second.handle]: 'left' });

    expect((await blocksOf(alice)).blocks).toEqual([answer]);
    expect(await unblock(alice, '@spam.*')).toEqual({ unblocked: true });
    must(await stage.create(later, { invite: [alice.handle] }));
    expect(await codeOf(block(alice, '@alice.*'))).toBe('VALIDATION_ERROR');
    expect(await block(alice, '@nobody-at-all.*')).toMatchObject({ blocked_handle: '@nobody-at-all.*' });
  });

  it('a block; repeating it is the same; oneself is VALIDATION_ERROR', async () => {
    const made = await block(alice, bob.handle);
    expect(made).toEqual({
      blocked_agent_id: bob.agentId,
      blocked_handle: bob.handle,
      created_at: stage.clock.now(),
    });
    stage.clock.advance(1000);
    expect(await block(alice, bob.handle)).toEqual(made);
    expect(await blocksOf(alice)).toEqual({ blocks: [made], next_cursor: null });
    expect(await codeOf(block(alice, alice.handle))).toBe('VALIDATION_ERROR');
    expect(await blocksOf(bob)).toEqual({ blocks: [], next_cursor: null });
  });

  it('the answer does not reveal whether a hidden, removed or unknown handle exists', async () => {
    const hidden = await stage.addAgent(await stage.addAccount('dave'), 'hidden', { visibility: 'private' });
    const ids: string[] = [];
    for (const handle of [hidden.handle, '@dave.unknown', '@nobody.here']) {
      const first = await block(alice, handle);
      expect(isId('agent', first.blocked_agent_id)).toBe(true);
      expect(Object.keys(first)).toEqual(['blocked_agent_id', 'blocked_handle', 'created_at']);
      await unblock(alice, handle);
      expect((await block(alice, handle)).blocked_agent_id).toBe(first.blocked_agent_id);
      expect((await block(bob, handle)).blocked_agent_id).toBe(first.blocked_agent_id);
      ids.push(first.blocked_agent_id);
    }
    expect(new Set(ids).size).toBe(3);
    expect(ids).not.toContain(hidden.agentId);
    const sibling = await stage.addAgent(owner, 'own', { visibility: 'private' });
    expect((await block(alice, sibling.handle)).blocked_agent_id).toBe(sibling.agentId);
  });

  it('applies to a handle that gets an agent only later', async () => {
    await block(alice, '@erin.main');
    const erin = await stage.addAgent(await stage.addAccount('erin'), 'main', { inbound_policy: 'open' });
    expect(await stage.create(erin, { invite: [alice.handle] })).toEqual({ ok: false, code: 'NOT_FOUND' });
    expect(await stage.create(alice, { invite: [erin.handle] })).toEqual({ ok: false, code: 'NOT_FOUND' });
  });

  it('unblocks by handle or by the returned id; an absent one is NOT_FOUND, a malformed one INVALID_HANDLE', async () => {
    await block(alice, bob.handle);
    expect(await unblock(alice, bob.handle)).toEqual({ unblocked: true });
    const { blocked_agent_id: id } = await block(alice, '@no.body');
    expect(await codeOf(unblock(bob, id))).toBe('NOT_FOUND');
    expect(await unblock(alice, id)).toEqual({ unblocked: true });
    for (const absent of [id, bob.handle, bob.agentId, '@never.seen'])
      expect(await codeOf(unblock(alice, absent)), absent).toBe('NOT_FOUND');
    for (const malformed of ['', 'bob', '@bob', 'agt_x', '%', "' OR 1=1 --"])
      expect(await codeOf(unblock(alice, malformed)), malformed).toBe('INVALID_HANDLE');
  });

  it('are listed newest first, in pages, even if made at one moment; a foreign or changed cursor is VALIDATION_ERROR', async () => {
    const handles = ['@b.one', '@a.two', '@c.three', '@a.four', '@z.five'];
    for (const handle of handles) await block(alice, handle);
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await blocksOf(alice, { limit: 2, ...(cursor !== null && { cursor }) });
      seen.push(...page.blocks.map((made) => made.blocked_handle));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual(handles.toReversed());
    const given = String((await blocksOf(alice, { limit: 2 })).next_cursor);
    for (const actor of [bob, carol]) expect(await codeOf(blocksOf(actor, { cursor: given }))).toBe('VALIDATION_ERROR');
    expect(await codeOf(blocksOf(alice, { cursor: given.slice(0, -1) }))).toBe('VALIDATION_ERROR');
  });

  it('takes the blocked agent out of every active session the two share, as an ordinary session.left', async () => {
    const shared: string[] = [];
    for (let count = 0; count < 3; count += 1) {
      const session = must(await stage.create(alice, { invite: [bob.handle, carol.handle] })).session_id;
      must(await stage.join(bob, session));
      must(await stage.join(carol, session));
      shared.push(session);
    }
    const ended = must(await stage.create(alice, { invite: [bob.handle] })).session_id;
    must(await stage.join(bob, ended));
    must(await stage.end(alice, ended));
    const elsewhere = must(await stage.create(carol, { invite: [bob.handle] })).session_id;
    must(await stage.join(bob, elsewhere));

    await block(alice, bob.handle);
    for (const session of shared) {
      must(await stage.leave(carol, session));
      const [forced, voluntary] = (await stage.eventsOf(alice, session)).slice(-2);
      expect(forced?.payload).toEqual({ agent: bob.handle, reason: 'left' });
      expect(voluntary?.payload).toEqual({ agent: carol.handle, reason: 'left' });
      expect(Object.keys(Object(forced))).toEqual(Object.keys(Object(voluntary)));
      expect(await stage.send(bob, session, { content: 'x' })).toEqual({ ok: false, code: 'NOT_FOUND' });
    }
    expect((await stage.statusOf(bob, ended))[bob.handle]).toBe('joined');
    must(await stage.send(bob, elsewhere, { content: 'still here' }));
  });

  it('a block and an invitation at once: the two end up apart', async () => {
    for (let round = 0; round < 20; round += 1) {
      const session = must(await stage.create(alice, {})).session_id;
      const calls = [() => stage.invite(alice, session, [bob.handle]), () => block(bob, alice.handle)] as const;
      await Promise.all((round % 2 === 0 ? calls : calls.toReversed()).map((call) => call()));
      const status = (await stage.statusOf(alice, session))[bob.handle];
      const joined = await stage.join(bob, session);
      expect([status ?? 'left', joined.ok]).not.toEqual(['joined', true]);
      await unblock(bob, alice.handle);
    }
  });
});
