import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import type { Database, Query, Transaction } from '../../../src/service/core/database.js';
import { createInboxes, type InboxKeeper } from '../../../src/service/messaging/inboxes.js';
import { sendMessage } from '../../../src/service/messaging/sessions.js';
import { createLocalBus } from '../../../src/service/messaging/shared-bus.js';
import type { InboxRow } from '../../../src/service/store/inboxes.js';
import { sessionLock } from '../../../src/service/store/lock-names.js';
import { TEST_STORE } from '../../support/stores.js';
import { until } from '../../support/until.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
beforeEach(async () => {
  stage = await openStage();
});
afterEach(() => stage.close());

async function addAgents(count: number): Promise<[AgentActor, AgentActor, ...AgentActor[]]> {
  const account = await stage.addAccount(`crew${count}`);
  const agents: AgentActor[] = [];
  for (let index = 0; index < count; index += 1) agents.push(await stage.addAgent(account, `agent${index}`));
  return agents as [AgentActor, AgentActor, ...AgentActor[]];
}

/** Creates a session that all of them have joined. */
async function talk([host, ...guests]: readonly [AgentActor, ...AgentActor[]]): Promise<string> {
  const id = must(await stage.create(host, { invite: guests.map(({ handle }) => handle) })).session_id;
  for (const guest of guests) must(await stage.join(guest, id));
  await stage.context.inboxes.settle();
  return id;
}

const inboxOf = (agent: AgentActor, sessionId: string) =>
  stage.database.read((query) =>
    query.get<InboxRow>('SELECT * FROM inbox WHERE agent_id = $1 AND session_id = $2', agent.agentId, sessionId),
  );

/** Inboxes that are filled four at a time, with other writes behind the log. */
function fillInSteps(write: Database['behind']['write']): InboxKeeper {
  const { database } = stage;
  const behind = { read: database.behind.read, write };
  return createInboxes({ ...stage.context, database: { ...database, pageRows: 4, behind } });
}

/** Counts the statements and written rows of one message. */
async function costOf(sender: AgentActor, sessionId: string): Promise<{ statements: number; rows: number }> {
  const cost = { statements: 0, rows: 0 };
  const counted = (transaction: Transaction): Transaction => ({
    ...transaction,
    all: (sql, ...parameters) => {
      cost.statements += 1;
      return transaction.all(sql, ...parameters);
    },
    get: (sql, ...parameters) => {
      cost.statements += 1;
      return transaction.get(sql, ...parameters);
    },
    run: async (sql, ...parameters) => {
      cost.statements += 1;
      const rows = await transaction.run(sql, ...parameters);
      cost.rows += rows;
      return rows;
    },
    send: (sql, ...parameters) => {
      cost.statements += 1;
      transaction.send(sql, ...parameters);
    },
  });
  const changes = async (query: Query): Promise<number> =>
    query.dialect === 'postgres'
      ? 0
      : ((await query.get<{ count: number }>('SELECT total_changes() AS count'))?.count ?? 0);
  await stage.write(async (transaction) => {
    const before = await changes(transaction);
    const input = { path: { session_id: sessionId }, body: { content: 'hi' } };
    await sendMessage(stage.context, sender, input, counted(transaction));
    cost.rows += (await changes(transaction)) - before;
  });
  return cost;
}

describe('an inbox', () => {
  it('adds no cost to a message, which writes the same rows with 300 members as with 2', async () => {
    const [few, many] = [await addAgents(2), await addAgents(300)];
    const small = await costOf(few[0], await talk(few));
    const large = await costOf(many[0], await talk(many));
    expect(small.statements).toBeGreaterThan(2);
    expect(large).toEqual(small);
  });

  it('gets what was committed by a process that died before filling it', async () => {
    const agents = await addAgents(2);
    const id = await talk(agents);
    const before = await inboxOf(agents[1], id);
    stage.clock.advance(1000);
    for (let count = 0; count < 5; count += 1) must(await stage.send(agents[0], id, { content: 'hi' }));
    expect(await inboxOf(agents[1], id)).toEqual(before);
    // The next process knows only the database.
    const next = createInboxes({ ...stage.context, bus: createLocalBus(() => {}) });
    await next.settle();
    expect(await inboxOf(agents[1], id)).toMatchObject({
      last_sequence: 7,
      changed_at: stage.clock.now(),
      is_pending: 1,
    });
  });

  it('is unchanged by a fill that fails, and is filled by the next one', async () => {
    const agents = await addAgents(2);
    const id = await talk(agents);
    must(await stage.send(agents[0], id, { content: 'hi' }));
    const before = await inboxOf(agents[1], id);
    const failing = createInboxes({
      ...stage.context,
      database: {
        ...stage.database,
        behind: {
          read: stage.database.behind.read,
          write: (work) =>
            stage.database.write(async (transaction) => {
              await work(transaction);
              throw new Error('planted');
            }),
        },
      },
    });
    await expect(failing.settle()).rejects.toThrow('planted');
    expect(await inboxOf(agents[1], id)).toEqual(before);
    await failing.settle().catch(() => {});
    await stage.context.inboxes.settle();
    expect(await inboxOf(agents[1], id)).toMatchObject({ last_sequence: 3, is_pending: 1 });
  });

  it('forgets what was delivered before a failover: its numbers may be used again', async () => {
    const agents = await addAgents(2);
    const id = await talk(agents);
    const { database } = stage;
    let epoch = database.epoch();
    let fail = (): void => {};
    const onNewEpoch = (listener: () => void): (() => void) => {
      fail = () => {
        epoch = { ...epoch, token: 'after the failover' };
        listener();
      };
      return () => {};
    };
    let isDown = true;
    /** Like a database that is down until a standby takes over. */
    const write: Database['write'] = async (work) => {
      await until('the database is back', async () => !isDown);
      return database.write(work);
    };
    const shared = {
      ...database,
      aside: database,
      onNewEpoch,
      epoch: () => epoch,
      write,
      behind: { ...database, write },
    };
    const inboxes = createInboxes({ ...stage.context, database: shared });
    inboxes.start();
    const [, { agentId }] = agents;
    const before = await inboxOf(agents[1], id);
    inboxes.delivered(agentId, id, { sent: 900, readThrough: 900 });
    const waiting = inboxes.settle();
    inboxes.delivered(agentId, id, { sent: 901, readThrough: 901 });
    fail();
    inboxes.delivered(agentId, id, { sent: 2, readThrough: 2 });
    isDown = false;
    await waiting;
    await inboxes.stop();
    expect(await inboxOf(agents[1], id)).toMatchObject({
      delivered_sequence: Math.max(2, before?.delivered_sequence ?? 0),
    });
  });

  /** Two messages in each of two sessions, of twelve agents and of two, that are in no inbox while others are filled. */
  async function fallBehind() {
    const [crowd, pair] = [await addAgents(12), await addAgents(2)];
    const [loud, quiet] = [await talk(crowd), await talk(pair)];
    const before = (await inboxOf(pair[1], quiet))?.last_sequence ?? 0;
    const { database } = stage.context;
    let isFilling = false;
    const never = new Promise<never>(() => {});
    const stuck: typeof database.write = () => {
      isFilling = true;
      return never;
    };
    const inboxes = createInboxes({
      ...stage.context,
      database: { ...database, behind: { ...database.behind, write: stuck } },
    });
    for (const count of [1, 2]) {
      must(await stage.send(crowd[0], loud, { content: `to all ${count}` }));
      must(await stage.send(pair[0], quiet, { content: `to one ${count}` }));
      stage.clock.advance(1_000);
    }
    inboxes.settle().catch(() => {});
    await until('the others are being filled', async () => isFilling);
    return { inboxes, crowd, pair, loud, quiet, before };
  }

  it('of one agent is filled without waiting for those of others', async () => {
    const { inboxes, pair, quiet, before } = await fallBehind();
    await inboxes.settleFor(pair[1].agentId);
    expect((await inboxOf(pair[1], quiet))?.last_sequence).toBe(before + 2);
    expect(await inboxOf(pair[0], quiet)).toMatchObject({ last_sequence: before });
    // The rest still is in no inbox, and the next fill puts it there.
    await stage.context.inboxes.settle();
    expect(await inboxOf(pair[0], quiet)).toMatchObject({
      last_sequence: before + 2,
      changed_at: stage.clock.now() - 1_000,
    });
  });

  it('of one account are filled without waiting for those of others', async () => {
    const { inboxes, crowd, pair, loud, quiet, before } = await fallBehind();
    await inboxes.settleForAccount(pair[0].accountId);
    for (const agent of pair) expect((await inboxOf(agent, quiet))?.last_sequence).toBe(before + 2);
    const [host, guest] = crowd;
    const { last_sequence: joined } = (await inboxOf(guest, loud)) as InboxRow;
    expect(await inboxOf(host, loud)).toMatchObject({ last_sequence: joined });
    await stage.context.inboxes.settle();
    expect(await inboxOf(guest, loud)).toMatchObject({ last_sequence: joined + 2 });
  });

  it('of one agent follows what has arrived without waiting for others', async () => {
    const { inboxes, pair, quiet, before } = await fallBehind();
    await inboxes.settleFor(pair[1].agentId);
    expect(await inboxOf(pair[1], quiet)).toMatchObject({ is_pending: 1 });
    inboxes.delivered(pair[1].agentId, quiet, { sent: before + 2, readThrough: before + 2 });
    await inboxes.settleFor(pair[1].agentId);
    expect(await inboxOf(pair[1], quiet)).toMatchObject({ is_pending: 0, delivered_sequence: before + 2 });
  });

  it('of one agent is filled by the others if there is more than a batch', async () => {
    const agents = await addAgents(2);
    const id = await talk(agents);
    const { database } = stage.context;
    for (let count = 0; count <= database.pageRows; count += 100)
      await stage.write(async (transaction) => {
        for (let index = 0; index < 100; index += 1) {
          const input = { path: { session_id: id }, body: { content: 'hi' } };
          await sendMessage(stage.context, agents[0], input, transaction);
        }
      });
    const last = await stage.database.read((query) =>
      query.get<{ last_sequence: number }>('SELECT last_sequence FROM session WHERE id = $1', id),
    );
    await stage.context.inboxes.settleFor(agents[1].agentId);
    expect(await inboxOf(agents[1], id)).toMatchObject({ last_sequence: last?.last_sequence });
  });

  it('can receive more than one batch of events in one fill', async () => {
    const agents = await addAgents(2);
    const id = await talk(agents);
    await stage.write(async (transaction) => {
      const input = { path: { session_id: id }, body: { content: 'hi' } };
      for (let count = 0; count < 450; count += 1) await sendMessage(stage.context, agents[0], input, transaction);
    });
    await stage.context.inboxes.settle();
    expect(await inboxOf(agents[1], id)).toMatchObject({ last_sequence: 452 });
  });

  it('of a session that never pauses gets as far as those of all its other members', async () => {
    const agents = await addAgents(25);
    const id = await talk(agents);
    let sent = 0;
    /** After each write of the fill, the session goes on, as long as `messages` last. */
    const fill = (messages: number) => {
      let left = messages;
      return fillInSteps(async (work) => {
        const result = await stage.database.behind.write(work);
        if (left === 0) return result;
        left -= 1;
        sent = must(await stage.send(agents[0], id, { content: 'still here' })).sequence;
        return result;
      }).settle();
    };
    const furthest = async (): Promise<number[]> => {
      const rows = await Promise.all(agents.map((agent) => inboxOf(agent, id)));
      return rows.map((row) => row?.last_sequence ?? 0);
    };
    const { sequence: first } = must(await stage.send(agents[0], id, { content: 'first' }));
    // The fill ends although the session does not pause, and no one was left out.
    await fill(Number.POSITIVE_INFINITY);
    expect(Math.min(...(await furthest()))).toBeGreaterThanOrEqual(first);
    await fill(0);
    // A message during a fill is left to the next one, for all of them.
    must(await stage.send(agents[0], id, { content: 'second' }));
    await fill(1);
    await fill(0);
    expect(await furthest()).toEqual(agents.map(() => sent));
  });

  it('of all members get a message that a deletion moved into the fill', async () => {
    const agents = await addAgents(25);
    const id = await talk(agents);
    const deleted = await talk([agents[0], agents[1]]);
    must(await stage.send(agents[0], deleted, { content: 'soon gone' }));
    must(await stage.send(agents[0], id, { content: 'first' }));
    let second = 0;
    await fillInSteps(async (work) => {
      const result = await stage.database.behind.write(work);
      if (second > 0) return result;
      // Between the first step and the transaction that takes the events.
      await stage.write(async (transaction) => {
        await transaction.run('DELETE FROM event WHERE session_id = $1', deleted);
      });
      second = must(await stage.send(agents[0], id, { content: 'second' })).sequence;
      return result;
    }).settle();
    await stage.context.inboxes.settle();
    const rows = await Promise.all(agents.map((agent) => inboxOf(agent, id)));
    expect(rows.map((row) => row?.last_sequence)).toEqual(agents.map(() => second));
  });

  it.runIf(TEST_STORE !== 'postgres')('is filled in small steps where a statement stops everything else', async () => {
    const agents = await addAgents(25);
    const id = await talk(agents);
    const changes: number[] = [];
    const inboxes = fillInSteps((work) =>
      stage.database.behind.write((transaction) =>
        work({
          ...transaction,
          run: async (sql, ...parameters) => {
            const count = await transaction.run(sql, ...parameters);
            if (sql.includes('INSERT INTO inbox')) changes.push(count);
            return count;
          },
        }),
      ),
    );
    must(await stage.send(agents[0], id, { content: 'to all' }));
    for (const { agentId } of agents) inboxes.delivered(agentId, id, { sent: 2, readThrough: 2 });
    await inboxes.settle();
    expect(changes).toEqual([4, 4, 4, 4, 4, 4, 1, 4, 4, 4, 4, 4, 4, 1]);
  });

  it('never moves a delivery cursor back, and stays pending while there are unread events', async () => {
    const agents = await addAgents(2);
    const id = await talk(agents);
    const { inboxes } = stage.context;
    const [host, guest] = agents;
    const deliver = async (sent: number, readThrough: number): Promise<void> => {
      inboxes.delivered(guest.agentId, id, { sent, readThrough });
      await inboxes.settle();
    };
    await deliver(2, 2);
    expect(await inboxOf(guest, id)).toMatchObject({ delivered_sequence: 2, is_pending: 0 });
    must(await stage.send(host, id, { content: 'more' }));
    await inboxes.settle();
    expect(await inboxOf(guest, id)).toMatchObject({ delivered_sequence: 2, is_pending: 1 });
    await deliver(1, 2);
    expect(await inboxOf(guest, id)).toMatchObject({ delivered_sequence: 2, is_pending: 1 });
    await deliver(3, 3);
    expect(await inboxOf(guest, id)).toMatchObject({ delivered_sequence: 3, is_pending: 0 });
  });

  it('is not pending for events delivered before it was filled', async () => {
    const agents = await addAgents(2);
    const id = await talk(agents);
    const [host, guest] = agents;
    must(await stage.send(host, id, { content: 'fast' }));
    stage.context.inboxes.delivered(guest.agentId, id, { sent: 3, readThrough: 3 });
    await stage.context.inboxes.settle();
    expect(await inboxOf(guest, id)).toMatchObject({ delivered_sequence: 3, last_sequence: 3, is_pending: 0 });
  });

  it.runIf(TEST_STORE === 'postgres')(
    'moves its delivery cursor even while another write locks the session',
    async () => {
      const agents = await addAgents(2);
      const id = await talk(agents);
      const guest = agents[1];
      await stage.write(async (transaction) => {
        await transaction.lock([sessionLock(id)]);
        await transaction.run('UPDATE session SET topic = $2 WHERE id = $1', id, 'held');
        stage.context.inboxes.delivered(guest.agentId, id, { sent: 2, readThrough: 2 });
        void stage.context.inboxes.settle();
        await until('the cursor has moved', async () => (await inboxOf(guest, id))?.delivered_sequence === 2);
      });
    },
  );
});
