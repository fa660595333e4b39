import { existsSync, readFileSync } from 'node:fs';
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
  it('--version is the version of the package, alone', async () => {
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

  it('makes no folder for a home directory that does not exist', async () => {
    const missing = join(freshHome(), 'nobody');
    const { XDG_RUNTIME_DIR: _, ...others } = environment;
    const { code, err } = await runShell('asp whoami', { ...others, HOME: missing });
    expect({ code, err: err.includes('error'), made: existsSync(missing) }).toEqual({
      code: 0,
      err: false,
      made: false,
    });
  });

  it('survives closed streams, a width of nothing and TERM=dumb', async () => {
    for (const line of ['asp help >&-', 'asp help 2>&-', 'asp nonsense 2>&-', 'asp help >&- 2>&-']) {
      const { out, err } = await runShell(`${line}; true`, { TERM: 'dumb', COLUMNS: '0' });
      expect(err, line).not.toMatch(/at .*\.js|EPIPE|EBADF/);
      expect(out.length, line).toBeGreaterThanOrEqual(0);
    }
  });
});

describe('pipes', () => {
  it('a reader that goes away ends the program quietly with exit 0', async () => {
    for (let index = 0; index < 3; index += 1) await say(`m${index}`);
    const line = `asp tail ${sessionId} | head -1; echo "\${PIPESTATUS[0]}"`;
    const { out, err } = await runShell(line, environment);
    const [first = '', code] = out.split('\n');
    expect(JSON.parse(first)).toMatchObject({ type: 'session.message' });
    expect({ code, err }).toEqual({ code: '0', err: '' });
  });

  it('a quiet tail notices that its reader is gone', async () => {
    const line = `asp tail ${sessionId} -n 1 | head -1 >/dev/null; echo "\${PIPESTATUS[0]}"`;
    const { out, err } = await runShell(line, environment);
    expect({ out, err }).toEqual({ out: '0\n', err: '' });
  });

  it('5 MB through a slow pipe arrive whole', async () => {
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

describe('signals', () => {
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
  ] as const) {
    it(`${signal} ends a tail by the signal within a second, its last line complete`, async () => {
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
