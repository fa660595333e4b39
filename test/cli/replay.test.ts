import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Actor } from '../support/actors.js';
import { captureStreams } from '../support/captured-streams.js';
import { until } from '../support/until.js';
import { type Stage, startStage } from './acting.js';
import { freshHome, type Ran, type RunOptions, runWords } from './captured-run.js';
import { watchRequests } from './every-option/sent-requests.js';

const SDK_AGENT = fileURLToPath(new URL('../support/programs/acp-sdk-agent.mjs', import.meta.url));
const ME = '@t.bot';
const YOU = '@t.you';
const SESSION = 'sess_01J00000000000000000000000';

type Event = Readonly<Record<string, unknown>>;

/** Builds a recording with one event per line. */
class Recorder {
  readonly events: Event[] = [];

  add(type: string, payload: object, session = SESSION): this {
    const sequence = this.events.length + 1;
    this.events.push({
      type,
      session_id: session,
      event_id: `evt_${sequence}`,
      sequence,
      created_at: sequence,
      payload,
    });
    return this;
  }

  says(sender: string, content: unknown, metadata?: object, session = SESSION): this {
    const sequence = this.events.length + 1;
    const message = { id: `msg_${sequence}`, session_id: session, sender, sequence, content, created_at: sequence };
    return this.add('session.message', { ...message, ...(metadata !== undefined && { metadata }) }, session);
  }
}

function fileOf(events: readonly Event[] | string, name = 'recording.jsonl'): string {
  const path = join(freshHome(), name);
  writeFileSync(
    path,
    typeof events === 'string' ? events : events.map((event) => `${JSON.stringify(event)}\n`).join(''),
  );
  return path;
}

const replayFile = (
  path: string,
  exec: string,
  words: readonly string[] = [],
  options: RunOptions = {},
): Promise<Ran> => runWords(['replay', path, '--as', ME, '--exec', exec, ...words], options);

/** Replays a recording with a command. Returns the exit code and the verdict on each message. */
async function verdicts(recorder: Recorder, exec: string, words: readonly string[] = []): Promise<unknown[]> {
  const { code, out } = await replayFile(fileOf(recorder.events), exec, [...words, '--json']);
  const lines = out.split('\n').slice(0, -1);
  return [code, ...lines.map((line) => (JSON.parse(line) as { outcome: string }).outcome)];
}

/** Prints the text of the message. */
const SAID = `node -p 'JSON.parse(require("fs").readFileSync(0,"utf8")).payload.content'`;

describe('asp replay of a session', () => {
  let stage: Stage;
  let alice: Actor;
  let bob: Actor;
  beforeAll(async () => {
    stage = await startStage({ areLimitsOn: false });
    ({ alice, bob } = stage);
  });
  afterAll(() => stage.stop());

  /** Runs this command as bob's agent until it has answered every message. */
  async function record(exec: string, texts: readonly string[]): Promise<string> {
    const session = await alice.mustCreate({ invite: [bob.handle] });
    const streams = captureStreams({ stdin: 'terminal' });
    const words = ['run', '--from', 'anyone', '--exec', exec, '--count', String(texts.length)];
    const ended = stage.as(bob, words, { streams });
    await until('the agent answers', async () => streams.err().includes('Answering as'));
    for (const text of texts) await alice.mustSend(session, text);
    expect((await ended).code).toBe(0);
    return session;
  }

  const eventsOf = async (): Promise<number> => {
    const { sessions } = (await bob.get('/sessions?limit=100')).json as { sessions: { id: string }[] };
    const counts = await Promise.all(sessions.map(async ({ id }) => (await alice.mustReplay(id)).length));
    return counts.reduce((sum, count) => sum + count, 0);
  };

  it('exits with 0 if the command gives the same answers, else shows the difference and exits with 13, and sends nothing', async () => {
    const session = await record('echo "you said:"; cat | head -c 9 >/dev/null; echo done', ['one', 'two']);
    const before = await eventsOf();
    const requests = watchRequests();
    const same = await stage.as(bob, ['replay', session, '--exec', 'echo you said:; echo done']);
    expect(same).toMatchObject({ code: 0, err: 'All 2 replies are the same. Nothing was sent.\n' });
    expect(same.out).toMatch(/^same {7}3 {2}@alice\S+: one\nsame {7}\d {2}@alice\S+: two\n$/);
    const exec = 'test "$ASP_SEQUENCE" = 3 && echo you said:; echo DONE';
    const different = await stage.as(bob, ['replay', session, '--exec', exec]);
    expect(different.code).toBe(13);
    expect(different.out).toContain('one\n    -done\n    +DONE\ndifferent');
    expect(different.out).toContain('two\n    -you said:\n    -done\n    +DONE\n');
    expect(different.err).toContain('2 of 2 replies differ from the recording.');
    requests.stop();
    expect(requests.sent.filter(({ method }) => method !== 'GET')).toEqual([]);
    expect(requests.sent.length).toBeGreaterThan(0);
    expect(await eventsOf()).toBe(before);
  });

  it('gives the command the same input as asp run, and tells it that this is a replay', async () => {
    const log = join(freshHome(), 'log');
    const exec = `{ env | grep ^ASP_ | sort; cat; } >> ${log}; echo pong`;
    const session = await record(exec, ['$(one)', 'two\nlines']);
    const recorded = readFileSync(log, 'utf8');
    writeFileSync(log, '');
    expect((await stage.as(bob, ['replay', session, '--exec', exec])).code).toBe(0);
    expect(recorded).toContain(`ASP_AGENT=${bob.handle}\n`);
    expect(readFileSync(log, 'utf8').replaceAll('ASP_REPLAY=1\n', '')).toBe(recorded);
  });

  it('reads the output of asp session export and asp tail, without calling a service', async () => {
    const session = await record('cat >/dev/null; echo pong', ['one', 'two']);
    const folder = freshHome();
    const exported = await stage.as(bob, ['session', 'export', session, '-o', join(folder, 'a.jsonl')]);
    expect(exported.code).toBe(0);
    const tailed = await stage.as(alice, ['tail', session, '--no-follow', '-n', '100']);
    writeFileSync(join(folder, 'recorded'), tailed.out);
    for (const name of ['a.jsonl', 'recorded']) {
      const words = ['replay', name, '--as', bob.handle, '--exec', 'echo pong', '--json'];
      const options = { machine: { workingDirectory: folder } };
      const { code, out } = await runWords(words, options);
      expect({ code, lines: out.split('\n').length - 1 }).toEqual({ code: 0, lines: 2 });
    }
    const piped = await runWords(['replay', '-', '--as', bob.handle, '--exec', 'echo pong'], { stdin: tailed.out });
    expect(piped.code).toBe(0);
  });
});

describe('asp replay of a file', () => {
  it('prints a line of JSON for each message, with both answers', async () => {
    const recorder = new Recorder().says(YOU, 'price?').says(ME, '20 EUR', { in_reply_to: 'msg_1' });
    const { code, out } = await replayFile(fileOf(recorder.events), 'echo 30 EUR', ['--json']);
    expect(code).toBe(13);
    expect(JSON.parse(out)).toEqual({
      session_id: SESSION,
      event_id: 'evt_1',
      message_id: 'msg_1',
      sequence: 1,
      from: YOU,
      content: 'price?',
      outcome: 'different',
      recorded: { outcome: 'replied', messages: ['20 EUR'], why: null },
      replayed: { outcome: 'replied', messages: ['30 EUR'], why: null },
      exit_code: 0,
      tries: 1,
      duration_ms: expect.any(Number),
    });
  });

  it('finds the answer that names the message, even a late one, and otherwise the next message', async () => {
    const recorder = new Recorder()
      .says(YOU, 'a')
      .says(YOU, 'b')
      .says(ME, 'b', { in_reply_to: 'msg_2' })
      .says(ME, 'a', { in_reply_to: 'msg_1' })
      .says(YOU, 'c')
      .says(ME, 'c');
    expect(await verdicts(recorder, SAID)).toEqual([0, 'same', 'same', 'same']);
    recorder.says('@t.other', 'd').says(YOU, 'e').says(ME, 'no', { in_reply_to: 'msg_7' }).says(ME, 'e');
    expect(await verdicts(recorder, SAID, ['--from', YOU])).toEqual([0, 'same', 'same', 'same', 'same']);
  });

  it('compares trimmed text, a single text part as text, and data by its members', async () => {
    const parts = (...content: object[]): Recorder => new Recorder().says(YOU, 'x').says(ME, content);
    const text = { type: 'text', text: ' pong\n' };
    const data = { type: 'data', data: { a: 1, b: 2 } };
    expect(await verdicts(parts(text), 'echo pong')).toEqual([0, 'same']);
    expect(await verdicts(parts(text, data), 'echo pong')).toEqual([13, 'different']);
    const { out } = await replayFile(fileOf(parts(data).events), `printf '{"a":1,"b":2}'`);
    expect(out).toContain('    -[[{"type":"data","data":{"a":1,"b":2}}]]\n    +["{\\"a\\":1,\\"b\\":2}"]\n');
  });

  it('recognizes silence, a failure, and several answers', async () => {
    const silent = new Recorder().says(YOU, 'x');
    expect(await replayFile(fileOf(silent.events), 'true')).toMatchObject({
      code: 2,
      err: expect.stringContaining('is not in this recording'),
    });
    silent.add('session.joined', { agent: ME });
    expect(await verdicts(silent, 'true')).toEqual([0, 'same']);
    expect((await replayFile(fileOf(silent.events), 'echo hi')).out).toContain('    -(no reply)\n    +hi\n');
    const failed = new Recorder().says(YOU, 'x').says(ME, 'Sorry', { in_reply_to: 'msg_1', failed: true });
    expect(await verdicts(failed, 'exit 3')).toEqual([0, 'same']);
    const { out } = await replayFile(fileOf(silent.events), 'exit 3');
    expect(out).toContain('    -(no reply)\n    +(failed: the command exited with 3)\n');
    const twice = new Recorder().says(YOU, 'x').says(ME, 'a').says(ME, 'b');
    expect((await replayFile(fileOf(twice.events), 'echo a')).out).toContain('    -\n    -b\n');
  });

  it('replays only what the agent received: nothing before its invitation or after it left, none of its own messages, no failure notice', async () => {
    const recorder = new Recorder()
      .says(YOU, 'before')
      .add('session.invited', { invitee: ME, by: YOU })
      .says(YOU, 'between')
      .add('session.joined', { agent: ME })
      .says(YOU, 'in')
      .says(YOU, 'broken', { failed: true, in_reply_to: 'msg_0' })
      .add('session.left', { agent: ME, reason: 'left' })
      .says(YOU, 'after')
      .says('@t.other', 'elsewhere', undefined, SESSION.replace('1J', '2J'));
    const { out } = await replayFile(fileOf(recorder.events), 'true', ['--json']);
    const contents = out
      .split('\n')
      .slice(0, -1)
      .map((line) => (JSON.parse(line) as { content: string }).content);
    expect(contents).toEqual(['between', 'in', 'elsewhere']);
    expect(await verdicts(recorder, 'true', ['--from', '@t.other'])).toEqual([0, 'same']);
  });

  it('--ignore leaves out what matches, even with a pattern that backtracks forever', async () => {
    const recorder = new Recorder().says(YOU, 'x').says(ME, 'at 10:15, id a1b2, ok');
    const exec = 'echo at 11:20, id ffff, ok';
    expect(await verdicts(recorder, exec, ['--ignore', '[0-9]+:[0-9]+'])).toEqual([13, 'different']);
    const both = ['--ignore', '[0-9]+:[0-9]+', '--ignore', 'id [0-9a-f]+'];
    expect(await verdicts(recorder, exec, both)).toEqual([0, 'same']);
    const long = new Recorder().says(YOU, 'x').says(ME, 'a'.repeat(60));
    expect(await verdicts(long, `echo ${'a'.repeat(60)}`, ['--ignore', '(a+)+b'])).toEqual([0, 'same']);
    const wrong = await replayFile(fileOf(recorder.events), 'true', ['--ignore', '(']);
    expect(wrong).toMatchObject({ code: 2, err: expect.stringContaining("--ignore '(' is not a regular expression") });
  });

  it('stops a command that takes too long, retries one that fails, and exits if it cannot be run', async () => {
    const recorder = new Recorder().says(YOU, 'x').says(ME, 'pong');
    const late = await replayFile(fileOf(recorder.events), 'sleep 60', ['--command-timeout', '100ms']);
    expect(late.out).toContain('+(failed: the command took longer than 0.1 s)');
    const again = `test "$ASP_TRY" = 2 && echo pong`;
    expect(await verdicts(recorder, again)).toEqual([13, 'different']);
    expect(await verdicts(recorder, again, ['--tries', '2'])).toEqual([0, 'same']);
    const none = await replayFile(fileOf(recorder.events), './nowhere');
    expect(none).toMatchObject({ code: 2, err: expect.stringContaining('The command of --exec cannot be run') });
  });

  it('names the message at which a program hung when the deadline passes', async () => {
    const recorder = new Recorder().says(YOU, 'one').says(ME, 'pong').says(YOU, 'two\nlines').says(ME, 'pong');
    const path = fileOf(recorder.events);
    const hanging = 'test "$ASP_SEQUENCE" = 1 && echo pong || sleep 60';
    const { code, out, err } = await replayFile(path, hanging, ['--timeout', '2s']);
    expect(code).toBe(8);
    expect(out).toBe(`same       1  ${YOU}: one\n`);
    expect(err).toContain(`The deadline passed before message 3 was answered (${YOU}: two lines).`);
    expect(err).toContain('set a deadline of 2s; 1 reply was compared before it.');
    const log = join(freshHome(), 'agent.jsonl');
    const turns = fileOf(new Recorder().says(YOU, 'slow').says(ME, 'no').events);
    const words = ['replay', turns, '--as', ME, '--acp', `node ${SDK_AGENT} ${log}`, '--timeout', '5s'];
    expect(await runWords(words)).toMatchObject({
      code: 8,
      err: expect.stringContaining('before message 1 was answered'),
    });
  });

  it('says that an agent program did not answer initialize, if the deadline passes before it does', async () => {
    const path = fileOf(new Recorder().says(YOU, 'x').says(ME, 'pong').events);
    const words = ['replay', path, '--as', ME, '--acp', 'sleep 60', '--timeout', '1s', '--json'];
    const { code, err } = await runWords(words);
    expect(code).toBe(8);
    expect((JSON.parse(err) as { error: object }).error).toMatchObject({
      code: 'ASP_TIMEOUT',
      message: "The agent program of --acp did not answer 'initialize' before the deadline passed.",
      hint: 'no message was given to it. --timeout or ASP_TIMEOUT set a deadline of 1s.',
    });
  });

  it('gives an agent program each message as a turn, keeps nothing, and grants only what --allow names', async () => {
    const folder = freshHome();
    const log = join(folder, 'agent.jsonl');
    const recorder = new Recorder()
      .says(YOU, 'one')
      .says(ME, 's1 heard one')
      .says(YOU, 'quiet')
      .says(YOU, 'permission edit')
      .says(ME, 'edit: no')
      .says(YOU, 'permission read')
      .says(ME, 'read: no');
    const path = fileOf(recorder.events);
    const words = ['replay', path, '--as', ME, '--acp', `node ${SDK_AGENT} ${log}`, '--allow', 'read', '--json'];
    for (const first of ['s1 heard one', 's2 heard one']) {
      const { code, out } = await runWords(words);
      expect(code).toBe(13);
      const told = out.split('\n').slice(0, -1);
      expect(told.map((line) => (JSON.parse(line) as { outcome: string }).outcome)).toEqual([
        first === 's1 heard one' ? 'same' : 'different',
        'same',
        'same',
        'different',
      ]);
      const replayed = told.map((line) => (JSON.parse(line) as { replayed: { messages: string[] } }).replayed.messages);
      expect(replayed).toEqual([[first], [], ['edit: no'], ['read: once']]);
    }
    const noted = readFileSync(log, 'utf8').split('\n').slice(0, -1);
    const prompts = noted.map((line) => JSON.parse(line) as { what: string; text: string; replay?: string });
    expect(prompts.filter(({ what }) => what === 'new').map(({ replay }) => replay)).toEqual(['1', '1']);
    const [prompt] = prompts.filter(({ what }) => what === 'prompt');
    expect(prompt?.text).toMatch(/Sender: @t\.you \(checked by the service; relation to you: anyone\)\./);
  });

  it('exits with 2 if an agent program does not start or the options do not fit together', async () => {
    const path = fileOf(new Recorder().says(YOU, 'x').says(ME, 'pong').events);
    const run = (...words: string[]): Promise<Ran> => runWords(['replay', path, '--as', ME, ...words]);
    const none = await run('--acp', './nowhere');
    expect(none).toMatchObject({
      code: 2,
      err: expect.stringMatching(/does not start, so no message can be answered/),
    });
    expect(await run('--acp', 'x', '--exec', 'y')).toMatchObject({ code: 2, err: expect.stringMatching(/together/) });
    expect(await run('--exec', 'y', '--allow', 'read')).toMatchObject({ code: 2 });
    expect((await run()).err).toMatch(/set it with --exec or --acp/);
  });

  it('reads a long recording without keeping it in memory', async () => {
    const recorder = new Recorder().says(YOU, 'first');
    for (let at = 0; at < 300; at += 1) recorder.add('session.disconnected', { agent: ME });
    recorder.says(ME, 'too late', { in_reply_to: 'msg_1' });
    expect(await verdicts(recorder, 'true')).toEqual([0, 'same']);
  });
});

describe('a recording with a mistake', () => {
  const [event = {}, later] = new Recorder().says(YOU, 'x').says(ME, 'pong').events;
  const line = JSON.stringify(event);
  const refusals: readonly (readonly [string, string])[] = [
    [`${line}\n\n# order\n`, ':3 is not an event.'],
    ['{"type":"session.ended"}\n', ':1 is not an event: session_id is missing or not valid.'],
    [`${line.replace('"sender":"@t.you",', '')}\n`, ':1 is not an event: payload.sender is missing or not valid.'],
    ['', 'This recording has no messages.'],
    [`${JSON.stringify(later)}\n${line}\n`, `:2 is not in order: event 1 of ${SESSION} comes after event 2.`],
    [`${line}\n`, `it has ${YOU}: name one with --as.`],
  ];
  it.each(refusals)('is refused with its line and field: %j', async (text, what) => {
    const path = fileOf(text);
    const { code, err } = await replayFile(path, 'true');
    expect({ code, err }).toEqual({ code: 2, err: expect.stringContaining(what) });
    if (what.startsWith(':')) expect(err).toContain(`${path}${what}`);
  });

  it('is refused if it does not exist, is not text, or has no message for the agent', async () => {
    expect((await replayFile('/nowhere.jsonl', 'true')).err).toMatch(/^error: \/nowhere\.jsonl does not exist\.\n/);
    const path = fileOf('');
    writeFileSync(path, Uint8Array.of(0xff, 0xfe, 0x0a));
    expect((await replayFile(path, 'true')).err).toContain('is not UTF-8 text');
    const own = new Recorder().says(ME, 'hello?');
    expect((await replayFile(fileOf(own.events), 'true')).err).toContain(`There is no message for ${ME}`);
  });

  it('is refused without an agent and a command', async () => {
    const path = fileOf([event]);
    expect((await runWords(['replay', path, '--exec', 'true'])).err).toContain('Whose replies should be compared?');
    expect((await runWords(['replay', path])).err).toContain('There is no command to run.');
  });
});
