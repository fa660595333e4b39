import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContext, CDPSession, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type RunningService, startService } from '../../../src/service/service.js';
import { type Actor, createActor, operate } from '../../support/actors.js';
import { findViolations } from '../../support/axe.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { text } from '../../support/json.js';
import { discover } from '../../support/oauth.js';
import { type PushService, startPushService } from '../../support/push-service.js';
import { until } from '../../support/until.js';

/**
 * Chromium subscribes at a push service of its maker, which no test can reach: this step alone is replaced. Everything
 * else is the browser's own, and Chromium hands messages to the service worker as if they came from there.
 */
const SUBSCRIBE = `window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(event.effectiveDirective));
if (window.PushManager) {
  PushManager.prototype.subscribe = async function (options) {
    const keys = await subscribeAtPushService(options.applicationServerKey, options.userVisibleOnly);
    localStorage.setItem('subscription', JSON.stringify(keys));
    return read();
  };
  PushManager.prototype.getSubscription = async () => read();
  const read = () => {
    const keys = JSON.parse(localStorage.getItem('subscription'));
    const unsubscribe = async () => localStorage.removeItem('subscription');
    return keys && { endpoint: keys.endpoint, toJSON: () => keys, unsubscribe };
  };
}`;
const PATH = '/dashboard/settings';
const TITLE = `Push notifications in a real browser ${noChromium ?? ''}`;

describe.skipIf(noChromium !== undefined)(TITLE, () => {
  let folder: string;
  let push: PushService;
  let browser: Browser;
  let service: RunningService;
  let mine: Actor;
  let other: Actor;
  let context: BrowserContext;
  let devtools: CDPSession;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'asp-push-'));
    push = await startPushService(folder);
    browser = await launchChromium({ isWhole: true });
    service = await startService({
      ...{ host: '127.0.0.1', port: 0, data: 'memory', areLimitsOn: false },
      ...{ webPush: 'mailto:operator@asp.example', outsideNetwork: push.network },
    });
  });
  afterAll(async () => {
    await browser?.close();
    await service.stop();
    await push.close();
    await rm(folder, { recursive: true, force: true });
  });
  beforeEach(async () => {
    const place = await discover(service.baseUrl);
    mine = await createActor(place, operator(), 'mine');
    other = await createActor(place, operator(), 'other');
  });
  afterEach(async () => {
    await context.close();
    expect(push.faults).toEqual([]);
  });

  const operator = () => ({ url: service.operatorUrl, secret: service.operatorSecret });
  const enter = async (options: Parameters<Browser['newContext']>[0] = {}, isGranted = true): Promise<Page> => {
    context = await browser.newContext(options);
    if (isGranted) await context.grantPermissions(['notifications']);
    const subscribe = (key: string, isVisible: boolean) => {
      const { endpoint, p256dh, auth } = push.subscribe(isVisible ? key : '');
      return { endpoint, keys: { p256dh, auth } };
    };
    await context.exposeFunction('subscribeAtPushService', subscribe);
    await context.addInitScript({ content: SUBSCRIBE });
    const link = text(await operate(operator(), 'POST', '/sign-in-links', { account: mine.owner }), 'url');
    const page = await context.newPage();
    await page.goto(link);
    await page.goto(`${service.webUrl}${PATH}`);
    return page;
  };
  const button = (page: Page) => page.getByRole('button', { name: 'Turn on in this browser' });
  const turnOn = async (page: Page): Promise<void> => {
    await button(page).click();
    await page.getByText('Push notifications are on in this browser.').waitFor();
  };
  /** Hands a message to the service worker, as the browser does when one arrives. */
  const deliver = async (page: Page, data: string): Promise<void> => {
    devtools = await context.newCDPSession(page);
    const registered = new Promise<string>((resolve) => {
      devtools.on('ServiceWorker.workerRegistrationUpdated', ({ registrations }) => {
        const own = registrations.find(({ scopeURL, isDeleted }) => scopeURL.startsWith(service.webUrl) && !isDeleted);
        if (own !== undefined) resolve(own.registrationId);
      });
    });
    await devtools.send('ServiceWorker.enable');
    const registrationId = await registered;
    await devtools.send('ServiceWorker.deliverPushMessage', { origin: service.webUrl, registrationId, data });
  };
  interface Shown {
    readonly title: string;
    readonly body: string;
    readonly tag: string;
    readonly silent: boolean;
    readonly path: string;
  }
  const shownOn = (page: Page): Promise<Shown[]> =>
    page.evaluate<Shown[]>(`navigator.serviceWorker.getRegistration()
      .then((one) => one.getNotifications())
      .then((all) => all.map(({ title, body, tag, silent, data }) => ({ title, body, tag, silent, path: data.path })))`);

  it('what the service sends after a click is what the service worker shows', async () => {
    const page = await enter();
    await turnOn(page);
    await page.getByText('This browser', { exact: true }).first().waitFor();
    expect(await page.getByRole('button', { name: 'Turn on in this browser' }).isVisible()).toBe(false);
    const id = await other.mustCreate({ invite: [mine.handle], topic: 'private' });
    await until('it was sent', async () =>
      push.pushed.some(({ json }) => json['path'] === `/dashboard/sessions/${id}`),
    );
    const message = push.pushed.find(({ json }) => json['path'] === `/dashboard/sessions/${id}`);
    await deliver(page, JSON.stringify(message?.json));
    await until('it is shown', async () => (await shownOn(page)).length === 1);
    expect(await shownOn(page)).toEqual([
      {
        title: 'Invitation to a session',
        body: `For ${mine.handle}`,
        tag: `invitation ${id}`,
        // The page is in view.
        silent: true,
        path: `/dashboard/sessions/${id}`,
      },
    ]);
    expect(await page.evaluate('violations')).toEqual([]);
  });

  it('a message that arrives while no page of the service is open makes a sound, and a second one replaces it', async () => {
    const page = await enter();
    await turnOn(page);
    await page.goto('about:blank');
    const notice = { title: 'one', body: '', tag: 'needs-you', path: '/dashboard/needs-you' };
    // Its worker belongs to the origin, not to a page.
    const helper = await context.newPage();
    await helper.goto(`${service.baseUrl}/nothing`);
    await deliver(helper, JSON.stringify(notice));
    await until('it is shown', async () => (await shownAt()).length === 1);
    await deliver(helper, JSON.stringify({ ...notice, title: 'two' }));
    await until('it is replaced', async () => (await shownAt())[0]?.title === 'two');
    expect(await shownAt()).toMatchObject([{ title: 'two', silent: false }]);
    async function shownAt(): Promise<Shown[]> {
      return helper.evaluate<Shown[]>(`navigator.serviceWorker.getRegistration('/dashboard/')
        .then((one) => one.getNotifications())
        .then((all) => all.map(({ title, body, tag, silent, data }) => ({ title, body, tag, silent, path: data.path })))`);
    }
  });

  it('a click opens what it is about in a new tab', async () => {
    const page = await enter();
    await turnOn(page);
    const id = await other.mustCreate({ invite: [mine.handle] });
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    await worker.evaluate(`(() => {
      // A window opens only on a click of a person, which the notification center of the system has.
      self.opened = [];
      Clients.prototype.openWindow = async (path) => void self.opened.push(path);
    })()`);
    await deliver(page, JSON.stringify({ title: 'one', body: '', tag: 'a', path: `/dashboard/sessions/${id}` }));
    await until('it is shown', async () => (await shownOn(page)).length === 1);
    await worker.evaluate(`self.registration.getNotifications().then(([notification]) =>
      self.dispatchEvent(new NotificationEvent('notificationclick', { notification })))`);
    await until('it was opened', async () => (await worker.evaluate<string[]>('self.opened')).length > 0);
    expect(await worker.evaluate('self.opened')).toEqual([`/dashboard/sessions/${id}`]);
    expect(await shownOn(page)).toEqual([]);
    await page.goto(`${service.webUrl}/dashboard/sessions/${id}`);
    expect(await page.title()).toContain(mine.handle);
  });

  it('the service learns when the browser replaces its subscription, or the person learns that it could not', async () => {
    const page = await enter();
    await turnOn(page);
    const key = await page.evaluate<string>('document.getElementById("push").dataset.key');
    const { endpoint, p256dh, auth } = push.subscribe(key);
    const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent('serviceworker'));
    const replace = (keys: object) =>
      worker.evaluate(`(() => {
        const event = new ExtendableEvent('pushsubscriptionchange');
        event.newSubscription = { toJSON: () => (${JSON.stringify(keys)}) };
        // It may wait for a real event only.
        let work;
        event.waitUntil = (given) => { work = given; };
        self.dispatchEvent(event);
        return work;
      })()`);
    await replace({ endpoint, keys: { p256dh, auth } });
    const id = await other.mustCreate({ invite: [mine.handle] });
    await until('it arrives there', async () =>
      push.pushed.some((one) => one.endpoint === endpoint && one.json['path'] === `/dashboard/sessions/${id}`),
    );
    await context.clearCookies();
    await replace({ endpoint, keys: { p256dh, auth } });
    expect((await shownOn(page)).map(({ title, path }) => [title, path])).toEqual([
      ['Push notifications stopped', '/dashboard/settings'],
    ]);
  });

  it('the settings renew a subscription that the service does not know yet', async () => {
    const page = await enter();
    await turnOn(page);
    const key = await page.evaluate<string>('document.getElementById("push").dataset.key');
    const { endpoint, p256dh, auth } = push.subscribe(key);
    const keys = JSON.stringify({ endpoint, keys: { p256dh, auth } });
    await page.evaluate(`localStorage.setItem('subscription', ${JSON.stringify(keys)})`);
    await page.reload();
    await page.getByText('Push notifications are on in this browser.').waitFor();
    const id = await other.mustCreate({ invite: [mine.handle] });
    await until('it arrives there', async () =>
      push.pushed.some((one) => one.endpoint === endpoint && one.json['path'] === `/dashboard/sessions/${id}`),
    );
  });

  it('a message that cannot be read still says that something needs you', async () => {
    const page = await enter();
    await turnOn(page);
    await deliver(page, 'not JSON');
    await until('it is shown', async () => (await shownOn(page))[0]?.title === 'Something needs you');
  });

  it('pages of that browser show no notifications of their own then, and say where to turn it off', async () => {
    const page = await enter();
    await turnOn(page);
    await page.goto(`${service.webUrl}/dashboard/needs-you`);
    await page.getByText('Push notifications are on in this browser.').waitFor();
    expect(await page.getByRole('checkbox', { name: 'Notify me in this browser' }).isVisible()).toBe(false);
    await page.goto(`${service.webUrl}${PATH}`);
    await page.getByRole('button', { name: /^Turn off/ }).click();
    await page.getByText('Push notifications are off in that browser.').waitFor();
    await button(page).waitFor();
    await until('the browser forgets it, too', () =>
      page.evaluate<boolean>('localStorage.getItem("subscription") === null'),
    );
    await page.goto(`${service.webUrl}/dashboard/needs-you`);
    await page.getByText('To be notified while no page is open').waitFor();
    expect(await page.getByRole('checkbox', { name: 'Notify me in this browser' }).isVisible()).toBe(true);
  });

  it('a browser that signs in again after its cookie is gone keeps its subscription', async () => {
    const page = await enter();
    await turnOn(page);
    const before = await page.evaluate<string>('localStorage.getItem("subscription")');
    await context.clearCookies();
    const link = text(await operate(operator(), 'POST', '/sign-in-links', { account: mine.owner }), 'url');
    await page.goto(link);
    await page.goto(`${service.webUrl}${PATH}`);
    await page.getByText('This browser', { exact: true }).nth(1).waitFor();
    expect(await page.getByText('Turned on').count()).toBe(1);
    expect(await page.evaluate('localStorage.getItem("subscription")')).toBe(before);
    expect(await button(page).isVisible()).toBe(false);
  });

  it('a browser that blocks them, one that cannot reach its push service, and one without script say so', async () => {
    const page = await enter({}, false);
    await page.addInitScript('Object.defineProperty(Notification, "permission", { get: () => "denied" })');
    await page.reload();
    await page.getByText('This browser blocks notifications').waitFor();
    expect(await button(page).isVisible()).toBe(false);
    await context.close();
    const cut = await enter();
    await cut.evaluate('PushManager.prototype.subscribe = () => Promise.reject(new DOMException("no", "AbortError"))');
    const said = cut.locator('#push [aria-live]');
    expect(await said.getAttribute('aria-live')).toBe('off');
    await button(cut).click();
    await cut.getByText('This browser can’t reach its push service').waitFor();
    expect(await said.getAttribute('aria-live')).toBe('polite');
    expect(await button(cut).isVisible()).toBe(true);
    await context.close();
    const plain = await enter({ javaScriptEnabled: false }, false);
    expect(await plain.getByText('Push notifications need JavaScript').isVisible()).toBe(true);
    expect(await button(plain).isVisible()).toBe(false);
  });

  it.each(['light', 'dark'] as const)('%s: axe finds nothing, and it fits into 320 px', async (colorScheme) => {
    const page = await enter({ colorScheme, viewport: { width: 320, height: 640 } });
    await turnOn(page);
    expect(await findViolations(page)).toEqual([]);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
  });
});
