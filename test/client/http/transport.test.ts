import { once } from 'node:events';
import { Worker } from 'node:worker_threads';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import {
  createTransport,
  proxyFromEnvironment,
  redactBody,
  redactHeaders,
  redactText,
  redactUrl,
  type TraceEntry,
  type Transport,
} from '../../../src/client/http/transport.js';
import { systemClock } from '../../../src/kit/clock.js';
import { type ScriptedServer, startScriptedServer } from '../../support/scripted-server.js';

let server: ScriptedServer;
let transport: Transport;
const trace: TraceEntry[] = [];

beforeEach(async () => {
  server = await startScriptedServer();
  trace.length = 0;
  transport = createTransport({ clock: systemClock, trace: (entry) => void trace.push(entry) });
});

afterEach(async () => {
  await transport.close();
  await server.finish();
});

const location = (to: string) => ({ status: 302, headers: { location: to } });

describe('addresses', () => {
  for (const url of [
    'http://example.com/v1',
    'http://127.0.0.1.evil.test/',
    'ftp://127.0.0.1/',
    'https://u:p@h.test/',
  ]) {
    it(`${url} is refused`, async () => {
      await expect(transport.send({ method: 'GET', url })).rejects.toMatchObject({ code: 'ASP_INSECURE_ADDRESS' });
    });
  }
});

/** Answers 100 ms after it has recorded the arrival of a request in shared memory. */
const LATE_SERVER = `
  const { createServer } = require('node:http');
  const { parentPort, workerData } = require('node:worker_threads');
  const server = createServer((request, response) => {
    Atomics.store(workerData, 0, 1);
    setTimeout(() => response.end('late'), 100);
  });
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port));
`;

describe('a program that was suspended', () => {
  it('accepts an answer that arrived in the meantime, no matter how late', async () => {
    const shared = new Int32Array(new SharedArrayBuffer(8));
    const late = new Worker(LATE_SERVER, { eval: true, workerData: shared });
    try {
      const [port] = (await once(late, 'message')) as [number];
      const url = `http://127.0.0.1:${port}/`;
      const sending = transport.send({
        method: 'POST',
        url,
        body: 'x',
        silenceTimeoutMs: 1000,
      });
      sending.catch(() => {});
      while (Atomics.load(shared, 0) === 0) await new Promise(setImmediate);
      Atomics.wait(shared, 1, 0, 1500);
      expect(String((await sending).body)).toBe('late');
    } finally {
      await late.terminate();
    }
  });
});

describe('redirects', () => {
  it('GET follows up to three within one origin', async () => {
    server.expect(
      { method: 'GET', path: '/a', ...location('/b') },
      { method: 'GET', path: '/b', ...location(`${server.origin}/c`) },
      { method: 'GET', path: '/c', ...location('/d') },
      { method: 'GET', path: '/d', body: { ok: true } },
    );
    expect((await transport.send({ method: 'GET', url: `${server.origin}/a` })).status).toBe(200);
  });

  it('GET follows none to a different origin', async () => {
    server.expect({ method: 'GET', path: '/a', ...location('http://127.0.0.1:1/b') });
    const sending = transport.send({ method: 'GET', url: `${server.origin}/a` });
    await expect(sending).rejects.toMatchObject({ code: 'ASP_BAD_ANSWER', isRetryable: false });
  });

  it('a write follows none', async () => {
    server.expect({ method: 'POST', path: '/a', ...location('/b') });
    const sending = transport.send({ method: 'POST', url: `${server.origin}/a`, body: '{}' });
    await expect(sending).rejects.toMatchObject({ code: 'ASP_BAD_ANSWER' });
  });
});

it('an answer above its cap is refused', async () => {
  server.expect({ method: 'GET', path: '/a', body: 'x'.repeat(2000) });
  const sending = transport.send({ method: 'GET', url: `${server.origin}/a`, maxBytes: 1000 });
  await expect(sending).rejects.toMatchObject({ code: 'ASP_BAD_ANSWER' });
});

describe('the trace', () => {
  it('shows neither tokens nor secrets', async () => {
    server.expect({
      method: 'POST',
      path: '/token',
      body: { access_token: 'CANARY-a', refresh_token: 'CANARY-r', scope: 's' },
    });
    await transport.send({
      method: 'POST',
      url: `${server.origin}/token?signature=CANARY-q`,
      headers: { authorization: 'Bearer CANARY-b', 'content-type': 'application/x-www-form-urlencoded' },
      body: 'grant_type=refresh_token&refresh_token=CANARY-f&code=CANARY-c&code_verifier=CANARY-v&client_secret=CANARY-s',
    });
    const text = trace.map((entry) => entry.text).join('\n');
    expect(text).not.toContain('CANARY');
    expect(text).toContain('grant_type=refresh_token');
  });

  it("hides the request's credential if the answer repeats it, even from the caller", async () => {
    const [token, secret] = ['opaque-canary-token', 'opaque canary/secret'];
    const error = { code: 'X', message: `the token ${token} and ${secret} are bad` };
    server.expect({ method: 'POST', path: '/a', status: 401, headers: { 'x-said': token }, body: { error } });
    const answer = await transport.send({
      method: 'POST',
      url: `${server.origin}/a`,
      headers: { authorization: `Bearer ${token}`, 'content-type': 'application/x-www-form-urlencoded' },
      body: new URLSearchParams({ client_secret: secret }).toString(),
    });
    const text = trace.map((entry) => entry.text).join('\n');
    expect(`${text}${answer.body.toString()}`).not.toMatch(/canary/);
    expect(JSON.parse(answer.body.toString()).error.message).toBe('the token [redacted] and [redacted] are bad');
  });

  it('redacts what looks like a token anywhere', () => {
    const jwt = `eyJhbGciOiJSUzI1NiJ9.${'a'.repeat(40)}.${'b'.repeat(40)}`;
    expect(redactText(`at ${jwt} and Bearer abc.def`)).toBe('at [redacted] and Bearer [redacted]');
    expect(redactUrl('https://x.test/p?code=1&exp=2#f')).toBe('https://x.test/p?code=[redacted]&exp=[redacted]');
    expect(redactUrl('https://x.test/p?limit=50&cursor=7')).toBe('https://x.test/p?limit=50&cursor=[redacted]');
    expect(redactBody('application/json', '{"error":{"code":"NOT_FOUND"}}')).toContain('NOT_FOUND');
    expect(redactText('Bearer error="invalid_token"')).toBe('Bearer error="invalid_token"');
    expect(redactUrl('postgres://me:canary@host/db')).toBe('postgres://[redacted]@host/db');
    expect(redactHeaders({ cookie: 'a=b', accept: 'x' })).toBe('cookie: [redacted]; accept: x');
    expect(redactBody('application/json', '{"url":"https://x.test/?sig=abc"}')).not.toContain('abc');
  });
});

describe('proxies', () => {
  const proxy = proxyFromEnvironment({
    HTTPS_PROXY: 'http://proxy.test:3128',
    NO_PROXY: '.local,10.0.0.0/8,a.test:8443',
  });
  const of = (url: string) => proxy(new URL(url))?.host;
  it.each([
    ['https://example.com/', 'proxy.test:3128'],
    ['https://127.0.0.1:8443/', undefined],
    ['https://localhost/', undefined],
    ['https://[::1]/', undefined],
    ['https://box.local/', undefined],
    ['https://10.1.2.3/', undefined],
    ['https://11.1.2.3/', 'proxy.test:3128'],
    ['https://a.test:8443/', undefined],
    ['https://a.test/', 'proxy.test:3128'],
  ])('%s goes through %s', (url, expected) => expect(of(url)).toBe(expected));

  it('ALL_PROXY replaces HTTPS_PROXY, and is ignored if it is not an HTTP proxy', () => {
    const url = new URL('https://example.com');
    const all = proxyFromEnvironment({ ALL_PROXY: 'http://all.test:1', https_proxy: '' });
    expect(all(url)?.host).toBe('all.test:1');
    const both = proxyFromEnvironment({ ALL_PROXY: 'http://all.test:1', HTTPS_PROXY: 'one.test:2' });
    expect(both(url)?.host).toBe('one.test:2');
    expect(proxyFromEnvironment({ ALL_PROXY: 'socks5://all.test:1' })(url)).toBeUndefined();
  });

  it('NO_PROXY=* turns it off, and without HTTPS_PROXY there is none', () => {
    const off = proxyFromEnvironment({ HTTPS_PROXY: 'http://p.test', NO_PROXY: '*' });
    expect(off(new URL('https://example.com'))).toBeUndefined();
    expect(proxyFromEnvironment({})(new URL('https://example.com'))).toBeUndefined();
  });
});
