import { request as httpRequest, type IncomingMessage } from 'node:http';
import { text as textOf } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { hashPassword } from '../../../src/service/web/passwords.js';
import { callApi, createActor, operate } from '../../support/actors.js';
import { type FormValues, openBrowser, type Page, type Person } from '../../support/browser.js';
import { formBody } from '../../support/http.js';
import { text } from '../../support/json.js';
import { refresh } from '../../support/oauth.js';
import { mustFindForm, signIn, signUp } from '../../support/person.js';
import { createVerbs, type Verbs } from '../../support/verbs.js';
import { bodyOf, cookieOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0';
const SETTINGS = '/dashboard/settings';

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage.close());

/** Signs in the same person in another browser. */
async function enterAgain(person: Person, userAgent?: string): Promise<Pick<Visitor, 'browser' | 'open'>> {
  const browser = openBrowser(userAgent);
  await signIn(browser, await browser.open(`${stage.web}/dashboard`), person);
  return { browser, open: (path) => browser.open(`${stage.web}${path}`) };
}
const isSignedIn = async ({ open }: Pick<Visitor, 'open'>): Promise<boolean> =>
  pathOf(await open('/dashboard/agents')) === '/dashboard/agents';
const browserIds = (page: Page): string[] =>
  [...page.answer.text.matchAll(/name="id" value="([^"]+)"/g)].map(([, id = '']) => id);

const CHANGE = /^change password$/i;
const SET = /^set password$/i;
const FRESH = 'an unlikely phrase';
const changed = (visitor: Visitor, values: FormValues): Promise<Page> => visitor.press(SETTINGS, CHANGE, values);
const isAlive = async ({ clientId, refreshToken }: { clientId: string; refreshToken: string }): Promise<boolean> =>
  (await refresh(stage.desk.place, clientId, refreshToken)).status === 200;

describe('Changing the password', () => {
  it('asks for the current one, and signs out everything else', async () => {
    const ada = await stage.enter('ada');
    const [other, app] = [await enterAgain(ada), await stage.connect(ada, 'laptop')];
    const page = await changed(ada, { current_password: ada.password, new_password: FRESH });
    expect([pathOf(page), page.text]).toEqual([
      SETTINGS,
      expect.stringContaining('All other browsers were signed out, and all connected apps were disconnected.'),
    ]);
    expect([await isSignedIn(ada), await isSignedIn(other), await isAlive(app)]).toEqual([true, false, false]);
    const tried = [ada, { ...ada, password: FRESH }].map(async (person) => isSignedIn(await enterAgain(person)));
    expect(await Promise.all(tried)).toEqual([false, true]);
  });

  it('leaves connected apps alone when asked to', async () => {
    const ada = await stage.enter('ada');
    const [other, app] = [await enterAgain(ada), await stage.connect(ada, 'laptop')];
    const values = { current_password: ada.password, new_password: FRESH, disconnect_apps: undefined };
    const page = await changed(ada, values);
    expect(page.text).toContain('Your password was changed. All other browsers were signed out. ');
    expect([await isSignedIn(other), await isAlive(app)]).toEqual([false, true]);
  });

  it('refuses someone who was signing in with the old one at that moment', async () => {
    const ada = await stage.enter('ada');
    const begunAt = performance.now();
    await hashPassword('how long this takes');
    const tookMs = performance.now() - begunAt;
    const link = await operate(stage.operator, 'POST', `/accounts/${ada.username}/password-links`);
    const [owner, intruder] = [openBrowser(), openBrowser()];
    const again = { open: (path: string) => intruder.open(`${stage.web}${path}`) };
    const [page, gate] = [await owner.open(text(link, 'url')), await intruder.open(`${stage.web}/dashboard`)];
    const setting = owner.submit(page, mustFindForm(page, SET), { password: FRESH }, SET);
    await pause(tookMs / 3);
    await signIn(intruder, gate, ada);
    await setting;
    expect(await isSignedIn(again)).toBe(false);
    await signIn(intruder, await again.open('/dashboard'), { ...ada, password: FRESH });
    expect(await isSignedIn(again)).toBe(true);
  });

  it('reports an error at its field, keeps the choice but no password, and changes nothing', async () => {
    const ada = await stage.enter('ada');
    const other = await enterAgain(ada);
    const choice = { disconnect_apps: undefined };
    const wrong = await changed(ada, { current_password: 'not it', new_password: FRESH, ...choice });
    const easy = await changed(ada, { current_password: ada.password, new_password: 'password1', ...choice });
    expect([wrong.answer.status, easy.answer.status]).toEqual([400, 400]);
    expect(wrong.text).toContain('The password is wrong.');
    expect(easy.text).toContain('This password is too easy to guess.');
    for (const page of [wrong, easy]) {
      const form = mustFindForm(page, CHANGE);
      expect([form.values['current_password'], form.values['new_password'], form.ticked]).toEqual(['', '', {}]);
    }
    expect(await isSignedIn(other)).toBe(true);
    expect(await isSignedIn(await enterAgain(ada))).toBe(true);
  });

  it('cannot be used to continue guessing after sign-in is limited', async () => {
    const [ada, eve] = [await stage.enter('ada'), await stage.enter('eve')];
    const guess = (visitor: Visitor) => changed(visitor, { current_password: 'not it', new_password: FRESH });
    for (let count = 0; count < 10; count += 1) expect((await guess(ada)).answer.status).toBe(400);
    const stopped = await changed(ada, { current_password: ada.password, new_password: FRESH });
    expect([stopped.answer.status, stopped.answer.headers['retry-after']]).toEqual([429, '900']);
    expect(stopped.text).toContain('Too many attempts. Try again in 15 minutes.');
    expect(await isSignedIn(await enterAgain(ada))).toBe(false);
    expect((await guess(eve)).answer.status).toBe(400);
  });

  it('is not offered to an account without a password', async () => {
    const alice = await stage.enterLocally('alice');
    const page = await alice.open(SETTINGS);
    expect(page.text).toContain('This account has no password. Run asp serve open');
    expect(page.forms.some(({ buttons }) => buttons.some(({ label }) => CHANGE.test(label)))).toBe(false);
    const csrf = page.forms[0]?.values['csrf'];
    const form = {
      action: SETTINGS,
      method: 'POST',
      values: {},
      ticked: {},
      types: {},
      choices: {},
      isInParts: false,
      buttons: [],
    };
    const sent = await alice.browser.submit(page, form, { csrf, current_password: 'x', new_password: FRESH });
    expect(sent.answer.status).toBe(404);
  });
});

describe('Signed-in browsers', () => {
  it('are listed with name, address and time; every page links to the list', async () => {
    const ada = await stage.enter('ada');
    stage.desk.clock.advance(3 * 60_000);
    await enterAgain(ada, FIREFOX);
    const page = await ada.browser.follow(await ada.open('/dashboard/sessions'), /^settings$/i);
    expect(pathOf(page)).toBe(SETTINGS);
    expect(page.text).toContain('Firefox on Linux Signed in just now from 127.0.0.1');
    expect(page.text).toContain('Unknown browser Signed in 3 minutes ago from 127.0.0.1 This browser');
  });

  it('one of them is signed out from another, but no other person’s', async () => {
    const [ada, eve] = [await stage.enter('ada'), await stage.enter('eve')];
    const [second, third] = [await enterAgain(ada), await enterAgain(ada)];
    const shown = await ada.open(SETTINGS);
    const ids = browserIds(shown);
    expect(ids).toHaveLength(2);
    const end = (visitor: Visitor, page: Page, id: string) =>
      visitor.browser.submit(page, mustFindForm(page, /^sign out unknown/i), { id }, /^sign out/i);

    await enterAgain(eve);
    const answers = [ids[0] ?? '', 'none'].map(async (id) => end(eve, await eve.open(SETTINGS), id));
    const texts = (await Promise.all(answers)).map(({ answer, text }) => [answer.status, text.includes('@')]);
    expect(texts[0]).toEqual(texts[1]);
    expect([await isSignedIn(second), await isSignedIn(third)]).toEqual([true, true]);

    const ended = await end(ada, shown, ids[0] ?? '');
    expect([pathOf(ended), ended.text.includes('The browser was signed out.')]).toEqual([SETTINGS, true]);
    const left = [await isSignedIn(second), await isSignedIn(third)];
    expect(left.filter((one) => one)).toHaveLength(1);
    expect(browserIds(ended)).toEqual([ids[1]]);
    // Ending it twice is not an error, because a second tab may still show it.
    expect((await end(ada, shown, ids[0] ?? '')).answer.status).toBe(200);
  });

  it('all others are signed out at once; without others, there is no such button', async () => {
    const ada = await stage.enter('ada');
    const others = [await enterAgain(ada), await enterAgain(ada)];
    const ended = await ada.press(SETTINGS, /^sign out others$/i);
    expect(ended.text).toContain('All other browsers were signed out.');
    expect(await Promise.all(others.map(isSignedIn))).toEqual([false, false]);
    expect(await isSignedIn(ada)).toBe(true);
    expect(ended.text).not.toContain('Sign out others');
  });

  it('are shown in pages if there are many', async () => {
    const bob = await stage.enterLocally('bob');
    stage.desk.clock.advance(1_000);
    for (let count = 0; count < 26; count += 1) await stage.enterLocally('bob');
    const first = await bob.open(SETTINGS);
    expect(browserIds(first)).toHaveLength(25);
    const second = await bob.browser.follow(first, /^next page$/i);
    expect([browserIds(second).length, bodyOf(second).includes('This browser')]).toEqual([1, true]);
    expect(second.text).toContain('Sign out others');
  });
});

const verbsOf = (token: string): Verbs =>
  createVerbs((method, path, body, options) => callApi(stage.desk.place.baseUrl, token, method, path, body, options));
const DOWNLOAD = /^download your data$/i;

describe('Downloading all data', () => {
  it('contains the account’s data and what its agents could see, each session once, and no secret', async () => {
    const { place } = stage.desk;
    const { operator } = stage;
    const visitor = await stage.enter('ada');
    await enterAgain(visitor, FIREFOX);
    const second = await visitor.createAgent('second');
    await visitor.press('/dashboard/agents/main/allowlist', /^add$/i, { entry: '@pen.friend' });
    await visitor.press('/dashboard/agents/main/blocks', /^block$/i, { handle: '@spam.bot' });
    const app = await stage.connect(visitor, 'laptop');
    const created = await visitor.press('/dashboard/new-client', /^create api credential$/i, {
      name: 'Nightly',
      agent: 'second',
    });
    const [secret = ''] = /asp_cs_[\w-]{43}/.exec(created.answer.text) ?? [];
    const friend = await createActor(place, operator, `friend-${visitor.username.slice(-8)}`);
    const main = verbsOf(app.accessToken);
    const stranger = await createActor(place, operator, `stranger-${visitor.username.slice(-8)}`);
    const shared = await main.mustCreate({ topic: 'shared', invite: [friend.handle, second] });
    await friend.mustJoin(shared);
    await friend.mustSend(shared, 'for “ada”\n');
    const foreign = await friend.mustCreate({ topic: 'foreign', invite: [stranger.handle] });
    await friend.mustSend(foreign, 'not for ada');
    await visitor.press('/dashboard/agents/main/remove', /^remove agent$/i);
    await friend.mustSend(shared, 'too late for ada');

    const page = await visitor.press(SETTINGS, DOWNLOAD);
    expect(page.answer.headers).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'content-disposition': expect.stringMatching(/^attachment; filename="asp-[\w-]+\.json"$/),
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
    });
    const data = JSON.parse(page.answer.text);
    expect(data).toMatchObject({
      service: stage.web,
      account: { username: visitor.username, tier: 'standard' },
      activity: expect.arrayContaining([expect.objectContaining({ kind: 'signed-in' })]),
      signed_in_browsers: expect.arrayContaining([expect.objectContaining({ name: 'Firefox on Linux' })]),
      passkeys: [],
      push_notifications: [],
      connected_apps: [],
      api_credentials: [{ name: 'Nightly', handle: second }],
      agents: [
        {
          canonical_handle: visitor.handle,
          inactive: true,
          allowlist: ['@pen.friend', `@${visitor.username}.*`].sort(),
          blocks: [{ blocked_handle: '@spam.bot' }],
        },
        { canonical_handle: second, inactive: false, blocks: [] },
      ],
      sessions: [{ id: shared, topic: 'shared' }],
    });
    expect(data.sessions).toHaveLength(1);
    const said = data.sessions[0].events.map(({ type, payload }: Said) => payload.content ?? type);
    expect(said).toContainEqual('for “ada”\n');
    expect(said.at(-1)).toBe('session.left');
    for (const hidden of ['too late for ada', 'not for ada', 'foreign', secret, 'scrypt', app.refreshToken])
      expect(page.answer.text).not.toContain(hidden);
    expect(secret).not.toBe('');
  });

  it('reads only as fast as it is sent, and ends with the sign-in', async () => {
    const { place } = stage.desk;
    const { operator } = stage;
    const ada = await stage.enter('ada');
    const app = await stage.connect(ada, 'laptop');
    const main = verbsOf(app.accessToken);
    const friend = await createActor(place, operator, `reader-${ada.username.slice(-8)}`);
    const session = await main.mustCreate({ invite: [friend.handle] });
    for (let count = 0; count < 100; count += 1) await main.mustSend(session, 'x'.repeat(250_000));
    const download = async () => {
      const csrf = mustFindForm(await ada.open(SETTINGS), DOWNLOAD).values['csrf'] ?? '';
      const cookie = cookieOf(ada);
      return startPost(`${stage.web}${SETTINGS}/export`, { cookie }, formBody({ csrf }));
    };
    const [slow, cut] = [await download(), await download()];
    await main.mustSend(session, 'said in the meantime');
    expect(JSON.parse(await textOf(slow)).sessions[0].events.at(-1).payload.content).toBe('said in the meantime');
    await ada.press('/dashboard/agents', /^sign out$/i);
    await expect(textOf(cut)).rejects.toThrow();
  });

  it('is offered again, with its reason, after ten of them in an hour', async () => {
    const limited = await openStage({ areLimitsOn: true });
    try {
      const ada = await limited.enter('ada');
      for (let count = 0; count < 10; count += 1)
        expect((await ada.press(SETTINGS, DOWNLOAD)).answer.headers['content-disposition']).toContain('attachment');
      const refused = await ada.press(SETTINGS, DOWNLOAD);
      expect([refused.answer.status, refused.answer.headers['retry-after']]).toEqual([429, '3600']);
      expect(refused.text).toContain('Try again in 60 minutes.');
      limited.desk.clock.advance(3_600_000);
      const again = await ada.browser.submit(refused, mustFindForm(refused, /^try again$/i), {}, /^try again$/i);
      expect(JSON.parse(again.answer.text).account.username).toBe(ada.username);
    } finally {
      await limited.close();
    }
  });
});

const DELETE = /^delete account$/i;
const deleted = (visitor: Visitor, values: FormValues): Promise<Page> =>
  visitor.press(`${SETTINGS}/delete`, DELETE, values);

describe('Deleting the account', () => {
  it('ends everything, and leaves the messages with those who received them', async () => {
    const ada = await stage.enter('ada');
    const [other, app] = [await enterAgain(ada), await stage.connect(ada, 'laptop')];
    const main = verbsOf(app.accessToken);
    const friend = await createActor(stage.desk.place, stage.operator, `heir-${ada.username.slice(-8)}`);
    const session = await main.mustCreate({ invite: [friend.handle] });
    await friend.mustJoin(session);
    await main.mustSend(session, 'a last word');

    const start = await ada.browser.follow(await ada.open(SETTINGS), /^delete your account/i);
    const page = await ada.browser.submit(start, mustFindForm(start, DELETE), {
      username: `@${ada.username}`,
      password: ada.password,
    });
    expect([page.answer.status, page.text.includes('Your account was deleted')]).toEqual([200, true]);
    expect([await isSignedIn(ada), await isSignedIn(other), await isAlive(app)]).toEqual([false, false, false]);
    expect(await isSignedIn(await enterAgain(ada))).toBe(false);
    const events = (await friend.get(`/sessions/${session}/events`)).text;
    expect(events).toContain('a last word');
    expect(events).toContain('session.left');
    expect((await friend.get(`/agents/${ada.username}/main`)).status).toBe(404);
    const browser = openBrowser();
    const taken = await signUp(browser, await browser.open(`${stage.web}/oauth/sign-in`), ada);
    expect(taken.text).toContain('This username is taken.');
  });

  it('requires both the username and the password, and otherwise changes nothing', async () => {
    const [ada, eve] = [await stage.enter('ada'), await stage.enter('eve')];
    const { username, password } = ada;
    const other = await deleted(ada, { username: eve.username, password });
    const wrong = await deleted(ada, { username, password: eve.password });
    const none = await deleted(ada, {});
    expect([other, wrong, none].map(({ answer }) => answer.status)).toEqual([400, 400, 400]);
    expect(other.text).toContain('This is not your username.');
    expect(wrong.text).toContain('The password is wrong.');
    const kept = [other, wrong].map((page) => mustFindForm(page, DELETE).values);
    expect(kept).toMatchObject([
      { username: eve.username, password: '' },
      { username, password: '' },
    ]);
    // Another person’s existing name gets the same answer as an unknown name.
    const free = await deleted(ada, { username: 'nobody-here', password });
    expect(free.text.replace('nobody-here', eve.username)).toBe(other.text);
    expect((await ada.open('/dashboard/agents')).text).toContain(ada.handle);
    expect((await eve.open('/dashboard/agents')).text).toContain(eve.handle);
  });

  it('counts wrong passwords together with signing in', async () => {
    const ada = await stage.enter('ada');
    const { username } = ada;
    for (let count = 0; count < 10; count += 1)
      expect((await deleted(ada, { username, password: 'not it' })).answer.status).toBe(400);
    const stopped = await deleted(ada, { username, password: ada.password });
    expect([stopped.answer.status, stopped.answer.headers['retry-after']]).toEqual([429, '900']);
    expect(await isSignedIn(await enterAgain(ada))).toBe(false);
    expect(await isSignedIn(ada)).toBe(true);
  });

  it('asks an account without a password only for its username', async () => {
    const handle = '@carol.bot';
    await operate(stage.operator, 'POST', '/agents', { handle });
    const carol = await stage.enterLocally('carol');
    expect((await deleted(carol, { username: 'dave' })).answer.status).toBe(400);
    expect((await deleted(carol, { username: 'carol' })).text).toContain('Your account was deleted');
    expect(await isSignedIn(carol)).toBe(false);
  });
});

interface Said {
  readonly type: string;
  readonly payload: { readonly content?: unknown };
}

/** Posts a form and returns the answer before reading any of it. */
function startPost(url: string, headers: Record<string, string>, body: string): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const type = 'application/x-www-form-urlencoded';
    const post = httpRequest(url, { method: 'POST', agent: false, headers: { ...headers, 'content-type': type } });
    post.once('response', resolve).once('error', reject);
    post.end(body);
  });
}
