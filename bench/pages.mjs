/**
 * Measures what the dashboard costs a browser: `npm run build && node bench/pages.mjs [messages [arriving]]`. For each page, it
 * prints the bytes that arrive and the largest contentful paint on a CPU slowed down four times; then the longest tasks
 * while someone reads a session of 10,000 messages from its end, and while as many messages arrive in an open page,
 * first at its end and then while someone reads above; and what eight tabs of one browser cost that show this session.
 * Tasks are counted by the CPU time of the page's main thread, because other programs on the machine lengthen their wall time.
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
/** A trace of more messages would fill its buffer. */
const ARRIVING_STEP = 1_000;
const TABS = 8;
const count = Number(process.argv[2] ?? 10_000);
const arriving = Number(process.argv[3] ?? count);
/** Returns text of realistic length, with the markup that people and agents use. */
const textOf = (number) =>
  number % 10 === 0
    ? `Step ${number}:\n\n\`\`\`js\nawait deploy({ step: ${number} });\n\`\`\`\n\n- built\n- **tested**`
    : `Message ${number}: the build of \`main\` is green, and the migration ran in ${number % 60} seconds.`;
const line = (...cells) => console.log(`| ${cells.join(' | ')} |`);
const ms = (value) => `${Math.round(value)} ms`;

/** Runs before any script of a page: records the largest contentful paint. */
function observe() {
  window.paint = 0;
  new PerformanceObserver((list) => {
    for (const { startTime } of list.getEntries()) window.paint = startTime;
  }).observe({ type: 'largest-contentful-paint', buffered: true });
}

/** Runs `work`, and returns the CPU milliseconds of each task of the page's main thread in that time. */
async function recordTasks(browser, page, work) {
  await browser.startTracing(page, { categories: ['-*', 'disabled-by-default-devtools.timeline', '__metadata'] });
  await work();
  const { traceEvents: events } = JSON.parse((await browser.stopTracing()).toString());
  const main = events.filter(({ name, args }) => name === 'thread_name' && args.name === 'CrRendererMain');
  const threads = new Set(main.map(({ pid, tid }) => `${pid}/${tid}`));
  const tasks = events.filter(
    ({ name, ph, pid, tid }) => name === 'RunTask' && ph === 'X' && threads.has(`${pid}/${tid}`),
  );
  if (tasks.length === 0) throw new Error('the trace has no tasks');
  // A task that the trace cut off has no CPU time.
  return tasks.map(({ tdur = 0 }) => tdur / 1_000);
}

const LONG_MS = 50;
/** The longest of some tasks, and how many are long. */
function describeTasks(tasks) {
  const long = tasks.filter((task) => task > LONG_MS).length;
  return `${long === 0 ? 'none' : long} over ${LONG_MS} ms, the longest ${ms(tasks.reduce((longest, task) => Math.max(longest, task), 0))}`;
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
  const keepFiles = (isOn) => devtools.send('Network.setCacheDisabled', { cacheDisabled: !isOn });
  return { page, slowDown, takeBytes, keepFiles };
}

/**
 * Runs in a page: waits until its newest entry has this text. It looks at one entry when the list changes; a search of the
 * whole page again and again would make tasks of its own.
 */
function seeLast(text) {
  const list = document.querySelector('#log .entries');
  const isLast = () => list.lastElementChild.textContent.includes(text);
  if (isLast()) return undefined;
  return new Promise((resolve) => {
    new MutationObserver((_, observer) => {
      if (!isLast()) return;
      observer.disconnect();
      resolve();
    }).observe(list, { childList: true });
  });
}

const settle = () => pause(400);

const toKilobytes = (bytes) => `${(bytes / 1000).toFixed(1)} KB`;

/** Opens a page again and again, each time with an empty cache or each time with a filled one. */
async function measurePaint({ page, slowDown, takeBytes, keepFiles }, address, isCached) {
  const paints = [];
  await keepFiles(isCached);
  if (isCached) await page.goto(address, { waitUntil: 'load' });
  await slowDown(SLOWDOWN);
  for (let round = 0; round < ROUNDS; round += 1) {
    takeBytes();
    await page.goto(address, { waitUntil: 'load' });
    await settle();
    paints.push(await page.evaluate(() => window.paint));
  }
  await slowDown(1);
  return [toKilobytes(takeBytes()), ms(medianOf(paints)), ms(Math.min(...paints))];
}

async function measureLoad(browser, window, addresses) {
  const { page } = window;
  const columns = ['bytes', `largest paint, CPU ${SLOWDOWN} times slower`, 'the fastest'];
  line('page', ...columns, ...columns.map((name) => `${name}, with a filled cache`), 'tasks, at full speed');
  line('---', ...Array.from({ length: 7 }, () => '---'));
  for (const [name, address] of addresses) {
    const first = await measurePaint(window, address, false);
    const again = await measurePaint(window, address, true);
    const tasks = [];
    for (let round = 0; round < ROUNDS; round += 1)
      tasks.push(
        ...(await recordTasks(browser, page, async () => {
          await page.goto(address, { waitUntil: 'load' });
          await settle();
        })),
      );
    line(name, ...first, ...again, describeTasks(tasks));
  }
}

/** Scrolls with the wheel from one end of the page to the other. */
async function scroll(page, step) {
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  for (let turned = 0; turned < height; turned += Math.abs(step)) {
    await page.mouse.wheel(0, step);
    await pause(16);
  }
}

/** Reads from the end: scrolls up a page, then opens the page before it. */
async function measureReading(browser, { page }, address, pages) {
  await page.goto(address);
  await page.mouse.move(600, 500);
  const [scrolling, loading] = [[], []];
  for (let read = 0; read < pages; read += 1) {
    await settle();
    scrolling.push(
      ...(await recordTasks(browser, page, async () => {
        await scroll(page, -300);
        await settle();
      })),
    );
    loading.push(
      ...(await recordTasks(browser, page, async () => {
        await page.getByRole('link', { name: 'Earlier' }).click();
        await page.waitForLoadState('load');
        await settle();
      })),
    );
  }
  line(`reading ${pages} pages of ${count} messages: scrolling`, describeTasks(scrolling));
  line(`reading ${pages} pages of ${count} messages: the next page loads`, describeTasks(loading));
}

async function measureArriving(browser, { page }, address, send) {
  await page.goto(address);
  await settle();
  const tasks = [];
  for (let sent = 0; sent < arriving; sent += ARRIVING_STEP)
    tasks.push(
      ...(await recordTasks(browser, page, async () => {
        await send(ARRIVING_STEP);
        await pause(sent + ARRIVING_STEP < arriving ? 0 : 2_000);
      })),
    );
  const elements = await page.evaluate(() => document.querySelectorAll('#log .entry').length);
  line(`${arriving} messages arrive in an open page`, describeTasks(tasks), `${elements} entries in the page`);
  await page.mouse.move(600, 500);
  const scrolling = await recordTasks(browser, page, async () => {
    await scroll(page, -2_000);
    await settle();
  });
  line('scrolling through them', describeTasks(scrolling));
}

/** Messages arrive in an open page while someone reads above them, moves up and down there, and then goes to the end. */
async function measureReadingAbove(browser, { page }, address, send) {
  await page.goto(address);
  await settle();
  await page.mouse.move(600, 500);
  await page.mouse.wheel(0, -1_500);
  await settle();
  const tasks = [];
  for (let sent = 0; sent < arriving; sent += ARRIVING_STEP)
    tasks.push(
      ...(await recordTasks(browser, page, async () => {
        let isSending = true;
        const reading = (async () => {
          for (let turn = 0; isSending; turn += 1) {
            await page.mouse.wheel(0, turn % 40 < 20 ? -200 : 200);
            await pause(50);
          }
        })();
        await send(ARRIVING_STEP);
        isSending = false;
        await reading;
      })),
    );
  const elements = await page.evaluate(() => document.querySelectorAll('#log .entry').length);
  line(
    `${arriving} messages arrive while someone reads above`,
    describeTasks(tasks),
    `${elements} entries in the page`,
  );
  const onward = await recordTasks(browser, page, async () => {
    await page.evaluate(() => scrollTo(0, document.documentElement.scrollHeight));
    await pause(3_000);
  });
  line('going to the last of these entries, where the page gets more', describeTasks(onward));
}

/** Several pages of one browser open the same session at once, and show what arrives. */
async function measureTabs(browser, { page }, address, send) {
  const tabs = [page];
  while (tabs.length < TABS) tabs.push(await page.context().newPage());
  const began = performance.now();
  await Promise.all(tabs.map((tab) => tab.goto(address, { waitUntil: 'load' })));
  const opened = performance.now() - began;
  await settle();
  let last = 0;
  const tasks = await recordTasks(browser, page, async () => {
    const until = await send(ARRIVING_STEP);
    const sent = performance.now();
    await Promise.all(tabs.map((tab) => tab.evaluate(seeLast, `${until}:`)));
    last = performance.now() - sent;
  });
  line(`${TABS} tabs open the session at once`, ms(opened));
  line(`${ARRIVING_STEP} messages arrive in all of them`, describeTasks(tasks), `the last shows after ${ms(last)}`);
  for (const tab of tabs.slice(1)) await tab.close();
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
    return sent - 1;
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
  await measureLoad(browser, tab, [
    ['agents, the first page', `${origin}/dashboard/agents`],
    ['sessions', `${origin}/dashboard/sessions`],
    ['needs you', `${origin}/dashboard/needs-you`],
    ['a transcript: its last 50 messages', transcript],
  ]);
  await measureTabs(browser, tab, transcript, send);
  await measureReading(browser, tab, transcript, 20);
  await measureArriving(browser, tab, transcript, send);
  await measureReadingAbove(browser, tab, transcript, send);
} finally {
  await browser.close();
  await service.stop();
}
