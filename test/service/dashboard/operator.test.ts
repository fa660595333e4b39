import { createHash } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { DEFAULT_ACCOUNT_POLICY } from '../../../src/service/core/context.js';
import { actAsOperator } from '../../../src/service/operator/actions.js';
import { createBackup } from '../../../src/service/operator/backup.js';
import { renderSchema } from '../../../src/service/operator/pages/overview.js';
import { createOperatorRows } from '../../../src/service/operator/pages/pages.js';
import { SCHEMA_VERSION } from '../../../src/service/store/migrations.js';
import { listOperatorActions } from '../../../src/service/store/operator.js';
import { sweep } from '../../../src/service/web/authorization-server.js';
import { actorOf, createActor, operate } from '../../support/actors.js';
import { type Browser, newPerson, openBrowser, type Page, type Person } from '../../support/browser.js';
import { formBody, request } from '../../support/http.js';
import { field } from '../../support/json.js';
import { refresh } from '../../support/oauth.js';
import { mustFindForm, signIn, signUp } from '../../support/person.js';
import { TEST_STORE } from '../../support/stores.js';
import { openStage as openDomain } from '../sessions/stage.js';
import { bodyOf, cookieOf, csrfOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

/** The row links do not depend on the data. */
const OPERATOR_ROWS = createOperatorRows(undefined as never);
const YEAR_MS = 365 * 24 * 60 * 60 * 1000;
const AREA = '/dashboard/operator';
const TOKEN = 't'.repeat(32);

let stage: Stage;
let olga: Visitor;
let eve: Visitor;
beforeAll(async () => {
  const tokens = [{ name: 'nightly', token: TOKEN }];
  stage = await openStage({ areLimitsOn: false, remoteOperators: { host: '127.0.0.1', port: 0, tokens } });
  [olga, eve] = [await stage.enter('olga'), await stage.enter('eve')];
  await makeOperator(olga, true);
});
afterAll(() => stage.close());

const change = (username: string, body: object): Promise<unknown> =>
  operate(stage.operator, 'PATCH', `/accounts/${username}`, body);
const makeOperator = ({ username }: { username: string }, operator: boolean): Promise<unknown> =>
  change(username, { operator });
const stateOf = async ({ username }: Visitor): Promise<unknown> =>
  field(await operate(stage.operator, 'GET', `/accounts/${username}`), 'state');
const pageOf = ({ username }: Visitor): string => `${AREA}/accounts/${username}`;
const filled = (path: string): string =>
  path.replace(':account', eve.username).replace(':name', 'main').replace(':id', 'lnk_none');
const post = async (visitor: Visitor, path: string, fields: Record<string, string>) =>
  request(`${stage.web}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookieOf(visitor) },
    body: formBody(fields),
  });
/** Returns the rows of a list as text. */
const rowsOf = (page: Page): string[] =>
  bodyOf(page)
    .split('<li class="row">')
    .slice(1)
    .map((row) =>
      (row.split('</li>')[0] ?? '')
        .replace(/<[^>]+>/g, ' ')
        .replace(/\s+/g, ' ')
        .trim(),
    );
/** Returns the rows of the log, newest first. */
const logRows = async (path = `${AREA}/log`): Promise<string[]> => rowsOf(await olga.open(path));

describe('The operator’s area', () => {
  const showing = OPERATOR_ROWS.filter(({ show }) => show !== undefined).map(({ path }) => path);
  const acting = OPERATOR_ROWS.filter(({ act }) => act !== undefined).map(({ path }) => path);

  it.each(showing)('%s is an unknown address for everyone but operators', async (path) => {
    const unknown = (await eve.open('/dashboard/none')).answer;
    const { answer } = await eve.open(filled(path));
    expect([answer.status, answer.text]).toEqual([404, unknown.text]);
    expect((await olga.open(filled(path))).answer.status).toBe(200);
    const stranger = await openBrowser().open(`${stage.web}${filled(path)}`);
    expect(pathOf(stranger)).toBe('/oauth/sign-in');
  });

  it.each(acting)('%s does nothing for others, or without the secret of its form', async (path) => {
    const before = (await logRows()).length;
    const target = filled(path);
    expect((await post(eve, target, { csrf: await csrfOf(eve) })).status).toBe(404);
    for (const csrf of ['', 'wrong', await csrfOf(eve)]) expect((await post(olga, target, { csrf })).status).toBe(403);
    expect([await stateOf(eve), (await logRows()).length]).toEqual(['active', before]);
  });

  it.each(showing)('%s runs only the script named by its policy, and only its own styles', async (path) => {
    const { answer } = await olga.open(filled(path));
    const policy = answer.headers['content-security-policy'] ?? '';
    expect(policy).toMatch(/^default-src 'none'; style-src 'self'; img-src data:; form-action 'self';/);
    const scripts = [...answer.text.matchAll(/<script>([\s\S]*?)<\/script>/g)].map(([, script = '']) => script);
    const hashes = scripts.map((script) => `'sha256-${createHash('sha256').update(script).digest('base64')}'`);
    expect(/; script-src ([^;]+); connect-src 'self'$/.exec(policy)?.[1]).toBe(hashes.join(' '));
    const markup = answer.text.replaceAll(/<script>[\s\S]*?<\/script>/g, '');
    expect(markup).not.toMatch(/ style=| on\w+=|javascript:/i);
    expect(answer.headers['cache-control']).toBe('no-store');
  });

  it('each page that an operator can reach has one heading, its own title, and one current link', async () => {
    const client = { name: 'Nightly', agent: 'main', scope: ['sessions:read'] };
    await olga.press('/dashboard/new-client', /^create api credential$/i, client);
    const seen = new Map<string, string>();
    const waiting = [
      '/dashboard/agents',
      '/dashboard/agents/main/remove',
      `${AREA}/keys/rotate`,
      `${pageOf(eve)}/erase`,
    ];
    for (let path = waiting.shift(); path !== undefined; path = waiting.shift()) {
      if (seen.has(path)) continue;
      const page = await olga.open(path);
      expect([path, page.answer.status]).toEqual([path, 200]);
      const [title = ''] = /(?<=<title>)[^<]+/.exec(page.answer.text) ?? [];
      seen.set(path, title);
      const [bar = '', main = ''] = bodyOf(page).split('<main');
      expect([path, main.match(/<h1/g)?.length]).toEqual([path, 1]);
      const current = [...bar.matchAll(/href="([^"]+)"[^>]* aria-current="page"/g)].map(([, href = '']) => href);
      expect([path, current.length]).toEqual([path, 1]);
      expect([path, current[0] === AREA]).toEqual([path, path.startsWith(AREA)]);
      expect([path, / · Operator · asp$/.test(title)]).toEqual([path, path.startsWith(AREA)]);
      // Lists have a page for each part and filter. All accounts have the same pages.
      const links = [...bodyOf(page).matchAll(/href="(\/dashboard\/[\w./@-]*)"/g)].map(([, href = '']) => href);
      waiting.push(
        ...links.filter((one) => !/\/download$/.test(one) && !new RegExp(`^${AREA}/accounts/(?!eve)`).test(one)),
      );
    }
    expect([...seen.keys()]).toEqual(
      expect.arrayContaining([
        ...['/dashboard/needs-you', '/dashboard/sessions', '/dashboard/clients', '/dashboard/applications'],
        ...['/dashboard/search', '/dashboard/settings', '/dashboard/settings/activity', '/dashboard/help'],
        ...[AREA, `${AREA}/accounts`, `${AREA}/invitations`, `${AREA}/log`, pageOf(eve), `${pageOf(eve)}/remove`],
      ]),
    );
    // The tabs of a browser can be told apart.
    const titles = [...seen.values()];
    expect(titles.filter((title, index) => titles.indexOf(title) !== index)).toEqual([]);
  });

  it('is only in the menu of operators', async () => {
    const link = `href="${AREA}"`;
    expect((await olga.open('/dashboard/agents')).answer.text).toContain(link);
    expect((await eve.open('/dashboard/agents')).answer.text).not.toContain(link);
  });

  it('is gone on the next request once the account is no longer an operator', async () => {
    const paul = await stage.enter('paul');
    expect((await paul.open(AREA)).answer.status).toBe(404);
    await makeOperator(paul, true);
    expect((await paul.open(AREA)).answer.status).toBe(200);
    const csrf = await csrfOf(paul);
    await makeOperator(paul, false);
    expect((await paul.open(AREA)).answer.status).toBe(404);
    expect((await post(paul, `${pageOf(eve)}/suspend`, { csrf })).status).toBe(404);
    expect(await stateOf(eve)).toBe('active');
  });

  it('is closed to suspended accounts until they are resumed', async () => {
    const paul = await stage.enter('paul');
    await change(paul.username, { suspended: true });
    await expect(makeOperator(paul, true)).rejects.toThrow('resume it first');
    await change(paul.username, { suspended: false });
    expect(field(await makeOperator(paul, true), 'is_operator')).toBe(true);
  });
});

describe('Invitations', () => {
  const PAGE = `${AREA}/invitations`;
  let closed: Stage;
  let boss: Browser;
  const open = (path: string): Promise<Page> => boss.open(`${closed.web}${path}`);
  const signUpWith = async (link: string): Promise<{ browser: Browser; person: Person; isIn: boolean }> => {
    const [browser, person] = [openBrowser(), newPerson('zoe')];
    const page = await signUp(browser, await browser.open(link), person);
    return { browser, person, isIn: pathOf(page) === '/dashboard/agents' };
  };
  beforeAll(async () => {
    closed = await openStage({ areLimitsOn: false, accountPolicy: { ...DEFAULT_ACCOUNT_POLICY, signUp: 'invite' } });
    const first = await operate(closed.operator, 'POST', '/invitations', { lifetime_ms: 60_000 });
    const { browser, person } = await signUpWith(String(field(first, 'url')));
    await operate(closed.operator, 'PATCH', `/accounts/${person.username}`, { operator: true });
    boss = browser;
  });
  afterAll(() => closed.close());

  const invite = async (): Promise<string> => {
    const page = await open(PAGE);
    const made = await boss.submit(page, mustFindForm(page, /^create invitation$/i), { days: '1' });
    return /<code class="take">([^<]+)</.exec(made.answer.text)?.[1] ?? '';
  };
  it('are links that are shown once; later, they list who signed up', async () => {
    const link = await invite();
    const secret = new URL(link).searchParams.get('invitation') ?? '';
    expect(secret).not.toBe('');
    for (const path of [PAGE, `${AREA}/log`]) expect((await open(path)).answer.text).not.toContain(secret);
    expect(rowsOf(await open(PAGE))[0]).toMatch(/^lnk_\w+ Open Created just now Valid until .* Revoke/);
    expect(rowsOf(await open(`${AREA}/log`))[0]).toMatch(/^Invitation created @zoe-/);
    const { person, isIn } = await signUpWith(link);
    expect(isIn).toBe(true);
    expect(rowsOf(await open(PAGE))[0]).toMatch(new RegExp(`^lnk_\\w+ @${person.username} Used Created just now$`));
    expect((await signUpWith(link)).isIn).toBe(false);
  });

  it('are revoked once, and then let no one in', async () => {
    const link = await invite();
    const page = await open(PAGE);
    const revoke = /^revoke lnk_/i;
    const after = await boss.submit(page, mustFindForm(page, revoke), {}, revoke);
    expect(after.text).toContain('The invitation was revoked.');
    expect((await signUpWith(link)).isIn).toBe(false);
    expect(rowsOf(await open(`${AREA}/log`))[0]).toMatch(/^Invitation revoked lnk_/);
    expect((await boss.submit(page, mustFindForm(page, revoke), {}, revoke)).answer.status).toBe(404);
  });

  it('are listed page by page, newest first, and expire', async () => {
    for (let count = 0; count < 25; count += 1)
      await operate(closed.operator, 'POST', '/invitations', { lifetime_ms: 60_000 });
    const first = await open(PAGE);
    const second = await boss.follow(first, /^next page$/i);
    const ids = [first, second].flatMap((page) => rowsOf(page).map((row) => row.split(' ')[0] ?? ''));
    expect(ids.length).toBeGreaterThan(25);
    expect(ids).toEqual([...new Set(ids)].sort().reverse());
    closed.desk.clock.advance(60_000);
    expect(rowsOf(await open(PAGE))[0]).toMatch(/ Expired Created /);
  });
});

describe('The signing keys', () => {
  it('are rotated after a confirmation; a second time changes nothing', async () => {
    const path = `${AREA}/keys/rotate`;
    const rotate = /^rotate keys$/i;
    expect((await olga.open(AREA)).answer.text).toContain(`href="${path}"`);
    expect((await olga.press(path, rotate)).text).toContain('A new signing key was published.');
    expect((await olga.open(AREA)).text).toMatch(/Signing keys [\w-]{43} started signing .* [\w-]{43} signs from /);
    expect((await olga.press(path, rotate)).text).toContain('Nothing was changed: a new key is already published');
    expect((await logRows())[0]).toContain(`Signing keys rotated @${olga.username}`);
  });
});

describe('The list of agents', () => {
  it('has the agents of every account, with a search and pages', async () => {
    const { username } = eve;
    for (let count = 0; count < 3; count += 1) await eve.createAgent(`listed${count}`);
    for (let count = 10; count < 70; count += 1)
      await operate(stage.operator, 'POST', '/agents', { handle: `@lots.a${count}`, inbound_policy: 'open' });
    const first = await olga.open(`${AREA}/agents?q=lots`);
    const [, next = ''] = /href="([^"]*after=[^"]*)"/.exec(bodyOf(first)) ?? [];
    const second = await olga.open(next.replaceAll('&amp;', '&'));
    expect(rowsOf(first).length + rowsOf(second).length).toBeLessThanOrEqual(60);
    expect([
      rowsOf(first)[0]?.includes('@lots.a10'),
      rowsOf(second)[0]?.includes(`@lots.a${10 + rowsOf(first).length}`),
    ]).toEqual([true, true]);
    const found = await olga.open(`${AREA}/agents?q=%40${username}.listed`);
    expect(rowsOf(found).map((row) => row.split(' ').find((word) => word.startsWith('@')))).toEqual(
      [0, 1, 2].map((count) => `@${username}.listed${count}`),
    );
    expect(bodyOf(found)).toContain(`href="${AREA}/accounts/${username}"`);
    await olga.press(pageOf(eve), /^Pause @.*listed1$/);
    expect(rowsOf(await olga.open(`${AREA}/agents?q=${username}.listed1`))[0]).toContain('Paused');
    expect((await olga.open(`${AREA}/agents?q=nobody-has-this`)).text).toContain('No handle begins with this.');
    expect((await eve.open(`${AREA}/agents`)).answer.status).toBe(404);
  });
});

describe('The overview', () => {
  it.each([
    [SCHEMA_VERSION, 'Up to date'],
    [SCHEMA_VERSION - 1, '1 migration pending'],
    [SCHEMA_VERSION + 1, `This process expects ${SCHEMA_VERSION}`],
  ])('says of schema %i: %s', (version, said) => {
    expect(renderSchema(version).markup).toContain(said);
  });

  /** Returns the numbers of a graph as a screen reader announces them. */
  const graph = async (about: string): Promise<string | undefined> => {
    const labels = [...(await olga.open(AREA)).answer.text.matchAll(/<svg [^>]*role="img" aria-label="([^"]+)"/g)];
    return labels.map(([, label = '']) => label).find((label) => label.startsWith(`${about}: `));
  };
  const numbersOf = (text: string | undefined): number[] => (text?.match(/\d+/g) ?? []).map(Number);

  it('shows whether the service is ready, its environment, and how much it stores', async () => {
    const { text } = await olga.open(AREA);
    expect(text).toContain('State Ready');
    expect(text).toMatch(/Database (SQLite|PostgreSQL) Schema \d+ Up to date/);
    expect(text).toMatch(/Accounts \d+ Agents \d+ Sessions \d+ Database [\d.]+ [KMG]B Attachments 0 B/);
    expect(text).toMatch(/Signing keys [\w-]{43} started signing /);
  });

  it('counts the stored data once a minute, no matter how often it is opened', async () => {
    const { clock } = stage.desk;
    clock.advance(60_000);
    const counted = async (): Promise<number> =>
      Number(/Accounts (\d+) /.exec((await olga.open(AREA)).text)?.[1] ?? Number.NaN);
    const before = await counted();
    await operate(stage.operator, 'POST', '/agents', { handle: '@nina.bot' });
    expect(await counted()).toBe(before);
    clock.advance(60_000);
    expect(await counted()).toBe(before + 1);
  });

  it('draws the requests, sockets, events and failed sign-ins of the last hour', async () => {
    const one = await createActor(stage.desk.place, stage.operator, 'one');
    const other = await createActor(stage.desk.place, stage.operator, 'other');
    const session = await one.mustCreate({ invite: [other.handle] });
    await other.mustJoin(session);
    stage.desk.clock.advance(60_000);
    const socket = await other.mustConnect();
    for (let count = 0; count < 3; count += 1) await one.mustSend(session, [{ type: 'text', text: 'x' }]);
    await expect
      .poll(async () => numbersOf(await graph('Events sent over sockets per minute'))[0])
      .toBeGreaterThanOrEqual(3);
    expect(numbersOf(await graph('Open sockets'))[0]).toBe(1);
    expect(numbersOf(await graph('Requests a minute'))[0]).toBeGreaterThanOrEqual(4);
    expect((await olga.open(AREA)).text).toMatch(/Processes \w{26} 1 socket\b.* This one/);
    const browser = openBrowser();
    await signIn(browser, await browser.open(`${stage.web}/oauth/sign-in`), { ...eve, password: 'not the password' });
    expect(numbersOf(await graph('Failed sign-ins per minute'))[0]).toBe(1);
    await socket.close();
  });
});

describe('Backups', () => {
  it.skipIf(TEST_STORE === 'postgres')('are listed with their age and size, and so are those that failed', async () => {
    const directory = await mkdtemp(join(tmpdir(), 'asp-backups-'));
    const saved = await openStage({ data: { directory } });
    const paula = await saved.enter('paula');
    await operate(saved.operator, 'PATCH', `/accounts/${paula.username}`, { operator: true });
    const card = async (): Promise<string> => /Backups .*/.exec((await paula.open(AREA)).text)?.[0] ?? '';
    expect(await card()).toContain('No backup yet.');
    const now = saved.desk.clock.now();
    const options = { directory, file: join(directory, 'saved.tar'), isForced: false, withKeys: false };
    await createBackup({ ...options, now: now - 3 * 3_600_000 });
    await expect(createBackup({ ...options, now })).rejects.toThrow('exists');
    expect(await card()).toMatch(/Backups just now Failed: exists 3 hours ago \d+(\.\d)? [KM]B/);
    await saved.close();
    await rm(directory, { recursive: true });
  });
  it('are not mentioned if other tools make them', async () => {
    expect((await olga.open(AREA)).text).not.toContain('Backups');
  });
});

describe('Accounts', () => {
  it('are listed by name in pages, and found by the beginning of their names', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `walk-${String(index).padStart(2, '0')}`);
    for (const name of names) await operate(stage.operator, 'POST', '/agents', { handle: `@${name}.bot` });
    const shownOn = (html: string): string[] =>
      [...html.matchAll(/class="row-link" href="\/dashboard\/operator\/accounts\/([^"]+)"/g)].map(
        ([, name = '']) => name,
      );
    const first = await olga.open(`${AREA}/accounts?q=%40Walk-`);
    const second = await olga.browser.follow(first, /^next page$/i);
    expect([...shownOn(first.answer.text), ...shownOn(second.answer.text)]).toEqual(names);
    expect(shownOn((await olga.open(`${AREA}/accounts?q=walk-2`)).answer.text)).toEqual(names.slice(20));
    expect((await olga.open(`${AREA}/accounts?q=alk`)).text).toContain('No account found');
    const all = shownOn((await olga.open(`${AREA}/accounts`)).answer.text);
    expect([all.length, all]).toEqual([25, [...all].sort()]);
    expect((await olga.open(`${AREA}/accounts/nobody`)).answer.status).toBe(404);
  });

  it('show their usage and their agents, but no content', async () => {
    const one = await createActor(stage.desk.place, stage.operator, 'writer');
    await one.mustSend(await one.mustCreate({ topic: 'A private topic' }), [{ type: 'text', text: 'A private text' }]);
    const page = await olga.open(`${AREA}/accounts/${one.owner}`);
    expect(page.text).toContain('Agents 1 ');
    expect(page.text).toContain(one.handle);
    expect(page.answer.text).not.toContain('private');
  });

  it('have their agents paused and resumed, page by page', async () => {
    const zoe = await stage.enter('zoe');
    for (let count = 0; count < 26; count += 1)
      await operate(stage.operator, 'POST', '/agents', { handle: `@crowd.agent-${count}` });
    const first = await olga.open(`${AREA}/accounts/crowd`);
    const second = await olga.browser.follow(first, /^next page$/i);
    expect([first.text.includes('@crowd.agent-25'), second.text.includes('@crowd.agent-25')]).toEqual([false, true]);
    const isPaused = async () => (await zoe.open('/dashboard/agents/main')).text.includes('Paused');
    expect((await olga.press(pageOf(zoe), /^pause/i)).text).toContain('The agent is paused.');
    expect(await isPaused()).toBe(true);
    await olga.press(pageOf(zoe), /^resume @/i);
    expect(await isPaused()).toBe(false);
    expect((await logRows()).slice(0, 2)).toEqual([
      expect.stringContaining(`Agent resumed ${zoe.handle} @${olga.username}`),
      expect.stringContaining(`Agent paused ${zoe.handle} @${olga.username}`),
    ]);
    const csrf = await csrfOf(olga);
    const before = await logRows();
    for (const name of ['none', 'No%20Name', `${'a'.repeat(90)}`])
      expect((await post(olga, `${pageOf(zoe)}/agents/${name}/pause`, { csrf })).status).toBe(404);
    expect(await logRows()).toEqual(before);
  });

  it('have their API credentials revoked and their apps disconnected, at once', async () => {
    const zoe = await stage.enter('zoe');
    const bot = await createActor(stage.desk.place, stage.operator, 'zoes-server');
    const [gone, kept] = [await stage.connect(zoe, 'leaving'), await stage.connect(zoe, 'staying')];
    const statusOf = async ({ clientId, refreshToken }: { clientId: string; refreshToken: string }) =>
      (await refresh(stage.desk.place, clientId, refreshToken)).status;

    const shown = await olga.open(pageOf(zoe));
    expect(shown.text).toMatch(/Connected apps staying acts as .* leaving acts as /);
    const after = await olga.press(pageOf(zoe), /^disconnect leaving$/i);
    expect(after.text).toContain('The app was disconnected.');
    expect(after.text).not.toContain('leaving');
    expect([await statusOf(gone), await statusOf(kept)]).toEqual([401, 200]);

    const place = `${AREA}/accounts/${bot.owner}`;
    expect((await olga.open(place)).text).toContain(bot.credentials.clientId);
    const revoked = await olga.press(place, /^revoke/i);
    expect(revoked.text).toContain('The API credential was revoked');
    expect(revoked.text).not.toContain(bot.credentials.clientId);
    await expect(actorOf(stage.desk.place, bot.handle, bot.credentials).token()).rejects.toThrow();
    expect((await logRows()).slice(0, 2)).toEqual([
      expect.stringContaining(`Credential revoked ${bot.credentials.clientId} @${olga.username}`),
      expect.stringContaining(`App disconnected @${zoe.username}: leaving @${olga.username}`),
    ]);
    const before = await logRows();
    const csrf = await csrfOf(olga);
    for (const path of [
      `clients/${kept.clientId}/revoke`,
      `clients/${bot.credentials.clientId}/revoke`,
      'apps/none/disconnect',
    ])
      expect((await post(olga, `${pageOf(zoe)}/${path}`, { csrf })).status).toBe(404);
    expect(await logRows()).toEqual(before);
  });

  it('are suspended at once, and resumed', async () => {
    const zoe = await stage.enter('zoe');
    const suspended = await olga.press(pageOf(zoe), /^suspend account$/i);
    expect(suspended.text).toContain('The account was suspended.');
    expect(await stateOf(zoe)).toBe('suspended');
    expect(pathOf(await zoe.open('/dashboard/agents'))).toBe('/oauth/sign-in');
    expect((await olga.press(pageOf(zoe), /^resume account$/i)).text).toContain('The account was resumed.');
    await signIn(zoe.browser, await zoe.open('/oauth/sign-in'), zoe);
    expect((await zoe.open('/dashboard/agents')).text).toContain(zoe.handle);
    const [first, second] = await logRows();
    expect(first).toContain(`Account resumed ${zoe.username} @${olga.username} , `);
    expect(second).toContain(`Account suspended ${zoe.username} @${olga.username} , `);
    expect(second).toContain('127.0.0.1 just now');
  });

  it('get a one-time link to set a new password, which is shown once and stored nowhere', async () => {
    const zoe = await stage.enter('zoe');
    const made = await olga.press(pageOf(zoe), /^create link$/i);
    const [, link = ''] = /<code class="take">([^<]+)</.exec(made.answer.text) ?? [];
    expect(link.startsWith(`${stage.web}/oauth/new-password?once=`)).toBe(true);
    const secret = new URL(link).searchParams.get('once') ?? '';
    for (const path of [pageOf(zoe), `${pageOf(zoe)}/password-link`, `${AREA}/log`])
      expect((await olga.open(path)).answer.text).not.toContain(secret);
    const browser = openBrowser();
    const page = await browser.open(link);
    const password = 'an unlikely phrase';
    await browser.submit(page, mustFindForm(page, /password/i), { password, new_password: password });
    const again = openBrowser();
    const arrived = await signIn(again, await again.open(`${stage.web}/oauth/sign-in`), { ...zoe, password });
    expect(pathOf(arrived)).toBe('/dashboard/agents');
    expect((await logRows())[0]).toContain(`Password link created ${zoe.username} @${olga.username}`);
  });

  it('become trusted, and standard again', async () => {
    const zoe = await stage.enter('zoe');
    await olga.press(pageOf(zoe), /^trust account$/i);
    expect(field(await operate(stage.operator, 'GET', `/accounts/${zoe.username}`), 'tier')).toBe('trusted');
    await olga.press(pageOf(zoe), /^stop trusting$/i);
    expect(field(await operate(stage.operator, 'GET', `/accounts/${zoe.username}`), 'tier')).toBe('standard');
  });

  it('are permanently removed after a confirmation', async () => {
    const zoe = await stage.enter('zoe');
    const asked = await olga.browser.follow(await olga.open(pageOf(zoe)), /^remove this account/i);
    expect(asked.text).toContain('This cannot be undone.');
    expect(await stateOf(zoe)).toBe('active');
    const removed = await olga.press(pathOf(asked), /^remove account$/i);
    expect([pathOf(removed), removed.text.includes('The account was removed.')]).toEqual([`${AREA}/accounts`, true]);
    expect((await olga.open(pageOf(zoe))).answer.status).toBe(404);
    expect((await logRows())[0]).toContain(`Account removed ${zoe.username} @${olga.username}`);
    expect((await olga.open(`${AREA}/accounts?q=${zoe.username}`)).text).toContain('No account found');
  });

  it.each(['suspend', 'resume', 'trust', 'distrust', 'password-link', 'agents/main/pause', 'remove'])(
    'of operators are out of reach: %s',
    async (deed) => {
      const paul = await stage.enter('paul');
      await makeOperator(paul, true);
      expect((await olga.open(pageOf(paul))).text).not.toContain('Suspend account');
      const csrf = await csrfOf(olga);
      for (const one of [paul, olga]) expect((await post(olga, `${pageOf(one)}/${deed}`, { csrf })).status).toBe(400);
      expect([await stateOf(paul), await stateOf(olga)]).toEqual(['active', 'active']);
    },
  );
});

describe('The log of operators', () => {
  it('has what the command line did, including refusals', async () => {
    await operate(stage.operator, 'POST', '/agents', { handle: '@lisa.bot' });
    await operate(stage.operator, 'PATCH', '/agents/@lisa.bot', { paused: true });
    await change('lisa', { suspended: true });
    await expect(makeOperator({ username: 'lisa' }, true)).rejects.toThrow();
    expect((await logRows()).slice(0, 4)).toEqual([
      'Account made an operator lisa Refused: validation error Command line just now',
      'Account suspended lisa Command line just now',
      'Agent paused @lisa.bot Command line just now',
      'Agent added @lisa.bot Command line just now',
    ]);
  });

  it('names the token of an operator on another machine, and the address', async () => {
    const there = { url: stage.desk.service.remoteOperatorUrl ?? '', secret: TOKEN };
    await operate(there, 'POST', '/agents', { handle: '@mona.bot' });
    expect((await logRows())[0]).toBe('Agent added @mona.bot Token nightly , 127.0.0.1 just now');
  });

  it('does not record operators who only look', async () => {
    const before = await logRows();
    await operate(stage.operator, 'GET', '/accounts');
    await olga.open(pageOf(eve));
    await olga.open(`${pageOf(eve)}/remove`);
    expect(await logRows()).toEqual(before);
  });

  it('keeps entries for a year', async () => {
    expect((await olga.open(`${AREA}/log`)).text).toContain('Entries are kept for a year.');
    const domain = await openDomain();
    try {
      const action = { operation: 'rotateSigningKeys', target: '' } as const;
      const failure = actAsOperator(domain.context, {}, action, async () => {
        throw new Error('planted');
      });
      await expect(failure).rejects.toThrow('planted');
      domain.clock.advance(YEAR_MS);
      await actAsOperator(domain.context, {}, action, async () => undefined);
      const kept = async () => {
        await sweep(domain.context);
        return (await domain.read((query) => listOperatorActions(query, 'Z', 10))).map(({ outcome }) => outcome);
      };
      expect(await kept()).toEqual(['done', 'failed']);
      domain.clock.advance(1);
      expect(await kept()).toEqual(['done']);
    } finally {
      await domain.close();
    }
  });

  it('has an entry before the work begins, so that nothing happens without one', async () => {
    const domain = await openDomain();
    try {
      const action = { operation: 'createPasswordLink', target: 'x' } as const;
      const seen = await actAsOperator(domain.context, { username: 'olga' }, action, () =>
        domain.read((query) => listOperatorActions(query, 'Z', 10)),
      );
      expect(seen).toMatchObject([{ operator_name: 'olga', target: 'x', outcome: null }]);
    } finally {
      await domain.close();
    }
  });
});
