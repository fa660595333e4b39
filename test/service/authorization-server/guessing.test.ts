import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { toWiderNetwork } from '../../../src/service/oauth/attempts.js';
import { createTestClock } from '../../support/clock.js';
import { type Answer, request } from '../../support/http.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createBrowser } from './browser.js';

const SIGN_IN = '/oauth/sign-in';
const PASSWORD = 'correct horse battery';
const HOME = '203.0.113.7';

describe('someone who guesses a password from many addresses', () => {
  const clock = createTestClock();
  let service: TestService;
  beforeEach(async () => {
    service = await startTestService({ isBehindProxy: true, clock });
    const person = { username: 'maria', display_name: 'Maria', password: PASSWORD };
    expect((await send(HOME, '/oauth/sign-up', person)).status).toBe(303);
  });
  afterEach(() => service.stop());

  /** Sends a form of the sign-in page from a new browser at this address. */
  const send = async (address: string, action: string, fields: Record<string, string>): Promise<Answer> => {
    const from = { 'x-forwarded-for': address };
    const browser = createBrowser(service.webUrl);
    return browser.submit(await browser.get(SIGN_IN, from), action, fields, from);
  };
  const tryWith = (address: string, password: string, username = 'maria') =>
    send(address, SIGN_IN, { username, password });
  const guessFrom = async (count: number, addressOf: (index: number) => string, username?: string) => {
    const statuses: number[] = [];
    for (let index = 0; index < count; index += 1)
      statuses.push((await tryWith(addressOf(index), 'not the password', username)).status);
    return statuses;
  };

  it('has 30 guesses per hour in total, and the owner can still sign in from home', async () => {
    const statuses = await guessFrom(33, (index) => `198.51.100.${index}`);
    expect(statuses).toEqual([...Array<number>(30).fill(400), 429, 429, 429]);
    expect((await tryWith('192.0.2.1', PASSWORD)).status).toBe(429);
    expect((await tryWith(HOME, PASSWORD)).status).toBe(303);
    clock.advance(3_600_000);
    expect((await tryWith('192.0.2.1', PASSWORD)).status).toBe(303);
  });

  it('does not learn which accounts exist', async () => {
    const statuses = await guessFrom(31, (index) => `198.51.100.${index}`, 'nobody-here');
    expect(statuses.slice(-2)).toEqual([400, 429]);
  });
});

describe('the wider network of an address', () => {
  it.each([
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1::/48'],
    ['2001:db8:1:ffff::1', '2001:db8:1::/48'],
    ['::ffff:192.0.2.7', undefined],
    ['192.0.2.7', undefined],
  ])('%s: %s', (address, network) => expect(toWiderNetwork(address)).toBe(network));

  it('shares one limit among a site’s thousands of small networks', async () => {
    const service = await startTestService({ isBehindProxy: true });
    const statuses: number[] = [];
    for (let index = 0; index < 101; index += 1) {
      const headers = {
        'content-type': 'application/json',
        'x-forwarded-for': `2001:db8:1:${index.toString(16)}::1`,
      };
      const body = JSON.stringify({ redirect_uris: ['https://app.example/'] });
      statuses.push((await request(`${service.authUrl}/register`, { method: 'POST', headers, body })).status);
    }
    expect(statuses).toEqual([...Array<number>(100).fill(201), 429]);
    await service.stop();
  });
});
