import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { startService } from '../../../src/service/service.js';
import { operate } from '../../support/actors.js';
import { visibleText } from '../../support/html-form.js';
import { type Answer, request } from '../../support/http.js';
import { text } from '../../support/json.js';
import { authorizationUrl, createVerifier, mustRegister, REDIRECT_URI, redeemCode } from '../../support/oauth.js';
import { createBrowser, hiddenFields, type TestBrowser } from './browser.js';
import { type Desk, openDeskWithClient } from './desk.js';

const AUTHORIZE = '/oauth/authorize';
const SIGN_IN = '/oauth/sign-in';
const SIGN_UP = '/oauth/sign-up';
const SIGN_OUT = '/oauth/sign-out';

let desk: Desk & { clientId: string };
beforeAll(async () => {
  desk = await openDeskWithClient();
});
afterAll(() => desk.stop());

let people = 0;
const { verifier, challenge } = createVerifier();
const urlOf = (overrides: Record<string, string | undefined> = {}, clientId = desk.clientId): string =>
  authorizationUrl(desk.place, { clientId, challenge, overrides });
const backOf = (answer: Answer) => Object.fromEntries(new URL(answer.headers['location'] ?? 'none:').searchParams);

interface Person {
  readonly username: string;
  readonly browser: TestBrowser;
}

const PASSWORD = 'correct horse battery';

async function signUp(given?: string): Promise<Person> {
  people += 1;
  const username = given ?? `person-${people}`;
  const browser = createBrowser(desk.service.webUrl);
  const page = await browser.get(SIGN_IN);
  const answer = await browser.submit(page, SIGN_UP, { username, display_name: 'A Person', password: PASSWORD });
  expect(answer.status).toBe(303);
  return { username, browser };
}

const newAgent = (name: string) => ({ decision: 'allow', agent: 'new', agent_name: name });

/** Opens the consent page as a person who has an agent called `main`. */
async function atConsent(): Promise<Person & { page: Answer; handle: string }> {
  const person = await signUp();
  const first = await person.browser.get(urlOf({ code_challenge: createVerifier().challenge }));
  expect((await person.browser.submit(first, AUTHORIZE, newAgent('main'))).status).toBe(303);
  return { ...person, page: await person.browser.get(urlOf()), handle: `@${person.username}.main` };
}

describe('Consent, the whole way', () => {
  it('a person makes an account and an agent, approves, and the client gets its tokens', async () => {
    const browser = createBrowser(desk.service.webUrl);
    const first = await browser.get(urlOf());
    expect(first.text).toContain('Create an account');
    const sent = await browser.submit(first, SIGN_UP, { username: 'maria', display_name: 'Maria', password: PASSWORD });
    const consent = await browser.follow(sent);
    expect(consent.text).toContain('act as your agent?');
    const back = backOf(await browser.submit(consent, AUTHORIZE, newAgent('inbox')));
    expect(back).toMatchObject({ state: 'the-state', iss: desk.place.issuer });
    const tokens = await redeemCode(desk.place, desk.clientId, back['code'] ?? '', verifier);
    expect(text(tokens.json, 'agent_handle')).toBe('maria.inbox');
  });

  it('a requested agent is always offered, no matter how many agents there are', async () => {
    const operator = { url: desk.service.operatorUrl, secret: desk.service.operatorSecret };
    const last = '@crowd.a1000';
    for (let index = 0; index <= 1_000; index += 1)
      await operate(operator, 'POST', '/agents', { handle: `@crowd.a${index}` });
    const browser = createBrowser(desk.service.webUrl);
    const link = new URL(text(await operate(operator, 'POST', '/sign-in-links', { account: 'crowd' }), 'url'));
    await browser.get(`${link.pathname}${link.search}`);
    const { text: html } = await browser.get(urlOf({ agent_handle: last }));
    expect(html).not.toContain('which is not an agent of');
    expect(/<input type="radio"[^>]*>/.exec(html)?.[0]).toContain(`value="${last}" required checked`);
  });

  it('a signed-in person chooses among their agents, or agent_handle chooses for them', async () => {
    const { browser, handle } = await atConsent();
    expect((await browser.get(urlOf())).text).toMatch(new RegExp(`value="${handle}" required checked`));
    const chosen = await browser.get(urlOf({ agent_handle: handle }));
    expect(chosen.text).toMatch(new RegExp(`value="${handle}" required checked`));
    const answer = await browser.submit(chosen, AUTHORIZE, { decision: 'allow', agent: handle });
    const tokens = await redeemCode(desk.place, desk.clientId, backOf(answer)['code'] ?? '', verifier);
    expect(`@${text(tokens.json, 'agent_handle')}`).toBe(handle);
  });

  it('an agent_handle that does not exist yet is offered as the new agent', async () => {
    const { browser, username } = await atConsent();
    const page = await browser.get(urlOf({ agent_handle: `@${username}.second` }));
    expect(page.text).toMatch(/value="new" required checked/);
    expect(page.text).toMatch(/name="agent_name" value="second"/);
  });

  it('denying sends access_denied, state and iss to the stored redirect URI', async () => {
    const { browser, page } = await atConsent();
    const answer = await browser.submit(page, AUTHORIZE, { decision: 'deny', redirect_uri: 'https://evil.example/' });
    expect(answer.status).toBe(303);
    expect(answer.headers['location']?.startsWith(`${REDIRECT_URI}?`)).toBe(true);
    expect(backOf(answer)).toMatchObject({ error: 'access_denied', state: 'the-state', iss: desk.place.issuer });
  });

  it('account scopes are approved without an agent', async () => {
    const scope = 'account:read account:agents:read';
    const clientId = await mustRegister(desk.place, { scope });
    const { browser } = await atConsent();
    const page = await browser.get(urlOf({ scope }, clientId));
    expect(page.text).not.toContain('name="agent"');
    const back = backOf(await browser.submit(page, AUTHORIZE, { decision: 'allow' }));
    const tokens = await redeemCode(desk.place, clientId, back['code'] ?? '', verifier);
    expect(tokens.json).not.toHaveProperty('agent_handle');
  });

  it('another account can be used: the request waits for the next sign-in', async () => {
    const { browser, page } = await atConsent();
    const other = await signUp();
    const signedOut = await browser.follow(await browser.submit(page, SIGN_OUT));
    expect(signedOut.text).toContain(`action="${SIGN_IN}"`);
    const back = await browser.submit(signedOut, SIGN_IN, { username: other.username, password: PASSWORD });
    expect((await browser.follow(back)).text).toContain(`@${other.username}`);
  });
});

describe('The consent page says where the answer goes', () => {
  it.each([
    ['http://localhost:3334/callback', 'a program on this computer, at localhost:3334'],
    ['http://[::1]:3334/callback', 'a program on this computer, at [::1]:3334'],
    ['https://app.example:8443/callback', 'You will be returned to app.example:8443.'],
    ['com.example.app:/callback', 'the app on this device that opens com.example.app: links'],
  ])('%s: %s', async (uri, sentence) => {
    const { browser, handle } = await atConsent();
    const clientId = await mustRegister(desk.place, { redirect_uris: [uri] });
    const page = await browser.get(urlOf({ redirect_uri: uri }, clientId));
    expect(visibleText(page.text).replace(/ (?=[.])/g, '')).toContain(sentence);
    const answer = await browser.submit(page, AUTHORIZE, { decision: 'allow', agent: handle });
    expect(answer.headers['location']?.startsWith(`${uri}?code=asp_ac_`)).toBe(true);
  });
});

describe('Consent, one stored request', () => {
  it('request fields in the form have no effect', async () => {
    const { browser, page, handle } = await atConsent();
    const answer = await browser.submit(page, AUTHORIZE, {
      decision: 'allow',
      agent: handle,
      redirect_uri: 'https://evil.example/',
      scope: 'account:read',
      code_challenge: createVerifier().challenge,
      client_id: 'oac_other',
    });
    expect(answer.headers['location']?.startsWith(`${REDIRECT_URI}?code=`)).toBe(true);
    const tokens = await redeemCode(desk.place, desk.clientId, backOf(answer)['code'] ?? '', verifier);
    expect(text(tokens.json, 'scope')).not.toContain('account');
  });

  it('a new agent gets the display name of the form', async () => {
    const { browser, page } = await atConsent();
    const values = { ...newAgent('named'), agent_display_name: ' The named one ' };
    expect((await browser.submit(page, AUTHORIZE, values)).status).toBe(303);
    const shown = await browser.get(urlOf({ code_challenge: createVerifier().challenge }));
    expect(shown.text).toContain('The named one');
  });

  it('is answered once', async () => {
    const { browser, page, handle } = await atConsent();
    const answers = await Promise.all(
      Array.from({ length: 8 }, () => browser.submit(page, AUTHORIZE, { decision: 'allow', agent: handle })),
    );
    expect(answers.filter(({ status }) => status === 303)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 400)).toHaveLength(7);
  });

  it.each(['allow', 'deny'])('a person who goes back after “%s” learns that it was answered', async (decision) => {
    const { browser, handle } = await atConsent();
    const page = await browser.get(urlOf({ state: 'back' }));
    expect((await browser.submit(page, AUTHORIZE, { decision, agent: handle })).status).toBe(303);
    const back = await browser.get(urlOf({ state: 'back' }));
    expect(back.status).toBe(400);
    expect(back.text).toContain('was already answered');
    expect(back.text).toMatch(/href="[^"]*\/dashboard"/);
    expect((await browser.get(urlOf({ state: 'new' }))).text).toContain('Act as');
  });

  it('expires after 10 minutes', async () => {
    const { browser, page, handle } = await atConsent();
    desk.clock.advance(10 * 60 * 1000);
    expect((await browser.submit(page, AUTHORIZE, { decision: 'allow', agent: handle })).status).toBe(400);
  });

  it('belongs to one browser', async () => {
    const { page, handle } = await atConsent();
    const other = await atConsent();
    const { request } = hiddenFields(page.text, AUTHORIZE);
    expect((await other.browser.get(`/oauth/consent?request=${request}`)).status).toBe(400);
    const stolen = await other.browser.submit(page, AUTHORIZE, { decision: 'allow', agent: handle });
    expect([stolen.status, stolen.headers['location']]).toEqual([403, undefined]);
  });

  it('an agent of another account is answered like a missing one, and nothing is used up', async () => {
    const { browser, page, handle } = await atConsent();
    const other = await atConsent();
    const masked = (answer: Answer) => answer.text.replaceAll(/value="[^"]*"/g, '');
    const foreign = await browser.submit(page, AUTHORIZE, { decision: 'allow', agent: other.handle });
    const missing = await browser.submit(page, AUTHORIZE, { decision: 'allow', agent: '@nobody.nothing' });
    expect([foreign.status, missing.status]).toEqual([400, 400]);
    expect(masked(foreign)).toBe(masked(missing));
    expect((await browser.submit(page, AUTHORIZE, { decision: 'allow', agent: handle })).status).toBe(303);
  });

  it.each([
    ['no choice', { agent: undefined }, 'Choose an agent'],
    ['a new agent without an address', { agent: 'new', agent_name: ' ' }, 'Enter a handle'],
    ['a new agent with a bad address', { agent: 'new', agent_name: 'Bad Name' }, 'Use lowercase letters'],
    ['an address in use', { agent: 'new', agent_name: 'main' }, 'is or was in use'],
  ])('%s is reported next to the field, with the input kept', async (_what, fields, message) => {
    const { browser, page } = await atConsent();
    const again = await browser.submit(page, AUTHORIZE, { decision: 'allow', ...fields });
    expect(again.status).toBe(400);
    expect(again.text).toContain(message);
    expect(again.text).toContain('role="alert"');
    expect(again.text).toMatch(/<title>Problem: /);
  });
});

describe('Consent, forged forms', () => {
  it.each([
    ['no csrf token', { csrf: undefined }, {}],
    ['a wrong csrf token', { csrf: 'x'.repeat(43) }, {}],
    ['another origin', {}, { origin: 'https://evil.example' }],
    ['another port of this machine', {}, { origin: 'http://127.0.0.1:1' }],
    ['localhost for 127.0.0.1', {}, { origin: 'http://localhost:1' }],
    ['a page of another site', {}, { origin: 'null', 'sec-fetch-site': 'cross-site' }],
    ['a page of the same site', {}, { origin: 'null', 'sec-fetch-site': 'same-site' }],
    ['a hidden origin', {}, { origin: 'null', 'sec-fetch-site': 'none' }],
  ])('%s: 403, and no code', async (_what, fields, headers) => {
    const { browser, page, handle } = await atConsent();
    const answer = await browser.submit(page, AUTHORIZE, { decision: 'allow', agent: handle, ...fields }, headers);
    expect([answer.status, answer.headers['location']]).toEqual([403, undefined]);
    const own = { origin: new URL(desk.service.webUrl).origin };
    expect((await browser.submit(page, AUTHORIZE, { decision: 'allow', agent: handle }, own)).status).toBe(303);
  });

  it('without the cookie there is no form', async () => {
    const { page, handle } = await atConsent();
    const stranger = createBrowser(desk.service.webUrl);
    const answer = await stranger.submit(page, AUTHORIZE, { decision: 'allow', agent: handle });
    expect(answer.status).toBe(403);
  });

  it('signing in, signing up, and signing out are protected in the same way', async () => {
    const { browser, page } = await atConsent();
    for (const path of [SIGN_IN, SIGN_UP, SIGN_OUT]) {
      const forged = await browser.submit(page, path, { csrf: 'x' });
      const foreign = await browser.submit(page, path, {}, { origin: 'https://evil.example' });
      expect([path, forged.status, foreign.status]).toEqual([path, 403, 403]);
    }
  });
});

describe('Account sessions', () => {
  it('the cookie is HttpOnly and SameSite=Lax, and changes with the sign-in', async () => {
    const browser = createBrowser(desk.service.webUrl);
    const page = await browser.get(SIGN_IN);
    const [before] = browser.cookies.values();
    expect(page.setCookies[0]).toMatch(/^asp_session_\d+=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Lax$/);
    await browser.submit(page, SIGN_UP, { username: 'fixated', display_name: 'F', password: PASSWORD });
    const [after] = browser.cookies.values();
    expect(browser.cookies.size).toBe(1);
    expect(after).not.toBe(before);
    const fixed = createBrowser(desk.service.webUrl);
    fixed.cookies.set([...browser.cookies.keys()][0] ?? '', before ?? '');
    expect((await fixed.get(SIGN_IN)).text).not.toContain('You are signed in');
    expect((await browser.get(SIGN_IN)).text).toContain('You are signed in');
  });

  it('under https the cookie is Secure, and of this host alone', async () => {
    const publicUrl = 'https://asp.example.org';
    const service = await startService({ host: '127.0.0.1', port: 0, data: 'memory', publicUrl, isBehindProxy: true });
    const page = await request(`http://127.0.0.1:${service.port}${SIGN_IN}`);
    const shape = /^__Host-asp_session=[A-Za-z0-9_-]{43}; Path=\/; HttpOnly; SameSite=Lax; Secure$/;
    expect(page.setCookies).toEqual([expect.stringMatching(shape)]);
    await service.stop();
  });

  it('signing out ends it at the service', async () => {
    const { browser } = await signUp();
    const stolen = new Map(browser.cookies);
    const page = await browser.get(SIGN_IN);
    await browser.submit(page, SIGN_OUT);
    for (const [name, value] of stolen) browser.cookies.set(name, value);
    expect((await browser.get(SIGN_IN)).text).not.toContain('You are signed in');
  });

  it('an unknown account, a wrong password and a local account get the same answer', async () => {
    const { username } = await signUp();
    const answers: string[] = [];
    for (const name of [username, 'nobody-at-all', 'alice']) {
      const browser = createBrowser(desk.service.webUrl);
      const page = await browser.get(SIGN_IN);
      const answer = await browser.submit(page, SIGN_IN, { username: name, password: 'not the password' });
      expect(answer.status).toBe(400);
      answers.push(answer.text.replaceAll(name, 'NAME').replaceAll(/name="csrf" value="[^"]*"/g, ''));
    }
    expect(new Set(answers).size).toBe(1);
  });

  it('after ten wrong passwords, an account must wait, and the page says how long', async () => {
    const { username } = await signUp();
    const browser = createBrowser(desk.service.webUrl);
    const page = await browser.get(SIGN_IN);
    const tryWith = (password: string) => browser.submit(page, SIGN_IN, { username, password });
    for (let count = 0; count < 10; count += 1) expect((await tryWith('wrong')).status).toBe(400);
    const refused = await tryWith(PASSWORD);
    expect(refused.status).toBe(429);
    desk.clock.advance(Number(refused.headers['retry-after']) * 1000);
    expect((await tryWith(PASSWORD)).status).toBe(303);
  });

  it('a name of more than 100 characters creates no account', async () => {
    const browser = createBrowser(desk.service.webUrl);
    const page = await browser.get(SIGN_IN);
    const person = { username: 'long-name', password: PASSWORD };
    const refused = await browser.submit(page, SIGN_UP, { ...person, display_name: 'x'.repeat(101) });
    expect([refused.status, refused.text.includes('Enter your name, up to 100 characters.')]).toEqual([400, true]);
    expect((await browser.submit(page, SIGN_UP, { ...person, display_name: 'x'.repeat(100) })).status).toBe(303);
  });

  it('a username that is taken, malformed or reserved creates no account', async () => {
    await signUp('taken');
    for (const username of ['taken', 'Not Valid', 'admin', 'alice', '']) {
      const browser = createBrowser(desk.service.webUrl);
      const page = await browser.get(SIGN_IN);
      const answer = await browser.submit(page, SIGN_UP, { username, display_name: 'X', password: PASSWORD });
      expect([username, answer.status]).toEqual([username, 400]);
    }
  });
});

describe('Every page', () => {
  it('runs no script, cannot be framed, is not cached, and leaks no address', async () => {
    const { browser, page } = await atConsent();
    const pages = [
      page,
      await browser.get(SIGN_IN),
      await createBrowser(desk.service.webUrl).get(urlOf()),
      await browser.get(urlOf({ client_id: 'oac_nope' })),
      await browser.submit(page, AUTHORIZE, { decision: 'allow', agent: 'nobody' }),
      await browser.submit(page, AUTHORIZE, { csrf: 'x' }),
    ];
    for (const { headers, text: html } of pages) {
      expect(headers).toMatchObject({
        'content-type': 'text/html; charset=utf-8',
        'cache-control': 'no-store',
        'referrer-policy': 'no-referrer',
        'x-frame-options': 'DENY',
        'x-content-type-options': 'nosniff',
      });
      // An app may have opened it in a popup, and its own page there answers the one that opened it.
      expect(headers).not.toHaveProperty('cross-origin-opener-policy');
      const policy = headers['content-security-policy'] ?? '';
      expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-[^']+'; img-src data:; /);
      expect(policy).toContain("frame-ancestors 'none'; base-uri 'none'");
      // An app may send the browser on from its redirect URI, and Chromium checks that against `form-action` too.
      if (html.includes('value="allow"')) expect(policy).not.toContain('form-action');
      else expect(policy).toContain("form-action 'self'");
      expect(policy).not.toMatch(/unsafe|script/);
      expect(html).not.toMatch(/<script|\son\w+=|style=|javascript:/i);
      expect(html).toMatch(/^<!doctype html>\n<html lang="en">/);
      expect(html.match(/<main/g)).toHaveLength(1);
      expect(html.match(/<h1/g)).toHaveLength(1);
    }
  });

  it('has a name for its form, a label for every field, a name for every radio button, and a field for every error', async () => {
    const { browser, page } = await atConsent();
    const again = await browser.submit(page, AUTHORIZE, newAgent('Bad Name'));
    const signIn = await createBrowser(desk.service.webUrl).get(SIGN_IN);
    for (const { text: html } of [page, again, signIn]) {
      const ids = [...html.matchAll(/<input type="(?:text|password|radio)" id="([^"]+)"/g)].map(([, id]) => id ?? '');
      expect(ids.length).toBeGreaterThan(0);
      // Firefox calls a form without a name invalid until it is filled in.
      expect(html).toMatch(/<form [^>]*class="stack" aria-label="[^"]+"/);
      expect(new Set(ids).size).toBe(ids.length);
      for (const id of ids) expect(html).toContain(`<label for="${id}"`);
      for (const [, link] of html.matchAll(/<a href="#([^"]+)"/g)) expect(ids).toContain(link);
      for (const [, described] of html.matchAll(/aria-describedby="([^"]+)"/g))
        for (const id of (described ?? '').split(' ')) expect(html).toContain(`id="${id}"`);
    }
  });

  it.each([
    ['markup', '<script>alert(1)</script><b>x', /&lt;script&gt;alert\(1\)&lt;\/script&gt;&lt;b&gt;x/],
    ['quotes', '"><img src=x>', /&quot;&gt;&lt;img src=x&gt;/],
    ['directions and invisible letters', 'Good\u202egnp\u200b.exe\u0007', /<bdi>Goodgnp\.exe<\/bdi>/],
    ['a crowd of letters', 'W'.repeat(200), /<bdi>W{80}…<\/bdi>/],
  ])('shows a client name with %s only as text', async (_what, client_name, shown) => {
    const clientId = await mustRegister(desk.place, { client_name });
    const { browser } = await atConsent();
    const consent = await browser.get(urlOf({}, clientId));
    expect(consent.text).toMatch(shown);
    expect((await createBrowser(desk.service.webUrl).get(urlOf({}, clientId))).text).toMatch(shown);
  });

  it('says where the answer goes, what the app may do, and that its name is not verified', async () => {
    const { page } = await atConsent();
    expect(page.text).toContain('127.0.0.1:49152');
    expect(page.text).toContain('Start sessions, send messages and upload files as this agent');
    expect(page.text).toContain('its name is not verified');
  });
});
