import { Agent, request as send } from 'node:http';
import { connect } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createBrowser } from '../service/authorization-server/browser.js';
import { PROGRAM_FILE } from '../support/built-program-file.js';
import { request } from '../support/http.js';
import { createHome, type Home, type Running } from './program.js';

const TIMEOUT_MS = 120_000;
const SIGN_IN = '/oauth/sign-in';
const form = { 'content-type': 'application/x-www-form-urlencoded' };

let home: Home;
let service: Running;
let origin: string;
let baseUrl: string;
let agent: Agent;
beforeEach(async () => {
  home = createHome();
  // As people start it: scrypt at its full cost.
  const words = [
    'serve',
    '--port',
    '0',
    '--data',
    join(home.directory, 'data'),
    '--seed',
    'me.bot',
    '--metrics-port',
    '0',
  ];
  service = home.spawn(process.execPath, [PROGRAM_FILE, ...words]);
  [, baseUrl = ''] = await service.until('stdout', /^(http:\S+)$/m);
  origin = new URL(baseUrl).origin;
  agent = new Agent({ keepAlive: true });
});
afterEach(async () => {
  agent.destroy();
  service.kill('SIGTERM');
  await service.ended;
  await home.dispose();
});

/** The status of an answer to a stranger at an address of this machine. */
function ask(path: string, localAddress: string, body?: string, headers = {}): Promise<number | undefined> {
  const method = body === undefined ? 'GET' : 'POST';
  return new Promise((resolve, reject) => {
    const asked = send(`${origin}${path}`, { agent, localAddress, method, headers }, (answer) => {
      answer.resume().once('end', () => resolve(answer.statusCode));
    });
    asked.once('error', reject).end(body);
  });
}

/** Guesses, all at once, each for another account. */
async function guess(addresses: readonly string[]): Promise<Promise<number | undefined>[]> {
  const browser = createBrowser(origin);
  const page = await browser.get(SIGN_IN);
  const csrf = /name="csrf" value="([^"]+)"/.exec(page.text)?.[1] ?? '';
  const cookie = String(page.headers['set-cookie']).split(';')[0] ?? '';
  return addresses.map((address, index) => {
    const body = new URLSearchParams({ csrf, username: `nobody-${index}`, password: 'not the password' });
    return ask(SIGN_IN, address, body.toString(), { ...form, cookie, origin });
  });
}

describe('a flood of passwords', { timeout: TIMEOUT_MS }, () => {
  it('from one address leaves room for others: most of it is refused without being checked', async () => {
    const statuses = await Promise.all(await guess(Array<string>(90).fill('127.0.0.2')));
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThan(0);
    expect(new Set(statuses)).toEqual(new Set([400, 429]));
    const [, metrics = ''] = await service.until('stderr', /Metrics are at (\S+)\.$/m);
    expect((await request(metrics)).text).toMatch(/^asp_failed_sign_ins_total 90$/m);
  });

  it('from many addresses does not hold up those who are signed in', async () => {
    expect(await home.run(['login', '@me.bot', '--yes'])).toMatchObject({ status: 0 });
    const order: string[] = [];
    const flood = await guess(Array.from({ length: 60 }, (_, index) => `127.0.1.${index + 1}`));
    for (const guessed of flood) void guessed.then(() => order.push('guess'));
    await Promise.race(flood);
    const renewed = await home.asp(['auth', 'refresh']);
    order.push('token');
    await Promise.all(flood);
    expect(renewed).toMatchObject({ status: 0 });
    expect(order.indexOf('token')).toBeLessThan(order.length / 2);
  });
});

describe('a flood of pages', { timeout: TIMEOUT_MS }, () => {
  const [CONNECTIONS, PAGES] = [100, 50];
  it('lets those who connect after it in before most of its pages are made', async () => {
    const { hostname, port, host } = new URL(origin);
    const asked = `GET ${SIGN_IN} HTTP/1.1\r\nhost: ${host}\r\n\r\n`.repeat(PAGES);
    let pages = 0;
    const flood = Array.from({ length: CONNECTIONS }, () => {
      const socket = connect(Number(port), hostname).setEncoding('latin1');
      socket.on('data', (text: string) => {
        pages += text.split('HTTP/1.1 200').length - 1;
      });
      return socket.on('error', () => {}).on('connect', () => socket.write(asked));
    });
    const answer = await request(`${origin}/health`);
    const before = pages;
    for (const socket of flood) socket.destroy();
    expect(answer.status).toBe(200);
    // Each connection is accepted in its own turn, and the last one comes after all others.
    expect(before).toBeLessThan((CONNECTIONS * PAGES) / 2);
  });
});
