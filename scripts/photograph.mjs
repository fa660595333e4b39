// Takes screenshots of the dashboard of a private service, in which agents have talked, with Chromium. `npm run
// photograph` takes the two pictures of the README. `npm run screenshots` takes every linked page, and the states that
// only a form or a new account shows, in both themes and three widths, and saves them in screenshots/;
// `npm run screenshots -- 320 dark` takes only those. CHROMIUM names the browser if it is not /usr/bin/chromium.
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

/** Adds sessions with many members, with many messages, and with a message that has a picture. */
function addSessions(drawing) {
  const as = ['--as', '@ada.planner'];
  const workers = MANY.map((name) => `@${name}`).join(',');
  const standup = asp('send', workers, 'What did you finish yesterday?', '--topic', 'Standup', ...as);
  for (const name of ['max.worker-1', 'max.worker-2']) {
    asp('login', `@${name}`, '--yes');
    asp('session', 'join', standup, '--as', `@${name}`);
    asp('send', standup, 'The parser. It reads **all** of the old files.', '--as', `@${name}`);
  }
  const lines = Array.from({ length: 55 }, (_, index) => `Step ${index + 1} of 55 is done.`).join('\n');
  const migration = asp('send', '@bob.helper', 'I will report each step.', '--topic', 'Nightly import', ...as);
  asp('session', 'join', migration, '--as', '@bob.helper');
  const sent = spawnSync(process.execPath, [program, 'send', migration, '--lines', '--as', '@bob.helper'], {
    cwd: home,
    env: environment,
    input: lines,
  });
  if (sent.status !== 0) throw new Error(String(sent.stderr));
  const design = asp('send', '@bob.helper', 'This is the new mark.', '--file', drawing, '--topic', 'Logo', ...as);
  asp('session', 'join', design, '--as', '@bob.helper');
  asp('send', design, 'I like it. Can you try it in blue?', '--as', '@bob.helper');
  return { many: standup, long: migration, picture: design };
}

/** Draws a picture, for an agent and for a message. */
async function draw(path) {
  const page = await browser.newPage({ viewport: { width: 512, height: 320 } });
  await page.setContent(
    '<body style="margin:0;display:grid;place-items:center;height:100vh;background:linear-gradient(135deg,#0b6e4f,#b5e2c4);font:700 120px sans-serif;color:#fff">plan',
  );
  await page.screenshot({ path });
  await page.close();
}

/** Gives an agent a profile with a picture, pauses another, and adds credentials and a name for the account. */
async function prepareAgents(page, drawing) {
  const agent = `${new URL(page.url()).origin}/dashboard/agents/planner`;
  await page.goto(`${agent}/profile`);
  await page.getByLabel('Description').fill('Plans releases, and tells everyone what is next.');
  await page
    .locator('#card-body')
    .fill('Send me the name of a **branch**.\n\n- I answer within a minute.\n- I never deploy.');
  await page.locator('#skill-1').fill('Release plans');
  await page.locator('#skill-1-about').fill('Writes the steps of a release, with an owner for each.');
  await page.locator('#skill-2').fill('Release notes');
  await press(page, 'Save profile');
  await page.goto(`${agent}/profile`);
  await page.locator('#skill-3').fill('Calendar');
  await press(page, 'Save profile');
  await page.goto(`${agent}/profile`);
  await page.locator('#picture').setInputFiles(drawing);
  await press(page, 'Upload picture');
  await page.goto(`${agent.replace('planner', 'reviewer')}`);
  await press(page, 'Pause');
  await page.goto(`${agent.replace('planner', 'reviewer')}/webhook`);
  // Nothing answers there.
  await page.getByLabel('URL').fill('http://127.0.0.1:9/asp');
  await press(page, 'Set webhook');
}

/** Gives the operator something to look at: a suspended and a trusted account, invitations, and a changed key. */
function prepareService() {
  asp('serve', 'account', 'suspend', 'sam');
  asp('serve', 'account', 'tier', 'nia', 'trusted');
  asp('serve', 'invite', 'create');
  asp('serve', 'backup', join(home, 'backup'));
}

/** Lets an agent remember the strangers that it refuses, and blocks one. */
async function prepareTrust(page) {
  asp('block', 'add', '@bob.pest', '--as', '@ada.builder');
  await page.goto(`${new URL(page.url()).origin}/dashboard/agents/builder`);
  await page.locator('#inbound_policy-hold').check();
  await press(page, 'Save');
}

/** Adds what is on Needs you only after something happened to an agent, and until someone dismisses it. */
function addIncidents(session, stopped) {
  for (const [id, sender, agent, reason] of [
    [session, '@ada.planner', '@ada.builder', 'max_replies'],
    [stopped, '@bob.helper', '@ada.planner', 'loop_guard'],
  ]) {
    const ping = ['--field', 'content=Ping?', '--as', sender];
    const { sequence } = JSON.parse(asp('api', `sessions/${id}/messages`, ...ping));
    const report = ['--typed', `sequence=${sequence}`, '--field', `reason=${reason}`, '--as', agent];
    asp('api', `sessions/${id}/unanswered`, ...report);
  }
  const knock = ['send', '@ada.builder', 'Hello, may I ask something?', '--as', '@bob.helper'];
  spawnSync(process.execPath, [program, ...knock], { cwd: home, env: environment });
}

/** Takes the README's pictures: a session, and the list of sessions in the dark theme. */
async function photographTwo(link, session) {
  const page = await signIn(link, { width: 1080, height: 900 }, 'light', 1.5);
  await page.goto(`${new URL(link).origin}/dashboard/sessions/${session}`);
  await page.waitForLoadState('networkidle', { timeout: 3_000 }).catch(() => undefined);
  await page.evaluate(() => scrollTo(0, 0));
  await page.screenshot({ path: `${root}docs/dashboard.png` });
  console.log('docs/dashboard.png');
  const list = await signIn(openLinkOf('ada'), { width: 1080, height: 640 }, 'dark', 1.5);
  await list.goto(`${new URL(link).origin}/dashboard/sessions`);
  await list.waitForLoadState('networkidle', { timeout: 3_000 }).catch(() => undefined);
  await list.screenshot({ path: `${root}docs/sessions.png` });
  console.log('docs/sessions.png');
}

/** Those that the command line names, or all. */
const choose = (all) => {
  const named = all.filter((one) => process.argv.includes(String(one)));
  return named.length > 0 ? named : all;
};
const WIDTHS = choose([320, 768, 1440]);
const THEMES = choose(['light', 'dark']);

/** Takes one page of each kind that the dashboard links to, and the states that no link leads to. */
async function photographAll(link, session) {
  const folder = join(root, 'screenshots');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder);
  const { origin } = new URL(link);
  const first = await signIn(link, { width: 1440, height: 900 }, 'light', 1);
  const drawing = join(home, 'plan.png');
  await draw(drawing);
  const sessions = addSessions(drawing);
  asp('serve', 'account', 'operator', 'ada', 'yes');
  await prepareTrust(first);
  await prepareAgents(first, drawing);
  const newcomer = await signUp(origin);
  prepareService();
  const pages = await crawl(first, session);
  const ada = await first.context().cookies();
  const many = await signIn(openLinkOf('max'), { width: 1440, height: 900 }, 'light', 1);
  const max = await many.context().cookies();
  const clientId = await register(origin);
  const shared = await shareSession(first, session);
  let count = 0;
  for (const colorScheme of THEMES)
    for (const width of WIDTHS) {
      const visit = async (cookies, work) => {
        const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
        await context.addCookies(cookies);
        await work(await context.newPage());
        await context.close();
      };
      const pathOf = (kind) => join(folder, `${kind}-${width}-${colorScheme}.png`);
      const shootAll = (kinds) => async (page) => {
        for (const [kind, address, act] of kinds) {
          await page.goto(address.startsWith('/') ? origin + address : address);
          await act?.(page);
          await photographShown(page, pathOf(kind));
          count += 1;
        }
      };
      await visit(
        [],
        shootAll([...strangerStates(clientId), ['shared-session', shared], ['shared-session-gone', `${shared}x`]]),
      );
      addIncidents(session, sessions.picture);
      await visit(ada, shootAll([...pages, ...ownerStates(clientId), ...sessionStates(sessions), ...operatorStates]));
      await visit(newcomer, shootAll(newcomerStates(clientId)));
      await visit(max, shootAll([['consent-many', authorizePath(clientId)]]));
    }
  console.log(
    `screenshots/: ${count / THEMES.length / WIDTHS.length} pages, ${THEMES.length} themes, ${WIDTHS.length} widths`,
  );
}

const openLinkOf = (account) => asp('serve', 'open', '--no-browser', '--account', account);

/** Creates an account on the sign-in page, and returns its cookies. */
async function signUp(origin) {
  const context = await browser.newContext();
  const page = await context.newPage();
  await page.goto(`${origin}/oauth/sign-in`);
  await page.locator('#new-username').fill('nia');
  await page.getByLabel('Your name').fill('Nia');
  await page.locator('#new-password').fill('correct horse battery');
  await page.getByRole('button', { name: 'Create account' }).click();
  await page.waitForLoadState();
  return context.cookies();
}

/** Makes a link to a session, and returns its address. */
async function shareSession(page, session) {
  await page.goto(`${new URL(page.url()).origin}/dashboard/sessions/${session}/links`);
  await press(page, 'Create link');
  return page.locator('.secret code').innerText();
}

const CALLBACK = 'http://127.0.0.1/callback';

/** Registers an application, so that its consent page can be opened. */
async function register(origin) {
  const about = await (await fetch(`${origin}/.well-known/oauth-authorization-server`)).json();
  const answer = await fetch(about.registration_endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      client_name: 'asp on build-7',
      redirect_uris: [CALLBACK],
      token_endpoint_auth_method: 'none',
      grant_types: ['authorization_code', 'refresh_token'],
      response_types: ['code'],
    }),
  });
  const { client_id: id } = await answer.json();
  return id;
}

function authorizePath(clientId, more = {}) {
  const scope = 'agents:read agents:write sessions:read sessions:write allowlist:read allowlist:write events:subscribe';
  const parameters = {
    response_type: 'code',
    client_id: clientId,
    redirect_uri: CALLBACK,
    code_challenge: 'a'.repeat(43),
    code_challenge_method: 'S256',
    scope,
    ...more,
  };
  return `/oauth/authorize?${new URLSearchParams(parameters)}`;
}

/** Presses a button and waits for the page that answers. */
const press = async (page, name) => {
  await page.getByRole('button', { name }).first().click();
  await page.waitForLoadState();
};

/** A page is its name, its address, and what to do there before the picture. */
const strangerStates = (clientId) => [
  ['sign-in', '/oauth/sign-in'],
  [
    'sign-in-refused',
    '/oauth/sign-in',
    async (page) => {
      await page.locator('summary').first().click();
      await page.locator('#username').fill('nobody');
      await page.locator('#password').fill('not the password');
      await press(page, 'Sign in');
    },
  ],
  [
    'sign-up-refused',
    '/oauth/sign-in',
    async (page) => {
      const fold = page.locator('summary', { hasText: 'Create an account' });
      if (await fold.isVisible()) await fold.click();
      await page.locator('#new-username').fill('Not A Name');
      await page.getByLabel('Your name').fill('Some Body');
      await page.locator('#new-password').fill('correct horse battery');
      await press(page, 'Create account');
    },
  ],
  ['sign-in-for-app', authorizePath(clientId)],
  ['consent-unknown-app', authorizePath('unknown')],
  ['public-agent', '/agents/@ada.planner'],
  ['public-agent-missing', '/agents/@ada.nobody'],
];

const newcomerStates = (clientId) => [
  ...['needs-you', 'agents', 'sessions', 'clients', 'new-client', 'applications', 'settings'].map((name) => [
    `empty-${name}`,
    `/dashboard/${name}`,
  ]),
  ['empty-search', '/dashboard/search?q=nothing'],
  ['consent-no-agent', authorizePath(clientId)],
];

const ownerStates = (clientId) => [
  ['consent', authorizePath(clientId)],
  ['consent-missing-agent', authorizePath(clientId, { agent_handle: '@bob.helper' })],
  ['consent-asked-agent', authorizePath(clientId, { agent_handle: '@ada.builder' })],
  [
    'consent-refused',
    authorizePath(clientId),
    async (page) => {
      await page.locator('#agent-new').check();
      await page.getByLabel('Handle', { exact: true }).fill('Not A Handle');
      await press(page, 'Allow');
    },
  ],
  ['none', '/dashboard/none'],
  ['account-menu', '/dashboard/agents', (page) => page.getByRole('button', { name: /^Account/ }).click()],
  ['search-found', '/dashboard/search?q=deploy'],
  ['go', '/dashboard/go?q=plan'],
  ['palette', '/dashboard/agents', (page) => page.keyboard.press('Control+k')],
  ['search-none', '/dashboard/search?q=xylophone'],
  ['sessions-none', '/dashboard/sessions?with=@bob.nobody'],
  [
    'new-agent-refused',
    '/dashboard/new-agent',
    async (page) => {
      await page.locator('#name').fill('No Name');
      await page.locator('#display-name').fill(' ');
      await press(page, 'Create agent');
    },
  ],
  [
    'profile-refused',
    '/dashboard/agents/planner/profile',
    async (page) => {
      await page.locator('#skill-5-about').fill('Plans a week');
      await press(page, 'Save profile');
    },
  ],
  [
    'profile-preview',
    '/dashboard/agents/planner/profile',
    async (page) => {
      await page.locator('#card-body').fill('Plans **releases**.\n\n```js\nawait plan("1.5");\n```');
      await page.locator('#skill-1').fill('Release notes');
      await press(page, 'Preview');
    },
  ],
  [
    'client-secret',
    '/dashboard/new-client?agent=planner',
    async (page) => {
      await page.locator('#name').fill('Nightly build');
      await press(page, 'Create API credential');
    },
  ],
  ['client-one', '/dashboard/clients', (page) => page.locator('.row-link').first().click()],
  ['clients-some', '/dashboard/clients'],
  ['knocks-some', '/dashboard/agents/builder/knocks'],
  ['blocks-some', '/dashboard/agents/builder/blocks'],
  [
    'needs-you-undo',
    '/dashboard/needs-you',
    async (page) => {
      await press(page, /^Dismiss/);
    },
  ],
  [
    'needs-you-undone',
    '/dashboard/needs-you',
    async (page) => {
      await press(page, /^Dismiss/);
      await press(page, /^Undo/);
    },
  ],
];

/** Opens a fold. */
const unfold = (selector) => (page) => page.locator(`${selector} > summary`).first().click();

const sessionStates = ({ many, long, picture }) => [
  ['session-many', `/dashboard/sessions/${many}`, unfold('#manage')],
  ['session-long', `/dashboard/sessions/${long}`],
  ['session-long-unfolded', `/dashboard/sessions/${long}?before=40`, unfold('.jump-to')],
  ['session-picture', `/dashboard/sessions/${picture}`],
  [
    'session-invite-refused',
    `/dashboard/sessions/${picture}`,
    async (page) => {
      await unfold('#manage')(page);
      await page.locator('#handles').fill('@bob.helper not-a-handle');
      await press(page, 'Invite');
    },
  ],
  [
    'session-unsent',
    `/dashboard/sessions/${picture}`,
    async (page) => {
      await page.getByRole('button', { name: 'Send' }).click();
      await page.locator('#text-mistake').waitFor();
    },
  ],
  ['session-ended', '/dashboard/sessions?state=ended', (page) => page.locator('.row-link').first().click()],
  ['session-invited', '/dashboard/sessions?state=invited', (page) => page.locator('.row-link').first().click()],
  [
    'sessions-filter-refused',
    '/dashboard/sessions',
    async (page) => {
      await unfold('.filter')(page);
      await page.locator('#with').fill('No Handle');
      await press(page, 'Show');
    },
  ],
  [
    'webhook-refused',
    '/dashboard/agents/builder/webhook',
    async (page) => {
      await page.getByLabel('URL').fill('https://user@example.org/asp');
      await press(page, 'Set webhook');
    },
  ],
  ['webhook-secret', '/dashboard/agents/reviewer/webhook/secret', (page) => press(page, 'Create new secret')],
  ['webhook-waiting', '/dashboard/agents/reviewer/webhook'],
  ['search-many', '/dashboard/search?q=step'],
  [
    'profile-order',
    '/dashboard/agents/planner/profile',
    async (page) => {
      await unfold('.quiet')(page);
      await press(page, /^Move down/);
    },
  ],
  ['public-agent-shared', '/agents/@ada.planner'],
  [
    'allowlist-refused',
    '/dashboard/agents/planner/allowlist',
    async (page) => {
      await page.locator('#entry').fill('@bob.helper nobody');
      await press(page, /^Add/);
    },
  ],
  [
    'settings-refused',
    '/dashboard/settings',
    async (page) => {
      await page.locator('#display-name').fill(' ');
      await press(page, 'Change name');
    },
  ],
];

const operatorStates = [
  ['operator-account-suspended', '/dashboard/operator/accounts/sam'],
  ['operator-account-own', '/dashboard/operator/accounts/ada'],
  ['operator-account-remove', '/dashboard/operator/accounts/sam/remove'],
  ['operator-account-none', '/dashboard/operator/accounts?q=xyz'],
  ['operator-password-link', '/dashboard/operator/accounts/nia', (page) => press(page, 'Create link')],
  ['operator-invitation-link', '/dashboard/operator/invitations', (page) => press(page, 'Create invitation')],
];

const LOOK_HEIGHT = 900;
const HEIGHT_MAX = 8_000;
/** Until a page is live. */
const SETTLING_MS = 250;

/** Uses a window as tall as the page, so that sticky elements cover nothing. */
async function photographShown(page, path) {
  const { width } = page.viewportSize();
  await page.waitForLoadState();
  await page.waitForTimeout(SETTLING_MS);
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
async function crawl(page, session) {
  const { origin } = new URL(page.url());
  const kinds = new Map();
  const waiting = [`sessions/${session}`, 'agents/planner', 'operator/accounts/nia', 'agents'].map(
    (path) => `${origin}/dashboard/${path}`,
  );
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

const MANY = Array.from({ length: 12 }, (_, index) => `max.worker-${index + 1}`);
const AGENTS = ['ada.planner', 'ada.builder', 'ada.reviewer', 'bob.helper', 'bob.pest', 'sam.old', ...MANY].join(',');
const isAll = process.argv.includes('--all');
const service = spawn(
  process.execPath,
  [program, 'serve', '--seed', AGENTS, '--port', '0', '--data', join(home, 'data'), '--webhooks', 'any'],
  {
    cwd: home,
    env: environment,
    stdio: ['ignore', 'pipe', 'inherit'],
  },
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

  const link = openLinkOf('ada');
  browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: ['--no-sandbox', '--disable-gpu'],
  });
  await (isAll ? photographAll(link, session) : photographTwo(link, session));
} finally {
  await browser?.close();
  const gone = new Promise((resolve) => service.once('close', resolve));
  service.kill('SIGTERM');
  await gone;
  rmSync(home, { recursive: true, force: true, maxRetries: 5 });
}
