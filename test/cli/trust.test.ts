import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { documentOf, type Stage, startStage } from './acting.js';
import { optionsOf, runWords } from './captured-run.js';
import { envelope, startScript } from './scripted-service.js';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const BLOCKED = {
  call: 'POST /blocks',
  status: 201,
  reply: { blocked_handle: '@a.b', blocked_agent_id: null, created_at: 1 },
};

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(() => stage.stop());

describe('the words of allowlist and block', () => {
  it.each([
    ['allowlist add alice.bot,@bob.bot carol.*', { entries: ['@alice.bot', '@bob.bot', '@carol.*'] }],
    ['allowlists remove @carol.*', { entries: ['@carol.*'] }],
    ['allowlist apply list.txt --prune', { source: 'list.txt', isPruning: true }],
    ['allowlist check alice.bot', { handle: '@alice.bot' }],
    ['knocks dismiss alice.bot,bob.bot', { senders: ['@alice.bot', '@bob.bot'] }],
    ['block add alice.bot,alice.bot', { handles: ['@alice.bot'] }],
    [`block remove a.b agt_${'0'.repeat(26)}`, { blocked: ['@a.b', `agt_${'0'.repeat(26)}`] }],
    ['blocks list --limit 3', { limit: 3, isAll: false }],
  ])('asp %s', async (line, options) => expect(await optionsOf(line)).toMatchObject(options));

  it.each([
    ['allowlist add Alice.Bot', /not a valid allowlist entry/],
    ['allowlist add *', /not a valid allowlist entry/],
    ['allowlist check alice', /not a handle/],
    ['block add', /missing required argument/i],
    ['block remove sess_x', /is not a handle, an owner/],
    ['knock dismiss alice.*', /is not a handle/],
  ])('asp %s is refused with exit 2', async (line, said) => {
    const { code, err } = await runWords(line);
    expect(err).toMatch(said);
    expect(code).toBe(2);
  });

  it('asp allowlist add refuses more entries than one call takes, and names the command that takes them', async () => {
    const many = Array.from({ length: 1001 }, (_, at) => `a.b${at}`).join(',');
    expect(await runWords(['allowlist', 'add', many])).toMatchObject({
      code: 2,
      err: expect.stringMatching(/takes at most 1000 entries, not 1001[\s\S]* try: {2}asp allowlist apply -\n/),
    });
  });
});

describe('the allowlist', () => {
  it('can be extended, read, checked and shortened', async () => {
    const { alice } = stage;
    const added = documentOf(await stage.as(alice, 'allowlist add carol.bot dave.* --json'));
    expect(added['entries']).toEqual(expect.arrayContaining(['@carol.bot', '@dave.*']));
    expect(added).toMatchObject({ added: ['@carol.bot', '@dave.*'], idempotency_key: expect.any(String) });
    expect((await stage.as(alice, 'allowlist list')).out).toContain('@carol.bot\n');
    expect(documentOf(await stage.as(alice, 'allowlist list --json'))['items']).toContainEqual({ entry: '@dave.*' });
    const removed = await stage.as(alice, 'allowlist remove carol.bot');
    expect(removed).toMatchObject({ code: 0, out: '@carol.bot\n' });
    const again = await stage.as(alice, 'allowlist remove carol.bot');
    expect(again).toMatchObject({ code: 3, out: '' });
    expect(again.err).toContain('@carol.bot is not on the list. Nothing was changed.');
  });

  it('remove prints the entries that it removed before one that is not on it: exit 10', async () => {
    const { alice } = stage;
    await stage.as(alice, 'allowlist add erin.bot frank.bot');
    const removed = await stage.as(alice, 'allowlist remove erin.bot nobody.bot frank.bot --json');
    expect(removed.code).toBe(10);
    expect(JSON.parse(removed.out)).toMatchObject({
      removed: ['@erin.bot'],
      entries: expect.arrayContaining(['@frank.bot']),
    });
    expect(JSON.parse(removed.err).error).toMatchObject({
      message: 'Removed 1 of 3; @nobody.bot failed, and the rest were not tried.',
      hint: '@nobody.bot is not on the list. Entries must match exactly: @owner.* and @owner.name are different entries.',
      next: ['asp', 'allowlist', 'list'],
      outcome: 'applied',
    });
    expect((await stage.as(alice, 'allowlist list')).out).toContain('@frank.bot\n');
  });

  it('is set to the content of a file; --dry-run only reports; an empty file needs --yes', async () => {
    const { bob } = stage;
    const stdin = '# friends\ncarol.bot # one\n\n@dave.*\n';
    const dry = documentOf(await stage.as(bob, 'allowlist apply - --prune --dry-run --json', { stdin }));
    expect(dry).toMatchObject({ added: ['@carol.bot', '@dave.*'], applied: false });
    const applied = documentOf(await stage.as(bob, 'allowlist apply - --prune --json', { stdin }));
    expect(applied).toMatchObject({ entries: ['@carol.bot', '@dave.*'], removed: dry['removed'], applied: true });
    const more = await stage.as(bob, 'allowlist apply -', { stdin: 'erin.bot' });
    expect(more.out).toBe('+ @erin.bot\n');
    expect(await stage.as(bob, 'allowlist apply - --prune', { stdin: '' })).toMatchObject({ code: 2, out: '' });
    const wrong = await stage.as(bob, 'allowlist apply -', { stdin: 'a.b\nNo Handle\n' });
    expect(wrong.err).toContain('Standard input, line 2');
    expect((await stage.as(bob, 'allowlist apply - --prune --yes', { stdin: '' })).code).toBe(0);
    expect((await stage.as(bob, 'allowlist list')).out).toBe('');
  });

  it('check prints what admits a handle, and exits with 3 if nothing does', async () => {
    const { service } = stage;
    const closed = await service.createAgent('closed', { policy: 'allowlist' });
    await stage.as(closed, 'allowlist add carol.* dave.bot');
    expect(await stage.as(closed, 'allowlist check carol.any')).toMatchObject({ code: 0, out: '@carol.*\n' });
    expect(await stage.as(closed, 'allowlist check dave.bot')).toMatchObject({ code: 0, out: '@dave.bot\n' });
    const refused = await stage.as(closed, 'allowlist check dave.other --json');
    expect(refused.code).toBe(3);
    expect(JSON.parse(refused.out)).toMatchObject({ allowed: false, by: null });
    expect(await stage.as(stage.alice, 'allowlist check any.body')).toMatchObject({ code: 0, out: 'open\n' });
  });

  it('check says why --jq failed, even though it then fails itself', async () => {
    const closed = await stage.service.createAgent('closed', { policy: 'allowlist' });
    const { code, err } = await stage.as(closed, ['allowlist', 'check', 'any.body', '--jq', 'error("no")']);
    expect(code).toBe(3);
    expect(err).toContain('The whole document is printed, because --jq failed: no.');
  });

  it('the suggested command has the service and agent from the options of this run', async () => {
    const { service } = stage;
    const shut = await service.createAgent('shut', { policy: 'allowlist' });
    const at = ['-p', service.baseUrl, '--as', shut.handle];
    for (const [words, help] of [
      ['allowlist check any.body', 'asp allowlist add any.body'],
      ['allowlist remove any.body', 'asp allowlist list'],
      ['block remove any.body', 'asp block list'],
    ] as const) {
      const { code, err } = await stage.as(shut, [...words.split(' '), ...at]);
      expect(code).toBe(3);
      expect(err).toContain(`try:  ${[help, ...at].join(' ')}\n`);
    }
  });

  it('makes a repetition the same call with --once', async () => {
    const first = documentOf(await stage.as(stage.alice, 'allowlist add erin.bot --once x --json'));
    const second = documentOf(await stage.as(stage.alice, 'allowlist add erin.bot --once x --json'));
    expect(second['idempotency_key']).toBe(first['idempotency_key']);
  });

  it('supports --once for a list that takes several calls', async () => {
    const { service } = stage;
    const many = await service.createAgent('many');
    const stdin = Array.from({ length: 1001 }, (_, at) => `friend.n${at}`).join('\n');
    const applied = documentOf(await stage.as(many, 'allowlist apply - --once all --json', { stdin }));
    expect(applied['added']).toHaveLength(1001);
    expect(applied['entries']).toEqual(expect.arrayContaining(['@friend.n0', '@friend.n1000']));
  });
});

describe('blocks', () => {
  it('are created, listed and removed', async () => {
    const { alice, bob } = stage;
    expect(await stage.as(alice, `block add ${bob.handle}`)).toMatchObject({ code: 0, out: `${bob.handle}\n` });
    const { items } = documentOf(await stage.as(alice, 'block list --json'));
    expect(items).toMatchObject([{ blocked_handle: bob.handle, blocked_agent_id: expect.stringMatching(/^agt_/) }]);
    const piped = (await stage.as(alice, 'block list')).out.trimEnd().split('\t');
    expect(piped).toEqual([bob.handle, expect.stringMatching(/^agt_/), expect.stringMatching(/Z$/)]);
    expect(await stage.as(alice, `block remove ${bob.handle}`)).toMatchObject({ code: 0, out: `${bob.handle}\n` });
    const again = await stage.as(alice, `block remove ${bob.handle}`);
    expect(again).toMatchObject({ code: 3 });
    expect(again.err).toContain('This agent does not block');
    expect((await stage.as(alice, 'block list')).out).toBe('');
  });

  it('show each key as it would be sent with --dry-run: each a different UUID', async () => {
    const { alice } = stage;
    const words = 'block add carol.bot,dave.bot --idempotency-key mine --dry-run --jsonl';
    const lines = (await stage.as(alice, words)).out.trim().split('\n');
    const keys = lines.map((line) => JSON.parse(line).idempotency_key);
    expect(keys).toEqual([expect.stringMatching(UUID_V4), expect.stringMatching(UUID_V4)]);
    expect(new Set(keys).size).toBe(2);
    expect((await stage.as(alice, words)).out.trim().split('\n')).toEqual(lines);
  });

  it('say what was done if a later one fails: exit 10', async () => {
    const { alice, bob } = stage;
    const added = await stage.as(alice, `block add ${bob.handle},${alice.handle},carol.bot`);
    expect({ code: added.code, out: added.out }).toEqual({ code: 10, out: `${bob.handle}\n` });
    expect(added.err).toContain(`Blocked 1 of 3; ${alice.handle} failed, and the rest were not tried.`);
    expect(added.err).not.toContain('Nothing was changed');
    const removed = await stage.as(alice, `block remove ${bob.handle} carol.bot --jsonl`);
    expect({ code: removed.code, out: JSON.parse(removed.out) }).toMatchObject({
      code: 10,
      out: { blocked: bob.handle },
    });
    expect(JSON.parse(removed.err).error).toMatchObject({
      message: 'Unblocked 1 of 2; @carol.bot failed.',
      hint: expect.stringMatching(/^This agent does not block @carol\.bot\. /),
      next: ['asp', 'block', 'list'],
      outcome: 'applied',
    });
  });

  it.each([
    ['a rate limit', 429, 'RATE_LIMITED', { retry_after_ms: 120_000 }, 'The service says to wait'],
    ['an ended login', 401, 'UNAUTHORIZED', { next: ['asp', 'whoami', '--explain'] }, 'credential from ASP_TOKEN'],
  ])('keep the reason and the next command of %s after the first change', async (_, status, code, error, why) => {
    const refused = { status, reply: envelope(code), headers: { 'retry-after': '120' } };
    const service = await startScript([BLOCKED, { call: 'POST /blocks', ...refused }]);
    const ran = await runWords('block add a.b c.d --json --retries 0', service);
    expect(ran.code, ran.err).toBe(10);
    const failure = JSON.parse(ran.err).error;
    expect(failure).toMatchObject({ code: 'ASP_PARTIAL', outcome: 'applied', ...error });
    expect(failure.hint).toContain(why);
    expect(failure.hint).not.toContain('Nothing was changed');
    await service.close();
  });

  it('end with 8 if the deadline passes after the first change, and say what was done', async () => {
    let calls = 0;
    const server = createServer((_, response) => {
      calls += 1;
      if (calls > 1) return;
      response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify(BLOCKED.reply));
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const { port } = server.address() as AddressInfo;
    const environment = { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'x', ASP_WS_TOKEN: 'y' };
    const ran = await runWords('block add a.b c.d --timeout 2s', { environment });
    server.closeAllConnections();
    server.close();
    expect(ran, ran.err).toMatchObject({ code: 8, out: '@a.b\n' });
    expect(ran.err).toContain('Blocked 1 of 2 before that. The last change may have been made.');
  });

  it('refuse one’s own handle: exit 2', async () => {
    expect((await stage.as(stage.alice, `block add ${stage.alice.handle}`)).code).toBe(2);
  });
});

describe('knocks', () => {
  it('are listed with what strangers wrote, made harmless, and dismissed', async () => {
    const { service, alice } = stage;
    const holding = await service.createAgent('holding', { policy: 'hold' });
    expect(await stage.as(holding, 'knock list')).toMatchObject({ code: 0, out: '' });
    expect((await stage.as(holding, 'knock list')).err).toContain('No one is waiting.');
    const body = { invite: [holding.handle], initial_message: { content: 'let\tme\nin \u001b[31m\u202e' } };
    await alice.post('/sessions', body);
    const listed = await stage.as(holding, 'knock list');
    expect(listed.out).toMatch(new RegExp(`^${alice.handle}\\t1\\t\\d{4}-[^\\t]+\\t[^\\t\\n]+\\n$`));
    expect(listed.out).not.toMatch(/[\u001b\u202e]/);
    const { items } = documentOf(await stage.as(holding, 'knock list --json'));
    expect(items).toEqual([expect.objectContaining({ sender: alice.handle, times: 1 })]);
    expect(await stage.as(holding, ['knock', 'dismiss', alice.handle])).toMatchObject({
      code: 0,
      out: `${alice.handle}\n`,
    });
    const again = await stage.as(holding, ['knock', 'dismiss', alice.handle]);
    expect(again).toMatchObject({ code: 3, out: '' });
    expect(again.err).toContain(`${alice.handle} is not on the list of knocks.`);
  });

  it('leave the list with allowlist add, after which the stranger is admitted', async () => {
    const { service, alice } = stage;
    const holding = await service.createAgent('holding', { policy: 'hold' });
    const send = () => stage.as(alice, ['send', holding.handle, 'hello']);
    expect((await send()).code).toBe(3);
    expect((await stage.as(holding, 'knock list')).out).toContain('hello');
    await stage.as(holding, ['allowlist', 'add', alice.handle]);
    expect((await stage.as(holding, 'knock list')).out).toBe('');
    expect((await send()).code).toBe(0);
  });
});
