// @ts-check
// With the test runner of Node.js: node --test
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { isMessageEvent } from 'asp-cli';
import { startService } from 'asp-cli/testing';

import { notify } from './notify.mjs';

/** @type {import('asp-cli/testing').TestService} */
let service;
before(async () => {
  service = await startService({ agents: ['build.bot', 'alice.bot'] });
});
after(() => service.close());

test('the message arrives', async () => {
  const session = await notify(service.client('@build.bot'), '@alice.bot', 'build ok');
  const alice = service.client('@alice.bot');
  await alice.call('joinSession', { path: { session_id: session } });
  const { reply } = await alice.call('replayEvents', { path: { session_id: session } });
  const texts = reply.events.filter(isMessageEvent).map(({ payload }) => payload.content);
  assert.deepEqual(texts, ['build ok']);
});

test('it is sent once, even if the service loses the answer', async () => {
  service.inject({ kind: 'lost', on: 'createSession', times: 1 });
  const session = await notify(service.client('@build.bot'), '@alice.bot', 'build ok');
  const { reply } = await service.client('@build.bot').call('listSessions', {});
  assert.equal(reply.sessions[0]?.id, session);
  assert.equal(reply.sessions.length, 2);
});

test('it survives a night: the tokens of yesterday have expired', async () => {
  const client = service.client('@build.bot');
  await notify(client, '@alice.bot', 'good night');
  service.clock.advance('12h');
  await notify(client, '@alice.bot', 'good morning');
});
