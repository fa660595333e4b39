import { mkdtemp, rm } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { createTurnableClock, type TurnableClock } from '../../../src/kit/turnable-clock.js';
import { unmetered } from '../../../src/service/core/meter.js';
import { PUBLIC_INTERNET } from '../../../src/service/core/public-internet.js';
import { type RunningService, type ServiceOptions, startService } from '../../../src/service/service.js';
import { insertAccountSession } from '../../../src/service/store/browser-sessions.js';
import { claimPushKeys, listPushSubscriptions, type PushSubscriptionRow } from '../../../src/service/store/push.js';
import { startWebPush, subscribe, type WebPush } from '../../../src/service/web/dashboard/web-push.js';
import { type Actor, actorOf, createActor, operate } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import { openBrowser, type Page } from '../../support/browser.js';
import { formBody, request } from '../../support/http.js';
import { text } from '../../support/json.js';
import { discover, type Place } from '../../support/oauth.js';
import { mustFindForm, signIn } from '../../support/person.js';
import { type Pushed, type PushService, type Subscription, startPushService } from '../../support/push-service.js';
import { TEST_STORE, takeSchema } from '../../support/stores.js';
import { until } from '../../support/until.js';
import { createHandClock, openStage as openDomain } from '../sessions/stage.js';
import { openStage, pathOf, type Stage, type Visitor } from './stage.js';

const SETTINGS = '/dashboard/settings';
const CONTACT = 'mailto:operator@asp.example';
/** An account is notified at most once in this time. */
const PAUSE_MS = 10_000;

let folder: string;
let push: PushService;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'asp-push-'));
  push = await startPushService(folder);
});
afterAll(async () => {
  await push.close();
  await rm(folder, { recursive: true, force: true });
});
afterEach(() => {
  push.answerAll();
  expect(push.faults).toEqual([]);
});

const keyOn = (page: Page): string => / data-key="([\w-]+)"/.exec(page.answer.text)?.[1] ?? '';
/** Sends the form that the script of the page fills in. */
const turnOnWith = async (visitor: Visitor, keys: Subscription): Promise<Page> => {
  const page = await visitor.open(SETTINGS);
  return visitor.browser.submit(page, mustFindForm(page, /^turn on in this browser$/i), { ...keys });
};
const turnOn = async (visitor: Visitor): Promise<Subscription> => {
  const keys = push.subscribe(keyOn(await visitor.open(SETTINGS)));
  const page = await turnOnWith(visitor, keys);
  expect([pathOf(page), page.text.includes('Push notifications are on in this browser.')]).toEqual([SETTINGS, true]);
  return keys;
};
const sentTo = ({ endpoint }: Subscription): Pushed[] => push.pushed.filter((one) => one.endpoint === endpoint);
const titlesAt = (keys: Subscription): unknown[] => sentTo(keys).map(({ json }) => json['title']);
/** A request that is still on its way when a test turns the clock would be sent again. */
const notified = (keys: Subscription, count: number): Promise<boolean> =>
  until(`${count} messages`, async () => sentTo(keys).length >= count && push.isIdle());

describe('Without --web-push', () => {
  let stage: Stage;
  beforeAll(async () => {
    stage = await openStage();
  });
  afterAll(() => stage.close());

  it('the settings do not offer push notifications, and there is no service worker', async () => {
    const ada = await stage.enter('ada');
    const page = await ada.open(SETTINGS);
    expect(page.text).not.toMatch(/push/i);
    expect(page.answer.headers['content-security-policy']).not.toContain('worker-src');
    expect((await request(`${stage.web}/dashboard/worker.js`)).status).toBe(404);
    const csrf = String(mustFindForm(page, /^change name$/i).values['csrf']);
    const form = { action: `${SETTINGS}/push`, method: 'post', buttons: [], values: { csrf } };
    const refused = await ada.browser.submit(page, { ...mustFindForm(page, /^change name$/i), ...form }, {});
    expect([refused.answer.status, refused.text.includes('This service sends no push notifications.')]).toEqual([
      403,
      true,
    ]);
  });
});

describe('With --web-push', () => {
  let stage: Stage;
  let clock: TurnableClock;
  /** How far the time is ahead of the clock's. */
  let aheadMs = 0;
  let other: Actor;
  let mine: Actor;
  let owner: Visitor;
  const warnings: string[] = [];
  beforeAll(async () => {
    const steady = createTurnableClock(systemClock);
    clock = { ...steady, now: () => steady.now() + aheadMs };
    const log = {
      info: () => {},
      warn: (event: string, _error: unknown, fields = {}) => void warnings.push(`${event} ${JSON.stringify(fields)}`),
      error(event: string, error: unknown) {
        warnings.push(`${event} ${error}`);
      },
    };
    const outside = { webPush: CONTACT, webhooks: 'public', outsideNetwork: push.network } as const;
    stage = await openStage({ ...outside, clock, log, metricsPort: 0 });
    other = await createActor(stage.desk.place, stage.operator, 'other');
  });
  afterAll(async () => {
    await stage.close();
    clock.stop();
  });
  beforeEach(async () => {
    mine = await createActor(stage.desk.place, stage.operator, 'mine', { policy: 'hold' });
    owner = await stage.enterLocally(mine.owner);
    await allow(mine);
  });

  const allow = (one: Actor) => one.post(`/agents/${one.owner}/${one.name}/allowlist`, { entries: [other.handle] });
  const invite = (topic: string): Promise<string> => other.mustCreate({ invite: [mine.handle], topic });
  /** Lets the pause of an account pass. */
  const passPause = (): void => clock.advance(PAUSE_MS);
  /** Resolves when the service has looked at everything that came up before. */
  const looked = async (): Promise<void> => {
    const probe = await createActor(stage.desk.place, stage.operator, 'probe', { policy: 'hold' });
    const visitor = await stage.enterLocally(probe.owner);
    await allow(probe);
    const keys = await turnOn(visitor);
    await other.mustCreate({ invite: [probe.handle] });
    await notified(keys, 1);
  };
  const isListed = async (visitor: Visitor): Promise<boolean> =>
    (await visitor.open(SETTINGS)).text.includes(`through ${push.host}`);
  const metric = async (outcome: string): Promise<number> => {
    const answer = await request(stage.desk.service.metricsUrl ?? '');
    return Number(new RegExp(`asp_web_push_total\\{outcome="${outcome}"\\} (\\d+)`).exec(answer.text)?.[1]);
  };

  it('a browser without an open page gets a webhook that is off', async () => {
    const keys = await turnOn(owner);
    const hook = { ...keys, endpoint: new URL(`/hooks/${mine.owner}`, keys.endpoint).href };
    push.answerNext(hook, (reply) => reply.writeHead(410).end());
    const path = `/dashboard/agents/${mine.name}/webhook`;
    await owner.press(path, /^set webhook$/i, { url: hook.endpoint });
    await notified(keys, 1);
    expect(sentTo(keys)[0]?.json).toEqual({
      title: 'Webhook is off',
      body: `For ${mine.handle}`,
      path,
      tag: expect.stringMatching(/^webhook @\S+ \d+$/),
    });
  });

  it('a browser without an open page gets an invitation, and nothing that was there before', async () => {
    await invite('before');
    const keys = await turnOn(owner);
    const id = await invite('a private topic');
    await notified(keys, 1);
    const [message] = sentTo(keys);
    expect(message?.json).toEqual({
      title: 'Invitation to a session',
      body: `For ${mine.handle}`,
      path: `/dashboard/sessions/${id}`,
      tag: `invitation ${id}`,
    });
    expect(message?.headers).toMatchObject({ ttl: '86400', urgency: 'normal' });
    expect(message?.claims).toMatchObject({ sub: CONTACT, aud: `https://${push.host}` });
    expect(await isListed(owner)).toBe(true);
  });

  it('a question, a knock and an agent that stopped arrive without a word of their text', async () => {
    const id = await invite('the topic');
    await mine.mustJoin(id);
    const keys = await turnOn(owner);
    const question = { content: 'a secret question', metadata: { choices: ['yes', 'no'] } };
    expect((await other.post(`/sessions/${id}/messages`, { content: 'an ordinary message' })).status).toBe(201);
    expect((await other.post(`/sessions/${id}/messages`, question)).status).toBe(201);
    await notified(keys, 1);
    passPause();
    const stranger = await createActor(stage.desk.place, stage.operator, 'stranger');
    const knock = { invite: [mine.handle], initial_message: { content: 'a secret knock' } };
    mustDeny(await stranger.post('/sessions', knock), 404, 'NOT_FOUND');
    await notified(keys, 2);
    passPause();
    const report = { sequence: 3, reason: 'max_cost' };
    expect((await mine.post(`/sessions/${id}/unanswered`, report)).status).toBe(204);
    await notified(keys, 3);
    expect(sentTo(keys).map(({ json: { title, body } }) => [title, body])).toEqual([
      [`Question from ${other.handle}`, `For ${mine.handle}`],
      [`${stranger.handle} knocked at ${mine.handle}`, ''],
      [`${mine.handle} stopped answering`, ''],
    ]);
    expect(JSON.stringify(push.pushed)).not.toMatch(/secret|ordinary|the topic/);
    expect(sentTo(keys)[0]?.json['path']).toMatch(new RegExp(`^/dashboard/sessions/${id}\\?around=`));
  });

  it('an invitation with a question arrives again as a question after the agent has joined', async () => {
    const keys = await turnOn(owner);
    const initial_message = { content: 'Deploy?', metadata: { choices: ['yes', 'no'] } };
    const id = await other.mustCreate({ invite: [mine.handle], initial_message });
    await notified(keys, 1);
    passPause();
    await mine.mustJoin(id);
    await notified(keys, 2);
    expect(titlesAt(keys)).toEqual(['Invitation to a session', `Question from ${other.handle}`]);
  });

  it('an invitation with a question that the account sees arrives as a question', async () => {
    await owner.createAgent('phone', {});
    const keys = await turnOn(owner);
    const initial_message = { content: 'Deploy?', metadata: { choices: ['yes', 'no'] } };
    await mine.mustCreate({ invite: [`@${mine.owner}.phone`], initial_message });
    await notified(keys, 1);
    expect(sentTo(keys).map(({ json: { title, body } }) => [title, body])).toEqual([
      [`Question from ${mine.handle}`, `For @${mine.owner}.phone`],
    ]);
  });

  it('each entry arrives once, and everything that comes up within ten seconds arrives in one message', async () => {
    const keys = await turnOn(owner);
    await invite('first');
    await notified(keys, 1);
    for (let count = 0; count < 5; count += 1) await invite(`more ${count}`);
    await looked();
    expect(sentTo(keys)).toHaveLength(1);
    passPause();
    await notified(keys, 2);
    expect(sentTo(keys)[1]?.json).toEqual({
      title: '5 things need you',
      body: '',
      path: '/dashboard/needs-you',
      tag: 'needs-you',
    });
    passPause();
    await invite('last');
    await notified(keys, 3);
    expect(titlesAt(keys)).toEqual(['Invitation to a session', '5 things need you', 'Invitation to a session']);
    const topics = sentTo(keys).map(({ headers }) => headers['topic']);
    expect(new Set(topics).size).toBe(3);
  });

  it('no pause lasts longer because the clock was set back in the meantime', async () => {
    const keys = await turnOn(owner);
    aheadMs = 5 * 60_000;
    await invite('first');
    await notified(keys, 1);
    aheadMs = 0;
    await invite('second');
    await notified(keys, 2);
  });

  it('a stranger that knocks again arrives again only if the first knock was dismissed', async () => {
    const keys = await turnOn(owner);
    const stranger = await createActor(stage.desk.place, stage.operator, 'stranger');
    const knock = () => stranger.post('/sessions', { invite: [mine.handle], initial_message: { content: 'hi' } });
    await knock();
    await notified(keys, 1);
    passPause();
    await knock();
    await looked();
    expect(sentTo(keys)).toHaveLength(1);
    await owner.press('/dashboard/needs-you', /^dismiss/i);
    passPause();
    const id = await invite('makes the service look');
    await notified(keys, 2);
    passPause();
    await knock();
    await notified(keys, 3);
    expect(titlesAt(keys)).toEqual([
      `${stranger.handle} knocked at ${mine.handle}`,
      'Invitation to a session',
      `${stranger.handle} knocked at ${mine.handle}`,
    ]);
    expect(sentTo(keys)[1]?.json['tag']).toBe(`invitation ${id}`);
  });

  it('all browsers of an account are notified, and each can be turned off from another', async () => {
    const second = await stage.enterLocally(mine.owner);
    const [one, two] = [await turnOn(owner), await turnOn(second)];
    await invite('for both');
    await Promise.all([notified(one, 1), notified(two, 1)]);
    const page = await owner.open(SETTINGS);
    const forms = page.forms.filter(({ buttons }) => buttons.some(({ label }) => /^turn off/i.test(label)));
    expect(forms).toHaveLength(2);
    const [, formOfSecond] = forms;
    if (formOfSecond === undefined) throw new Error('no form');
    const eve = await stage.enter('eve');
    const elsewhere = await eve.open('/dashboard/new-agent');
    const csrf = String(mustFindForm(elsewhere, /^create agent$/i).values['csrf']);
    await eve.browser.submit(elsewhere, { ...formOfSecond, values: { ...formOfSecond.values, csrf } }, {});
    passPause();
    await invite('still for both');
    await Promise.all([notified(one, 2), notified(two, 2)]);
    const after = await owner.browser.submit(page, formOfSecond, {});
    expect(after.text).toContain('Push notifications are off in that browser.');
    passPause();
    await invite('for the first');
    await notified(one, 3);
    await looked();
    expect([sentTo(one).length, sentTo(two).length]).toEqual([3, 2]);
    expect((await owner.open('/dashboard/settings/activity')).text).toMatch(/Push notifications turned off/);
  });

  it.each(['signing out', 'being signed out elsewhere', 'a suspension'])('%s ends it', async (what) => {
    const keys = await turnOn(owner);
    const second = await stage.enterLocally(mine.owner);
    const suspend = (suspended: boolean) => operate(stage.operator, 'PATCH', `/accounts/${mine.owner}`, { suspended });
    if (what === 'signing out') await owner.press('/dashboard/agents', /^sign out$/i);
    else if (what === 'being signed out elsewhere') await second.press(SETTINGS, /^sign out others$/i);
    else {
      await suspend(true);
      await suspend(false);
    }
    expect(await isListed(await stage.enterLocally(mine.owner))).toBe(false);
    await invite('after');
    await looked();
    expect(sentTo(keys)).toEqual([]);
  });

  it('a new password ends it in all other browsers', async () => {
    const zoe = await stage.enter('zoe');
    const browser = openBrowser();
    const again: Visitor = { ...zoe, browser, open: (path) => browser.open(`${stage.web}${path}`) };
    const page = await browser.open(`${stage.web}${SETTINGS}`);
    await browser.submit(page, mustFindForm(page, /^sign in$/i), { username: zoe.username, password: zoe.password });
    const [one, two] = [await turnOn(zoe), await turnOn(again)];
    const words = { current_password: zoe.password, new_password: 'quite another phrase 7' };
    await zoe.press(SETTINGS, /^change password$/i, words);
    const shown = await zoe.open(SETTINGS);
    expect([shown.text.match(/Turned on/g)?.length, one === two]).toEqual([1, false]);
    expect(shown.answer.text).toContain(' data-on ');
  });

  it('it outlives the end of a sign-in by time, and follows the browser to its next sign-in', async () => {
    const zoe = await stage.enter('zoe');
    await zoe.press('/dashboard/agents/main', /^save$/i, { inbound_policy: 'hold' });
    const keys = await turnOn(zoe);
    clock.advance(8 * 24 * 60 * 60_000);
    expect(pathOf(await zoe.open(SETTINGS))).toBe('/oauth/sign-in');
    const again = await createActor(stage.desk.place, stage.operator, 'again');
    const knock = { invite: [zoe.handle], initial_message: { content: 'hi' } };
    mustDeny(await again.post('/sessions', knock), 404, 'NOT_FOUND');
    await notified(keys, 1);
    await signIn(zoe.browser, await zoe.open('/oauth/sign-in'), zoe);
    const shown = await zoe.open(SETTINGS);
    expect([shown.text.match(/Turned on/g)?.length, shown.answer.text.includes(' data-on ')]).toEqual([1, true]);
    await zoe.press('/dashboard/agents', /^sign out$/i);
    passPause();
    const third = await createActor(stage.desk.place, stage.operator, 'third');
    mustDeny(await third.post('/sessions', knock), 404, 'NOT_FOUND');
    other = await createActor(stage.desk.place, stage.operator, 'other');
    await looked();
    expect(sentTo(keys)).toHaveLength(1);
  });

  it.each([404, 410])('a push service that answers %i ends the subscription', async (status) => {
    const keys = await turnOn(owner);
    const gone = await metric('gone');
    push.answerNext(keys, (reply) => void reply.writeHead(status).end());
    await invite('to no one');
    await until('it is gone', async () => !(await isListed(owner)));
    expect([await metric('gone'), sentTo(keys)]).toEqual([gone + 1, []]);
  });

  it('a push service that is busy or fails is asked again, after the time that it wants', async () => {
    const keys = await turnOn(owner);
    const [retried, sent] = [await metric('retried'), await metric('sent')];
    push.answerNext(
      keys,
      (reply) => void reply.writeHead(429, { 'retry-after': '30' }).end(),
      (reply) => void reply.writeHead(503).end(),
      (reply) => void reply.destroy(),
    );
    const before = push.asked.length;
    const asked = (count: number) => until(`${count} requests`, async () => push.asked.length - before >= count);
    await invite('patience');
    await asked(1);
    await until('it waits', async () => (await metric('retried')) === retried + 1);
    clock.advance(29_000);
    await looked();
    expect(push.asked.filter((endpoint) => endpoint === keys.endpoint)).toHaveLength(1);
    clock.advance(2_000);
    await until('the second try', async () => (await metric('retried')) === retried + 2);
    clock.advance(3_000);
    await until('the third try', async () => (await metric('retried')) === retried + 3);
    clock.advance(8_000);
    await notified(keys, 1);
    expect(await metric('sent')).toBeGreaterThan(sent);
    passPause();
    await looked();
    expect(sentTo(keys)).toHaveLength(1);
  });

  it('after five tries a message is given up, and the log names the host but not the address', async () => {
    const keys = await turnOn(owner);
    const [failed, retried] = [await metric('failed'), await metric('retried')];
    push.answerAll((reply) => void reply.writeHead(500).end());
    await invite('never');
    for (let tries = 1; tries < 5; tries += 1) {
      // The first try again is at once: it may be over before this looks, and turning the clock would cut it off.
      await until(`try ${tries}`, async () => (await metric('retried')) >= retried + tries);
      if (tries > 1) clock.advance(20_000);
    }
    await until('it is given up', async () => (await metric('failed')) === failed + 1);
    expect(push.asked.filter((endpoint) => endpoint === keys.endpoint)).toHaveLength(5);
    expect(warnings.join('\n')).toContain(`web_push_failed {"host":"${push.host}"`);
    expect(warnings.join('\n')).not.toContain(new URL(keys.endpoint).pathname);
    expect(await isListed(owner)).toBe(true);
  });

  it('a redirect is not followed, and a refusal is not tried again', async () => {
    const keys = await turnOn(owner);
    const failed = await metric('failed');
    const elsewhere = (reply: ServerResponse) =>
      reply.writeHead(307, { location: `https://${push.host}/elsewhere` }).end();
    push.answerNext(keys, (reply) => void elsewhere(reply));
    await invite('redirected');
    await until('it failed', async () => (await metric('failed')) === failed + 1);
    passPause();
    push.answerNext(keys, (reply) => void reply.writeHead(403).end());
    await invite('refused');
    await until('it failed again', async () => (await metric('failed')) === failed + 2);
    expect(push.asked.some((endpoint) => endpoint.endsWith('/elsewhere'))).toBe(false);
    expect(push.asked.filter((endpoint) => endpoint === keys.endpoint)).toHaveLength(2);
  });

  it.each([
    'http://push.example/p',
    'https://127.0.0.1/p',
    'https://[::1]/p',
    'https://localhost/p',
    'https://user@push.example/p',
    'https://push.example',
    'https://push.example/p#part',
    `https://push.example/${'p'.repeat(2_000)}`,
    'file:///etc/passwd',
    '',
  ])('a subscription at %j is refused', async (endpoint) => {
    const page = await turnOnWith(owner, { ...push.subscribe('k'), endpoint });
    expect([page.answer.status, page.text.includes('can’t send notifications to the push service')]).toEqual([
      403,
      true,
    ]);
    expect((await owner.open(SETTINGS)).text).not.toContain('Turned on');
  });

  it('a subscription with keys that cannot be used is refused', async () => {
    const { endpoint, p256dh, auth } = push.subscribe('k');
    const offCurve = Buffer.concat([Buffer.from([4]), Buffer.alloc(64, 1)]).toString('base64url');
    for (const keys of [
      { endpoint, p256dh: offCurve, auth },
      { endpoint, p256dh: p256dh.slice(4), auth },
      { endpoint, p256dh, auth: auth.slice(4) },
    ])
      expect((await turnOnWith(owner, keys)).answer.status).toBe(403);
  });

  it('an account has at most ten, and a browser that turns it on again still has one', async () => {
    const visitors = [owner];
    while (visitors.length < 10) visitors.push(await stage.enterLocally(mine.owner));
    for (const visitor of visitors) await turnOn(visitor);
    await turnOn(owner);
    expect((await owner.open(SETTINGS)).text.match(/Turned on/g)).toHaveLength(10);
    const eleventh = await stage.enterLocally(mine.owner);
    const page = await turnOnWith(eleventh, push.subscribe(keyOn(await eleventh.open(SETTINGS))));
    expect([page.answer.status, page.text.includes('in 10 browsers')]).toEqual([403, true]);
  });

  it('the export names the browser and the push service, and not the address or the keys', async () => {
    const keys = await turnOn(owner);
    const { answer } = await owner.press(SETTINGS, /^download your data$/i);
    expect(JSON.parse(answer.text)['push_notifications']).toEqual([
      { name: expect.any(String), push_service: push.host, created_at: expect.any(Number) },
    ]);
    for (const secret of [new URL(keys.endpoint).pathname, keys.p256dh, keys.auth])
      expect(answer.text).not.toContain(secret);
  });

  it('a test notification goes to the chosen browser alone, and to none of another account', async () => {
    const second = await stage.enterLocally(mine.owner);
    const [one, two] = [await turnOn(owner), await turnOn(second)];
    const page = await owner.open(SETTINGS);
    const forms = page.forms.filter(({ buttons }) => buttons.some(({ label }) => /^send a test/i.test(label)));
    const formOfSecond = forms[1];
    if (formOfSecond === undefined) throw new Error('no form');
    const after = await owner.browser.submit(page, formOfSecond, {});
    expect(after.text).toContain('A test notification is on its way.');
    await notified(two, 1);
    expect(sentTo(two)[0]?.json).toEqual({
      title: 'Notifications work',
      body: 'This is the test that you asked for.',
      path: '/dashboard/needs-you',
      tag: 'test',
    });
    const eve = await stage.enter('eve');
    const elsewhere = await eve.open('/dashboard/new-agent');
    const csrf = String(mustFindForm(elsewhere, /^create agent$/i).values['csrf']);
    await eve.browser.submit(elsewhere, { ...formOfSecond, values: { ...formOfSecond.values, csrf } }, {});
    await looked();
    expect([sentTo(one).length, sentTo(two).length]).toEqual([0, 1]);
  });

  it('a browser that replaces its subscription gets the next notification at the new one', async () => {
    const renew = (visitor: Visitor | undefined, keys: Subscription, headers: Record<string, string> = {}) => {
      const cookies = [...(visitor?.browser.cookies ?? [])].map(([name, value]) => `${name}=${value}`).join('; ');
      return request(`${stage.web}/dashboard/push-renewal`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookies, ...headers },
        body: formBody({ ...keys }),
      });
    };
    const before = await turnOn(owner);
    const key = keyOn(await owner.open(SETTINGS));
    const [stolen, after] = [push.subscribe(key), push.subscribe(key)];
    expect((await renew(undefined, stolen)).status).toBe(401);
    expect((await renew(owner, stolen, { origin: 'https://evil.example' })).status).toBe(403);
    expect((await renew(owner, stolen, { 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await renew(owner, { ...stolen, endpoint: 'https://127.0.0.1/p' })).status).toBe(403);
    // It turns nothing on.
    expect((await renew(await stage.enterLocally(mine.owner), stolen)).status).toBe(404);
    expect((await renew(owner, after)).status).toBe(204);
    expect((await owner.open(SETTINGS)).text.match(/Turned on/g)).toHaveLength(1);
    await invite('after');
    await notified(after, 1);
    expect([sentTo(before).length, sentTo(stolen).length]).toEqual([0, 0]);
  });

  it('the service worker is a script that loads nothing, and anyone may fetch it', async () => {
    const { status, headers, text: script } = await request(`${stage.web}/dashboard/worker.js`);
    expect([status, headers['content-type'], headers['cache-control'], headers['content-security-policy']]).toEqual([
      200,
      'text/javascript; charset=utf-8',
      'no-store',
      "default-src 'none'; connect-src 'self'",
    ]);
    expect(script).not.toMatch(/'fetch'|caches|importScripts/);
    const policy = (await owner.open(SETTINGS)).answer.headers['content-security-policy'];
    expect(policy).toContain("; worker-src 'self'");
    expect((await owner.open('/dashboard/agents')).answer.headers['content-security-policy']).not.toContain('worker');
  });
});

describe('An address that is not public', () => {
  it('is never connected to, whatever its name resolves to', async () => {
    const outsideNetwork = { ...push.network, isAllowed: PUBLIC_INTERNET.isAllowed };
    const clock = createTurnableClock(systemClock);
    const stage = await openStage({ webPush: CONTACT, outsideNetwork, clock, metricsPort: 0 });
    try {
      const mine = await createActor(stage.desk.place, stage.operator, 'mine');
      const owner = await stage.enterLocally(mine.owner);
      const keys = await turnOn(owner);
      const other = await createActor(stage.desk.place, stage.operator, 'other');
      await other.mustCreate({ invite: [mine.handle] });
      await until('it is given up', async () => {
        clock.advance(20_000);
        return (await request(stage.desk.service.metricsUrl ?? '')).text.includes('outcome="failed"} 1');
      });
      expect(push.asked).not.toContain(keys.endpoint);
    } finally {
      await stage.close();
      clock.stop();
    }
  });
});

describe('A service that starts again', () => {
  it('sends everything that came up before its end, and nothing twice, with the same key', async () => {
    const schema = TEST_STORE === 'postgres' ? takeSchema() : undefined;
    const data = { directory: join(folder, 'data') };
    const options: ServiceOptions = {
      ...{ host: '127.0.0.1', port: 0, data, databaseUrl: schema?.url, areLimitsOn: false, webPush: CONTACT },
      outsideNetwork: push.network,
    };
    let service: RunningService | undefined;
    const start = async (more: Partial<ServiceOptions> = {}): Promise<Place> => {
      service = await startService({ ...options, ...more });
      return discover(service.baseUrl);
    };
    const operatorOf = () => ({ url: service?.operatorUrl ?? '', secret: service?.operatorSecret ?? '' });
    try {
      const place = await start();
      const mine = await createActor(place, operatorOf(), 'mine');
      const other = await createActor(place, operatorOf(), 'other');
      const browser = openBrowser();
      const link = await operate(operatorOf(), 'POST', '/sign-in-links', { account: mine.owner });
      await browser.open(text(link, 'url'));
      const page = await browser.open(`${service?.webUrl}${SETTINGS}`);
      const keys = push.subscribe(keyOn(page));
      await browser.submit(page, mustFindForm(page, /^turn on in this browser$/i), { ...keys });
      await other.mustCreate({ invite: [mine.handle], topic: 'first' });
      await notified(keys, 1);
      await service?.stop();
      // Its timers never fire, so it looks at nothing before it ends.
      const before = Date.now() + 60_000;
      const still = await start({ clock: createHandClock(before) });
      await actorOf(still, other.handle, other.credentials).mustCreate({ invite: [mine.handle], topic: 'second' });
      await service?.stop();
      expect(sentTo(keys)).toHaveLength(1);
      const clock = createTurnableClock(systemClock, 120_000);
      const last = await start({ clock });
      await notified(keys, 2);
      clock.advance(PAUSE_MS);
      await actorOf(last, other.handle, other.credentials).mustCreate({ invite: [mine.handle], topic: 'third' });
      await notified(keys, 3);
      expect(titlesAt(keys)).toEqual(Array(3).fill('Invitation to a session'));
      expect(new Set(sentTo(keys).map(({ json }) => json['tag'])).size).toBe(3);
      clock.stop();
    } finally {
      await service?.stop();
      await schema?.drop();
    }
  });
});

describe('The sender', () => {
  /** Opens the domain with push notifications, and an account with that many browsers for each count. */
  const openSender = async (counts: readonly number[], waitingMax?: number) => {
    const stage = await openDomain();
    const { context } = stage;
    const outcomes: string[] = [];
    const meter = { ...unmetered, pushed: (outcome: string) => void outcomes.push(outcome) };
    const real = { ...context, clock: systemClock, meter, settings: { ...context.settings, webPush: CONTACT } };
    const options = { contact: CONTACT, network: push.network, ...(waitingMax !== undefined && { waitingMax }) };
    const webPush = await startWebPush(real, { isClockRight: true }, options);
    const key = await context.database.write((transaction) => claimPushKeys(transaction, 'unused'));
    const browsers: PushSubscriptionRow[][] = [];
    for (const [index, count] of counts.entries()) {
      const { id: accountId } = await stage.addAccount(`account${index}`);
      const now = systemClock.now();
      for (let made = 0; made < count; made += 1) {
        const session_hash = `browser ${index} ${made}`;
        const about = { account_id: accountId, browser_name: 'Browser' };
        await context.database.write((transaction) =>
          insertAccountSession(transaction, {
            ...{ ...about, id_hash: session_hash, address: '' },
            ...{ created_at: now, confirmed_at: now, expires_at: now + 600_000 },
          }),
        );
        await subscribe(real, { ...push.subscribe(key.split(' ')[1] ?? ''), ...about, session_hash });
      }
      browsers.push(await context.database.read((query) => listPushSubscriptions(query, accountId)));
    }
    const close = async (): Promise<void> => {
      await webPush.stop();
      await stage.close();
    };
    return { webPush, outcomes, browsers, close };
  };

  it('one account with many browsers at a slow push service neither delays nor displaces the message of another', async () => {
    const { webPush, outcomes, browsers, close } = await openSender([10, 1]);
    const [crowd = [], [single] = []] = browsers;
    if (single === undefined) throw new Error('no browser');
    const slow: ServerResponse[] = [];
    try {
      for (const to of crowd) push.answerNext(to, ...Array(200).fill((reply: ServerResponse) => void slow.push(reply)));
      for (let count = 0; count < 120; count += 1) for (const to of crowd) webPush.sendTest(to);
      await until('four are on their way', async () => slow.length === 4);
      webPush.sendTest(single);
      await notifiedOf(single);
      // No slow one has been answered.
      expect([slow.length, outcomes.filter((one) => one !== 'dropped')]).toEqual([4, ['sent']]);
    } finally {
      for (const reply of slow) reply.writeHead(410).end();
      for (const to of crowd) push.answerNext(to);
      push.answerAll((reply) => void reply.writeHead(410).end());
      await close();
    }
    async function notifiedOf(keys: Subscription): Promise<void> {
      await until('it arrives', async () => sentTo(keys).length === 1 && outcomes.includes('sent'));
    }
  });

  it('accounts that fill all places with slow push services do not stop the message of another', async () => {
    const { webPush, outcomes, browsers, close } = await openSender([4, 4, 4, 4, 4, 1]);
    const [single] = browsers.at(-1) ?? [];
    const crowds = browsers.slice(0, -1).flat();
    if (single === undefined) throw new Error('no browser');
    const slow: ServerResponse[] = [];
    try {
      for (const to of crowds) push.answerNext(to, ...Array(9).fill((reply: ServerResponse) => void slow.push(reply)));
      for (let count = 0; count < 3; count += 1) for (const to of crowds) webPush.sendTest(to);
      await until('all places are taken', async () => slow.length >= 16);
      webPush.sendTest(single);
      await until('it arrives', async () => outcomes.length > 0);
      // No slow one has been answered, nor has one timed out.
      expect([outcomes, sentTo(single).length]).toEqual([['sent'], 1]);
    } finally {
      for (const reply of slow) reply.writeHead(410).end();
      for (const to of crowds) push.answerNext(to);
      push.answerAll((reply) => void reply.writeHead(410).end());
      await close();
    }
  });

  it('a full queue takes the message of an account that has few, in place of one of the account with the most', async () => {
    const { webPush, outcomes, browsers, close } = await openSender([10, 10, 2], 30);
    const [one = [], two = [], [single, second] = []] = browsers;
    if (single === undefined || second === undefined) throw new Error('no browser');
    const slow: ServerResponse[] = [];
    const crowds = [...one, ...two];
    try {
      for (const to of crowds) push.answerNext(to, ...Array(50).fill((reply: ServerResponse) => void slow.push(reply)));
      for (let count = 0; count < 2; count += 1) for (const to of one) webPush.sendTest(to);
      for (const to of two) webPush.sendTest(to);
      await until('eight are on their way', async () => slow.length === 8);
      expect(outcomes).toEqual([]);
      webPush.sendTest(single);
      webPush.sendTest(second);
      expect(outcomes).toEqual(['dropped', 'dropped']);
      await until('both were sent', async () => outcomes.filter((outcome) => outcome === 'sent').length === 2);
      expect(sentTo(single).length + sentTo(second).length).toBe(2);
      // The account that has the most gets no place of the other.
      for (const to of one) webPush.sendTest(to);
      await until('all that fit', async () => outcomes.filter((outcome) => outcome === 'dropped').length >= 10);
      const left = slow.splice(0);
      const arrived = left.map(({ req }) => req.url);
      push.answerAll((reply) => {
        arrived.push(reply.req.url);
        reply.writeHead(201).end();
      });
      for (const to of crowds) push.answerNext(to);
      for (const reply of left) reply.writeHead(201).end();
      await until('the rest was sent', async () => outcomes.filter((outcome) => outcome === 'sent').length === 32);
      const isOfTwo = (path = '') => two.some(({ endpoint }) => endpoint.endsWith(path));
      expect(arrived.filter(isOfTwo)).toHaveLength(10);
    } finally {
      for (const reply of slow) reply.writeHead(410).end();
      for (const to of crowds) push.answerNext(to);
      push.answerAll((reply) => void reply.writeHead(410).end());
      await close();
    }
  });

  it('drops what does not fit into its queue, and sends the rest', async () => {
    const stage = await openDomain();
    const { context } = stage;
    const outcomes: string[] = [];
    const meter = { ...unmetered, pushed: (outcome: string) => void outcomes.push(outcome) };
    let webPush: WebPush | undefined;
    try {
      const account = await stage.addAccount('ada');
      const mine = await stage.addAgent(account, 'mine', { inbound_policy: 'open' });
      const other = await stage.addAgent(await stage.addAccount('bob'), 'other');
      const real = { ...context, clock: systemClock, meter, settings: { ...context.settings, webPush: CONTACT } };
      webPush = await startWebPush(
        real,
        { isClockRight: true },
        { contact: CONTACT, network: push.network, waitingMax: 6 },
      );
      const key = await context.database.write((transaction) => claimPushKeys(transaction, 'unused'));
      const now = systemClock.now();
      for (let count = 0; count < 9; count += 1) {
        const session_hash = `browser ${count}`;
        await context.database.write((transaction) =>
          insertAccountSession(transaction, {
            ...{ id_hash: session_hash, account_id: account.id, address: '', browser_name: 'Browser' },
            ...{ created_at: now, confirmed_at: now, expires_at: now + 600_000 },
          }),
        );
        const keys = push.subscribe(key.split(' ')[1] ?? '');
        expect(await subscribe(real, { ...keys, session_hash, account_id: account.id, browser_name: 'Browser' })).toBe(
          true,
        );
      }
      expect(await context.database.read((query) => listPushSubscriptions(query, account.id))).toHaveLength(9);
      const waiting: ServerResponse[] = [];
      push.answerAll((reply) => void waiting.push(reply));
      expect((await stage.create(other, { invite: [mine.handle] })).ok).toBe(true);
      // The stage keeps the inboxes without push, as a service before it was turned on.
      await context.database.write((transaction) =>
        transaction.run('INSERT INTO push_queue (account_id, position) VALUES ($1, 1)', account.id),
      );
      await until('four are on their way', async () => waiting.length === 4);
      expect(outcomes).toEqual(['dropped', 'dropped', 'dropped']);
      push.answerAll((reply) => void reply.writeHead(201).end());
      for (const reply of waiting) reply.writeHead(201).end();
      await until('the rest was sent', async () => outcomes.filter((one) => one === 'sent').length === 6);
    } finally {
      await webPush?.stop();
      await stage.close();
    }
  });
});

describe.skipIf(TEST_STORE !== 'postgres')('Two services on one database', () => {
  it('send each entry once', async () => {
    const schema = takeSchema();
    const clocks = [createTurnableClock(systemClock), createTurnableClock(systemClock)] as const;
    const options = {
      host: '127.0.0.1',
      port: 0,
      data: 'memory',
      databaseUrl: schema.url,
      areLimitsOn: false,
    } as const;
    const more = { ...options, webPush: CONTACT, outsideNetwork: push.network };
    const one = await startService({ ...more, clock: clocks[0] });
    const two = await startService({ ...more, clock: clocks[1], publicUrl: one.authUrl });
    try {
      const operator = { url: one.operatorUrl, secret: one.operatorSecret };
      const place = await discover(one.baseUrl);
      const other = await createActor(place, operator, 'other');
      const owners = await Promise.all(
        Array.from({ length: 8 }, async () => {
          const mine = await createActor(place, operator, 'mine');
          const browser = openBrowser();
          const link = await operate(operator, 'POST', '/sign-in-links', { account: mine.owner });
          await browser.open(text(link, 'url'));
          const page = await browser.open(`${one.webUrl}${SETTINGS}`);
          const keys = push.subscribe(keyOn(page));
          await browser.submit(page, mustFindForm(page, /^turn on in this browser$/i), { ...keys });
          return { mine, keys };
        }),
      );
      for (let round = 1; round <= 4; round += 1) {
        await Promise.all(owners.map(({ mine }) => other.mustCreate({ invite: [mine.handle] })));
        await Promise.all(owners.map(({ keys }) => notified(keys, round)));
        for (const clock of clocks) clock.advance(PAUSE_MS);
      }
      for (const { keys } of owners) {
        const tags = sentTo(keys).map(({ json }) => json['tag']);
        expect([tags.length, new Set(tags).size]).toEqual([4, 4]);
      }
    } finally {
      await two.stop();
      await one.stop();
      for (const clock of clocks) clock.stop();
      await schema.drop();
    }
  });
});
