// @ts-check
// With Vitest: vitest run vitest.test.mjs
import { isMessageEvent } from 'asp-cli';
import { startService } from 'asp-cli/testing';
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest';

import { notify } from './notify.mjs';

/** @type {import('asp-cli/testing').TestService} */
let service;
beforeAll(async () => {
  service = await startService({ agents: ['build.bot', 'alice.bot'] });
});
afterEach(() => service.reset());
afterAll(() => service.close());

test('the message arrives', async () => {
  await notify(service.client('@build.bot'), '@alice.bot', 'build ok');
  const { text } = await service.expectMessage({ from: '@build.bot', to: '@alice.bot' });
  expect(text).toBe('build ok');
});

test('it is sent once, even if the service loses the answer', async () => {
  service.inject({ kind: 'lost', on: 'createSession', times: 1 });
  await notify(service.client('@build.bot'), '@alice.bot', 'build ok');
  const messages = service.events().filter(isMessageEvent);
  expect(messages).toHaveLength(1);
});

test('it survives a night: the tokens of yesterday have expired', async () => {
  const client = service.client('@build.bot');
  await notify(client, '@alice.bot', 'good night');
  service.clock.advance('12h');
  await notify(client, '@alice.bot', 'good morning');
});
