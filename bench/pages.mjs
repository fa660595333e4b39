/**
 * Measures what the dashboard costs a browser: `npm run build && node bench/pages.mjs [messages]`. For each page, it
 * prints the bytes that arrive and the largest contentful paint on a CPU slowed down four times; then the longest tasks
 * while someone reads a session of 10,000 messages from its end, and while that many messages arrive in an open page.
 * CHROMIUM names the browser if it is not /usr/bin/chromium. Needs a built program.
 */
import { spawnSync } from 'node:child_process';
import process from 'node:process';
import { setTimeout as pause } from 'node:timers/promises';
import { chromium } from 'playwright-core';

import { OWN_PROGRAM, startService } from './cost/service.mjs';
import { medianOf } from './cpu.mjs';

const SLOWDOWN = 4;
const ROUNDS = 5;
const count = Number(process.argv[2] ?? 10_000);
/** Returns text of realistic length, with the markup that people and agents use. */
const textOf = (number) =>
  number % 10 === 0
    ? `Step ${number}:\n\n\`\`\`js\nawait deploy({ step: ${number} });\n\`\`\`\n\n- built\n- **tested**`
    : `Message ${number}: the build of \`main\` is green, and the migration ran in ${number % 60} seconds.`;
const line = (...cells) => console.log(`| ${cells.join(' | ')} |`);
const ms = (value) => `${Math.round(value)} ms`;

/** Runs before any script of a page: collects what the browser reports. */
function observe() {
  window.seen = { paint: 0, tasks: [] };
  new PerformanceObserver((list) => {
    for (const { startTime } of list.getEntries()) window.seen.paint = startTime;
  }).observe({ type: 'largest-contentful-paint', buffered: true });
  new PerformanceObserver((list) => {
    for (const { duration } of list.getEntries()) window.seen.tasks.push(duration);
  }).observe({ type: 'longtask', buffered: true });
}

async function openPage(browser, link) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  await context.addInitScript(observe);
  const page = await context.newPage();
  await page.goto(link);
  const button = page.getByRole('button').first();
  if (await button.isVisible().catch(() => false)) await button.click();
  await page.waitForURL('**/dashboard/**');
  const devtools = await context.newCDPSession(page);
  const slowDown = (rate) => devtools.send('Emulation.setCPUThrottlingRate', { rate });
  await devtools.send('Network.enable');
  await devtools.send('Network.setCacheDisabled', { cacheDisabled: true });
  let bytes = 0;
  devtools.on('Network.loadingFinished', ({ encodedDataLength }) => (bytes += encodedDataLength));
  const takeBytes = () => {
    const taken = bytes;
    bytes = 0;
    return taken;
  };
  return { page, slowDown, takeBytes };
}

const settle = () => pause(400);

async function measureLoad({ page, slowDown, takeBytes }, addresses) {
  line('page', 'bytes', `largest paint, CPU ${SLOWDOWN} times slower`, 'longest task');
  line('---', '---', '---', '---');
  await slowDown(SLOWDOWN);
  for (const [name, address] of addresses) {
    const [paints, tasks] = [[], []];
    for (let round = 0; round < ROUNDS; round += 1) {
      takeBytes();
      await page.goto(address, { waitUntil: 'load' });
      await settle();
      const seen = await page.evaluate(() => window.seen);
      paints.push(seen.paint);
      tasks.push(Math.max(0, ...seen.tasks));
    }
    line(name, `${(takeBytes() / 1000).toFixed(1)} KB`, ms(medianOf(paints)), ms(medianOf(tasks)));
  }
  await slowDown(1);
}

/** Scrolls with the wheel from one end of the page to the other. */
async function scroll(page, step) {
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  for (let turned = 0; turned < height; turned += Math.abs(step)) {
    await page.mouse.wheel(0, step);
    await pause(16);
  }
}

/** Reads from the end: scrolls up a page, then opens the page before it. Tasks under 50 ms are not reported. */
async function measureReading({ page }, address, pages) {
  await page.goto(address);
  await page.mouse.move(600, 500);
  const [scrolling, loading] = [[], []];
  for (let read = 0; read < pages; read += 1) {
    await settle();
    loading.push(...(await page.evaluate(() => window.seen.tasks.splice(0))));
    await scroll(page, -300);
    await settle();
    scrolling.push(...(await page.evaluate(() => window.seen.tasks.splice(0))));
    await page.getByRole('link', { name: 'Earlier' }).click();
    await page.waitForLoadState('load');
  }
  const longest = (tasks) => (tasks.length === 0 ? 'under 50 ms' : ms(Math.max(...tasks)));
  line(
    `reading ${pages} pages of ${count} messages`,
    `scrolling: ${longest(scrolling)}`,
    `a page loads: ${longest(loading)}`,
  );
}

async function measureArriving({ page }, address, send, arriving) {
  await page.goto(address);
  await settle();
  await page.evaluate(() => window.seen.tasks.splice(0));
  await send(arriving);
  await pause(2_000);
  const { tasks, elements } = await page.evaluate(() => ({
    tasks: window.seen.tasks,
    elements: document.querySelectorAll('#log .entry').length,
  }));
  const over =
    tasks.length === 0 ? 'none over 50 ms' : `${tasks.length} over 50 ms, the longest ${ms(Math.max(...tasks))}`;
  line(`${arriving} messages arrive in an open page`, `tasks: ${over}`, `${elements} entries in the page`);
  await page.evaluate(() => window.seen.tasks.splice(0));
  await page.mouse.move(600, 500);
  await scroll(page, -2_000);
  await settle();
  const scrolling = await page.evaluate(() => window.seen.tasks);
  line('scrolling through them', scrolling.length === 0 ? 'under 50 ms' : ms(Math.max(...scrolling)), '');
}

const service = await startService(['--limits', 'off']);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: ['--no-sandbox', '--disable-gpu'],
});
try {
  const [alice, bob] = [await service.tokensOf('alice.red'), await service.tokensOf('bob.blue')];
  const session = await service.createSession(alice, [bob]);
  let sent = 0;
  const send = async (number) => {
    for (const end = sent + number; sent < end; sent += 1)
      await service.post(`/v1/sessions/${session}/messages`, (sent % 2 === 0 ? alice : bob).api, {
        content: textOf(sent),
      });
  };
  await send(count);
  const opened = spawnSync(process.execPath, [OWN_PROGRAM, 'serve', 'open', '--no-browser', '--account', 'alice'], {
    env: service.env,
    encoding: 'utf8',
  });
  const link = opened.stdout.trim();
  const { origin } = new URL(link);
  const tab = await openPage(browser, link);
  const transcript = `${origin}/dashboard/sessions/${session}`;
  await measureLoad(tab, [
    ['agents, the first page', `${origin}/dashboard/agents`],
    ['sessions', `${origin}/dashboard/sessions`],
    ['needs you', `${origin}/dashboard/needs-you`],
    ['a transcript: its last 50 messages', transcript],
  ]);
  await measureReading(tab, transcript, 20);
  await measureArriving(tab, transcript, send, count);
} finally {
  await browser.close();
  await service.stop();
}
