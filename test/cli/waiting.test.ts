import { createServer } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';

import { captureStreams } from '../support/captured-streams.js';
import { until } from '../support/until.js';
import { type Ran, runWords } from './captured-run.js';
import { type Expected, envelope, type ScriptedService, startScript } from './scripted-service.js';

let service: ScriptedService | undefined;
afterEach(async () => {
  const open = service;
  service = undefined;
  await open?.close();
});

async function runAgainst(script: readonly Expected[], words: string): Promise<Ran> {
  service = await startScript(script);
  return runWords(words, { environment: { ...service.environment, FORCE_COLOR: '0' } });
}

const SENT = { call: 'POST /sessions', reply: { session_id: `sess_${'0'.repeat(26)}`, sequence: 2 }, status: 201 };
const limited = (seconds: number): Expected => ({
  call: 'POST /sessions',
  status: 429,
  reply: envelope('RATE_LIMITED', 'Too many new sessions.'),
  headers: { 'retry-after': String(seconds) },
});

interface Told {
  error: { code: string; exit_code: number; retry_after_ms?: number; outcome: string; hint?: string; message: string };
}

describe('a rate limit', () => {
  it('that asks for more time than the deadline allows ends the command at once, with the true time', async () => {
    const { code, err } = await runAgainst([limited(2084)], 'send @alice.bot hi --json --timeout 20s');
    expect(code).toBe(7);
    expect((JSON.parse(err) as Told).error).toMatchObject({
      code: 'RATE_LIMITED',
      retry_after_ms: 2_084_000,
      outcome: 'not_applied',
      hint: 'the service says to wait 35 min.',
    });
  });

  it('that fits makes the command wait, and stderr says so', async () => {
    const { code, err } = await runAgainst([limited(1), SENT], 'send @alice.bot hi');
    expect(code).toBe(0);
    expect(err).toContain('Waiting 1 s before the next try: Too many new sessions.');
  });

  it.each([
    ['send @alice.bot hi', 429, 'Nothing was sent.'],
    ['ask @alice.bot hi?', 429, 'Nothing was sent.'],
    ['send @alice.bot hi', 503, 'It may have been sent. With --idempotency-key '],
  ])('tells, at Ctrl-C, whether the message was sent: asp %s (%i)', async (words, status, told) => {
    service = await startScript([{ ...limited(30), status }]);
    const streams = captureStreams();
    const stop = new AbortController();
    const ended = runWords(words, { environment: service.environment, streams, signal: stop.signal });
    await until('the pause', async () => streams.err().includes('Waiting 3'));
    stop.abort(new Error('SIGINT'));
    expect((await ended).err).toContain(`\n${told}`);
  });

  it('waits silently if notes are off', async () => {
    const { code, err } = await runAgainst([limited(1), SENT], 'send @alice.bot hi --quiet');
    expect({ code, err }).toEqual({ code: 0, err: '' });
  });
});

describe('a service that does not answer', () => {
  it.each([
    ['is named after two seconds, once', '', true],
    ['is not named if notes are off', '--quiet', false],
    ['is not named if the output is JSON', '--json', false],
  ])('%s', async (_, option, isNamed) => {
    const server = createServer((socket) => socket.on('error', () => {}));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const host = `127.0.0.1:${typeof address === 'object' && address !== null ? address.port : 0}`;
    const environment = { ASP_PROFILE: `http://${host}/v1`, ASP_TOKEN: 'x' };
    const { code, out, err } = await runWords(`session list --timeout 3500ms ${option}`, { environment });
    expect({ code, out, notes: err.split(`Waiting for ${host} to answer.\n`).length - 1 }).toEqual({
      ...{ code: 8, out: '', notes: isNamed ? 1 : 0 },
    });
    server.close();
  });
});

describe('an upload that takes long', () => {
  it('is named, and not as a wait for an answer', async () => {
    const server = createServer((socket) => socket.on('error', () => {}));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    const environment = { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'x' };
    const words = 'attachment upload package.json --timeout 3500ms --retries 0';
    const { err } = await runWords(words, { environment, machine: { workingDirectory: process.cwd() } });
    expect(err).toContain('Uploading package.json.');
    expect(err).not.toContain('to answer.');
    server.close();
  });
});

describe('a deadline', () => {
  it('that passes after failed tries says why they failed', async () => {
    // The first connection is cut. After that, nothing answers.
    let connections = 0;
    const server = createServer((socket) => {
      socket.on('error', () => {});
      connections += 1;
      if (connections === 1) socket.once('data', () => socket.resetAndDestroy());
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    const environment = { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'x' };
    const { code, err } = await runWords('session list --json --timeout 1s', { environment });
    server.close();
    expect(code).toBe(8);
    const { error } = JSON.parse(err) as Told;
    expect(error).toMatchObject({ code: 'ASP_TIMEOUT', outcome: 'not_applied' });
    expect(error.hint).toMatch(
      /^before that: The connection to http:\/\/127\.0\.0\.1:\d+ broke.* --timeout or ASP_TIMEOUT/,
    );
  });
});

describe('an unreachable service', () => {
  it('is reported as such, without five tries', async () => {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address = server.address();
    const port = typeof address === 'object' ? address?.port : undefined;
    await new Promise((resolve) => server.close(resolve));
    const environment = { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'x' };
    const { code, err } = await runWords('whoami --json', { environment });
    expect(code).toBe(9);
    const { error } = JSON.parse(err.trim().split('\n').at(-1) ?? '') as Told & { error: { request: unknown } };
    expect(error).toMatchObject({ code: 'ASP_UNREACHABLE', request: { attempts: 2 } });
  });
});
