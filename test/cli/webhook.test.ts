import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
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

/** The path of a file with the secret that the receiver knows. */
function knownSecret(): string {
  const file = join(home.directory, 'known.secret');
  writeFileSync(file, receiver.secret, { mode: 0o600 });
  return file;
}

it('sets, shows, tests and removes a webhook, whose secret is printed once', async () => {
  expect(await home.run('webhook show ann.bot')).toMatchObject({
    code: 0,
    out: '',
    err: expect.stringMatching(/has no webhook/),
  });
  expect(await home.run('webhook test ann.bot')).toMatchObject({ code: 2, out: '' });
  const set = await home.run(`webhook set ${receiver.url()} ann.bot --signing-secret-file ${knownSecret()} --json`);
  expect(documentOf(set)).toMatchObject({
    handle: '@ann.bot',
    url: receiver.url(),
    status: 'on',
    failure: null,
    secret: null,
  });
  const shown = await home.run('webhook show ann.bot');
  expect(shown.out).toMatch(/^agent {4}@ann\.bot\nurl {6}http:\S+\nstatus {3}on\nanswered \d{4}-\S+\n$/);
  expect(await home.run('webhook test ann.bot')).toMatchObject({
    code: 0,
    err: expect.stringMatching(/The receiver answered a test/),
  });
  const renewed = await home.run(`webhook set ${receiver.url('/next')} ann.bot --new-secret`);
  expect(renewed.out).toMatch(/\nsecret {3}whsec_[A-Za-z0-9+/]{43}=\n$/);
  // The receiver does not know this secret.
  expect(renewed).toMatchObject({ code: 10, err: expect.stringMatching(/its test failed: HTTP 400\.\n.*tries again/) });
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

it('prints a new secret even if the outcome of the test cannot be learned', async () => {
  await operate(service.operator, 'POST', '/agents', { handle: '@ann.gone' });
  const server = createServer(() => void home.run('agent remove ann.gone --yes'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const { port } = server.address() as AddressInfo;
    const set = await home.run(`webhook set http://127.0.0.1:${port}/ ann.gone`);
    expect(set.code).toBe(3);
    expect(set.err).toContain('@ann.gone does not exist, or it is private.');
    expect(set.out).toMatch(/\nsecret {3}whsec_[A-Za-z0-9+/]{43}=\n$/);
  } finally {
    server.closeAllConnections();
    server.close();
  }
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

it('prints a new secret even if it does not wait for the test, and says when the old one stays', async () => {
  const silent = createServer(() => {});
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  const { port } = silent.address() as AddressInfo;
  const hasty = await home.run(`webhook set http://127.0.0.1:${port}/ ann.bot --new-secret --timeout 2s`);
  silent.closeAllConnections();
  silent.close();
  expect(hasty).toMatchObject({ code: 8, err: expect.stringMatching(/The secret is not shown again/) });
  expect(hasty.out).toMatch(/\nstatus {3}new\nsecret {3}whsec_\S+\n$/);
  await home.run(`webhook set ${receiver.url('/again')} ann.bot --signing-secret-file ${knownSecret()}`);
  const kept = await home.run(`webhook set ${receiver.url('/moved')} ann.bot`);
  expect(kept).toMatchObject({ code: 0, err: expect.stringMatching(/The secret stays the same/) });
  expect(kept.out).not.toContain('secret');
});

it('says that a receiver that answers 410 is not called again', async () => {
  await home.run(`webhook set ${receiver.url('/here')} ann.bot --signing-secret-file ${knownSecret()}`);
  receiver.answer((reply) => reply.writeHead(410).end());
  const { code, out, err } = await home.run(`webhook set ${receiver.url('/gone')} ann.bot`);
  receiver.answer();
  expect(code).toBe(10);
  // That another address was answered before says nothing about this one.
  expect(out).not.toContain('answered');
  expect(err).toMatch(/does not try again/);
});

it('says at once that nothing is sent while the agent is paused, and how to resume it', async () => {
  await operate(service.operator, 'POST', '/agents', { handle: '@ann.asleep' });
  await home.run('agent update ann.asleep --pause');
  const file = knownSecret();
  const set = `webhook set ${receiver.url('/asleep')} ann.asleep --signing-secret-file ${file} --timeout 4s --json`;
  for (const words of [set, 'webhook test ann.asleep --timeout 4s --json']) {
    const { code, out, err } = await home.run(words);
    expect({ code, out: JSON.parse(out) }).toMatchObject({ code: 10, out: { status: 'new' } });
    expect(JSON.parse(err.trim().split('\n').at(-1) ?? '')).toMatchObject({
      error: {
        message: expect.stringMatching(/sends nothing while the agent is paused/),
        outcome: 'applied',
        next: ['asp', 'agent', 'update', '@ann.asleep', '--resume'],
      },
    });
  }
  expect(await home.run('agent update @ann.asleep --resume')).toMatchObject({ code: 0 });
  expect(await home.run('webhook test ann.asleep')).toMatchObject({ code: 0 });
});

it('shows in advance whether a request has a secret, and that it cannot be read from standard input', async () => {
  const dryRun = async (words: string): Promise<unknown> =>
    documentOf(await home.run(`webhook set https://example.org/asp ann.bot --dry-run --json ${words}`))['body'];
  const url = 'https://example.org/asp';
  expect(await dryRun('')).toEqual({ url });
  expect(await dryRun('--new-secret')).toEqual({ url, secret: '(a new secret)' });
  const file = join(home.directory, 'dry.secret');
  expect(await dryRun(`--signing-secret-file ${file}`)).toEqual({ url, secret: '(a new secret)' });
  expect(existsSync(file)).toBe(false);
  writeFileSync(file, receiver.secret, { mode: 0o600 });
  expect(await dryRun(`--signing-secret-file ${file}`)).toEqual({ url, secret: `(the secret in ${file})` });
  expect(await home.run(`webhook set ${url} ann.bot --signing-secret-file -`)).toMatchObject({
    code: 2,
    err: expect.stringMatching(/cannot be standard input/),
  });
});

it('says whose agent it is if it belongs to another account', async () => {
  await operate(service.operator, 'POST', '/agents', { handle: '@zoe.bot' });
  expect(await home.run('webhook show zoe.bot')).toMatchObject({
    code: 5,
    err: expect.stringMatching(/belongs to another account/),
  });
});

it('says what is wrong with an address, and that a service calls none', async () => {
  expect(await home.run('webhook set example.org/asp ann.bot')).toMatchObject({
    code: 2,
    err: expect.stringMatching(/begins with https:/),
  });
  expect(await home.run('webhook set ftp://example.org/x ann.bot')).toMatchObject({
    code: 2,
    err: expect.stringMatching(/http or https URL/),
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
