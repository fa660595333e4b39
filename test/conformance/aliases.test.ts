import { expect } from 'vitest';

import { mustSucceed } from '../support/answers.js';
import { field } from '../support/json.js';
import { rule } from './rule.js';
import { useService } from './service.js';

// docs/contract.md "Aliases". Those of the account are in accounts.test.ts.

const service = useService();

rule('wire/Aliases/agents-me-allowlist', '/agents/me/allowlist is the acting agent’s allowlist', async () => {
  const alice = await service.actor('alice');
  const path = `/agents/${alice.owner}/${alice.name}/allowlist`;
  const added = mustSucceed(await alice.post('/agents/me/allowlist', { entries: ['@zoe.main'] }));
  expect(mustSucceed(await alice.get(path))).toEqual(added);
  expect(mustSucceed(await alice.get('/agents/me/allowlist'))).toEqual(added);
  const left = mustSucceed(await alice.delete('/agents/me/allowlist/%40zoe.main'));
  expect(mustSucceed(await alice.get(path))).toEqual(left);
});

rule('wire/Aliases/agents-me-blocks', '/agents/me/blocks is /blocks', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const block = mustSucceed(await alice.post('/agents/me/blocks', { handle: bob.handle }), 201);
  expect(field(mustSucceed(await alice.get('/blocks')), 'blocks')).toEqual([block]);
  expect(mustSucceed(await alice.get('/agents/me/blocks'))).toEqual(mustSucceed(await alice.get('/blocks')));
  const path = `/agents/me/blocks/${encodeURIComponent(bob.handle)}`;
  expect(mustSucceed(await alice.delete(path))).toEqual({ unblocked: true });
  expect(field(mustSucceed(await alice.get('/blocks')), 'blocks')).toEqual([]);
});

rule('wire/Aliases/search', '/search is /search/directory', async () => {
  const alice = await service.actor('alice');
  expect(mustSucceed(await alice.get(`/search?q=${alice.owner}`))).toEqual(
    mustSucceed(await alice.get(`/search/directory?q=${alice.owner}`)),
  );
});

rule('wire/Aliases/sockets', 'a socket opens at /connect, at / and below the base path', async () => {
  const { alice, bob } = await service.actors('alice', 'bob');
  const root = service.place.wsUrl.replace(/\/connect$/, '');
  const basePath = new URL(service.place.baseUrl).pathname;
  for (const url of [`${root}/connect`, `${root}/`, `${root}${basePath}/connect`]) {
    const socket = await alice.mustConnect(undefined, url);
    const id = await bob.mustCreate({ invite: [alice.handle] });
    await socket.mustReceiveEvent('session.invited', id);
    await socket.close();
  }
});
