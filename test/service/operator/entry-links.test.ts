import { afterEach, describe, expect, it } from 'vitest';

import type { ServiceOptions } from '../../../src/service/service.js';
import { askOperator, operate } from '../../support/actors.js';
import { createTestClock } from '../../support/clock.js';
import { type Answer, request } from '../../support/http.js';
import { field, list, text } from '../../support/json.js';
import { startTestService, type TestService } from '../../support/service.js';
import { createBrowser, hiddenFields } from '../authorization-server/browser.js';

const SIGN_IN = '/oauth/sign-in';
const SIGN_UP = '/oauth/sign-up';
const NEW_PASSWORD = '/oauth/new-password';
const PASSWORD = 'correct horse battery';
const HOUR_MS = 3_600_000;

let service: TestService;
afterEach(() => service.stop());
const start = async (options: Partial<ServiceOptions> = {}): Promise<void> => {
  service = await startTestService({ areLimitsOn: false, ...options });
};
const ask = (method: string, path: string, body?: unknown): Promise<Answer> =>
  askOperator(service.operator, method, path, body);
const invite = async (): Promise<unknown> =>
  operate(service.operator, 'POST', '/invitations', { lifetime_ms: 24 * HOUR_MS });

/** Signs up on the page at this address with its form's values and these fields. */
async function signUp(username: string, fields: Record<string, string> = {}, address = SIGN_IN): Promise<Answer> {
  const browser = createBrowser(service.webUrl);
  const page = await browser.get(address);
  return browser.submit(page, SIGN_UP, { username, display_name: 'A Person', password: PASSWORD, ...fields });
}
async function signIn(username: string, password: string): Promise<Answer> {
  const browser = createBrowser(service.webUrl);
  return browser.submit(await browser.get(SIGN_IN), SIGN_IN, { username, password });
}

describe('a service whose sign-up is by invitation', () => {
  const options = { accountPolicy: { signUp: 'invite' } } as const;

  it('lets in one person with each invitation, and shows the operator who came', async () => {
    await start(options);
    const { text: page } = await request(`${service.webUrl}${SIGN_IN}`);
    expect(page).toContain('Invitation code');
    const made = await invite();
    const opened = await request(text(made, 'url'));
    expect(opened.text).toContain(`value="${text(made, 'code')}"`);
    const invitation = text(made, 'code');
    expect((await signUp('maria', { invitation })).status).toBe(303);
    const again = await signUp('second', { invitation });
    expect([again.status, again.text]).toEqual([403, expect.stringContaining('has expired or was used')]);
    expect((await signIn('second', PASSWORD)).status).toBe(400);
    const [listed] = list((await ask('GET', '/invitations')).json, 'invitations');
    expect(listed).toMatchObject({ state: 'used', account: 'maria' });
    expect(JSON.stringify(listed)).not.toContain(invitation);
  });

  it('keeps out people without one, or with one that is invented, too old or revoked', async () => {
    const clock = createTestClock();
    await start({ ...options, clock });
    const revoked = await invite();
    const old = await invite();
    expect((await ask('DELETE', `/invitations/${text(revoked, 'id')}`)).json).toEqual({ ok: true });
    expect((await ask('DELETE', `/invitations/${text(revoked, 'id')}`)).status).toBe(404);
    expect((await signUp('maria', { invitation: text(revoked, 'code') })).status).toBe(403);
    clock.advance(24 * HOUR_MS);
    for (const invitation of ['', 'made-up', text(old, 'code')])
      expect((await signUp('maria', { invitation })).status).toBe(403);
    expect(field(list((await ask('GET', '/invitations')).json, 'invitations')[0], 'state')).toBe('expired');
  });

  it('lets in only one of two people who use the same invitation at once', async () => {
    await start(options);
    const invitation = text(await invite(), 'code');
    const answers = await Promise.all(['one', 'two', 'three'].map((name) => signUp(name, { invitation })));
    expect(answers.map(({ status }) => status).sort()).toEqual([303, 403, 403]);
  });
});

describe('a service that takes no new accounts', () => {
  it('offers no form for one, and refuses one that is sent', async () => {
    await start({ accountPolicy: { signUp: 'off' } });
    const { text: page } = await request(`${service.webUrl}${SIGN_IN}`);
    expect(page).not.toContain(SIGN_UP);
    expect(page).toContain('You cannot create an account');
    const browser = createBrowser(service.webUrl);
    const shown = await browser.get(SIGN_IN);
    const person = {
      ...hiddenFields(shown.text, SIGN_IN),
      username: 'maria',
      display_name: 'Maria',
      password: PASSWORD,
    };
    const refused = await browser.submit(shown, SIGN_UP, person);
    expect([refused.status, refused.text]).toEqual([403, expect.stringContaining('You cannot create an account')]);
    expect((await signIn('maria', PASSWORD)).status).toBe(400);
  });
});

describe('a link that sets a password', () => {
  const link = async (username: string): Promise<string> =>
    text(await operate(service.operator, 'POST', `/accounts/${username}/password-links`), 'url');
  const choose = async (url: string, password: string): Promise<Answer> => {
    const browser = createBrowser(service.webUrl);
    return browser.submit(await browser.get(url), NEW_PASSWORD, { password });
  };

  it('works once, even after someone opened it, and the old password no longer does', async () => {
    await start();
    await signUp('maria');
    const url = await link('maria');
    expect((await request(url)).text).toContain('@maria');
    expect((await request(url)).status).toBe(200);
    const easy = await choose(url, 'maria1234');
    expect([easy.status, easy.text]).toEqual([400, expect.stringContaining('too easy to guess')]);
    expect((await choose(url, 'a wholly different one')).headers['location']).toBe('/dashboard');
    expect((await request(url)).status).toBe(403);
    expect((await signIn('maria', PASSWORD)).status).toBe(400);
    expect((await signIn('maria', 'a wholly different one')).status).toBe(303);
  });

  it('signs out every signed-in browser', async () => {
    await start();
    const before = createBrowser(service.webUrl);
    const person = { username: 'maria', display_name: 'Maria', password: PASSWORD };
    await before.submit(await before.get(SIGN_IN), SIGN_UP, person);
    expect((await before.get('/dashboard/agents')).status).toBe(200);
    await choose(await link('maria'), 'a wholly different one');
    expect((await before.get('/dashboard/agents')).status).toBe(303);
  });

  it('is dead after an hour, after the next one is created, and while the account is suspended', async () => {
    const clock = createTestClock();
    await start({ clock });
    await signUp('maria');
    const first = await link('maria');
    const second = await link('maria');
    expect((await request(first)).status).toBe(403);
    expect((await request(second)).status).toBe(200);
    clock.advance(HOUR_MS);
    expect((await request(second)).status).toBe(403);
    const third = await link('maria');
    await ask('PATCH', '/accounts/maria', { suspended: true });
    expect((await request(third)).status).toBe(403);
    expect((await ask('POST', '/accounts/maria/password-links')).status).toBe(400);
  });

  it('lets a local account sign in through a proxy, where asp serve open cannot help', async () => {
    await start({ isBehindProxy: true, seeds: [{ handle: '@alice.bot' }] });
    const refused = await ask('POST', '/sign-in-links', {});
    expect([refused.status, refused.text]).toEqual([400, expect.stringContaining('reset-password')]);
    const made = await ask('POST', '/accounts/alice/password-links');
    expect(made.status).toBe(200);
    const browser = createBrowser(service.webUrl);
    const page = await browser.get(text(made.json, 'url'));
    expect((await browser.submit(page, NEW_PASSWORD, { password: PASSWORD })).status).toBe(303);
    expect((await signIn('alice', PASSWORD)).status).toBe(303);
    expect((await signIn('alice', 'wrong')).status).toBe(400);
  });

  it('is not created for a local account, which has no password, nor for a missing one', async () => {
    await start({ seeds: [{ handle: '@alice.bot' }] });
    expect((await ask('POST', '/accounts/alice/password-links')).status).toBe(400);
    expect((await ask('POST', '/accounts/nobody/password-links')).status).toBe(404);
  });
});
