import { afterEach, beforeEach, expect, it } from 'vitest';
import { getAgent, getAgentCard, listAgents } from '../../../src/service/agents/agents.js';
import { searchAgents, searchDirectory } from '../../../src/service/agents/search.js';
import { getAttachment } from '../../../src/service/attachments/attachments.js';
import type { AgentActor } from '../../../src/service/core/context.js';
import type { Query } from '../../../src/service/core/database.js';
import {
  indexMessages,
  searchAccountMessages,
  searchMessages,
} from '../../../src/service/messaging/search-messages.js';
import { listAllowlist, listBlocks } from '../../../src/service/messaging/trust-lists.js';
import { splitHandle } from '../../../src/wire/handle.js';
import { upload } from '../attachments/desk.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

/**
 * Scans that may walk everything: one-row tables, small results of limited subqueries, and lists passed as parameters.
 */
const SMALL =
  /^SCAN (service_key|search_progress|recent|found|newest)$|^SCAN (asked|each|word|json_each) VIRTUAL TABLE INDEX \d+:/;

let stage: Stage;
let alice: AgentActor;
let bob: AgentActor;

beforeEach(async () => {
  stage = await openStage();
  alice = await stage.addAgent(await stage.addAccount('alice'), 'main', { inbound_policy: 'open' });
  bob = await stage.addAgent(await stage.addAccount('bob'), 'main', { inbound_policy: 'open' });
});
afterEach(() => stage.close());

/** Returns the query-plan steps of `work` that scan a whole table. */
async function scansOf(work: (query: Query) => Promise<unknown>): Promise<string[]> {
  const scans: string[] = [];
  await stage.read(async (query) => {
    const explain = async (sql: string, ...parameters: Parameters<Query['all']>[1][]): Promise<void> => {
      const steps = await query.all<{ detail: string }>(`EXPLAIN QUERY PLAN ${sql}`, ...parameters);
      scans.push(...steps.map((step) => step.detail).filter((step) => step.startsWith('SCAN') && !SMALL.test(step)));
    };
    await work({
      dialect: query.dialect,
      all: async (sql, ...parameters) => {
        await explain(sql, ...parameters);
        return query.all(sql, ...parameters);
      },
      get: async (sql, ...parameters) => {
        await explain(sql, ...parameters);
        return query.get(sql, ...parameters);
      },
      run: query.run,
    });
  });
  return scans;
}

it('the requests of an agent cost the same no matter how many agents, messages and files exist', async () => {
  const { id } = await upload(stage, alice);
  const content = [
    { type: 'text' as const, text: 'heron' },
    { type: 'file' as const, attachment_id: id },
  ];
  const session = must(await stage.create(bob, { invite: [alice.handle] })).session_id;
  must(await stage.join(alice, session));
  must(await stage.send(alice, session, { content }));
  await indexMessages(stage.context);
  must(await stage.send(alice, session, { content: 'heron' }));

  const { context } = stage;
  const path = splitHandle(bob.handle);
  const found = { q: 'ma bo', limit: 20 };
  expect(
    await scansOf(async (query) => {
      await getAgent(context, alice, { path }, query);
      await getAgentCard(context, alice, { path }, query);
      await listAgents(context, alice, { query: { q: 'a', limit: 50 } }, query);
      expect((await searchAgents(context, alice, { query: found }, query)).agents).toHaveLength(1);
      await searchDirectory(context, alice, { query: found }, query);
      const filter = { q: 'heron', limit: 20, counterpart: bob.handle, session_id: session };
      expect((await searchMessages(context, alice, { query: filter }, query)).messages).toHaveLength(2);
      const agentIds = [alice.agentId];
      const own = await searchAccountMessages(query, alice.accountId, { q: 'heron', agentIds, limit: 20 });
      expect(own.messages).toHaveLength(2);
      await getAttachment(context, alice, { path: { attachment_id: id } }, query);
      await listAllowlist(context, alice, { path: splitHandle(alice.handle) }, query);
      await listBlocks(context, alice, { query: { limit: 50 } }, query);
    }),
  ).toEqual([]);
});

it('the check would notice a scan of a whole table', async () => {
  const scans = await scansOf((query) => query.all("SELECT id FROM event WHERE payload = 'x'"));
  expect(scans).toEqual(['SCAN event']);
});
