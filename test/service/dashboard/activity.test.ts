import { afterAll, beforeAll, expect, it } from 'vitest';

import { recordActivity } from '../../../src/service/agents/activity.js';
import { deleteActivitiesBefore, listActivities } from '../../../src/service/store/activities.js';
import { openBrowser } from '../../support/browser.js';
import { authorizationUrl, createVerifier, mustRegister, refresh } from '../../support/oauth.js';
import { deny, mustFindForm, signIn } from '../../support/person.js';
import { openStage as openDomain } from '../sessions/stage.js';
import { bodyOf, openStage, type Stage, type Visitor } from './stage.js';

const AGENT = 'Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0';

let stage: Stage;
let ada: Visitor;
let eve: Visitor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false });
  [ada, eve] = [await stage.enter('ada'), await stage.enter('eve')];
});
afterAll(() => stage.close());

/** Returns the rows of the page as text, newest first. */
const rowsOf = async (visitor: Visitor): Promise<string[]> =>
  bodyOf(await visitor.open('/dashboard/settings/activity'))
    .split('<li class="row">')
    .slice(1)
    .map((row) =>
      row
        .split('</li>')[0]
        ?.replace(/<[^>]+>/g, ' ')
        .replace(/\s+/g, ' ')
        .trim(),
    )
    .filter((row) => row !== undefined);

it('begins with the sign-up, and shows nothing to another account', async () => {
  const rows = await rowsOf(ada);
  expect(rows.map((row) => row.split(/ (?:main|Unknown)/)[0])).toEqual([
    'Agent created',
    'Signed in',
    'Account created',
  ]);
  expect(rows[0]).toMatch(/main .*127\.0\.0\.1 just now$/);
  await ada.createAgent('second');
  expect((await rowsOf(eve)).join()).not.toContain('second');
});

it('has each sign-in with its browser and address, and wrong passwords once per hour', async () => {
  const browser = openBrowser(AGENT);
  for (let attempt = 0; attempt < 2; attempt += 1) {
    const page = await browser.open(`${stage.web}/oauth/sign-in`);
    const wrong = await signIn(browser, page, { ...ada, password: 'not the password' });
    expect(wrong.text).toContain('The username or password is wrong.');
  }
  await signIn(browser, await browser.open(`${stage.web}/oauth/sign-in`), ada);
  const [first, second, third] = await rowsOf(ada);
  expect(first).toBe('Signed in Firefox on Linux, 127.0.0.1 just now');
  expect(second).toBe('Wrong password Check this 127.0.0.1 just now');
  expect(third).toContain('Agent created');
});

it('has every change with its new value', async () => {
  await ada.press('/dashboard/agents/second', /^pause$/i);
  await ada.press('/dashboard/agents/second', /^resume$/i);
  await ada.press('/dashboard/agents/second/allowlist', /^add$/i, { entry: '@bob.helper' });
  await ada.press('/dashboard/new-client', /^create api credential$/i, { name: 'A build', agent: 'second' });
  await ada.press('/dashboard/agents/second/remove', /^remove agent$/i);
  const rows = (await rowsOf(ada)).slice(0, 5);
  expect(rows.map((row) => row.split(' Unknown')[0])).toEqual([
    'Agent removed second',
    expect.stringMatching(/^API credential created oac_\w+$/),
    'Allowlist changed second',
    'Agent resumed second',
    'Agent paused second',
  ]);
});

it('has neither refused forms nor what people write', async () => {
  const before = await rowsOf(ada);
  await ada.press('/dashboard/new-agent', /^create agent$/i, { name: 'No Name', display_name: 'x' });
  await ada.press('/dashboard/settings', /^change name$/i, { display_name: ' ' });
  expect(await rowsOf(ada)).toEqual(before);
});

it('a new name is shown to others, and can be found', async () => {
  const page = await ada.press('/dashboard/settings', /^change name$/i, { display_name: 'Ada Lovelace' });
  expect(page.text).toContain('Your changes were saved.');
  expect(mustFindForm(page, /^change name$/i).values['display_name']).toBe('Ada Lovelace');
  expect((await ada.open('/dashboard/agents')).text).toContain('Ada Lovelace');
  expect((await rowsOf(ada))[0]).toContain('Name changed');
});

it('approvals are entries, and all apps are disconnected with one answer', async () => {
  const families = [await stage.connect(ada, '<b>asp on build-7</b>'), await stage.connect(ada, 'asp on laptop')];
  const page = await ada.open('/dashboard/applications');
  const statuses = async (): Promise<number[]> =>
    Promise.all(
      families.map(
        async ({ clientId, refreshToken }) => (await refresh(stage.desk.place, clientId, refreshToken)).status,
      ),
    );
  expect(await statuses()).toEqual([200, 200]);
  expect(page.text).toContain('asp on laptop');
  await ada.press('/dashboard/applications/disconnect-all', /^disconnect all$/i);
  expect((await ada.open('/dashboard/applications')).text).toContain('No connected apps');
  const rows = (await rowsOf(ada)).slice(0, 3);
  expect(rows.map((row) => row.split(' Unknown')[0])).toEqual([
    'All apps disconnected',
    'App allowed asp on laptop',
    'App allowed &lt;b&gt;asp on build-7&lt;/b&gt;',
  ]);
  expect(await statuses()).toEqual([401, 401]);
});

it('an app that was denied is an entry', async () => {
  const clientId = await mustRegister(stage.desk.place, { client_name: 'asp on a train' });
  const { challenge } = createVerifier();
  const url = authorizationUrl(stage.desk.place, { clientId, challenge, agentHandle: ada.handle });
  await deny(ada.browser, await ada.browser.open(url));
  expect((await rowsOf(ada))[0]).toContain('App denied asp on a train');
});

it('keeps the latest thousand entries of each account, for ninety days', async () => {
  const domain = await openDomain();
  try {
    const [one, other] = [await domain.addAccount('one'), await domain.addAccount('other')];
    const add = (accountId: string, count: number) =>
      domain.write(async (transaction) => {
        for (let index = 0; index < count; index += 1)
          await recordActivity(domain.context, transaction, { accountId, kind: 'signed-in', detail: `${index}` });
      });
    await add(other.id, 1);
    await add(one.id, 1_003);
    const kept = (accountId: string) => domain.read((query) => listActivities(query, accountId, 'Z', 2_000));
    const rows = await kept(one.id);
    expect([rows.length, rows[0]?.detail, rows.at(-1)?.detail]).toEqual([1_000, '1002', '3']);
    expect(await kept(other.id)).toHaveLength(1);
    domain.clock.advance(1);
    await domain.write((transaction) => deleteActivitiesBefore(transaction, domain.clock.now()));
    expect([await kept(one.id), await kept(other.id)]).toEqual([[], []]);
  } finally {
    await domain.close();
  }
});
