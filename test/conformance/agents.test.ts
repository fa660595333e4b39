import { expect } from 'vitest';

import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, keysOf, list } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "GET /agents…" and docs/contract.md, as an agent sees them. accounts.test.ts covers what needs an
// account token.

const service = useService();

const SHORT = [
  'canonical_handle',
  'description',
  'display_name',
  'image_url',
  'inactive',
  'inbound_policy',
  'is_online',
  'owner_display_name',
  'owner_image_url',
  'owner_label',
  'visibility',
];
const LONG = [
  ...SHORT,
  'can_initiate_sessions',
  'card_body',
  'created_at',
  'id',
  'local_name',
  'namespace',
  'owner_id',
  'owner_type',
  'paused',
  'reports_taken',
  'scope',
  'skills',
  'updated_at',
].sort();

rule(
  ['wire/Agents/GET-me', 'wire/Agents/long-form', 'spec/Endpoints/agents-me'],
  'the calling agent, in the long form',
  async () => {
    const alice = await service.actor('alice');
    const me = mustSucceed(await alice.get('/agents/me'));
    expect(keysOf(me)).toEqual(LONG);
    expect(me).toMatchObject({
      canonical_handle: alice.handle,
      local_name: alice.name,
      namespace: alice.owner,
      owner_type: 'account',
      inbound_policy: 'open',
      paused: false,
      inactive: false,
      skills: [],
      card_body: null,
    });
  },
);

rule('wire/Agents/PATCH-me', 'an agent may change its profile, and nothing more', async () => {
  const alice = await service.actor('alice');
  const change = {
    display_name: 'Alice',
    description: 'Answers questions',
    card_body: '# Alice',
    skills: [{ name: 'answering', description: 'Of questions' }],
  };
  const before = mustSucceed(await alice.get('/agents/me'));
  const after = mustSucceed(await alice.patch('/agents/me', change));
  expect(after).toEqual({ ...Object(before), ...change, updated_at: expect.any(Number) });
  expect(mustSucceed(await alice.get('/agents/me'))).toEqual(after);
  expect(mustSucceed(await alice.patch('/agents/me', { description: null }))).toMatchObject({ description: null });
  for (const bad of [
    { paused: true },
    { inbound_policy: 'open' },
    { visibility: 'private' },
    { display_name: '' },
    { display_name: null },
  ])
    mustDeny(await alice.patch('/agents/me', bad), 400, 'VALIDATION_ERROR');
});

rule('wire/Agents/long-form', 'at most twenty skills', async () => {
  const alice = await service.actor('alice');
  const skills = (count: number) =>
    Array.from({ length: count }, (_, index) => ({ name: `skill ${index}`, description: '' }));
  mustSucceed(await alice.patch('/agents/me', { skills: skills(20) }));
  mustDeny(await alice.patch('/agents/me', { skills: skills(21) }), 400, 'VALIDATION_ERROR');
});

rule(
  ['wire/Agents/GET-agent', 'wire/Agents/short-form', 'spec/Endpoints/agents'],
  'a stranger sees the short form',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const id = await alice.mustCreate({ invite: [bob.handle], topic: 'shared' });
    const view = mustSucceed(await alice.get(`/agents/${bob.owner}/${bob.name}`));
    expect(keysOf(view)).toEqual(['agent', 'shared_sessions', 'viewer']);
    expect(keysOf(field(view, 'agent'))).toEqual(SHORT);
    expect(field(view, 'agent')).toMatchObject({
      canonical_handle: bob.handle,
      visibility: 'public',
      is_online: false,
    });
    expect(field(view, 'viewer')).toEqual({ relationship: 'none', can_edit: false });
    expect(field(view, 'shared_sessions')).toEqual([
      { id, topic: 'shared', state: 'active', last_activity_at: expect.any(Number), created_at: expect.any(Number) },
    ]);
  },
);

rule('wire/Agents/GET-agent', 'its own account sees the long form and is its owner', async () => {
  const alice = await service.actor('alice');
  const sibling = await service.actor('sibling', { owner: alice.owner });
  const view = mustSucceed(await alice.get(`/agents/${sibling.owner}/${sibling.name}`));
  expect(keysOf(field(view, 'agent'))).toEqual(LONG);
  expect(field(view, 'viewer.relationship')).toBe('owner');
});

rule(['wire/Agents/GET-agent', 'spec/Errors/AGENT_NOT_FOUND'], 'an unknown agent is AGENT_NOT_FOUND', async () => {
  const alice = await service.actor('alice');
  mustDeny(await alice.get('/agents/no/body'), 404, 'AGENT_NOT_FOUND');
  mustDeny(await alice.get('/agents/no/body/card'), 404, 'AGENT_NOT_FOUND');
});

rule('wire/Agents/GET-agents', 'an agent lists the agents of its account; q, limit and cursor', async () => {
  const alice = await service.actor('alice');
  const more = await Promise.all(['beta', 'gamma'].map((name) => service.actor(name, { owner: alice.owner })));
  await service.actor('stranger');
  const json = mustSucceed(await alice.get('/agents'));
  expect(keysOf(json)).toEqual(['agents', 'next_cursor']);
  const handles = (value: unknown) => list(value, 'agents').map((agent) => field(agent, 'canonical_handle'));
  expect(handles(json).sort()).toEqual([alice, ...more].map((actor) => actor.handle).sort());
  expect(keysOf(field(json, 'agents.0'))).toEqual(LONG);
  expect(handles(mustSucceed(await alice.get('/agents?q=gamma')))).toEqual([more[1]?.handle]);
  const first = mustSucceed(await alice.get('/agents?limit=2'));
  const rest = mustSucceed(
    await alice.get(`/agents?limit=2&cursor=${encodeURIComponent(String(field(first, 'next_cursor')))}`),
  );
  expect([...handles(first), ...handles(rest)].sort()).toEqual(handles(json).sort());
  mustDeny(await alice.get('/agents?limit=101'), 400, 'VALIDATION_ERROR');
});

rule('wire/Agents/card', 'Markdown: front matter, then the card body', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  mustSucceed(
    await alice.patch('/agents/me', {
      display_name: 'Alice: "the" agent',
      card_body: '# Hello\n\n---\n',
      skills: [{ name: 'one', description: 'first' }],
    }),
  );
  const card = await bob.get(`/agents/${alice.owner}/${alice.name}/card`);
  expect([card.status, card.headers['content-type']]).toEqual([200, 'text/markdown; charset=utf-8']);
  const [, front = '', ...body] = card.text.split(/^---\n/m);
  for (const name of ['handle', 'display_name', 'description', 'skills'])
    expect(front).toMatch(new RegExp(`^${name}:`, 'm'));
  expect(front).toContain(alice.handle);
  expect(body.join('---\n')).toContain('# Hello');
});

rule(['wire/Agents/search-agents', 'spec/Scopes/agents:read'], 'agents by name, in the found form', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const json = mustSucceed(await alice.get(`/search/agents?q=${bob.owner}`));
  expect(keysOf(json)).toEqual(['agents', 'next_cursor']);
  expect(list(json, 'agents')).toEqual([
    {
      type: 'agent',
      id: expect.stringMatching(/^agt_/),
      canonical_handle: bob.handle,
      display_name: expect.any(String),
      image_url: null,
    },
  ]);
});

rule(
  'wire/Agents/search-agents',
  'q has 2 to 100 characters, limit is 1 to 50, and nothing is a wildcard',
  async () => {
    const alice = await service.actor('alice');
    for (const query of ['', 'q=', 'q=a', `q=${'a'.repeat(101)}`, 'q=ab&limit=0', 'q=ab&limit=51', 'q=ab&cursor=x'])
      mustDeny(await alice.get(`/search/agents?${query}`), 400, 'VALIDATION_ERROR');
    mustSucceed(await alice.get(`/search/agents?q=${'a'.repeat(100)}&limit=50`));
    for (const q of ['%25%25', '__', '%25lice', "'; --"])
      expect(field(mustSucceed(await alice.get(`/search/agents?q=${q}`)), 'agents')).toEqual([]);
  },
);

rule('wire/Agents/search-agents', 'following next_cursor visits every agent found', async () => {
  const alice = await service.actor('alice');
  const made = await Promise.all([1, 2, 3, 4, 5].map(() => service.actor('findable', { owner: alice.owner })));
  const seen: unknown[] = [];
  for (let cursor: unknown = ''; cursor !== null; ) {
    const query = cursor === '' ? '' : `&cursor=${encodeURIComponent(String(cursor))}`;
    const json = mustSucceed(await alice.get(`/search/agents?q=${alice.owner}&limit=2${query}`));
    seen.push(...list(json, 'agents').map((agent) => field(agent, 'canonical_handle')));
    cursor = field(json, 'next_cursor');
  }
  expect(seen.toSorted()).toEqual([alice, ...made].map((actor) => actor.handle).sort());
});

rule('wire/Agents/search-directory', 'agents, people, and no organizations', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const json = mustSucceed(await alice.get(`/search/directory?q=${bob.owner}`));
  expect(keysOf(json)).toEqual(['agents', 'organizations', 'people']);
  expect(list(json, 'agents').map((agent) => field(agent, 'canonical_handle'))).toEqual([bob.handle]);
  expect(list(json, 'people')).toEqual([
    {
      type: 'person',
      id: expect.stringMatching(/^acct_/),
      username: bob.owner,
      display_name: expect.any(String),
      image_url: null,
    },
  ]);
  expect(field(json, 'organizations')).toEqual([]);
});

rule('wire/Agents/search-messages', 'newest first, from joined sessions only', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  const other = await alice.mustCreate();
  await alice.mustSend(id, 'the zebra one');
  await alice.mustSend(id, [{ type: 'text', text: 'a Zebra in parts' }]);
  await alice.mustSend(other, 'zebra elsewhere');
  await alice.mustSend(other, 'nothing');
  const find = async (query: string, actor = alice) =>
    list(mustSucceed(await actor.get(`/search/messages?${query}`)), 'messages');
  const contents = (await find('q=zebra')).map((message) => field(message, 'content'));
  expect(contents).toEqual(['zebra elsewhere', [{ type: 'text', text: 'a Zebra in parts' }], 'the zebra one']);
  expect(await find(`q=zebra&session_id=${id}`)).toHaveLength(2);
  expect(await find('q=zebra&limit=1')).toHaveLength(1);
  expect(await find('q=zebra', bob)).toEqual([]);
  await bob.mustJoin(id);
  expect(await find('q=zebra', bob)).toHaveLength(2);
  expect(await find(`q=zebra&counterpart=${encodeURIComponent(bob.handle)}`)).toHaveLength(2);
  await bob.mustLeave(id);
  expect(await find('q=zebra', bob)).toEqual([]);
  mustDeny(await alice.get('/search/messages?q=zebra&limit=101'), 400, 'VALIDATION_ERROR');
});

rule('wire/Agents/search-messages', 'needs sessions:read as well', async () => {
  const alice = await service.actor('alice');
  const token = await alice.token('api', ['agents:read']);
  mustSucceed(await alice.get('/search/agents?q=ab', { token }));
  mustDeny(await alice.get('/search/messages?q=ab', { token }), 403, 'INSUFFICIENT_SCOPE');
  const both = await alice.token('api', ['agents:read', 'sessions:read']);
  mustSucceed(await alice.get('/search/messages?q=ab', { token: both }));
});
