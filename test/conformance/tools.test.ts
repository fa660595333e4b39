import { expect } from 'vitest';

import type { Actor } from '../support/actors.js';
import { mustDeny } from '../support/answers.js';
import { connect, post, subscribe, type Tools, tokenFor } from '../support/mcp-tools.js';
import { until } from '../support/until.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// docs/contract.md, "Tools for models", through the program and a real client.

const service = useService();
const getUrl = (): string => `${service.place.issuer}/mcp`;
const toolsOf = async (actor: Actor, scope?: string): Promise<Tools> =>
  connect(getUrl(), await tokenFor(service.place, actor, getUrl(), scope));

rule('wire/Tools/audience', 'a token is for the tools or for another API, not for both', async () => {
  const alice = await service.actor('alice');
  const ping = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
  for (const other of [await alice.token(), await alice.token('ws'), 'nonsense'])
    mustDeny(await post(getUrl(), other, ping), 401, 'UNAUTHORIZED');
  const own = await tokenFor(service.place, alice, getUrl());
  expect((await post(getUrl(), own, ping)).status).toBe(200);
  mustDeny(await alice.get('/agents/me', { token: own }), 401, 'UNAUTHORIZED');
  expect(await alice.connect(own)).toMatchObject({ status: 401 });
});

rule('wire/Tools/tools', 'scopes decide which tools exist; what is not yours is not there', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const reader = await toolsOf(carol, 'sessions:read');
  expect(reader.names).toEqual(['read', 'inbox', 'session_list', 'session_show', 'whoami']);
  const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'for bob' } });
  const foreign = await reader.call('read', { session_id: id });
  const missing = await reader.call('read', { session_id: 'sess_01M7Y9G2R8BA6EEBGWJC9J4TKX' });
  expect(foreign.value.error.code).toBe('NOT_FOUND');
  expect(foreign.text).toBe(missing.text);
  await reader.close();
});

rule('wire/Tools/unread', 'unconfirmed events come again, and confirmed ones do not', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const id = await alice.mustCreate({ invite: [bob.handle] });
  const tools = await toolsOf(bob);
  const page = (await tools.call('read', { wait_s: 10 })).value;
  expect(page.events.map(({ type, session_id }) => [type, session_id])).toEqual([['session.invited', id]]);
  expect((await tools.call('read')).value.events).toEqual(page.events);
  expect((await tools.call('read', { after: page.next_cursor })).value.events).toEqual([]);
  expect((await tools.call('read')).value.events).toEqual([]);
  await tools.close();
});

rule(
  'wire/Tools/resources',
  'a resource shows the current state and moves no cursor; what is not yours is not there',
  async () => {
    const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
    const id = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'for bob' } });
    await bob.mustJoin(id);
    const [tools, foreign] = [await toolsOf(bob), await toolsOf(carol)];
    expect(await tools.readResource('asp://inbox')).toContain(id);
    expect(await tools.readResource(`asp://sessions/${id}`)).toContain('for bob');
    expect((await tools.call('inbox')).value.sessions.map(({ session }) => session.id)).toEqual([id]);
    for (const uri of [`asp://sessions/${id}`, 'asp://sessions/sess_01M7Y9G2R8BA6EEBGWJC9J4TKX', 'file:///x'])
      await expect(foreign.readResource(uri)).rejects.toMatchObject({ code: -32602, data: { uri } });
    for (const each of [tools, foreign]) await each.close();
  },
);

rule('wire/Tools/subscriptions', 'a subscriber gets updates only of its own resources', async () => {
  const { alice, bob, carol } = await service.actors('alice', 'bob', 'carol');
  const [id, foreign] = [
    await alice.mustCreate({ invite: [bob.handle] }),
    await alice.mustCreate({ invite: [carol.handle] }),
  ];
  await bob.mustJoin(id);
  const uris = ['asp://inbox', `asp://sessions/${id}`, `asp://sessions/${foreign}`];
  const token = await tokenFor(service.place, bob, getUrl());
  const subscription = await subscribe(getUrl(), token, [...uris, 'file:///x']);
  expect(subscription.honored).toEqual(uris);
  await alice.mustSend(foreign, 'not for bob');
  await alice.mustSend(id, 'for bob');
  await until('both', async () => subscription.heard.length >= 2);
  expect(new Set(subscription.heard)).toEqual(new Set(uris.slice(0, 2)));
  await subscription.close();
});

rule('wire/Tools/repetition', 'a repeated write with a name, a key or the same words is done once', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const tools = await toolsOf(alice);
  const send = async (given: object) => (await tools.call('send', { to: bob.handle, text: 'x', ...given })).value;
  for (const given of [{ once: 'a name' }, { idempotency_key: 'a key' }])
    expect((await send(given)).session_id).toBe((await send(given)).session_id);
  const { session_id } = await send({ new_session: true });
  expect((await send({ new_session: true })).session_id).not.toBe(session_id);
  await bob.mustJoin(session_id);
  await bob.mustSend(session_id, 'well?');
  const replies = [1, 2].map(() => tools.call('reply', { session_id, text: 'yes' }));
  const [one, other] = await Promise.all(replies);
  expect(one?.value.message_id).toBe(other?.value.message_id);
  await tools.close();
});
