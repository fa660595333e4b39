import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { describeAge } from '../../../src/service/web/time.js';
import { type Actor, createActor, operate } from '../../support/actors.js';
import { findViolations } from '../../support/axe.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { text } from '../../support/json.js';
import { openStage, type Stage } from './stage.js';

describe.skipIf(noChromium !== undefined)(`Finding sessions in a real browser ${noChromium ?? ''}`, () => {
  let stage: Stage;
  let browser: Browser;
  let page: Page;
  let mine: Actor;
  let other: Actor;
  beforeAll(async () => {
    stage = await openStage({ areLimitsOn: false, clock: systemClock });
    [mine, other] = [
      await createActor(stage.desk.place, stage.operator, 'ada'),
      await createActor(stage.desk.place, stage.operator, 'bob'),
    ];
    browser = await launchChromium();
    page = await (await browser.newContext()).newPage();
    await page.goto(text(await operate(stage.operator, 'POST', '/sign-in-links', { account: mine.owner }), 'url'));
  });
  afterAll(async () => {
    await browser?.close();
    await stage.close();
  });

  it('a list changes while someone looks at it, and keeps what has the focus', async () => {
    const first = await mine.mustCreate({ topic: 'The first', invite: [other.handle] });
    await page.goto(`${stage.web}/dashboard/sessions`);
    const row = page.locator('.row', { hasText: 'The first' });
    await row.getByRole('link').focus();
    await other.mustJoin(first);
    await other.mustSend(first, 'Are you there?');
    await row.getByText(`${other.handle}: Are you there?`).waitFor();
    expect(await page.evaluate('document.activeElement.textContent')).toBe('The first');
    const asked = await other.mustCreate({ topic: 'An invitation', invite: [mine.handle] });
    const waiting = page.getByRole('region', { name: 'Waiting for you' });
    await waiting.getByRole('link', { name: 'An invitation' }).waitFor();
    await mine.mustJoin(asked);
    await page.locator('#list:not(:has(#waiting))').waitFor();
  });

  it.each([1440, 1100])('%i px: columns align in rows with and without buttons', async (width) => {
    await mine.mustCreate({ topic: 'Without buttons', invite: [other.handle] });
    await other.mustCreate({ topic: 'With buttons', invite: [mine.handle] });
    await page.setViewportSize({ width, height: 800 });
    await page.goto(`${stage.web}/dashboard/sessions`);
    expect(await page.locator('.row > .answers').count()).toBeGreaterThan(0);
    for (const column of ['.with', '.facts']) {
      const lefts = await page
        .locator(`.row > ${column}`)
        .evaluateAll((cells) => cells.map((cell) => Math.round(cell.getBoundingClientRect().left)));
      expect([column, lefts.length > 1, new Set(lefts).size]).toEqual([column, true, 1]);
    }
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(width);
  });

  it('a phone shows the word that was found', async () => {
    const session = await mine.mustCreate({ topic: 'Words', invite: [other.handle] });
    await mine.mustSend(session, `${'before it there are words, '.repeat(3)}zebra, and more after it.`);
    await page.setViewportSize({ width: 320, height: 640 });
    await page.goto(`${stage.web}/dashboard/search?q=zebra`);
    const { right, left } = await page
      .locator('mark')
      .first()
      .evaluate((mark) => mark.getBoundingClientRect().toJSON());
    expect([left > 0, right <= 320]).toEqual([true, true]);
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(320);
    await page.setViewportSize({ width: 1280, height: 800 });
  });

  it('axe finds nothing when some sessions were not searched, with and without a result', async () => {
    // Each of the account's agents gets an equal share of the sessions to search.
    for (let count = 0; count < 155; count += 1)
      await operate(stage.operator, 'POST', '/agents', { handle: `@${mine.owner}.idle-${count}` });
    for (let count = 0; count < 65; count += 1)
      await mine.mustCreate({
        invite: [other.handle],
        initial_message: { content: count < 60 ? 'a wren' : 'a heron' },
      });
    for (const word of ['heron', 'osprey']) {
      await page.goto(`${stage.web}/dashboard/search?q=${word}`);
      await page.getByText('only the latest ones were searched').waitFor();
      expect([word, await findViolations(page)]).toEqual([word, []]);
    }
  });

  it('ages advance while a page is open, in the same words as on a new one', async () => {
    await page.clock.install();
    await page.goto(`${stage.web}/dashboard/sessions`);
    const ages = (): Promise<{ at: string; text: string }[]> =>
      page.locator('.facts time').evaluateAll((times) =>
        times.map((time) => ({
          at: (time as unknown as { dateTime: string }).dateTime,
          text: time.textContent ?? '',
        })),
      );
    let now = Number(await page.locator('[data-now]').getAttribute('data-now'));
    for (const ms of [90_000, 2 * 60 * 60_000, 23 * 60 * 60_000, 3 * 24 * 60 * 60_000]) {
      await page.clock.runFor(ms);
      now += ms;
      const shown = await ages();
      expect(shown.length).toBeGreaterThan(0);
      expect(shown.map(({ text: age }) => age)).toEqual(shown.map(({ at }) => describeAge(Date.parse(at), now)));
    }
  });

  it('a message is found with only the keyboard, and its link leads to it', async () => {
    const speaker = await createActor(stage.desk.place, stage.operator, 'eve');
    const listener = await createActor(stage.desk.place, stage.operator, 'listener', { owner: mine.owner });
    const session = await speaker.mustCreate({ topic: 'Birds', invite: [listener.handle] });
    await listener.mustJoin(session);
    await speaker.mustSend(session, 'There is a capercaillie in the wood.');
    for (let index = 0; index < 80; index += 1) await speaker.mustSend(session, `more ${index}`);
    const context = await browser.newContext();
    const reader = await context.newPage();
    await reader.goto(text(await operate(stage.operator, 'POST', '/sign-in-links', { account: mine.owner }), 'url'));
    await reader.goto(`${stage.web}/dashboard/search`);
    // The browser gives the field the focus with the first frame, which may come after the page has loaded.
    await reader.locator('input:focus').waitFor();
    await reader.keyboard.type('capercaillie');
    await reader.keyboard.press('Enter');
    await reader.getByRole('heading', { name: 'Messages' }).waitFor();
    await reader.getByRole('link', { name: 'Birds' }).first().focus();
    await reader.keyboard.press('Enter');
    // The hit in the list shows the same words.
    await reader.waitForURL(/\/dashboard\/sessions\//);
    await reader.getByText('There is a capercaillie').waitFor();
    expect(await reader.evaluate('document.querySelector(":target").textContent')).toContain('capercaillie');
    await context.close();
  });
});
