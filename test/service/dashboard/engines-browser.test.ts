import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { systemClock } from '../../../src/kit/clock.js';
import { type Actor, callApi, createActor } from '../../support/actors.js';
import { text } from '../../support/json.js';
import { authorizationUrl, createVerifier, mustRegister, redeemCode } from '../../support/oauth.js';
import { OTHER_ENGINES, type OtherBrowser } from '../../support/other-browsers.js';
import { until } from '../../support/until.js';
import { openStage, type Stage } from './stage.js';

const PATIENCE_MS = 20_000;

const STEP_PX = 200;
/** Scrolls up a little, and measures how far an entry has moved once the browser has laid out what came into view. */
const SCROLL_UP = `(() => {
  const one = [...document.querySelectorAll('.entry')].find((entry) => entry.getBoundingClientRect().top > 100);
  const before = one.getBoundingClientRect().top;
  window.moved = false;
  scrollBy({ top: -${STEP_PX}, behavior: 'instant' });
  requestAnimationFrame(() => requestAnimationFrame(() => (window.moved = one.getBoundingClientRect().top - before)));
  return null;
})()`;

describe.each(OTHER_ENGINES)('$name', ({ missing, launch }) => {
  describe.skipIf(missing !== undefined)(`the pages in a browser that is not Chromium ${missing ?? ''}`, () => {
    let stage: Stage;
    let bob: Actor;
    let browser: OtherBrowser;
    /** A program that waits for its code, as `asp login` does. */
    let listener: Server;
    let came: URL | undefined;
    let session: string;

    beforeAll(async () => {
      stage = await openStage({ clock: systemClock });
      bob = await createActor(stage.desk.place, stage.operator, 'bob');
      listener = createServer((request, reply) => {
        if (request.url?.startsWith('/callback') === true) came = new URL(request.url, 'http://127.0.0.1');
        reply.setHeader('content-type', 'text/html').end('<!doctype html><title>Back</title>');
      });
      await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
      browser = await launch();
    });
    afterAll(async () => {
      await browser?.close();
      listener?.close();
      await stage?.close();
    });

    const shows = (expression: string): Promise<unknown> =>
      until(expression, () => browser.evaluate<boolean>(`Boolean(${expression})`).catch(() => false), PATIENCE_MS);
    const says = (said: string): Promise<unknown> =>
      shows(`[...document.querySelectorAll('.entry .text')].some((one) => one.textContent === '${said}')`);

    it('a person signs up, creates an agent, and allows a program, which gets its code', async () => {
      const { place } = stage.desk;
      const redirectUri = `http://127.0.0.1:${(listener.address() as AddressInfo).port}/callback`;
      const clientId = await mustRegister(place, { redirect_uris: [redirectUri] });
      const { verifier, challenge } = createVerifier();
      await browser.open(authorizationUrl(place, { clientId, redirectUri, challenge }));
      await browser.type('#new-username', 'wanda');
      await browser.type('#new-display-name', 'Wanda');
      await browser.type('#new-password', 'correct horse battery');
      await browser.press('form[action="/oauth/sign-up"] .primary');
      await shows("document.querySelector('#agent-name')");
      await browser.type('#agent-name', 'main');
      await browser.press('[value="allow"]');
      const { searchParams } = await until('the code', async () => came, PATIENCE_MS);
      await shows("document.title === 'Back'");
      const { json } = await redeemCode(place, clientId, searchParams.get('code') ?? '', verifier, {
        redirect_uri: redirectUri,
      });
      const made = await callApi(place.baseUrl, text(json, 'access_token'), 'POST', '/sessions', {
        topic: 'Release',
        invite: [bob.handle],
      });
      session = text(made.json, 'session_id');
      await bob.mustJoin(session);
    });

    it('a message appears while the person reads, and they answer it', async () => {
      await browser.open(`${stage.web}/dashboard/sessions/${session}`);
      await shows("document.querySelector('#live[data-state=on]')");
      await bob.mustSend(session, 'Are you there?');
      await says('Are you there?');
      await browser.type('#text', 'Yes.');
      await browser.press('#send');
      await says('Yes.');
      expect(await browser.evaluate("document.querySelector('#text').value")).toBe('');
    });

    it('no group of choices has space below it', async () => {
      await browser.open(`${stage.web}/dashboard/settings`);
      const below = await browser.evaluate<number[]>(
        "[...document.querySelectorAll('fieldset')].map((group) => Math.round(group.getBoundingClientRect().bottom - group.lastElementChild.getBoundingClientRect().bottom))",
      );
      expect(new Set(below)).toEqual(new Set([0]));
    });

    it('no form has space below its last row', async () => {
      await browser.open(`${stage.web}/dashboard/settings`);
      const below = await browser.evaluate<number[]>(
        "[...document.querySelectorAll('form.card')].map((form) => Math.round(form.getBoundingClientRect().bottom - form.lastElementChild.getBoundingClientRect().bottom - parseFloat(getComputedStyle(form).paddingBottom)))",
      );
      expect(below.length).toBeGreaterThan(1);
      // The border of the card.
      expect(Math.max(...below)).toBeLessThanOrEqual(1);
    });

    it('the text stays in its place while the person scrolls up', async () => {
      for (let number = 1; number <= 45; number += 1)
        await bob.mustSend(session, `${number} ${'words that fill several lines '.repeat((number % 5) * 8)}`);
      await browser.open(`${stage.web}/dashboard/sessions/${session}`);
      await shows('innerHeight + scrollY >= document.documentElement.scrollHeight - 2');
      for (let step = 0; step < 12; step += 1) {
        await browser.evaluate(SCROLL_UP);
        const moved = await until('the page is painted', () => browser.evaluate<number | false>('window.moved'));
        expect(Math.abs(moved - STEP_PX)).toBeLessThan(2);
      }
    });

    it('the browser complained about nothing, and would have', async () => {
      expect(await browser.complaints()).toEqual([]);
      await browser.evaluate(
        "document.body.append(Object.assign(document.createElement('style'), { textContent: 'p {}' }))",
      );
      await until('a violation is reported', async () => (await browser.complaints()).length === 1);
      await browser.evaluate("setTimeout(() => { throw new Error('on purpose'); }) > 0");
      await until('an error is reported', async () => (await browser.complaints()).length === 2);
    });
  });
});
