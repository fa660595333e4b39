import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { changeAgent } from '../../../src/service/agents/agents.js';
import type { AgentActor } from '../../../src/service/core/context.js';
import type { Query } from '../../../src/service/core/database.js';
import { findAgent } from '../../../src/service/store/agents.js';
import { listJoinedOpenAgents } from '../../../src/service/store/participants.js';
import { TEST_STORE } from '../../support/stores.js';
import { must, openStage, type Stage } from './stage.js';

let stage: Stage;
let host: AgentActor;
let guest: AgentActor;
let other: AgentActor;
beforeEach(async () => {
  stage = await openStage();
  const account = await stage.addAccount('crew');
  host = await stage.addAgent(account, 'host');
  guest = await stage.addAgent(account, 'guest');
  other = await stage.addAgent(account, 'other', { inbound_policy: 'open' });
});
afterEach(() => stage.close());

const setPolicy = (agent: AgentActor, inbound_policy: 'open' | 'allowlist') =>
  stage.write(async (transaction) => {
    const row = await findAgent(transaction, agent.agentId);
    if (row !== undefined) await changeAgent(stage.context, transaction, row, { inbound_policy });
  });
const listOpen = (query: Query, sessionId: string) =>
  listJoinedOpenAgents(query, sessionId, { agentId: host.agentId, handle: host.handle, glob: '@crew.*' });

describe('The agents toward whose limits a message counts', () => {
  it('are the joined ones that are currently open, no matter since when', async () => {
    const id = must(await stage.create(host, { invite: [guest.handle, other.handle] })).session_id;
    const open = async () => (await stage.read((query) => listOpen(query, id))).map((row) => row.agent_id).sort();
    expect(await open()).toEqual([]);
    must(await stage.join(guest, id));
    must(await stage.join(other, id));
    expect(await open()).toEqual([other.agentId]);
    await setPolicy(guest, 'open');
    expect(await open()).toEqual([guest.agentId, other.agentId].sort());
    await setPolicy(other, 'allowlist');
    expect(await open()).toEqual([guest.agentId]);
    must(await stage.leave(guest, id));
    expect(await open()).toEqual([]);
    must(await stage.invite(host, id, [guest.handle]));
    must(await stage.join(guest, id));
    expect(await open()).toEqual([guest.agentId]);
  });

  it.runIf(TEST_STORE === 'memory')('are found without looking at members with an allowlist', async () => {
    const id = must(await stage.create(host, {})).session_id;
    const plan: string[] = [];
    await stage.read((query) =>
      listOpen(
        {
          ...query,
          all: async (sql, ...parameters) => {
            const steps = await query.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...parameters);
            plan.push(...steps.map(({ detail }) => detail));
            return [];
          },
        },
        id,
      ),
    );
    expect(plan.join('\n')).toContain('participant_open');
  });
});
