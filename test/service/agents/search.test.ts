import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { changeAgent, renameAccount, updateAgent } from '../../../src/service/agents/agents.js';
import { searchAgents, searchDirectory } from '../../../src/service/agents/search.js';
import type { AgentActor } from '../../../src/service/core/context.js';
import type { SqlValue, Transaction } from '../../../src/service/core/database.js';
import { OperatorError } from '../../../src/service/core/errors.js';
import { removeAgent } from '../../../src/service/messaging/remove-agent.js';
import {
  indexMessages,
  searchAccountMessages,
  searchMessages,
  startIndexing,
} from '../../../src/service/messaging/search-messages.js';
import type { AccountRow } from '../../../src/service/store/accounts.js';
import { findAgent } from '../../../src/service/store/agents.js';
import {
  holdsPhrases,
  toSearchPhrases,
  toSearchTerms,
  wordsToFind,
  wordsToIndex,
} from '../../../src/service/store/search.js';
import { splitHandle } from '../../../src/wire/handle.js';
import type { BodyOf } from '../../../src/wire/schemas/endpoint.js';
import type { Content } from '../../../src/wire/schemas/requests.js';
import { TEST_STORE } from '../../support/stores.js';
import { until } from '../../support/until.js';
import { codeOf } from '../attachments/desk.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
let owner: AccountRow;
let alice: AgentActor;
let bob: AgentActor;

beforeEach(async () => {
  stage = await openStage();
  owner = await stage.addAccount('alice');
  alice = await stage.addAgent(owner, 'main', { inbound_policy: 'open' });
  bob = await stage.addAgent(await stage.addAccount('bob'), 'main', { inbound_policy: 'open' });
});
afterEach(() => stage.close());

const findAgents = (q: string, more: { limit?: number; cursor?: string } = {}, actor = bob) =>
  stage.read((query) => searchAgents(stage.context, actor, { query: { q, limit: 20, ...more } }, query));
const handlesOf = async (q: string): Promise<string[]> =>
  (await findAgents(q)).agents.map((agent) => agent.canonical_handle);
const directory = (q: string, cursor?: string) =>
  stage.read((query) =>
    searchDirectory(stage.context, bob, { query: { q, limit: 20, ...(cursor !== undefined && { cursor }) } }, query),
  );
const change = (handle: string, body: BodyOf<'updateAgent'>) =>
  stage.write((transaction) =>
    updateAgent(
      stage.context,
      { kind: 'account', accountId: owner.id, scopes: [] },
      { path: splitHandle(handle), body },
      transaction,
    ),
  );

interface MessageFilter {
  readonly limit?: number;
  readonly session_id?: string;
  readonly counterpart?: string;
  readonly cursor?: string;
}
const find = (actor: AgentActor, q: string, more: MessageFilter = {}) =>
  stage.read((query) => searchMessages(stage.context, actor, { query: { q, limit: 20, ...more } }, query));
const contents = async (actor: AgentActor, q: string, more: MessageFilter = {}) =>
  (await find(actor, q, more)).messages.map((message) => message.content);
const say = async (actor: AgentActor, session: string, ...said: Content[]): Promise<void> => {
  for (const content of said) must(await stage.send(actor, session, { content }));
};
const catchUp = async (): Promise<void> => {
  while (await indexMessages(stage.context));
};

describe('Search › agents', () => {
  it('matches the beginnings of words in handle, name, description and skills, ignoring case and accents', async () => {
    await stage.addAgent(owner, 'research_bot', {
      display_name: 'Bibliothèque Ünïversal',
      description: 'Summarises long papers',
      skills: [{ name: 'Translation', description: 'hidden words' }],
    });
    for (const q of [
      'research',
      'bot',
      'RESEA',
      '@alice.research_bot',
      'biblioth',
      'BIBLIOTHEQUE',
      'universal',
      'summar',
    ])
      expect(await handlesOf(q), q).toEqual(['@alice.research_bot']);
    for (const q of ['transla', 'papers research', 'research alice']) expect(await handlesOf(q), q).toHaveLength(1);
    for (const q of ['esearch', 'research nothing', 'hidden', 'zz']) expect(await handlesOf(q), q).toEqual([]);
    expect(await handlesOf('alice')).toEqual(['@alice.main', '@alice.research_bot']);
  });

  it('returns the found form', async () => {
    expect((await findAgents('alice')).agents).toEqual([
      { type: 'agent', id: alice.agentId, canonical_handle: '@alice.main', display_name: 'main', image_url: null },
    ]);
  });

  it('nothing is a wildcard or an operator', async () => {
    for (const q of [
      '%%',
      '__',
      '**',
      '%lice',
      '_lice',
      'a%e',
      "' OR 1=1 --",
      'alice*x',
      '\u0000\u0000',
      '()',
      'al.ce',
    ])
      expect(await handlesOf(q), q).toEqual([]);
    expect(await handlesOf('ali*')).toEqual(['@alice.main']);
    expect(await handlesOf('"alice"')).toEqual(['@alice.main']);
  });

  it('finds nothing for one letter, signs, or accents: the minimum is two letters or digits', async () => {
    for (const q of ['a*', '*a', 'a ', 'a.', '"a"', 'a\u0301']) {
      expect(await handlesOf(q), q).toEqual([]);
      expect(await directory(q), q).toEqual({ agents: [], people: [], organizations: [] });
    }
    expect(await handlesOf('al*')).toEqual(['@alice.main']);
  });

  it('private and removed agents are hidden, from that moment on and back', async () => {
    await stage.addAgent(owner, 'secret', { visibility: 'private', display_name: 'Secret' });
    expect(await handlesOf('secret')).toEqual([]);
    await change('@alice.secret', { visibility: 'public', display_name: 'Renamed' });
    expect(await handlesOf('secret')).toEqual(['@alice.secret']);
    expect(await handlesOf('renamed')).toEqual(['@alice.secret']);
    await change('@alice.secret', { visibility: 'private' });
    expect(await handlesOf('renamed')).toEqual([]);
    await stage.write((transaction) =>
      removeAgent(
        stage.context,
        { kind: 'account', accountId: owner.id, scopes: [] },
        { path: { owner: 'alice', name: 'main' } },
        transaction,
      ),
    );
    expect(await directory('alice')).toEqual({ agents: [], people: [], organizations: [] });
  });

  it('pages cover all of them, each once; a foreign or changed cursor is VALIDATION_ERROR', async () => {
    for (let count = 0; count < 130; count += 1)
      await stage.addAgent(owner, `worker${count}`, { display_name: `worker work ${count}` });
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await findAgents('work', { limit: 7, ...(cursor !== null && { cursor }) });
      expect(page.agents.length).toBeLessThanOrEqual(7);
      seen.push(...page.agents.map((agent) => agent.id));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect([seen.length, new Set(seen).size]).toEqual([130, 130]);
    const given = String((await findAgents('work', { limit: 7 })).next_cursor);
    expect(await codeOf(findAgents('worker', { cursor: given }))).toBe('VALIDATION_ERROR');
    expect(await codeOf(findAgents('work', { cursor: given }, alice))).toBe('VALIDATION_ERROR');
    expect(await codeOf(findAgents('work', { cursor: `${given}0` }))).toBe('VALIDATION_ERROR');
  });
});

describe('Search › directory', () => {
  it('has agents, the people with public agents, no organizations, and only one page', async () => {
    const hidden = await stage.addAccount('hidden');
    await stage.addAgent(hidden, 'main', { visibility: 'private' });
    expect(await directory('alice')).toEqual({
      agents: [expect.objectContaining({ canonical_handle: '@alice.main' })],
      people: [{ type: 'person', id: owner.id, username: 'alice', display_name: 'alice', image_url: null }],
      organizations: [],
    });
    expect((await directory('hidden')).people).toEqual([]);
    expect(await codeOf(directory('alice', 'x'))).toBe('VALIDATION_ERROR');
  });

  it.runIf(TEST_STORE === 'postgres')(
    'finds a person by their new name, even if another request changes one of their agents at the same time',
    async () => {
      let hasRead = false;
      const changing = stage.write(async (transaction) => {
        const before = await findAgent(transaction, alice.agentId);
        if (before === undefined) throw new Error('no agent');
        const slow: Transaction = {
          ...transaction,
          get: async <Row>(sql: string, ...parameters: SqlValue[]) => {
            const row = await transaction.get<Row>(sql, ...parameters);
            hasRead ||= sql.includes('FROM account');
            if (hasRead) await pause(300);
            return row;
          },
        };
        await changeAgent(stage.context, slow, before, { description: 'Changed' });
      });
      await until('the change has read the old name', async () => hasRead);
      await stage.write((transaction) => renameAccount(stage.context, transaction, owner, 'Newname'));
      await changing;
      expect((await directory('newname')).people).toMatchObject([{ username: 'alice', display_name: 'Newname' }]);
    },
  );

  it('finds a person by their new name after a change of an agent that was read before it', async () => {
    await stage.write(async (transaction) => {
      const before = await findAgent(transaction, alice.agentId);
      if (before === undefined) throw new Error('no agent');
      await renameAccount(stage.context, transaction, owner, 'Newname');
      await changeAgent(stage.context, transaction, before, { description: 'Changed' });
    });
    expect((await directory('newname')).people).toMatchObject([{ username: 'alice', display_name: 'Newname' }]);
  });
});

describe.each(['before', 'after', 'between'])('Search › messages, asked %s the full text has caught up', (moment) => {
  const settle = async (): Promise<void> => {
    if (moment === 'after') await catchUp();
  };
  const halfway = async (): Promise<void> => {
    if (moment === 'between') await catchUp();
  };

  it('finds whole words, ignoring case and accents, newest first, up to the limit', async () => {
    const one = must(await stage.create(alice, {})).session_id;
    const two = must(await stage.create(alice, {})).session_id;
    await say(alice, one, 'the Zébra one');
    await halfway();
    await say(
      alice,
      two,
      [
        { type: 'text', text: 'a ZEBRA' },
        { type: 'data', data: { zebra: 'x' } },
      ],
      'zebras',
    );
    await say(alice, one, 'see the zebra, again');
    await settle();
    const all = await contents(alice, 'zebra');
    expect(all).toHaveLength(3);
    expect([all[0], all[2]]).toEqual(['see the zebra, again', 'the Zébra one']);
    expect(await contents(alice, 'zebra', { limit: 1 })).toEqual(['see the zebra, again']);
    expect(await contents(alice, 'zebra', { session_id: one })).toHaveLength(2);
    expect(await contents(alice, 'the zebra')).toHaveLength(2);
    expect(await contents(alice, 'zebra,again')).toEqual(['see the zebra, again']);
    expect(await contents(alice, 'again,zebra')).toEqual([]);
    expect(await find(alice, 'zebra', { session_id: two })).toMatchObject({
      messages: [{ session_id: two, sender: '@alice.main', sequence: 1, id: expect.stringMatching(/^msg_/) }],
    });
  });

  it('finds only sessions that the caller has joined', async () => {
    const shared = must(await stage.create(alice, { invite: [bob.handle] })).session_id;
    const own = must(await stage.create(alice, {})).session_id;
    await say(alice, shared, 'walrus here');
    await halfway();
    await say(alice, own, 'walrus alone');
    await settle();
    expect(await contents(bob, 'walrus')).toEqual([]);
    must(await stage.join(bob, shared));
    expect(await contents(bob, 'walrus')).toEqual(['walrus here']);
    for (const session_id of [own, 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV', "x') OR 1=1 --", '*'])
      expect(await contents(bob, 'walrus', { session_id })).toEqual([]);
    expect(await contents(alice, 'walrus', { counterpart: bob.handle })).toEqual(['walrus here']);
    expect(await contents(alice, 'walrus', { counterpart: '@nobody.here' })).toEqual([]);
    expect(await codeOf(find(alice, 'walrus', { counterpart: 'bob' }))).toBe('INVALID_HANDLE');
    must(await stage.leave(bob, shared));
    expect(await contents(bob, 'walrus')).toEqual([]);
  });

  it('treats nothing in a query as an operator, a wildcard or an error', async () => {
    const session = must(await stage.create(alice, {})).session_id;
    await say(alice, session, 'plain words');
    await halfway();
    await say(alice, session, 'other words: AND OR NOT NEAR', 'he said "quoted" text', '日本語の文章です');
    await settle();
    for (const q of ['plai*', 'text : plain', '*', '"', '""', "'; DROP TABLE event; --", '\u0000plainx', '()', '+-'])
      expect(await contents(alice, q), q).toEqual([]);
    expect(await contents(alice, '^plain-')).toEqual(['plain words']);
    expect(await contents(alice, 'plain OR other')).toEqual([]);
    expect(await contents(alice, 'NEAR AND words')).toEqual(['other words: AND OR NOT NEAR']);
    expect(await contents(alice, '"quoted"')).toHaveLength(1);
    expect(await contents(alice, 'plain\u0000words')).toEqual(['plain words']);
    expect(await contents(alice, '文章')).toHaveLength(1);
    expect(await contents(alice, '章文')).toEqual([]);
  });

  it('finds the newest messages of more sessions than fit into one query', async () => {
    const sessions: string[] = [];
    for (let count = 0; count < 150; count += 1) {
      sessions.push(must(await stage.create(alice, { initial_message: { content: `heron ${count}` } })).session_id);
      stage.clock.advance(1);
    }
    await halfway();
    await say(alice, String(sessions[3]), 'heron last');
    await settle();
    expect(await contents(alice, 'heron', { limit: 3 })).toEqual(['heron last', 'heron 149', 'heron 148']);
    expect(await contents(alice, 'heron', { limit: 100 })).toHaveLength(100);
    expect(await contents(alice, 'heron 0')).toEqual(['heron 0']);
  });

  it('looks in a limited number of sessions per request; a cursor continues until nothing newer is left', async () => {
    const sessions: string[] = [];
    for (let count = 0; count < 200; count += 1) {
      const content = count % 50 === 0 ? `osprey ${count}` : `heron ${count}`;
      sessions.push(must(await stage.create(alice, { initial_message: { content } })).session_id);
      stage.clock.advance(1);
    }
    await catchUp();
    const findPage = (q: string, limit: number, cursor?: string) =>
      stage.read((query) =>
        searchMessages(stage.context, alice, { query: { q, limit, ...(cursor && { cursor }) } }, query, 64),
      );
    const findPages = async (q: string, limit = 20): Promise<unknown[][]> => {
      const pages: unknown[][] = [];
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await findPage(q, limit, cursor);
        pages.push(page.messages.map(({ content }) => content));
        cursor = page.next_cursor;
      }
      return pages;
    };
    expect(await findPages('osprey')).toEqual([['osprey 150'], ['osprey 100'], ['osprey 50'], ['osprey 0']]);
    expect(await findPages('nowhere')).toEqual([[], [], [], []]);
    // Enough is found: older sessions cannot hold anything newer.
    expect(await findPages('heron', 2)).toEqual([['heron 199', 'heron 198']]);
    expect(await findPages('osprey', 1)).toEqual([['osprey 150']]);
    expect(await findPages('osprey', 2)).toEqual([['osprey 150'], ['osprey 100']]);
    const { next_cursor: cursor } = await findPage('osprey', 20);
    expect(await codeOf(findPage('heron', 20, String(cursor)))).toBe('VALIDATION_ERROR');
    expect(await codeOf(findPage('osprey', 20, 'x'))).toBe('VALIDATION_ERROR');
    expect((await find(alice, 'osprey')).next_cursor).toBeNull();
    // The newest match is in a session that changed before all of those, and the first match found is older.
    await say(alice, String(sessions[0]), 'kestrel old');
    stage.clock.advance(1);
    await say(alice, String(sessions[1]), 'kestrel new');
    for (const session of [sessions[0], ...sessions.slice(2)]) {
      stage.clock.advance(1);
      await say(alice, String(session), 'heron again');
    }
    stage.clock.advance(1);
    await say(alice, String(sessions[0]), 'heron last');
    await catchUp();
    expect((await findPages('kestrel', 1)).flat()).toEqual(['kestrel old', 'kestrel new']);
  });

  it('finds a phrase behind many messages that contain its words separately', async () => {
    const session = must(await stage.create(alice, {})).session_id;
    await say(alice, session, 'a grey-heron', '青い鳥', 'only grey');
    for (let count = 0; count < 50; count += 1) await say(alice, session, 'heron, grey', '鳥青い');
    await halfway();
    for (let count = 0; count < 50; count += 1) await say(alice, session, 'heron, grey', '鳥青い');
    await settle();
    expect(await contents(alice, 'grey-heron', { limit: 1 })).toEqual(['a grey-heron']);
    expect(await contents(alice, '青い鳥', { limit: 1 })).toEqual(['青い鳥']);
    expect(await contents(alice, 'only heron')).toEqual([]);
    expect(await contents(alice, 'grey only')).toEqual(['only grey']);
    expect(await contents(alice, 'grey heron', { limit: 100 })).toHaveLength(100);
  });
});

describe('Search › the words of a text', () => {
  it('are folded in case, width and accents', () => {
    expect(toSearchTerms('Ünï-code ＦＵＬＬ İstanbul x_y 3.14 ①')).toEqual([
      'uni',
      'code',
      'full',
      'istanbul',
      'x',
      'y',
      '3',
      '14',
      '1',
    ]);
    expect(toSearchTerms('日本go')).toEqual(['日', '本', 'go']);
    expect(toSearchTerms(' \u0000!? ')).toEqual([]);
  });

  it('are kept once each, with the pairs of a script without spaces', () => {
    expect(wordsToIndex(toSearchTerms('go 日本語 go'))).toEqual(['go', '日', '本', '語', '日本', '本語']);
    expect(wordsToFind(toSearchPhrases('日本語 go-go 鳥'))).toEqual(['日本', '本語', 'go', '鳥']);
    expect(wordsToFind(toSearchPhrases('go日本'))).toEqual(['日本', 'go']);
  });

  it('phrases are words next to each other', () => {
    const terms = toSearchTerms('one two one three');
    expect(holdsPhrases(terms, toSearchPhrases('one-three two'))).toBe(true);
    expect(holdsPhrases(terms, toSearchPhrases('two-three'))).toBe(false);
  });
});

describe('Search › the words of messages', () => {
  it('are those in the first 32,768 characters, before and after indexing', async () => {
    const { session_id: id } = must(await stage.create(alice, {}));
    const text = `beginning ${'padding '.repeat(4_200)}ending`;
    await say(alice, id, text, [
      { type: 'text', text: 'first' },
      { type: 'text', text },
      { type: 'text', text: 'last' },
    ]);
    for (const isIndexed of [false, true]) {
      if (isIndexed) await catchUp();
      expect(await contents(alice, 'beginning')).toHaveLength(2);
      expect(await contents(alice, 'first')).toHaveLength(1);
      for (const word of ['ending', 'last']) expect(await contents(alice, word), word).toEqual([]);
    }
  });

  it('find fewer messages than requested if they are large: the newest', async () => {
    const { session_id: id } = must(await stage.create(alice, {}));
    const padding = 'x'.repeat(200 * 1024);
    for (let index = 0; index < 30; index += 1) await say(alice, id, `needle ${index} ${padding}`);
    await catchUp();
    const found = (await contents(alice, 'needle', { limit: 100 })).map((text) => String(text).split(' ')[1]);
    expect(found).toEqual(['29', '28', '27', '26', '25']);
  });

  it('are all found, even if there are more than one transaction indexes', async () => {
    const session = must(await stage.create(alice, {})).session_id;
    const long = (name: string) => Array.from({ length: 4000 }, (_, index) => `${name}${index}`).join(' ');
    await say(alice, session, long('a'), long('b'), long('c'));
    expect(await indexMessages(stage.context)).toBe(true);
    expect(await indexMessages(stage.context)).toBe(false);
    for (const word of ['a0', 'b3999', 'c17']) expect(await contents(alice, word)).toHaveLength(1);
  });

  it('do not match words with the same hash', async () => {
    const session = must(await stage.create(alice, {})).session_id;
    // The two words have the same 32-bit hash (FNV-1a).
    await say(alice, session, 'liquid');
    for (let count = 0; count < 5; count += 1) await say(alice, session, 'costarring');
    await catchUp();
    expect(await contents(alice, 'liquid', { limit: 1 })).toEqual(['liquid']);
    expect(await contents(alice, 'costarring')).toHaveLength(5);
  });

  it('catches up in the background until it is stopped', async () => {
    const session = must(await stage.create(alice, {})).session_id;
    for (let count = 0; count < 120; count += 1) await say(alice, session, `otter ${count}`);
    await startIndexing(stage.context)();
    expect(await indexMessages(stage.context)).toBe(false);
    expect(await contents(alice, 'otter', { limit: 100 })).toHaveLength(100);
  });

  it('are not indexed during an outage, without a line in the log for each try', async () => {
    const outage = new OperatorError('DATABASE_LOST', 'The database is down.');
    for (const [fault, lines] of [
      [outage, 0],
      [new Error('a bug'), 1],
    ] as const) {
      const logged: unknown[] = [];
      const log = { ...stage.context.log, error: (_event: string, error?: unknown) => logged.push(error) };
      const database = { ...stage.context.database, read: () => Promise.reject(fault) };
      await startIndexing({ ...stage.context, log, database })();
      expect(logged).toHaveLength(lines);
    }
  });
});

describe('Search › messages of an account', () => {
  let second: AgentActor;
  beforeEach(async () => {
    second = await stage.addAgent(owner, 'second', { inbound_policy: 'open' });
  });
  const findAll = (q: string, agents: readonly AgentActor[] = [alice, second], limit = 20) =>
    stage.read((query) =>
      searchAccountMessages(query, owner.id, { q, agentIds: agents.map(({ agentId }) => agentId), limit }),
    );
  const saidIn = async (q: string, agents?: readonly AgentActor[], limit?: number) =>
    (await findAll(q, agents, limit)).messages.map(({ message }) => message.content);
  /** Expects the same result from the index and from messages not yet indexed. */
  const expectBoth = async (q: string, contents: readonly string[], agents?: readonly AgentActor[]): Promise<void> => {
    expect(await saidIn(q, agents)).toEqual(contents);
    await catchUp();
    expect(await saidIn(q, agents)).toEqual(contents);
  };

  it('finds what any of its agents could see, each message once, newest first', async () => {
    const both = must(await stage.create(bob, { invite: [alice.handle, second.handle] })).session_id;
    for (const agent of [alice, second]) must(await stage.join(agent, both));
    const one = must(await stage.create(second, { topic: 'One', invite: [bob.handle] })).session_id;
    await say(bob, both, 'first heron');
    await say(second, one, 'second heron');
    await expectBoth('heron', ['second heron', 'first heron']);
    await expectBoth('heron', ['first heron'], [alice]);
    expect((await findAll('second')).messages[0]).toMatchObject({
      session: { session_id: one, topic: 'One' },
      sequence: 2,
    });
  });

  it('shares the number of sessions that it searches among the agents, and says when some are left', async () => {
    for (let count = 0; count < 65; count += 1) {
      must(await stage.create(alice, { initial_message: { content: count === 0 ? 'the osprey' : 'a heron' } }));
      stage.clock.advance(1);
    }
    await catchUp();
    const agentIds = [alice.agentId, second.agentId];
    const search = (sessionsMax: number) =>
      stage.read((query) => searchAccountMessages(query, owner.id, { q: 'osprey', agentIds, limit: 20 }, sessionsMax));
    expect(await search(128)).toEqual({ messages: [], isPartial: true });
    expect(await search(256)).toMatchObject({ messages: [{ message: { content: 'the osprey' } }], isPartial: false });
  });

  it('finds nothing of sessions of others, or of those to which its agents are only invited', async () => {
    const carol = await stage.addAgent(await stage.addAccount('carol'), 'main', { inbound_policy: 'open' });
    const apart = must(await stage.create(bob, { invite: [carol.handle] })).session_id;
    const asked = must(
      await stage.create(bob, { invite: [alice.handle], initial_message: { content: 'heron before' } }),
    ).session_id;
    await say(bob, apart, 'heron apart');
    await say(bob, asked, 'heron in the meantime');
    await expectBoth('heron', []);
    must(await stage.join(alice, asked));
    await expectBoth('heron', ['heron in the meantime', 'heron before']);
  });

  it('finds what an agent saw before it left or was blocked, and nothing later', async () => {
    const session = must(await stage.create(bob, { invite: [alice.handle] })).session_id;
    must(await stage.join(alice, session));
    await say(bob, session, 'heron 1');
    must(await stage.leave(alice, session));
    await say(bob, session, ...Array.from({ length: 40 }, (_, index) => `heron later ${index}`));
    await expectBoth('heron', ['heron 1']);
    expect(await saidIn('heron', [alice, second], 1)).toEqual(['heron 1']);
    must(await stage.invite(bob, session, [alice.handle]));
    await say(bob, session, 'heron again');
    await expectBoth('heron', ['heron 1']);
  });

  it('finds its own messages behind unindexed and long ones of others', async () => {
    const own = must(await stage.create(alice, {})).session_id;
    await say(alice, own, 'heron mine');
    const apart = must(await stage.create(bob, {})).session_id;
    await say(bob, apart, ...Array.from({ length: 40 }, () => 'heron theirs'));
    await expectBoth('heron', ['heron mine']);
  });

  it('finds nothing of an agent that was removed', async () => {
    const session = must(await stage.create(second, {})).session_id;
    await say(second, session, 'heron');
    await stage.write((transaction) =>
      removeAgent(
        stage.context,
        { kind: 'account', accountId: owner.id, scopes: [] },
        { path: splitHandle(second.handle) },
        transaction,
      ),
    );
    await expectBoth('heron', [], [alice]);
  });
});
