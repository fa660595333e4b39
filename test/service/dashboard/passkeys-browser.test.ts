import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, BrowserContext, CDPSession, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { operate } from '../../support/actors.js';
import { findViolations } from '../../support/axe.js';
import { newPerson, openBrowser, type Person } from '../../support/browser.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { text } from '../../support/json.js';
import { authorizationUrl, createVerifier, mustRegister } from '../../support/oauth.js';
import { mustFindForm, signIn as signInAs } from '../../support/person.js';
import { openStage, type Stage } from './stage.js';

const TITLE = `Passkeys in a real browser ${noChromium ?? ''}`;

interface Credential {
  readonly credentialId: string;
  readonly signCount: number;
}

/** A browser window with its own virtual authenticator. */
interface Desktop {
  readonly context: BrowserContext;
  readonly page: Page;
  readonly complaints: string[];
  /** Sets whether the person is there to touch the authenticator. */
  setPresent(isPresent: boolean): Promise<void>;
  setVerified(isVerified: boolean): Promise<void>;
  credentials(): Promise<Credential[]>;
  put(credential: Credential): Promise<void>;
  empty(): Promise<void>;
}

async function getFreePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

describe.skipIf(noChromium !== undefined)(TITLE, () => {
  let stage: Stage;
  let browser: Browser;
  let web: string;
  beforeAll(async () => {
    const port = await getFreePort();
    web = `http://localhost:${port}`;
    stage = await openStage({ port, publicUrl: web });
    await stage.enter('first');
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await stage.close();
  });

  async function sitDown(colorScheme: 'light' | 'dark' = 'light', suggests = false): Promise<Desktop> {
    const context = await browser.newContext({ colorScheme, viewport: { width: 320, height: 800 } });
    const page = await context.newPage();
    // The virtual authenticator would accept a suggestion before the test could press the button.
    if (!suggests) await page.addInitScript('PublicKeyCredential.isConditionalMediationAvailable = async () => false');
    page.setDefaultTimeout(15_000);
    const complaints: string[] = [];
    page.on('console', (message) => {
      if (/Content Security Policy|Uncaught/.test(message.text())) complaints.push(message.text());
    });
    const session: CDPSession = await context.newCDPSession(page);
    await session.send('WebAuthn.enable', { enableUI: false });
    const { authenticatorId } = await session.send('WebAuthn.addVirtualAuthenticator', {
      options: {
        protocol: 'ctap2',
        transport: 'internal',
        hasResidentKey: true,
        hasUserVerification: true,
        isUserVerified: true,
        automaticPresenceSimulation: false,
      },
    });
    return {
      context,
      page,
      complaints,
      async setPresent(enabled) {
        await session.send('WebAuthn.setAutomaticPresenceSimulation', { authenticatorId, enabled });
      },
      async setVerified(isUserVerified) {
        await session.send('WebAuthn.setUserVerified', { authenticatorId, isUserVerified });
      },
      async credentials() {
        return (await session.send('WebAuthn.getCredentials', { authenticatorId })).credentials;
      },
      async put(credential) {
        await session.send('WebAuthn.addCredential', { authenticatorId, credential: credential as never });
      },
      async empty() {
        await session.send('WebAuthn.clearCredentials', { authenticatorId });
      },
    };
  }

  const press = (page: Page, name: string): Promise<void> => page.getByRole('button', { name, exact: true }).click();
  const heading = (page: Page, name: string): Promise<void> =>
    page.getByRole('heading', { name, level: 1, exact: true }).waitFor();

  async function createAccount(page: Page, person: Person): Promise<void> {
    await page.goto(`${web}/dashboard/settings`);
    await page.getByText('New here? Create an account').click();
    await page.locator('#new-username').fill(person.username);
    await page.locator('#new-display-name').fill('Some Body');
    await page.locator('#new-password').fill(person.password);
    await press(page, 'Create account');
    await heading(page, 'Settings');
  }

  async function addPasskey({ page, setPresent }: Desktop, name: string): Promise<void> {
    await page.goto(`${web}/dashboard/settings`);
    await page.getByRole('link', { name: 'Add a passkey' }).click();
    await heading(page, 'Add a passkey');
    await page.getByLabel('Name', { exact: true }).fill(name);
    await setPresent(true);
    await press(page, 'Create passkey');
    await page.getByRole('status').getByText('The passkey was added.').waitFor();
    await setPresent(false);
  }

  /** Creates a person who has an account with a passkey and is signed out. */
  async function meet(name: string, suggests = false): Promise<Desktop & { readonly person: Person }> {
    const desktop = await sitDown('light', suggests);
    const person = newPerson(name);
    await createAccount(desktop.page, person);
    await addPasskey(desktop, 'Laptop');
    await signOut(desktop.page);
    return { ...desktop, person };
  }

  async function signOut(page: Page): Promise<void> {
    await page.locator('button.account').click();
    await press(page, 'Sign out');
    await heading(page, 'Sign in');
  }

  async function signIn({ page, setPresent }: Desktop): Promise<void> {
    await setPresent(true);
    await press(page, 'Sign in with a passkey');
    await page.waitForURL(/\/dashboard\//);
    await setPresent(false);
  }

  /** Captures the form that the browser would send, without sending it. */
  async function capture({ page, setPresent }: Desktop): Promise<string> {
    const route = /\/oauth\/passkey$/;
    const taken = new Promise<string>((resolve) => {
      void page.route(route, async (caught) => {
        resolve(caught.request().postData() ?? '');
        await caught.abort();
      });
    });
    await setPresent(true);
    await press(page, 'Sign in with a passkey');
    const body = await taken;
    await setPresent(false);
    await page.unroute(route);
    return body;
  }

  async function send({ context }: Desktop, body: string | URLSearchParams, headers: Record<string, string> = {}) {
    const answer = await context.request.post(`${web}/oauth/passkey`, {
      headers: { 'content-type': 'application/x-www-form-urlencoded', origin: web, ...headers },
      data: body.toString(),
      maxRedirects: 0,
    });
    return { status: answer.status(), html: await answer.text() };
  }
  const REFUSED = 'This passkey does not work here.';

  it('is added in the settings, signs in, is listed with its last use, and is removed', async () => {
    const desktop = await meet('ada');
    const { page } = desktop;
    await page.goto(`${web}/oauth/sign-in?return_to=/dashboard/settings`);
    await signIn(desktop);
    await heading(page, 'Settings');
    const row = page.locator('li.row', { hasText: 'Laptop' });
    expect(await row.innerText()).toMatch(/Added .*, last used /);
    // A device creates only one passkey for each account.
    await desktop.empty();
    await addPasskey(desktop, 'Second');
    expect(await page.locator('section[aria-labelledby=passkeys] li').count()).toBe(2);
    await row.getByRole('link', { name: 'Remove Laptop' }).click();
    await press(page, 'Remove passkey');
    await page.getByRole('status').getByText('The passkey was removed.').waitFor();
    expect(await page.locator('section[aria-labelledby=passkeys] li').count()).toBe(1);
    await page.goto(`${web}/dashboard/settings/activity`);
    const activity = await page.locator('main').innerText();
    for (const entry of ['Passkey added', 'Passkey removed', 'Passkey: Laptop']) expect(activity).toContain(entry);
    expect(desktop.complaints).toEqual([]);
  });

  it('is among the suggestions for the username: no button is needed', async () => {
    const desktop = await meet('sam', true);
    expect(await desktop.page.locator('#username').getAttribute('autocomplete')).toBe('username webauthn');
    await desktop.setPresent(true);
    await desktop.page.goto(`${web}/oauth/sign-in?return_to=/dashboard/settings`);
    await heading(desktop.page, 'Settings');
  });

  it('signs in between an app and its consent page', async () => {
    const desktop = await meet('olga');
    const clientId = await mustRegister(stage.desk.place, { client_name: 'An app' });
    await desktop.page.goto(authorizationUrl(stage.desk.place, { clientId, challenge: createVerifier().challenge }));
    await desktop.page.getByText('wants to use your account').waitFor();
    await desktop.setPresent(true);
    await press(desktop.page, 'Sign in with a passkey');
    await desktop.page.getByRole('button', { name: 'Allow' }).waitFor();
    expect(await desktop.page.locator('main').innerText()).toContain(`@${desktop.person.username}`);
  });

  it('signs in once with one answer: a replay is refused, even in the same browser', async () => {
    const desktop = await meet('rita');
    const body = await capture(desktop);
    const cookies = await desktop.context.cookies();
    expect((await send(desktop, body)).status).toBe(303);
    await desktop.context.clearCookies();
    await desktop.context.addCookies(cookies);
    const again = await send(desktop, body);
    expect([again.status, again.html.includes(REFUSED)]).toEqual([400, true]);
    // The challenge alone refuses it, because many authenticators do not count their signatures.
    await desktop.page.goto(`${web}/oauth/sign-in`);
    await signIn(desktop);
    await desktop.page.goto(`${web}/dashboard/settings/activity`);
    expect(await desktop.page.locator('main').innerText()).not.toContain('there is a copy of this passkey');
  });

  it('an answer counts only in the browser that asked, for a quarter of an hour', async () => {
    const desktop = await meet('tina');
    const body = await capture(desktop);
    const thief = await sitDown();
    await thief.page.goto(`${web}/oauth/sign-in`);
    const form = new URLSearchParams(body);
    form.set('csrf', (await thief.page.locator('input[name=csrf]').first().inputValue()) ?? '');
    const stolen = await send(thief, form);
    expect([stolen.status, stolen.html.includes(REFUSED)]).toEqual([400, true]);
    stage.desk.clock.advance(15 * 60_000);
    const late = await send(desktop, body);
    expect([late.status, late.html.includes('open for too long')]).toEqual([400, true]);
  });

  it('an answer obtained by a page of another origin is refused', async () => {
    const desktop = await meet('vera');
    const { page } = desktop;
    const body = new URLSearchParams(await capture(desktop));
    await page.goto(`${web}/oauth/sign-in`);
    const options = JSON.parse((await page.locator('#passkey-form').getAttribute('data-passkey')) ?? '');
    const csrf = await page.locator('#passkey-form input[name=csrf]').inputValue();
    const script = await page.locator('body > script').textContent();
    const evil: Server = createServer((_incoming, answer) => {
      answer.setHeader('content-type', 'text/html');
      answer.end(`<form id="passkey-form" method="post" action="/oauth/passkey"><input name="credential" value="">
        <p id="passkey-problem"></p><button>Sign in with a passkey</button></form><script>
        document.getElementById('passkey-form').dataset.passkey = ${JSON.stringify(JSON.stringify(options))};</script>
        <script>${script}</script>`);
    });
    await new Promise<void>((resolve) => evil.listen(0, '127.0.0.1', resolve));
    try {
      await page.goto(`http://localhost:${(evil.address() as AddressInfo).port}/`);
      const taken = new URLSearchParams(await capture(desktop));
      body.set('credential', taken.get('credential') ?? '');
      body.set('csrf', csrf);
      const answer = await send(desktop, body);
      expect([answer.status, answer.html.includes(REFUSED)]).toEqual([400, true]);
      expect((await send(desktop, body, { origin: 'http://localhost:1' })).status).toBe(403);
    } finally {
      evil.close();
    }
  });

  it('an answer that claims to be for another account is refused', async () => {
    const [mia, zoe] = [await meet('mia'), await meet('zoe')];
    const other = new URLSearchParams(await capture(zoe));
    const body = new URLSearchParams(await capture(mia));
    const own = JSON.parse(body.get('credential') ?? '');
    const foreign = JSON.parse(other.get('credential') ?? '');
    const refused = [
      { ...own, id: foreign.id, rawId: foreign.rawId },
      { ...own, response: { ...own.response, userHandle: foreign.response.userHandle } },
    ];
    for (const one of refused) {
      body.set('credential', JSON.stringify(one));
      expect((await send(mia, body)).html).toContain(REFUSED);
    }
    // Neither attempt used up the challenge.
    body.set('credential', JSON.stringify(own));
    expect((await send(mia, body)).status).toBe(303);
    const signature = { ...foreign.response, signature: own.response.signature };
    other.set('credential', JSON.stringify({ ...foreign, response: signature }));
    expect((await send(zoe, other)).html).toContain(REFUSED);
  });

  it('a removed passkey, a copied one and nonsense get the same answer', async () => {
    const desktop = await meet('nora');
    const { page, person } = desktop;
    const [before] = await desktop.credentials();
    if (before === undefined) throw new Error('no credential');
    await signIn(desktop);
    await signOut(page);
    await desktop.empty();
    await desktop.put({ ...before, signCount: 0 });
    const copied = await send(desktop, await capture(desktop));
    await page.goto(`${web}/oauth/sign-in`);
    const malformed = new URLSearchParams(await capture(desktop));
    const answers = [copied];
    for (const nonsense of ['', '{', '[]', '{"id":1}', '{"id":"a","rawId":"a","type":"public-key","response":{}}']) {
      malformed.set('credential', nonsense);
      answers.push(await send(desktop, malformed));
    }
    await page.goto(`${web}/dashboard/settings`);
    await page.locator('#username').fill(person.username);
    await page.locator('#password').fill(person.password);
    await press(page, 'Sign in');
    await page.getByRole('link', { name: 'Remove Laptop' }).click();
    await press(page, 'Remove passkey');
    await page.goto(`${web}/dashboard/settings/activity`);
    expect(await page.locator('main').innerText()).toContain('there is a copy of this passkey');
    await signOut(page);
    answers.push(await send(desktop, await capture(desktop)));
    expect(answers.map(({ status, html }) => [status, html.includes(REFUSED)])).toEqual(answers.map(() => [400, true]));
  });

  it('asks the authenticator to verify its person, and accepts no passkey without verification', async () => {
    const desktop = await meet('uma');
    await desktop.setVerified(false);
    await desktop.setPresent(true);
    await press(desktop.page, 'Sign in with a passkey');
    await desktop.page.locator('#passkey-problem').getByText('did not use a passkey').waitFor();
    expect(new URL(desktop.page.url()).pathname).toBe('/oauth/sign-in');
  });

  it('an answer without that verification is refused, even if a page did not ask for it', async () => {
    const desktop = await meet('iris');
    await desktop.page.addInitScript(`{
      const get = navigator.credentials.get.bind(navigator.credentials);
      navigator.credentials.get = ({ publicKey, ...rest }) =>
        get({ ...rest, publicKey: { ...publicKey, userVerification: 'discouraged' } });
    }`);
    await desktop.setVerified(false);
    await desktop.page.goto(`${web}/oauth/sign-in`);
    const body = await capture(desktop);
    const credential = JSON.parse(new URLSearchParams(body).get('credential') ?? '');
    const [flags] = Buffer.from(credential.response.authenticatorData, 'base64url').subarray(32);
    // User present but not verified (Web Authentication Level 3 §6.1).
    expect((flags ?? 0) & 0b101).toBe(0b001);
    const refused = await send(desktop, body);
    expect([refused.status, refused.html.includes(REFUSED)]).toEqual([400, true]);
  });

  it('attempts from one address are limited together with those for passwords', async () => {
    const port = await getFreePort();
    const own = await openStage({ port, publicUrl: `http://localhost:${port}` });
    try {
      await own.enter('first');
      const visitor = openBrowser();
      const start = await visitor.open(`${own.web}/oauth/sign-in`);
      const button = /^sign in with a passkey$/i;
      const tryIt = (from: typeof start) =>
        visitor.submit(from, mustFindForm(from, button), { credential: 'x' }, button);
      let answer = await tryIt(start);
      for (let count = 1; count < 100; count += 1) {
        expect(answer.answer.status).toBe(400);
        answer = await tryIt(start);
      }
      expect(answer.answer.status).toBe(400);
      const late = await tryIt(start);
      expect([late.answer.status, late.answer.headers['retry-after']]).toEqual([429, String(15 * 60)]);
      const person = newPerson('eve');
      expect((await signInAs(visitor, start, person)).answer.status).toBe(429);
      own.desk.clock.advance(15 * 60_000);
      expect((await tryIt(start)).answer.status).toBe(400);
    } finally {
      await own.close();
    }
  });

  it('a browser that signed in long ago must show that the same person is using it', async () => {
    const desktop = await meet('lena');
    const { page, person } = desktop;
    await signIn(desktop);
    stage.desk.clock.advance(10 * 60_000 + 1);
    await page.goto(`${web}/dashboard/settings/passkeys/new`);
    expect(await page.getByRole('button', { name: 'Create passkey' }).count()).toBe(0);
    expect(await findViolations(page)).toEqual([]);
    await page.getByLabel('Password').fill('not the password');
    await press(page, 'Continue');
    await page.getByRole('alert').filter({ hasText: 'The password is wrong.' }).waitFor();
    await page.getByLabel('Password').fill(person.password);
    await press(page, 'Continue');
    await page.getByRole('button', { name: 'Create passkey' }).waitFor();
    stage.desk.clock.advance(10 * 60_000 + 1);
    await page.goto(`${web}/dashboard/settings/passkeys/new`);
    await desktop.setPresent(true);
    await press(page, 'Use a passkey');
    await page.getByRole('button', { name: 'Create passkey' }).waitFor();
    // The browser itself refuses a second passkey on the same device.
    await press(page, 'Create passkey');
    await page.locator('#passkey-problem').getByText('already has a passkey').waitFor();
  });

  it('a password link from the operator removes all passkeys; changing the password keeps them', async () => {
    const desktop = await meet('kim');
    const { page, person } = desktop;
    await signIn(desktop);
    await page.goto(`${web}/dashboard/settings`);
    await page.locator('#current-password').fill(person.password);
    await page.locator('#new-password').fill('an unlikely phrase');
    await press(page, 'Change password');
    await page.getByRole('status').getByText('Your password was changed').waitFor();
    expect(await page.locator('li.row', { hasText: 'Laptop' }).count()).toBe(1);
    const link = await operate(stage.operator, 'POST', `/accounts/${person.username}/password-links`);
    await page.goto(text(link, 'url'));
    await page.locator('#new-password').fill('another unlikely phrase');
    await press(page, 'Set password');
    await page.goto(`${web}/dashboard/settings`);
    expect(await page.locator('li.row', { hasText: 'Laptop' }).count()).toBe(0);
    await signOut(page);
    expect((await send(desktop, await capture(desktop))).html).toContain(REFUSED);
  });

  it('the download of all data names them, without their keys', async () => {
    const desktop = await meet('dora');
    await signIn(desktop);
    await desktop.page.goto(`${web}/dashboard/settings`);
    const csrf = await desktop.page.locator('input[name=csrf]').first().inputValue();
    const answer = await desktop.context.request.post(`${web}/dashboard/settings/export`, {
      headers: { origin: web },
      form: { csrf },
    });
    const { passkeys } = await answer.json();
    expect(passkeys).toEqual([{ name: 'Laptop', created_at: expect.any(Number), last_used_at: expect.any(Number) }]);
  });

  it('a suspended account learns that it is suspended, and a deleted one has no passkey', async () => {
    const desktop = await meet('sue');
    const { page, person } = desktop;
    await operate(stage.operator, 'PATCH', `/accounts/${person.username}`, { suspended: true });
    const suspended = await send(desktop, await capture(desktop));
    expect([suspended.status, suspended.html.includes('This account is suspended.')]).toEqual([403, true]);
    await operate(stage.operator, 'DELETE', `/accounts/${person.username}`);
    await page.goto(`${web}/oauth/sign-in`);
    expect((await send(desktop, await capture(desktop))).html).toContain(REFUSED);
  });

  it.each(['light', 'dark'] as const)('%s: axe finds nothing on its pages, and they fit 320 pixels', async (theme) => {
    const desktop = await sitDown(theme);
    const { page } = desktop;
    await createAccount(page, newPerson('axe'));
    await addPasskey(desktop, 'W'.repeat(60));
    const id = await page.getByRole('link', { name: /^Remove W/ }).getAttribute('href');
    for (const path of ['/dashboard/settings', '/dashboard/settings/passkeys/new', id ?? '']) {
      await page.goto(`${web}${path}`);
      expect([path, await findViolations(page)]).toEqual([path, []]);
      const overflow = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
      expect([path, await page.evaluate<number>(overflow)]).toEqual([path, 0]);
    }
    await page.goto(`${web}/dashboard/settings`);
    await signOut(page);
    expect(await findViolations(page)).toEqual([]);
  });
});
