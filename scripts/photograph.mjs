// Takes screenshots of the dashboard of a private service, in which agents have talked, with Chromium. `npm run
// photograph` takes the two pictures of the README. `npm run screenshots` takes every linked page in both themes and
// three widths, and saves them in screenshots/. CHROMIUM names the browser if it is not /usr/bin/chromium.
import { spawn, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { chromium } from 'playwright-core';

const root = fileURLToPath(new URL('..', import.meta.url));
const program = `${root}bin/asp.js`;
const home = mkdtempSync(join(tmpdir(), 'asp-photograph-'));
mkdirSync(join(home, 'run'), { mode: 0o700 });
const environment = {
  PATH: process.env.PATH,
  HOME: home,
  LANG: 'C.UTF-8',
  ASP_TOKEN_STORE: 'file',
  XDG_RUNTIME_DIR: join(home, 'run'),
};

/** Runs `asp` to its end and returns its output. */
function asp(...words) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...words], {
    cwd: home,
    env: environment,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`asp ${words.join(' ')} ended with ${status}: ${stderr}`);
  return stdout.trim();
}

/** Adds every kind of content, and states that a short conversation does not have. */
function addMore(session) {
  const long = [
    '# Plan',
    '',
    '1. Build with `npm run build`',
    '2. Deploy',
    '',
    '```js',
    'await deploy({ to: "staging" });',
    '```',
    '',
    `A long word: ${'w'.repeat(200)}`,
  ].join('\n');
  const send = (...words) => asp('send', session, ...words, '--as', '@ada.builder');
  send(long);
  send('The numbers.', '--data', '{"region":"eu-west-1","servers":[{"name":"a","load":0.4},{"name":"b","load":0.9}]}');
  const question = ['--field', 'content=Deploy to production?', '--typed', 'metadata={"choices":["yes","no"]}'];
  asp('api', `sessions/${session}/messages`, ...question, '--as', '@ada.builder');
  asp('send', '@ada.builder', 'Done.', '--end', '--as', '@ada.planner', '--topic', 'An ended session');
}

/** Sends messages from another account that need an answer. */
function addStrangers() {
  asp('login', '@bob.helper', '--yes');
  asp('allowlist', 'add', '@bob.*', '--as', '@ada.planner');
  const as = ['--as', '@bob.helper'];
  asp('send', '@ada.planner', 'Can you review the migration before noon?', '--topic', 'Migration 12', ...as);
  const invoice = asp('send', '@ada.planner', 'The invoice for October is ready.', '--topic', 'Invoices', ...as);
  asp('session', 'join', invoice, '--as', '@ada.planner');
  asp('send', invoice, 'Thanks, I have it.', '--as', '@ada.planner');
}

/** Takes the README's pictures: a session, and the list of sessions in the dark theme. */
async function photographTwo(link, session) {
  const page = await signIn(link, { width: 1080, height: 900 }, 'light', 1.5);
  await page.goto(`${new URL(link).origin}/dashboard/sessions/${session}`);
  await page.waitForLoadState('networkidle', { timeout: 3_000 }).catch(() => undefined);
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: `${root}docs/dashboard.png` });
  console.log('docs/dashboard.png');
  const list = await signIn(
    asp('serve', 'open', '--no-browser', '--account', 'ada'),
    { width: 1080, height: 640 },
    'dark',
    1.5,
  );
  await list.goto(`${new URL(link).origin}/dashboard/sessions`);
  await list.waitForLoadState('networkidle', { timeout: 3_000 }).catch(() => undefined);
  await list.screenshot({ path: `${root}docs/sessions.png` });
  console.log('docs/sessions.png');
}

const WIDTHS = [320, 768, 1440];
const THEMES = ['light', 'dark'];

/** Takes one page of each kind that the dashboard links to. */
async function photographAll(link) {
  const folder = join(root, 'screenshots');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const first = await signIn(link, { width: 1440, height: 900 }, 'light', 1);
  asp('serve', 'account', 'operator', 'ada', 'yes');
  const pages = await crawl(first);
  const cookies = await first.context().cookies();
  for (const colorScheme of THEMES)
    for (const width of WIDTHS) {
      const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
      const page = await context.newPage();
      const shoot = (kind, address) =>
        photographWhole(page, address, join(folder, `${kind}-${width}-${colorScheme}.png`));
      await shoot('sign-in', `${new URL(link).origin}/oauth/sign-in`);
      await context.addCookies(cookies);
      for (const [kind, address] of pages) await shoot(kind, address);
      await context.close();
    }
  console.log(`screenshots/: ${pages.size + 1} pages, ${THEMES.length} themes, ${WIDTHS.length} widths`);
}

const LOOK_HEIGHT = 900;
const HEIGHT_MAX = 8_000;

/** Uses a window as tall as the page, so that sticky elements cover nothing. */
async function photographWhole(page, address, path) {
  const { width } = page.viewportSize();
  await page.goto(address);
  await page.waitForLoadState('networkidle', { timeout: 1_000 }).catch(() => undefined);
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  await page.setViewportSize({ width, height: Math.min(Math.max(height, LOOK_HEIGHT), HEIGHT_MAX) });
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path });
  await page.setViewportSize({ width, height: LOOK_HEIGHT });
}

/**
 * Returns the first address of each kind of page. Addresses that differ only in an id, number, or name are the same
 * kind.
 */
async function crawl(page) {
  const { origin } = new URL(page.url());
  const kinds = new Map();
  const waiting = [`${origin}/dashboard/agents`];
  for (let address = waiting.shift(); address !== undefined; address = waiting.shift()) {
    const { pathname, searchParams } = new URL(address);
    if (!pathname.startsWith('/dashboard/')) continue;
    const path = pathname.slice('/dashboard/'.length).replace(/\b[a-z]+_[0-9A-Z]{26}\b|\b\d+\b/g, 'one');
    const kind = [path.replace(/^(agents|operator\/accounts)\/[^/]+/, '$1/one'), ...searchParams.keys()]
      .join('-')
      .replaceAll('/', '-');
    if (path === '' || kinds.has(kind) || pathname.includes('/attachments/') || pathname.includes('/export')) continue;
    const answer = await page.goto(address).catch(() => undefined);
    if (answer === undefined || !answer.headers()['content-type']?.startsWith('text/html')) continue;
    kinds.set(kind, address);
    const links = await page.$$eval('a[href]', (all) => all.map(({ href }) => href.split('#')[0]));
    waiting.push(...links.filter((href) => href.startsWith(`${origin}/dashboard`)));
  }
  return kinds;
}

async function signIn(link, viewport, colorScheme, deviceScaleFactor) {
  const page = await browser.newPage({ viewport, deviceScaleFactor, colorScheme });
  await page.goto(link);
  const button = page.getByRole('button').first();
  if (await button.isVisible().catch(() => false)) await button.click();
  return page;
}

const isAll = process.argv.includes('--all');
const service = spawn(
  process.execPath,
  [program, 'serve', '--seed', 'ada.planner,ada.builder,bob.helper', '--port', '0', '--data', 'memory'],
  { cwd: home, env: environment, stdio: ['ignore', 'pipe', 'inherit'] },
);
let browser;
try {
  await new Promise((resolve) => service.stdout.once('data', resolve));
  for (const handle of ['@ada.planner', '@ada.builder']) asp('login', handle, '--yes');
  const session = asp(
    'send',
    '@ada.builder',
    'Is main green? I would like to deploy.',
    '--as',
    '@ada.planner',
    '--topic',
    'Release 1.4',
  );
  asp('session', 'join', session, '--as', '@ada.builder');
  asp('send', session, 'All tests pass.', '--as', '@ada.builder');
  const report = join(home, 'coverage.csv');
  writeFileSync(report, 'file,lines\nmessaging,98\nstore,97\n');
  asp('send', session, 'The coverage is attached.', '--file', report, '--as', '@ada.builder');
  asp('send', session, 'Thanks. Deploying to staging now.', '--as', '@ada.planner');
  asp('send', '@ada.builder', 'Please rotate the signing keys tonight.', '--as', '@ada.planner', '--topic', 'Keys');
  addStrangers();
  if (isAll) addMore(session);

  const link = asp('serve', 'open', '--no-browser', '--account', 'ada');
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  await (isAll ? photographAll(link) : photographTwo(link, session));
} finally {
  await browser?.close();
  const gone = new Promise((resolve) => service.once('close', resolve));
  service.kill('SIGTERM');
  await gone;
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
}
