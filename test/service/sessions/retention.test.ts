import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { newWebhookSecret } from '../../../src/kit/webhook.js';
import { discardOrphans, getAttachment, sweepAttachments } from '../../../src/service/attachments/attachments.js';
import type { AgentActor, ServiceContext } from '../../../src/service/core/context.js';
import type { Query, Transaction, Work } from '../../../src/service/core/database.js';
import { unmetered } from '../../../src/service/core/meter.js';
import { claimSession } from '../../../src/service/messaging/claims.js';
import { reportTaken, reportUnanswered } from '../../../src/service/messaging/delivery-states.js';
import { withIdempotency } from '../../../src/service/messaging/idempotency.js';
import { listSessions } from '../../../src/service/messaging/list-sessions.js';
import { removeAccount, removeAgent } from '../../../src/service/messaging/remove-agent.js';
import {
  deleteOldSessions,
  eraseAccount,
  isDeletionDue,
  nothingDeleted,
} from '../../../src/service/messaging/retention.js';
import { indexMessages, searchMessages } from '../../../src/service/messaging/search-messages.js';
import { createSession } from '../../../src/service/messaging/sessions.js';
import { setWebhook } from '../../../src/service/messaging/webhooks.js';
import { createConfidentialClient } from '../../../src/service/oauth/clients.js';
import { enforceRetention } from '../../../src/service/operator/retention.js';
import type { RunningService } from '../../../src/service/service.js';
import { findAccountByUsername } from '../../../src/service/store/accounts.js';
import { findAttachment } from '../../../src/service/store/attachments.js';
import { insertHandled, putClaim } from '../../../src/service/store/claims.js';
import { deleteSession } from '../../../src/service/store/deleted-sessions.js';
import { advanceDeliveries } from '../../../src/service/store/inboxes.js';
import { countOldSessions, listOperatorActions } from '../../../src/service/store/operator.js';
import { dismissQuestion } from '../../../src/service/store/questions.js';
import { putSeen } from '../../../src/service/store/sessions.js';
import { insertShareLink } from '../../../src/service/store/share-links.js';
import { putWebhook } from '../../../src/service/store/webhooks.js';
import { writeExport } from '../../../src/service/web/dashboard/export.js';
import { actorOf } from '../../support/actors.js';
import { request } from '../../support/http.js';
import { discover } from '../../support/oauth.js';
import { TEST_STORE } from '../../support/stores.js';
import { until } from '../../support/until.js';
import { upload } from '../attachments/desk.js';
import { actorAt, createServices } from '../attachments/services.js';
import { must, openStage, type Stage } from './stage.js';

const DAY_MS = 86_400_000;
const AGE_MS = 30 * DAY_MS;
const NEVER = (): boolean => false;
const NO_TIME = Number.MAX_SAFE_INTEGER;

let stage: Stage;
let alice: AgentActor;
let bob: AgentActor;
beforeEach(async () => {
  stage = await openStage();
  const [one, two] = [await stage.addAccount('alice'), await stage.addAccount('bob')];
  alice = await stage.addAgent(one, 'main', { inbound_policy: 'open' });
  bob = await stage.addAgent(two, 'main', { inbound_policy: 'open' });
});
afterEach(() => stage.close());

const indexAll = async (): Promise<void> => {
  while (await indexMessages(stage.context));
};

/** Creates a session between the two with everything that leaves a row. */
async function converse(words = 'a heron'): Promise<{ id: string; file: string }> {
  const { session_id: id } = must(await stage.create(alice, { invite: [bob.handle], topic: words }));
  must(await stage.join(bob, id));
  const file = (await upload(stage, alice)).id;
  const question = must(
    await stage.send(alice, id, {
      content: [
        { type: 'text', text: words },
        { type: 'file', attachment_id: file },
      ],
      metadata: { choices: ['yes', 'no'] },
    }),
  );
  const { message_id: messageId, sequence } = question;
  must(await stage.send(bob, id, { content: 'yes', metadata: { in_reply_to: messageId } }));
  for (let count = 0; count < 5; count += 1) must(await stage.send(bob, id, { content: `${words} ${count}` }));
  const request = { actorId: bob.agentId, endpoint: `POST /sessions/${id}/taken`, key: 'k', fingerprint: '' };
  await withIdempotency(stage.context, request, async (transaction) => {
    const input = { path: { session_id: id }, body: { sequences: [sequence] } };
    return { status: 200, body: JSON.stringify(await reportTaken(stage.context, bob, input, transaction)) };
  });
  const [first] = await stage.eventsOf(bob, id);
  if (first === undefined) throw new Error('There is no event.');
  await stage.write(async (transaction) => {
    const event = { event_id: first.event_id, sequence: first.sequence };
    for (const body of [{ lease_ms: 0, done: true }, { lease_ms: 15_000 }])
      await claimSession(
        stage.context,
        bob,
        { path: { session_id: id }, body: { ...event, ...body, worker: 'one' } },
        transaction,
      );
    const silence = { path: { session_id: id }, body: { sequence, reason: 'failed' } } as const;
    await reportUnanswered(stage.context, bob, silence, transaction);
    await putSeen(transaction, bob.accountId, id, sequence);
    await dismissQuestion(transaction, bob.accountId, { session_id: id, sequence });
    await insertShareLink(transaction, {
      ...{ id: stage.context.ids.ulid(), secret_hash: id, account_id: bob.accountId, session_id: id },
      ...{ through_sequence: 1, last_sequence: 1, created_at: stage.clock.now(), expires_at: NO_TIME },
      view_handle: null,
    });
    await transaction.run('INSERT INTO absence (agent_id, session_id, since) VALUES ($1, $2, 1)', bob.agentId, id);
  });
  must(await stage.end(alice, id));
  return { id, file };
}

/** Brings inboxes and the search index up to date, then advances time. */
async function age(ms = AGE_MS): Promise<void> {
  await stage.read(async () => {});
  await indexAll();
  stage.clock.advance(ms);
}

const run = async (context: ServiceContext = stage.context, isOver: () => boolean = NEVER) => {
  const deleted = nothingDeleted();
  await deleteOldSessions(context, AGE_MS, { deleted, isOver });
  return deleted;
};

const COLUMNS = {
  memory: `SELECT m.name AS "table", c.name AS "column", c.type FROM sqlite_master AS m JOIN pragma_table_info(m.name) AS c
    WHERE m.type = 'table'`,
  postgres: `SELECT table_name AS "table", column_name AS "column", data_type AS type FROM information_schema.columns
    WHERE table_schema = current_schema()`,
};

const listColumns = (): Promise<{ table: string; column: string; type: string }[]> =>
  stage.database.read((query) => query.all(COLUMNS[TEST_STORE]));

/** Returns the tables that have rows about a session in any column. */
async function tracesOf(id: string): Promise<string[]> {
  const columns = await listColumns();
  return stage.database.read(async (query) => {
    const found: string[] = [];
    for (const { table, column } of columns) {
      const held = `CAST("${column}" AS TEXT) LIKE '%' || $1 || '%'`;
      if ((await query.get(`SELECT 1 AS found FROM "${table}" WHERE ${held} LIMIT 1`, id)) !== undefined)
        found.push(table);
    }
    return [...new Set(found)].sort();
  });
}

const countOf = async (table: string): Promise<number> =>
  Number((await stage.database.read((query) => query.get<{ n: number }>(`SELECT COUNT(*) AS n FROM ${table}`)))?.n);

/** Returns what agents can find of a session. For a deleted one, it must be nothing, as for one that never existed. */
async function lookFor(id: string, file: string): Promise<unknown> {
  const list = await stage.read((query) => listSessions(stage.context, alice, { query: { limit: 50 } }, query));
  return {
    gets: [await stage.get(alice, id), await stage.get(bob, id)],
    replays: [await stage.replay(alice, id, 3), await stage.replay(bob, id)],
    listed: list.sessions.some((session) => session.id === id),
    found: (
      await stage.read((query) =>
        searchMessages(stage.context, alice, { query: { q: 'heron', session_id: id, limit: 20 } }, query),
      )
    ).messages.length,
    file: await stage.read(async (query) => (await findAttachment(query, file)) !== undefined),
    download: await stage
      .read((query) => getAttachment(stage.context, alice, { path: { attachment_id: file } }, query))
      .then(() => 'ok')
      .catch((error) => error.code),
  };
}

const GONE = { ok: false, code: 'NOT_FOUND' };
const NOTHING = {
  gets: [GONE, GONE],
  replays: [GONE, GONE],
  listed: false,
  found: 0,
  file: false,
  download: 'NOT_FOUND',
};

describe('Retention', () => {
  it('deletes an ended session without recent events, with every row about it', async () => {
    const { id, file } = await converse();
    await age();
    const about = (await listColumns()).flatMap(({ table, column }) => (column === 'session_id' ? [table] : []));
    expect(await tracesOf(id), 'converse() leaves a row in each table with a session_id').toEqual(
      [...about, 'idempotency_record', 'session'].sort(),
    );
    expect(await countOf('message_word')).toBeGreaterThan(0);
    expect(await run()).toEqual({ sessions: 1, events: 10, attachments: 1 });
    expect(await tracesOf(id)).toEqual([]);
    expect(await countOf('message_word')).toBe(0);
    expect(await lookFor(id, file)).toEqual(NOTHING);
    for (const outcome of [await stage.reopen(alice, id), await stage.leave(bob, id), await stage.end(alice, id)])
      expect(outcome).toEqual(GONE);
  });

  it('reports what it would delete, and what it deletes', async () => {
    await converse();
    await age();
    const before = stage.clock.now() - AGE_MS;
    expect(await stage.read((query) => countOldSessions(query, before))).toEqual({
      sessions: 1,
      events: 10,
      attachments: 1,
      attachment_bytes: 5,
      oldest_ended_at: before,
    });
    expect(await stage.read((query) => countOldSessions(query, before - 1))).toMatchObject({ sessions: 0, events: 0 });
    expect([await isDeletionDue(stage.context, AGE_MS), await isDeletionDue(stage.context, AGE_MS + 1)]).toEqual([
      true,
      false,
    ]);
  });

  it('never deletes an active session, however old, or one that was reopened', async () => {
    const active = must(await stage.create(alice, { invite: [bob.handle], initial_message: { content: 'x' } }));
    const { id } = await converse();
    must(await stage.reopen(alice, id));
    await age(400 * DAY_MS);
    expect(await run()).toEqual(nothingDeleted());
    for (const sessionId of [active.session_id, id])
      expect(must(await stage.get(alice, sessionId))).toMatchObject({ state: 'active' });
  });

  it('keeps a session that is reopened after it was selected', async () => {
    const { id } = await converse();
    await age();
    const events = await stage.eventsOf(alice, id);
    const { behind } = stage.database;
    const reopening: Work = {
      ...behind,
      read: async (work) => {
        const found = await behind.read(work);
        if (!JSON.stringify(found).includes('is_quiet')) return found;
        must(await stage.reopen(alice, id));
        await age(0);
        return found;
      },
    };
    const database = { ...stage.database, behind: reopening };
    expect(await run({ ...stage.context, database })).toEqual(nothingDeleted());
    expect((await stage.eventsOf(alice, id)).slice(0, events.length)).toEqual(events);
  });

  it('measures age from the last event, which may be a departure', async () => {
    const { id } = await converse();
    await age(AGE_MS - 1);
    expect(await run()).toEqual(nothingDeleted());
    must(await stage.leave(bob, id));
    await age(1);
    expect([await run(), (await stage.get(alice, id)).ok]).toEqual([nothingDeleted(), true]);
    await age();
    expect((await run()).sessions).toBe(1);
  });

  it('waits until all of a session’s events are in inboxes and the search index', async () => {
    const { id } = await converse();
    stage.clock.advance(AGE_MS);
    expect(await run()).toEqual(nothingDeleted());
    await stage.read(async () => {});
    expect(await run()).toEqual(nothingDeleted());
    await indexAll();
    expect([(await run()).sessions, await tracesOf(id)]).toEqual([1, []]);
  });

  it('leaves other sessions unchanged, even with the same hash in the search index', async () => {
    const old = await converse();
    stage.clock.advance(1);
    const { id } = await converse();
    await age(AGE_MS - 1);
    const wordsOf = (sessionId: string) =>
      stage.database.read((query) =>
        query.all<{ session: number }>(
          `SELECT message_word.* FROM message_word JOIN event ON event.position = message_word.position
           WHERE event.session_id = $1 ORDER BY word, event.position`,
          sessionId,
        ),
      );
    const code = (await wordsOf(old.id))[0]?.session ?? 0;
    await stage.write((transaction) => transaction.run('UPDATE message_word SET session = $1', code));
    const before = [await stage.eventsOf(alice, id), await wordsOf(id)];
    expect((await run()).sessions).toBe(1);
    expect(await tracesOf(old.id)).toEqual([]);
    expect([await stage.eventsOf(alice, id), await wordsOf(id)]).toEqual(before);
    expect(await countOf('message_word')).toBe(before[1]?.length);
  });

  it.each([0, 1, 2, 3, 5, 8, 13])(
    'killed before its write %i: the session is there or not, and the next run deletes the rest',
    async (step) => {
      const { id, file } = await converse();
      await age();
      const whole = await lookFor(id, file);
      let writes = 0;
      const behind: Work = {
        ...stage.database.behind,
        write: async (work) => {
          writes += 1;
          if (writes > step) throw new Error('killed');
          return stage.database.behind.write(work);
        },
      };
      const outcome = await run({ ...stage.context, database: { ...stage.database, behind, pageRows: 4 } }).catch(
        (error) => error.message,
      );
      expect(await lookFor(id, file)).toEqual(step === 0 ? whole : NOTHING);
      expect(await isDeletionDue(stage.context, AGE_MS)).toBe(outcome === 'killed');
      await run();
      expect([await tracesOf(id), await countOf('message_word')]).toEqual([[], 0]);
      expect(
        await stage.read((query) => query.get('SELECT attachment_bytes FROM account WHERE id = $1', alice.accountId)),
      ).toEqual({
        attachment_bytes: 0,
      });
    },
  );

  it('stops between two batches on request, and continues next time', async () => {
    for (let count = 0; count < 3; count += 1) await converse(`heron ${count}`);
    await age();
    let looks = 0;
    const first = await run(stage.context, () => {
      looks += 1;
      return looks > 4;
    });
    expect(first.sessions).toBe(1);
    expect(await countOf('deleted_session')).toBe(1);
    const second = await run();
    expect(first.events + second.events).toBe(30);
    expect([await countOf('session'), await countOf('event'), await countOf('deleted_session')]).toEqual([0, 0, 0]);
  });

  it('does not reuse positions of the log: later events reach inboxes and the search', async () => {
    await converse();
    await age();
    const last = await stage.read((query) => query.get<{ p: number }>('SELECT MAX(position) AS p FROM event'));
    await run();
    expect(await countOf('event')).toBe(0);
    const { session_id: id } = must(
      await stage.create(alice, { invite: [bob.handle], initial_message: { content: 'a kingfisher' } }),
    );
    await age(0);
    const next = await stage.read((query) => query.get<{ p: number }>('SELECT MIN(position) AS p FROM event'));
    expect(Number(next?.p)).toBeGreaterThan(Number(last?.p));
    const query = { q: 'kingfisher', limit: 20 };
    const { messages } = await stage.read((reader) => searchMessages(stage.context, alice, { query }, reader));
    expect(messages.map((message) => message.session_id)).toEqual([id]);
    const inbox = await stage.read((reader) =>
      reader.get('SELECT last_sequence FROM inbox WHERE agent_id = $1 AND session_id = $2', alice.agentId, id),
    );
    expect(inbox).toEqual({ last_sequence: 2 });
  });

  it('puts files in the trash for a week, for backups that refer to them, and leaves those of others', async () => {
    const { file } = await converse();
    const pending = (await upload(stage, bob)).id;
    const { files } = stage.context;
    await age(AGE_MS);
    const recent = (await upload(stage, alice)).id;
    const { session_id: id } = must(await stage.create(alice, { invite: [bob.handle] }));
    must(await stage.send(alice, id, { content: [{ type: 'file', attachment_id: recent }] }));
    await run();
    expect((await files.list()).sort()).toEqual([pending, recent].sort());
    expect((await files.listTrash()).map((discarded) => discarded.id)).toEqual([file]);
    await sweepAttachments(stage.context);
    await discardOrphans(stage.context);
    expect([(await files.list()).sort(), (await files.listTrash()).length]).toEqual([[recent], 1]);
    stage.clock.advance(7 * DAY_MS);
    await discardOrphans(stage.context);
    expect((await files.listTrash()).length).toBe(0);
  });
});

describe('An account that is removed', () => {
  it('keeps no links to sessions', async () => {
    const { id } = await converse();
    await removeAccount(stage.context, alice.accountId);
    expect(await countOf('share_link')).toBe(1);
    await removeAccount(stage.context, bob.accountId);
    expect(await tracesOf(id)).not.toContain('share_link');
  });
});

describe('An account that is erased', () => {
  const erase = async (): Promise<object> => {
    const deleted = nothingDeleted();
    const { accountId } = alice;
    await removeAccount(stage.context, accountId, () => eraseAccount(stage.context, accountId, deleted));
    return deleted;
  };
  const addTwin = async (topic: string): Promise<AgentActor> => {
    const account = await stage.read((query) => findAccountByUsername(query, 'alice'));
    if (account === undefined) throw new Error('There is no account.');
    return stage.addAgent(account as never, `twin-${topic}`, { inbound_policy: 'open' });
  };
  /** Creates a session among agents of one account, with an attachment. */
  const talkAlone = async (topic: string): Promise<string> => {
    const twin = await addTwin(topic);
    const { session_id: id } = must(await stage.create(alice, { invite: [twin.handle], topic }));
    must(await stage.join(twin, id));
    const file = (await upload(stage, twin)).id;
    must(await stage.send(twin, id, { content: [{ type: 'file', attachment_id: file }] }));
    return id;
  };

  /**
   * Others have it too, or a name must never be given twice, or a revoked token must stay known. Links expire, and a socket
   * is closed by the process that holds it.
   */
  const KEPT = [
    ...['agent', 'participant', 'inbox', 'question', 'answer', 'taken', 'attachment'],
    ...['oauth_client', 'authorization_code', 'refresh_family', 'entry_link', 'socket'],
  ];
  const GONE = [
    ...['account_session', 'activity', 'passkey', 'push_notified', 'push_queue', 'push_subscription'],
    ...['absence', 'allowlist_entry', 'block', 'claim', 'dismissed_question', 'handled', 'knock', 'seen_session'],
    ...['share_link', 'unanswered', 'webhook', 'webhook_queue'],
  ];

  it('leaves rows about it only in tables that are meant to keep them, and each table is one or the other', async () => {
    const { id } = await converse();
    const columns = await listColumns();
    const about = columns.filter(({ column }) => column === 'account_id' || column === 'agent_id');
    expect([...new Set(about.map(({ table }) => table))].sort()).toEqual([...KEPT, ...GONE].sort());
    const { accountId, agentId } = bob;
    const listLeft = async (): Promise<string[]> => {
      const left = new Set<string>();
      for (const { table, column } of about) {
        const id = column === 'account_id' ? accountId : agentId;
        const sql = `SELECT 1 AS found FROM ${table} WHERE ${column} = $1 LIMIT 1`;
        if ((await stage.database.read((query) => query.get(sql, id))) !== undefined) left.add(table);
      }
      return [...left].sort();
    };
    const ids: Readonly<Record<string, string>> = { account_id: accountId, agent_id: agentId, session_id: id };
    const fill = async (table: string): Promise<void> => {
      const own = columns.filter((one) => one.table === table);
      const values = own.map(({ column, type }) => ids[column] ?? (/int/i.test(type) ? 1 : 'x'));
      const names = own.map(({ column }) => column).join(', ');
      const places = own.map((_, at) => `$${at + 1}`).join(', ');
      await stage.write((transaction) =>
        transaction.run(`INSERT INTO ${table} (${names}) VALUES (${places})`, ...values),
      );
    };
    const there = await listLeft();
    for (const table of GONE) if (!there.includes(table)) await fill(table);
    const before = await listLeft();
    expect(before).toEqual(expect.arrayContaining(GONE));
    await removeAccount(stage.context, accountId, () => eraseAccount(stage.context, accountId, nothingDeleted()));
    expect(await listLeft()).toEqual(before.filter((table) => KEPT.includes(table)));
  });

  it('leaves nothing of sessions that only its agents ever saw, even active ones', async () => {
    const own = [await talkAlone('one'), await talkAlone('two')];
    must(await stage.end(alice, own[0] ?? ''));
    // The agent that is erased first never took part in it, and has a session that stays.
    must(await stage.create(alice, { invite: [bob.handle] }));
    own.push(must(await stage.create(await addTwin('three'), { topic: 'three' })).session_id);
    await stage.write((transaction) =>
      transaction.run(
        "UPDATE agent SET description = 'secret plans', card_body = 'secret plans', display_name = 'secret plans'",
      ),
    );
    const answered = { status: 200, body: '{"description":"secret plans"}' };
    for (const actorId of [alice.agentId, alice.accountId])
      for (let key = 0; key < 2; key += 1) {
        const request = { actorId, endpoint: 'PATCH /agents/me', key: `${key}`, fingerprint: '' };
        await withIdempotency(stage.context, request, async () => answered);
      }
    await stage.write((transaction) =>
      createConfidentialClient(stage.context, transaction, {
        ...{ name: 'secret plans', accountId: alice.accountId, agentId: alice.agentId },
        ...{ scopes: [], secret: 'secret', expiresAt: null },
      }),
    );
    expect(await erase()).toEqual({ sessions: 3, events: 10, attachments: 2 });
    for (const id of own) expect(await tracesOf(id)).toEqual([]);
    expect(await countOf('message_word')).toBe(0);
    const agents = await stage.read((query) =>
      query.all<{ account_id: string; about: string }>(
        'SELECT account_id, display_name || description || card_body AS about FROM agent ORDER BY account_id',
      ),
    );
    const aboutOf = (accountId: string) =>
      agents.filter((row) => row.account_id === accountId).map(({ about }) => about);
    expect(aboutOf(alice.accountId)).toEqual([null, null, null, null]);
    expect(aboutOf(bob.accountId)).toEqual(['secret planssecret planssecret plans']);
    expect(await tracesOf('secret plans')).toEqual(['agent']);
  });

  it('leaves nothing of what it has read, dismissed and reported in sessions with others', async () => {
    const { id } = await converse();
    const about = { path: { session_id: id }, body: { sequence: 4, reason: 'failed' } } as const;
    await stage.write(async (transaction) => {
      await reportUnanswered(stage.context, alice, about, transaction);
      await putSeen(transaction, alice.accountId, id, 4);
      await dismissQuestion(transaction, alice.accountId, { session_id: id, sequence: 4 });
    });
    const marks = async () => [
      await countOf('seen_session'),
      await countOf('dismissed_question'),
      await countOf('unanswered'),
    ];
    expect(await marks()).toEqual([2, 2, 2]);
    await erase();
    expect(await marks()).toEqual([1, 1, 1]);
  });

  it('leaves nothing of how the workers of its agents shared sessions with others', async () => {
    const { id } = await converse();
    const [first] = await stage.eventsOf(alice, id);
    if (first === undefined) throw new Error('There is no event.');
    const event = { event_id: first.event_id, sequence: first.sequence, worker: 'secret-plans' };
    await stage.write(async (transaction) => {
      for (const body of [{ lease_ms: 0, done: true }, { lease_ms: 15_000 }])
        await claimSession(
          stage.context,
          alice,
          { path: { session_id: id }, body: { ...event, ...body } },
          transaction,
        );
    });
    expect([await countOf('claim'), await countOf('handled')]).toEqual([2, 2]);
    await erase();
    expect([await countOf('claim'), await countOf('handled')]).toEqual([1, 1]);
    expect(await tracesOf('secret-plans')).toEqual([]);
  });

  it('leaves nothing of the webhooks of its agents, not even events that were queued as they were removed', async () => {
    const webhook = { agent_id: alice.agentId, account_id: alice.accountId, url: 'https://hooks.example/a' };
    await stage.write(async (transaction) => {
      await putWebhook(transaction, { ...webhook, secret: 'secret plans', set_at: 1 });
      await putWebhook(transaction, {
        ...webhook,
        ...{ agent_id: bob.agentId, account_id: bob.accountId, secret: 'other', set_at: 1 },
      });
    });
    await removeAccount(stage.context, alice.accountId, async () => {
      expect(await countOf('webhook')).toBe(1);
      await stage.write((transaction) =>
        transaction.run('INSERT INTO webhook_queue (agent_id, position) VALUES ($1, 1)', alice.agentId),
      );
      await eraseAccount(stage.context, alice.accountId, nothingDeleted());
    });
    expect([await countOf('webhook'), await countOf('webhook_queue')]).toEqual([1, 0]);
    expect(await tracesOf('secret plans')).toEqual([]);
  });

  // SQLite writes one after the other.
  it.runIf(TEST_STORE === 'postgres')('gets no webhook while its agents are removed', async () => {
    const context = { ...stage.context, settings: { ...stage.context.settings, webhooks: 'any' } } as const;
    const actor = { kind: 'account', accountId: alice.accountId, scopes: [] } as const;
    const path = { owner: 'alice', name: 'main' };
    const body = { url: 'https://hooks.example/a', secret: newWebhookSecret() };
    let isRemoved = false;
    const removal = stage.database.write(async (transaction) => {
      await removeAgent(context, actor, { path }, transaction);
      isRemoved = true;
      await pause(500);
    });
    await until('removed', async () => isRemoved);
    const change = stage.database.write((transaction) => setWebhook(context, actor, { path, body }, transaction));
    await expect(change).rejects.toMatchObject({ code: 'AGENT_NOT_FOUND' });
    await removal;
    expect(await countOf('webhook')).toBe(0);
  });

  it('leaves nothing of the messages that no one accepted', async () => {
    const account = await stage.read((query) => findAccountByUsername(query, 'bob'));
    const closed = await stage.addAgent(account as never, 'closed');
    const refused = { invite: [closed.handle], initial_message: { content: 'secret plans' } };
    const request = { actorId: alice.agentId, endpoint: 'POST /sessions', key: 'k', fingerprint: '' };
    const work = async (transaction: Transaction) => ({
      status: 201,
      body: JSON.stringify(await createSession(stage.context, alice, { body: refused }, transaction)),
    });
    await expect(withIdempotency(stage.context, request, work)).rejects.toMatchObject({ code: 'NOT_FOUND' });
    expect(await tracesOf('secret plans')).toEqual(['knock']);
    await erase();
    expect(await tracesOf('secret plans')).toEqual([]);
  });

  it('leaves others what they received, unchanged', async () => {
    const { id, file } = await converse();
    const left = must(await stage.create(alice, { invite: [bob.handle], topic: 'declined' })).session_id;
    const before = await stage.eventsOf(bob, id);
    expect(await erase()).toEqual(nothingDeleted());
    expect(await stage.eventsOf(bob, id)).toEqual(before);
    expect((await stage.get(bob, left)).ok).toBe(true);
    expect(await stage.read(async (query) => (await findAttachment(query, file))?.id)).toBe(file);
  });

  it('is erased by the next try if the first was interrupted', async () => {
    const own = await talkAlone('one');
    const files = { ...stage.context.files, discard: () => Promise.reject(new Error('the disk is away')) };
    const { accountId } = alice;
    const failing = () => eraseAccount({ ...stage.context, files }, accountId, nothingDeleted());
    await expect(removeAccount(stage.context, accountId, failing)).rejects.toThrow('away');
    const account = await stage.read((query) => findAccountByUsername(query, 'alice'));
    expect(await isDeletionDue(stage.context, undefined)).toBe(true);
    expect(account).toMatchObject({ removed_at: null, suspended_at: expect.any(Number) });
    await erase();
    expect([await tracesOf(own), await countOf('attachment'), await countOf('deleted_session')]).toEqual([[], 0, 0]);
  });
});

describe('A download of all data', () => {
  it('leaves out a session that is deleted while it is made, and stays complete', async () => {
    const gone = await converse();
    await age();
    const { session_id: kept } = must(await stage.create(alice, { initial_message: { content: 'still here' } }));
    const account = await stage.read((query) => findAccountByUsername(query, 'alice'));
    if (account === undefined) throw new Error('There is no account.');
    const read = async <T>(work: (query: Query) => Promise<T>): Promise<T> => {
      const result = await stage.read(work);
      if (JSON.stringify(result)?.startsWith(`["${gone.id}`)) await run();
      return result;
    };
    let text = '';
    for await (const piece of writeExport({ context: stage.context, account, read })) text += piece;
    const { sessions } = JSON.parse(text) as { sessions: { id: string; events: unknown[] }[] };
    expect(sessions.map(({ id, events }) => [id, events.length])).toEqual([[kept, 1]]);
  });
});

describe('A late write about a deleted session', () => {
  const LATE: readonly [string, (transaction: Transaction, id: string) => Promise<unknown>][] = [
    ['how far someone has read', (transaction, id) => putSeen(transaction, bob.accountId, id, 9)],
    [
      'a dismissed question',
      (transaction, id) => dismissQuestion(transaction, alice.accountId, { session_id: id, sequence: 2 }),
    ],
    [
      'a delivery',
      (transaction, id) =>
        advanceDeliveries(transaction, [{ agent_id: bob.agentId, session_id: id, sent: 5, read_through: 10 }]),
    ],
    [
      'a claim',
      (transaction, id) =>
        putClaim(
          transaction,
          { sessionId: id, agentId: bob.agentId, worker: 'one', eventId: 'evt_x', expiresAt: 2 },
          1,
        ),
    ],
    [
      'what a worker has done',
      (transaction, id) => insertHandled(transaction, { sessionId: id, agentId: bob.agentId, eventId: 'evt_x' }, 1),
    ],
    [
      'a report',
      (transaction, id) =>
        import('../../../src/service/store/delivery-states.js').then(({ insertTaken }) =>
          insertTaken(transaction, id, bob.agentId, [3, 4], 1),
        ),
    ],
  ];
  const rowsOf = (query: Query, id: string) =>
    query.all(
      `SELECT agent_id AS a, sequence AS b FROM taken WHERE session_id = $1 UNION ALL
       SELECT account_id, sequence FROM seen_session WHERE session_id = $1 UNION ALL
       SELECT account_id, sequence FROM dismissed_question WHERE session_id = $1 UNION ALL
       SELECT agent_id, attempt FROM claim WHERE session_id = $1 UNION ALL
       SELECT agent_id, 0 FROM handled WHERE session_id = $1 UNION ALL
       SELECT agent_id, last_sequence FROM inbox WHERE session_id = $1`,
      id,
    );

  it.each(LATE)('leaves no row: %s', async (_, write) => {
    const { id } = await converse();
    await age();
    await run();
    await stage.write((transaction) => write(transaction, id));
    expect(await stage.read((query) => rowsOf(query, id))).toEqual([]);
  });

  it.runIf(TEST_STORE === 'postgres').each(LATE)('leaves no row if it waits for the deletion: %s', async (_, write) => {
    const { id } = await converse();
    await age();
    let late: Promise<unknown> = Promise.resolve();
    await stage.write(async (transaction) => {
      const pid = (await transaction.get<{ pid: number }>('SELECT pg_backend_pid() AS pid'))?.pid ?? 0;
      for (const table of ['taken', 'handled']) await transaction.run(`DELETE FROM ${table} WHERE session_id = $1`, id);
      await deleteSession(transaction, id);
      late = stage.write((other) => write(other, id));
      const isWaiting = () =>
        stage.database.read((query) =>
          query.get('SELECT 1 AS found FROM pg_stat_activity WHERE $1::int = ANY(pg_blocking_pids(pid))', pid),
        );
      await until('the other write waits', async () => (await isWaiting()) !== undefined);
    });
    await late;
    expect(await stage.read((query) => rowsOf(query, id))).toEqual([]);
  });
});

describe('The operator’s log of actions', () => {
  const actions = () => stage.read((query) => listOperatorActions(query, 'Z', 10));

  it('shows what each run deleted, once, if it deleted anything', async () => {
    await converse();
    await age();
    const counts: unknown[] = [];
    const meter = { ...unmetered, deleted: (count: object) => counts.push({ ...count }) };
    for (let runs = 0; runs < 3; runs += 1) await enforceRetention({ ...stage.context, meter }, AGE_MS, NEVER);
    const deleted = { sessions: 1, events: 10, attachments: 1 };
    const [action, ...more] = await actions();
    expect([more, counts]).toEqual([[], [deleted]]);
    expect(action).toMatchObject({ operation: 'deleteOldSessions', operator_name: '', outcome: 'done' });
    expect(JSON.parse(action?.changes ?? '')).toEqual(deleted);
  });

  it('also shows a run that failed halfway', async () => {
    await converse();
    await age();
    const files = { ...stage.context.files, discard: () => Promise.reject(new Error('the disk is away')) };
    await expect(enforceRetention({ ...stage.context, files }, AGE_MS, NEVER)).rejects.toThrow('away');
    const [action] = await actions();
    expect([action?.outcome, JSON.parse(action?.changes ?? '')]).toEqual([
      'failed',
      { sessions: 1, events: 0, attachments: 0 },
    ]);
  });
});

describe('A service with --retention', () => {
  it('deletes in one of several processes, and a reader with an old cursor gets the 404 of a session that never existed', async () => {
    const services = createServices();
    try {
      const data = services.newData();
      const options = { retentionMs: DAY_MS, metricsPort: 0 };
      const all = [await services.start(data, options)];
      if (TEST_STORE === 'postgres') all.push(await services.start(data, options));
      const [first] = all as [RunningService];
      const actor = await actorAt(first);
      const id = await actor.mustCreate({});
      const kept = await actor.mustCreate({});
      const { sequence } = await actor.mustSend(id, 'heron');
      await actor.post(`/sessions/${id}/end`, {});
      const place = await discover(first.baseUrl);
      const read = async (sessionId: string) => {
        // Tokens expire when the clock jumps.
        const { status, json } = await actorOf(place, actor.handle, actor.credentials).get(
          `/sessions/${sessionId}/events?after_sequence=${sequence}`,
        );
        return [status, json];
      };
      expect((await read(id))[0]).toBe(200);
      services.clock.advance(DAY_MS);
      const countIn = async (service: RunningService): Promise<number> => {
        const { text } = await request(service.metricsUrl ?? '');
        return Number(/asp_retention_deletions_total\{kind="sessions"\} (\d+)/.exec(text)?.[1]);
      };
      const count = async (): Promise<number> => {
        const counts = await Promise.all(all.map(countIn));
        return counts.reduce((sum, one) => sum + one, 0);
      };
      await until(
        'the deletion',
        async () => {
          await services.passMinutes(1);
          return (await count()) > 0;
        },
        30_000,
      );
      expect(await read(id)).toEqual(await read('sess_01ARZ3NDEKTSV4RRFFQ69G5FAV'));
      expect((await read(kept))[0]).toBe(200);
      await services.passMinutes(25);
      expect(await count()).toBe(1);
    } finally {
      await services.dispose();
    }
  });
});
