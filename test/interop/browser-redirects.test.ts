import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import type { Browser, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { useService } from '../conformance/service.js';
import { newPerson } from '../support/browser.js';
import { launchChromium, noChromium } from '../support/chromium.js';
import { authorizationUrl, createVerifier, mustRegister } from '../support/oauth.js';
import { until } from '../support/until.js';

const service = useService();

describe.skipIf(noChromium !== undefined)(`Chromium, from the consent page ${noChromium ?? ''}`, () => {
  let browser: Browser;
  let page: Page;
  /** The console messages of the browser. */
  let complaints: string[];
  beforeAll(async () => {
    browser = await launchChromium();
    page = await (await browser.newContext()).newPage();
    page.on('console', (message) => complaints.push(message.text()));
  });
  afterAll(() => browser.close());

  /** Allows an application's request as a person. The first time, creates an account and an agent. */
  async function allow(redirectUri: string): Promise<void> {
    complaints = [];
    await page.goto(await requestFor(redirectUri));
    await approve(page);
  }

  async function requestFor(redirectUri: string): Promise<string> {
    const clientId = await mustRegister(service.place, { redirect_uris: [redirectUri] });
    const { challenge } = createVerifier();
    return authorizationUrl(service.place, { clientId, redirectUri, challenge });
  }

  async function approve(page: Page): Promise<void> {
    if ((await page.getByRole('button', { name: 'Allow', exact: true }).count()) === 0) {
      const { username, password } = newPerson('person');
      const signUp = page.locator('form', { has: page.getByRole('button', { name: 'Create account' }) });
      await signUp.locator('[name=username]').fill(username);
      await signUp.locator('[name=display_name]').fill(username);
      await signUp.locator('[name=password]').fill(password);
      await signUp.getByRole('button', { name: 'Create account' }).click();
      await page.locator('[name=agent_name]').fill('main');
    }
    await page.getByRole('button', { name: 'Allow', exact: true }).click();
  }

  it('brings the code to a program that listens at localhost', async () => {
    let came: string | undefined;
    const server = createServer((request, reply) => {
      came ??= request.url;
      reply.end('done');
    });
    await new Promise<void>((resolve) => server.listen(0, 'localhost', resolve));
    await allow(`http://localhost:${(server.address() as AddressInfo).port}/callback`);
    await until('the browser comes back', async () => came !== undefined);
    expect(came).toMatch(/^\/callback\?code=asp_ac_[\w-]+&state=the-state&iss=/);
    expect(complaints.filter((text) => /content security policy/i.test(text))).toEqual([]);
    await new Promise((resolve) => server.close(resolve));
  });

  it('follows an app that passes the browser on, to another origin and to a scheme', async () => {
    let home: string | undefined;
    const next = createServer((request, reply) => {
      home ??= request.url;
      reply.writeHead(302, { location: 'com.example.home:/signed-in' }).end();
    });
    await new Promise<void>((resolve) => next.listen(0, 'localhost', resolve));
    const callback = createServer((_, reply) => {
      reply.writeHead(302, { location: `http://localhost:${(next.address() as AddressInfo).port}/home` }).end();
    });
    await new Promise<void>((resolve) => callback.listen(0, '127.0.0.1', resolve));
    let handedTo: string | undefined;
    page.on('requestfailed', (request) => {
      if (request.url().startsWith('com.example.home:')) handedTo = request.failure()?.errorText;
    });
    await allow(`http://127.0.0.1:${(callback.address() as AddressInfo).port}/callback`);
    // No app handles this scheme here, so the redirect fails in its own way.
    expect(await until('Chromium goes there or refuses to', async () => handedTo)).toBe('net::ERR_ABORTED');
    expect(home).toBe('/home');
    expect(complaints.filter((text) => /content security policy/i.test(text))).toEqual([]);
    for (const server of [callback, next]) await new Promise((resolve) => server.close(resolve));
  });

  it('lets an app that opened it in a popup hear from its own page there', async () => {
    const app = createServer((request, reply) => {
      reply.setHeader('content-type', 'text/html');
      if (request.url?.startsWith('/callback') !== true) return reply.end('<title>waiting</title>');
      return reply.end('<script>opener.postMessage(location.search, location.origin)</script>');
    });
    await new Promise<void>((resolve) => app.listen(0, '127.0.0.1', resolve));
    const origin = `http://127.0.0.1:${(app.address() as AddressInfo).port}`;
    const request = await requestFor(`${origin}/callback`);
    const opener = await page.context().newPage();
    await opener.goto(origin);
    const [popup] = await Promise.all([
      opener.waitForEvent('popup'),
      opener.evaluate((url) => {
        addEventListener('message', ({ data }) => {
          document.title = String(data);
        });
        open(url, 'sign-in', 'popup');
      }, request),
    ]);
    await popup.waitForLoadState();
    await approve(popup);
    const answer = await until('its own page answers', async () => {
      const title = await opener.title();
      return title !== 'waiting' && title;
    });
    expect(answer).toMatch(/^\?code=asp_ac_/);
    await new Promise((resolve) => app.close(resolve));
  });

  it('hands the code to an app by its scheme, and its policy allows that', async () => {
    let failure: string | undefined;
    page.on('requestfailed', (request) => {
      if (request.url().startsWith('com.example.app:')) failure = `${request.url()} ${request.failure()?.errorText}`;
    });
    await allow('com.example.app:/callback');
    // No app handles this scheme here, so the redirect fails in its own way.
    expect(await until('Chromium goes there or refuses to', async () => failure)).toMatch(
      /^com\.example\.app:\/callback\?code=asp_ac_.* net::ERR_ABORTED$/,
    );
    expect(complaints.filter((text) => /content security policy/i.test(text))).toEqual([]);
  });
});
