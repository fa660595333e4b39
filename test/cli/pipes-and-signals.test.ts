import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { startTestService, type TestService } from '../support/service.js';
import { until } from '../support/until.js';
import { collect, runShell, startProgram } from './built-program.js';
import { freshHome } from './captured-run.js';

const TEXT_BYTES = 100 * 1024;
const TEXTS = 52;

let service: TestService;
let alice: Actor;
let sessionId: string;
let environment: Record<string, string>;

beforeAll(async () => {
  service = await startTestService({ areLimitsOn: false });
  alice = await service.createAgent('alice');
  const home = freshHome();
  environment = {
    HOME: home,
    XDG_RUNTIME_DIR: join(home, 'run'),
    ASP_PROFILE: service.baseUrl,
    ASP_CLIENT_ID: alice.credentials.clientId,
    ASP_CLIENT_SECRET: alice.credentials.clientSecret,
  };
  const created = await alice.post('/sessions', {});
  sessionId = (created.json as { session_id: string }).session_id;
});
afterAll(() => service.stop());

const say = (content: string) => alice.post(`/sessions/${sessionId}/messages`, { content });

describe('the built program', () => {
  it('prints only the version of the package with --version', async () => {
    const { version } = JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8'));
    expect(await runShell('asp --version; asp -V; asp version', {})).toEqual({
      code: 0,
      signal: null,
      out: `${version}\n`.repeat(3),
      err: '',
    });
  });

  it('works without a home directory and writes nothing', async () => {
    const { code, out, err } = await runShell('asp --help | head -1', {});
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out).toMatch(/^asp \d/);
  });

  it('creates no folder for a home directory that does not exist', async () => {
    const missing = join(freshHome(), 'nobody');
    const { XDG_RUNTIME_DIR: _, ...others } = environment;
    const { code, err } = await runShell('asp whoami', { ...others, HOME: missing });
    expect({ code, err: err.includes('error'), made: existsSync(missing) }).toEqual({
      code: 0,
      err: false,
      made: false,
    });
  });

  it('survives closed streams, a width of 0 and TERM=dumb', async () => {
    for (const line of ['asp help >&-', 'asp help 2>&-', 'asp nonsense 2>&-', 'asp help >&- 2>&-']) {
      const { out, err } = await runShell(`${line}; true`, { TERM: 'dumb', COLUMNS: '0' });
      expect(err, line).not.toMatch(/at .*\.js|EPIPE|EBADF/);
      expect(out.length, line).toBeGreaterThanOrEqual(0);
    }
  });
});

describe('pipes', () => {
  it('end the program quietly with exit 0 when their reader goes away', async () => {
    for (let index = 0; index < 3; index += 1) await say(`m${index}`);
    const line = `asp tail ${sessionId} | head -1; echo "\${PIPESTATUS[0]}"`;
    const { out, err } = await runShell(line, environment);
    const [first = '', code] = out.split('\n');
    expect(JSON.parse(first)).toMatchObject({ type: 'session.message' });
    expect({ code, err }).toEqual({ code: '0', err: '' });
  });

  it.runIf(process.platform === 'linux')('send no text in place of an argument that is not UTF-8', async () => {
    const { session_id: id } = (await alice.post('/sessions', {})).json as { session_id: string };
    for (const words of [`send ${id} "$(printf 'caf\\351')"`, `send ${id} --message="$(printf 'caf\\351')"`]) {
      const { code, err } = await runShell(`asp ${words}`, environment);
      expect({ code, err }).toMatchObject({ code: 2, err: expect.stringContaining('The text is not UTF-8.') });
    }
    // Someone may mean that character.
    expect(await runShell(`asp send ${id} "caf\uFFFD"`, environment)).toMatchObject({ code: 0 });
  });

  it('say how many lines of send --lines were sent when their reader goes away', async () => {
    const { session_id: id } = (await alice.post('/sessions', {})).json as { session_id: string };
    const line = `seq 500 | asp send ${id} --lines | head -1 >/dev/null; echo "\${PIPESTATUS[1]}"`;
    const { out, err } = await runShell(line, environment);
    expect(out).toBe('10\n');
    const [, sent] = /Standard output was closed, so later lines were not sent\. Sent: (\d+)\./.exec(err) ?? [];
    const events = (await alice.mustReplay(id)).filter((event) => JSON.stringify(event).includes('session.message'));
    expect(events.length - Number(sent)).toBeOneOf([0, 1]);
    expect(events.length).toBeLessThan(500);
    // The rest follows with the key from the error.
    const [, key] = /--idempotency-key (\S+?):/.exec(err) ?? [];
    const again = await runShell(`seq 500 | asp send ${id} --lines --idempotency-key ${key} >/dev/null`, environment);
    expect(again.code).toBe(0);
    const all = (await alice.mustReplay(id)) as { type: string; payload: { content: string } }[];
    const texts = all.flatMap(({ type, payload }) => (type === 'session.message' ? [payload.content] : []));
    expect(texts).toEqual(Array.from({ length: 500 }, (_, at) => String(at + 1)));
  });

  it('end a quiet tail when their reader is gone', async () => {
    const line = `asp tail ${sessionId} -n 1 | head -1 >/dev/null; echo "\${PIPESTATUS[0]}"`;
    const { out, err } = await runShell(line, environment);
    expect({ out, err }).toEqual({ out: '0\n', err: '' });
  });

  it('pass 5 MB completely, even if they are slow', async () => {
    const created = await alice.post('/sessions', {});
    const id = (created.json as { session_id: string }).session_id;
    for (let index = 0; index < TEXTS; index += 1)
      await alice.post(`/sessions/${id}/messages`, { content: `${index} ${'x'.repeat(TEXT_BYTES)}` });
    const line = `asp session events ${id} --after 0 | (while IFS= read -r l; do printf '%s\\n' "\${#l}"; sleep 0.02; done)`;
    const { out, err, code } = await runShell(line, environment);
    const lengths = out.trim().split('\n').map(Number);
    expect(lengths).toHaveLength(TEXTS);
    expect(Math.min(...lengths)).toBeGreaterThan(TEXT_BYTES);
    expect(lengths.reduce((sum, length) => sum + length)).toBeGreaterThan(5 * 1024 * 1024);
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });
});

describe('the overview', () => {
  it('is the same for each way to request it', async () => {
    const { out: text, err, code } = await runShell('asp help', environment);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    for (const line of ['asp', 'asp -h', 'asp --help'])
      expect(await runShell(line, environment)).toMatchObject({ out: text, err: '', code: 0 });
  });

  it('arrives completely through a nonblocking pipe that is almost full', async () => {
    const { out: text } = await runShell('asp help', environment);
    const fill = `import fcntl, os, sys
flags = fcntl.fcntl(1, fcntl.F_GETFL)
os.write(1, b'x' * (fcntl.fcntl(1, 1032) - 4096) + b'\\n')
fcntl.fcntl(1, fcntl.F_SETFL, flags | os.O_NONBLOCK)`;
    const line = `{ python3 -c "${fill}"; asp --help; } | { sleep 0.3; cat; }`;
    const { out, err, code } = await runShell(line, environment);
    expect({ code, err }).toEqual({ code: 0, err: '' });
    expect(out.slice(out.indexOf('\n') + 1)).toBe(text);
  });
});

describe.skipIf(!existsSync('/dev/full'))('a full disk', () => {
  beforeAll(() => say('what is printed'));

  it.each([
    ['a version', 'asp --version'],
    ['a version as JSON', 'asp version --json'],
    ['the overview', 'asp --help'],
    ['help', 'asp help'],
    ['the commands', 'asp commands --json'],
    ['a schema', 'asp schema send'],
    ['a completion script', 'asp completion bash'],
    ['a list', 'asp session list --json'],
    ['an export', 'asp session export "$S"'],
    ['events', 'asp tail "$S" --after 0 --no-follow'],
  ])('under stdout fails %s with the system’s message', async (_, line) => {
    const { code, err } = await runShell(`${line} >/dev/full`, { ...environment, S: sessionId });
    expect(code).toBe(1);
    expect(err).toMatch(/ASP_OUTPUT/);
    expect(err).toMatch(/ENOSPC: no space left on device/);
  });

  it('under stdout does not hide that a message was sent, nor where', async () => {
    const { code, err } = await runShell(`asp send ${sessionId} "once only" --json >/dev/full`, environment);
    expect(code).toBe(1);
    const { error } = JSON.parse(err) as { error: { next: string[] } };
    expect(error).toMatchObject({ code: 'ASP_OUTPUT', outcome: 'applied', retryable: false, session_id: sessionId });
    expect(error.next).toEqual(['asp', 'session', 'show', sessionId]);
    const { json } = await alice.get(`/sessions/${sessionId}/events`);
    expect(JSON.stringify(json).split('once only')).toHaveLength(2);
  });

  it('keeps a tail’s cursor before the first event that was not completely written', async () => {
    const created = await alice.post('/sessions', {});
    const id = (created.json as { session_id: string }).session_id;
    for (let index = 1; index <= 30; index += 1) await alice.post(`/sessions/${id}/messages`, { content: `m${index}` });
    const folder = freshHome();
    const paths = { OUT: join(folder, 'out'), CURSOR: join(folder, 'cursor') };
    const line = 'asp tail "$S" --after 0 --no-follow --cursor-file "$CURSOR" >>"$OUT"';
    // With a file limit of 4 KiB, the system writes part of a line and refuses the rest.
    const first = await runShell(`ulimit -f 4; ${line}`, { ...environment, S: id, ...paths });
    expect(first.code).toBe(1);
    expect(first.err).toMatch(/EFBIG: file too large/);
    const whole = readFileSync(paths.OUT, 'utf8').split('\n').slice(0, -1);
    const last = (JSON.parse(whole.at(-1) ?? '') as { sequence: number }).sequence;
    expect(whole.length).toBeGreaterThan(3);
    expect(JSON.parse(readFileSync(paths.CURSOR, 'utf8'))).toMatchObject({ sessions: { [id]: last } });
    const second = await runShell(line, { ...environment, S: id, CURSOR: paths.CURSOR, OUT: join(folder, 'rest') });
    expect(second.code).toBe(0);
    const rest = readFileSync(join(folder, 'rest'), 'utf8').split('\n').slice(0, -1);
    const sequences = [...whole, ...rest].map((text) => (JSON.parse(text) as { sequence: number }).sequence);
    expect(sequences).toEqual(Array.from({ length: sequences.length }, (_, index) => index + 1));
    expect(rest.at(-1)).toContain('"m30"');
  });

  /** Larger than a new database. The system cuts off the last write, and does not fail it. */
  const TEXT = { filename: 'notes.txt', type: 'text/plain', bytes: 'a line of notes\n'.repeat(125_000) };
  const ALMOST = `ulimit -f ${Math.floor(TEXT.bytes.length / 1024)}`;

  it('does not let a part of a downloaded attachment pass for the whole', async () => {
    const id = await alice.mustUpload(TEXT);
    const folder = freshHome();
    const { code, err } = await runShell(
      `${ALMOST}; asp attachment download ${id} -o ${folder}/notes.txt`,
      environment,
    );
    expect(code).toBe(2);
    expect(err).toMatch(/Cannot write notes\.txt .*\n.*EFBIG/);
    expect(readdirSync(folder).filter((name) => name.includes('notes') || name.startsWith('.asp-'))).toEqual([]);
  });

  it('does not let a part of a restored attachment pass for the whole', async () => {
    const folder = freshHome();
    const [data, archive, restored] = ['data', 'asp.tar', 'restored'].map((name) => join(folder, name));
    const own = await startTestService({ data: { directory: data ?? '' } });
    const bob = await own.createAgent('bob');
    await bob.mustUpload(TEXT);
    await own.stop();
    const backup = await runShell(`asp serve backup ${archive} --data ${data}`, environment);
    expect(backup.code, backup.err).toBe(0);
    const { code, err } = await runShell(`${ALMOST}; asp serve restore ${archive} --data ${restored}`, environment);
    expect(code).toBe(2);
    expect(err).toMatch(/the file would be too large/);
    expect(existsSync(restored ?? '')).toBe(false);
  });

  it('leaves a message whose line could not be written to the next asp run', async () => {
    const bob = await service.createAgent('bob');
    const cursor = join(freshHome(), 'cursor');
    const line = `asp run --from ${bob.handle} --exec 'echo "answer"' -c 1 --cursor-file ${cursor}`;
    const created = await bob.post('/sessions', { invite: [alice.handle] });
    const id = (created.json as { session_id: string }).session_id;
    await alice.post(`/sessions/${id}/join`);
    const before = await runShell(`${line} --timeout 1s`, environment);
    expect(before.code).toBe(8);
    await bob.post(`/sessions/${id}/messages`, { content: 'a question' });
    const first = await runShell(`${line} >/dev/full`, environment);
    expect(first.code).toBe(1);
    expect(first.err).toMatch(/ENOSPC/);
    const second = await runShell(`${line} --timeout 20s`, environment);
    // The first run sent the reply, so it is not sent again.
    expect(JSON.parse(second.out)).toMatchObject({ session_id: id, outcome: 'answered' });
    const { json } = await alice.get(`/sessions/${id}/events`);
    expect(JSON.stringify(json).split('"answer"')).toHaveLength(2);
  });
});

describe('signals', () => {
  it.each([
    { words: ['ask', '--wait', '5m'], says: 'Your question stays open.', more: ' --timeout 5m' },
    { words: ['send', '--wait'], says: 'Your message was sent.', more: '' },
  ])('Ctrl-C while asp $words.0 waits names the command that continues waiting', async ({ words, says, more }) => {
    const bob = await service.createAgent('bob');
    const [name = '', ...options] = words;
    const child = startProgram([name, bob.handle, 'Which region?', ...options], environment);
    const ended = collect(child);
    let seen = '';
    child.stderr?.on('data', (text: string) => {
      seen += text;
    });
    await until('it waits', async () => seen.includes('Waiting for a reply'));
    const { sessions } = (await bob.get('/sessions')).json as { sessions: { id: string }[] };
    child.kill('SIGINT');
    const { signal, out, err } = await ended;
    expect({ signal, out }).toEqual({ signal: 'SIGINT', out: '' });
    const next = `asp session wait ${sessions[0]?.id} --for reply --after 2${more}`;
    expect(err).toContain(`${says} To keep waiting for the reply:\n  ${next}\n`);
    expect(err).not.toContain('error:');
  });

  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    it(`${signal} ends a tail within a second, with a complete last line`, async () => {
      const child = startProgram(['tail', sessionId, '--control'], environment);
      const ended = collect(child);
      let seen = '';
      child.stdout?.on('data', (text: string) => {
        seen += text;
      });
      await until('the tail is live', async () => seen.includes('asp.ready'));
      const startedAt = performance.now();
      child.kill(signal);
      const { signal: died, out, err } = await ended;
      expect(performance.now() - startedAt).toBeLessThan(1500);
      expect(died).toBe(signal);
      expect(out.endsWith('}\n')).toBe(true);
      expect(err).toBe('');
    });

    it(`${signal} is exit ${code} for a shell`, async () => {
      const line = `set -m; asp tail ${sessionId} >/dev/null & pid=$!; sleep 1; kill -${signal} -- -$pid; wait $pid; echo $?`;
      const { out } = await runShell(line, environment);
      expect(out.trim().split('\n').at(-1)).toBe(String(code));
    });
  }
});
