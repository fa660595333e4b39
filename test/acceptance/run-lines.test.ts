import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { text } from '../support/json.js';
import { actorIn } from '../support/operator.js';
import { until } from '../support/until.js';
import {
  createHome,
  type Home,
  isRunning,
  jsonLines,
  missing,
  type Running,
  type ServiceProcess,
  startServe,
  stopAll,
} from './program.js';

const PROGRAM = fileURLToPath(new URL('../support/programs/line-handler.py', import.meta.url));
const ME = '@demo.you';
const BOT = '@demo.bot';
const SERVE = ['--limits', 'off', '--seed', 'demo.you,demo.bot,other.bot'];

interface Payload {
  readonly id: string;
  readonly sender: string;
  readonly content: string | readonly Readonly<Record<string, unknown>>[];
  readonly metadata?: Readonly<Record<string, unknown>>;
}

interface Told {
  readonly session_id: string;
  readonly outcome: string;
  readonly exit_code: number | null;
  readonly tries: number;
}

/** The handler's process and its input, as it reports them. */
interface Seen {
  readonly pid: number;
  readonly asp: {
    readonly try: number;
    readonly hops: number;
    readonly relation: string;
    readonly recent: readonly Payload[];
  };
}

describe.skipIf(missing('python3') !== undefined)('asp run with replies as JSON', () => {
  let home: Home;
  let service: ServiceProcess;
  let me: Actor;
  const agents: Running[] = [];

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, SERVE);
    for (const handle of [ME, BOT]) expect(await home.run(['login', handle, '--yes'])).toMatchObject({ status: 0 });
    me = await signIn(ME);
  });
  afterEach(() => stopAll(agents));
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  const signIn = (handle: string): Promise<Actor> => actorIn(home, service.url, handle);
  const start = async (...words: string[]): Promise<Running> => {
    const agent = home.start(['run', '-a', BOT, '--from', 'anyone', ...words]);
    agents.push(agent);
    await agent.until('stderr', /Answering as/);
    return agent;
  };
  const startLines = (...words: string[]): Promise<Running> =>
    start('--exec', `python3 ${PROGRAM}`, '--lines', ...words);
  const open = (): Promise<string> => me.mustCreate({ invite: [BOT] });
  const replyTo = async (sessionId: string, id: string, reader = me): Promise<Payload> =>
    until(
      'the reply',
      async () => {
        const events = (await reader.mustReplay(sessionId)) as readonly { type: string; payload: Payload }[];
        return events.find(
          ({ type, payload }) => type === 'session.message' && payload.metadata?.['in_reply_to'] === id,
        )?.payload;
      },
      60_000,
    );
  const ask = async (sessionId: string, content: string): Promise<Payload> =>
    replyTo(sessionId, (await me.mustSend(sessionId, content)).id);
  const see = async (sessionId: string, content = 'look'): Promise<Seen> =>
    JSON.parse(String((await ask(sessionId, content)).content)) as Seen;
  const told = (agent: Running): readonly Told[] => jsonLines<Told>(agent.stdout());
  const stateOf = async (sessionId: string): Promise<string> =>
    text((await me.call('GET', `/sessions/${sessionId}`)).json, 'state');

  it('--lines: one program answers message after message, and learns the attempt, the relation and earlier messages', async () => {
    await startLines('--recent', '3');
    const sid = await open();
    const first = await see(sid);
    expect(first.asp).toEqual({ try: 1, hops: 1, relation: 'same owner', recent: [] });
    await me.mustSend(sid, 'reply {}');
    const third = await see(sid, 'and now?');
    expect(third.pid).toBe(first.pid);
    expect(third.asp.recent.map(({ sender, content }) => [sender, content])).toEqual([
      [ME, 'look'],
      [BOT, expect.stringContaining('"pid"')],
      [ME, 'reply {}'],
    ]);
    const stranger = await signIn('@other.bot');
    const theirs = await stranger.mustCreate({ invite: [BOT] });
    const { id } = await stranger.mustSend(theirs, 'look');
    const { content } = await replyTo(theirs, id, stranger);
    expect((JSON.parse(String(content)) as Seen).asp).toMatchObject({ relation: 'anyone', recent: [] });
  });

  it('--lines: each program has one message at a time, and --concurrency is their number', async () => {
    await startLines('--concurrency', '2');
    const sessions = await Promise.all([1, 2, 3].map(open));
    const ids = await Promise.all(sessions.map((sid) => me.mustSend(sid, 'sleep 0.5')));
    const replies = await Promise.all(sessions.map((sid, index) => replyTo(sid, ids[index]?.id ?? '')));
    const pids = replies.map(({ content }) => (JSON.parse(String(content)) as Seen).pid);
    expect(new Set(pids).size).toBe(2);
  });

  it('--lines: a session goes back to the program that it had before, if that is idle', async () => {
    await startLines('--concurrency', '2');
    const sessions = await Promise.all([open(), open()]);
    const both = await Promise.all(sessions.map((sid) => see(sid, 'sleep 0.5')));
    const again = [];
    for (const sid of sessions) again.push(await see(sid), await see(sid));
    expect(again.map(({ pid }) => pid)).toEqual([both[0]?.pid, both[0]?.pid, both[1]?.pid, both[1]?.pid]);
  });

  it('--lines: a message fails if its reply is wrong or missing, says why, and the next one is answered', async () => {
    const agent = await startLines();
    const sid = await open();
    const cases = [
      ['is not JSON', 'print hello', /a line that is not a reply: hello \(a reply is a line of JSON with event_id/],
      ['names no message', 'print {"content": "hi"}', /a line that is not a reply/],
      [
        'names another message',
        'print {"event_id": "evt_1", "content": "hi"}',
        /a reply to evt_1, which it does not have/,
      ],
      ['is not UTF-8', 'print \\xff', /text that is not UTF-8/],
      [
        'has an unknown member',
        'reply {"text": "hi"}',
        /the reply is not valid: The reply has an unknown field: "text"/,
      ],
      ['has a part of no type', 'reply {"content": [{"type": "song"}]}', /the reply is not valid: "content\.0\.type"/],
      ['names a missing file', 'reply {"files": ["/no/such.txt"]}', /\/no\/such\.txt does not exist; the sender/],
      ['says why it failed', 'reply {"error": "no idea"}', /: no idea; the sender is notified/],
      [
        'says so in many words',
        `reply {"error": "one\\n${'x'.repeat(500)}"}`,
        /: one x{100,200}…; the sender is notified/,
      ],
      ['never comes, because the program ends', 'exit 3', /the handler exited with 3; the sender/],
      ['never comes, because the program ends well', 'exit 0', /the handler exited with 0 without a reply; the sender/],
    ] as const;
    for (const [what, content, why] of cases) {
      expect(await ask(sid, content), what).toMatchObject({ metadata: { failed: true } });
      await agent.until('stderr', why);
      expect((await see(sid)).asp.try, what).toBe(1);
    }
    await agent.until('stdout', new RegExp(`(.*\\n){${2 * cases.length}}`));
    const outcomes = told(agent).map(({ outcome, tries }) => [outcome, tries]);
    expect(outcomes).toEqual(
      cases.flatMap(() => [
        ['failed', 1],
        ['replied', 1],
      ]),
    );
  });

  it('--lines: a message fails if its reply takes too long, and the next one is answered', async () => {
    const agent = await startLines('--command-timeout', '6s');
    const sid = await open();
    await see(sid);
    expect(await ask(sid, 'sleep 60')).toMatchObject({ metadata: { failed: true } });
    await agent.until('stderr', /the handler took longer than 6 s; the sender/);
    expect((await see(sid)).asp.try).toBe(1);
  });

  it('--lines: a program that closes its output, leaves it to another or never flushes it fails the message', async () => {
    // Without exec, the shell holds the output open, too.
    const agent = await start('--exec', `exec python3 ${PROGRAM}`, '--lines');
    const [closing, leaving] = await Promise.all([open(), open()]);
    const failed = { metadata: { failed: true } };
    expect(await Promise.all([ask(closing, 'close'), ask(leaving, 'detach')])).toMatchObject([failed, failed]);
    await agent.until('stderr', /: the handler closed its output; the sender/);
    await agent.until('stderr', /: the handler exited with 3; the sender/);
    agent.kill('SIGINT');
    await agent.ended;
    const silent = await start('--exec', 'exec sleep 60', '--lines', '--command-timeout', '300ms');
    expect(await ask(closing, 'hello?')).toMatchObject(failed);
    await silent.until(
      'stderr',
      /took longer than 0\.3 s \(it has printed nothing: it may have to flush its output\); the/,
    );
  });

  it('--lines: a program that has exited gets no message, even if a process that it started keeps its output open', async () => {
    const agent = await start('--exec', `exec python3 ${PROGRAM}`, '--lines');
    const sid = await open();
    const { pid } = await see(sid, 'leave');
    await until('it exits', async () => (isRunning(pid) ? undefined : true));
    expect((await see(sid)).asp.try).toBe(1);
    await agent.until('stderr', /While idle, the handler exited with 3\. A message starts it again/);
  });

  it('--lines: what an idle program prints is ignored, and said once', async () => {
    const agent = await startLines();
    const sid = await open();
    const { pid } = await see(sid, 'noise');
    await agent.until('stderr', /The handler has no message, but printed: \{"noise": 0\}/);
    expect((await see(sid, 'sleep 0.3')).pid).toBe(pid);
    expect(agent.stderr().match(/noise/g)).toHaveLength(1);
  });

  it('--lines: the time limit is for the program, not for the upload of its files', async () => {
    const agent = await startLines('--command-timeout', '4s');
    const sid = await open();
    writeFileSync(join(home.directory, 'slow.txt'), 'at last');
    const { pid } = await see(sid);
    const go = join(home.directory, 'upload');
    const { id } = await me.mustSend(sid, `hold ${go} {"files": ["slow.txt"]}`);
    await service.stop();
    writeFileSync(go, '');
    await setTimeout(4_500);
    service = await startServe(home, SERVE, service.url);
    await agent.until('stdout', /(.*\n){2}/);
    expect((await replyTo(sid, id)).content).toMatchObject([{ type: 'file', name: 'slow.txt' }]);
    expect((await see(sid)).pid).toBe(pid);
  });

  it('--lines: a program does not decide what asp says about its reply', async () => {
    await startLines();
    const sid = await open();
    const metadata = {
      ...{ kind: 'note', in_reply_to: 'msg_1', hops: 0, failed: true },
      ...{ ends_session: true, awaits_reply: true, sent_by: 'chat' },
    };
    const { id } = await me.mustSend(sid, `reply ${JSON.stringify({ content: 'done', metadata })}`);
    expect((await replyTo(sid, id)).metadata).toEqual({ kind: 'note', in_reply_to: id, hops: 1 });
    await see(sid);
  });

  it('--recent: earlier messages have at most 1 MiB', async () => {
    await startLines('--recent', '100');
    const sid = await open();
    for (let count = 1; count <= 7; count += 1) await me.mustSend(sid, `quiet ${'x'.repeat(240_000 + count)}`);
    expect(JSON.parse(String((await ask(sid, 'sizes')).content))).toEqual([4, 5, 6, 7].map((count) => 240_006 + count));
  });

  it('--lines: --tries gives a message to a new program, marked', async () => {
    const agent = await startLines('--tries', '2');
    const sid = await open();
    const { id } = await me.mustSend(sid, 'exit 3');
    await agent.until('stdout', /"failed"/);
    expect(told(agent)).toMatchObject([{ outcome: 'failed', exit_code: 3, tries: 2 }]);
    expect(id).toMatch(/^msg_/);
  });

  it('--lines: a program may end after any reply, for example to free memory', async () => {
    const agent = await startLines();
    const sid = await open();
    const seen: Seen[] = [];
    for (let count = 0; count < 5; count += 1) seen.push(await see(sid, 'last'));
    expect(new Set(seen.map(({ pid }) => pid)).size).toBe(5);
    for (const { asp } of seen) expect(asp.try).toBeLessThanOrEqual(2);
    await agent.until('stdout', /(.*\n){5}/);
    expect(told(agent).map(({ outcome }) => outcome)).toEqual(Array.from({ length: 5 }, () => 'replied'));
  });

  it('--lines: a message counts as taken when the program says so, and not before', async () => {
    await startLines();
    const sid = await open();
    const go = join(home.directory, 'go');
    const words = ['-a', ME, '--wait-for', 'taken', '--timeout'];
    expect(await home.asp(['send', sid, 'sleep 2', ...words, '1s'])).toMatchObject({ status: 8 });
    expect(await home.asp(['send', sid, `taken ${go}`, ...words, '30s'])).toMatchObject({ status: 0 });
    writeFileSync(go, '');
    await until('the answer', async () => ((await me.mustReplay(sid)).length >= 6 ? true : undefined));
  });

  it('--lines: what a program sends with asp continues the chain of automatic replies', async () => {
    await startLines();
    const sid = await open();
    const sent = await home.asp(['send', sid, `send asp send ${sid} note -a ${BOT}`, '-a', ME, '--meta', 'hops=4']);
    expect(sent).toMatchObject({ status: 0 });
    const note = await until('the note', async () => {
      const events = (await me.mustReplay(sid)) as readonly { payload: Payload }[];
      return events.find(({ payload }) => payload.content === 'note')?.payload;
    });
    expect(note.metadata).toMatchObject({ hops: 5 });
  });

  it('--lines: the input ends with the run, and a killed run takes its programs with it', async () => {
    const log = join(home.directory, 'handled.jsonl');
    const words = ['--exec', `python3 ${PROGRAM} ${log}`, '--lines'];
    const agent = await start(...words);
    const sid = await open();
    const { pid } = await see(sid);
    agent.kill('SIGINT');
    expect(await agent.ended).toMatchObject({ status: 0 });
    expect(jsonLines(readFileSync(log, 'utf8')).at(-1)).toEqual({ end: pid });

    const killed = await start(...words);
    const { id } = await me.mustSend(sid, 'sleep 3');
    const last = (): { pid: number; text: string; isMarked: boolean } | undefined =>
      jsonLines<never>(readFileSync(log, 'utf8')).at(-1);
    await until('it has the message', async () => (last()?.text === 'sleep 3' ? true : undefined));
    const first = last()?.pid ?? 0;
    killed.kill('SIGKILL');
    await killed.ended;
    await start(...words);
    expect((JSON.parse(String((await replyTo(sid, id)).content)) as Seen).asp.try).toBe(2);
    expect(isRunning(first)).toBe(false);
  });

  it('--reply-json: a reply has parts, files and metadata, and can end the session', async () => {
    writeFileSync(join(home.directory, 'report.txt'), 'all is well');
    const reply = {
      content: [{ type: 'data', data: { ok: true } }],
      files: ['report.txt'],
      metadata: { kind: 'report', hops: 99 },
      end: true,
    };
    writeFileSync(join(home.directory, 'reply.json'), JSON.stringify(reply, undefined, 2));
    const agent = await start('--exec', 'cat reply.json', '--reply-json');
    const sid = await open();
    const answer = await ask(sid, 'report');
    expect(answer.metadata).toMatchObject({ kind: 'report', hops: 1, ends_session: true });
    expect(answer.content).toEqual([
      { type: 'data', data: { ok: true } },
      expect.objectContaining({ type: 'file', name: 'report.txt', size: 11 }),
    ]);
    const [, part] = answer.content as readonly Readonly<Record<string, unknown>>[];
    const link = await me.call('GET', `/attachments/${part?.['attachment_id']}`);
    expect(await (await fetch(text(link.json, 'url'))).text()).toBe('all is well');
    await until('the end', async () => ((await stateOf(sid)) === 'ended' ? true : undefined));
    await agent.until('stdout', /\n/);
    expect(told(agent)).toMatchObject([{ outcome: 'replied', exit_code: 0 }]);

    const replayed = await home.asp(['replay', sid, '-a', BOT, '--exec', 'cat reply.json', '--reply-json']);
    expect(replayed).toMatchObject({ status: 0, stdout: expect.stringContaining('same') });
    writeFileSync(join(home.directory, 'other.txt'), 'all is well');
    const changed = `sed s/report.txt/other.txt/ reply.json`;
    expect(await home.asp(['replay', sid, '-a', BOT, '--exec', changed, '--reply-json'])).toMatchObject({ status: 13 });
  });

  it('--reply-json: an earlier run that was killed between its reply and the end leaves the end to the next one', async () => {
    const bot = await signIn(BOT);
    const sid = await open();
    await bot.post(`/sessions/${sid}/join`, {});
    const { id } = await me.mustSend(sid, 'bye');
    const metadata = { in_reply_to: id, ends_session: true };
    await bot.post(
      `/sessions/${sid}/messages`,
      { content: 'bye', metadata },
      { key: '7b0a4f7e-6f6d-4d0e-9d55-0e3f3b6d0a11' },
    );
    const agent = await start('--exec', 'cat', '--reply-json', '--since', '1m', '--cursor-file', 'other-progress.json');
    await until('the end', async () => ((await stateOf(sid)) === 'ended' ? true : undefined));
    await agent.until('stdout', /"answered"/);
  });

  it('--reply-json: a session that was reopened after such a reply stays open', async () => {
    const bot = await signIn(BOT);
    const sid = await open();
    await bot.post(`/sessions/${sid}/join`, {});
    const { id } = await me.mustSend(sid, 'bye');
    await bot.post(`/sessions/${sid}/messages`, { content: 'bye', metadata: { in_reply_to: id, ends_session: true } });
    await bot.post(`/sessions/${sid}/end`, {});
    await me.post(`/sessions/${sid}/reopen`, {});
    await bot.post(`/sessions/${sid}/join`, {});
    await me.mustSend(sid, 'still there?');
    const agent = await start('--exec', 'echo "{}"', '--reply-json', '--since', '1m', '--cursor-file', 'reopened.json');
    await agent.until('stdout', /"silent"/);
    expect(told(agent)).toContainEqual(expect.objectContaining({ session_id: sid, outcome: 'answered' }));
    expect(await stateOf(sid)).toBe('active');
  });

  it('--reply-json: blank output and a reply without content send nothing, and anything else fails the message', async () => {
    const obey = 'import json, sys, subprocess; subprocess.run(json.load(sys.stdin)["payload"]["content"], shell=True)';
    writeFileSync(join(home.directory, 'obey.py'), obey);
    const agent = await start('--exec', 'python3 obey.py', '--reply-json', '--on-failure', 'skip');
    const sid = await open();
    const cases = [
      ['echo hello', 'failed'],
      ['echo []', 'failed'],
      [`python3 -c 'print("{\\"content\\": \\"" + "x" * 270000 + "\\"}")'`, 'failed'],
      ['echo {}', 'silent'],
      ['echo', 'silent'],
      [`echo '{"content": " "}'`, 'silent'],
      [`echo '{"content": "fine"}'`, 'replied'],
    ] as const;
    for (const [command] of cases) await me.mustSend(sid, command);
    await agent.until('stdout', /"replied"/);
    const here = told(agent).filter(({ session_id }) => session_id === sid);
    expect(here.map(({ outcome }) => outcome)).toEqual(cases.map(([, outcome]) => outcome));
    await agent.until('stderr', /the output of the command is not JSON/);
    await agent.until('stderr', /the reply is larger than 256 KiB/);
  });

  it('asp replay gives a program that keeps running the recorded messages, and the ones before each', async () => {
    const agent = await startLines('--recent', '2');
    const sid = await open();
    await ask(sid, 'reply {"content": "one"}');
    await ask(sid, 'reply {"content": "two"}');
    await agent.until('stdout', /(.*\n){2}/);
    const words = ['replay', sid, '-a', BOT, '--exec', `python3 ${PROGRAM}`, '--lines', '--recent', '2', '--json'];
    const same = await home.asp(words);
    expect(same.status).toBe(0);
    expect(jsonLines<{ outcome: string }>(same.stdout).map(({ outcome }) => outcome)).toEqual(['same', 'same']);
    const look = await open();
    await ask(look, 'look');
    const recorded = await home.asp(['replay', look, ...words.slice(2)]);
    const [{ replayed }] = jsonLines<{ replayed: { messages: string[] } }>(recorded.stdout) as [never];
    expect(JSON.parse(String((replayed as { messages: string[] }).messages[0]))).toMatchObject({ asp: { recent: [] } });
  });
});
