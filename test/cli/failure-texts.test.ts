import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, describe, expect, it } from 'vitest';
import { explain, findErrorContext, withContext } from '../../src/cli/context/explain.js';
import { OWN_ERROR } from '../../src/cli/errors.js';
import { RequestError } from '../../src/client/http/request-error.js';
import { freshHome, type RunOptions, runWords } from './captured-run.js';
import { type Expected, envelope, type ScriptedService, startScript } from './scripted-service.js';

const SESSION = `sess_${'0'.repeat(26)}`;

interface Failure {
  code: string;
  message: string;
  exit_code: number;
  outcome?: string;
  hint?: string;
  next?: string[];
}

let service: ScriptedService | undefined;
let server: Server | undefined;
afterEach(async () => {
  const open = service;
  service = undefined;
  server?.closeAllConnections();
  server?.close();
  server = undefined;
  await open?.close();
});

async function failureOf(words: string | readonly string[], options: RunOptions = {}): Promise<Failure> {
  const argv = typeof words === 'string' ? words.split(' ') : words;
  const { err } = await runWords([...argv, '--json', '--retries', '0'], options);
  return (JSON.parse(err) as { error: Failure }).error;
}

async function failureAgainst(script: readonly Expected[], words: string, options: RunOptions = {}): Promise<Failure> {
  service = await startScript(script);
  return failureOf(words, { ...options, environment: { ...service.environment, ...options.environment } });
}

/** Starts a server that never answers, or answers each request in the same way. */
async function serverThat(answer: 'is silent' | 'knows nothing'): Promise<string> {
  server = createServer((_, response) => {
    if (answer === 'knows nothing') response.writeHead(404).end('<html>');
  });
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

describe('a deadline', () => {
  it('is shown as it was typed', async () => {
    const environment = { ASP_PROFILE: `${await serverThat('is silent')}/v1`, ASP_TOKEN: 'x' };
    const failure = await failureOf('whoami --timeout 50ms', { environment });
    expect(failure).toMatchObject({ code: 'ASP_TIMEOUT', hint: '--timeout or ASP_TIMEOUT set a deadline of 50ms.' });
    const named = await failureOf('whoami', { environment: { ...environment, ASP_TIMEOUT: '0.05s' } });
    expect(named.hint).toBe('--timeout or ASP_TIMEOUT set a deadline of 50ms.');
  });

  it('is reported in a whole sentence if the service is silent', async () => {
    const environment = { ASP_PROFILE: `${await serverThat('is silent')}/v1`, ASP_TOKEN: 'x' };
    const failure = await failureOf('session list --timeout 1500ms', { environment });
    expect(failure).toMatchObject({ code: 'ASP_TIMEOUT', message: 'The deadline passed.' });
  });
});

describe('a refused credential from the environment', () => {
  it('does not suggest signing in if that login would not be used', async () => {
    const refused = { call: 'GET /sessions?limit=50', status: 401, reply: envelope('UNAUTHORIZED') };
    const failure = await failureAgainst([refused], 'session list');
    expect(failure).toMatchObject({ exit_code: 4, next: ['asp', 'whoami', '--explain'] });
    expect(failure.hint).toContain('credential from ASP_TOKEN');
  });
});

describe('the error', () => {
  it('names the agent that is not signed in, not the recipient', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN_STORE: 'file' };
    const failure = await failureOf('send demo.echo hi --as bob.bot', { environment });
    expect(failure).toMatchObject({
      code: 'ASP_NO_CREDENTIAL',
      message: '@bob.bot is not signed in at http://127.0.0.1:9/v1. Nothing was sent.',
      next: ['asp', 'login', '@bob.bot'],
    });
    const named = await failureOf('send demo.echo hi --as bob.bot -p http://127.0.0.1:9/v1', {
      environment: { ASP_TOKEN_STORE: 'file' },
    });
    expect(named.next).toEqual(['asp', 'login', '@bob.bot', '-p', 'http://127.0.0.1:9/v1']);
  });
});

describe('a file of asp that cannot be used', () => {
  it('is named with the reason and the system’s code, and is not called a bug', async () => {
    const homeDirectory = freshHome();
    mkdirSync(join(homeDirectory, '.local', 'state'), { recursive: true });
    const state = join(homeDirectory, '.local', 'state', 'asp-cli');
    writeFileSync(state, 'not a folder');
    expect(await failureOf('skill install codex', { machine: { homeDirectory } })).toMatchObject({
      code: 'ASP_CONFIG',
      exit_code: 2,
      message: expect.stringContaining(state),
      hint: expect.stringMatching(/^it, or a folder above it, is a file \(E(NOTDIR|EXIST)\)/),
    });
  });
});

describe('a message that is too long only as JSON', () => {
  it('says so, and how to send it', async () => {
    const refused = { call: 'POST /sessions', status: 413, reply: envelope('VALIDATION_ERROR') };
    const failure = await failureAgainst([refused], 'send a.bot hi');
    expect(failure).toMatchObject({ code: 'VALIDATION_ERROR', exit_code: 2, outcome: 'not_applied' });
    expect(failure.hint).toBe(
      'in JSON, a quote or a line break takes two bytes. Send a long text as a file: asp send --file.',
    );
  });
});

describe('a service without a login', () => {
  it('is named by its address and its profile', async () => {
    const options = { machine: { homeDirectory: freshHome() }, environment: { ASP_TOKEN_STORE: 'file' } };
    await runWords('profile add work --base-url http://127.0.0.1:9/v1', options);
    expect(await failureOf('inbox', options)).toMatchObject({
      code: 'ASP_NO_CREDENTIAL',
      message: 'No agent is signed in at http://127.0.0.1:9/v1 (profile work).',
      next: ['asp', 'login', '-p', 'work'],
    });
    const message = 'No agent is signed in at http://127.0.0.1:9/v2.';
    expect(await failureOf('inbox -p http://127.0.0.1:9/v2', options)).toMatchObject({ message });
  });
});

describe('a key that was used for something else', () => {
  it.each(['--once', '--idempotency-key'])('names its option, %s, and what helps', async (option) => {
    const refused = { call: 'POST /sessions', status: 400, reply: envelope('IDEMPOTENCY_MISMATCH') };
    const asked =
      option === '--once' ? [{ call: 'GET /agents/me', status: 200, reply: { canonical_handle: '@c.d' } }] : [];
    expect(await failureAgainst([...asked, refused], `send a.bot hi ${option} k1`)).toMatchObject({
      code: 'IDEMPOTENCY_MISMATCH',
      hint: `this value of ${option} belongs to another request for 24 hours: use a new one, or repeat the first command exactly.`,
    });
  });
});

describe('asp login --yes', () => {
  it('does not say that an address of this machine is elsewhere', async () => {
    const { hint } = await failureOf('login --yes -p http://127.0.0.1:9/v1');
    expect(hint).toBe('no local service of this user runs at http://127.0.0.1:9/v1, so a person has to approve there.');
  });
});

describe('a base URL without /v1', () => {
  it('names the probable address of the service', async () => {
    const root = await serverThat('knows nothing');
    const environment = { ASP_PROFILE: root, ASP_CLIENT_ID: 'oac_1', ASP_CLIENT_SECRET: 's' };
    expect(await failureOf('session list', { environment })).toMatchObject({
      code: 'ASP_DISCOVERY',
      hint: 'a base URL usually ends in /v1.',
      next: ['asp', 'whoami', '-p', `${root}/v1`],
    });
    const other = { ...environment, ASP_PROFILE: `${root}/v1` };
    expect(await failureOf('session list', { environment: other })).toMatchObject({ next: ['asp', 'doctor'] });
  });
});

describe('the suggested command', () => {
  it('is unchanged if the service does not matter, or if it names its own service', async () => {
    const environment = { ASP_TOKEN: 'x' };
    expect((await failureOf('send a.b --parts x -p http://127.0.0.1:9/v1', { environment })).next).toBeUndefined();
    const named = await failureOf('send sess_1 hi -p nowhere', { environment });
    expect(named.next ?? []).not.toContain('nowhere');
    const profile = await failureOf('whoami -p nowhere', { environment });
    expect(profile.next).toEqual(['asp', 'profile', 'list']);
  });
});

describe('unreadable metadata', () => {
  const path = 'GET /.well-known/oauth-protected-resource';
  it.each([
    [{ status: 429, headers: { 'retry-after': '7' } }, 'RATE_LIMITED', 7, 'the service says to wait 7 s.'],
    [{ status: 503 }, 'INTERNAL_ERROR', 9, undefined],
  ])('is reported with the part that was wrong: %o', async (answer, code, exit, hint) => {
    const environment = { ASP_TOKEN: '', ASP_CLIENT_ID: 'oac_1', ASP_CLIENT_SECRET: 's' };
    const script = [{ call: path, reply: '', ...answer }];
    const failure = await failureAgainst(script, 'send a.bot hi', { environment });
    expect(failure).toMatchObject({ code, exit_code: exit, message: expect.stringContaining('Nothing was sent.') });
    expect(failure.hint).toBe(hint);
  });
});

describe('a session that this agent cannot see', () => {
  const unknown = (call: string): Expected => ({ call, status: 404, reply: envelope('NOT_FOUND') });
  it.each([
    [`session show ${SESSION}`, `GET /sessions/${SESSION}`],
    [`tail ${SESSION} --no-follow`, `GET /sessions/${SESSION}`],
  ])('makes asp %s list what it can see', async (words, call) => {
    const me = { call: 'GET /agents/me', reply: { canonical_handle: '@me.bot' } };
    const failure = await failureAgainst(words.startsWith('tail') ? [me, unknown(call)] : [unknown(call)], words);
    expect(failure).toMatchObject({ code: 'NOT_FOUND', exit_code: 3, next: ['asp', 'session', 'list'] });
  });
});

describe('a file', () => {
  it('that does not exist, or is a folder, is reported by name, and nothing is sent', async () => {
    const environment = { ASP_PROFILE: 'http://127.0.0.1:9/v1', ASP_TOKEN: 'x' };
    const folder = mkdtempSync(join(tmpdir(), 'asp-file-'));
    const missing = join(folder, 'none.png');
    for (const words of [`send a.b hi --file ${missing}`, `send a.b -F ${missing}`, `send a.b --data @${missing}`])
      expect(await failureOf(words, { environment })).toMatchObject({
        code: 'ASP_USAGE',
        message: `${missing} does not exist. Nothing was sent.`,
      });
    for (const words of [`send a.b hi --file ${folder}`, `send a.b -F ${folder}`])
      expect((await failureOf(words, { environment })).message).toBe(`${folder} is a folder. Nothing was sent.`);
  });
});

describe('an answer that could not be parsed', () => {
  it('is named by its request, and it says that the change was made', async () => {
    const reply = { created_at: 1 };
    const failure = await failureAgainst([{ call: 'POST /sessions', status: 201, reply }], 'session create a.b');
    expect(failure).toMatchObject({
      code: 'ASP_BAD_ANSWER',
      outcome: 'applied',
      message: "@a.b: Could not parse the service's answer to POST /v1/sessions (status 201). The change was made.",
    });
  });

  it('says that a message was sent', async () => {
    const call = `POST /sessions/${SESSION}/messages`;
    const failure = await failureAgainst([{ call, status: 201 }], `send ${SESSION} hi`);
    expect(failure.message).toMatch(/messages \(status 201\)\. It was sent\.$/);
  });
});

describe('asp error codes', () => {
  it('include a timeout for a sign-in that no one finishes', () => {
    expect(OWN_ERROR.ASP_LOGIN_TIMEOUT).toBe(8);
  });

  it('are each explained', async () => {
    const machine = { homeDirectory: freshHome() };
    for (const [code, exit] of Object.entries(OWN_ERROR)) {
      const { out } = await runWords(`explain ${code} --json`, { machine });
      expect(JSON.parse(out)).toMatchObject({ code, exit_code: exit, means: expect.any(String) });
    }
  });
});

describe('the context of an error', () => {
  const error = () =>
    new RequestError({ code: 'NOT_FOUND', message: 'Not found.', status: 404, attempts: 2, cause: new Error('why') });

  it('comes from the nearest caller', async () => {
    const call = explain({ subject: 'inner' }, Promise.reject(error()));
    await expect(explain({ subject: 'outer' }, call).catch(findErrorContext)).resolves.toEqual({ subject: 'inner' });
  });

  it('is replaced in a copy: the original error keeps its facts', async () => {
    const first = error();
    await explain({ subject: 'first' }, Promise.reject(first)).catch(() => {});
    const second = withContext(first, { subject: 'second' });
    expect([findErrorContext(first), findErrorContext(second)]).toEqual([{ subject: 'first' }, { subject: 'second' }]);
    expect({ ...second, message: second.message, cause: second.cause, stack: second.stack }).toEqual({
      ...first,
      message: first.message,
      cause: first.cause,
      stack: first.stack,
    });
    expect(second).toBeInstanceOf(RequestError);
  });
});

describe('the id of a request', () => {
  async function serverWith(status: number, id: string): Promise<RunOptions> {
    server = createServer((_, response) => {
      response.setHeader('x-request-id', id);
      response.writeHead(status, { 'content-type': 'application/json' });
      response.end(
        JSON.stringify({ error: { code: status === 404 ? 'NOT_FOUND' : 'INTERNAL_ERROR', message: 'No.' } }),
      );
    });
    await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve));
    const port = (server.address() as AddressInfo).port;
    return { environment: { ASP_PROFILE: `http://127.0.0.1:${port}/v1`, ASP_TOKEN: 'x', ASP_RETRIES: '0' } };
  }

  it('is in the JSON of every error answer from a service', async () => {
    const options = await serverWith(404, 'req_01890a5dac96774bbcce');
    expect(await failureOf(`session show ${SESSION}`, options)).toMatchObject({
      code: 'NOT_FOUND',
      request_id: 'req_01890a5dac96774bbcce',
    });
  });

  it('is shown to people if the service failed, and otherwise with --debug', async () => {
    const missing = await serverWith(404, 'an-id-of-a-refusal');
    expect((await runWords(['session', 'show', SESSION], missing)).err).not.toContain('an-id-of-a-refusal');
    const { err } = await runWords(['session', 'show', SESSION, '--debug'], missing);
    expect(err).toContain('code: NOT_FOUND · exit 3 · request an-id-of-a-refusal');
    server?.closeAllConnections();
    server?.close();
    const broken = await runWords(['session', 'show', SESSION], await serverWith(500, 'an-id-of-a-fault'));
    expect(broken.err).toContain('code: INTERNAL_ERROR · exit 9 · request an-id-of-a-fault');
  });

  it('is left out if it is not plain text', async () => {
    const options = await serverWith(500, `see https://evil.example/${'x'.repeat(100)}`);
    expect(await failureOf(`session show ${SESSION}`, options)).not.toHaveProperty('request_id');
  });
});
