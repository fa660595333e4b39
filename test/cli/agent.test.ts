import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { operate } from '../support/actors.js';
import { startTestService, type TestService } from '../support/service.js';
import { documentOf, localHome, type Stage, startStage } from './acting.js';
import { optionsOf, runWords } from './captured-run.js';

const ACCOUNT_LOGIN = ['asp', 'login', '--account'];

describe('the words of agent', () => {
  it.each([
    ['agent show', { handle: undefined }],
    ['agents show alice.bot', { handle: '@alice.bot' }],
    ['agent search release notes', { text: 'release notes', limit: 20 }],
    [
      'agent create alice.new --policy open --description x',
      { handle: '@alice.new', fields: { policy: 'open', description: 'x' } },
    ],
    ['agent update alice.bot --pause', { handle: '@alice.bot', paused: true }],
    ['agent update --description ""', { handle: undefined, fields: { description: '' } }],
  ])('asp %s', async (line, options) => expect(await optionsOf(line)).toMatchObject(options));

  it.each([
    ['agent search x', /2 to 100/],
    ['agent update', /Name at least one change/],
    ['agent update --pause', /Only an agent's account can change/],
    ['agent update alice.bot --pause --resume', /cannot be used together/],
    ['agent create alice.bot --policy friends', /is not one of/],
  ])('asp %s is refused with exit 2', async (line, said) => {
    const { code, err } = await runWords(line);
    expect(err).toMatch(said);
    expect(code).toBe(2);
  });
});

describe('An agent', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await startStage();
  });
  afterAll(() => stage.stop());

  it('shows itself without a handle, and others with one; --json prints the service’s object', async () => {
    const { alice, bob } = stage;
    expect(documentOf(await stage.as(alice, 'agent show --json'))).toMatchObject({
      canonical_handle: alice.handle,
      id: expect.stringMatching(/^agt_/),
    });
    const shown = await stage.as(alice, `agent show ${bob.handle}`);
    expect(shown.out).toContain(bob.handle);
    expect(shown.out).toContain('policy   open');
  });

  it('gets exit 3 for an unknown agent, without a guess', async () => {
    for (const words of ['agent show no.body', 'agent card no.body']) {
      const { code, err, out } = await stage.as(stage.alice, words);
      expect({ code, out }).toEqual({ code: 3, out: '' });
      expect(err).toContain('@no.body does not exist, or it is private.');
    }
  });

  it('reads a card as Markdown on stdout', async () => {
    const { alice, bob } = stage;
    const card = await stage.as(alice, `agent card ${bob.handle}`);
    expect(card.code).toBe(0);
    expect(card.out).toMatch(/^---\n/);
    expect(documentOf(await stage.as(alice, `agent card ${bob.handle} --json`))).toMatchObject({ handle: bob.handle });
  });

  it('lists and searches in rows, and may update itself', async () => {
    const { alice } = stage;
    const updated = documentOf(await stage.as(alice, ['agent', 'update', '--description', 'zebra tamer', '--json']));
    expect(updated).toMatchObject({ canonical_handle: alice.handle, description: 'zebra tamer' });
    expect((await stage.as(alice, 'agent list')).out).toContain(alice.handle);
    const found = documentOf(await stage.as(stage.bob, 'agent search zebra --json'));
    expect(found).toMatchObject({ items: [{ canonical_handle: alice.handle }], next_cursor: null });
    expect(await stage.as(stage.bob, 'agent search nothinglikeit')).toMatchObject({ code: 0, out: '' });
  });

  it('gets the options that show more of a list that is cut, even with --limit', async () => {
    const { alice, bob } = stage;
    for (const topic of ['one', 'two']) await stage.as(alice, `session create ${bob.handle} --topic ${topic}`);
    for (const [words, more] of [
      ['session list --limit 1', 'There are more than these: use a higher --limit, or --all.\n'],
      ['inbox --limit 1', 'This is the latest one. Not every session was checked: use a higher --limit, or --all.\n'],
    ] as const) {
      const { err } = await stage.as(words.startsWith('inbox') ? bob : alice, words);
      expect(err.endsWith(more), err).toBe(true);
    }
    expect((await stage.as(alice, 'session list --limit 2')).err).toBe('');
  });

  it('cannot do what only its account may: exit 5, and the error says how', async () => {
    const owner = stage.alice.owner;
    const { code, err } = await stage.as(stage.alice, `agent create ${owner}.second --json`);
    expect(code).toBe(5);
    expect(JSON.parse(err).error).toMatchObject({
      code: 'FORBIDDEN',
      outcome: 'not_applied',
      next: ACCOUNT_LOGIN,
    });
  });

  it('sends nothing with --dry-run of create, update and remove', async () => {
    for (const words of ['agent create x.new', 'agent update x.new --pause', 'agent remove x.new']) {
      const { out, err } = await stage.as(stage.alice, `${words} --dry-run --json`);
      expect(JSON.parse(out)).toMatchObject({ url: expect.stringContaining('/agents') });
      expect(err).toContain('Nothing was sent');
    }
  });
});

describe('An account', () => {
  let service: TestService;
  let home: ReturnType<typeof localHome>;
  beforeAll(async () => {
    service = await startTestService();
    await operate(service.operator, 'POST', '/agents', { handle: '@ann.bot' });
    home = localHome(service);
  });
  afterAll(() => service.stop());

  it('needs a sign-in of the account, and says how', async () => {
    const { code, err } = await home.run('agent create ann.second --json');
    expect(code).toBe(4);
    expect(JSON.parse(err).error).toMatchObject({ code: 'ASP_NO_CREDENTIAL', next: ACCOUNT_LOGIN });
  });

  it('knows which service to sign in at, if several run here', async () => {
    const file = join(home.directory, 'run', 'asp-cli', 'serve', 'default.json');
    const only = readFileSync(file, 'utf8');
    const record = JSON.parse(only) as object;
    const other = { ...record, url: 'http://127.0.0.1:1/v1' };
    writeFileSync(file, JSON.stringify({ ...record, earlier: [other] }), { mode: 0o600 });
    const { err } = await home.run('agent create ann.second --json');
    const { next } = (JSON.parse(err) as { error: { next: string[] } }).error;
    expect(next).toEqual([...ACCOUNT_LOGIN, '-p', service.baseUrl]);
    // Another one has started in the meantime.
    writeFileSync(file, JSON.stringify({ ...other, earlier: [record] }), { mode: 0o600 });
    const fresh = [...next.slice(1), '--yes'];
    expect((await home.run(fresh)).err).toContain(`Signed in at ${service.baseUrl}.`);
    expect(await home.run('logout --all')).toMatchObject({ code: 0 });
    writeFileSync(file, only, { mode: 0o600 });
  });

  it('creates, changes and removes agents once the account is signed in', async () => {
    const signedIn = documentOf(await home.run('login --yes --account --json'));
    expect(signedIn).toMatchObject({ handle: null, scopes: ['account:read', 'account:agents:read'] });
    expect(await home.run('agent create ann.second')).toMatchObject({ code: 0, out: '@ann.second\n' });
    expect(await home.run('agent create ann.second')).toMatchObject({ code: 6, out: '' });
    const foreign = await home.run('agent create eve.bot');
    expect(foreign).toMatchObject({ code: 2, out: '' });
    expect(foreign.err).toContain('asp agent create ann.bot');
    const paused = documentOf(await home.run('agent update ann.second --pause --json'));
    expect(paused).toMatchObject({ canonical_handle: '@ann.second', paused: true });
    expect(await home.run('agent remove ann.second')).toMatchObject({ code: 2, out: '' });
    expect(await home.run('agent remove ann.second -y')).toMatchObject({ code: 0, out: '@ann.second\n' });
  });

  it('needs separate sign-ins for scopes of the account and of an agent: exit 2', async () => {
    expect(await home.run('login --yes --scopes account:read,sessions:read')).toMatchObject({ code: 2, out: '' });
  });

  it('keeps the sign-ins of its agents', async () => {
    expect(await home.run('login @ann.bot --yes')).toMatchObject({ code: 0, out: '@ann.bot\n' });
    expect(await home.run('whoami')).toMatchObject({ code: 0, out: '@ann.bot\n' });
  });
});
