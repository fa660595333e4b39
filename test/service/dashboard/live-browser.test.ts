import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, BrowserContextOptions, Page, Request } from 'playwright-core';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { type RunningService, startService } from '../../../src/service/service.js';
import { type Actor, actorOf, createActor, operate } from '../../support/actors.js';
import { launchChromium, noChromium } from '../../support/chromium.js';
import { text } from '../../support/json.js';
import { discover, type Place } from '../../support/oauth.js';
import { drawPng } from '../../support/pictures.js';
import { type SocketCutter, startSocketCutter } from '../../support/socket-cutter.js';
import { until } from '../../support/until.js';
import { createFeed } from './event-source.js';

const PATIENCE_MS = 30_000;
/** How often a page asks although it has a stream. */
const POLL_BESIDE_STREAM_MS = 5_000;
const HOSTILE = '<img src=x onerror="document.title=1"><script>document.title = 2</script></li></ol>';

/** Records the page's violations of its content security policy. */
const WATCH = `window.violations = [];
document.addEventListener('securitypolicyviolation', (event) => violations.push(event.effectiveDirective + ' ' + event.blockedURI));`;

describe.skipIf(noChromium !== undefined)(`A transcript in a real browser ${noChromium ?? ''}`, () => {
  let browser: Browser;
  let directory: string;
  /** The fixed address in front of the service, which restarts. */
  let cutter: SocketCutter;
  let service: RunningService;
  let alice: Actor;
  let bob: Actor;
  let session: string;
  beforeAll(async () => {
    browser = await launchChromium();
  });
  afterAll(() => browser?.close());
  beforeEach(async () => {
    directory = mkdtempSync(join(tmpdir(), 'asp-live-'));
    cutter = await startSocketCutter();
    const place = await start();
    const operator = { url: service.operatorUrl, secret: service.operatorSecret };
    [alice, bob] = [await createActor(place, operator, 'alice'), await createActor(place, operator, 'bob')];
    session = await alice.mustCreate({ topic: HOSTILE, invite: [bob.handle] });
    await bob.mustJoin(session);
  });
  afterEach(async () => {
    await service.stop();
    await cutter.stop();
    rmSync(directory, { recursive: true, force: true });
  });

  const start = async (): Promise<Place> => {
    const publicUrl = `http://127.0.0.1:${cutter.port}`;
    service = await startService({ host: '127.0.0.1', port: 0, data: { directory }, areLimitsOn: false, publicUrl });
    cutter.targetPort = service.port;
    return discover(service.baseUrl);
  };

  /** Opens the transcript the way a person does and runs `work`. Closes the browser afterward. */
  const withTranscript = async (options: BrowserContextOptions, work: (page: Page) => Promise<void>): Promise<void> => {
    const context = await browser.newContext(options);
    const page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    await page.addInitScript({ content: WATCH });
    try {
      const link = await operate(
        { url: service.operatorUrl, secret: service.operatorSecret },
        'POST',
        '/sign-in-links',
        { account: alice.owner },
      );
      await page.goto(text(link, 'url'));
      await page.getByRole('link', { name: 'Sessions' }).click();
      await page.locator('.row-link').click();
      await page.locator('#log').waitFor();
      await work(page);
    } finally {
      await context.close();
    }
  };
  const SCROLL_TO_END = 'scrollTo(0, document.documentElement.scrollHeight)';
  const isLastVisible = (page: Page): Promise<boolean> =>
    page.evaluate<boolean>('innerHeight + scrollY >= document.documentElement.scrollHeight - 120');
  const sequencesOn = (page: Page): Promise<number[]> =>
    page
      .locator('[data-sequence]')
      .evaluateAll((entries) => entries.map((entry) => Number(entry.getAttribute('data-sequence'))));
  const untilSaid = (page: Page, said: string): Promise<void> =>
    page.locator('.entry .text', { hasText: said }).last().waitFor();
  const liveOnes = async (pages: readonly Page[]): Promise<number> => {
    const counts = await Promise.all(pages.map((one) => one.locator('#live[data-state="on"]').count()));
    return counts.reduce((sum, count) => sum + count, 0);
  };
  const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

  it('grows on its own while two agents talk, and shows hostile text as text', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      // Only a page that is never reloaded still has this at the end.
      await page.evaluate('window.hasStayed = true');
      for (let turn = 0; turn < 5; turn += 1) {
        await alice.mustSend(session, `alice says ${turn}`);
        await bob.mustSend(session, `bob answers ${turn}`);
      }
      await untilSaid(page, 'bob answers 4');
      await bob.mustSend(session, HOSTILE);
      await bob.mustSend(session, [{ type: 'data', data: { key: HOSTILE } }], { trace: HOSTILE });
      await bob.mustSend(session, 'the last word');
      await untilSaid(page, 'the last word');
      expect(await sequencesOn(page)).toEqual(upTo(15));
      expect(await page.locator('.entry .text', { hasText: 'onerror' }).innerText()).toBe(HOSTILE);
      expect(await page.locator('.entries img, .entries script, h1 img').count()).toBe(0);
      expect(await page.title()).toContain('<img src=x');
      await alice.mustEnd(session);
      await page.locator('.session-title .badge', { hasText: 'Ended' }).waitFor();
      await page.getByText('Ended. If someone reopens the session, this page shows it.').waitFor();
      expect(await page.locator('#live .on').isVisible()).toBe(false);
      expect(await page.evaluate('[window.hasStayed, violations]')).toEqual([true, []]);
      expect(await page.getByRole('log').getAttribute('aria-label')).toBe('Transcript');
    });
  });

  it('highlights new code exactly as on a loaded page', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      for (const code of ['js\nlet a = "b"; // c', 'diff\n-old\n+new', 'cobol\nlet a'])
        await bob.mustSend(session, `\`\`\`${code}\n\`\`\``);
      const shown = (): Promise<string[]> =>
        page.locator('.code code').evaluateAll((codes) => codes.map((one) => one.innerHTML));
      await page.locator('.code').nth(2).waitFor();
      const live = await shown();
      expect(live.join('')).toMatch(/code-keyword.*code-string.*code-comment.*code-removed.*code-added/s);
      await page.reload();
      expect(await shown()).toEqual(live);
      expect(await page.evaluate('violations')).toEqual([]);
    });
  });

  it('answers a new question by keyboard, and every open page removes its buttons', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      const second = await page.context().newPage();
      await second.goto(page.url());
      await second.locator('#live[data-state="on"]').waitFor();
      await page.locator('#text').fill('a draft');
      const ask = { content: 'Deploy?', metadata: { choices: ['yes', HOSTILE.slice(0, 80)] } };
      expect((await bob.post(`/sessions/${session}/messages`, ask)).status).toBe(201);
      const group = page.getByRole('group', { name: /^Answer message \d+ as / });
      await group.waitFor();
      expect(await group.getByRole('button').allInnerTexts()).toEqual(['yes', HOSTILE.slice(0, 80)]);
      await second.getByRole('group', { name: /^Answer message/ }).waitFor();
      await page.locator('.entry.said').last().focus();
      for (let stops = 0; stops < 12; stops += 1) {
        await page.keyboard.press('Tab');
        if (await page.evaluate("document.activeElement.textContent === 'yes'")) break;
      }
      await page.keyboard.press('Enter');
      await untilSaid(page, 'yes');
      expect(await group.count()).toBe(0);
      await untilSaid(second, 'yes');
      expect(await second.getByRole('group', { name: /^Answer message/ }).count()).toBe(0);
      // The draft is neither sent nor lost.
      expect(await page.locator('#text').inputValue()).toBe('a draft');
      expect(await page.evaluate('violations')).toEqual([]);
    });
  });

  it('recovers after a restart of the service: nothing is missing or duplicated', { timeout: 180_000 }, async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      await alice.mustSend(session, 'before');
      await untilSaid(page, 'before');
      await service.stop();
      await page.locator('#live[data-state="off"]').waitFor();
      const again = actorOf(await start(), bob.handle, bob.credentials);
      await again.mustSend(session, 'while it came back');
      await untilSaid(page, 'while it came back');
      await page.locator('#live[data-state="on"]').waitFor();
      await again.mustSend(session, 'after');
      await untilSaid(page, 'after');
      expect(await sequencesOn(page)).toEqual(upTo(5));
      expect(await page.evaluate('violations')).toEqual([]);
    });
  });

  it('says that the sign-in has ended, and stays unchanged', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      const other = await page.context().newPage();
      await other.goto(`${service.webUrl}/dashboard/agents`);
      await other.getByRole('button', { name: /^Account/ }).click();
      await other.getByRole('button', { name: 'Sign out' }).click();
      await other.waitForURL(/sign-in/);
      await page.bringToFront();
      await bob.mustSend(session, 'not for strangers');
      await page.getByRole('status').getByText('Updates stopped because you are signed out.').waitFor();
      expect(await page.getByText('not for strangers').count()).toBe(0);
      await page.getByRole('status').getByRole('link', { name: 'Sign in' }).click();
      await page.waitForURL(/sign-in\?return_to=/);
    });
  });

  it('continues on its own once the same account has signed in again in another tab, with every message and the draft', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      await page.evaluate('window.hasStayed = true');
      const other = await page.context().newPage();
      const signIn = async (actor: Actor): Promise<void> => {
        const operator = { url: service.operatorUrl, secret: service.operatorSecret };
        const link = await operate(operator, 'POST', '/sign-in-links', { account: actor.owner });
        await other.goto(text(link, 'url'));
      };
      const isOut = page.locator('#live[data-state="signed-out"]');
      await page.context().clearCookies();
      await page.locator('#text').fill('a draft');
      await bob.mustSend(session, 'said in the meantime');
      await isOut.waitFor();
      await signIn(bob);
      // The first answer may have been on its way before.
      for (let answers = 0; answers < 2; answers += 1)
        await page.waitForResponse((answer) => answer.url().includes('/live?account') && answer.status() === 401);
      expect([await page.getByText('said in the meantime').count(), await isOut.count()]).toEqual([0, 1]);
      await page.context().clearCookies();
      await signIn(alice);
      await untilSaid(page, 'said in the meantime');
      await page.locator('#live[data-state="on"]').waitFor();
      await bob.mustSend(session, 'said later');
      await untilSaid(page, 'said later');
      expect(await page.locator('#text').inputValue()).toBe('a draft');
      await page.getByRole('button', { name: 'Send' }).click();
      await untilSaid(page, 'a draft');
      expect(await sequencesOn(page)).toEqual(upTo(5));
      expect(await page.evaluate('window.hasStayed')).toBe(true);
    });
  });

  it('says what to do when a message is refused because the sign-in has ended, and keeps its text', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      await page.locator('#text').fill('an unsent thought');
      const { clock } = page.context();
      await clock.install();
      await clock.pauseAt(Date.now() + 10_000);
      await page.context().clearCookies();
      await page.getByRole('button', { name: 'Send' }).click();
      const mistake = page.locator('#text-mistake', { hasText: 'You were signed out.' });
      expect(await mistake.innerText()).toBe('You were signed out. The message was not sent; your text is kept.');
      // It does not wait until the page asks again.
      await page.getByRole('status').getByRole('link', { name: 'Sign in' }).waitFor();
      expect(await page.locator('#text').inputValue()).toBe('an unsent thought');
    });
  });

  it('removes the note that the session has ended when someone opens it again', async () => {
    await withTranscript({}, async (page) => {
      const { pathname } = new URL(page.url());
      await page.goto(`${service.webUrl}${pathname}/end`);
      await page.getByRole('button', { name: 'End session' }).click();
      await page.getByText('The session has ended.').waitFor();
      await bob.mustReopen(session);
      await page.getByRole('button', { name: /^Join/ }).waitFor();
      expect(await page.getByText('The session has ended.').count()).toBe(0);
    });
  });

  it('keeps a draft when the session ends and goes on, and its reply when the page is reloaded', async () => {
    await bob.mustSend(session, 'a question');
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      await page.locator('.entry', { hasText: 'a question' }).focus();
      await page.keyboard.press('r');
      await page.locator('#text').pressSequentially('half an answer');
      const answered = page.locator('#answered .excerpt', { hasText: `Reply to ${bob.handle}` });
      await page.reload();
      await answered.waitFor();
      expect(await page.locator('#text').inputValue()).toBe('half an answer');
      await page.locator('#live[data-state="on"]').waitFor();
      await bob.mustEnd(session);
      await page.getByRole('button', { name: 'Reopen' }).waitFor();
      await bob.mustReopen(session);
      await page.getByRole('button', { name: /^Join/ }).waitFor();
      await alice.mustJoin(session);
      await answered.waitFor();
      expect(await page.locator('#text').inputValue()).toBe('half an answer');
      await page.getByRole('button', { name: 'Send' }).click();
      await page.locator('.entry .text', { hasText: 'half an answer' }).waitFor();
      expect(await page.locator('.entry').last().locator('.re').count()).toBe(1);
    });
  });

  it('connects, and is live: it does not say in between that it polls', async () => {
    await withTranscript({}, async (page) => {
      await page.addInitScript(`addEventListener('DOMContentLoaded', () => {
        const state = document.getElementById('live');
        window.said = [state.dataset.state];
        new MutationObserver(() => window.said.push(state.dataset.state)).observe(state, { attributeFilter: ['data-state'] });
      })`);
      await page.reload();
      await page.locator('#live[data-state="on"]').waitFor();
      expect(new Set(await page.evaluate<string[]>('said'))).toEqual(new Set(['off', 'on']));
    });
  });

  it('polls every few seconds if too many streams are open, and is live when one closes', async () => {
    await withTranscript({}, async (page) => {
      const address = page.url();
      await page.goto(`${service.webUrl}/dashboard/help`);
      const cookie = (await page.context().cookies()).map(({ name, value }) => `${name}=${value}`).join('; ');
      const feeds = await Promise.all(
        Array.from({ length: 8 }, () => createFeed(`${service.webUrl}/dashboard/live`, { cookie })),
      );
      await page.goto(address);
      await page.getByRole('status').getByText('Updates every few seconds').waitFor();
      await bob.mustSend(session, 'without a stream');
      await untilSaid(page, 'without a stream');
      for (const feed of feeds) feed.close();
      await page.locator('#live[data-state="on"]').waitFor();
      expect(await page.getByRole('status').innerText()).toBe('Live');
    });
  });

  it('shares one stream with all pages of its browser, so that a ninth page loads, and each is live', {
    timeout: 240_000,
  }, async () => {
    await withTranscript({}, async (page) => {
      const open = new Set<Request>();
      const context = page.context();
      context.on('request', (request) => request.resourceType() === 'eventsource' && open.add(request));
      context.on('requestfinished', (request) => open.delete(request));
      context.on('requestfailed', (request) => open.delete(request));
      // A closing page ends its stream without an event.
      const streamsOf = (those: readonly Page[]): Request[] =>
        [...open].filter((request) => those.some((one) => !one.isClosed() && request.frame().page() === one));
      const second = await alice.mustCreate({ topic: 'another session', invite: [bob.handle] });
      await bob.mustJoin(second);
      await page.reload();
      const pages = [page];
      const add = async (path: string): Promise<Page> => {
        const other = await context.newPage();
        other.setDefaultTimeout(PATIENCE_MS);
        await other.addInitScript({ content: WATCH });
        await other.goto(`${service.webUrl}/dashboard/${path}`);
        pages.push(other);
        return other;
      };
      for (const id of [session, session, session, second, second]) await add(`sessions/${id}`);
      const [list, agents] = [await add('sessions'), await add('agents')];
      const ninth = await add(`sessions/${session}`);
      expect(await ninth.evaluate('document.hidden')).toBe(false);
      const shown = pages.filter((one) => one !== list && one !== agents);
      await until('all are live', async () => (await liveOnes(shown)) === shown.length);
      await until('one stream is open', async () => streamsOf(pages).length === 1);
      await bob.mustSend(session, 'to all of them');
      await alice.mustSend(second, 'to two of them');
      for (const one of [...pages.slice(0, 4), ninth]) await untilSaid(one, 'to all of them');
      for (const one of pages.slice(4, 6)) await untilSaid(one, 'to two of them');
      await list.getByText('to two of them').waitFor();
      // Messages keep arriving while the page with the stream closes. The other pages miss none and repeat none.
      for (const [turn, one] of pages.slice(0, 4).entries()) {
        const send = async (): Promise<void> => {
          for (let index = 0; index < 5; index += 1) await bob.mustSend(session, `turn ${turn}, message ${index}`);
        };
        await Promise.all([send(), one.close()]);
        await untilSaid(ninth, `turn ${turn}, message 4`);
      }
      expect(await sequencesOn(ninth)).toEqual(upTo(23));
      await until('one stream is open', async () => streamsOf(pages).length === 1);
      expect(await ninth.evaluate('violations')).toEqual([]);
    });
  });

  it('shows at once how far the last message got, in every page', async () => {
    await withTranscript({}, async (page) => {
      const { clock } = page.context();
      await clock.install();
      await page.reload();
      const other = await page.context().newPage();
      await other.goto(`${service.webUrl}/dashboard/sessions/${session}`);
      const pages = [page, other];
      await until('both are live', async () => (await liveOnes(pages)) === 2);
      // From here on, the pages only ask because the stream says so.
      await clock.pauseAt(Date.now() + 10_000);
      let ranMs = 0;
      const untilShown = (receipt: string): Promise<boolean> =>
        until(receipt, async () => {
          ranMs += 20;
          await clock.runFor(20);
          const texts = await Promise.all(pages.map((one) => one.locator('#receipt').innerText()));
          return texts.every((text) => text.endsWith(receipt));
        });
      const { sequence } = await alice.mustSend(session, 'how far?');
      await untilShown(`waiting for ${bob.handle}.`);
      const socket = await bob.mustConnect();
      await untilShown(`delivered to ${bob.handle}.`);
      await bob.post(`/sessions/${session}/taken`, { sequences: [sequence] });
      await untilShown(`taken by ${bob.handle}.`);
      expect(ranMs).toBeLessThan(POLL_BESIDE_STREAM_MS);
      await socket.close();
    });
  });

  it('shows at once who connects and disconnects, in a transcript, in the list of agents and on the page of an agent', async () => {
    await withTranscript({}, async (page) => {
      const { clock } = page.context();
      await clock.install();
      await page.reload();
      const agents = await page.context().newPage();
      await agents.goto(`${service.webUrl}/dashboard/agents`);
      const agent = await page.context().newPage();
      await agent.goto(`${service.webUrl}/dashboard/agents/${alice.handle.split('.')[1]}`);
      await agent.getByRole('checkbox', { name: 'Can start sessions' }).uncheck();
      await until('it is live', async () => (await liveOnes([page])) === 1);
      // From here on, the pages only ask because the stream says so.
      await clock.pauseAt(Date.now() + 10_000);
      let ranMs = 0;
      const untilOnline = (isBob: number, isAlice: number): Promise<boolean> =>
        until(`${isBob} and ${isAlice} online`, async () => {
          ranMs += 20;
          await clock.runFor(20);
          const found = [
            await page.locator('.people .online', { hasText: bob.handle }).count(),
            await agents.locator('.badge', { hasText: 'Online' }).count(),
            await agent.getByRole('heading', { name: 'Online' }).count(),
          ];
          return JSON.stringify(found) === JSON.stringify([isBob, isAlice, isAlice]);
        });
      await untilOnline(0, 0);
      const theirs = await bob.mustConnect();
      await untilOnline(1, 0);
      const own = await alice.mustConnect();
      await untilOnline(1, 1);
      await theirs.close();
      await own.close();
      await untilOnline(0, 0);
      // A change that is not saved stays.
      expect(await agent.getByRole('checkbox', { name: 'Can start sessions' }).isChecked()).toBe(false);
      expect(ranMs).toBeLessThan(POLL_BESIDE_STREAM_MS);
    });
  });

  it('follows twenty sessions of a browser, and the page of another says that it is a little behind', {
    timeout: 240_000,
  }, async () => {
    await withTranscript({}, async (page) => {
      const context = page.context();
      const others: string[] = [];
      for (let count = 0; count < 20; count += 1) others.push(await alice.mustCreate({ invite: [bob.handle] }));
      // The browser has more pages than the service follows; these only say what they want to follow.
      const WANT = `(keys) => {
        const channel = new BroadcastChannel('asp-live');
        const want = () => channel.postMessage({ kind: 'wants', page: 'many', keys });
        channel.onmessage = ({ data }) => data.kind === 'who' && want();
        navigator.locks.request('asp-live many', () => {
          want();
          return new Promise(() => {});
        });
      }`;
      const last = await context.newPage();
      await last.goto(`${service.webUrl}/dashboard/sessions/${others.at(-1)}`);
      await last.locator('#live[data-state="on"]').waitFor();
      const crowd = await context.newPage();
      await crowd.goto(`${service.webUrl}/dashboard/help`);
      await crowd.evaluate(`(${WANT})(${JSON.stringify(others)})`);
      await last.locator('#live[data-state="slow"]').waitFor();
      await alice.mustSend(others.at(-1) as string, 'still shown');
      await untilSaid(last, 'still shown');
      expect(await last.locator('#live').getAttribute('data-state')).toBe('slow');
      await page.locator('#live[data-state="on"]').waitFor();
      await crowd.close();
      // The page that has the stream looks again whenever a page says what it follows.
      await page.reload();
      await last.locator('#live[data-state="on"]').waitFor();
    });
  });

  it.each(['BroadcastChannel', 'locks'])('has its own stream in a browser without %s', {}, async (name) => {
    await withTranscript({}, async (page) => {
      const owner = name === 'locks' ? 'Navigator.prototype' : 'window';
      await page.addInitScript(`Object.defineProperty(${owner}, '${name}', { value: undefined })`);
      const address = page.url();
      // The page that is open now may ask for the same address.
      await page.goto('about:blank');
      const stream = page.waitForRequest((request) => request.url().includes(`/sessions/${session}/live`));
      await page.goto(address);
      expect((await stream).resourceType()).toBe('eventsource');
      await page.locator('#live[data-state="on"]').waitFor();
      await bob.mustSend(session, 'to one alone');
      await untilSaid(page, 'to one alone');
    });
  });

  it('follows the end when a picture arrives, and opens at the very end', async () => {
    await alice.mustSend(session, 'a line\n'.repeat(80));
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      const fromEnd = (): Promise<unknown> =>
        page.evaluate('Math.round(document.documentElement.scrollHeight - innerHeight - scrollY)');
      expect(await fromEnd()).toBe(0);
      const picture = { type: 'image', data_uri: `data:image/png;base64,${drawPng(400, 600).toString('base64')}` };
      await bob.mustSend(session, [picture]);
      await until('the picture is shown', () =>
        page.evaluate<boolean>('[...document.images].some((one) => one.complete && one.height > 200)'),
      );
      await until('the picture is in view', async () => (await fromEnd()) === 0);
      const spare = await page.locator('.bubble:has(.picture)').evaluate((bubble) => {
        const { paddingLeft, paddingRight } = (bubble.ownerDocument.defaultView as Window).getComputedStyle(bubble);
        const width = bubble.querySelector('.picture')?.getBoundingClientRect().width ?? 0;
        return bubble.clientWidth - Number.parseFloat(paddingLeft) - Number.parseFloat(paddingRight) - width;
      });
      expect(Math.abs(spare)).toBeLessThan(1);
      for (let index = 0; index < 5; index += 1) await bob.mustSend(session, `after the picture ${index}`);
      await untilSaid(page, 'after the picture 4');
      await until('the end is in view', async () => (await fromEnd()) === 0);
    });
  });

  it('shows the face and the name of a sender only with the first of its messages in a row', async () => {
    for (const said of ['one', 'two']) await alice.mustSend(session, said);
    await bob.mustSend(session, 'three');
    await withTranscript({}, async (page) => {
      const faces = page.locator('.said .face');
      const visibility = faces.evaluateAll((all) => all.map((one) => getComputedStyle(one).visibility));
      expect(await visibility).toEqual(['visible', 'hidden', 'visible']);
      const widths = page
        .locator('.said .by b')
        .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().width));
      expect((await widths).map((width) => width > 1)).toEqual([true, false, true]);
      const background = (one: Element): string => getComputedStyle(one).backgroundColor;
      const send = await page.getByRole('button', { name: 'Send' }).evaluate(background);
      expect(await faces.first().evaluate(background)).toBe(send);
      expect(await faces.last().evaluate(background)).not.toBe(send);
    });
  });

  it('does not move while it opens, no matter how long the last messages are', async () => {
    for (let index = 0; index < 20; index += 1) await bob.mustSend(session, `${'many words '.repeat(120)}${index}`);
    await withTranscript({}, async (page) => {
      const shifts = `window.shift = 0;
new PerformanceObserver((all) => all.getEntries().forEach(({ value }) => { shift += value; })).observe({ type: 'layout-shift', buffered: true });`;
      await page.addInitScript({ content: shifts });
      for (let turn = 0; turn < 3; turn += 1) {
        await page.goto(page.url().replace(/#.*/, ''));
        await page.locator('#live[data-state="on"]').waitFor();
        await page.evaluate('new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))');
        expect(await page.evaluate('shift')).toBeLessThan(0.02);
      }
    });
  });

  it('shows messages that arrive while the page is busy together, each once and in order', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      await page.evaluate(
        'window.scrolled = 0; const { scrollTo: own } = window; scrollTo = (to) => { scrolled += 1; own(to); }',
      );
      const busy = page.evaluate(
        'new Promise((done) => { const end = Date.now() + 4000; while (Date.now() < end); done(); })',
      );
      const said = Array.from({ length: 80 }, (_, index) => `burst ${index}`);
      for (const one of said) await bob.mustSend(session, one);
      await busy;
      await untilSaid(page, 'burst 79');
      const texts = await page.locator('.entry .text').allTextContents();
      expect(texts.filter((one) => one.startsWith('burst'))).toEqual(said);
      expect(await page.evaluate('scrolled')).toBeLessThan(40);
    });
  });

  it('formats the times of new entries, and not again those of old ones', async () => {
    for (let index = 0; index < 40; index += 1) await alice.mustSend(session, `before ${index}`);
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      await page.evaluate(
        'window.formatted = 0; const { get } = Object.getOwnPropertyDescriptor(Intl.DateTimeFormat.prototype, "format"); ' +
          'Object.defineProperty(Intl.DateTimeFormat.prototype, "format", { get() { formatted += 1; return get.call(this); } })',
      );
      await bob.mustSend(session, 'news');
      await untilSaid(page, 'news');
      expect(await page.evaluate('formatted')).toBeGreaterThan(0);
      expect(await page.evaluate('formatted')).toBeLessThan(20);
    });
  });

  it('tells a reader who has scrolled up how many messages are new, and leads to them', async () => {
    await alice.mustSend(session, 'a line\n'.repeat(200));
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      await page.mouse.wheel(0, -3000);
      await until('the reader is far from the end', () =>
        page.evaluate<boolean>('scrollY < document.documentElement.scrollHeight - innerHeight - 2000'),
      );
      const place = await page.evaluate('scrollY');
      const jump = page.getByRole('link', { name: /new message/ });
      expect(await jump.isVisible()).toBe(false);
      await bob.mustSend(session, 'first news');
      await page.getByRole('link', { name: '1 new message ↓' }).waitFor();
      for (let index = 0; index < 9; index += 1) await bob.mustSend(session, `news ${index}`);
      await page.getByRole('link', { name: '10 new messages ↓' }).click();
      await until('the end is shown', () =>
        page.evaluate<boolean>('innerHeight + scrollY >= document.documentElement.scrollHeight - 1'),
      );
      expect(await page.evaluate('scrollY')).toBeGreaterThan(Number(place) + 2000);
      await jump.waitFor({ state: 'hidden' });
      await bob.mustSend(session, 'the end is followed again');
      await untilSaid(page, 'the end is followed again');
      await until('the end is shown', () =>
        page.evaluate<boolean>('innerHeight + scrollY >= document.documentElement.scrollHeight - 1'),
      );
      expect(await jump.isVisible()).toBe(false);
    });
  });

  it('follows or leaves the end as a reader has scrolled, even if a message comes before the event of the scroll', async () => {
    await alice.mustSend(session, 'a line\n'.repeat(200));
    await withTranscript({}, async (page) => {
      // The browser may take as long as it likes for this event.
      const late =
        'const add = addEventListener; window.addEventListener = (type, ...rest) => add(type === "scroll" ? "late" : type, ...rest)';
      await page.addInitScript({ content: late });
      await page.reload();
      await page.locator('#live[data-state="on"]').waitFor();
      await page.evaluate('scrollTo(0, 0)');
      await bob.mustSend(session, 'not followed');
      await page.getByRole('link', { name: '1 new message ↓' }).waitFor();
      expect(await page.evaluate('scrollY')).toBe(0);
      await page.evaluate(SCROLL_TO_END);
      await bob.mustSend(session, 'followed\n'.repeat(50));
      await untilSaid(page, 'followed\nfollowed');
      await until('it is in view', () => isLastVisible(page));
      await page.evaluate('scrollTo(0, 0)');
      await bob.mustSend(session, 'left behind');
      await page.getByRole('link', { name: '1 new message ↓' }).waitFor();
      expect(await page.evaluate('scrollY')).toBe(0);
    });
  });

  /** Sends numbered messages in order; many are on their way at once. */
  const sendMany = async (from: number, to: number): Promise<void> => {
    for (let next = from; next < to; next += 20)
      await Promise.all(
        Array.from({ length: Math.min(20, to - next) }, (_, index) => bob.mustSend(session, `news ${next + index}`)),
      );
  };

  it.each([
    ['the stream that all pages share', undefined],
    ['a stream of its own', 'delete Navigator.prototype.locks'],
  ])(
    'with %s, keeps what someone reads while thousands of messages arrive, goes on where it stopped, and leads to the end',
    {
      timeout: 300_000,
    },
    async (_what, script) => {
      for (let index = 0; index < 30; index += 1) await alice.mustSend(session, `before ${index}`);
      await withTranscript({}, async (page) => {
        if (script !== undefined) {
          await page.addInitScript({ content: script });
          await page.reload();
        }
        await page.locator('#live[data-state="on"]').waitFor();
        await page.mouse.move(400, 400);
        await page.mouse.wheel(0, -50_000);
        await until('the reader is at the top', () => page.evaluate<boolean>('scrollY === 0'));
        await sendMany(0, 1_300);
        const jump = page.getByRole('link', { name: /^[67]\d\d\+ new messages ↓$/ });
        await jump.waitFor();
        const held = await sequencesOn(page);
        expect(held).toEqual(upTo(held.length));
        expect(held.length).toBeGreaterThan(700);
        expect(held.length).toBeLessThanOrEqual(750);
        expect(await page.evaluate('scrollY')).toBe(0);

        await page.evaluate(SCROLL_TO_END);
        await until('it goes on', async () => ((await sequencesOn(page)).at(-1) ?? 0) > held.length);
        const more = await sequencesOn(page);
        expect(more[0]).toBeGreaterThan(1);
        expect(more).toEqual(upTo(more.at(-1) ?? 0).slice((more[0] ?? 0) - 1));
        // The reader is still where the page stopped, not at later messages.
        expect(await isLastVisible(page)).toBe(false);

        await until(
          'the end is followed',
          async () => {
            await page.evaluate(SCROLL_TO_END);
            return (await sequencesOn(page)).at(-1) === 1_332 && (await isLastVisible(page));
          },
          PATIENCE_MS,
        );
        await bob.mustSend(session, 'followed again');
        await untilSaid(page, 'followed again');
        await until('it is in view', () => isLastVisible(page));
        expect((await sequencesOn(page)).length).toBeLessThanOrEqual(501);

        await page.evaluate('scrollTo(0, 0)');
        await sendMany(1_300, 2_000);
        await page.getByRole('link', { name: /^\d+\+ new messages ↓$/ }).click();
        await untilSaid(page, 'news 1999');
        await until('the end is shown', () => isLastVisible(page));
        await page.locator('#live[data-state="on"]').waitFor();
        expect((await sequencesOn(page)).length).toBeLessThan(100);
      });
    },
  );

  it('reads in order, and so do the list of sessions and Needs you: who, when, what, and what one can do', async () => {
    await bob.mustSend(session, 'Shall we **deploy**?', { choices: ['yes', 'no'] });
    await withTranscript({}, async (page) => {
      /** What a screen reader says, line by line. */
      const read = async (selector: string): Promise<string[]> => {
        const snapshot = await page.locator(selector).ariaSnapshot();
        const known = snapshot
          .replaceAll(session, 'SESSION')
          .replaceAll(alice.handle, '@ALICE')
          .replaceAll(bob.handle, '@BOB')
          .replace(/\d+:\d+:\d+(?: [AP]M)?/g, 'TIME');
        const lines = known.split('\n').map((line) => line.trim().replace(/^- '(.*)':$/, '- $1:'));
        return lines.filter((line) => !/^- (?:\/url|time|text: "#\d)/.test(line)).map((line) => line.slice(2));
      };
      expect((await read('#log .entries')).slice(2)).toEqual([
        'listitem:',
        'article "@ALICE invited @BOB #1 TIME":',
        'paragraph:',
        'text: "@ALICE invited @BOB"',
        'link "#1 TIME":',
        'listitem:',
        'article "@BOB joined #2 TIME":',
        'paragraph:',
        'text: "@BOB joined"',
        'link "#2 TIME":',
        'listitem:',
        'article "@BOB #3 TIME":',
        'paragraph:',
        'text: "@BOB"',
        'link "#3 TIME":',
        'link "Reply to message 3":',
        'link "Details of message 3":',
        'link "Raw text of message 3":',
        'paragraph:',
        'text: Shall we',
        'strong: deploy',
        'text: "?"',
        'group "Answer message 3 as @ALICE":',
        'button "yes"',
        'button "no"',
      ]);
      await page.goto(`${service.webUrl}/dashboard/sessions`);
      expect(await read('.rows')).toEqual([
        'list:',
        'listitem:',
        expect.stringMatching(/^link "<img src=x /),
        'text: "@BOB: Shall we deploy? @BOB yours @ALICE 3 events ·"',
      ]);
      await page.goto(`${service.webUrl}/dashboard/needs-you`);
      expect(await read('#list')).toEqual([
        'list:',
        'listitem:',
        'link "Shall we **deploy**?":',
        'text: "@BOB asks @ALICE,"',
        'button "yes to @BOB as @ALICE"',
        'button "no to @BOB as @ALICE"',
        'button "Dismiss the question from @BOB"',
      ]);
    });
  });

  it('reads what one can do with a message after its text, on a loaded page and when it arrives', async () => {
    await bob.mustSend(session, 'loaded');
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      await bob.mustSend(session, 'arrived');
      await untilSaid(page, 'arrived');
      // The tree that the browser gives to screen readers. The attribute moves links in it, not on the page.
      const client = await page.context().newCDPSession(page);
      const { nodes } = await client.send('Accessibility.getFullAXTree');
      const known = new Map(nodes.map((node) => [node.nodeId, node]));
      const read = (id: string): string[] => {
        const node = known.get(id);
        const own = ['link', 'StaticText'].includes(node?.role?.value) ? [String(node?.name?.value)] : [];
        return [...own, ...(node?.childIds ?? []).flatMap(read)];
      };
      const words = read(nodes[0]?.nodeId ?? '').filter((word) =>
        /^(?:loaded|arrived|(?:Reply|Details|Raw) .* \d+)$/.test(word),
      );
      const acts = (sequence: number) => [
        `Reply to message ${sequence}`,
        `Details of message ${sequence}`,
        `Raw text of message ${sequence}`,
      ];
      expect(words).toEqual(['loaded', ...acts(3), 'arrived', ...acts(4)]);
    });
  });

  it('announces one new message in full, and several in quick succession as a number', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      expect(await page.locator('#log').getAttribute('aria-live')).toBe('off');
      await bob.mustSend(session, 'only this');
      await page.locator('#news', { hasText: `${bob.handle}: only this` }).waitFor({ state: 'attached' });
      for (let count = 0; count < 7; count += 1) await bob.mustSend(session, `one of seven: ${count}`);
      await page.locator('#news', { hasText: '7 new messages' }).waitFor({ state: 'attached' });
      expect(await page.locator('#news').innerText()).not.toContain('one of seven');
    });
  });

  it('announces the words that a message shows, one by one, with its pictures and the answers to choose from', async () => {
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      const heard = (words: string): Promise<void> =>
        page.locator('#news').getByText(words, { exact: true }).waitFor({ state: 'attached' });
      const table = '| a | b |\n|---|---|\n| 1 | 2 |';
      await bob.mustSend(session, `# Plan\n\n- one\n- two\n\n${table}\n\n\`\`\`js\nlet x;\n\`\`\``);
      await heard(`${bob.handle}: Plan one two a b 1 2 js let x;`);
      const picture = `data:image/png;base64,${drawPng(2, 2).toString('base64')}`;
      const folded = { type: 'data', data: { secret: 'x'.repeat(300) } };
      await bob.mustSend(session, [{ type: 'image', data_uri: picture, mime_type: 'image/png', name: 'logo' }, folded]);
      await heard(`${bob.handle}: picture logo Data`);
      await bob.mustSend(session, 'Ready?', { choices: ['go', 'stop'] });
      await heard(`${bob.handle}: Ready? Choices: go, stop`);
    });
  });

  it('is one stop for the Tab key; arrow keys move between messages, and Tab goes to a message’s links', async () => {
    for (let index = 0; index < 30; index += 1) {
      await alice.mustSend(session, `see https://example.org/${index}`);
      await bob.mustSend(session, [{ type: 'data', data: { index } }]);
    }
    await withTranscript({}, async (page) => {
      await page.locator('#live[data-state="on"]').waitFor();
      const focused = (): Promise<string> =>
        page.evaluate('document.activeElement.id || document.activeElement.textContent.trim()');
      const stops: string[] = [];
      await page.locator('#main').focus();
      for (let step = 0; step < 40; step += 1) {
        await page.keyboard.press('Tab');
        if (await page.evaluate('document.activeElement === document.body')) break;
        stops.push(await focused());
      }
      expect(stops).toContain('e62');
      expect(stops.length).toBeLessThanOrEqual(12);
      await page.locator('#e62').focus();
      await page.keyboard.press('ArrowUp');
      await page.keyboard.press('ArrowUp');
      expect(await focused()).toBe('e60');
      await page.keyboard.press('Home');
      expect(await focused()).toBe('e13');
      await page.keyboard.press('Tab');
      expect(await focused()).toBe('t13');
      await page.keyboard.press('ArrowDown');
      await page.keyboard.press('r');
      expect(await focused()).toBe('text');
      await page.getByText(/^Reply to @.*message 14$/).waitFor();
      await page.keyboard.type('by keyboard');
      await page.keyboard.press('Control+Enter');
      await untilSaid(page, 'by keyboard');
      expect(await page.evaluate('violations')).toEqual([]);
    });
  });

  it('shows the text of a message as it was sent in place, copies it exactly, and leads to its details', async () => {
    const said = '**bold** \u202e`code`\r\n  - item <b>\n';
    await bob.mustSend(session, said);
    await withTranscript({ permissions: ['clipboard-read', 'clipboard-write'] }, async (page) => {
      const message = page.locator('#e3');
      await message.locator('strong').waitFor();
      const link = message.getByRole('link', { name: 'Raw text of message 3' });
      await link.focus();
      await page.keyboard.press('Enter');
      await message.locator('.raw').waitFor();
      expect(await message.locator('strong').count()).toBe(0);
      await page.keyboard.press('Tab');
      await page.keyboard.press('Enter');
      await message.getByRole('button', { name: 'Copied' }).waitFor();
      expect(await page.evaluate('navigator.clipboard.readText()')).toBe(said);
      await message.getByRole('button', { name: 'Formatted' }).click();
      await message.locator('strong').waitFor();
      expect(await link.evaluate((one) => one === document.activeElement)).toBe(true);
      expect(page.url()).not.toContain('/events/');
      await message.getByRole('link', { name: 'Details of message 3' }).click();
      await page.getByRole('heading', { name: 'Delivery' }).waitFor();
      expect(await page.evaluate('violations')).toEqual([]);
    });
  });

  it('opens all of a long text and of long data in place, keeps its position, and closes it again', async () => {
    await bob.mustSend(session, [
      { type: 'text', text: `${'word '.repeat(1500)}its last words` },
      { type: 'data', data: { list: Array.from({ length: 600 }, (_, index) => `item ${index}`) } },
    ]);
    await alice.mustSend(session, 'after it');
    await withTranscript({}, async (page) => {
      const message = page.locator('#e3');
      const link = message.getByRole('link', { name: /^Show all \d,\d{3} characters$/ }).first();
      await page.locator('#live[data-state="on"]').waitFor();
      await link.scrollIntoViewIfNeeded();
      const top = (): Promise<number> => message.evaluate((one) => one.getBoundingClientRect().top);
      const before = await top();
      await link.click();
      await message.getByText('its last words').waitFor();
      expect(Math.abs((await top()) - before)).toBeLessThan(2);
      expect(await message.locator('pre').textContent()).toContain('item 599');
      expect(page.url()).not.toContain('/events/');
      await message.getByRole('button', { name: 'Show less' }).click();
      await link.waitFor();
      expect(await link.evaluate((one) => one === document.activeElement)).toBe(true);
      expect(await message.textContent()).not.toContain('its last words');
      expect(await page.evaluate('violations')).toEqual([]);
    });
  });

  it('is complete without a script, which only saves reloading', async () => {
    await alice.mustSend(session, 'hello');
    await withTranscript({ javaScriptEnabled: false, viewport: { width: 390, height: 800 } }, async (page) => {
      expect(await page.locator('.entry .text').allTextContents()).toEqual(['hello']);
      await bob.mustSend(session, 'hello you');
      await page.getByRole('link', { name: 'Reload for new messages' }).click();
      await untilSaid(page, 'hello you');
    });
  });
});
