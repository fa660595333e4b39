import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { mustDeny, mustSucceed } from '../support/answers.js';
import { field, keysOf, list, text } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// The specification, "Trust gates" and the allowlist and block rows; docs/contract.md.

const service = useService();

const allowlistOf = (actor: Actor): string => `/agents/${actor.owner}/${actor.name}/allowlist`;
const entryOf = (actor: Actor, entry: string): string => `${allowlistOf(actor)}/${encodeURIComponent(entry)}`;
const mustReach = async (from: Actor, to: Actor): Promise<void> => {
  mustSucceed(await from.post('/sessions', { invite: [to.handle] }), 201);
};
const mustNotReach = async (from: Actor, to: Actor): Promise<void> => {
  mustDeny(await from.post('/sessions', { invite: [to.handle] }), 404, 'NOT_FOUND');
};

rule(['wire/Agents/allowlist', 'spec/Endpoints/allowlist'], 'the whole sorted list; adding is idempotent', async () => {
  const closed = await service.actor('closed', { policy: 'allowlist' });
  const own = `@${closed.owner}.*`;
  expect(mustSucceed(await closed.get(allowlistOf(closed)))).toEqual({ entries: [own] });
  const added = mustSucceed(await closed.post(allowlistOf(closed), { entries: ['@zoe.main', '@adam.*', '@zoe.main'] }));
  expect(added).toEqual({ entries: ['@adam.*', own, '@zoe.main'].sort() });
  expect(mustSucceed(await closed.post(allowlistOf(closed), { entries: ['@zoe.main'] }))).toEqual(added);
  expect(mustSucceed(await closed.get(allowlistOf(closed)))).toEqual(added);
});

rule('wire/Agents/allowlist', 'entries are handles or @owner.*', async () => {
  const closed = await service.actor('closed', { policy: 'allowlist' });
  for (const entries of [[], ['*'], ['@*.*'], ['@a.b*'], ['zoe.main'], ['@Zoe.main'], [''], [1], 'x']) {
    const answer = await closed.post(allowlistOf(closed), { entries });
    expect([entries, answer.status, field(answer.json, 'error.code')]).toEqual([
      entries,
      400,
      expect.stringMatching(/^(VALIDATION_ERROR|INVALID_HANDLE)$/),
    ]);
  }
});

rule(
  'wire/Agents/allowlist-entry',
  'DELETE returns the list; an absent entry is 404; another agent’s list is 403',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    mustSucceed(await alice.post(allowlistOf(alice), { entries: ['@zoe.main', '@adam.*'] }));
    expect(list(mustSucceed(await alice.delete(entryOf(alice, '@adam.*'))), 'entries')).not.toContain('@adam.*');
    mustDeny(await alice.delete(entryOf(alice, '@adam.*')), 404, 'NOT_FOUND');
    mustDeny(await bob.get(allowlistOf(alice)), 403, 'FORBIDDEN');
    mustDeny(await bob.post(allowlistOf(alice), { entries: [bob.handle] }), 403, 'FORBIDDEN');
    mustDeny(await bob.delete(entryOf(alice, '@zoe.main')), 403, 'FORBIDDEN');
  },
);

rule(
  'spec/Errors/FORBIDDEN',
  'a token cannot act on another agent’s lists, whether or not that agent exists',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const foreign = await bob.get(allowlistOf(alice));
    mustDeny(foreign, 403, 'FORBIDDEN');
    expect((await bob.get('/agents/no/body/allowlist')).text).toBe(foreign.text);
  },
);

rule(
  ['wire/Trust/gate', 'spec/Service/rule-4'],
  'an invite passes if the list has the inviter’s handle or its owner’s glob, or the policy is open',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const closed = await service.actor('closed', { policy: 'allowlist' });
    await mustNotReach(alice, closed);
    mustSucceed(await closed.post(allowlistOf(closed), { entries: [alice.handle] }));
    await mustReach(alice, closed);
    await mustNotReach(bob, closed);
    mustSucceed(await closed.post(allowlistOf(closed), { entries: [`@${bob.owner}.*`] }));
    await mustReach(bob, closed);
    mustSucceed(await closed.delete(entryOf(closed, alice.handle)));
    await mustNotReach(alice, closed);
    await mustReach(closed, alice);
  },
);

rule('wire/Trust/gate', 'neither side may block the other', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  await mustReach(alice, bob);
  mustSucceed(await bob.post('/blocks', { handle: alice.handle }), 201);
  await mustNotReach(alice, bob);
  await mustNotReach(bob, alice);
  mustSucceed(await bob.delete(`/blocks/${encodeURIComponent(alice.handle)}`));
  await mustReach(alice, bob);
});

rule('wire/Trust/gate', 'a paused agent is not reached', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  await service.pause(bob);
  await mustNotReach(alice, bob);
});

rule('wire/Trust/gate', 'the gate also applies to the invite verb and to new invitees of a reopen', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const closed = await service.actor('closed', { policy: 'allowlist' });
  const id = await alice.mustCreate();
  expect(await alice.mustInvite(id, closed.handle, bob.handle)).toEqual([bob.handle]);
  await alice.mustEnd(id);
  await alice.mustReopen(id, { invite: [closed.handle] });
  expect(list(await alice.mustRead(id), 'participants')).toHaveLength(2);
});

rule('wire/Trust/new-agents', 'the owner’s own glob admits its other agents, until it is removed', async () => {
  const closed = await service.actor('closed', { policy: 'allowlist' });
  const sibling = await service.actor('sibling', { owner: closed.owner });
  await mustReach(sibling, closed);
  mustSucceed(await closed.delete(entryOf(closed, `@${closed.owner}.*`)));
  await mustNotReach(sibling, closed);
});

rule(['wire/Agents/POST-blocks', 'spec/Endpoints/blocks'], '201 the block; repeating it is the same', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const me = mustSucceed(await bob.get('/agents/me'));
  const block = mustSucceed(await alice.post('/blocks', { handle: bob.handle }), 201);
  expect(block).toEqual({
    blocked_agent_id: field(me, 'id'),
    blocked_handle: bob.handle,
    created_at: expect.any(Number),
  });
  expect(mustSucceed(await alice.post('/blocks', { handle: bob.handle }), 201)).toEqual(block);
  expect(field((await alice.get('/blocks')).json, 'blocks')).toEqual([block]);
});

rule('wire/Agents/POST-blocks', 'oneself is 400; an unknown handle is accepted and looks the same', async () => {
  const alice = await service.actor('alice');
  mustDeny(await alice.post('/blocks', { handle: alice.handle }), 400, 'VALIDATION_ERROR');
  const block = mustSucceed(await alice.post('/blocks', { handle: '@no.body' }), 201);
  expect(keysOf(block)).toEqual(['blocked_agent_id', 'blocked_handle', 'created_at']);
  expect(field(block, 'blocked_agent_id')).toMatch(/^agt_[0-7][0-9A-HJKMNP-TV-Z]{25}$/);
});

rule('wire/Agents/GET-blocks', 'blocks are listed newest first, in pages', async () => {
  const alice = await service.actor('alice');
  const handles = ['@a.one', '@a.two', '@a.three', '@a.four', '@a.five'];
  for (const handle of handles) mustSucceed(await alice.post('/blocks', { handle }), 201);
  const seen: unknown[] = [];
  for (let cursor: unknown = ''; cursor !== null; ) {
    const query = cursor === '' ? '' : `&cursor=${encodeURIComponent(String(cursor))}`;
    const json = mustSucceed(await alice.get(`/blocks?limit=2${query}`));
    expect(keysOf(json)).toEqual(['blocks', 'next_cursor']);
    seen.push(...list(json, 'blocks').map((block) => field(block, 'blocked_handle')));
    cursor = field(json, 'next_cursor');
  }
  expect(seen).toEqual(handles.toReversed());
});

rule('wire/Agents/DELETE-blocks', 'unblocking works by handle or agent id; an absent one is 404', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const remove = (name: string) => alice.delete(`/blocks/${encodeURIComponent(name)}`);
  const block = mustSucceed(await alice.post('/blocks', { handle: bob.handle }), 201);
  expect(mustSucceed(await remove(bob.handle))).toEqual({ unblocked: true });
  mustDeny(await remove(bob.handle), 404, 'NOT_FOUND');
  mustSucceed(await alice.post('/blocks', { handle: bob.handle }), 201);
  expect(mustSucceed(await remove(text(block, 'blocked_agent_id')))).toEqual({ unblocked: true });
  mustDeny(await remove(text(block, 'blocked_agent_id')), 404, 'NOT_FOUND');
});

rule(
  'wire/Trust/blocking',
  'blocking removes the blocked agent from shared active sessions, as an ordinary leave',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const id = await alice.mustCreate({ invite: [bob.handle, carol.handle] });
    await bob.mustJoin(id);
    await carol.mustJoin(id);
    const ended = await alice.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(ended);
    await alice.mustEnd(ended);
    const other = await carol.mustCreate({ invite: [bob.handle] });
    await bob.mustJoin(other);
    mustSucceed(await alice.post('/blocks', { handle: bob.handle }), 201);
    await carol.mustLeave(id);
    const [forced, voluntary] = (await alice.mustReplay(id)).slice(-2);
    expect(keysOf(forced)).toEqual(keysOf(voluntary));
    expect(forced).toMatchObject({ type: 'session.left', payload: { agent: bob.handle, reason: 'left' } });
    expect(field(voluntary, 'payload')).toEqual({ agent: carol.handle, reason: 'left' });
    expect(field(await bob.mustRead(id), 'participants.1')).toMatchObject({
      status: 'left',
      left_at: expect.any(Number),
    });
    mustDeny(await bob.post(`/sessions/${id}/messages`, { content: 'x' }), 404, 'NOT_FOUND');
    expect(field(await bob.mustRead(ended), 'participants.1.status')).toBe('joined');
    await bob.mustSend(other, 'still here');
  },
);

rule('wire/Trust/hold', 'an agent that holds strangers looks to others like one that lists agents', async () => {
  const { alice } = await service.actors('alice');
  const [holding, closed] = [
    await service.actor('holding', { policy: 'hold' }),
    await service.actor('closed', { policy: 'allowlist' }),
  ];
  const seenOf = async ({ owner, name }: Actor): Promise<string> => {
    const { status, text: shown } = await alice.get(`/agents/${owner}/${name}`);
    return `${status} ${shown.replaceAll(owner, 'OWNER').replaceAll(name, 'NAME')}`;
  };
  expect(await seenOf(holding)).toBe(await seenOf(closed));
  expect(await seenOf(holding)).toContain('"inbound_policy":"allowlist"');
  expect(text(mustSucceed(await holding.get('/agents/me')), 'inbound_policy')).toBe('hold');
  await mustNotReach(alice, holding);
  mustSucceed(await holding.post(allowlistOf(holding), { entries: [alice.handle] }));
  await mustReach(alice, holding);
});

rule(
  ['wire/Agents/knocks', 'wire/Trust/hold'],
  'refused agents are listed, latest first; DELETE returns the rest; an absent one is 404; another agent’s list is 403',
  async () => {
    const { alice, bob } = await service.actors('alice', 'bob');
    const holding = await service.actor('holding', { policy: 'hold' });
    const knocks = `/agents/${holding.owner}/${holding.name}/knocks`;
    const knockOf = ({ handle }: Actor): string => `${knocks}/${encodeURIComponent(handle)}`;
    expect(mustSucceed(await holding.get(knocks))).toEqual({ knocks: [] });
    await mustNotReach(alice, holding);
    const body = { invite: [holding.handle], initial_message: { content: 'let me in' } };
    mustDeny(await bob.post('/sessions', body), 404, 'NOT_FOUND');
    const found = list(mustSucceed(await holding.get(knocks)), 'knocks');
    expect(found).toMatchObject([
      { sender: bob.handle, text: 'let me in', times: 1 },
      { sender: alice.handle, text: null, times: 1 },
    ]);
    expect(keysOf(found[0])).toEqual(['sender', 'text', 'times', 'first_at', 'last_at'].sort());
    expect(list(mustSucceed(await holding.delete(knockOf(bob))), 'knocks')).toEqual(found.slice(1));
    mustDeny(await holding.delete(knockOf(bob)), 404, 'NOT_FOUND');
    mustDeny(await alice.get(knocks), 403, 'FORBIDDEN');
    mustDeny(await alice.delete(knockOf(alice)), 403, 'FORBIDDEN');
    mustDeny(await holding.delete(`${knocks}/nobody`), 400, 'INVALID_HANDLE');
    mustSucceed(await holding.post('/blocks', { handle: alice.handle }), 201);
    expect(mustSucceed(await holding.get(knocks))).toEqual({ knocks: [] });
  },
);
