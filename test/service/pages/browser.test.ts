import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { operate } from '../../support/actors.js';
import { findViolations } from '../../support/axe.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { text } from '../../support/json.js';
import { authorizationUrl, createVerifier, mustRegister, redeemCode } from '../../support/oauth.js';
import { type Desk, openDesk } from '../authorization-server/desk.js';

const NO_SCRIPT = { javaScriptEnabled: false } as const;

/** Whether the buttons that stay in view cover what has the focus. */
const COVERED = `(() => {
  const [one, actions] = [document.activeElement, document.querySelector('.lasting')];
  const [focused, over] = [one.getBoundingClientRect(), actions.getBoundingClientRect()];
  return !actions.contains(one) && one !== document.body && focused.bottom > over.top && focused.top < over.bottom;
})()`;

/** Starts a client's redirect target. It answers the browser and records its requests. */
async function openCallback(host: string): Promise<{ server: Server; url: string; requests: string[] }> {
  const requests: string[] = [];
  const server = createServer((incoming, answer) => {
    requests.push(`${incoming.url} referer=${incoming.headers.referer ?? ''}`);
    answer.end('You can go back to the terminal.');
  });
  await new Promise<void>((resolve) => server.listen(0, host, resolve));
  const { port } = server.address() as AddressInfo;
  return { server, url: `http://${host.includes(':') ? `[${host}]` : host}:${port}/callback`, requests };
}

describe.skipIf(noChromium !== undefined)(`The pages in a real browser ${noChromium ?? ''}`, () => {
  let desk: Desk;
  let browser: Browser;
  beforeAll(async () => {
    desk = await openDesk();
    browser = await launchChromium();
  });
  afterAll(async () => {
    await browser?.close();
    await desk.stop();
  });

  async function withPage(options: BrowserContextOptions, work: (page: Page, complaints: string[]) => Promise<void>) {
    const context = await browser.newContext(options);
    const complaints: string[] = [];
    const page = await context.newPage();
    page.setDefaultTimeout(15_000);
    page.on('console', (message) => {
      if (!message.text().includes('status of 400')) complaints.push(message.text());
    });
    try {
      await work(page, complaints);
    } finally {
      await context.close();
    }
  }

  async function createAccount(page: Page, username: string): Promise<void> {
    const summary = page.locator('summary', { hasText: 'Create an account' });
    if ((await summary.count()) > 0) await summary.click();
    await page.locator('#new-username').fill(username);
    await page.getByLabel('Your name').fill('Some Body');
    await page.locator('#new-password').fill('correct horse battery');
    await page.getByRole('button', { name: 'Create account' }).click();
  }

  it.each(['127.0.0.1', '::1'])('work without scripts, from the first visit to the answer at %s', async (host) => {
    const callback = await openCallback(host);
    try {
      const registered = callback.url.replace(/:\d+\/callback$/, '/callback');
      const clientId = await mustRegister(desk.place, { redirect_uris: [registered] });
      const { verifier, challenge } = createVerifier();
      const username = `browser-${host.length}`;
      await withPage(NO_SCRIPT, async (page, complaints) => {
        await page.goto(authorizationUrl(desk.place, { clientId, challenge, redirectUri: callback.url }));
        await createAccount(page, username);
        await page.getByLabel('Handle', { exact: true }).fill('Not An Address');
        await page.getByRole('button', { name: 'Allow' }).click();
        expect(await page.title()).toMatch(/^Problem: /);
        expect(await page.locator('#agent-name').evaluate((field) => field === field.ownerDocument.activeElement)).toBe(
          true,
        );
        await page.getByLabel('Handle', { exact: true }).fill('inbox');
        await page.getByRole('button', { name: 'Allow' }).click();
        await page.waitForURL(/code=/);
        const back = new URL(page.url()).searchParams;
        const tokens = await redeemCode(desk.place, clientId, back.get('code') ?? '', verifier, {
          redirect_uri: callback.url,
        });
        expect(text(tokens.json, 'agent_handle')).toBe(`${username}.inbox`);
        expect(complaints).toEqual([]);
      });
      const answers = callback.requests.filter((line) => line.startsWith('/callback?'));
      expect(answers).toHaveLength(1);
      expect(answers[0]).toMatch(/ referer=$/);
    } finally {
      callback.server.close();
    }
  });

  it('work with only the keyboard', async () => {
    const callback = await openCallback('127.0.0.1');
    try {
      const clientId = await mustRegister(desk.place, { redirect_uris: [callback.url] });
      const newRequest = (): string =>
        authorizationUrl(desk.place, {
          clientId,
          challenge: createVerifier().challenge,
          redirectUri: callback.url,
        });
      await withPage(NO_SCRIPT, async (page) => {
        await page.goto(newRequest());
        await createAccount(page, 'keys-only');
        await page.getByLabel('Handle', { exact: true }).fill('first');
        await page.getByLabel('Handle', { exact: true }).press('Enter');
        await page.waitForURL(/code=/);
        await page.goto(newRequest());
        await page.keyboard.press('Tab');
        await page.keyboard.press('ArrowDown');
        expect(await page.locator('#agent-new').isChecked()).toBe(true);
        expect(await page.getByLabel('Handle', { exact: true }).isVisible()).toBe(true);
        await page.keyboard.press('ArrowUp');
        expect(await page.getByLabel('Handle', { exact: true }).isVisible()).toBe(false);
        await page.keyboard.press('Tab');
        await page.keyboard.press('Tab');
        await page.keyboard.press('Enter');
        await page.waitForURL(/error=access_denied/);
      });
    } finally {
      callback.server.close();
    }
  });

  it.each([
    ['light', { colorScheme: 'light' }],
    ['dark', { colorScheme: 'dark' }],
    ['forced', { forcedColors: 'active' }],
  ] as const)('%s colors: axe finds nothing from signing in to consent', async (name, options) => {
    await withPage(options, async (page) => {
      const clientId = await mustRegister(desk.place, { client_name: 'A program' });
      await page.goto(authorizationUrl(desk.place, { clientId, challenge: createVerifier().challenge }));
      expect(await findViolations(page)).toEqual([]);
      await page.goto(`${desk.service.webUrl}/oauth/sign-in`);
      expect(await findViolations(page)).toEqual([]);
      await page.locator('#username').fill('nobody');
      await page.locator('#password').fill('not the password');
      await page.getByRole('button', { name: 'Sign in' }).click();
      await page.getByRole('alert').waitFor();
      expect(await findViolations(page)).toEqual([]);
      await page.goto(authorizationUrl(desk.place, { clientId, challenge: createVerifier().challenge }));
      await createAccount(page, `axe-${name}`);
      expect(await findViolations(page)).toEqual([]);
      await page.getByLabel('Handle', { exact: true }).fill('Not An Address');
      await page.getByRole('button', { name: 'Allow' }).click();
      expect(await page.title()).toMatch(/^Problem: /);
      expect(await findViolations(page)).toEqual([]);
      await page.goto(authorizationUrl(desk.place, { clientId: 'unknown', challenge: createVerifier().challenge }));
      expect(await findViolations(page)).toEqual([]);
      await page.goto(`${desk.service.webUrl}/agents/@no.body`);
      expect(await findViolations(page)).toEqual([]);
      expect(await page.getByRole('link', { name: 'Dashboard' }).count()).toBe(1);
    });
  });

  it('fit a phone, even with large text', async () => {
    await withPage({ viewport: { width: 320, height: 640 } }, async (page) => {
      const clientId = await mustRegister(desk.place, { client_name: 'W'.repeat(200) });
      await page.goto(authorizationUrl(desk.place, { clientId, challenge: createVerifier().challenge }));
      await createAccount(page, 'a-rather-long-username-for-a-rather-small-screen-indeed');
      const overflow = () =>
        page.evaluate<number>('document.documentElement.scrollWidth - document.documentElement.clientWidth');
      expect(await overflow()).toBe(0);
      const heights = await page
        .locator('button.button, input[type="text"]:visible')
        .evaluateAll((elements) => elements.map((element) => element.getBoundingClientRect().height));
      expect(heights.every((height) => height >= 44)).toBe(true);
    });
  });

  it.each([1, 2, 12])('show the decision about an app at once, for this many agents: %i', async (count) => {
    const { operatorUrl: url, operatorSecret: secret } = desk.service;
    const account = `decides-${count}`;
    for (let index = 0; index < count; index += 1)
      await operate({ url, secret }, 'POST', '/agents', { handle: `@${account}.a${index}` });
    const clientId = await mustRegister(desk.place, {});
    await withPage({ viewport: { width: 1280, height: 800 } }, async (page) => {
      await page.goto(text(await operate({ url, secret }, 'POST', '/sign-in-links', { account }), 'url'));
      await page.goto(authorizationUrl(desk.place, { clientId, challenge: createVerifier().challenge }));
      const isInWindow = (one: Locator) =>
        one.evaluate((element) => {
          const { top, bottom } = element.getBoundingClientRect();
          const hit = element.ownerDocument.elementFromPoint(640, (top + bottom) / 2);
          return top >= 0 && bottom <= 800 && hit !== null;
        });
      expect(await isInWindow(page.getByRole('button', { name: 'Allow' }))).toBe(true);
      expect(await isInWindow(page.getByRole('button', { name: 'Deny' }))).toBe(true);
      expect(await isInWindow(page.locator('label[for="agent-new"]'))).toBe(true);
      for (let step = 0; step < 8; step += 1) {
        await page.keyboard.press('Tab');
        expect(await page.evaluate(COVERED)).toBe(false);
      }
    });
  });

  it('have an icon for a home screen at the address where Safari looks, square and without transparent parts', async () => {
    await withPage({}, async (page) => {
      await page.goto(`${desk.service.webUrl}/apple-touch-icon.png`);
      const corner = await page.evaluate<number[]>(`(() => {
        const [image] = document.images;
        const canvas = new OffscreenCanvas(image.naturalWidth, image.naturalHeight).getContext('2d');
        canvas.drawImage(image, 0, 0);
        return [image.naturalWidth, image.naturalHeight, ...canvas.getImageData(0, 0, 1, 1).data];
      })()`);
      expect(corner).toEqual([180, 180, 0x0b, 0x6a, 0x4d, 255]);
    });
  });

  it('find one of many agents as someone types, keep the chosen one in sight, and need no script for it', async () => {
    const { operatorUrl: url, operatorSecret: secret } = desk.service;
    for (const name of ['red-1', 'red-2', 'blue-1', 'blue-2', 'green-1', 'green-2', 'green-3'])
      await operate({ url, secret }, 'POST', '/agents', { handle: `@filters.${name}` });
    const clientId = await mustRegister(desk.place, {});
    const open = async (page: Page) => {
      await page.goto(text(await operate({ url, secret }, 'POST', '/sign-in-links', { account: 'filters' }), 'url'));
      await page.goto(authorizationUrl(desk.place, { clientId, challenge: createVerifier().challenge }));
    };
    await withPage({}, async (page, complaints) => {
      await open(page);
      const shown = () => page.locator('.choices.many .mono:visible').allTextContents();
      const box = page.getByRole('searchbox', { name: 'Find an agent' });
      await page.getByText('@filters.red-2').click();
      await box.fill(' BLUE ');
      expect((await shown()).sort()).toEqual(['@filters.blue-1', '@filters.blue-2', '@filters.red-2']);
      await expect.poll(() => page.getByRole('status').textContent()).toBe('2 of 7 agents match.');
      await box.press('Enter');
      expect(new URL(page.url()).pathname).toBe('/oauth/authorize');
      await page.locator('#agent-new').check();
      await box.fill('violet');
      expect(await shown()).toEqual([]);
      await expect.poll(() => page.getByRole('status').textContent()).toBe('No agent matches.');
      expect(await page.locator('#agent-new').isVisible()).toBe(true);
      await box.fill('');
      expect(await shown()).toHaveLength(7);
      expect(await findViolations(page)).toEqual([]);
      expect(complaints).toEqual([]);
    });
    await withPage(NO_SCRIPT, async (page) => {
      await open(page);
      expect(await page.locator('.choices.many .mono:visible').count()).toBe(7);
      expect(await page.getByRole('searchbox').count()).toBe(0);
    });
  });

  it('leave room between the agent that an app asked for and the choices', async () => {
    const clientId = await mustRegister(desk.place, {});
    await withPage({}, async (page) => {
      await page.goto(`${desk.service.webUrl}/oauth/sign-in`);
      await createAccount(page, 'asked-for');
      const challenge = createVerifier().challenge;
      await page.goto(authorizationUrl(desk.place, { clientId, challenge, agentHandle: '@some.body' }));
      const [asked, choices] = await Promise.all([
        page.getByText('It asked for').boundingBox(),
        page.locator('.choices').boundingBox(),
      ]);
      expect((choices?.y ?? 0) - (asked?.y ?? 0) - (asked?.height ?? 0)).toBeGreaterThanOrEqual(8);
    });
  });

  it('send no forms for a page of another origin', async () => {
    const { server, url } = await openCallback('127.0.0.1');
    server.removeAllListeners('request');
    server.on('request', (_incoming, answer) => {
      answer.setHeader('content-type', 'text/html');
      answer.end(
        `<form method="post" action="${desk.service.webUrl}/oauth/sign-out"><input name="csrf" value="x"><button>Go</button></form>`,
      );
    });
    try {
      await withPage({}, async (page) => {
        await page.goto(`${desk.service.webUrl}/oauth/sign-in`);
        await createAccount(page, 'victim');
        await page.goto(url);
        const [answer] = await Promise.all([page.waitForNavigation(), page.getByRole('button').click()]);
        expect(answer?.status()).toBe(403);
        await page.goto(`${desk.service.webUrl}/oauth/sign-in`);
        expect(await page.locator('h1').innerText()).toBe('You are signed in');
      });
    } finally {
      server.close();
    }
  });
});
