import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { openBrowser, type Page, type Person } from '../../support/browser.js';
import { mustFindForm, signIn } from '../../support/person.js';
import { bodyOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

const FIREFOX = 'Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0';
const SETTINGS = '/dashboard/settings';

let stage: Stage;
beforeAll(async () => {
  stage = await openStage();
});
afterAll(() => stage.close());

/** The same person in another browser. */
async function enterAgain(person: Person, userAgent?: string): Promise<Pick<Visitor, 'browser' | 'open'>> {
  const browser = openBrowser(userAgent);
  await signIn(browser, await browser.open(`${stage.web}/dashboard`), person);
  return { browser, open: (path) => browser.open(`${stage.web}${path}`) };
}
const isSignedIn = async ({ open }: Pick<Visitor, 'open'>): Promise<boolean> =>
  pathOf(await open('/dashboard/agents')) === '/dashboard/agents';
const browserIds = (page: Page): string[] =>
  [...page.answer.text.matchAll(/name="id" value="([^"]+)"/g)].map(([, id = '']) => id);

describe('Signed-in browsers', () => {
  it('are listed with name, address and time; every page leads there', async () => {
    const ada = await stage.enter('ada');
    stage.desk.clock.advance(3 * 60_000);
    await enterAgain(ada, FIREFOX);
    const page = await ada.browser.follow(await ada.open('/dashboard/sessions'), /^settings$/i);
    expect(pathOf(page)).toBe(SETTINGS);
    expect(page.text).toContain('Firefox on Linux Signed in just now from 127.0.0.1');
    expect(page.text).toContain('Unknown browser Signed in 3 minutes ago from 127.0.0.1 This browser');
  });

  it('one of them is signed out from another, and no other person’s', async () => {
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
    // Twice is no mistake: a second tab may still show it.
    expect((await end(ada, shown, ids[0] ?? '')).answer.status).toBe(200);
  });

  it('all others are signed out at once; there is no such button where there are none', async () => {
    const ada = await stage.enter('ada');
    const others = [await enterAgain(ada), await enterAgain(ada)];
    const ended = await ada.press(SETTINGS, /^sign out all others$/i);
    expect(ended.text).toContain('All other browsers were signed out.');
    expect(await Promise.all(others.map(isSignedIn))).toEqual([false, false]);
    expect(await isSignedIn(ada)).toBe(true);
    expect(ended.text).not.toContain('Sign out all others');
  });

  it('very many are shown in parts', async () => {
    const alice = await stage.enterLocally('alice');
    stage.desk.clock.advance(1_000);
    for (let count = 0; count < 26; count += 1) await stage.enterLocally('alice');
    const first = await alice.open(SETTINGS);
    expect(browserIds(first)).toHaveLength(25);
    const second = await alice.browser.follow(first, /^next page$/i);
    expect([browserIds(second).length, bodyOf(second).includes('This browser')]).toEqual([1, true]);
    expect(second.text).toContain('Sign out all others');
  });
});
