import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { operate } from '../support/actors.js';
import { captureStreams } from '../support/captured-streams.js';
import { createTestClock } from '../support/clock.js';
import { field, text } from '../support/json.js';
import { startTestService, type TestService } from '../support/service.js';
import { documentOf, localHome } from './acting.js';
import { runWords, splitWords } from './captured-run.js';
import { type Expected, envelope, type ScriptedService, startScript } from './scripted-service.js';

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;
const SESSION = `sess_${'0'.repeat(26)}`;
const SENT = {
  call: `POST /sessions/${SESSION}/messages`,
  status: 201,
  reply: { message_id: `msg_${'0'.repeat(26)}`, sequence: 7 },
};
const BROKEN = { ...SENT, status: 500, reply: envelope('INTERNAL_ERROR') };

let service: ScriptedService | undefined;
afterEach(async () => {
  const open = service;
  service = undefined;
  await open?.close();
});

async function runAgainst(script: readonly Expected[], words: string | string[], stdin?: string) {
  service = await startScript(script);
  const ran = await runWords(words, { environment: service.environment, ...(stdin !== undefined && { stdin }) });
  return { ...ran, received: service.received };
}

const failureIn = (err: string): { next?: string[]; hint?: string; outcome: string; message: string } =>
  (JSON.parse(err.trim().split('\n').at(-1) ?? '') as { error: never }).error;

describe('--lines', () => {
  it('waits as long as the service asks, and sends every line once and in order', async () => {
    const clock = createTestClock();
    const bodies: unknown[] = [];
    let isRefused = false;
    const server = createServer((request, response) => {
      let text = '';
      request.setEncoding('utf8').on('data', (part: string) => {
        text += part;
      });
      request.on('end', () => {
        if (bodies.length === 3 && !isRefused) {
          isRefused = true;
          response.writeHead(429, { 'retry-after': '60' }).end();
          return;
        }
        bodies.push((JSON.parse(text) as { content: string }).content);
        response.writeHead(201, { 'content-type': 'application/json' }).end(JSON.stringify(SENT.reply));
      });
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const environment = {
      ASP_PROFILE: `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`,
      ASP_TOKEN: 'x',
    };
    const lines = Array.from({ length: 100 }, (_, index) => `line ${index}`);
    const streams = captureStreams({ stdin: lines.join('\n') });
    const running = runWords(['send', SESSION, '--lines', '-q'], { environment, clock, streams });
    await expect.poll(() => isRefused).toBe(true);
    clock.advance(59_999);
    expect(bodies).toHaveLength(3);
    const sentLater = (): number => {
      clock.advance(60_000);
      return bodies.length;
    };
    await expect.poll(sentLater).toBe(lines.length);
    const { code, out } = await running;
    expect(code).toBe(0);
    expect(bodies).toEqual(lines);
    expect(out.trim().split('\n')).toHaveLength(lines.length);
    server.close();
  });

  it('refuses what does not work line by line', async () => {
    for (const words of ['--dry-run', '--wait', '--edit', '-m text'])
      expect((await runWords(`send ${SESSION} --lines ${words}`, { stdin: 'a\n' })).code).toBe(2);
  });
});

describe('a write whose outcome is unknown', () => {
  it('is repeated by the printed command, with the same key and the same words', async () => {
    const words = ['send', SESSION, "it's", '--meta', 'a=b c', '--retries', '0', '--json'];
    const { err, received } = await runAgainst([BROKEN, SENT], words);
    const { next = [], outcome } = failureIn(err);
    expect(outcome).toBe('unknown');
    const again = await runWords(next.slice(1), { environment: service?.environment ?? {} });
    expect(again.code).toBe(0);
    expect(received[1]).toEqual(received[0]);
  });

  it('is reported with its key if the command line alone would not send the same text', async () => {
    const { err, received } = await runAgainst([BROKEN], `send ${SESSION} --retries 0 --json`, 'from a pipe');
    const failure = failureIn(err);
    expect(failure.next).toBeUndefined();
    expect(failure.hint).toBe(`with --idempotency-key ${received[0]?.key}, running it again cannot do it twice.`);
  });

  it('with files: the repetition uploads nothing new and asks for the same message', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'asp-file-'));
    writeFileSync(join(folder, 'a.txt'), 'text');
    const uploaded = {
      call: 'POST /attachments',
      status: 201,
      reply: { id: `att_${'A'.repeat(26)}`, filename: 'a.txt', content_type: 'text/plain', size: 4 },
    };
    const words = ['send', SESSION, 'see', '--file', join(folder, 'a.txt'), '--retries', '0', '--json'];
    const { err, received } = await runAgainst([uploaded, BROKEN, uploaded, SENT], words);
    const again = await runWords((failureIn(err).next ?? []).slice(1), { environment: service?.environment ?? {} });
    expect(again.code).toBe(0);
    expect(received.slice(2).map(({ key }) => key)).toEqual(received.slice(0, 2).map(({ key }) => key));
    expect(received[3]?.body).toEqual(received[1]?.body);
  });

  it('an upload of unknown outcome is repeated under the key of the whole command, and has its own, a UUID', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'asp-file-'));
    writeFileSync(join(folder, 'a.txt'), 'text');
    const broken = { call: 'POST /attachments', status: 500, reply: envelope('INTERNAL_ERROR') };
    const words = ['send', SESSION, 'see', '--file', join(folder, 'a.txt'), '--retries', '0', '--json'];
    const { err, received } = await runAgainst([broken, broken], words);
    const next = failureIn(err).next ?? [];
    expect(received[0]?.key).toMatch(UUID_V4);
    expect(next).not.toContain(received[0]?.key);
    await runWords(next.slice(1), { environment: service?.environment ?? {} });
    expect(received[1]?.key).toBe(received[0]?.key);
  });

  it('an end that failed after the message is repeated alone: the message is not sent again', async () => {
    const end = { call: `POST /sessions/${SESSION}/end`, status: 500, reply: envelope('INTERNAL_ERROR') };
    const { err } = await runAgainst([SENT, end], `send ${SESSION} hi --end --retries 0 --json`);
    expect(failureIn(err)).toMatchObject({
      message: expect.stringContaining('The message was sent; the session may have ended.'),
      next: ['asp', 'session', 'end', SESSION],
    });
  });
});

describe('a session that was created for several', () => {
  const CREATED = { call: 'POST /sessions', status: 201, reply: { session_id: SESSION, sequence: 2 } };
  const UNSEEN = { call: `GET /sessions/${SESSION}`, status: 500, reply: envelope('INTERNAL_ERROR') };
  const REMARK = 'Could not find out which of @a.bot, @b.bot were left out: said by the service';

  it('is reported even if the omitted agents are unknown: the message was sent', async () => {
    const ran = await runAgainst([CREATED, UNSEEN], 'send a.bot,b.bot hi --retries 0 --json');
    expect(ran.code).toBe(0);
    expect(JSON.parse(ran.out)).toMatchObject({ session_id: SESSION, sequence: 2, invited: null, omitted: null });
    expect(ran.err).toBe(`${JSON.stringify({ note: REMARK })}\n`);
    await service?.close();
    const human = await runAgainst([CREATED, UNSEEN], 'send a.bot,b.bot hi --retries 0');
    expect(human).toMatchObject({ code: 0, out: `${SESSION}\n`, err: `${REMARK}\nSent to ${SESSION}.\n` });
  });

  it('--strict cannot vouch for it then: exit 10', async () => {
    const ran = await runAgainst([CREATED, UNSEEN], 'send a.bot,b.bot hi --strict --retries 0 --json');
    expect(ran).toMatchObject({ code: 10, out: expect.stringContaining(SESSION) });
    expect(failureIn(ran.err)).toMatchObject({
      outcome: 'applied',
      message: 'Could not find out which agents were invited. The message was sent.',
    });
  });

  it('is reported in the same way by session create', async () => {
    const ran = await runAgainst([CREATED, UNSEEN], 'session create a.bot b.bot --retries 0');
    expect(ran).toMatchObject({ code: 0, out: `${SESSION}\n`, err: `${REMARK}\nCreated ${SESSION}.\n` });
  });
});

describe('at a real service', () => {
  let real: TestService;
  let home: ReturnType<typeof localHome>;
  beforeAll(async () => {
    real = await startTestService();
    await operate(real.operator, 'POST', '/agents', { handle: '@me.bot', inbound_policy: 'open' });
    home = localHome(real);
    documentOf(await home.run('login me.bot --yes --json'));
  });
  afterAll(() => real.stop());

  it('--strict: exit 10 if an agent was left out; the others have the message', async () => {
    const bob = await real.createAgent('bob');
    const ran = await home.run(splitWords(`send ${bob.handle},nobody.here hi --strict --json`));
    expect(ran.code).toBe(10);
    const sent = JSON.parse(ran.out) as { session_id: string };
    expect(sent).toMatchObject({ invited: [bob.handle], omitted: ['@nobody.here'] });
    expect(failureIn(ran.err)).toMatchObject({
      outcome: 'applied',
      message: '@nobody.here could not be invited. The message was sent.',
    });
    expect((await home.run(`send ${bob.handle},nobody.here hi --json`)).code).toBe(0);
    expect((await home.run(`send ${bob.handle} hi --strict --json`)).code).toBe(0);
  });

  it('--lines --strict: exit 10 too, after the last line', async () => {
    const bob = await real.createAgent('bob');
    const ran = await home.run(`send ${bob.handle},nobody.here --lines --strict`, { stdin: 'one\ntwo\n' });
    expect(ran.code).toBe(10);
    expect(ran.out.trim().split('\n')).toHaveLength(2);
    expect(ran.err).toContain('@nobody.here could not be invited. The messages were sent.');
  });

  it('--wait says, before it waits, that the message was sent, and where it waits for the reply', async () => {
    const dora = await real.createAgent('dora');
    const streams = captureStreams();
    const stop = new AbortController();
    const asking = home.run(`send ${dora.handle} hello --wait`, { streams, signal: stop.signal });
    await expect
      .poll(streams.err)
      .toMatch(new RegExp(`^Sent to ${dora.handle} as @me.bot.\nWaiting for a reply in sess_\\w{26}.\n$`));
    stop.abort(new Error('stopped by SIGINT'));
    expect((await asking).out).toBe('');
  });

  it.each([
    ['--end-after-reply prints the reply and ends the session', false],
    ['--end-after-reply prints the reply even if its sender ends the session first', true],
  ])('%s', async (_, isEndedFirst) => {
    const carol = await real.createAgent('carol');
    const socket = await carol.mustConnect();
    const asking = home.run(`send ${carol.handle} "how are you?" --end-after-reply --timeout 20s --json`);
    const isInvitation = (frame: unknown): boolean => field(frame, 'type') === 'session.invited';
    const session = text(await socket.mustReceive('the invitation', isInvitation), 'session_id');
    await carol.post(`/sessions/${session}/join`);
    const replied = carol.post(`/sessions/${session}/messages`, { content: 'well' });
    if (isEndedFirst) await carol.post(`/sessions/${session}/end`, {});
    await replied;
    await socket.close();
    const sent = documentOf(await asking);
    expect(sent).toMatchObject({
      session_id: session,
      state: 'ended',
      reply: { content: 'well', sender: carol.handle },
    });
    expect(documentOf(await home.run(`session show ${session} --json`))).toMatchObject({ state: 'ended' });
  });

  it('a missing scope is named, with the login that adds it', async () => {
    const reader = localHome(real);
    documentOf(await reader.run('login me.bot --yes --scopes sessions:read,agents:read --json'));
    const failure = failureIn((await reader.run('session create --json')).err);
    expect(failure).toMatchObject({
      code: 'INSUFFICIENT_SCOPE',
      outcome: 'not_applied',
      message: 'This credential lacks the scope sessions:write. Nothing was changed.',
    });
    const [, ...login] = failure.next ?? [];
    expect(login.slice(0, 3)).toEqual(['login', '@me.bot', '--scopes']);
    expect(login[3]?.split(',').sort()).toEqual(['agents:read', 'sessions:read', 'sessions:write']);
    const tail = failureIn((await reader.run('tail --json --retries 0')).err);
    expect(tail.message).toContain('realtime:read');
    expect(tail.next).toEqual(['asp', 'login', '@me.bot']);
    documentOf(await reader.run([...login, '--yes', '--json']));
    expect((await reader.run('session create')).code).toBe(0);
  });

  it('a message to oneself is not reported as sent to anyone', async () => {
    const ran = await home.run('send me.bot "a note"');
    expect(ran.code).toBe(0);
    expect(ran.err).toBe(`Written to ${ran.out.trim()}, which has no other members, as @me.bot.\n`);
    for (const words of ['send me.bot hi --wait', 'send me.bot hi --wait-for taken', 'ask me.bot hi']) {
      const { code, out, err } = await home.run(words);
      expect([words, code, out]).toEqual([words, 2, '']);
      expect(err).toContain('error: You act as @me.bot, so no one else would get this.');
    }
    const bob = await real.createAgent('bert');
    const both = documentOf(await home.run(splitWords(`send me.bot,${bob.handle} "to both" --strict --json`)));
    expect(both).toMatchObject({ invited: [bob.handle], omitted: [] });
  });
});
