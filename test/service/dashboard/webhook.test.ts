import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Webhook } from 'standardwebhooks';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { createTurnableClock, type TurnableClock } from '../../../src/kit/turnable-clock.js';
import { callApi, createActor } from '../../support/actors.js';
import { mustSucceed } from '../../support/answers.js';
import type { Page } from '../../support/browser.js';
import { mustGrant } from '../../support/grants.js';
import { formBody, request } from '../../support/http.js';
import { mustFindForm } from '../../support/person.js';
import { TEST_STORE, takeSchema } from '../../support/stores.js';
import { until } from '../../support/until.js';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.js';
import { bodyOf, cookieOf, csrfOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

const AGENT = '/dashboard/agents/main';
const PATH = `${AGENT}/webhook`;
const NEEDS = '/dashboard/needs-you';
const ABOUT = 'The service sends events to this address while the agent has no connection.';
const SET = /^set webhook$/i;
const CHANGE = /^change url$/i;
const TEST = /^send a test$/i;
const NEW_SECRET = /^create new secret$/i;
const REMOVE = /^remove webhook$/i;

let receiver: WebhookReceiver;
let clock: TurnableClock;
let stage: Stage;
let ada: Visitor;
beforeAll(async () => {
  receiver = await startWebhookReceiver();
  // The receiver knows another secret than the services make, and does not check calls from another time than now.
  clock = createTurnableClock(systemClock, 3_600_000);
  stage = await openStage({ webhooks: 'any', clock });
});
afterAll(async () => {
  await stage.close();
  clock.stop();
  await receiver.close();
});
beforeEach(async () => {
  ada = await stage.enter('ada');
});
afterEach(() => {
  receiver.answer();
  expect(receiver.faults).toEqual([]);
});

type Call = WebhookReceiver['calls'][number];

const newUrl = (): string => receiver.url(`/${randomBytes(6).toString('hex')}`);
const secretOf = ({ answer }: Page): string | undefined => /whsec_[A-Za-z0-9+/]{43}=/.exec(answer.text)?.[0];
const callsAt = (url: string): Call[] => receiver.calls.filter(({ path }) => path === new URL(url).pathname);
/** Whether a call was signed with that secret. */
function isSignedWith({ headers, json }: Call, secret: string): boolean {
  const sentAt = new Date(Number(headers['webhook-timestamp']) * 1000);
  const body = JSON.stringify(json);
  return new Webhook(secret).sign(String(headers['webhook-id']), sentAt, body) === headers['webhook-signature'];
}
/** Opens the page again until it says so. */
const says = (words: RegExp, visitor = ada): Promise<Page> =>
  until(String(words), async () => {
    const page = await visitor.open(PATH);
    return words.test(page.text) ? page : undefined;
  });
const setUp = async (url: string): Promise<Page> => ada.press(PATH, SET, { url });
const activitiesOf = async (visitor: Visitor): Promise<string[]> =>
  [
    ...bodyOf(await visitor.open('/dashboard/settings/activity')).matchAll(/<b>(Webhook[^<]*)<\/b>.*?<bdi>([^<]*)</g),
  ].map(([, kind = '', detail = '']) => `${kind}: ${detail}`);

describe('The page of a webhook', () => {
  it('sets one, shows its secret once, and says when the test was answered', async () => {
    const empty = await ada.open(PATH);
    expect([empty.text.includes(ABOUT), bodyOf(empty).includes(`href="${PATH}" aria-current="page"`)]).toEqual([
      true,
      true,
    ]);
    const url = newUrl();
    const page = await setUp(url);
    const secret = secretOf(page) ?? '';
    expect([pathOf(page), page.answer.headers['cache-control']]).toEqual([PATH, 'no-store']);
    expect(page.text).toContain('Copy the secret now');
    expect(secret).not.toBe('');
    const on = await says(/Webhook Working .*Last answered just now ?\./);
    expect([secretOf(on), on.text.includes(url), on.text.includes(ABOUT)]).toEqual([undefined, true, true]);
    const [test] = callsAt(url);
    expect(test && isSignedWith(test, secret)).toBe(true);
    expect((await ada.open(AGENT)).text).toContain('Events go to its webhook until the agent connects.');
  });

  it('a double click sets one and shows its secret; later, the form no longer shows it', async () => {
    const page = await ada.open(PATH);
    const form = mustFindForm(page, SET);
    const url = newUrl();
    const send = () => ada.browser.submit(page, form, { url }, SET);
    const [first, second] = [await send(), await send()];
    expect(secretOf(first)).toBeDefined();
    expect(secretOf(second)).toBe(secretOf(first));
    expect(secretOf(await ada.open(PATH))).toBeUndefined();
    await says(/Webhook Working/);
    expect(callsAt(url)).toHaveLength(1);
    expect(await activitiesOf(ada)).toHaveLength(1);
    clock.advance(30_000);
    expect(secretOf(await send())).toBeUndefined();
  });

  it('clicks at the same time have one secret', async () => {
    const page = await ada.open(PATH);
    const form = mustFindForm(page, SET);
    const post = (url: string) =>
      request(`${stage.web}${PATH}`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookieOf(ada) },
        body: formBody({ ...form.values, url }),
      });
    const url = newUrl();
    const urls = [url, url, ...Array.from({ length: 6 }, newUrl)];
    const answers = await Promise.all(urls.map(post));
    expect(answers.map(({ status }) => status)).toEqual(urls.map(() => 303));
    expect((await ada.open(PATH)).text).toContain('Change URL');
  });

  it('changes the URL, tests it, and keeps the secret', async () => {
    const [url, other] = [newUrl(), newUrl()];
    const secret = secretOf(await setUp(url)) ?? '';
    await says(/Webhook Working/);
    const changed = await ada.press(PATH, CHANGE, { url: ` ${other} ` });
    expect([changed.text.includes('The webhook was set. A test is on its way.'), secretOf(changed)]).toEqual([
      true,
      undefined,
    ]);
    await says(/Webhook Working/);
    const tested = await ada.press(PATH, TEST);
    expect([tested.text.includes('A test is on its way.'), secretOf(tested)]).toEqual([true, undefined]);
    await until('both tests', async () => callsAt(other).length === 2);
    expect(callsAt(other).map((call) => isSignedWith(call, secret))).toEqual([true, true]);
    expect(callsAt(url)).toHaveLength(1);
  });

  it('a window that was opened before another one set a webhook keeps the secret of that one', async () => {
    const stale = await ada.open(PATH);
    const secret = secretOf(await setUp(newUrl())) ?? '';
    const url = newUrl();
    const changed = await ada.browser.submit(stale, mustFindForm(stale, SET), { url }, SET);
    expect([secretOf(changed), changed.text.includes(url)]).toEqual([undefined, true]);
    await until('the test', async () => callsAt(url).length === 1);
    expect(callsAt(url).map((call) => isSignedWith(call, secret))).toEqual([true]);
  });

  it('a window that was opened before another one removed the webhook sets a new one, with a new secret', async () => {
    const secret = secretOf(await setUp(newUrl()));
    const stale = await ada.open(PATH);
    await ada.press(`${PATH}/remove`, REMOVE);
    const page = await ada.browser.submit(stale, mustFindForm(stale, CHANGE), {}, CHANGE);
    expect(secretOf(page)).toBeDefined();
    expect(secretOf(page)).not.toBe(secret);
  });

  it('a form that has set a webhook does not bring it back with its secret after it was removed', async () => {
    const page = await ada.open(PATH);
    const form = mustFindForm(page, SET);
    const url = newUrl();
    await ada.browser.submit(page, form, { url }, SET);
    await ada.press(`${PATH}/remove`, REMOVE);
    const again = await ada.browser.submit(page, form, { url }, SET);
    expect([again.answer.status, again.text.includes('The webhook was removed after you sent this form.')]).toEqual([
      409,
      true,
    ]);
    const fresh = await ada.browser.submit(again, mustFindForm(again, SET), {}, SET);
    expect([secretOf(fresh) !== undefined, fresh.text.includes(url)]).toEqual([true, true]);
  });

  it('gives it a new secret after a question, once for a double click', async () => {
    const url = newUrl();
    const old = secretOf(await setUp(url)) ?? '';
    await says(/Webhook Working/);
    const question = await ada.browser.follow(await ada.open(PATH), /^new secret/i);
    expect(question.text).toContain('The old one stops working at once.');
    const send = () => ada.browser.submit(question, mustFindForm(question, NEW_SECRET), {}, NEW_SECRET);
    const [first, second] = [await send(), await send()];
    const secret = secretOf(first) ?? '';
    expect([pathOf(first), secret === old, secretOf(second)]).toEqual([PATH, false, secret]);
    expect(secretOf(await ada.open(PATH))).toBeUndefined();
    await until('the second test', async () => callsAt(url).length >= 2);
    expect(callsAt(url).map((call) => isSignedWith(call, secret))).toEqual([false, true]);
    clock.advance(30_000);
    expect(secretOf(await send())).toBeUndefined();
  });

  it('shows no secret that was replaced before its page was opened', async () => {
    const page = await ada.open(PATH);
    const answer = await request(`${stage.web}${PATH}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookieOf(ada) },
      body: formBody({ ...mustFindForm(page, SET).values, url: newUrl() }),
    });
    const [cookie = ''] = String(answer.headers['set-cookie']).split(';');
    const look = () => request(`${stage.web}${PATH}`, { headers: { cookie: `${cookieOf(ada)}; ${cookie}` } });
    expect((await look()).text).toContain('whsec_');
    expect(secretOf(await ada.press(`${PATH}/secret`, NEW_SECRET))).toBeDefined();
    expect((await look()).text).not.toContain('whsec_');
  });

  it('removes it after a question', async () => {
    const url = newUrl();
    await setUp(url);
    const question = await ada.browser.follow(await ada.open(PATH), /^remove webhook/i);
    expect(question.text).toContain(url);
    const send = () => ada.browser.submit(question, mustFindForm(question, REMOVE), {}, REMOVE);
    for (const page of [await send(), await send()]) {
      expect([pathOf(page), page.text.includes('The webhook was removed.')]).toEqual([PATH, true]);
      expect(mustFindForm(page, SET).values['url']).toBe('');
    }
    expect((await ada.open(`${PATH}/remove`)).answer.status).toBe(404);
    expect((await activitiesOf(ada)).filter((row) => row.includes('removed'))).toHaveLength(1);
  });

  it.each([
    ['nothing', '', 'Enter a URL.'],
    ['a word', 'nowhere', 'A webhook needs an http or https URL'],
    ['another protocol', 'ftp://example.org/"><b>x', 'A webhook needs an http or https URL'],
    ['a user name', 'http://me@example.org/', 'without a user name'],
    ['a fragment', 'http://example.org/#part', 'without a fragment'],
    ['too much', `http://example.org/${'x'.repeat(1_024)}`, 'Shorten the URL to 1024 characters.'],
  ])('refuses %s, keeps it, and says why next to the field', async (_, typed, why) => {
    for (const button of [SET, CHANGE]) {
      const page = await ada.press(PATH, button, { url: typed });
      expect([page.answer.status, mustFindForm(page, button).values['url']]).toEqual([400, typed]);
      const mistake = /<span class="mistake" id="url-mistake"[^>]*>([^<]*)</.exec(bodyOf(page))?.[1];
      expect(mistake).toContain(why);
      expect(bodyOf(page)).toMatch(/<input type="url"[^>]*aria-describedby="url-mistake url-hint" aria-invalid="true"/);
      expect(bodyOf(page)).not.toContain('<b>x');
      if (button === SET) await setUp(newUrl());
    }
    expect((await ada.open(PATH)).text).toContain(receiver.url('/'));
  });

  it('shows the URL as text', async () => {
    const page = await setUp(`${newUrl()}?a='"><img src=x>&b=1`);
    expect(page.text).toContain('?a=%27%22%3E%3Cimg%20src=x%3E&b=1');
    expect(bodyOf(page)).not.toContain('<img');
  });

  it('says that nothing is sent while the agent is paused', async () => {
    await ada.press(AGENT, /^pause$/i);
    const page = await setUp(newUrl());
    expect(page.text).toContain('Nothing is sent while the agent is paused.');
  });
});

describe('A webhook that fails', () => {
  it('says since when, why, and when it is tried next', async () => {
    receiver.answer((reply) => reply.writeHead(500).end());
    await setUp(newUrl());
    const page = await says(/Webhook Failing/);
    expect(page.text).toMatch(
      /Calls began to fail just now ?: HTTP 500\. Next try: \w+ \d+, \d{4} ?, \d\d:\d\d:\d\d ?\./,
    );
    expect([page.text.includes('Last answered'), mustFindForm(page, TEST).action]).toEqual([false, PATH]);
    expect((await ada.open(NEEDS)).text).toContain('Nothing needs you');
  });

  it('and is off appears on Needs you and in its number, until it is turned on again', async () => {
    await setUp(newUrl());
    await says(/Webhook Working/);
    const before = await ada.open(NEEDS);
    expect(before.text).toContain('Nothing needs you');
    receiver.answer((reply) => reply.writeHead(410).end());
    await ada.press(PATH, TEST);
    const off = await says(/Webhook Off/);
    expect(off.text).toMatch(/The service stopped calling it just now ?: HTTP 410\. .* Last answered/);
    const page = await ada.open(NEEDS);
    expect(page.text).toMatch(
      new RegExp(`Webhook is off Not called ${ada.handle} The service stopped calling it just now ?: HTTP 410\\.`),
    );
    expect(bodyOf(page)).toContain(`href="${PATH}"`);
    expect(bodyOf(page)).toMatch(/<span class="count">1</);
    const markOf = (one: Page): string | undefined => /data-mark="([^"]+)"/.exec(bodyOf(one))?.[1];
    expect(markOf(page)).not.toBe(markOf(before));
    expect((await ada.open(AGENT)).text).toContain('Its webhook is off.');
    expect((await (await stage.enter('eve')).open(NEEDS)).text).toContain('Nothing needs you');
    receiver.answer();
    await ada.press(PATH, /^turn on again$/i);
    await says(/Webhook Working/);
    expect((await ada.open(NEEDS)).text).toContain('Nothing needs you');
  });
});

describe('What the account keeps', () => {
  it('the activity has one entry for each change, with the agent and the host, wherever it was made', async () => {
    const { host } = new URL(receiver.url());
    await setUp(newUrl());
    await ada.press(`${PATH}/secret`, NEW_SECRET);
    await ada.press(`${PATH}/remove`, REMOVE);
    const set = `Webhook set: ${ada.handle} at ${host}`;
    const removed = `Webhook removed: ${ada.handle}`;
    expect(await activitiesOf(ada)).toEqual([removed, set, set]);

    const bob = await createActor(stage.desk.place, stage.operator, 'bob');
    const scope = 'account:read account:agents:read';
    const { accessToken } = await mustGrant(stage.desk.place, stage.operator, bob.handle, { scope });
    const body = { url: newUrl(), secret: receiver.secret };
    const path = `/agents/${bob.owner}/${bob.name}/webhook`;
    mustSucceed(await callApi(stage.desk.place.baseUrl, accessToken, 'POST', path, body));
    expect(await activitiesOf(await stage.enterLocally(bob.owner))).toEqual([`Webhook set: ${bob.handle} at ${host}`]);
  });

  it('the download of all data names it without its secret', async () => {
    const url = newUrl();
    const secret = secretOf(await setUp(url)) ?? '';
    await says(/Webhook Working/);
    await ada.createAgent('second');
    const page = await ada.press('/dashboard/settings', /^download your data$/i);
    expect(JSON.parse(page.answer.text).agents).toMatchObject([
      {
        canonical_handle: ada.handle,
        webhook: {
          url,
          status: 'on',
          set_at: expect.any(Number),
          answered_at: expect.any(Number),
          failing_since: null,
          failure: null,
          next_try_at: null,
        },
      },
      { webhook: null },
    ]);
    expect([secret === '', page.answer.text.includes(secret)]).toEqual([false, false]);
  });
});

describe('A service', () => {
  it('with public webhooks takes only https addresses with a host name', async () => {
    const other = await openStage({ webhooks: 'public' });
    try {
      const eve = await other.enter('eve');
      const refused = await eve.press(PATH, SET, { url: receiver.url() });
      expect([refused.answer.status, refused.text.includes('A webhook needs an https URL')]).toEqual([400, true]);
      const page = await eve.press(PATH, SET, { url: 'https://Hooks.invalid/asp' });
      expect([secretOf(page) !== undefined, page.text.includes('https://hooks.invalid/asp')]).toEqual([true, true]);
      expect(page.text).toContain('Waiting for an answer to the test.');
      expect((await eve.open(AGENT)).text).toContain('Messages are kept until the agent connects.');
    } finally {
      await other.close();
    }
  });

  it('that calls no webhooks shows nothing of them, and lets an agent only remove the one it has', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'asp-webhook-'));
    const schema = TEST_STORE === 'postgres' ? takeSchema() : undefined;
    const store = { databaseUrl: schema?.url, ...(schema === undefined && { data: { directory: folder } }) };
    const url = newUrl();
    const turned = createTurnableClock(systemClock, 3_600_000);
    let running = await openStage({ ...store, webhooks: 'any', clock: turned });
    try {
      const bob = await createActor(running.desk.place, running.operator, 'bob');
      const [agent, path] = [`/dashboard/agents/${bob.name}`, `/dashboard/agents/${bob.name}/webhook`];
      const owner = await running.enterLocally(bob.owner);
      receiver.answer((reply) => reply.writeHead(410).end());
      await owner.press(path, SET, { url });
      await until('off', async () => (await owner.open(path)).text.includes('Webhook Off'));
      expect((await owner.open(NEEDS)).text).toContain('Webhook is off');
      await running.close();
      running = await openStage({ ...store, clock: turned });

      const eve = await running.enter('eve');
      expect(bodyOf(await eve.open(AGENT))).not.toMatch(/webhook/i);
      const visitor = await running.enterLocally(bob.owner);
      const post = async (to: string, by = visitor) =>
        (
          await request(`${running.web}${to}`, {
            method: 'POST',
            headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookieOf(by) },
            body: formBody({ csrf: await csrfOf(by), key: 'k', url }),
          })
        ).status;
      for (const one of [PATH, `${PATH}/secret`, `${PATH}/remove`])
        expect([one, (await eve.open(one)).answer.status, await post(one, eve)]).toEqual([one, 404, 404]);
      expect((await visitor.open(NEEDS)).text).toContain('Nothing needs you');
      const page = await visitor.browser.follow(await visitor.open(agent), /^webhook$/i);
      expect([page.text.includes('This service no longer calls webhooks.'), page.text.includes(url)]).toEqual([
        true,
        true,
      ]);
      expect(page.forms.filter(({ action }) => action.startsWith(path))).toEqual([]);
      expect([await post(path), (await visitor.open(`${path}/secret`)).answer.status]).toEqual([404, 404]);
      expect(await post(`${path}/secret`)).toBe(404);
      const removed = await visitor.press(`${path}/remove`, REMOVE);
      expect([pathOf(removed), removed.text.includes('The webhook was removed.')]).toEqual([agent, true]);
      expect(bodyOf(removed)).not.toContain(`href="${path}"`);
      expect((await visitor.open(path)).answer.status).toBe(404);
    } finally {
      await running.close();
      turned.stop();
      await schema?.drop();
      await rm(folder, { recursive: true, force: true });
    }
  });
});
