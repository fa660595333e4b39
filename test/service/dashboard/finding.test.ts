import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { renderExcerpt } from '../../../src/service/web/dashboard/search.js';
import { type Actor, actorOf, createActor, operate } from '../../support/actors.js';
import type { Page } from '../../support/browser.js';
import { linksOf } from '../../support/html-form.js';
import { request } from '../../support/http.js';
import { until } from '../../support/until.js';
import { createFeed } from './event-source.js';
import { bodyOf, cookieOf, openStage, type Stage, type Visitor } from './stage.js';

const HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)>"\'&\u202etxt.exe';
const DAY_MS = 24 * 60 * 60 * 1000;

let stage: Stage;
let ada: Visitor;
let eve: Visitor;
let first: Actor;
let second: Actor;
let bob: Actor;
let zed: Actor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false });
  const { operator } = stage;
  const { place } = stage.desk;
  await operate(operator, 'POST', '/agents', { handle: '@ada.spare', inbound_policy: 'open' });
  [first, second] = [
    await createActor(place, operator, 'first', { owner: 'ada' }),
    await createActor(place, operator, 'second', { owner: 'ada' }),
  ];
  [bob, zed] = [await createActor(place, operator, 'bob'), await createActor(place, operator, 'zed')];
  ada = await stage.enterLocally('ada');
  eve = await stage.enter('eve');
});
afterAll(() => stage.close());

const idsIn = (page: Page): string[] =>
  [...bodyOf(page).matchAll(/row-link" href="\/dashboard\/sessions\/(sess_\w+)/g)].map(([, id = '']) => id);
const list = async (query = ''): Promise<string[]> => idsIn(await ada.open(`/dashboard/sessions${query}`));
const search = (q: string, visitor = ada): Promise<Page> =>
  visitor.open(`/dashboard/search?q=${encodeURIComponent(q)}`);
/** Creates a session that both agents have joined. */
const talk = async (one: Actor, other: Actor, topic: string): Promise<string> => {
  const session = await one.mustCreate({ topic, invite: [other.handle] });
  await other.mustJoin(session);
  return session;
};
/** Returns the text of a session's row. */
const rowOf = async (session: string, query = ''): Promise<string> => {
  const html = bodyOf(await ada.open(`/dashboard/sessions${query}`));
  const [row = ''] = (html.split('<li class="row').find((one) => one.includes(session)) ?? '').split('</li>');
  return row.replace(/<[^>]+>/g, ' ').replace(/\s+/g, ' ');
};

describe('The list of sessions', () => {
  it('filters by own agent, by counterpart, and by both', async () => {
    const [one, two] = [await talk(first, bob, 'one'), await talk(second, bob, 'two')];
    const three = await talk(first, zed, 'three');
    const both = await talk(first, second, 'both');
    expect(await list(`?agent=${first.name}`)).toEqual([both, three, one]);
    expect(await list(`?with=${bob.handle}`)).toEqual([two, one]);
    expect(await list(`?agent=${first.name}&with=${bob.handle.slice(1).toUpperCase()}`)).toEqual([one]);
    expect((await list(`?with=${second.handle}`)).sort()).toEqual([two, both].sort());
    expect(await list(`?with=${eve.handle}`)).toEqual([]);
  });

  it('says what is wrong with a filter, and keeps it', async () => {
    for (const query of ['with=no handle', 'agent=none', 'from=yesterday', 'to=2026-99-99']) {
      const page = await ada.open(`/dashboard/sessions?${query}`);
      expect([query, page.answer.status]).toEqual([query, 400]);
      expect(page.answer.text).toContain('aria-invalid="true"');
      expect(idsIn(page)).toEqual([]);
      expect(page.answer.text).not.toContain('No sessions match');
    }
  });

  it('filters by the day of the last event', async () => {
    const { clock } = stage.desk;
    const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10);
    const before = await talk(first, bob, 'on one day');
    const day = clock.now();
    clock.advance(3 * DAY_MS);
    const late = await createActor(stage.desk.place, stage.operator, 'late', { owner: 'ada' });
    const later = await late.mustCreate({ topic: 'three days later' });
    expect(await list(`?from=${dayOf(clock.now())}`)).toEqual([later]);
    expect(await list(`?to=${dayOf(day)}`)).toContain(before);
    expect(await list(`?to=${dayOf(day)}`)).not.toContain(later);
    expect(await list(`?to=${dayOf(day - DAY_MS)}`)).toEqual([]);
    ada = await stage.enterLocally('ada');
  });
});

describe('The list of sessions, again', () => {
  it('has invitations first, once, with buttons to answer them', async () => {
    const [mine, other] = await Promise.all(
      ['fourth', 'caller'].map((name, index) =>
        createActor(stage.desk.place, stage.operator, name, index === 0 ? { owner: 'ada' } : {}),
      ),
    );
    if (mine === undefined || other === undefined) throw new Error('no actors');
    const asked = await other.mustCreate({ topic: 'Will you?', invite: [mine.handle] });
    const newer = await mine.mustCreate({ topic: 'newer' });
    expect((await list())[0]).toBe(asked);
    expect((await list()).filter((id) => id === asked)).toHaveLength(1);
    expect(await list(`?agent=${mine.name}`)).toEqual([asked, newer]);
    expect(await list(`?with=${other.handle}`)).toEqual([asked]);
    expect(await list(`?agent=${first.name}`)).not.toContain(asked);
    expect(await list('?state=invited')).toContain(asked);
    expect(await list('?state=active')).not.toContain(asked);
    const row = await rowOf(asked);
    for (const part of ['Will you?', 'Invited', `Invited by ${other.handle}`, mine.handle, 'Join', 'Decline'])
      expect(row).toContain(part);
    const page = await ada.open('/dashboard/sessions');
    expect(page.forms.map(({ action }) => action)).toContain(`/dashboard/sessions/${asked}/decline`);
    const form = page.forms.find(({ action }) => action === `/dashboard/sessions/${asked}/join`);
    if (form === undefined) throw new Error('no form to join with');
    expect((await ada.browser.submit(page, form, {})).text).toContain('Your agent has joined the session.');
    expect(await list()).toContain(asked);
    expect(await list('?state=invited')).not.toContain(asked);
  });

  it('has a session once in which one own agent is invited and another has joined', async () => {
    const starter = await createActor(stage.desk.place, stage.operator, 'sixth', { owner: 'ada' });
    const helper = await createActor(stage.desk.place, stage.operator, 'fifth', { owner: 'ada' });
    const shared = await starter.mustCreate({ topic: 'Between us', invite: [helper.handle] });
    expect((await list()).filter((id) => id === shared)).toHaveLength(1);
    expect((await list())[0]).toBe(shared);
    await helper.mustJoin(shared);
    expect((await list()).filter((id) => id === shared)).toHaveLength(1);
  });

  it('shows the last message that the account may see and who wrote it, the number of events, and what no one has read', async () => {
    const [mine, other] = [
      await createActor(stage.desk.place, stage.operator, 'fifth', { owner: 'ada' }),
      await createActor(stage.desk.place, stage.operator, 'talker'),
    ];
    const session = await talk(other, mine, 'Rows');
    await other.mustSend(session, `the last\n\nmessage ${HOSTILE}`);
    expect(await rowOf(session)).toContain(`${other.handle}: the last message &lt;script&gt;`);
    expect(await rowOf(session)).toContain('3 new');
    await ada.open(`/dashboard/sessions/${session}`);
    await other.mustSend(
      session,
      '# Plan\n\n1. Run `make`, *then* **deploy** to [staging](https://example.org)\n\n```js\na * b\n```',
    );
    expect(await rowOf(session)).toContain(`${other.handle}: Plan Run make, then deploy to staging a * b`);
    await ada.open(`/dashboard/sessions/${session}`);
    expect(await rowOf(session)).not.toContain('new');
    expect(await rowOf(session)).toContain('4 events');
    await other.mustSend(session, [{ type: 'file', url: 'https://example.org/a.pdf', name: 'report.pdf' }]);
    expect(await rowOf(session)).toMatch(new RegExp(`${other.handle}: report\\.pdf.*1 new 5 events`));
    await mine.mustLeave(session);
    await other.mustSend(session, 'a secret');
    expect(await rowOf(session)).not.toContain('a secret');
    expect(await rowOf(session)).toContain('2 new');
    expect((await ada.open('/dashboard/sessions')).answer.text).not.toMatch(/<script>alert|<img src=x|\u202e/);
  });

  it('pages in both directions with the same rows', async () => {
    const mine = await createActor(stage.desk.place, stage.operator, 'pager', { owner: 'ada' });
    for (let index = 0; index < 60; index += 1) await mine.mustCreate({ topic: `page ${index}` });
    const start = `/dashboard/sessions?agent=${mine.name}`;
    const pages: string[][] = [];
    let page = await ada.open(start);
    const next = (): string | undefined =>
      /rel="next" href="([^"]+)"/.exec(bodyOf(page))?.[1]?.replaceAll('&amp;', '&');
    for (let path = next(); path !== undefined; path = next()) {
      pages.push(idsIn(page));
      page = await ada.open(path);
    }
    pages.push(idsIn(page));
    expect(pages.map(({ length }) => length)).toEqual([25, 25, 10]);
    for (const before of pages.slice(0, -1).reverse()) {
      page = await ada.browser.follow(page, /^previous page$/i);
      expect(idsIn(page)).toEqual(before);
    }
    expect(linksOf(bodyOf(page)).some(({ label }) => /previous page/i.test(label))).toBe(false);
    expect((await ada.open(`${start}&after=..`)).answer.status).toBe(400);
  });
});

describe('The page that goes to others', () => {
  const go = (q: string, visitor = ada): Promise<Page> => visitor.open(`/dashboard/go?q=${encodeURIComponent(q)}`);
  /** The access tokens of the other tests may have expired. */
  const fresh = ({ handle, credentials }: Actor): Actor => actorOf(stage.desk.place, handle, credentials);
  const targetsIn = (page: Page): string[] =>
    [...bodyOf(page).matchAll(/row-link" href="([^"]+)"/g)].map(([, path = '']) => path);

  it('finds pages, actions, agents and sessions by parts of their names', async () => {
    const session = await talk(fresh(first), fresh(bob), 'Quarterly figures');
    expect(targetsIn(await go('cred'))).toEqual([
      '/dashboard/clients',
      '/dashboard/new-client',
      '/dashboard/search?q=cred',
    ]);
    expect(targetsIn(await go('shared ses'))[0]).toBe('/dashboard/links');
    expect(targetsIn(await go('new ses'))[0]).toBe('/dashboard/new-session');
    expect(targetsIn(await go(first.name.slice(0, 8)))).toContain(`/dashboard/agents/${first.name}`);
    expect(targetsIn(await go('terly fig'))).toContain(`/dashboard/sessions/${session}`);
  });

  it('shows nothing of others, no place of operators, and what was typed only as text', async () => {
    await talk(fresh(first), fresh(bob), 'Hidden plan');
    const search = (q: string): string => `/dashboard/search?q=${encodeURIComponent(q)}`;
    expect(targetsIn(await go('hidden plan', eve))).toEqual([search('hidden plan')]);
    expect(targetsIn(await go(first.name, eve))).toEqual([search(first.name)]);
    expect(targetsIn(await go('operator', eve))).toEqual([search('operator')]);
    const page = await go(HOSTILE);
    // The field keeps what was typed.
    const shown = bodyOf(page).replace(/<input[^>]*>/g, '');
    expect([page.answer.status, /<script>alert|<img src=x|\u202e/.test(shown)]).toEqual([200, false]);
    expect((await go('x'.repeat(5_000))).answer.status).toBe(200);
  });
});

describe('Search', () => {
  it('shows messages as they read, without the marks of Markdown, unless only those have the words', async () => {
    const mine = await createActor(stage.desk.place, stage.operator, 'marks', { owner: 'ada' });
    const session = await mine.mustCreate({ topic: 'Marks' });
    await mine.mustSend(session, '# Plan\n\nUse `okapi` and **not** a [zebu](https://gnu.example/).');
    expect(bodyOf(await search('okapi'))).toContain('Plan Use <mark>okapi</mark> and not a zebu.');
    expect(bodyOf(await search('gnu'))).toContain('[zebu](https://<mark>gnu</mark>.example/)');
  });

  it('leads to the message, to sessions by topic, and to agents', async () => {
    const mine = await createActor(stage.desk.place, stage.operator, 'capybara', { owner: 'ada' });
    const session = await mine.mustCreate({ topic: 'About the CAPYBARA' });
    const { sequence } = await mine.mustSend(
      session,
      `A long story. ${'word '.repeat(80)} The Capybará ${HOSTILE} swims.`,
    );
    const page = await search('capybara');
    const links = linksOf(bodyOf(page)).map(({ href }) => href);
    expect(links).toContain(`/dashboard/sessions/${session}?around=${sequence}#e${sequence}`);
    expect(links).toContain(`/dashboard/sessions/${session}`);
    expect(links).toContain(`/dashboard/agents/${mine.name}`);
    expect(bodyOf(page)).toContain('<mark>Capybará</mark>');
    expect(bodyOf(page)).not.toMatch(/<script>alert|<img src=x|\u202e/);
    expect((await search('capybara swims')).text).toContain('About the CAPYBARA');
    expect((await search('capybara walks')).text).toContain('Nothing found');
    const withHandle = await search(bob.handle);
    expect(linksOf(bodyOf(withHandle)).map(({ href }) => href)).toContain(
      `/dashboard/sessions?with=${encodeURIComponent(bob.handle)}`,
    );
  });

  it('finds nothing of others, and shows the same page whether it exists or not', async () => {
    const other = await createActor(stage.desk.place, stage.operator, 'secretive');
    const session = await other.mustCreate({ topic: 'platypus topic' });
    await other.mustSend(session, 'platypus message');
    const without = async (q: string): Promise<string> =>
      bodyOf(await search(q, eve))
        .replaceAll(q, 'Q')
        .replaceAll(/value="\w+"|data-now="\d+"/g, '');
    expect(await without('platypus')).toBe(await without('nosuchword'));
    expect((await search('platypus')).text).toContain('Nothing found');
  });

  it('refuses input that has no words or is too long, and keeps it', async () => {
    for (const q of ['???', 'x'.repeat(101)]) {
      const page = await search(q);
      expect(page.answer.status).toBe(400);
      expect(page.answer.text).toContain(`value="${q}"`);
    }
    expect((await ada.open('/dashboard/search')).answer.status).toBe(200);
  });

  it('is limited like the search of an agent, and says when to try again', async () => {
    const limited = await openStage({ areLimitsOn: true });
    try {
      const zoe = await limited.enter('zoe');
      const statuses: number[] = [];
      for (let index = 0; index < 31; index += 1)
        statuses.push((await zoe.open('/dashboard/search?q=word')).answer.status);
      expect(statuses).toEqual([...Array.from({ length: 30 }, () => 200), 429]);
      const { answer, text } = await zoe.open('/dashboard/search?q=word');
      expect(Number(answer.headers['retry-after'])).toBeGreaterThan(0);
      expect(text).toContain('Too many searches. Try again in');
    } finally {
      await limited.close();
    }
  });

  it('cuts an excerpt around the first word, marks each word, and leaves no half of a character', () => {
    const marked = (text: string, ...words: string[]): string => renderExcerpt(text, new Set(words)).markup;
    expect(marked('a b c', 'b')).toBe('<bdi>a <mark>b</mark> c</bdi>');
    const long = `${'x '.repeat(200)}needle ${'y '.repeat(200)}needle`;
    const cut = marked(long, 'needle');
    expect(cut).toMatch(/^<bdi>…x .*<mark>needle<\/mark> y .*…<\/bdi>$/);
    expect(cut.length).toBeLessThan(320);
    expect(marked('<b>ÉTÉ</b>', 'ete')).toBe('<bdi>&lt;b&gt;<mark>ÉTÉ</mark>&lt;/b&gt;</bdi>');
    expect(marked(`need ${'😀'.repeat(200)}`, 'need')).toMatch(/^<bdi><mark>need<\/mark> 😀+…<\/bdi>$/u);
    expect(marked('日本語の文', '語')).toBe('<bdi><mark>日本語の文</mark></bdi>');
  });
});

describe('An open list', () => {
  const liveUrl = (mark: string): string => `${stage.web}/dashboard/live?mark=${mark}`;
  const markOf = async (visitor: Visitor): Promise<string> =>
    /data-mark="([\w-]+)"/.exec((await visitor.open('/dashboard/sessions')).answer.text)?.[1] ?? '';

  it('gets news only of its own account', async () => {
    const mine = await createActor(stage.desk.place, stage.operator, 'sixth', { owner: 'ada' });
    const [hers, others] = [await markOf(ada), await markOf(eve)];
    const adas = await createFeed(liveUrl(hers), { cookie: cookieOf(ada) });
    const eves = await createFeed(liveUrl(others), { cookie: cookieOf(eve) });
    await mine.mustSend(await mine.mustCreate({ topic: 'live' }), 'news');
    await until('news', async () => adas.text().includes('event: changed'));
    expect(adas.text()).not.toContain(hers);
    expect(eves.text()).not.toContain('changed');
    adas.close();
    eves.close();
  });

  it('is refused to strangers and other sites; without a stream, it can be polled', async () => {
    const json = { accept: 'application/json' };
    expect((await request(liveUrl('x'), { headers: json })).status).toBe(401);
    const own = { ...json, cookie: cookieOf(ada) };
    expect((await request(liveUrl('x'), { headers: { ...own, 'sec-fetch-site': 'cross-site' } })).status).toBe(403);
    const answer = await request(liveUrl('x'), { headers: own });
    expect(answer.json).toEqual({ mark: await markOf(ada) });
  });

  it('shares its stream with transcripts, which get only what the account may see', async () => {
    const mine = await createActor(stage.desk.place, stage.operator, 'seventh', { owner: 'ada' });
    const other = await createActor(stage.desk.place, stage.operator, 'eighth');
    const [seen, left, foreign] = [await mine.mustCreate({}), await mine.mustCreate({}), await other.mustCreate({})];
    for (const session of [seen, left]) {
      await mine.post(`/sessions/${session}/invite`, { invite: [other.handle] });
      await other.mustJoin(session);
    }
    await mine.mustLeave(left);
    const of = ['list', 'needs', seen, left, foreign, 'nonsense', 'sess_x'].map((one) => `of=${one}`).join('&');
    const feed = await createFeed(`${stage.web}/dashboard/live?${of}`, { cookie: cookieOf(ada) });
    for (const session of [left, foreign, seen]) await other.mustSend(session, 'news');
    const told = (): string[] => [...feed.text().matchAll(/event: session\ndata: (.*)/g)].map(([, data = '']) => data);
    await until('the session is told', async () => told().includes(`${seen} 3 0`));
    expect(told().sort()).toEqual([`${seen} 2 0`, `${seen} 3 0`, `${left} 3 0`, `${foreign} 0 0`].sort());
    expect(feed.text()).toMatch(/event: changed\n[\s\S]*event: needs\n/);
    await other.mustSend(seen, 'more');
    await until('more is told', async () => told().includes(`${seen} 4 0`));
    expect(told()).toHaveLength(5);
    for (const session of [left, foreign, seen])
      expect((await other.post(`/sessions/${session}/taken`, { sequences: [1, 2, 3, 4] })).status).toBe(200);
    await until('the report is told', async () => told().includes(`${seen} 4 1`));
    expect(told()).toHaveLength(6);
    feed.close();
  });
});
