import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Actor, createActor, operate } from '../../support/actors.js';
import { openBrowser, type Page } from '../../support/browser.js';
import { createTestClock } from '../../support/clock.js';
import { type Answer, formBody, request } from '../../support/http.js';
import { mustFindForm } from '../../support/person.js';
import { TEST_STORE, takeSchema } from '../../support/stores.js';
import { bodyOf, cookieOf, csrfOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

const DAY_MS = 24 * 3_600_000;
const LIST = '/dashboard/links';
const CREATE = /^create link$/i;
const REVOKE = /^revoke/i;
const UNKNOWN = 'This link does not work';

const clock = createTestClock();
let stage: Stage;
let ada: Visitor;
let mine: Actor;
let other: Actor;
let count = 0;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false, clock });
});
afterAll(() => stage.close());
beforeEach(async () => {
  count += 1;
  mine = await createActor(stage.desk.place, stage.operator, `helper${count}`);
  other = await createActor(stage.desk.place, stage.operator, `other${count}`);
  ada = await stage.enterLocally(mine.owner);
});

const sessionPath = (session: string): string => `/dashboard/sessions/${session}`;
const linksPath = (session: string): string => `${sessionPath(session)}/links`;
/** Without a cookie: as someone who is not signed in. */
const visit = (url: string): Promise<Answer> => request(url);
const linkIn = (html: string): string => new RegExp(`${stage.web}/shared/[\\w-]{43}`).exec(html)?.[0] ?? 'no link';
const sequencesIn = ({ text }: Answer): number[] =>
  [...text.matchAll(/data-sequence="(\d+)"/g)].map(([, number]) => Number(number));
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
const openSession = async (topic = 'Release'): Promise<string> => {
  const session = await mine.mustCreate({ topic, invite: [other.handle] });
  await other.mustJoin(session);
  return session;
};
const share = async (session: string, days = '7', visitor = ada): Promise<string> =>
  linkIn((await visitor.press(linksPath(session), CREATE, { days })).answer.text);
const activitiesOf = async (visitor: Visitor): Promise<string[]> =>
  [
    ...bodyOf(await visitor.open('/dashboard/settings/activity')).matchAll(
      /<b>(Session link[^<]*)<\/b>.*?<bdi>([^<]*)</g,
    ),
  ].map(([, kind = '', detail = '']) => `${kind}: ${detail}`);

describe('A link to a session', () => {
  it('lets anyone read it up to now, and is shown once', async () => {
    const session = await openSession();
    await other.mustSend(session, 'the plan');
    const managing = bodyOf(await ada.open(sessionPath(session)));
    expect(managing).toContain(`href="${linksPath(session)}"`);
    const made = await ada.press(linksPath(session), CREATE);
    const link = linkIn(made.answer.text);
    expect([pathOf(made), made.text.includes('You won’t see it again.')]).toEqual([linksPath(session), true]);
    await other.mustSend(session, 'said later');
    const answer = await visit(link);
    expect([answer.status, sequencesIn(answer)]).toEqual([200, [1, 2, 3]]);
    expect(answer.text).toContain('the plan');
    expect(answer.text).not.toContain('said later');
    expect(answer.text).toContain(`@${mine.owner}`);
    expect(bodyOf(await ada.open(linksPath(session)))).not.toContain('/shared/');
    expect(await activitiesOf(ada)).toEqual([`Session link created: ${session}`]);
  });

  it('has no form, no link into the dashboard, and headers that keep it private', async () => {
    const session = await openSession();
    await other.mustSend(session, 'Deploy?', { choices: ['yes', 'no'] });
    const answer = await visit(await share(session));
    const body = answer.text.slice(answer.text.indexOf('<body'));
    expect(body.replace(/<[^>]+>/g, '')).toContain('Choices: yes, no');
    for (const part of ['<form', '<button class="button', '/dashboard', 'Reply']) expect(body).not.toContain(part);
    expect(answer.headers).toMatchObject({
      'cache-control': 'no-store',
      'referrer-policy': 'no-referrer',
      'x-frame-options': 'DENY',
    });
    expect(answer.headers['content-security-policy']).toContain("form-action 'none'");
    expect(answer.headers['set-cookie']).toBeUndefined();
    expect(answer.text).toContain('<meta name="robots" content="noindex">');
  });

  it('shows neither the events nor the files that came later, whatever the address asks for', async () => {
    const session = await openSession();
    await other.mustSend(session, 'early');
    const early = await other.mustUpload();
    await other.mustSend(session, [{ type: 'file', attachment_id: early }]);
    const link = await share(session);
    const late = await other.mustUpload();
    await other.mustSend(session, [{ type: 'file', attachment_id: late }]);
    for (const asked of ['?before=99', '?after=4', '?around=5', '?after=99', '?before=0', '?after=x', '?around=-1'])
      expect(Math.max(0, ...sequencesIn(await visit(link + asked))), asked).toBeLessThanOrEqual(4);
    expect(await Promise.all([4, 5].map(async (number) => (await visit(`${link}/events/${number}`)).status))).toEqual([
      200, 404,
    ]);
    const file = await visit(`${link}/attachments/${early}`);
    expect([file.status, (await visit(`${stage.web}${file.headers['location']}`)).status]).toEqual([303, 200]);
    for (const id of [late, 'att_01HZZZZZZZZZZZZZZZZZZZZZZZ', 'none'])
      expect((await visit(`${link}/attachments/${id}`)).status, id).toBe(404);
  });

  it('shows an account that was only invited no more than the account sees, and nothing later', async () => {
    const session = await other.mustCreate({ topic: 'Hidden' });
    await other.mustSend(session, 'before the invitation');
    await other.post(`/sessions/${session}/invite`, { invite: [mine.handle] });
    const link = await share(session);
    await other.mustSend(session, 'after the invitation');
    await other.mustEnd(session);
    const answer = await visit(link);
    expect(answer.status).toBe(200);
    expect(answer.text).toContain(mine.handle);
    for (const part of ['before the invitation', 'after the invitation', 'ended the session'])
      expect(answer.text).not.toContain(part);
  });

  it('shows an account that was only invited the same after it has joined', async () => {
    const session = await other.mustCreate({ topic: 'Hidden' });
    const hidden = await other.mustUpload();
    await other.mustSend(session, [
      { type: 'text', text: 'before the invitation' },
      { type: 'file', attachment_id: hidden },
    ]);
    await other.mustInvite(session, mine.handle);
    const link = await share(session);
    const before = await visit(link);
    await mine.mustJoin(session);
    await other.mustSend(session, 'after the invitation');
    await other.mustEnd(session);
    const after = await visit(link);
    expect([sequencesIn(before), sequencesIn(after)]).toEqual([[2], [2]]);
    expect(after.text).not.toContain('before the invitation');
    for (const path of ['/events/1', '/events/3', `/attachments/${hidden}`])
      expect((await visit(link + path)).status, path).toBe(404);
    expect(sequencesIn(await visit(await share(session)))).toEqual([1, 2, 3, 4, 5]);
  });

  it('shows the message of a session that had only one, and its file, to the end of what the account saw', async () => {
    const file = await other.mustUpload();
    const session = await other.mustCreate({
      invite: [mine.handle],
      initial_message: {
        content: [
          { type: 'text', text: 'only this' },
          { type: 'file', attachment_id: file },
        ],
      },
      end_after_send: true,
    });
    const link = await share(session);
    await other.mustReopen(session, { initial_message: { content: 'and more' } });
    await mine.mustJoin(session);
    const answer = await visit(link);
    expect([answer.text.includes('only this'), answer.text.includes('and more')]).toEqual([true, false]);
    expect((await visit(`${link}/attachments/${file}`)).status).toBe(303);
  });

  it('shows what any agent of the account saw then, wherever they are now', async () => {
    const session = await other.mustCreate({ topic: 'Hidden' });
    const sister = await createActor(stage.desk.place, stage.operator, 'sister', { owner: mine.owner });
    await other.mustInvite(session, mine.handle);
    await mine.mustJoin(session);
    await mine.mustLeave(session);
    await other.mustSend(session, 'between');
    await other.mustInvite(session, sister.handle);
    await other.mustEnd(session);
    const link = await share(session);
    await other.mustReopen(session, { initial_message: { content: 'again' } });
    await mine.mustJoin(session);
    await sister.mustJoin(session);
    expect(sequencesIn(await visit(link))).toEqual([1, 2, 3, 5, 6]);
    expect(sequencesIn(await visit(`${link}?before=6`))).toEqual([1, 2, 3, 5]);
  });

  it('made from the view of one agent shows that view, and says so first', async () => {
    const session = await openSession();
    const sister = await createActor(stage.desk.place, stage.operator, 'sister', { owner: mine.owner });
    await other.mustInvite(session, sister.handle);
    await sister.mustJoin(session);
    const early = await other.mustUpload();
    await other.mustSend(session, [{ type: 'file', attachment_id: early }]);
    await sister.mustLeave(session);
    const late = await other.mustUpload();
    await other.mustSend(session, [
      { type: 'text', text: 'after it left' },
      { type: 'file', attachment_id: late },
    ]);
    const view = `${sessionPath(session)}?as=${sister.name}`;
    const shown = await ada.open(view);
    const form = `${linksPath(session)}?as=${sister.name}`;
    expect(bodyOf(shown)).toContain(`href="${form}"`);
    expect((await ada.open(form)).text).toContain(`everything that ${sister.handle} can see`);
    const made = await ada.press(form, CREATE);
    expect(new URL(made.url).search).toBe(`?as=${sister.name}`);
    const link = linkIn(made.answer.text);
    await other.mustInvite(session, sister.handle);
    await sister.mustJoin(session);
    const answer = await visit(link);
    expect([sequencesIn(answer), sequencesIn(shown.answer)]).toEqual([upTo(6), upTo(6)]);
    expect(answer.text).not.toContain('after it left');
    for (const path of ['/events/7', `/attachments/${late}`]) expect((await visit(link + path)).status, path).toBe(404);
    expect((await visit(`${link}/attachments/${early}`)).status).toBe(303);
    expect(sequencesIn(await visit(await share(session)))).toEqual(upTo(9));
    for (const path of [linksPath(session), LIST]) {
      const links = (await ada.open(path)).text.match(/up to event \d+(, as seen by \S+)?/g);
      expect(links, path).toEqual(['up to event 9', `up to event 6, as seen by ${sister.handle}`]);
    }
  });

  it('is not made from the view of an agent that was only invited', async () => {
    const session = await openSession();
    await other.mustSend(session, 'among us');
    const sister = await createActor(stage.desk.place, stage.operator, 'sister', { owner: mine.owner });
    await other.mustInvite(session, sister.handle);
    const path = `${linksPath(session)}?as=${sister.name}`;
    const page = await ada.open(path);
    expect(page.text).toContain(`${sister.handle} has not joined this session, so its view can’t be shared.`);
    expect(bodyOf(page)).toContain(`href="${linksPath(session)}"`);
    expect(bodyOf(page)).not.toContain('Create link');
    const sent = await request(`${stage.web}${path}`, {
      method: 'POST',
      headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookieOf(ada) },
      body: formBody({ csrf: await csrfOf(ada), key: 'k', days: '7' }),
    });
    expect([sent.status, bodyOf(await ada.open(LIST)).includes('No links')]).toEqual([400, true]);
    expect((await ada.open(`${linksPath(session)}?as=nobody`)).answer.status).toBe(404);
  });

  it('is read from its beginning, in parts', async () => {
    const session = await openSession();
    for (let index = 0; index < 60; index += 1) await other.mustSend(session, `message ${index}`);
    const link = await share(session);
    const seen: number[] = [];
    let next: string | undefined = link;
    while (next !== undefined) {
      const part: Answer = await visit(next);
      seen.push(...sequencesIn(part));
      const found: string | undefined = /rel="next" href="([^"]+)"/.exec(part.text)?.[1];
      next = found === undefined ? undefined : `${stage.web}${found}`;
    }
    expect(seen).toEqual(upTo(62));
    const back = await visit(`${link}?before=51`);
    expect(sequencesIn(back)).toEqual(upTo(50));
  });

  it('ends at its time, and another one does not end with it', async () => {
    const session = await openSession();
    const [short, long] = [await share(session, '1'), await share(session, '30')];
    clock.advance(DAY_MS - 1);
    expect((await visit(short)).status).toBe(200);
    clock.advance(1);
    expect([(await visit(short)).status, (await visit(long)).status]).toEqual([404, 200]);
    clock.advance(29 * DAY_MS);
    expect((await visit(long)).status).toBe(404);
    const again = await stage.enterLocally(mine.owner);
    expect(bodyOf(await again.open(LIST))).toContain('No links');
  });

  it('can be revoked, on the page of its session and in the list of all', async () => {
    const [one, two] = [await openSession('First'), await openSession('Second')];
    const [first, second] = [await share(one), await share(two)];
    const page = await ada.press(linksPath(one), REVOKE);
    expect([pathOf(page), page.text.includes('The link was revoked.')]).toEqual([linksPath(one), true]);
    expect([(await visit(first)).status, (await visit(second)).status]).toEqual([404, 200]);
    const list = await ada.open(LIST);
    expect([list.text.includes('First'), list.text.includes('Second')]).toEqual([false, true]);
    // The name of its button, which a screen reader reads.
    expect(list.text).toMatch(/Revoke the link to Second created \w+ \d+, \d{4} , \d\d:\d\d:\d\d/);
    expect(pathOf(await ada.press(LIST, REVOKE))).toBe(LIST);
    expect((await visit(second)).status).toBe(404);
    expect(await activitiesOf(ada)).toEqual([
      `Session link revoked: ${two}`,
      `Session link revoked: ${one}`,
      `Session link created: ${two}`,
      `Session link created: ${one}`,
    ]);
  });

  it('that is revoked once more leads to the list of all', async () => {
    const session = await openSession();
    await share(session);
    const page = await ada.open(linksPath(session));
    await ada.browser.submit(page, mustFindForm(page, REVOKE), {}, REVOKE);
    const again = await ada.browser.submit(page, mustFindForm(page, REVOKE), {}, REVOKE);
    expect([pathOf(again), again.text.includes('The link was revoked.')]).toEqual([LIST, true]);
  });

  it('cannot be revoked, seen or made by someone else', async () => {
    const session = await openSession();
    const link = await share(session);
    const eve = await stage.enter('eve');
    const id = /name="id" value="(\w+)"/.exec(bodyOf(await ada.open(LIST)))?.[1] ?? '';
    const form = mustFindForm(await eve.open('/dashboard/agents'), /^sign out$/i);
    const post = (path: string, fields: Record<string, string>) =>
      request(`${stage.web}${path}`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookieOf(eve) },
        body: formBody({ csrf: String(form.values['csrf']), ...fields }),
      });
    expect((await post(`${LIST}/revoke`, { id })).status).toBe(303);
    expect((await visit(link)).status).toBe(200);
    expect((await post(linksPath(session), { days: '7', key: 'k' })).status).toBe(404);
    expect((await eve.open(linksPath(session))).answer.status).toBe(404);
    expect(bodyOf(await eve.open(LIST))).toContain('No links');
    const participant = await stage.enterLocally(other.owner);
    expect(bodyOf(await participant.open(linksPath(session)))).not.toContain('Links to this session');
    expect((await visit(link)).status).toBe(200);
    expect(await activitiesOf(eve)).toEqual([]);
  });

  it('is made once by a double click, and the form does not show it again later', async () => {
    const session = await openSession();
    const page = await ada.open(linksPath(session));
    const form = mustFindForm(page, CREATE);
    const [first, second] = [
      await ada.browser.submit(page, form, {}, CREATE),
      await ada.browser.submit(page, form, {}, CREATE),
    ];
    expect(linkIn(second.answer.text)).toBe(linkIn(first.answer.text));
    expect(bodyOf(second).match(/>Revoke</g)).toHaveLength(1);
    expect(await activitiesOf(ada)).toHaveLength(1);
  });

  it('stops working while its account is suspended, and ends with the account', async () => {
    const links = [];
    const [suspended, removed] = [await openSession(), await openSession()];
    links.push(await share(suspended), await share(removed));
    await operate(stage.operator, 'PATCH', `/accounts/${mine.owner}`, { suspended: true });
    expect((await visit(links[0] ?? '')).status).toBe(404);
    await operate(stage.operator, 'PATCH', `/accounts/${mine.owner}`, { suspended: false });
    expect((await visit(links[0] ?? '')).status).toBe(200);
    await operate(stage.operator, 'DELETE', `/accounts/${mine.owner}`);
    expect(await Promise.all(links.map(async (link) => (await visit(link)).status))).toEqual([404, 404]);
  });

  it('ends when the operator has its owner set a new password: an intruder may have made it', async () => {
    const eve = await stage.enter('eve');
    await eve.press('/dashboard/new-session', /^start session$/i, { handles: mine.handle, message: 'hello' });
    const session = /sess_\w{26}/.exec(bodyOf(await eve.open('/dashboard/sessions')))?.[0] ?? '';
    const link = await share(session, '7', eve);
    expect((await visit(link)).status).toBe(200);
    const { url } = (await operate(stage.operator, 'POST', `/accounts/${eve.username}/password-links`)) as {
      url: string;
    };
    const owner = openBrowser();
    const page = await owner.open(url);
    const values = { password: 'a new password 1' };
    await owner.submit(page, mustFindForm(page, /^set password$/i), values, /^set password$/i);
    expect((await visit(link)).status).toBe(404);
  });

  it('is in the data that its owner downloads, without its address', async () => {
    const session = await openSession();
    const link = await share(session);
    const form = mustFindForm(await ada.open('/dashboard/settings'), /^download your data$/i);
    const { text } = (
      await ada.browser.submit(await ada.open('/dashboard/settings'), form, {}, /^download your data$/i)
    ).answer;
    expect(JSON.parse(text)['share_links']).toEqual([
      {
        session_id: session,
        last_sequence: 2,
        created_at: clock.now(),
        expires_at: clock.now() + 7 * DAY_MS,
        seen_by: null,
      },
    ]);
    expect(text).not.toContain(link.slice(-43));
  });

  it('can be made a hundred times by an account, even if forms arrive at once', async () => {
    const session = await openSession();
    const csrf = await csrfOf(ada);
    for (let made = 0; made < 98; made += 1) {
      const { status } = await request(`${stage.web}${linksPath(session)}`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookieOf(ada) },
        body: formBody({ csrf, key: `form-${made}`, days: '7' }),
      });
      expect(status).toBe(303);
    }
    const pages = await Promise.all([1, 2, 3].map(() => ada.open(linksPath(session))));
    const send = (page: Page) => ada.browser.submit(page, mustFindForm(page, CREATE), {}, CREATE);
    const sent = await Promise.all(pages.map(send));
    const refused = sent.filter(({ text }) => text.includes('You have 100 links. Revoke one first.'));
    expect(refused.map(({ answer }) => [answer.status, linkIn(answer.text)])).toEqual([[403, 'no link']]);
    const last = pages[sent.findIndex((page) => !refused.includes(page))] as Page;
    expect(linkIn((await send(last)).answer.text)).not.toBe('no link');
    await ada.press(linksPath(session), REVOKE);
    expect(await share(session)).not.toBe('no link');
  });

  it('is not made for a session of which its owner sees nothing', async () => {
    const session = await mine.mustCreate({ topic: 'Empty' });
    const refused = await ada.press(linksPath(session), CREATE);
    expect([refused.answer.status, linkIn(refused.answer.text)]).toEqual([400, 'no link']);
    expect(refused.text).toContain('There is nothing to share yet.');
    expect(bodyOf(await ada.open(LIST))).toContain('No links');
  });

  it('answers HEAD like GET, without a body', async () => {
    const session = await openSession();
    const file = await other.mustUpload();
    await other.mustSend(session, [{ type: 'file', attachment_id: file }]);
    const link = await share(session);
    const paths = ['', '/events/3', `/attachments/${file}`, '/events/9'];
    const unknown = `${stage.web}/shared/${'x'.repeat(43)}`;
    for (const url of [...paths.map((path) => link + path), unknown]) {
      const [get, head] = [await visit(url), await request(url, { method: 'HEAD' })];
      const without = ({ headers, status }: Answer) => [
        status,
        { ...headers, date: '', 'x-request-id': '', location: headers['location']?.split('?')[0] },
      ];
      expect([url, ...without(head), head.text]).toEqual([url, ...without(get), '']);
    }
  });

  it('an unknown and a revoked one get the same answer', async () => {
    const session = await openSession();
    const link = await share(session);
    await ada.press(LIST, REVOKE);
    const answers = [
      await visit(link),
      await visit(`${stage.web}/shared/${'x'.repeat(43)}`),
      await visit(`${stage.web}/shared/none`),
      await visit(`${stage.web}/shared/%00`),
      await visit(`${stage.web}/shared/${'x'.repeat(3_000)}`),
    ];
    for (const { status, text } of answers.slice(0, 4)) expect([status, text.includes(UNKNOWN)]).toEqual([404, true]);
    const without = (answer: Answer | undefined) => [
      answer?.text,
      { ...answer?.headers, date: '', 'x-request-id': '' },
    ];
    expect(without(answers[1])).toEqual(without(answers[0]));
    expect(answers.at(-1)?.status).toBeGreaterThanOrEqual(400);
  });
});

describe('Without links', () => {
  it('a service with shareLinks off offers none, and existing ones do not work', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'asp-share-'));
    const schema = TEST_STORE === 'postgres' ? takeSchema() : undefined;
    const store = { databaseUrl: schema?.url, ...(schema === undefined && { data: { directory: folder } }) };
    let running = await openStage(store);
    try {
      const owner = await createActor(running.desk.place, running.operator, 'owner');
      const { session_id: session } = (
        await owner.post('/sessions', { topic: 'Mine', initial_message: { content: 'hello' } })
      ).json as { session_id: string };
      const before = await running.enterLocally(owner.owner);
      const made = await before.press(linksPath(session), CREATE);
      const shared = /\/shared\/[\w-]{43}/.exec(made.answer.text)?.[0] ?? '';
      expect((await visit(running.web + shared)).status).toBe(200);
      await running.close();
      running = await openStage({ ...store, shareLinks: 'off' });
      expect((await visit(running.web + shared)).status).toBe(404);
      const visitor = await running.enterLocally(owner.owner);
      expect(bodyOf(await visitor.open(sessionPath(session)))).not.toContain(linksPath(session));
      for (const path of ['/dashboard/settings', '/dashboard/go'])
        expect(bodyOf(await visitor.open(path)), path).not.toContain(LIST);
      for (const path of [linksPath(session), LIST]) expect((await visitor.open(path)).answer.status).toBe(404);
      const late = await request(`${running.web}${linksPath(session)}`, {
        method: 'POST',
        headers: { 'content-type': 'application/x-www-form-urlencoded', cookie: cookieOf(visitor) },
        body: formBody({ csrf: await csrfOf(visitor), key: 'k', days: '7' }),
      });
      expect(late.status).toBe(404);
    } finally {
      await running.close();
      await schema?.drop();
      await rm(folder, { recursive: true });
    }
  });
});
