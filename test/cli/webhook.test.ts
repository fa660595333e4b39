import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';

import { operate } from '../support/actors.js';
import { startTestService, type TestService } from '../support/service.js';
import { startWebhookReceiver, type WebhookReceiver } from '../support/webhook-receiver.js';
import { documentOf, localHome } from './acting.js';

let service: TestService;
let receiver: WebhookReceiver;
let home: ReturnType<typeof localHome>;
beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false, webhooks: 'any' });
  receiver = await startWebhookReceiver();
  await operate(service.operator, 'POST', '/agents', { handle: '@ann.bot' });
  home = localHome(service);
  await home.run('login --yes --account');
});
afterAll(async () => {
  await service.stop();
  await receiver.close();
});

it('sets, shows, tests and removes a webhook, whose secret is printed once', async () => {
  expect(await home.run('webhook show ann.bot')).toMatchObject({ code: 0, out: '', err: /has no webhook/ });
  expect(await home.run('webhook test ann.bot')).toMatchObject({ code: 2, out: '' });
  const file = join(home.directory, 'hook.secret');
  writeFileSync(file, receiver.secret, { mode: 0o600 });
  const set = await home.run(`webhook set ${receiver.url()} ann.bot --signing-secret-file ${file} --json`);
  expect(documentOf(set)).toMatchObject({
    handle: '@ann.bot',
    url: receiver.url(),
    status: 'on',
    failure: null,
    secret: null,
  });
  const shown = await home.run('webhook show ann.bot');
  expect(shown.out).toMatch(/^url {6}http:\S+\nstatus {3}on\nanswered \d{4}-\S+\n$/);
  expect(await home.run('webhook test ann.bot')).toMatchObject({ code: 0, err: /It answered a test/ });
  const renewed = await home.run(`webhook set ${receiver.url('/next')} ann.bot --new-secret`);
  expect(renewed.out).toMatch(/\nsecret {3}whsec_[A-Za-z0-9+/]{43}=\n$/);
  // The receiver does not know this secret.
  expect(renewed).toMatchObject({ code: 10, err: /its receiver did not answer a test: HTTP 400/ });
  receiver.faults.length = 0;
  expect((await home.run('webhook show ann.bot')).out).not.toContain('secret');
  expect(await home.run('webhook remove ann.bot')).toMatchObject({ code: 0, out: '@ann.bot\n' });
  expect(documentOf(await home.run('webhook show ann.bot --json'))).toEqual({
    handle: '@ann.bot',
    url: null,
    status: null,
    secret: null,
  });
});

it('makes a private file for a new secret, and refuses one that others can read or that holds none', async () => {
  const file = join(home.directory, 'made.secret');
  const set = await home.run(`webhook set ${receiver.url('/made')} ann.bot --signing-secret-file ${file}`);
  receiver.faults.length = 0;
  expect(set.err).toMatch(/Wrote a new secret/);
  expect(readFileSync(file, 'utf8')).toMatch(/^whsec_\S+\n$/);
  expect(statSync(file).mode & 0o777).toBe(0o600);
  for (const [name, text, mode] of [
    ['open.secret', receiver.secret, 0o644],
    ['word.secret', 'password', 0o600],
  ] as const) {
    writeFileSync(join(home.directory, name), text, { mode });
    const refused = await home.run(
      `webhook set ${receiver.url()} ann.bot --signing-secret-file ${join(home.directory, name)}`,
    );
    expect(refused).toMatchObject({ code: 2, out: '' });
  }
});

it('says what is wrong with an address, and that a service calls none', async () => {
  expect(await home.run('webhook set ftp://example.org/x ann.bot')).toMatchObject({
    code: 2,
    err: /http or https URL/,
  });
  const other = await startTestService();
  try {
    await operate(other.operator, 'POST', '/agents', { handle: '@eve.bot' });
    const eve = localHome(other);
    await eve.run('login --yes --account');
    const { code, err } = await eve.run('webhook show eve.bot');
    expect(code).toBe(5);
    expect(err).toMatch(/This service calls no webhooks/);
    expect(err).toMatch(/--webhooks/);
  } finally {
    await other.stop();
  }
});
