import jsqr from 'jsqr';
import type { Browser, BrowserContext, BrowserContextOptions, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { createTurnableClock, type TurnableClock } from '../../../src/kit/turnable-clock.js';
import { type Actor, createActor, operate } from '../../support/actors.js';
import { findViolations } from '../../support/axe.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { linksOf } from '../../support/html-form.js';
import { field, text } from '../../support/json.js';
import { drawPng } from '../../support/pictures.js';
import { startWebhookReceiver, type WebhookReceiver } from '../../support/webhook-receiver.js';
import { bodyOf, openStage, type Stage } from './stage.js';

const SMALLEST_TARGET = 24;
const LONG = 'a'.repeat(64);

/** Code that uses every highlight color. */
const CODE = '```js\n// Why\nlet a = f("b", 1);\n```\n\n```diff\n-old\n+new\n```\n\n```json\n{"a": [1, null]}\n```';

/** Lists every text with too little contrast, by the browser's computed colors. */
const UNREADABLE = `(() => {
const toColor = (text) => { const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number); return [r, g, b, a]; };
const over = ([r, g, b, a], under) => [r, g, b].map((part, index) => part * a + under[index] * (1 - a));
const backgroundOf = (element) => {
  const own = toColor(getComputedStyle(element).backgroundColor);
  return own[3] === 1 || !element.parentElement ? own.slice(0, 3) : over(own, backgroundOf(element.parentElement));
};
const light = (parts) => {
  const [r, g, b] = parts.map((part) => part / 255).map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const found = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const { data, parentElement: element } = texts.currentNode;
  if (!data.trim() || element.closest('script') || !element.checkVisibility()) continue;
  const back = backgroundOf(element);
  const [low, high] = [light(back), light(over(toColor(getComputedStyle(element).color), back))].sort((a, b) => a - b);
  if ((high + 0.05) / (low + 0.05) < 4.5) found.push(data.trim());
}
return found;
})()`;

/** Lists every control that is too small for a finger. Links within a sentence may be smaller. */
const TOO_SMALL = `(() => [...document.querySelectorAll('a, button, input:not([type=hidden]), select, textarea, summary')]
  .filter((one) => one.checkVisibility() && getComputedStyle(one).display !== 'inline')
  .map((one) => (one.matches('[type=radio], [type=checkbox]') ? one.closest('label') : one.matches('.row-link') ? one.closest('.row') : one))
  .filter((one) => { const { width, height } = one.getBoundingClientRect(); return Math.min(width, height) < ${SMALLEST_TARGET}; })
  .map((one) => one.textContent.trim()))()`;

/** Returns the border colors of the invalid fields, and the color of the error text. */
const WRONG = `(() => ({
  edges: [...document.querySelectorAll('[aria-invalid=true]')].map((one) => getComputedStyle(one.closest('.joined') || one).borderColor),
  words: getComputedStyle(document.querySelector('.mistake')).color,
}))()`;

/** Describes the focused element: whether its focus is visible, and whether the bar or the window's edge hides it. */
const FOCUSED = `(() => {
const one = document.activeElement;
if (one === document.body) return undefined;
const isRinged = (element, part) => { const { outlineStyle, outlineWidth } = getComputedStyle(element, part); return outlineStyle !== 'none' && parseFloat(outlineWidth) >= 2; };
const around = one.closest('.joined, .choice');
const bar = document.querySelector('.bar').getBoundingClientRect();
const { top, bottom } = one.getBoundingClientRect();
const { outlineWidth, outlineOffset } = getComputedStyle(one);
return {
  name: one.textContent.trim() || one.name,
  isSeen: isRinged(one) || isRinged(one, '::after') || (around !== null && isRinged(around)),
  isCovered: !one.closest('.bar') && !one.matches('.skip') && bottom <= bar.bottom,
  isInBar: one.closest('.bar') !== null,
  isCut: one.closest('.bar') !== null && top - parseFloat(outlineOffset) - parseFloat(outlineWidth) < 0,
};
})()`;

/** The tabs whose bar differs from the color of the page, apart from the current ones. */
const MARKED_TABS = `(() => [...document.querySelectorAll('.bar nav a, .tabs a')]
  .filter((tab) => getComputedStyle(tab).borderBottomColor !== getComputedStyle(document.body).backgroundColor)
  .filter((tab) => !tab.hasAttribute('aria-current'))
  .map((tab) => tab.textContent))()`;

/** The current tabs of which a part is out of view. */
const TABS_OUT_OF_VIEW = `[...document.querySelectorAll('nav [aria-current]')].filter((tab) => {
  const [at, row] = [tab.getBoundingClientRect(), tab.closest('nav').getBoundingClientRect()];
  return at.left < row.left || at.right > row.right + 1;
}).map((tab) => tab.textContent)`;

describe.skipIf(noChromium !== undefined)(`The look of the pages in a real browser ${noChromium ?? ''}`, () => {
  let stage: Stage;
  let browser: Browser;
  let alice: Actor;
  let paths: readonly string[];
  beforeAll(async () => {
    stage = await openStage({ webhooks: 'any' });
    browser = await launchChromium();
    alice = await createActor(stage.desk.place, stage.operator, 'alice', { policy: 'hold' });
    const bob = await createActor(stage.desk.place, stage.operator, 'bob');
    await alice.post(`/agents/${alice.owner}/${alice.name}/allowlist`, { entries: [bob.handle] });
    await bob.mustCreate({ topic: 'W'.repeat(120), invite: [alice.handle] });
    const carol = await createActor(stage.desk.place, stage.operator, 'carol');
    await carol.post('/sessions', { invite: [alice.handle], initial_message: { content: 'w'.repeat(600) } });
    const session = await alice.mustCreate({ topic: 'W'.repeat(120), invite: [bob.handle] });
    await bob.mustJoin(session);
    await bob.mustSend(
      session,
      [
        { type: 'text', text: 'w'.repeat(3_000) },
        { type: 'data', data: { a: 1 } },
      ],
      { b: 2 },
    );
    await alice.mustSend(session, CODE);
    await alice.mustSend(session, [{ type: 'file', url: 'https://example.org/report.pdf', name: 'n'.repeat(180) }]);
    await operate(stage.operator, 'POST', '/agents', { handle: `@${alice.owner}.${LONG}` });
    await alice.post(`/agents/${alice.owner}/${alice.name}/allowlist`, { entries: [`@bob.${LONG}`] });
    await bob.post(`/sessions/${session}/messages`, {
      content: `# Deploy?\n\n${CODE}\n\n> quoted [link](https://example.org)`,
      metadata: { choices: ['yes', 'w'.repeat(80)] },
    });
    const { json } = await bob.post(`/sessions/${session}/messages`, { content: 'again' });
    const report = { sequence: Number(field(json, 'sequence')), reason: 'max_replies' };
    expect((await alice.post(`/sessions/${session}/unanswered`, report)).status).toBe(204);
    const helper = await createActor(stage.desk.place, stage.operator, 'helper', { owner: alice.owner });
    const broken = await bob.mustCreate({ topic: 'A failing agent', invite: [alice.handle] });
    await alice.mustJoin(broken);
    await alice.mustInvite(broken, helper.handle);
    await helper.mustJoin(broken);
    const { json: asked } = await bob.post(`/sessions/${broken}/messages`, { content: 'Are you there?' });
    const failure = { sequence: Number(field(asked, 'sequence')), reason: 'failed' };
    expect((await helper.post(`/sessions/${broken}/unanswered`, failure)).status).toBe(204);
    const ended = await alice.mustCreate({ invite: [bob.handle], initial_message: { content: 'bye' } });
    await alice.mustEnd(ended);
    await alice.post(`/agents/${alice.owner}/${alice.name}/allowlist`, { entries: [bob.handle] });
    const invited = await bob.mustCreate({ invite: [alice.handle], topic: 'An invitation' });
    const owner = await stage.enterLocally(alice.owner);
    // Nothing calls it: the clock of the stage does not move.
    await owner.press(`/dashboard/agents/${alice.name}/webhook`, /^set webhook$/i, {
      url: `https://hooks.example/${'w'.repeat(600)}`,
    });
    await operate(stage.operator, 'PATCH', `/accounts/${alice.owner}`, { operator: true });
    await operate(stage.operator, 'POST', '/agents', { handle: `@${LONG}.${LONG}` });
    await operate(stage.operator, 'PATCH', `/accounts/${LONG}`, { suspended: true });
    const agent = `agents/${alice.name}`;
    paths = [
      ...[
        'needs-you',
        'help',
        'agents',
        'traffic',
        'go',
        'go?q=a',
        'new-agent',
        agent,
        `${agent}/profile`,
        `${agent}/allowlist`,
        `${agent}/knocks`,
        `${agent}/blocks`,
        `${agent}/webhook`,
        `agents/${helper.name}/webhook`,
        `${agent}/remove`,
      ],
      ...[
        'sessions',
        `sessions/${session}`,
        `sessions/${session}?before=3`,
        `sessions/${session}?reply=3`,
        `sessions/${session}/events/3`,
        `sessions/${session}/leave`,
        `sessions/${session}/end`,
        `sessions/${session}/trust?handle=${encodeURIComponent(bob.handle)}`,
        `sessions/${ended}`,
        `sessions/${invited}`,
        'clients',
        'new-client',
        'applications',
      ],
      ...[
        'settings',
        'settings/delete',
        'settings/activity',
        'applications/disconnect-all',
        'search',
        'search?q=wwww',
        'sessions?with=nobody',
        'sessions?state=invited',
      ],
      ...['', '?q=a', `/${LONG}`, `/${LONG}/remove`, '/bob', `/${alice.owner}`].map(
        (part) => `operator/accounts${part}`,
      ),
      'operator',
      'operator/invitations',
      'operator/keys/rotate',
      'operator/log',
      'none',
    ].map((part) => `/dashboard/${part}`);
    const made = await owner.press(`/dashboard/sessions/${session}/links`, /^create link$/i);
    const shared = /\/shared\/[\w-]{43}/.exec(made.answer.text)?.[0] ?? '';
    paths = [...(await withLinked(paths)), shared, `${shared}/events/3`];
  });
  afterAll(async () => {
    await browser?.close();
    await stage.close();
  });

  /** Also the pages that a link of these leads to, one of each kind: so a new page is looked at without being named here. */
  const withLinked = async (named: readonly string[]): Promise<readonly string[]> => {
    const owner = await stage.enterLocally(alice.owner);
    const kindOf = (path: string): string =>
      path
        .replace(/\?.*/, '')
        .replace(/\/(\w+_[0-9A-Z]{26}|\d+)\b/g, '/one')
        .replace(/(agents|accounts)\/[^/]+/, '$1/one');
    const kinds = new Set(named.map(kindOf));
    const all = [...named];
    for (const path of all) {
      if (path === '/dashboard/none') continue;
      const page = await owner.open(path);
      for (const { href } of linksOf(bodyOf(page))) {
        const isPage = href.startsWith('/dashboard/') && !/\/(download|attachments)\b/.test(href);
        if (!isPage || kinds.has(kindOf(href))) continue;
        kinds.add(kindOf(href));
        all.push(href.replaceAll('&amp;', '&').replace(/#.*/, ''));
      }
    }
    return all;
  };

  const enter = async (options: BrowserContextOptions): Promise<{ context: BrowserContext; page: Page }> => {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    await page.goto(text(await operate(stage.operator, 'POST', '/sign-in-links', { account: alice.owner }), 'url'));
    return { context, page };
  };

  it('each text is readable in each color scheme (WCAG 2.2, 1.4.3), each control is large enough (2.5.8), and in forced colors, no tab but the current one has a bar', {
    timeout: 240_000,
  }, async () => {
    const { context, page } = await enter({ reducedMotion: 'reduce' });
    const expectReadable = async (path: string): Promise<void> => {
      for (const colorScheme of ['light', 'dark'] as const) {
        await page.emulateMedia({ colorScheme });
        expect([path, colorScheme, await page.evaluate(UNREADABLE)]).toEqual([path, colorScheme, []]);
      }
    };
    for (const path of paths) {
      await page.goto(`${stage.web}${path}`);
      await expectReadable(path);
      expect([path, await page.evaluate(TOO_SMALL)]).toEqual([path, []]);
      await page.emulateMedia({ colorScheme: 'light', forcedColors: 'active' });
      expect([path, 'forced', await page.evaluate(UNREADABLE)]).toEqual([path, 'forced', []]);
      expect([path, await page.evaluate(MARKED_TABS)]).toEqual([path, []]);
      await page.emulateMedia({ forcedColors: 'none' });
    }
    await page.goto(`${stage.web}/dashboard/new-agent`);
    await page.locator('#name').fill('No Name');
    await page.locator('#display-name').fill(' ');
    await page.getByRole('button', { name: 'Create agent' }).click();
    await page.getByRole('alert').waitFor();
    await expectReadable('a refused form');
    for (const colorScheme of ['light', 'dark'] as const) {
      await page.emulateMedia({ colorScheme });
      const { edges, words } = await page.evaluate<{ edges: string[]; words: string }>(WRONG);
      expect(edges).toEqual([words, words]);
    }
    await context.close();
  });

  it.each([
    ['light', {}],
    ['dark, 320 px wide (1.4.10)', { colorScheme: 'dark', viewport: { width: 320, height: 640 } }],
  ] as const)('%s: each page fits, and axe finds nothing', { timeout: 240_000 }, async (_, options) => {
    const { context, page } = await enter(options);
    for (const path of paths) {
      await page.goto(`${stage.web}${path}`);
      await assertFits(page, path);
      for (const fold of await page.locator('summary').all()) if (await fold.isVisible()) await fold.click();
      expect([path, await findViolations(page)]).toEqual([path, []]);
    }
    await context.close();
  });

  it('Needs you says of each agent whether it stopped or fails', async () => {
    const { context, page } = await enter({});
    await page.goto(`${stage.web}/dashboard/needs-you`);
    expect((await page.locator('.badge.warn').allInnerTexts()).sort()).toEqual(
      expect.arrayContaining(['Failing', 'Stopped']),
    );
    await context.close();
  });

  it('participants are equally high, with and without a word next to the handle', async () => {
    const { context, page } = await enter({});
    for (const path of paths.filter((one) => /sessions\/sess_\w+$/.test(one))) {
      await page.goto(`${stage.web}${path}`);
      const boxes = await page
        .locator('.people li')
        .evaluateAll((chips) => chips.map((chip) => Math.round(chip.getBoundingClientRect().height * 10)));
      expect([path, new Set(boxes).size]).toEqual([path, 1]);
    }
    await context.close();
  });

  it.each([1280, 900, 600])('%i px: the title of a session stays below the bar, or at the top', async (width) => {
    const { context, page } = await enter({ viewport: { width, height: 500 } });
    await page.goto(`${stage.web}${paths.find((path) => path.endsWith('?before=3'))?.replace('?before=3', '')}`);
    await page.evaluate('scrollTo(0, document.documentElement.scrollHeight)');
    const [bar, title] = await page.evaluate<[number, number]>(
      `['.bar', '.session-title'].map((one) => document.querySelector(one).getBoundingClientRect()[one === '.bar' ? 'bottom' : 'top'])`,
    );
    expect(Math.abs(title - Math.max(0, bar))).toBeLessThanOrEqual(1);
    await context.close();
  });

  it('a phone has room for fingers, names no keys, and shows the details of a message after a tap', async () => {
    const { context, page } = await enter({ viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    await page.goto(`${stage.web}/dashboard/agents`);
    expect(await page.evaluate(`document.querySelector('.bar nav').scrollLeft`)).toBe(0);
    await page.goto(`${stage.web}${paths.find((path) => path.endsWith('?before=3'))?.replace('?before=3', '')}`);
    const heights = await page
      .locator('.trail a, #manage > summary')
      .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().height));
    expect(Math.min(...heights)).toBeGreaterThanOrEqual(44);
    await page.getByText('Markdown works.').waitFor();
    expect(await page.getByText('Ctrl+Enter').isVisible()).toBe(false);
    const message = page.locator('.entry.said').last();
    const details = message.getByRole('link', { name: 'Details' });
    expect(await details.isVisible()).toBe(false);
    await message.locator('.bubble').tap();
    await details.waitFor();
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBe(390);
    await context.close();
  });

  it('a topic that is written from right to left keeps its beginning in a list', async () => {
    const topic = `${'מילה '.repeat(5)}${'and more words '.repeat(20)}`;
    await alice.mustCreate({ topic });
    const { context, page } = await enter({ viewport: { width: 390, height: 844 } });
    await page.goto(`${stage.web}/dashboard/sessions`);
    const seen = await page.locator('.session .row-link', { hasText: 'מילה' }).evaluate((link) => {
      const range = link.ownerDocument.createRange();
      const text = link.querySelector('bdi')?.firstChild;
      if (!text) throw new Error('no text');
      range.setStart(text, 0);
      range.setEnd(text, 4);
      const [word, box] = [range.getBoundingClientRect(), link.getBoundingClientRect()];
      return word.left >= box.left && word.right <= box.right;
    });
    expect(seen).toBe(true);
    await context.close();
  });

  it('the fields of a filter stay in line when one of them has a mistake', async () => {
    const { context, page } = await enter({ viewport: { width: 1280, height: 800 } });
    await page.goto(`${stage.web}/dashboard/sessions?with=no%20handle`);
    await page.locator('.mistake').waitFor();
    const tops = await page
      .locator('.filter-fields :is(input, select)')
      .evaluateAll((all) => all.map((one) => Math.round(one.getBoundingClientRect().top)));
    expect([tops.length, new Set(tops).size]).toEqual([4, 1]);
    await context.close();
  });

  it('what is printed is light, whatever the theme', async () => {
    const { context, page } = await enter({ colorScheme: 'dark' });
    await page.goto(`${stage.web}/dashboard/agents`);
    const ink = `getComputedStyle(document.body).color`;
    const dark = await page.evaluate(ink);
    await page.evaluate(`document.documentElement.dataset.theme = 'dark'`);
    expect(await page.evaluate(ink)).toBe(dark);
    await page.emulateMedia({ media: 'print' });
    const printed = await page.evaluate(ink);
    await page.emulateMedia({ media: 'screen', colorScheme: 'light' });
    await page.evaluate(`delete document.documentElement.dataset.theme`);
    expect([printed, printed === dark]).toEqual([await page.evaluate(ink), false]);
    await context.close();
  });

  it('nothing covers the second sheet of a printed session', async () => {
    const { context, page } = await enter({});
    await page.goto(`${stage.web}${paths.find((path) => path.endsWith('?before=3'))?.replace('?before=3', '')}`);
    const boxes = `[...document.querySelectorAll('main *')].flatMap((one) => ['::before', '::after'].map((part) => getComputedStyle(one, part)).filter(({ content, display, position, backgroundImage }) => content !== 'none' && display !== 'none' && position === 'absolute' && backgroundImage !== 'none')).length`;
    expect(await page.evaluate(boxes)).toBeGreaterThan(0);
    await page.emulateMedia({ media: 'print' });
    expect(await page.evaluate(boxes)).toBe(0);
    await context.close();
  });

  it('readers who ask for more contrast get it', async () => {
    const { context, page } = await enter({});
    await page.goto(`${stage.web}/dashboard/settings`);
    const looks = `(() => { const { color } = getComputedStyle(document.querySelector('.soft')); return [color, getComputedStyle(document.querySelector('.card')).borderTopColor]; })()`;
    const usual = await page.evaluate<string[]>(looks);
    await page.emulateMedia({ contrast: 'more' });
    const more = await page.evaluate<string[]>(looks);
    expect(more.map((color, index) => color === usual[index])).toEqual([false, false]);
    expect(await page.evaluate(UNREADABLE.replace('< 4.5', '< 6'))).toEqual([]);
    await context.close();
  });

  it('no tab moves from page to page', async () => {
    const { context, page } = await enter({ viewport: { width: 1280, height: 500 } });
    const places = new Set<string>();
    for (const name of ['needs-you', 'agents', 'sessions', 'clients', 'applications']) {
      await page.goto(`${stage.web}/dashboard/${name}`);
      places.add(
        await page.evaluate(`[...document.querySelectorAll('.bar nav a')].map((tab) => tab.offsetLeft).join()`),
      );
    }
    expect(await page.locator('.bar .count').count()).toBe(1);
    expect([...places]).toHaveLength(1);
    await context.close();
  });

  it('a button copies commands, line by line, as one would select them', async () => {
    const { context, page } = await enter({ viewport: { width: 320, height: 640 } });
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: stage.web });
    await page.goto(`${stage.web}/dashboard/agents/${alice.name}`);
    const commands = await page.locator('.command .line').allTextContents();
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    expect(commands).toHaveLength(2);
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(commands.join('\n'));
    await context.close();
  });

  it('axe finds nothing in a refused form, in an open menu, and in a note with a button to undo', async () => {
    const { context, page } = await enter({});
    await page.goto(`${stage.web}/dashboard/needs-you`);
    await page.getByRole('button', { name: `Dismiss the report of ${alice.handle}` }).click();
    await page.getByRole('button', { name: 'Undo' }).waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.getByRole('button', { name: 'Undo' }).click();
    await page.getByText('Back on the list.').waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.goto(`${stage.web}/dashboard/new-agent`);
    await page.locator('#name').fill('No Name');
    await page.locator('#display-name').fill(' ');
    await page.getByRole('button', { name: 'Create agent' }).click();
    await page.getByRole('alert').waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.getByRole('button', { name: /^Account/ }).click();
    expect(await findViolations(page)).toEqual([]);
    await context.close();
  });

  it.each([
    ['1280 px', { viewport: { width: 1280, height: 800 } }],
    ['320 px', { viewport: { width: 320, height: 640 } }],
  ] as const)('%s: a list is pasted, corrected and searched by keyboard alone', async (_, options) => {
    const { context, page } = await enter(options);
    const list = `${stage.web}/dashboard/agents/${alice.name}/blocks`;
    await page.goto(list);
    const reach = async (name: string): Promise<void> => {
      for (let pressed = 0; pressed < 60; pressed += 1) {
        await page.keyboard.press('Tab');
        const focused = page.locator(':focus');
        if ((await focused.count()) === 1 && (await focused.innerText()).trim() === name) return;
      }
      throw new Error(`Tab never reaches ${name}.`);
    };
    await reach('Paste a list');
    await page.keyboard.press('Enter');
    await page.keyboard.press('Tab');
    const many = Array.from({ length: 30 }, (_one, index) => `@spam.a${index + 10}`).join('\n');
    await page.keyboard.insertText(`${many}\nspam.a99\n`);
    await reach('Block all');
    await page.keyboard.press('Enter');
    await page.locator('.mistake').waitFor();
    expect(await page.evaluate('document.activeElement.id')).toBe('list');
    expect(await page.evaluate('document.documentElement.scrollWidth')).toBeLessThanOrEqual(options.viewport.width);
    expect(await findViolations(page)).toEqual([]);
    await reach('Block the other 30');
    await page.keyboard.press('Enter');
    await page.getByText('Blocked @spam.a10 and 29 others.').waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.locator('#q').focus();
    await page.keyboard.insertText('a39');
    await page.keyboard.press('Enter');
    await page.getByRole('button', { name: 'Unblock @spam.a39' }).waitFor();
    expect(await page.locator('.rows .row').count()).toBe(1);
    await context.close();
  });

  describe('an agent with a picture and skills', () => {
    const profile = (): string => `${stage.web}/dashboard/agents/${alice.name}/profile`;
    beforeAll(async () => {
      const { context, page } = await enter({});
      await page.goto(profile());
      await page.locator('#skill-1').fill('Release plans');
      await page.locator('#skill-1-about').fill('Writes each step of a release, and who does it. '.repeat(4));
      await page.locator('#skill-2').fill('w'.repeat(100));
      await page.getByRole('button', { name: 'Save profile' }).click();
      await page.waitForURL((url) => !url.pathname.endsWith('/profile'));
      await page.goto(profile());
      const picture = { name: 'me.png', mimeType: 'image/png', buffer: drawPng(64, 48) };
      await page.locator('#picture').setInputFiles(picture);
      await page.getByRole('button', { name: 'Upload picture' }).click();
      await page.locator('img.portrait').waitFor();
      await context.close();
    });

    it.each([
      ['light', {}],
      ['dark, narrow', { colorScheme: 'dark', viewport: { width: 320, height: 640 } }],
    ] as const)(
      '%s: axe finds nothing while the skills change places, in the preview, and on the public page',
      async (_, options) => {
        const { context, page } = await enter(options);
        const expectFine = async (what: string): Promise<void> => {
          expect([what, await findViolations(page)]).toEqual([what, []]);
          expect([what, await page.evaluate(UNREADABLE)]).toEqual([what, []]);
          const excess = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
          expect([what, await page.evaluate(excess)]).toEqual([what, 0]);
        };
        await page.goto(profile());
        await page.locator('.quiet > summary').click();
        await page.getByRole('button', { name: 'Move down Release plans' }).click();
        await page.getByRole('status').waitFor();
        await expectFine('order');
        // A name that is squeezed between buttons breaks after every few letters.
        const names = await page
          .locator('.order .grow')
          .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width));
        expect(Math.min(...names)).toBeGreaterThan(120);
        const looks = await page
          .locator('.order button')
          .evaluateAll((all) =>
            all.map(
              (one) => `${one.matches(':disabled')} ${one.ownerDocument.defaultView?.getComputedStyle(one).color}`,
            ),
          );
        expect(new Set(looks).size).toBe(2);
        await page.getByRole('button', { name: 'Preview' }).click();
        await page.locator('#preview img').waitFor();
        await expectFine('preview');
        await page.goto(`${stage.web}/agents/${alice.handle}`);
        await expectFine('public page');
        await context.close();
      },
    );

    it('its public page has buttons that copy the command and the address', async () => {
      const { context, page } = await enter({});
      await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: stage.web });
      await page.goto(`${stage.web}/agents/${alice.handle}`);
      await page.locator('.code-to-scan').getByRole('button', { name: 'Copy' }).click();
      await page.getByRole('button', { name: 'Copied' }).waitFor();
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(page.url());
      await context.close();
    });
  });

  it('a link that is shown once has a button that copies it', async () => {
    const { context, page } = await enter({});
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: stage.web });
    await page.goto(`${stage.web}/dashboard/operator/invitations`);
    await page.getByRole('button', { name: 'Create invitation' }).click();
    await page.getByRole('button', { name: 'Copy' }).click();
    await page.getByRole('button', { name: 'Copied' }).waitFor();
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(await page.locator('.take').innerText());
    expect(await findViolations(page)).toEqual([]);
    await context.close();
  });

  it('a screen reader announces each time that something was copied', async () => {
    const { context, page } = await enter({});
    await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: stage.web });
    await page.goto(`${stage.web}/dashboard/help`);
    for (const index of [0, 1]) {
      await page.getByRole('button', { name: 'Copy' }).nth(index).click();
      await page
        .getByRole('status')
        .filter({ hasText: /^Copied$/ })
        .waitFor();
      await page
        .getByRole('status')
        .filter({ hasText: /^Copied$/ })
        .waitFor({ state: 'detached' });
    }
    await context.close();
  });

  describe('A webhook', () => {
    let receiver: WebhookReceiver;
    let clock: TurnableClock;
    let own: Stage;
    let bob: Actor;
    beforeAll(async () => {
      receiver = await startWebhookReceiver();
      clock = createTurnableClock(systemClock, 3_600_000);
      own = await openStage({ webhooks: 'any', clock });
      bob = await createActor(own.desk.place, own.operator, 'bob');
    });
    afterAll(async () => {
      await own.close();
      clock.stop();
      await receiver.close();
    });

    it.each([
      ['light, wide', { viewport: { width: 1920, height: 900 } }],
      ['dark, narrow', { colorScheme: 'dark', viewport: { width: 320, height: 640 } }],
      ['forced colors', { forcedColors: 'active' }],
    ] as const)(
      '%s: axe finds nothing while its secret is shown, and in each of its states; a button copies the secret',
      async (_, options) => {
        const context = await browser.newContext(options);
        await context.grantPermissions(['clipboard-read', 'clipboard-write'], { origin: own.web });
        const page = await context.newPage();
        await page.goto(text(await operate(own.operator, 'POST', '/sign-in-links', { account: bob.owner }), 'url'));
        const path = `${own.web}/dashboard/agents/${bob.name}/webhook`;
        const expectFine = async (what: string): Promise<void> => {
          expect([what, await findViolations(page)]).toEqual([what, []]);
          expect([what, await page.evaluate(UNREADABLE)]).toEqual([what, []]);
          await assertFits(page, what);
        };
        const becomes = async (status: string): Promise<void> => {
          const badge = page.locator('#webhook .badge', { hasText: status });
          while (!(await badge.isVisible())) await page.goto(path);
          await expectFine(status);
        };
        await page.goto(path);
        await page.getByLabel('URL').fill('ftp://example.org/');
        await page.getByRole('button', { name: 'Set webhook' }).click();
        await page.getByRole('alert').waitFor();
        await expectFine('refused');
        await page.getByLabel('URL').fill(receiver.url(`/${'w'.repeat(200)}`));
        await page.keyboard.press('Enter');
        await page.getByRole('button', { name: 'Copy' }).click();
        await page.getByRole('button', { name: 'Copied' }).waitFor();
        expect(await page.evaluate('navigator.clipboard.readText()')).toBe(
          await page.locator('#webhook-secret').innerText(),
        );
        await expectFine('secret');
        await becomes('Working');
        receiver.answer((reply) => reply.writeHead(500).end());
        await page.getByRole('button', { name: 'Send a test' }).click();
        await becomes('Failing');
        receiver.answer((reply) => reply.writeHead(410).end());
        await page.getByRole('button', { name: 'Send a test' }).click();
        await becomes('Off');
        await page.goto(`${own.web}/dashboard/needs-you`);
        await page.getByRole('link', { name: 'Open webhook' }).waitFor();
        await expectFine('needs you');
        await page.getByRole('link', { name: 'Open webhook' }).click();
        receiver.answer();
        await page.getByRole('button', { name: 'Turn on again' }).click();
        await becomes('Working');
        await page.getByRole('link', { name: 'Remove webhook' }).click();
        await expectFine('question');
        await page.getByRole('button', { name: 'Remove webhook' }).click();
        await page.getByText('The webhook was removed.').waitFor();
        await expectFine('removed');
        await context.close();
      },
    );
  });

  it('axe finds nothing when the loop guard has stopped a session, or a search found more than it shows', async () => {
    const guarded = await createActor(stage.desk.place, stage.operator, 'guarded', { owner: alice.owner });
    const talkers = await Promise.all(
      ['left', 'right'].map((name) => createActor(stage.desk.place, stage.operator, name)),
    );
    for (const talker of talkers) {
      const session = await talker.mustCreate({ topic: 'A loop', invite: [guarded.handle] });
      await guarded.mustJoin(session);
      for (let round = 0; round < 30; round += 1) await talker.mustSend(session, `around and around ${round}`);
      const { json } = await talker.post(`/sessions/${session}/messages`, { content: 'again' });
      const report = { sequence: Number(field(json, 'sequence')), reason: 'loop_guard' };
      expect((await guarded.post(`/sessions/${session}/unanswered`, report)).status).toBe(204);
    }
    const { context, page } = await enter({ viewport: { width: 320, height: 640 } });
    await page.goto(`${stage.web}/dashboard/needs-you`);
    await page.getByText('(loop-guard)').first().waitFor();
    expect(await findViolations(page)).toEqual([]);
    await page.goto(`${stage.web}/dashboard/search?q=around`);
    await page.getByText('newest messages').waitFor();
    expect(await findViolations(page)).toEqual([]);
    await context.close();
  });

  it('the focus is visible (2.4.7) and not covered (2.4.11)', { timeout: 400_000 }, async () => {
    const { context, page } = await enter({ viewport: { width: 1000, height: 500 } });
    let stops = 0;
    for (const path of paths) {
      await page.goto(`${stage.web}${path}`);
      // The bar is the same on all pages.
      const isBarSeen = path !== paths[0];
      if (isBarSeen) await page.evaluate(`Object.assign(document.querySelector('main'), { tabIndex: -1 }).focus()`);
      for (const key of ['Tab', 'Shift+Tab']) {
        for (let step = 0; step < 60; step += 1) {
          await page.keyboard.press(key);
          const focused = await page.evaluate<{ name: string; isInBar: boolean } | undefined>(FOCUSED);
          if (focused === undefined || (isBarSeen && focused.isInBar)) break;
          expect([path, focused]).toEqual([path, { ...focused, isSeen: true, isCovered: false, isCut: false }]);
          stops += 1;
        }
      }
    }
    expect(stops).toBeGreaterThan(10 * paths.length);
    await context.close();
  });

  it.each(['light', 'dark'] as const)('%s: a camera reads the address of a public page on it', async (colorScheme) => {
    const { context, page } = await enter({ viewport: { width: 320, height: 640 }, colorScheme });
    const address = `${stage.web}/agents/${alice.handle}`;
    await page.goto(address);
    expect(await findViolations(page)).toEqual([]);
    const picture = (await page.locator('.code-to-scan').screenshot()).toString('base64');
    const blank = await context.newPage();
    const { data, width, height } = await blank.evaluate<{
      data: number[];
      width: number;
      height: number;
    }>(`(async () => {
      const image = new Image();
      image.src = 'data:image/png;base64,${picture}';
      await image.decode();
      const canvas = new OffscreenCanvas(image.width, image.height).getContext('2d');
      canvas.drawImage(image, 0, 0);
      const { data, width, height } = canvas.getImageData(0, 0, image.width, image.height);
      return { data: [...data], width, height };
    })()`);
    expect(jsqr.default(Uint8ClampedArray.from(data), width, height, { inversionAttempts: 'dontInvert' })?.data).toBe(
      address,
    );
    await context.close();
  });

  const assertFits = async (page: Page, path: string): Promise<void> => {
    expect([path, await page.evaluate(TABS_OUT_OF_VIEW)]).toEqual([path, []]);
    const excess = 'document.documentElement.scrollWidth - document.documentElement.clientWidth';
    expect([path, await page.evaluate(excess)]).toEqual([path, 0]);
  };

  it('each page fits 200 % zoom (1.4.4), and shows which of its tabs is the current one', async () => {
    const { context, page } = await enter({ viewport: { width: 640, height: 400 } });
    for (const path of paths) {
      await page.goto(`${stage.web}${path}`);
      await assertFits(page, path);
    }
    await context.close();
  });
});
