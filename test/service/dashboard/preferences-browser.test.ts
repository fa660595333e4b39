import { setTimeout as pause } from 'node:timers/promises';

import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, createActor, operate } from '../../support/actors.js';
import { findViolations } from '../../support/axe.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { text } from '../../support/json.js';
import { openStage, type Stage } from './stage.js';

const PAPER = { light: 'rgb(244, 243, 238)', dark: 'rgb(17, 19, 17)' };
/** Longer than the shortcuts wait for the second key. */
const SEQUENCE_MS = 1_600;
const WATCH = `window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(event.effectiveDirective));`;

const TITLE = `The preferences of a real browser ${noChromium ?? ''}`;
describe.skipIf(noChromium !== undefined)(TITLE, () => {
  let stage: Stage;
  let browser: Browser;
  let mine: Actor;
  let session: string;
  let page: Page;
  beforeAll(async () => {
    stage = await openStage({ areLimitsOn: false, name: 'Ångström <b>' });
    mine = await createActor(stage.desk.place, stage.operator, 'mine');
    const other = await createActor(stage.desk.place, stage.operator, 'other');
    session = await mine.mustCreate({ topic: 'First', invite: [other.handle] });
    await other.mustJoin(session);
    for (const word of ['one', 'two', 'three']) await other.mustSend(session, word);
    await mine.mustCreate({ topic: 'Second', invite: [other.handle] });
    browser = await launchChromium();
    page = await enter({});
  });
  afterAll(async () => {
    await browser?.close();
    await stage.close();
  });

  const enter = async (options: BrowserContextOptions): Promise<Page> => {
    const opened = await (await browser.newContext(options)).newPage();
    await opened.addInitScript({ content: WATCH });
    await opened.goto(text(await operate(stage.operator, 'POST', '/sign-in-links', { account: mine.owner }), 'url'));
    return opened;
  };
  const open = (path: string, where = page): Promise<unknown> => where.goto(`${stage.web}/dashboard/${path}`);
  const focused = (): Promise<string> => page.evaluate('document.activeElement.textContent.trim()');
  const isShown = (where = page): Promise<boolean> => where.locator('#keys').isVisible();

  describe('shortcuts', () => {
    it.each([
      ['n', 'needs-you'],
      ['a', 'agents'],
      ['s', 'sessions'],
      ['c', 'clients'],
      ['p', 'applications'],
    ])('g, then %s leads to %s', async (key, name) => {
      await open('settings');
      await page.keyboard.press('g');
      await page.keyboard.press(key);
      await page.waitForURL(`${stage.web}/dashboard/${name}`);
    });

    it('a second key that comes late does nothing', async () => {
      await open('settings');
      await page.keyboard.press('g');
      await page.waitForTimeout(SEQUENCE_MS);
      await page.keyboard.press('s');
      await page.waitForTimeout(500);
      expect(page.url()).toBe(`${stage.web}/dashboard/settings`);
    });

    it('/ focuses the search of a page, or opens the search', async () => {
      await open('sessions');
      await page.keyboard.press('/');
      expect(await page.evaluate('document.activeElement.name')).toBe('q');
      await page.keyboard.type('/jk?');
      expect(await page.evaluate('document.activeElement.value')).toBe('/jk?');
      await open('agents');
      await page.keyboard.press('/');
      await page.waitForURL(`${stage.web}/dashboard/search`);
      await page.locator('[name="q"]:focus').waitFor();
      await page.keyboard.type('a');
      expect(await page.evaluate('document.activeElement.value')).toBe('a');
    });

    it('j and k move through a list, and stop at its ends', async () => {
      await open('sessions');
      const seen: string[] = [];
      for (const key of ['j', 'j', 'j', 'k', 'k']) {
        await page.keyboard.press(key);
        seen.push(await focused());
      }
      expect(seen).toEqual(['Second', 'First', 'First', 'Second', 'Second']);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Second' }).waitFor();
    });

    it('j and k move through a transcript from its newest message, and c writes', async () => {
      await open(`sessions/${session}`);
      const said = (): Promise<string> => page.evaluate(`document.activeElement.querySelector('.text')?.textContent`);
      await page.keyboard.press('k');
      expect(await said()).toContain('three');
      await page.keyboard.press('k');
      expect(await said()).toContain('two');
      await page.keyboard.press('j');
      expect(await said()).toContain('three');
      await page.keyboard.press('k');
      await page.keyboard.press('c');
      expect(await page.evaluate('document.activeElement.name')).toBe('text');
      await page.keyboard.type('jjk');
      expect(await page.evaluate('document.activeElement.value')).toBe('jjk');
    });

    it('nothing happens with a modifier key, which belongs to the browser', async () => {
      await open('sessions');
      for (const key of ['Control+j', 'Alt+k', 'Meta+j', 'Control+/']) await page.keyboard.press(key);
      expect(await page.evaluate('document.activeElement === document.body')).toBe(true);
    });

    it('? shows them in a dialog in which axe finds nothing, and Escape returns the focus', async () => {
      await open('sessions');
      await page.keyboard.press('j');
      await page.keyboard.press('?');
      await page.getByRole('dialog', { name: 'Keyboard shortcuts' }).waitFor();
      expect(await findViolations(page)).toEqual([]);
      await page.keyboard.press('j');
      await page.keyboard.press('Escape');
      expect([await isShown(), await focused()]).toEqual([false, 'Second']);
      await page.keyboard.press('?');
      await page.keyboard.press('?');
      expect(await isShown()).toBe(false);
      await page.keyboard.press('?');
      await page.getByRole('button', { name: 'Close' }).click();
      expect([await isShown(), await page.evaluate('violations')]).toEqual([false, []]);
    });

    it('the list of them fits in 320 px: in dark mode, in forced colors and at 200%', async () => {
      for (const options of [
        { viewport: { width: 320, height: 480 }, colorScheme: 'dark' as const },
        { viewport: { width: 640, height: 400 }, forcedColors: 'active' as const },
      ]) {
        const small = await enter(options);
        await open('agents', small);
        await small.keyboard.press('?');
        const box = await small.locator('#keys').boundingBox();
        expect(box && box.x >= 0 && box.x + box.width <= options.viewport.width && box.y >= 0).toBe(true);
        expect(await small.evaluate('keys.scrollWidth <= keys.clientWidth')).toBe(true);
        expect(await findViolations(small)).toEqual([]);
        await small.context().close();
      }
    });

    it('Ctrl K finds pages, agents and sessions while someone types, and Enter goes there', async () => {
      await open(`sessions/${session}`);
      await page.keyboard.press('c');
      await page.keyboard.press('Control+k');
      const field = page.getByRole('combobox', { name: 'Go to a page, agent or session' });
      await field.waitFor();
      const chosen = (): Promise<string> =>
        page.evaluate(
          `document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))?.textContent`,
        );
      await page.getByRole('option', { name: 'Needs you' }).waitFor();
      expect([await chosen(), await findViolations(page)]).toEqual(['Needs you Page', []]);
      await page.keyboard.press('ArrowDown');
      expect(await chosen()).toBe('Agents Page');
      await page.keyboard.press('ArrowUp');
      await page.keyboard.press('ArrowUp');
      expect(await chosen()).toBe('Traffic and refusals Page');
      // All at once: rows of a part of the text are not what Enter means.
      await page.keyboard.insertText('secon');
      await page.getByRole('option', { name: 'Second' }).waitFor();
      expect(await page.getByRole('option', { selected: true }).allTextContents()).toEqual(['Second Session']);
      await page.keyboard.press('Enter');
      await page.getByRole('heading', { name: 'Second' }).waitFor();
      expect(await page.evaluate('violations')).toEqual([]);
    });

    it('Escape closes it and returns the focus; a click chooses; without an answer, Enter searches', async () => {
      await open('sessions');
      await page.keyboard.press('j');
      await page.keyboard.press('Control+k');
      await page.getByRole('option', { name: 'Needs you' }).waitFor();
      await page.keyboard.press('Escape');
      expect([await page.locator('#palette').isVisible(), await focused()]).toEqual([false, 'Second']);
      await page.keyboard.press('Control+k');
      await page.keyboard.type('creden');
      await page.getByRole('option', { name: 'New API credential' }).click();
      await page.waitForURL(`${stage.web}/dashboard/new-client`);
      await page.route('**/dashboard/go?*', (route) => route.abort());
      await page.keyboard.press('Control+k');
      await page.keyboard.type('first');
      await page.getByText('Not available right now. Press Enter to search.').waitFor();
      await page.keyboard.press('Enter');
      await page.waitForURL(`${stage.web}/dashboard/search?q=first`);
      await page.unroute('**/dashboard/go?*');
    });

    it('Enter before the rows arrive waits for them, goes to the first, and searches if there is none', async () => {
      await open('sessions');
      await page.route('**/dashboard/go?*', async (route) => {
        await pause(300);
        await route.continue();
      });
      for (const [typed, path] of [
        ['api cred', 'new-client'],
        ['no such place', 'search?q=no%20such%20place'],
      ] as const) {
        await page.keyboard.press('Control+k');
        await page.keyboard.type(typed);
        await page.keyboard.press('Enter');
        await page.waitForURL(`${stage.web}/dashboard/${path}`);
      }
      await page.keyboard.press('Control+k');
      await page.keyboard.type('creden');
      await page.keyboard.press('Enter');
      await page.keyboard.press('Escape');
      await pause(600);
      expect(page.url()).toBe(`${stage.web}/dashboard/search?q=no%20such%20place`);
      await page.unroute('**/dashboard/go?*');
    });

    it('can be turned off, including R in a transcript', async () => {
      const quiet = await enter({});
      await open('settings', quiet);
      await quiet.getByLabel('Single-key keyboard shortcuts').uncheck();
      await quiet.locator('form:has(#shortcuts)').getByRole('button', { name: 'Save' }).click();
      await quiet.getByText('Your changes were saved.').waitFor();
      await open(`sessions/${session}`, quiet);
      expect(await quiet.locator('#keys, #palette').count()).toBe(0);
      for (const key of ['?', 'j', 'g', 's', '/', 'c', 'Control+k']) await quiet.keyboard.press(key);
      expect(quiet.url()).toBe(`${stage.web}/dashboard/sessions/${session}`);
      expect(await quiet.evaluate('document.activeElement === document.body')).toBe(true);
      await quiet.locator('.entry.said').last().focus();
      await quiet.keyboard.press('r');
      expect(await quiet.evaluate('document.activeElement.matches(".entry")')).toBe(true);
      await quiet.context().close();
    });
  });

  describe('the theme', () => {
    it.each([
      ['dark', 'light'],
      ['light', 'dark'],
    ] as const)('%s is kept, without a script, in a %s system, and after signing out', async (theme, system) => {
      const plain = await enter({ colorScheme: system, javaScriptEnabled: false });
      const color = (): Promise<string> =>
        plain.locator('body').evaluate((body) => getComputedStyle(body).backgroundColor);
      await open('settings', plain);
      expect(await color()).toBe(PAPER[system]);
      await plain.getByLabel(theme === 'dark' ? 'Dark' : 'Light', { exact: true }).check();
      await plain.locator('form:has(#shortcuts)').getByRole('button', { name: 'Save' }).click();
      await plain.getByText('Your changes were saved.').waitFor();
      expect(await color()).toBe(PAPER[theme]);
      await open('agents', plain);
      expect(await color()).toBe(PAPER[theme]);
      await plain.context().clearCookies({ name: /^asp_session/ });
      await plain.goto(`${stage.web}/oauth/sign-in`);
      expect(await color()).toBe(PAPER[theme]);
      await plain.context().close();
    });
  });

  describe('the name of the service', () => {
    it('is in the title and at the top of each page, as the operator wrote it', async () => {
      for (const [path, top] of [
        ['dashboard/agents', '.brand'],
        [`agents/${mine.handle}`, '.masthead strong'],
        ['nowhere', '.masthead strong'],
      ]) {
        await page.goto(`${stage.web}/${path}`);
        expect([path, await page.title()]).toEqual([path, expect.stringMatching(/ · Ångström <b>$/)]);
        expect(await page.locator(String(top)).innerText()).toBe('Ångström <b>');
      }
    });

    it('leaves room for the rest of the bar, no matter how long it is', async () => {
      for (const width of [1440, 1100, 1030, 768, 320]) {
        await page.setViewportSize({ width, height: 600 });
        await open('agents');
        await page.evaluate(`document.querySelector('.brand strong').textContent = 'W'.repeat(40)`);
        expect([width, await page.evaluate('document.documentElement.scrollWidth')]).toEqual([width, width]);
        const tops = await page.evaluate<number[]>(
          `['.brand', '.find', '.account'].map((one) => Math.round(document.querySelector(one).getBoundingClientRect().top))`,
        );
        expect([width, new Set(tops).size]).toEqual([width, 1]);
      }
      await page.setViewportSize({ width: 1280, height: 720 });
    });
  });
});
