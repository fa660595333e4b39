import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { connect, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { promisify } from 'node:util';

import { afterEach, describe, expect, it } from 'vitest';

import { type Loopback, listenOnLoopback } from '../../../src/cli/commands/auth/loopback.js';
import type { AuthorizationRequest } from '../../../src/client/oauth/authorization-request.js';
import { readCallback } from '../../../src/client/oauth/authorization-request.js';
import { rawBytes, rawRequest } from '../../support/raw-http.js';

const ISSUER = 'http://127.0.0.1:9';
const STATE = randomBytes(24).toString('base64url');
const HOSTILE_REQUESTS = 1200;
const AT_ONCE = 24;

function requestTo(redirectUri: string): AuthorizationRequest {
  return {
    url: `${ISSUER}/authorize`,
    issuer: ISSUER,
    clientId: 'oac_1',
    redirectUri,
    state: STATE,
    codeVerifier: 'v'.repeat(64),
    scopes: [],
    isIssuerExpected: true,
  };
}

const good = (redirectUri: string, code = 'the-code'): string =>
  `${redirectUri}?code=${code}&state=${STATE}&iss=${encodeURIComponent(ISSUER)}`;

async function open(
  host?: string,
): Promise<{ loopback: Loopback; port: number; received: ReturnType<Loopback['receive']> }> {
  const loopback = await listenOnLoopback(0, host);
  const request = requestTo(loopback.redirectUri);
  const received = loopback.receive((address) => readCallback(request, address));
  return { loopback, port: Number(new URL(loopback.redirectUri).port), received };
}

const statusOf = (answer: Buffer): number => Number(/^HTTP\/1\.1 (\d{3})/.exec(answer.toString('latin1'))?.[1]);

/** One hostile request of each kind; `n` makes each request unique. */
const HOSTILE: Record<string, (n: number, port: number) => string | Buffer> = {
  'no state': (n, port) => get(`/callback?code=${n}`, port),
  'another state': (n, port) => get(`/callback?code=x&state=${n}&iss=${ISSUER}`, port),
  'a state that begins like ours': (n, port) =>
    get(`/callback?code=x&state=${STATE.slice(0, n % 30)}&iss=${ISSUER}`, port),
  'an error without our state': (n, port) => get(`/callback?error=access_denied&state=${n}`, port),
  'an error alone': (_, port) => get('/callback?error=access_denied', port),
  'our state twice': (_, port) => get(`/callback?code=x&state=${STATE}&state=${STATE}&iss=${ISSUER}`, port),
  'two codes': (_, port) => get(`/callback?code=x&code=y&state=${STATE}&iss=${ISSUER}`, port),
  'our state with another issuer': (n, port) =>
    get(`/callback?code=x&state=${STATE}&iss=http://evil${n}.example`, port),
  'our state without an issuer': (_, port) => get(`/callback?code=x&state=${STATE}`, port),
  'our state without code or error': (_, port) => get(`/callback?state=${STATE}&iss=${ISSUER}`, port),
  'a rebound name': (_, port) =>
    get(`/callback?code=x&state=${STATE}&iss=${ISSUER}`, port, { host: `evil.example:${port}` }),
  'localhost as a name': (_, port) =>
    get(`/callback?code=x&state=${STATE}&iss=${ISSUER}`, port, { host: `localhost:${port}` }),
  'another port as a name': (_, port) =>
    get(`/callback?code=x&state=${STATE}&iss=${ISSUER}`, port, { host: '127.0.0.1:1' }),
  'no Host': (_, port) =>
    `GET /callback?code=x&state=${STATE}&iss=${ISSUER}&p=${port} HTTP/1.1\r\nconnection: close\r\n\r\n`,
  'two Hosts': (_, port) =>
    `GET /callback?code=x&state=${STATE}&iss=${ISSUER} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nHost: 127.0.0.1:${port}\r\nconnection: close\r\n\r\n`,
  'a script of another page': (_, port) =>
    get(`/callback?code=x&state=${STATE}&iss=${ISSUER}`, port, { origin: 'https://evil.example' }),
  'a double slash': (_, port) => get(`//callback?code=x&state=${STATE}&iss=${ISSUER}`, port),
  'a path above': (_, port) => get(`/x/../callback?code=x&state=${STATE}&iss=${ISSUER}`, port),
  'an absolute target': (_, port) => get(`http://127.0.0.1:${port}/callback?code=x&state=${STATE}&iss=${ISSUER}`, port),
  'a target that is no URL': (_, port) => get('/callback?%%%&state=%E0%A4%A', port),
  'a star': (_, port) => get('*', port),
  POST: (_, port) =>
    `POST /callback?code=x&state=${STATE}&iss=${ISSUER} HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\nContent-Length: 1\r\nconnection: close\r\n\r\nx`,
  HEAD: (_, port) => get(`/callback?code=x&state=${STATE}&iss=${ISSUER}`, port, {}, 'HEAD'),
  'a URL above 8 KiB': (_, port) => get(`/callback?code=x&state=${STATE}&iss=${ISSUER}&pad=${'a'.repeat(8192)}`, port),
  'bytes that are no HTTP': (n) => randomBytes(1 + (n % 400)),
  TLS: () => Buffer.from('160301020001000001fc0303', 'hex'),
};

function get(target: string, port: number, headers: Record<string, string> = {}, method = 'GET'): string {
  const all = { host: `127.0.0.1:${port}`, connection: 'close', ...headers };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return `${method} ${target} HTTP/1.1\r\n${lines.join('')}\r\n`;
}

/** Sends `count` hostile requests, several at a time, and cuts each one after its answer or soon. */
async function bombard(port: number, count: number): Promise<void> {
  const kinds = Object.values(HOSTILE);
  let next = 0;
  const fire = async (): Promise<void> => {
    while (next < count) {
      const n = next++;
      const bytes = kinds[n % kinds.length]?.(n, port) ?? '';
      await rawBytes('127.0.0.1', port, bytes, 200).catch(() => {});
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, fire));
}

/** Opens connections that send one byte and then nothing. */
function holdOpen(port: number, count: number): Socket[] {
  return Array.from({ length: count }, () => {
    const socket = connect({ host: '127.0.0.1', port });
    socket.on('error', () => {});
    socket.write('G');
    return socket;
  });
}

async function refuses(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 1000 });
    socket.once('connect', () => {
      socket.destroy();
      resolve(false);
    });
    socket.once('timeout', () => {
      socket.destroy();
      resolve(true);
    });
    socket.once('error', () => resolve(true));
  });
}

describe('the listener for the redirect of a sign-in', () => {
  const opened: Loopback[] = [];
  const begin = async (): ReturnType<typeof open> => {
    const one = await open();
    opened.push(one.loopback);
    return one;
  };
  afterEach(async () => {
    await Promise.all(opened.splice(0).map((one) => one.close()));
  });

  it('accepts the callback of its own request', async () => {
    const { loopback, received } = await begin();
    const answer = await rawRequest(good(loopback.redirectUri), 'GET', {});
    expect(statusOf(answer)).toBe(200);
    expect(await received).toEqual({ kind: 'code', code: 'the-code', issuer: ISSUER });
  });

  it('reports a refusal that carries our state', async () => {
    const { loopback, received } = await begin();
    const url = `${loopback.redirectUri}?error=access_denied&state=${STATE}&iss=${encodeURIComponent(ISSUER)}`;
    expect(statusOf(await rawRequest(url, 'GET', {}))).toBe(200);
    expect(await received).toEqual({ kind: 'refused', error: 'access_denied' });
  });

  for (const [kind, make] of Object.entries(HOSTILE))
    it(`answers and ignores ${kind}, and keeps waiting`, async () => {
      const { loopback, port, received } = await begin();
      const answer = await rawBytes('127.0.0.1', port, make(1, port), 1000).catch(() => Buffer.alloc(0));
      expect([0, 400, 404, 405, 431]).toContain(statusOf(answer) || 0);
      await rawRequest(good(loopback.redirectUri), 'GET', {});
      expect(await received).toMatchObject({ code: 'the-code' });
    });

  it('answers a URL of 1 MiB and keeps waiting', async () => {
    const { loopback, port, received } = await begin();
    const huge = get(`/callback?pad=${'a'.repeat(1024 * 1024)}`, port);
    const answer = await rawBytes('127.0.0.1', port, huge, 1000).catch(() => Buffer.alloc(0));
    expect(answer.toString('latin1')).not.toContain(' 200 ');
    await rawRequest(good(loopback.redirectUri), 'GET', {});
    expect(await received).toMatchObject({ kind: 'code' });
  });

  it(`receives the real callback among ${HOSTILE_REQUESTS} hostile requests and 200 silent connections`, async () => {
    const { loopback, port, received } = await begin();
    const silent = holdOpen(port, 200);
    const attack = bombard(port, HOSTILE_REQUESTS);
    const answer = await rawRequest(good(loopback.redirectUri), 'GET', {});
    expect(statusOf(answer)).toBe(200);
    expect(await received).toMatchObject({ kind: 'code', code: 'the-code' });
    await attack;
    for (const socket of silent) socket.destroy();
  });

  it('still receives it after the whole attack, on a fresh connection', async () => {
    const { loopback, port, received } = await begin();
    await bombard(port, HOSTILE_REQUESTS);
    const silent = holdOpen(port, 200);
    expect(statusOf(await rawRequest(good(loopback.redirectUri), 'GET', {}))).toBe(200);
    expect(await received).toMatchObject({ kind: 'code', code: 'the-code' });
    for (const socket of silent) socket.destroy();
  });

  it('accepts only the first valid callback; the second one is rejected', async () => {
    const { loopback, received } = await begin();
    const answers = await Promise.all(
      ['one', 'two', 'three'].map((code) => rawRequest(good(loopback.redirectUri, code), 'GET', {})),
    );
    expect(answers.map(statusOf).sort()).toEqual([200, 410, 410]);
    const accepted = answers.findIndex((answer) => statusOf(answer) === 200);
    expect(await received).toMatchObject({ code: ['one', 'two', 'three'][accepted] });
  });

  it('ignores requests until it knows what to wait for', async () => {
    const loopback = await listenOnLoopback(0);
    opened.push(loopback);
    expect(statusOf(await rawRequest(good(loopback.redirectUri), 'GET', {}))).toBe(400);
  });

  it('listens on 127.0.0.1 and nowhere else', async () => {
    const { port } = await begin();
    const others = Object.values(networkInterfaces())
      .flat()
      .filter((one) => one !== undefined && one.address !== '127.0.0.1' && !one.address.startsWith('fe80'))
      .map((one) => one?.address ?? '');
    expect(await refuses('127.0.0.1', port)).toBe(false);
    for (const host of ['::1', ...others]) expect(await refuses(host, port), host).toBe(true);
  });

  it('is closed within a second, even while others hold connections open', async () => {
    const { loopback, port, received } = await begin();
    const silent = holdOpen(port, 20);
    await rawRequest(good(loopback.redirectUri), 'GET', {});
    await received;
    const begun = performance.now();
    await loopback.close();
    expect(performance.now() - begun).toBeLessThan(1000);
    expect(await refuses('127.0.0.1', port)).toBe(true);
    for (const socket of silent) socket.destroy();
  });

  it('answers with a page that reflects no input, is not cached, and loads nothing', async () => {
    const { loopback, port } = await begin();
    for (const target of [`/callback?state=x&code=<script>alert(1)</script>`, good('/callback')]) {
      const answer = (await rawBytes('127.0.0.1', port, get(target, port))).toString('latin1');
      expect(answer).not.toContain('alert(1)');
      expect(answer).not.toContain(STATE);
      expect(answer).toMatch(/^cache-control: no-store\r$/im);
      expect(answer).toMatch(/^x-content-type-options: nosniff\r$/im);
      expect(answer).toMatch(/^content-security-policy: default-src 'none'/im);
      expect(answer).toMatch(/^connection: close\r$/im);
    }
    expect(loopback.redirectUri).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/callback$/);
  });

  it.each(['192.0.2.1', 'fe80::1', '2001:db8::1'])(
    'reports an address that it cannot listen on, with exit 2: %s',
    (host) =>
      expect(listenOnLoopback(0, host)).rejects.toMatchObject({
        code: 'ASP_USAGE',
        message: expect.stringContaining(host),
      }),
  );

  it('reports a port that is taken, with exit 6', async () => {
    const { port } = await begin();
    await expect(listenOnLoopback(port)).rejects.toMatchObject({ code: 'ASP_PORT_IN_USE' });
  });
});

describe.skipIf(process.platform !== 'linux' || process.getuid?.() !== 0)('a callback of another user', () => {
  /** Sends a request and then leaves its connection open, ends its half of it, or resets it. */
  const SENDER = `
    const [port, address, end, host, localAddress] = process.argv.slice(1);
    const socket = require('node:net').connect({ host, port, localAddress }, () => {
      const { host, pathname, search } = new URL(address);
      socket.write('GET ' + pathname + search + ' HTTP/1.1\\r\\nHost: ' + host + '\\r\\n\\r\\n', () => socket[end]?.());
    });
    socket.on('error', () => {});
    socket.once('data', (bytes) => console.log(String(bytes).slice(9, 12)));
  `;

  const [onNetwork] = Object.values(networkInterfaces())
    .flatMap((all = []) => all)
    .filter(({ internal, address }) => !internal && !address.startsWith('fe80'));

  it.each([
    ['127.0.0.1', '127.0.0.1', '127.0.0.2'],
    ['an address of the network', '0.0.0.0', onNetwork?.family === 'IPv4' ? onNetwork.address : undefined],
    ['IPv6', '::1', '::1'],
  ])(
    'is ignored, whatever happens to its connection, because it can know the state but brings its own code: %s',
    async (_, host, from) => {
      if (from === undefined) return;
      const { loopback, port, received } = await open(host);
      const to = host === '0.0.0.0' ? from : host;
      const send = async (uid: number, code: string, end: string): Promise<string> => {
        const args = ['-e', SENDER, String(port), good(loopback.redirectUri, code), end, to, from];
        return (await promisify(execFile)(process.execPath, args, { uid, cwd: '/' })).stdout.trim();
      };
      for (const end of ['stay', 'end', 'destroy', 'resetAndDestroy'])
        expect(await send(65_534, 'theirs', end), end).toMatch(/^(400)?$/);
      expect(await send(0, 'ours', 'stay')).toBe('200');
      expect(await received).toMatchObject({ kind: 'code', code: 'ours' });
      await loopback.close();
    },
  );
});
