import type { Browser, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, actorOf, createActor, operate } from '../../support/actors.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { text } from '../../support/json.js';
import { openStage, type Stage } from './stage.js';

const HOUR_MS = 3_600_000;
const TOKYO = { timezoneId: 'Asia/Tokyo' } as const;

/** Records every displayed time just before the browser paints. */
const WATCH = `window.painted = new Set();
const look = () => {
  for (const time of document.querySelectorAll('time')) painted.add(time.textContent);
  requestAnimationFrame(look);
};
requestAnimationFrame(look);`;

describe.skipIf(noChromium !== undefined)(`Times in a real browser ${noChromium ?? ''}`, () => {
  let stage: Stage;
  let browser: Browser;
  let alice: Actor;
  let session: string;
  beforeAll(async () => {
    stage = await openStage();
    browser = await launchChromium();
    // The hand clock begins at 08:00 UTC on January 15, 2027.
    stage.desk.clock.advance(13 * HOUR_MS);
    alice = await createActor(stage.desk.place, stage.operator, 'alice');
    session = await alice.mustCreate({ topic: 'over midnight' });
    await alice.mustSend(session, 'at nine in the evening');
    stage.desk.clock.advance(4 * HOUR_MS);
    alice = actorOf(stage.desk.place, alice.handle, alice.credentials);
    await alice.mustSend(session, 'at one in the morning');
  });
  afterAll(async () => {
    await browser?.close();
    await stage.close();
  });

  const withTranscript = async (options: BrowserContextOptions, work: (page: Page) => Promise<void>): Promise<void> => {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    await page.addInitScript({ content: WATCH });
    try {
      await page.goto(text(await operate(stage.operator, 'POST', '/sign-in-links', { account: alice.owner }), 'url'));
      await page.goto(`${stage.web}/dashboard/sessions/${session}`);
      await work(page);
    } finally {
      await context.close();
    }
  };
  const listed = (page: Page) => page.locator('.entries > .day, .entries > .said .at time').allInnerTexts();

  it('are in UTC without a script, and say so', async () => {
    await withTranscript({ ...TOKYO, javaScriptEnabled: false }, async (page) => {
      const days = ['January 15, 2027, UTC', 'January 16, 2027, UTC'];
      expect(await listed(page)).toEqual([days[0], '21:00:00', days[1], '01:00:00']);
      expect(await page.locator('.at time').last().getAttribute('title')).toBe('Jan 16, 2027, 01:00:00 UTC');
    });
  });

  it('are in the reader’s time zone with a script, as are the days; no other zone is ever visible', async () => {
    await withTranscript(TOKYO, async (page) => {
      expect(await listed(page)).toEqual(['January 16, 2027', '06:00:00', '10:00:00']);
      expect(await page.locator('.at time').last().getAttribute('title')).toMatch(
        /^Jan 16, 2027, 10:00:00 (JST|GMT\+9)$/,
      );
      const painted = await page.evaluate<string[]>('[...painted]');
      expect(painted).toContain('January 16, 2027');
      expect(painted.filter((one) => /UTC|21:00|01:00/.test(one))).toEqual([]);
    });
  });

  /** Versions of Unicode differ in the space before AM. */
  const plain = (shown: string | null): string => (shown ?? '').replace(/\s/g, ' ');

  it.each([
    ['with', true],
    ['without', false],
  ])('have AM and PM and are in UTC %s a script, if the reader prefers that', async (_, hasScript) => {
    await withTranscript({ ...TOKYO, javaScriptEnabled: hasScript }, async (page) => {
      const address = page.url();
      await page.goto(`${stage.web}/dashboard/settings`);
      for (const label of ['AM and PM', 'UTC', 'Compact']) await page.getByLabel(label, { exact: true }).check();
      await page.locator('form:has(#shortcuts)').getByRole('button', { name: 'Save' }).click();
      await page.getByText('Your changes were saved.').waitFor();
      for (const label of ['AM and PM', 'UTC', 'Compact'])
        expect(await page.getByLabel(label, { exact: true }).isChecked()).toBe(true);
      await page.goto(address);
      const days = ['January 15, 2027, UTC', 'January 16, 2027, UTC'];
      expect((await listed(page)).map(plain)).toEqual([days[0], '9:00:00 PM', days[1], '1:00:00 AM']);
      expect(plain(await page.locator('.at time').last().getAttribute('title'))).toBe('Jan 16, 2027, 1:00:00 AM UTC');
      const room = await page
        .locator('.transcript > .entries, .log > .entries')
        .first()
        .evaluate((list) => getComputedStyle(list).rowGap);
      expect(room).toBe('7px');
    });
  });

  it('begin a new day at the reader’s midnight while the page is open', async () => {
    await withTranscript(TOKYO, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      stage.desk.clock.advance(14 * HOUR_MS);
      alice = actorOf(stage.desk.place, alice.handle, alice.credentials);
      await alice.mustSend(session, 'at midnight');
      await page.locator('.entry', { hasText: 'at midnight' }).waitFor();
      expect(await listed(page)).toEqual(['January 16, 2027', '06:00:00', '10:00:00', 'January 17, 2027', '00:00:00']);
      expect(await page.evaluate<string[]>('[...painted]')).not.toContain('15:00:00');
    });
  });

  it('show old dates in the reader’s zone, and the exact moment when pointing at an age', async () => {
    stage.desk.clock.advance(20 * 24 * HOUR_MS);
    await withTranscript(TOKYO, async (page) => {
      const began = page.locator('.session-head time');
      expect(await began.innerText()).toBe('Jan 16, 2027');
      expect(await began.getAttribute('title')).toMatch(/^Jan 16, 2027, 06:00:00 (JST|GMT\+9)$/);
      expect(await began.getAttribute('datetime')).toBe('2027-01-15T21:00:00.000Z');
    });
  });
});
