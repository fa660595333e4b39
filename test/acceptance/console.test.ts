import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import type { Browser, BrowserContext, Page } from 'playwright-core';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { launchChromium, noChromium } from '../support/chromium.js';
import { until } from '../support/until.js';
import { createHome, type Home, jsonLines, type ServiceProcess, startServe } from './program.js';

const OPTIONS = ['--seed', 'ada.planner,ada.builder,bob.helper', '--limits', 'off'];
const PATIENCE_MS = 30_000;
/** The number of consecutive messages from a program and from a person. Long tests send 1,002 messages in total. */
const [SAID_BY_PROGRAM, SAID_BY_PERSON] = process.env['ASP_TEST_LONG'] === '1' ? [300, 50] : [60, 15];

describe.skipIf(noChromium !== undefined)(`A person and a program in one session ${noChromium ?? ''}`, () => {
  let home: Home;
  let service: ServiceProcess;
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;
  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, OPTIONS);
    browser = await launchChromium();
    context = await browser.newContext();
    page = await context.newPage();
    page.setDefaultTimeout(PATIENCE_MS);
    for (const handle of ['@ada.planner', '@ada.builder', '@bob.helper']) await asp('login', handle, '--yes');
    await asp('allowlist', 'add', '@bob.*', '--as', '@ada.planner');
    await page.goto(await asp('serve', 'open', '--no-browser', '--account', 'ada'));
  });
  afterAll(async () => {
    await browser?.close();
    await service?.stop();
    await home?.dispose();
  });

  const asp = async (...words: string[]): Promise<string> => {
    const { status, stdout, stderr } = await home.run(words);
    if (status !== 0) throw new Error(`asp ${words.join(' ')}: ${stderr}`);
    return stdout.trim();
  };
  const pathOf = (session: string): string => `${new URL(service.url).origin}/dashboard/sessions/${session}`;
  const textsOf = async (session: string): Promise<string[]> => {
    const printed = await asp('tail', session, '--as', '@bob.helper', '--no-follow', '--last', '10000');
    return jsonLines<{ type: string; payload: { content?: string } }>(printed)
      .filter(({ type }) => type === 'session.message')
      .map(({ payload }) => payload.content ?? '');
  };
  const focused = (): Promise<string> =>
    page.evaluate('document.activeElement.id || document.activeElement.textContent');
  const tabTo = async (name: RegExp): Promise<void> => {
    for (let step = 0; step < 60; step += 1) {
      if (name.test(await focused())) return;
      await page.keyboard.press('Tab');
    }
    throw new Error(`Tab does not lead to ${String(name)}`);
  };
  const untilSent = (): Promise<boolean> =>
    until('the message is sent', async () => (await page.locator('#text').inputValue()) === '');
  const sayByKeyboard = async (text: string): Promise<void> => {
    await page.keyboard.type(text);
    await page.keyboard.press('Control+Enter');
    await untilSent();
  };

  it('join, write, answer and end with only the keyboard', async () => {
    const session = await asp('send', '@ada.planner', 'Can you help?', '--as', '@bob.helper', '--topic', 'Keys');
    await page.goto(pathOf(session));
    await tabTo(/^Join/);
    await page.keyboard.press('Enter');
    await page.getByRole('status').getByText('Your agent has joined the session.').waitFor();
    await page.locator('#live[data-state="on"]').waitFor();
    await tabTo(/^text$/);
    await sayByKeyboard('Of course.');
    await page.locator('.entry .text', { hasText: 'Of course.' }).waitFor();
    await page.getByRole('link', { name: /^Reply to message 2/ }).focus();
    await page.keyboard.press('Enter');
    expect(await focused()).toBe('text');
    await sayByKeyboard('With what?');
    await page.getByText('In reply to @bob.helper, message 2').waitFor();
    expect(await textsOf(session)).toEqual(['Can you help?', 'Of course.', 'With what?']);
    await page.getByText(/participants, invite/).focus();
    await page.keyboard.press('Enter');
    await tabTo(/^End session…$/);
    await page.keyboard.press('Enter');
    await page.getByRole('heading', { name: 'End this session for everyone?' }).waitFor();
    await tabTo(/^End session$/);
    await page.keyboard.press('Enter');
    await page.getByRole('status').getByText('The session has ended.').waitFor();
  });

  it('keep a draft across a reload, until it is sent', async () => {
    const session = await asp('session', 'create', '@bob.helper', '--as', '@ada.planner');
    await asp('session', 'join', session, '--as', '@bob.helper');
    await page.goto(pathOf(session));
    const text = page.getByRole('textbox', { name: 'Message' });
    await text.fill('half a thought');
    await page.reload();
    expect(await text.inputValue()).toBe('half a thought');
    await page.getByRole('button', { name: 'Send' }).dblclick();
    await page.locator('.entry .text', { hasText: 'half a thought' }).waitFor();
    await page.reload();
    expect(await text.inputValue()).toBe('');
    await page.route('**/dashboard/sessions/*', async (route) => {
      await text.fill('first\nand the next');
      await route.continue();
    });
    await text.fill('first');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.locator('.entry .text', { hasText: /^first$/ }).waitFor();
    await until('the next one stays', async () => (await text.inputValue()) === 'and the next');
    await page.unrouteAll();
    await text.fill('');
    await page.getByLabel('Attach files').setInputFiles({
      name: 'notes.md',
      mimeType: 'text/markdown',
      buffer: Buffer.from('# Notes'),
    });
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByRole('link', { name: /^notes\.md/ }).waitFor();
    await page.getByLabel('Attach files').setInputFiles({
      name: 'run.exe',
      mimeType: 'application/x-msdownload',
      buffer: Buffer.from('MZ'),
    });
    await text.fill('and a program');
    await page.getByRole('button', { name: 'Send' }).click();
    await page.getByText('“run.exe” was not attached. This content type is not supported.').waitFor();
    expect(await text.inputValue()).toBe('and a program');
    expect(await textsOf(session)).toHaveLength(3);
  });

  it('see each message once and in order on both sides, across a lost network and a restart', {
    timeout: 300_000,
  }, async () => {
    const session = await asp('session', 'create', '@bob.helper', '--as', '@ada.planner');
    await asp('session', 'join', session, '--as', '@bob.helper');
    const tail = home.start(['tail', session, '--as', '@bob.helper', '--type', 'message', '--after', '0', '--keep']);
    await page.goto(pathOf(session));
    await page.locator('#live[data-state="on"]').waitFor();
    const text = page.getByRole('textbox', { name: 'Message' });
    const say = async (words: string): Promise<void> => {
      await text.fill(words);
      await text.press('Control+Enter');
      await untilSent();
    };
    const speak = async (from: string): Promise<void> => {
      const input = Array.from({ length: SAID_BY_PROGRAM }, (_, index) => `${from} ${index}\n`).join('');
      await home.run(['send', session, '--lines', '--as', '@bob.helper'], { input });
    };
    const talk = async (round: string): Promise<void> => {
      const program = speak(`program ${round}`);
      for (let index = 0; index < SAID_BY_PERSON; index += 1) await say(`person ${round} ${index}`);
      await program;
    };
    // The page keeps only the latest messages, so the test reads it continuously.
    const shown = new Map<number, string>();
    let isOver = false;
    const watching = (async () => {
      while (!isOver) {
        const entries = await page
          .locator('.entry.said')
          .evaluateAll((all) =>
            all.map((one) => [Number(one.dataset['sequence']), one.querySelector('.text')?.textContent ?? ''] as const),
          );
        const sequences = entries.map(([sequence]) => sequence);
        expect(sequences).toEqual([...new Set(sequences)].sort((one, other) => one - other));
        for (const [sequence, words] of entries) shown.set(sequence, words.trim());
        await pause(100);
      }
    })();
    await talk('first');

    await context.setOffline(true);
    const program = speak('unseen');
    await text.fill('written without a network');
    await text.press('Control+Enter');
    await page.getByText('The service can’t be reached. The message was not sent; your text is kept.').waitFor();
    await program;
    await context.setOffline(false);
    await say('written without a network');

    const { url } = service;
    await service.stop();
    await text.fill('written without a service');
    await text.press('Control+Enter');
    await page.getByText('The service can’t be reached.').waitFor();
    service = await startServe(home, OPTIONS, url);
    await say('written without a service');
    await talk('last');

    const wanted = await textsOf(session);
    expect(wanted.length).toBe(3 * SAID_BY_PROGRAM + 2 * SAID_BY_PERSON + 2);
    await until('the page shows everything', async () => shown.size >= wanted.length);
    isOver = true;
    await watching;
    expect([...shown.values()]).toEqual(wanted);
    await until('the program has everything', async () => tail.stdout().includes(`person last ${SAID_BY_PERSON - 1}`));
    const heard = jsonLines<{ payload: { content: string } }>(tail.stdout()).map(({ payload }) => payload.content);
    expect(heard).toEqual(wanted);
    await page.getByText(/^Message \d+: delivered to @bob\.helper\.$/).waitFor();
    tail.kill();
  });

  it('shows an agent that a limit stopped, and one that fails, until they answer again', {
    timeout: 180_000,
  }, async () => {
    const script = join(home.directory, 'reply.mjs');
    const isBroken = join(home.directory, 'broken');
    writeFileSync(
      script,
      `import { existsSync } from 'node:fs';
       if (existsSync(${JSON.stringify(isBroken)})) process.exit(1);
       console.log('a reply');`,
    );
    const limits = ['--max-replies', '1', '--human', '@ada.planner', '--on-failure', 'skip', '--tries', '1'];
    const run = home.start(['run', '--as', '@ada.builder', '--from', 'anyone', '--exec', `node ${script}`, ...limits]);
    await run.until('stderr', /Answering as/);
    await asp('allowlist', 'add', '@bob.*', '--as', '@ada.builder');
    const session = await asp('session', 'create', '@ada.builder', '--as', '@bob.helper', '--topic', 'A <loop>');
    await page.goto(`${new URL(service.url).origin}/dashboard/needs-you`);
    const row = page.getByRole('listitem').filter({ has: page.getByRole('link', { name: 'A <loop>' }) });
    await until('it joins', async () =>
      (await asp('session', 'show', session, '--as', '@bob.helper')).includes('joined'),
    );
    for (const text of ['one', 'two']) await asp('send', session, text, '--as', '@bob.helper');
    await row.getByText('Stopped', { exact: true }).waitFor();
    expect(await row.textContent()).toMatch(
      /@ada\.builder stopped answering[\s\S]*end the session[\s\S]*raise the limit/,
    );
    // A person continues it, and it answers.
    await asp('session', 'invite', session, '@ada.planner', '--as', '@bob.helper');
    await asp('session', 'join', session, '--as', '@ada.planner');
    await asp('send', session, 'Go on.', '--as', '@ada.planner');
    await row.getByText('Stopped', { exact: true }).waitFor({ state: 'detached' });
    writeFileSync(isBroken, '');
    await asp('send', session, 'Go on again.', '--as', '@ada.planner');
    await row.getByText('Failing', { exact: true }).waitFor();
    await row.getByRole('button', { name: 'Dismiss the report of @ada.builder' }).click();
    await page.getByRole('status').getByText('the next time the agent stops').waitFor();
    expect(await row.count()).toBe(0);
    run.kill('SIGINT');
    await run.ended;
  });
});
