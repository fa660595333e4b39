// @ts-check
// With the test runner of Node.js: node --test
import assert from 'node:assert/strict';
import { after, afterEach, before, test } from 'node:test';
import { isMessageEvent } from 'asp-cli';
import { startService } from 'asp-cli/testing';

import { notify } from './notify.mjs';

/** @type {import('asp-cli/testing').TestService} */
let service;
before(async () => {
  service = await startService({ agents: ['build.bot', 'alice.bot'] });
});
afterEach(() => service.reset());
after(() => service.close());

test('the message arrives', async () => {
  await notify(service.client('@build.bot'), '@alice.bot', 'build ok');
  const { text } = await service.expectMessage({ from: '@build.bot', to: '@alice.bot' });
  assert.equal(text, 'build ok');
});

test('it is sent once, even if the service loses the answer', async () => {
  service.inject({ kind: 'lost', on: 'createSession', times: 1 });
  await notify(service.client('@build.bot'), '@alice.bot', 'build ok');
  const messages = service.events().filter(isMessageEvent);
  assert.equal(messages.length, 1);
});

test('it survives a night: the tokens of yesterday have expired', async () => {
  const client = service.client('@build.bot');
  await notify(client, '@alice.bot', 'good night');
  service.clock.advance('12h');
  await notify(client, '@alice.bot', 'good morning');
});
