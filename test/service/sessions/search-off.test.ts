import { afterEach, beforeEach, expect, it } from 'vitest';
import type { AgentActor, ServiceContext } from '../../../src/service/core/context.js';
import { deleteOldSessions, eraseAccount, nothingDeleted } from '../../../src/service/messaging/retention.js';
import { indexMessages, searchMessages } from '../../../src/service/messaging/search-messages.js';
import { sendMessage } from '../../../src/service/messaging/sessions.js';
import { must, openStage, type Stage } from './stage.js';

let stage: Stage;
let alice: AgentActor;
let id: string;
beforeEach(async () => {
  stage = await openStage({ search: 'off' });
  alice = await stage.addAgent(await stage.addAccount('alice'), 'main', { inbound_policy: 'open' });
  id = must(await stage.create(alice, { initial_message: { content: 'a heron' } })).session_id;
  must(await stage.send(alice, id, { content: 'another heron' }));
});
afterEach(() => stage.close());

const search = (context: ServiceContext) =>
  stage.read((query) => searchMessages(context, alice, { query: { q: 'heron', limit: 10 } }, query));
const countOf = async (table: string): Promise<number> => {
  const row = await stage.read((query) => query.get<{ count: number }>(`SELECT COUNT(*) AS count FROM ${table}`));
  return Number(row?.count);
};

it('refuses a search and says why', async () => {
  await expect(search(stage.context)).rejects.toMatchObject({
    code: 'FEATURE_NOT_AVAILABLE',
    message: 'This service does not search messages.',
  });
});

it('indexes nothing and queues nothing', async () => {
  if (stage.database.isExclusive) expect(await countOf('search_progress WHERE indexed_position > 0')).toBe(0);
  else expect(await countOf('search_queue')).toBe(0);
  expect(await countOf('message_word')).toBe(0);
});

it('still deletes old sessions and erases accounts: neither waits for an index that no one fills', async () => {
  const deleted = nothingDeleted();
  must(await stage.end(alice, id));
  const other = must(await stage.create(alice, { initial_message: { content: 'a stork' } })).session_id;
  await stage.read(async () => {});
  stage.clock.advance(1_000);
  await deleteOldSessions(stage.context, 500, { deleted, isOver: () => false });
  expect(await stage.read((query) => query.all('SELECT id FROM session'))).toEqual([{ id: other }]);
  must(await stage.leave(alice, other));
  await eraseAccount(stage.context, alice.accountId, deleted);
  expect(deleted).toMatchObject({ sessions: 2 });
  expect(await countOf('event')).toBe(0);
});

it('finds what is sent from then on once it is on again', async () => {
  const context = { ...stage.context, settings: { ...stage.context.settings, search: 'builtin' as const } };
  const input = { path: { session_id: id }, body: { content: 'a third heron' } };
  await stage.write((transaction) => sendMessage(context, alice, input, transaction));
  while (await indexMessages(context));
  const { messages } = await search(context);
  expect(messages[0]?.content).toBe('a third heron');
  // SQLite reads the log from where it stopped; PostgreSQL has a queue, which nothing joined in the meantime.
  expect(messages).toHaveLength(stage.database.isExclusive ? 3 : 1);
});
