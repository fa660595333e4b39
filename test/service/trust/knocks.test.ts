import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import type { Transaction } from '../../../src/service/core/database.js';
import { withIdempotency } from '../../../src/service/messaging/idempotency.js';
import { forgetOldKnocks, recordRefusals } from '../../../src/service/messaging/knocks.js';
import { removeAgentRecord } from '../../../src/service/messaging/remove-agent.js';
import { createSession } from '../../../src/service/messaging/sessions.js';
import { addToAllowlist, blockAgent, dismissKnock, listKnocks } from '../../../src/service/messaging/trust-lists.js';
import { findAgent } from '../../../src/service/store/agents.js';
import { splitHandle } from '../../../src/wire/handle.js';
import {
  KNOCK_LIFETIME_S,
  KNOCK_TEXT_MAX_LENGTH,
  KNOCKS_PER_AGENT_MAX,
  KNOCKS_PER_OWNER_MAX,
} from '../../../src/wire/limit.js';
import type { BodyOf } from '../../../src/wire/schemas/endpoint.js';
import { codeOf } from '../attachments/desk.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
let holder: AgentActor;
let stranger: AgentActor;

beforeEach(async () => {
  stage = await openStage();
  holder = await stage.addAgent(await stage.addAccount('holder'), 'main', { inbound_policy: 'hold' });
  stranger = await stage.addAgent(await stage.addAccount('stranger'), 'main', { inbound_policy: 'open' });
});
afterEach(() => stage.close());

/** Creates a session with an idempotency key, as a request does. */
function create(actor: AgentActor, body: BodyOf<'createSession'>, key: string = randomUUID()): Promise<string> {
  const request = { actorId: actor.agentId, endpoint: 'POST /sessions', key, fingerprint: '' };
  return codeOf(
    withIdempotency(stage.context, request, async (transaction) => {
      const reply = await createSession(stage.context, actor, { body }, transaction);
      return { status: 201, body: JSON.stringify(reply) };
    }),
  );
}

const knock = (actor = stranger, text?: string): Promise<string> =>
  create(actor, { invite: [holder.handle], ...(text !== undefined && { initial_message: { content: text } }) });
/** Adds the knocks of many at once. */
async function remember(transaction: Transaction, at: AgentActor, senders: readonly string[]): Promise<void> {
  for (const sender of senders)
    await transaction.run(
      'INSERT INTO knock (agent_id, sender, text, times, first_at, last_at) VALUES ($1, $2, NULL, 1, $3, $3)',
      at.agentId,
      sender,
      stage.clock.now(),
    );
}
const knocksAt = async (actor: AgentActor) =>
  (await stage.read((query) => listKnocks(stage.context, actor, { path: splitHandle(actor.handle) }, query))).knocks;
const dismiss = (sender: string, actor = holder, handle = actor.handle) =>
  stage.write((transaction) =>
    dismissKnock(stage.context, actor, { path: { ...splitHandle(handle), sender } }, transaction),
  );
const allow = (entry: string) =>
  stage.write((transaction) =>
    addToAllowlist(
      stage.context,
      holder,
      { path: splitHandle(holder.handle), body: { entries: [entry] } },
      transaction,
    ),
  );
const block = (handle: string) =>
  stage.write((transaction) => blockAgent(stage.context, holder, { body: { handle } }, transaction));

describe('An agent that holds strangers', () => {
  it('refuses them like any closed agent; its owner sees who knocked, when, how often, and the first text', async () => {
    const start = stage.clock.now();
    expect(await create(stranger, { invite: [holder.handle] })).toBe('NOT_FOUND');
    stage.clock.advance(1000);
    expect(await knock(stranger, 'hello?')).toBe('NOT_FOUND');
    stage.clock.advance(1000);
    expect(await knock(stranger, 'ANSWER ME')).toBe('NOT_FOUND');
    expect(await knocksAt(holder)).toEqual([
      { sender: stranger.handle, text: 'hello?', times: 3, first_at: start, last_at: start + 2000 },
    ]);
    expect(await knocksAt(stranger)).toEqual([]);
  });

  it('counts a call once, no matter how often it is repeated with its key', async () => {
    for (let count = 0; count < 3; count += 1)
      expect(await create(stranger, { invite: [holder.handle] }, 'same')).toBe('NOT_FOUND');
    expect(await knocksAt(holder)).toMatchObject([{ times: 1 }]);
  });

  it('shows invitations of every kind: with others, into a session, and on reopening', async () => {
    const other = await stage.addAgent(await stage.addAccount('other'), 'main', { inbound_policy: 'open' });
    const { session_id: id } = must(await stage.create(stranger, { invite: [holder.handle, other.handle] }));
    expect(await knocksAt(holder)).toMatchObject([{ times: 1, text: null }]);
    expect(must(await stage.invite(stranger, id, [holder.handle, '@no.body']))).toEqual({ invited: [] });
    expect(await knocksAt(holder)).toMatchObject([{ times: 2, text: null }]);
    must(await stage.end(stranger, id));
    must(await stage.reopen(stranger, id, { invite: [holder.handle], initial_message: { content: 'again' } }));
    expect(await knocksAt(holder)).toMatchObject([{ times: 3, text: 'again' }]);
    expect(Object.keys(await stage.statusOf(stranger, id))).not.toContain(holder.handle);
  });

  it('shows an earlier participant that it no longer lists, if it reopens the session', async () => {
    await stage.changeAgent(holder, { inbound_policy: 'open' });
    const { session_id: id } = must(await stage.create(stranger, { invite: [holder.handle] }));
    await stage.changeAgent(holder, { inbound_policy: 'hold' });
    must(await stage.end(stranger, id));
    must(await stage.reopen(stranger, id));
    expect(await knocksAt(holder)).toMatchObject([{ sender: stranger.handle, times: 1 }]);
  });

  it('admits listed agents, and records nothing about them', async () => {
    await allow(stranger.handle);
    expect(await knock()).toBe('ok');
    expect(await knocksAt(holder)).toEqual([]);
  });

  it('records no one that it blocks, that blocks it, or that knocks while it is paused', async () => {
    await block(stranger.handle);
    expect(await knock()).toBe('NOT_FOUND');
    const blocker = await stage.addAgent(await stage.addAccount('blocker'), 'main');
    await stage.block(blocker, holder);
    expect(await knock(blocker)).toBe('NOT_FOUND');
    await stage.changeAgent(holder, { is_paused: 1 });
    const third = await stage.addAgent(await stage.addAccount('third'), 'main');
    expect(await knock(third)).toBe('NOT_FOUND');
    await stage.changeAgent(holder, { is_paused: 0 });
    expect(await knocksAt(holder)).toEqual([]);
    expect(await knock(third)).toBe('NOT_FOUND');
    expect(await knocksAt(holder)).toMatchObject([{ sender: third.handle }]);
  });

  it.each(['allowlist', 'open'] as const)('records no one under the policy %s', async (inbound_policy) => {
    await stage.changeAgent(holder, { inbound_policy });
    await knock();
    expect(await knocksAt(holder)).toEqual([]);
  });

  it('forgets a stranger that is allowed, dismissed or blocked, alone or with its owner, and no one else', async () => {
    const sibling = await stage.addAgent(
      { ...(await stage.addAccount('unused')), id: stranger.accountId, username: 'stranger' },
      'two',
    );
    // Their handles sort before and after those of the owner.
    const before = await stage.addAgent(await stage.addAccount('stranger-not'), 'main');
    const after = await stage.addAgent(await stage.addAccount('strangers'), 'main');
    const namesakes = [after.handle, before.handle];
    const elsewhere = await stage.addAgent(await stage.addAccount('elsewhere'), 'main', { inbound_policy: 'hold' });
    await create(stranger, { invite: [elsewhere.handle] });
    const knockAll = async (): Promise<void> => {
      for (const actor of [stranger, sibling, before, after]) {
        await knock(actor);
        stage.clock.advance(1);
      }
    };
    const left = async (): Promise<string[]> => (await knocksAt(holder)).map(({ sender }) => sender);
    await knockAll();
    expect(await left()).toEqual([...namesakes, sibling.handle, stranger.handle]);
    expect((await dismiss(sibling.handle)).knocks.map(({ sender }) => sender)).toEqual([...namesakes, stranger.handle]);
    expect(await codeOf(dismiss(sibling.handle))).toBe('NOT_FOUND');
    await allow(stranger.handle);
    expect(await left()).toEqual(namesakes);
    expect(await knock(stranger)).toBe('ok');
    await knockAll();
    expect(await left()).toEqual([...namesakes, sibling.handle]);
    await block('@stranger.*');
    expect(await left()).toEqual(namesakes);
    await block(before.handle);
    expect(await left()).toEqual([after.handle]);
    expect((await knocksAt(elsewhere)).map(({ sender }) => sender)).toEqual([stranger.handle]);
  });

  it('keeps its list to itself; a malformed sender is INVALID_HANDLE', async () => {
    await knock();
    expect(await codeOf(dismiss(stranger.handle, stranger, holder.handle))).toBe('FORBIDDEN');
    expect(
      await codeOf(
        stage.read((query) => listKnocks(stage.context, stranger, { path: splitHandle(holder.handle) }, query)),
      ),
    ).toBe('FORBIDDEN');
    for (const sender of ['', '@stranger.*', 'stranger.main', "' OR 1=1 --"])
      expect(await codeOf(dismiss(sender)), sender).toBe('INVALID_HANDLE');
    expect(await knocksAt(holder)).toHaveLength(1);
  });
});

describe('The memory of strangers is bounded:', () => {
  it('the text in length, without NUL', async () => {
    const face = '\u{1f600}';
    await knock(stranger, `a\0${face.repeat(KNOCK_TEXT_MAX_LENGTH)}`);
    const [only] = await knocksAt(holder);
    expect(only?.text).toBe(`a${face.repeat(KNOCK_TEXT_MAX_LENGTH - 1)}`);
  });

  it('the agents of one owner, and all agents, of which the latest stay', async () => {
    const account = await stage.addAccount('many');
    const sent: string[] = [];
    const send = async (actor: AgentActor): Promise<void> => {
      stage.clock.advance(1);
      await knock(actor);
      sent.push(actor.handle);
    };
    for (let count = 0; count < KNOCKS_PER_OWNER_MAX + 2; count += 1)
      await send(await stage.addAgent(account, `bot${count}`));
    const latest = async (): Promise<string[]> => (await knocksAt(holder)).map(({ sender }) => sender);
    expect(await latest()).toEqual(sent.slice(-KNOCKS_PER_OWNER_MAX).toReversed());
    for (let count = 0; count < KNOCKS_PER_AGENT_MAX; count += 1)
      await send(await stage.addAgent(await stage.addAccount(`one${count}`), 'bot'));
    expect(await latest()).toEqual(sent.slice(-KNOCKS_PER_AGENT_MAX).toReversed());
  });

  it('for each agent on its own, no matter how many knock at another', async () => {
    const other = await stage.addAgent(await stage.addAccount('other'), 'main', { inbound_policy: 'hold' });
    const account = await stage.addAccount('two');
    const [first, second] = [await stage.addAgent(account, 'first'), await stage.addAgent(account, 'second')];
    await knock(first);
    stage.clock.advance(1);
    const crowd = [
      ...Array.from({ length: KNOCKS_PER_OWNER_MAX }, (_, index) => `@two.bot${index}`),
      ...Array.from({ length: KNOCKS_PER_AGENT_MAX }, (_, index) => `@up${index}.bot`),
    ];
    await stage.write((transaction) => remember(transaction, other, crowd));
    await create(second, { invite: [other.handle] });
    await knock(second);
    expect((await knocksAt(holder)).map(({ sender }) => sender)).toEqual([second.handle, first.handle]);
  });

  it('all agents that knock at once', async () => {
    const early = Array.from({ length: KNOCKS_PER_AGENT_MAX }, (_, index) => `@early${index}.bot`);
    await stage.write((transaction) => remember(transaction, holder, early));
    const strangers: AgentActor[] = [];
    for (let count = 0; count < 30; count += 1)
      strangers.push(await stage.addAgent(await stage.addAccount(`one${count}`), 'bot'));
    stage.clock.advance(1);
    await Promise.all(strangers.map((actor) => knock(actor)));
    const senders = (await knocksAt(holder)).map(({ sender }) => sender);
    expect(senders).toHaveLength(KNOCKS_PER_AGENT_MAX);
    expect(senders.slice(0, 30).sort()).toEqual(strangers.map(({ handle }) => handle).sort());
  });

  it('in time: old entries are hidden, and then deleted, including those of other agents', async () => {
    await knock();
    await create(stranger, { invite: ['@no.body'] });
    stage.clock.advance(KNOCK_LIFETIME_S * 1000 - 1);
    expect(await knocksAt(holder)).toHaveLength(1);
    stage.clock.advance(1);
    expect(await knocksAt(holder)).toEqual([]);
    const count = async (): Promise<number> =>
      (await stage.read((query) => query.all('SELECT sender FROM knock'))).length;
    expect(await count()).toBe(2);
    await knock(holder);
    const later = await stage.addAgent(await stage.addAccount('later'), 'main');
    await knock(later);
    await forgetOldKnocks(stage.context);
    expect((await knocksAt(holder)).map(({ sender }) => sender)).toEqual([later.handle]);
    expect(await count()).toBe(1);
  });

  it('to the life of the agent', async () => {
    await knock();
    await stage.write(async (transaction) => {
      const row = await findAgent(transaction, holder.agentId);
      if (row !== undefined) await removeAgentRecord(stage.context, transaction, row);
    });
    expect(await knocksAt(holder)).toEqual([]);
  });
});

describe('From outside, an agent that holds strangers is like one that does not:', () => {
  it('every refusal makes the same queries in the same order, and writes one row', async () => {
    const closed = await stage.addAgent(await stage.addAccount('closed'), 'main');
    const paused = await stage.addAgent(await stage.addAccount('paused'), 'main');
    await stage.changeAgent(paused, { is_paused: 1 });
    const blocking = await stage.addAgent(await stage.addAccount('blocking'), 'main', { inbound_policy: 'hold' });
    await stage.block(blocking, stranger);
    const workFor = async (handle: string): Promise<unknown[]> => {
      const work: unknown[] = [];
      const watch = (transaction: Transaction): Transaction => ({
        ...transaction,
        lock: (names, kind) => {
          work.push(['lock', names.length, kind]);
          return transaction.lock(names, kind);
        },
        get: (sql, ...parameters) => {
          work.push(['get', sql]);
          return transaction.get(sql, ...parameters);
        },
        all: (sql, ...parameters) => {
          work.push(['all', sql]);
          return transaction.all(sql, ...parameters);
        },
        run: (sql, ...parameters) => {
          work.push(['run', sql]);
          return transaction.run(sql, ...parameters);
        },
        send: (sql, ...parameters) => {
          work.push(['send', sql]);
          transaction.send(sql, ...parameters);
        },
        attempt: (step) => transaction.attempt((inner) => step(watch(inner))),
      });
      const request = { actorId: stranger.agentId, endpoint: 'POST /sessions', key: randomUUID(), fingerprint: '' };
      const database = {
        ...stage.database,
        write: <T>(step: (transaction: Transaction) => Promise<T>) =>
          stage.database.write((transaction) => step(watch(transaction))),
      };
      const body = { invite: [handle], initial_message: { content: 'hi' } };
      const refused = withIdempotency({ ...stage.context, database }, request, async (transaction) => {
        const reply = await createSession(stage.context, stranger, { body }, transaction);
        return { status: 201, body: JSON.stringify(reply) };
      });
      expect(await codeOf(refused)).toBe('NOT_FOUND');
      return work;
    };
    const rows = async (): Promise<number> => {
      const found = await stage.read((query) => query.all<{ times: number }>('SELECT times FROM knock'));
      return found.reduce((sum, { times }) => sum + times, 0);
    };
    const missing = await workFor('@no.body');
    expect(missing.filter((one) => JSON.stringify(one).includes('INSERT INTO knock'))).toHaveLength(1);
    for (const { handle } of [holder, closed, paused, blocking]) {
      const before = await rows();
      expect(await workFor(handle), handle).toEqual(missing);
      expect((await rows()) - before, handle).toBe(1);
    }
    expect(await knocksAt(holder)).toHaveLength(1);
  });

  it('a refusal waits for an open request of the same inviter, no matter who refuses', async () => {
    const closed = await stage.addAgent(await stage.addAccount('closed'), 'main');
    for (const holderId of [undefined, holder.agentId]) {
      for (const probe of [holder.handle, closed.handle, '@no.body']) {
        let commit = (): void => {};
        const isToCommit = new Promise<void>((resolve) => {
          commit = resolve;
        });
        let noteWritten = (): void => {};
        const isWritten = new Promise<void>((resolve) => {
          noteWritten = resolve;
        });
        const open = stage.write(async (transaction) => {
          await recordRefusals(stage.context, transaction, stranger, [
            { handle: '@other.body', holderId, known: undefined },
          ]);
          noteWritten();
          await isToCommit;
        });
        await isWritten;
        let isAnswered = false;
        const answer = create(stranger, { invite: [probe] }).finally(() => {
          isAnswered = true;
        });
        await new Promise((resolve) => setTimeout(resolve, 100));
        expect(isAnswered, probe).toBe(false);
        commit();
        await open;
        expect(await answer).toBe('NOT_FOUND');
      }
    }
  });

  it('two strangers that knock at two agents at once, in either order, both get their answer', async () => {
    const second = await stage.addAgent(await stage.addAccount('second'), 'main', { inbound_policy: 'hold' });
    const rival = await stage.addAgent(await stage.addAccount('rival'), 'main');
    const invite = [holder.handle, second.handle];
    for (let round = 0; round < 10; round += 1) {
      const answers = [create(stranger, { invite }), create(rival, { invite: invite.toReversed() })];
      expect(await Promise.all(answers)).toEqual(['NOT_FOUND', 'NOT_FOUND']);
    }
    for (const agent of [holder, second]) expect((await knocksAt(agent)).map(({ times }) => times)).toEqual([10, 10]);
  });
});
