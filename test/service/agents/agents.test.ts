import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createAccount } from '../../../src/service/agents/accounts.js';
import {
  createAgent,
  getActingAgent,
  getAgent,
  getAgentCard,
  listAgents,
  toAgentSummary,
  updateActingAgent,
  updateAgent,
} from '../../../src/service/agents/agents.js';
import type { AccountActor, Actor, AgentActor } from '../../../src/service/core/context.js';
import type { ServiceError } from '../../../src/service/core/errors.js';
import { removeAgent } from '../../../src/service/messaging/remove-agent.js';
import type { AccountRow } from '../../../src/service/store/accounts.js';
import { listAllowlistEntries } from '../../../src/service/store/allowlists.js';
import { insertSocket } from '../../../src/service/store/processes.js';
import { splitHandle } from '../../../src/wire/handle.js';
import type { BodyOf } from '../../../src/wire/schemas/endpoint.js';
import { codeOf } from '../attachments/desk.js';
import { must, openStage, type Stage } from '../sessions/stage.js';

let stage: Stage;
let owner: AccountRow;
let account: AccountActor;
let alice: AgentActor;
let stranger: AgentActor;

beforeEach(async () => {
  stage = await openStage();
  owner = await stage.addAccount('alice');
  account = { kind: 'account', accountId: owner.id, scopes: [] };
  alice = await stage.addAgent(owner, 'main', { inbound_policy: 'open' });
  stranger = await stage.addAgent(await stage.addAccount('bob'), 'main', { inbound_policy: 'open' });
});
afterEach(() => stage.close());

const add = (body: BodyOf<'createAgent'>, actor = account) =>
  stage.write((transaction) => createAgent(stage.context, actor, { body }, transaction));
const view = (actor: Actor, handle: string) =>
  stage.read((query) => getAgent(stage.context, actor, { path: splitHandle(handle) }, query));
const card = (actor: Actor, handle: string) =>
  stage.read((query) => getAgentCard(stage.context, actor, { path: splitHandle(handle) }, query));
const me = (actor: AgentActor) => stage.read((query) => getActingAgent(stage.context, actor, {}, query));
const say = (actor: AgentActor, body: BodyOf<'updateActingAgent'>) =>
  stage.write((transaction) => updateActingAgent(stage.context, actor, { body }, transaction));
const change = (handle: string, body: BodyOf<'updateAgent'>, actor = account) =>
  stage.write((transaction) => updateAgent(stage.context, actor, { path: splitHandle(handle), body }, transaction));
const remove = (handle: string, actor = account) =>
  stage.write((transaction) => removeAgent(stage.context, actor, { path: splitHandle(handle) }, transaction));
const list = (query: { q?: string; limit?: number; cursor?: string }, actor: Actor = account) =>
  stage.read((view) => listAgents(stage.context, actor, { query: { limit: 50, ...query } }, view));

describe('Accounts', () => {
  const sign = (username: string, isLocal = false) =>
    stage.write((transaction) =>
      createAccount(stage.context, transaction, {
        username,
        displayName: 'X',
        passwordHash: null,
        tier: 'standard',
        isLocal,
      }),
    );

  it('a username is the owner part of handles', async () => {
    for (const username of ['', 'Alice', 'a.b', 'a b', '@a', 'ä', 'a'.repeat(65)])
      expect(await codeOf(sign(username)), username).toBe('INVALID_HANDLE');
    expect(await sign('a'.repeat(64))).toMatchObject({ id: expect.stringMatching(/^acct_/), is_local: 0 });
  });

  it('is unique, and cannot pose as the service', async () => {
    for (const username of ['alice', 'admin', 'support'])
      expect(await codeOf(sign(username)), username).toBe('DUPLICATE_HANDLE');
    expect(await codeOf(sign('me'))).toBe('ok');
    expect(await codeOf(sign('admin', true))).toBe('ok');
    const race = await Promise.all(Array.from({ length: 16 }, () => codeOf(sign('carol'))));
    expect(race.filter((code) => code === 'ok')).toHaveLength(1);
  });
});

describe('Agents › POST /agents', () => {
  it('returns the long form', async () => {
    expect(await add({ local_name: 'new', display_name: 'New' })).toEqual({
      canonical_handle: '@alice.new',
      display_name: 'New',
      description: null,
      image_url: null,
      visibility: 'public',
      inbound_policy: 'allowlist',
      inactive: false,
      is_online: false,
      owner_label: 'alice',
      owner_display_name: 'alice',
      owner_image_url: null,
      id: expect.stringMatching(/^agt_/),
      local_name: 'new',
      namespace: 'alice',
      owner_type: 'account',
      owner_id: owner.id,
      scope: 'personal',
      can_initiate_sessions: true,
      paused: false,
      reports_taken: true,
      card_body: null,
      skills: [],
      created_at: stage.clock.now(),
      updated_at: stage.clock.now(),
    });
  });

  it('its allowlist starts with its owner’s own agents', async () => {
    expect(await stage.read((query) => listAllowlistEntries(query, alice.agentId))).toEqual(['@alice.*']);
  });

  it('DUPLICATE_HANDLE for a handle in use or removed earlier, and for the second of two at once', async () => {
    expect(await codeOf(add({ local_name: 'main', display_name: 'X' }))).toBe('DUPLICATE_HANDLE');
    await remove(alice.handle);
    expect(await codeOf(add({ local_name: 'main', display_name: 'X' }))).toBe('DUPLICATE_HANDLE');
    const race = await Promise.all(
      Array.from({ length: 16 }, () => codeOf(add({ local_name: 'one', display_name: 'X' }))),
    );
    expect(race.filter((code) => code === 'ok')).toHaveLength(1);
  });

  it('an open policy on a free account is FEATURE_NOT_AVAILABLE, at creation and later', async () => {
    const free = await stage.write((transaction) =>
      createAccount(stage.context, transaction, {
        username: 'free',
        displayName: 'F',
        passwordHash: null,
        tier: 'standard',
        isLocal: false,
      }),
    );
    const actor: AccountActor = { kind: 'account', accountId: free.id, scopes: [] };
    expect(await codeOf(add({ local_name: 'a', display_name: 'A', inbound_policy: 'open' }, actor))).toBe(
      'FEATURE_NOT_AVAILABLE',
    );
    await add({ local_name: 'a', display_name: 'A' }, actor);
    expect(await codeOf(change('@free.a', { inbound_policy: 'open' }, actor))).toBe('FEATURE_NOT_AVAILABLE');
    expect(await codeOf(change('@free.a', { inbound_policy: 'allowlist' }, actor))).toBe('ok');
  });
});

describe('Agents › PATCH', () => {
  it('changes only the given fields', async () => {
    const before = await me(alice);
    stage.clock.advance(5);
    const body = { description: 'd', card_body: '# c', skills: [{ name: 's', description: '' }] };
    expect(await say(alice, body)).toEqual({ ...before, ...body, updated_at: before.updated_at + 5 });
    expect(await say(alice, { description: null })).toMatchObject({ description: null, card_body: '# c' });
    const control = {
      visibility: 'private',
      inbound_policy: 'allowlist',
      can_initiate_sessions: false,
      paused: true,
    } as const;
    expect(await change(alice.handle, control)).toMatchObject({ ...control, card_body: '# c' });
    expect(await me(alice)).toMatchObject(control);
  });

  it('is only for its own account: another’s public agent is FORBIDDEN, a private one is not found', async () => {
    const other: AccountActor = { kind: 'account', accountId: stranger.accountId, scopes: [] };
    expect(await codeOf(change(alice.handle, { paused: true }, other))).toBe('FORBIDDEN');
    await change(alice.handle, { visibility: 'private' });
    expect(await codeOf(change(alice.handle, { paused: true }, other))).toBe('AGENT_NOT_FOUND');
    expect(await codeOf(remove(alice.handle, other))).toBe('AGENT_NOT_FOUND');
  });
});

describe('Agents › GET /agents/{owner}/{name}', () => {
  it('the long form for its account, the short form for others', async () => {
    expect(await view(account, alice.handle)).toMatchObject({
      agent: { id: alice.agentId, created_at: expect.any(Number) },
      viewer: { relationship: 'owner', can_edit: true },
    });
    const sibling = await stage.addAgent(owner, 'two');
    expect((await view(sibling, alice.handle)).viewer).toEqual({ relationship: 'owner', can_edit: false });
    const seen = await view(stranger, alice.handle);
    expect(seen).toMatchObject({ viewer: { relationship: 'none', can_edit: false }, shared_sessions: [] });
    expect(Object.keys(seen.agent).sort()).toEqual(
      Object.keys(toAgentSummary(stage.context, Object(seen.agent))).sort(),
    );
  });

  it('private, removed and unknown agents get the same answer for others', async () => {
    await add({ local_name: 'hidden', display_name: 'H', visibility: 'private' });
    await add({ local_name: 'gone', display_name: 'G' });
    await remove('@alice.gone');
    const answers: string[] = [];
    for (const handle of ['@alice.hidden', '@alice.gone', '@alice.never', '@nobody.never'])
      for (const look of [view, card])
        answers.push(
          await look(stranger, handle).then(
            () => 'found',
            (error: ServiceError) => JSON.stringify([error.status, error.code, error.message, error.options]),
          ),
        );
    expect(new Set(answers)).toEqual(new Set([answers[0]]));
    expect(answers[0]).toContain('AGENT_NOT_FOUND');
    expect(await codeOf(view(alice, '@alice.hidden'))).toBe('ok');
    expect(await codeOf(view(alice, '@alice.gone'))).toBe('AGENT_NOT_FOUND');
  });

  it('a malformed handle is INVALID_HANDLE', async () => {
    for (const path of [
      { owner: 'Alice', name: 'main' },
      { owner: 'a.b', name: 'c' },
      { owner: '', name: 'x' },
      { owner: 'a'.repeat(200), name: 'x' },
    ])
      expect(await codeOf(stage.read((query) => getAgent(stage.context, alice, { path }, query)))).toBe(
        'INVALID_HANDLE',
      );
  });

  it('pausing is invisible to others', async () => {
    const before = await view(stranger, alice.handle);
    await change(alice.handle, { paused: true });
    expect(await view(stranger, alice.handle)).toEqual(before);
  });

  it('is_online follows its sockets', async () => {
    await stage.write((transaction) =>
      insertSocket(transaction, { id: 'x', process_id: 'x', agent_id: alice.agentId, grant_id: 'x', opened_at: 1 }),
    );
    expect((await view(stranger, alice.handle)).agent.is_online).toBe(true);
  });

  it('is_online reveals nothing to a blocked agent, nor to others of the same owner', async () => {
    await stage.write((transaction) =>
      insertSocket(transaction, { id: 'x', process_id: 'x', agent_id: alice.agentId, grant_id: 'x', opened_at: 1 }),
    );
    await stage.block(alice, stranger);
    expect((await view(stranger, alice.handle)).agent.is_online).toBe(false);
    const account: AccountActor = { kind: 'account', accountId: stranger.accountId, scopes: [] };
    expect((await view(account, alice.handle)).agent.is_online).toBe(false);
    const third = await stage.addAgent(await stage.addAccount('third'), 'bot');
    expect((await view(third, alice.handle)).agent.is_online).toBe(true);
  });

  it('shared sessions: those the caller has joined and the other is in, latest first', async () => {
    const shared = must(await stage.create(stranger, { invite: [alice.handle], topic: 't' })).session_id;
    must(await stage.create(stranger, {}));
    const created = stage.clock.now();
    expect((await view(alice, stranger.handle)).shared_sessions).toEqual([]);
    stage.clock.advance(10);
    must(await stage.join(alice, shared));
    stage.clock.advance(10);
    const second = must(await stage.create(alice, { invite: [stranger.handle] })).session_id;
    const expected = { id: shared, topic: 't', state: 'active', last_activity_at: created + 10, created_at: created };
    expect((await view(alice, stranger.handle)).shared_sessions).toMatchObject([{ id: second }, expected]);
    expect((await view(stranger, alice.handle)).shared_sessions).toEqual([expected]);
    expect((await view(alice, alice.handle)).shared_sessions).toEqual([]);
    must(await stage.leave(alice, shared));
    expect((await view(stranger, alice.handle)).shared_sessions).toEqual([]);
    expect((await view(account, alice.handle)).shared_sessions).toEqual([]);
  });
});

describe('Agents › DELETE', () => {
  it('leaves its sessions as if on its own, loses its grants, but no one else’s, and can no longer act', async () => {
    const session = must(await stage.create(stranger, { invite: [alice.handle] })).session_id;
    must(await stage.join(alice, session));
    const sibling = await stage.addAgent(owner, 'two');
    await stage.write(async (transaction) => {
      for (const [client, family, agentId] of [
        ['oac_1', 'fam', alice.agentId],
        ['oac_2', 'of another agent', sibling.agentId],
      ] as const) {
        await transaction.run(
          `INSERT INTO oauth_client (id, kind, name, redirect_uris, scope, secret_hash, account_id, agent_id, created_at)
           VALUES ($3, 'confidential', 'n', '[]', '', 'h', $1, $2, 1)`,
          owner.id,
          agentId,
          client,
        );
        await transaction.run(
          `INSERT INTO refresh_family (id, client_id, account_id, agent_id, scope, resources, created_at, last_used_at)
           VALUES ($4, $3, $1, $2, '', '[]', 1, 1)`,
          owner.id,
          agentId,
          client,
          family,
        );
      }
    });
    stage.signals.length = 0;
    expect(await remove(alice.handle)).toBeUndefined();
    expect((await stage.eventsOf(stranger, session)).at(-1)).toMatchObject({
      type: 'session.left',
      payload: { agent: alice.handle, reason: 'left' },
    });
    expect(await codeOf(me(alice))).toBe('UNAUTHORIZED');
    expect((await list({})).agents).toMatchObject([{ id: sibling.agentId }]);
    const revoked = stage.signals.flatMap((signal) => (signal.kind === 'revoked' ? [signal.grantId] : []));
    expect(revoked.sort()).toEqual(['fam', 'oac_1']);
    expect(await codeOf(remove(alice.handle))).toBe('AGENT_NOT_FOUND');
    expect(await stage.create(stranger, { invite: [alice.handle] })).toEqual({ ok: false, code: 'NOT_FOUND' });
  });

  it('is silent where it had left before, and its owner sees nothing more of that session', async () => {
    const session = must(await stage.create(stranger, { invite: [alice.handle] })).session_id;
    must(await stage.join(alice, session));
    must(await stage.leave(alice, session));
    must(await stage.send(stranger, session, { content: 'among ourselves' }));
    const before = await stage.eventsOf(stranger, session);
    await remove(alice.handle);
    expect(await stage.eventsOf(stranger, session)).toEqual(before);
  });
});

describe('Agents › GET /agents', () => {
  it('lists the account’s own, in pages, filtered by literal text', async () => {
    for (const name of ['a_b', 'axb', 'c', 'd']) await add({ local_name: name, display_name: `100% ${name}` });
    const handles = async (query: Parameters<typeof list>[0]) =>
      (await list(query)).agents.map((agent) => agent.canonical_handle);
    expect(await handles({})).toEqual(['@alice.main', '@alice.a_b', '@alice.axb', '@alice.c', '@alice.d']);
    expect(await handles({ q: 'A_B' })).toEqual(['@alice.a_b']);
    expect(await handles({ q: '%' })).toHaveLength(4);
    expect(await handles({ q: "' OR 1=1 --" })).toEqual([]);
    const seen: string[] = [];
    let cursor: string | null = null;
    do {
      const page = await list({ limit: 2, ...(cursor !== null && { cursor }) });
      seen.push(...page.agents.map((agent) => agent.local_name));
      cursor = page.next_cursor;
    } while (cursor !== null);
    expect(seen).toEqual(['main', 'a_b', 'axb', 'c', 'd']);
    expect((await list({ limit: 5 })).next_cursor).toBeNull();
    expect((await list({}, stranger)).agents).toHaveLength(1);
  });

  it('a cursor of another account, of other filters, or changed is VALIDATION_ERROR', async () => {
    await add({ local_name: 'b', display_name: 'B' });
    const { next_cursor: cursor } = await list({ limit: 1 });
    const given = String(cursor);
    expect(await codeOf(list({ cursor: given }))).toBe('ok');
    for (const tampered of [
      `${given}A`,
      given.slice(1),
      `${given.slice(0, -2)}AA`,
      'x',
      '1e300',
      '-1',
      "' --",
      given.toUpperCase(),
    ])
      expect(await codeOf(list({ cursor: tampered })), tampered).toBe('VALIDATION_ERROR');
    expect(await codeOf(list({ cursor: given, q: 'b' }))).toBe('VALIDATION_ERROR');
    expect(await codeOf(list({ cursor: given }, stranger))).toBe('VALIDATION_ERROR');
  });
});

describe('Agents › card', () => {
  it('front matter that no text can break out of, then the body', async () => {
    const hostile = 'a: "b"\n---\nhandle: @x.y\u2028\u0085\u007f #{[]} \\';
    await say(alice, {
      display_name: hostile,
      description: hostile,
      card_body: '# Hi\n\n---\nmore\n\n',
      skills: [{ name: hostile, description: '' }],
    });
    const text = await card(stranger, alice.handle);
    const [, front = '', body] = /^---\n([\s\S]*?)\n---\n\n([\s\S]*)$/.exec(text) ?? [];
    expect(body).toBe('# Hi\n\n---\nmore\n');
    const lines = front.split('\n');
    expect(lines.map((line) => line.slice(0, line.indexOf(':')))).toEqual([
      'handle',
      'display_name',
      'description',
      'skills',
      '  - name',
      '    description',
    ]);
    expect(front).not.toMatch(/[\u2028\u0085\u007f]/);
    for (const line of [lines[1], lines[2], lines[4]])
      expect(JSON.parse(String(line).slice(String(line).indexOf(':') + 1))).toBe(hostile);
  });

  it('uses null and [] for missing values', async () => {
    expect(await card(alice, stranger.handle)).toBe(
      '---\nhandle: "@bob.main"\ndisplay_name: "main"\ndescription: null\nskills: []\n---\n',
    );
  });
});
