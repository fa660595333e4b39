import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import type { AgentActor } from '../../../src/service/core/context.js';
import type { Transaction } from '../../../src/service/core/database.js';
import { admits } from '../../../src/service/messaging/trust-gate.js';
import { markAgentRemoved } from '../../../src/service/store/agents.js';
import { deleteAllowlistEntry, insertAllowlistEntries } from '../../../src/service/store/allowlists.js';
import { openStage, type Stage } from '../sessions/stage.js';

describe.each(['recipient', 'symmetric'] as const)('trust gate, %s', (trust) => {
  let stage: Stage;
  let inviter: AgentActor;
  let target: AgentActor;

  beforeEach(async () => {
    stage = await openStage({ trust });
    inviter = await stage.addAgent(await stage.addAccount('one'), 'inviter');
    target = await stage.addAgent(await stage.addAccount('two'), 'target');
  });
  afterEach(() => stage.close());

  const list = (agent: AgentActor, entry: string) =>
    stage.write((transaction) => insertAllowlistEntries(transaction, agent.agentId, [entry], 1));
  const isAdmitted = async (): Promise<boolean> =>
    (await stage.write((query) => admits(query, stage.context, inviter, [target.handle]))).invitees.length === 1;
  const admitMutually = async (): Promise<void> => {
    await list(target, inviter.handle);
    await list(inviter, target.handle);
    expect(await isAdmitted()).toBe(true);
  };

  it('refuses a stranger by default', async () => expect(await isAdmitted()).toBe(false));

  it('admits agents that the list contains by handle, or by the pattern of their owner', async () => {
    await list(inviter, '@two.*');
    for (const entry of [inviter.handle, '@one.*']) {
      await list(target, entry);
      expect(await isAdmitted()).toBe(true);
      await stage.write((transaction) => deleteAllowlistEntry(transaction, target.agentId, entry));
      expect(await isAdmitted()).toBe(false);
    }
  });

  it('does not mistake a glob for a prefix', async () => {
    await list(target, '@on.*');
    await list(target, '@one-more.*');
    await list(target, '@one.invite');
    await list(inviter, target.handle);
    expect(await isAdmitted()).toBe(false);
  });

  it('admits anyone to an open agent, and an open inviter needs no list of its own', async () => {
    await stage.changeAgent(target, { inbound_policy: 'open' });
    expect(await isAdmitted()).toBe(trust === 'recipient');
    await stage.changeAgent(inviter, { inbound_policy: 'open' });
    expect(await isAdmitted()).toBe(true);
  });

  it(`asks the inviter’s own list too: ${trust === 'symmetric'}`, async () => {
    await list(target, inviter.handle);
    expect(await isAdmitted()).toBe(trust === 'recipient');
    await list(inviter, '@two.*');
    expect(await isAdmitted()).toBe(true);
  });

  it('refuses paused and removed agents, and those that block or are blocked', async () => {
    await admitMutually();
    await stage.changeAgent(target, { is_paused: 1 });
    expect(await isAdmitted()).toBe(false);
    await stage.changeAgent(target, { is_paused: 0 });
    expect(await isAdmitted()).toBe(true);
    for (const [by, whom] of [
      [inviter, target],
      [target, inviter],
    ] as const) {
      await stage.block(by, whom);
      expect(await isAdmitted()).toBe(false);
      await stage.write((transaction) => transaction.run('DELETE FROM block'));
    }
    expect(await isAdmitted()).toBe(true);
    await stage.write((transaction) => markAgentRemoved(transaction, target.agentId, 1));
    expect(await isAdmitted()).toBe(false);
  });

  it('returns the admitted agents in the requested order, without the others', async () => {
    await admitMutually();
    const sibling = await stage.addAgent(
      { ...(await stage.addAccount('three')), id: target.accountId, username: 'three' },
      'sibling',
      { inbound_policy: 'open' },
    );
    await list(inviter, sibling.handle);
    const asked = ['@no.body', sibling.handle, '@no.one', target.handle];
    const { invitees } = await stage.write((query) => admits(query, stage.context, inviter, asked));
    expect(invitees.map((agent) => agent.handle)).toEqual([sibling.handle, target.handle]);
  });

  it('does the same lookups for every handle, so that no reason takes longer', async () => {
    const countFor = async (handle: string): Promise<string[]> =>
      stage.write(async (query) => {
        const asked: string[] = [];
        const counting: Transaction = {
          ...query,
          get: (sql, ...parameters) => {
            asked.push(sql);
            return query.get(sql, ...parameters);
          },
          all: (sql, ...parameters) => {
            asked.push(sql);
            return query.all(sql, ...parameters);
          },
        };
        await admits(counting, stage.context, inviter, [handle]);
        return asked;
      });
    const missing = await countFor('@no.body');
    expect(await countFor(target.handle)).toEqual(missing);
    await stage.block(target, inviter);
    expect(await countFor(target.handle)).toEqual(missing);
  });
});
