// Takes docs/dashboard.png: a real conversation at a private service, seen in the dashboard with Chromium.
// Usage: npm run photograph. CHROMIUM names the browser when it is not /usr/bin/chromium.
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

/** Runs `asp` to its end; resolves to what it printed. */
function asp(...words) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...words], {
    cwd: home,
    env: environment,
    encoding: 'utf8',
  });
  if (status !== 0) throw new Error(`asp ${words.join(' ')} ended with ${status}: ${stderr}`);
  return stdout.trim();
}

const service = spawn(
  process.execPath,
  [program, 'serve', '--seed', 'ada.planner,ada.builder', '--port', '0', '--data', 'memory'],
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

  const link = asp('serve', 'open', '--no-browser');
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  const page = await browser.newPage({
    viewport: { width: 1080, height: 900 },
    deviceScaleFactor: 1.5,
    colorScheme: 'light',
  });
  await page.goto(link);
  const button = page.getByRole('button').first();
  if (await button.isVisible().catch(() => false)) await button.click();
  await page.goto(`${new URL(link).origin}/dashboard/sessions/${session}`);
  await page.waitForLoadState('networkidle', { timeout: 3_000 }).catch(() => undefined);
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: `${root}docs/dashboard.png` });
  console.log(`docs/dashboard.png: ${page.url().replace(/sess_\w+/, 'sess_…')}`);
} finally {
  await browser?.close();
  const gone = new Promise((resolve) => service.once('close', resolve));
  service.kill('SIGTERM');
  await gone;
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
}
