import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type RunningService, startService } from '../../../src/service/service.js';
import { type Actor, createActor, operate } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import { findViolations } from '../../support/axe.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { text } from '../../support/json.js';
import { discover } from '../../support/oauth.js';
import { until } from '../../support/until.js';

/** Records the notifications that a page shows. In a headless browser, no window can cover the pages. */
const WATCH = `window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(event.effectiveDirective));
window.notes = [];
window.requests = 0;
window.Notification = class extends Notification {
  constructor(title, options) { super(title, options); notes.push(this); }
  static requestPermission() { requests += 1; return super.requestPermission(); }
};
Object.defineProperty(document, 'hidden', { get: () => sessionStorage.getItem('is-hidden') === 'yes' });
window.setHidden = (isHidden) => {
  sessionStorage.setItem('is-hidden', isHidden ? 'yes' : 'no');
  document.dispatchEvent(new Event('visibilitychange'));
};`;
const PATH = '/dashboard/needs-you';
const TITLE = `Notifications in a real browser ${noChromium ?? ''}`;

describe.skipIf(noChromium !== undefined)(TITLE, () => {
  let browser: Browser;
  let service: RunningService;
  let mine: Actor;
  let other: Actor;
  let context: BrowserContext;
  beforeAll(async () => {
    browser = await launchChromium({ isWhole: true });
    service = await startService({ host: '127.0.0.1', port: 0, data: 'memory', areLimitsOn: false });
  });
  afterAll(async () => {
    await browser?.close();
    await service.stop();
  });
  beforeEach(async () => {
    const place = await discover(service.baseUrl);
    mine = await createActor(place, operator(), 'mine', { policy: 'hold' });
    other = await createActor(place, operator(), 'other');
    await allow(other);
  });
  afterEach(() => context.close());

  const operator = () => ({ url: service.operatorUrl, secret: service.operatorSecret });
  const allow = ({ handle }: Actor) => mine.post(`/agents/${mine.owner}/${mine.name}/allowlist`, { entries: [handle] });
  const open = async (path = PATH): Promise<Page> => {
    const page = await context.newPage();
    await page.addInitScript({ content: WATCH });
    await page.goto(`${service.webUrl}${path}`);
    return page;
  };
  const enter = async (options: Parameters<Browser['newContext']>[0] = {}, isGranted = true): Promise<Page> => {
    context = await browser.newContext(options);
    if (isGranted) await context.grantPermissions(['notifications']);
    const link = text(await operate(operator(), 'POST', '/sign-in-links', { account: mine.owner }), 'url');
    const first = await context.newPage();
    await first.goto(link);
    await first.close();
    return open();
  };
  const tick = (page: Page) => page.getByRole('checkbox', { name: 'Notify me in this browser' });
  const turnOn = async (page: Page): Promise<void> => {
    await tick(page).check();
    await until('it is on', async () => (await titlesOn([page])).includes('Notifications are on'));
    await page.evaluate('notes.length = 0');
    await isListening(page);
  };
  /** Waits until a page holds the stream and has received the current state. */
  const isListening = (page: Page): Promise<boolean> =>
    until('a page listens', () => page.evaluate<boolean>('localStorage.getItem("asp-notified") !== null'));
  const titlesOn = async (pages: readonly Page[]): Promise<string[]> => {
    const lists = pages.map((page) => page.evaluate<string[]>('notes.map(({ title }) => title)'));
    return (await Promise.all(lists)).flat().sort();
  };
  const hide = (page: Page, isHidden = true): Promise<void> => page.evaluate(`setHidden(${isHidden})`);
  /** Creates a session and accepts its invitation. */
  const meet = async (): Promise<string> => {
    const id = await other.mustCreate({ invite: [mine.handle] });
    await mine.mustJoin(id);
    return id;
  };
  const ask = async (id: string, content: string): Promise<void> => {
    const question = { content, metadata: { choices: ['yes', 'no'] } };
    expect((await other.post(`/sessions/${id}/messages`, question)).status).toBe(201);
  };

  it('are requested only by a click, and stay on in this browser until they are turned off', async () => {
    const page = await enter({}, false);
    expect(await page.evaluate('Notification.permission')).not.toBe('granted');
    await context.grantPermissions(['notifications']);
    await page.reload();
    expect([await tick(page).isChecked(), await titlesOn([page]), await page.evaluate('requests')]).toEqual([
      false,
      [],
      0,
    ]);
    await turnOn(page);
    expect(await page.evaluate('requests')).toBe(1);
    await page.reload();
    expect([await tick(page).isChecked(), await titlesOn([page])]).toEqual([true, []]);
    await tick(page).uncheck();
    await page.reload();
    expect(await tick(page).isChecked()).toBe(false);
    expect(await page.evaluate('violations')).toEqual([]);
  });

  it('report an invitation, a knock and a question, each once, no matter how many pages are open', async () => {
    await other.mustCreate({ invite: [mine.handle], topic: 'before' });
    const id = await meet();
    const first = await enter();
    await turnOn(first);
    const pages = [first, await open('/dashboard/agents'), await open('/dashboard/sessions')];
    for (const page of pages) await hide(page);
    await other.mustCreate({ invite: [mine.handle], topic: 'Plan <b>it</b>' });
    const stranger = await createActor(await discover(service.baseUrl), operator(), 'stranger');
    const knock = { invite: [mine.handle], initial_message: { content: 'let me in' } };
    mustDeny(await stranger.post('/sessions', knock), 404, 'NOT_FOUND');
    await ask(id, 'Deploy?');
    const titles = [
      'Invitation to a session',
      `Question from ${other.handle}`,
      `${stranger.handle} knocked at ${mine.handle}`,
    ].sort();
    await until('all three were shown', async () => (await titlesOn(pages)).length >= titles.length);
    // A duplicate would arrive by the time this one does.
    await other.mustCreate({ invite: [mine.handle], topic: 'the last' });
    await until('the last was shown', async () => (await titlesOn(pages)).length > titles.length);
    expect(await titlesOn(pages)).toEqual([...titles, 'Invitation to a session'].sort());
    const bodies = (await Promise.all(pages.map((page) => page.evaluate<string[]>('notes.map(({ body }) => body)'))))
      .flat()
      .sort();
    expect(bodies).toEqual(['Deploy?', 'Plan <b>it</b>', 'let me in', 'the last']);
    // When the listening page closes, another one takes over.
    await first.close();
    const rest = pages.slice(1);
    await other.mustCreate({ invite: [mine.handle], topic: 'after' });
    const afterwards = () => Promise.all(rest.map((page) => page.evaluate<string[]>('notes.map(({ body }) => body)')));
    await until('it was shown', async () => (await afterwards()).flat().includes('after'));
  });

  it('are not shown while a dashboard page is in view, nor later for entries from that time', async () => {
    const page = await enter();
    await turnOn(page);
    const hidden = await open('/dashboard/agents');
    await hide(hidden);
    const id = await other.mustCreate({ invite: [mine.handle], topic: 'seen' });
    await until('it is known', () =>
      page.evaluate<boolean>(`localStorage.getItem('asp-notified').includes(${JSON.stringify(id)})`),
    );
    await hide(page);
    await other.mustCreate({ invite: [mine.handle], topic: 'unseen' });
    await until('it was shown', async () => (await titlesOn([page, hidden])).length > 0);
    const shown = await Promise.all([page, hidden].map((one) => one.evaluate('notes.map(({ body }) => body)')));
    expect(shown.flat()).toEqual(['unseen']);
  });

  it('a click opens what they are about, and leaves the page as it is', async () => {
    const id = await meet();
    const page = await enter();
    await turnOn(page);
    await hide(page);
    await ask(id, 'Deploy?');
    await until('it was shown', async () => (await titlesOn([page])).length === 1);
    const opened = context.waitForEvent('page');
    await page.evaluate('notes[0].dispatchEvent(new Event("click"))');
    const target = await opened;
    await target.waitForURL(new RegExp(`/dashboard/sessions/${id}\\?around=`));
    expect(new URL(page.url()).pathname).toBe(PATH);
  });

  it('a browser that blocks them, and one without script, say so', async () => {
    const page = await enter({}, false);
    await page.addInitScript('Object.defineProperty(Notification, "permission", { get: () => "denied" })');
    await page.reload();
    await page.getByText('This browser blocks notifications').waitFor();
    expect(await tick(page).isVisible()).toBe(false);
    await context.close();
    const plain = await enter({ javaScriptEnabled: false }, false);
    expect(await plain.getByText('Notifications need JavaScript').isVisible()).toBe(true);
    expect(await tick(plain).isVisible()).toBe(false);
  });

  it('a screen reader announces what the page says about them after a click, not while the page loads', async () => {
    const page = await enter({}, false);
    const said = page.locator('#notifications [aria-live]');
    expect(await said.getAttribute('aria-live')).toBe('off');
    await page.evaluate('Notification.requestPermission = async () => "default"');
    await tick(page).click();
    await page.getByText('You didn’t allow notifications.').waitFor();
    expect(await said.getAttribute('aria-live')).toBe('polite');
  });

  it.each(['light', 'dark'] as const)(
    '%s: axe finds nothing on the switch, and it fits into 320 px',
    async (colorScheme) => {
      const page = await enter({ colorScheme, viewport: { width: 320, height: 640 } });
      await turnOn(page);
      await ask(await meet(), 'Deploy?');
      await page.reload();
      expect(await findViolations(page)).toEqual([]);
      expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
    },
  );
});
