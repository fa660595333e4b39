import { get as httpGet, type IncomingMessage } from 'node:http';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { systemClock } from '../../../src/kit/clock.js';
import { createTurnableClock } from '../../../src/kit/turnable-clock.js';
import { OWN_RATE_LIMIT } from '../../../src/wire/limit.js';
import { type Actor, createActor } from '../../support/actors.js';
import type { Page } from '../../support/browser.js';
import { request } from '../../support/http.js';
import { until } from '../../support/until.js';
import { bodyOf, cookieOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

const HOSTILE = '<script>alert(1)</script><!--rest--></ol><img src=x onerror=alert(2)>';

const DAY_MS = 24 * 60 * 60_000;

let stage: Stage;
let ada: Visitor;
let mine: Actor;
let other: Actor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false });
});
afterAll(() => stage.close());
beforeEach(async () => {
  mine = await createActor(stage.desk.place, stage.operator, 'mine');
  other = await createActor(stage.desk.place, stage.operator, 'bob');
  ada = await stage.enterLocally(mine.owner);
});

const at = (session: string): string => `/dashboard/sessions/${session}`;
const print = (session: string, query = ''): Promise<Page> => ada.open(`${at(session)}/print${query}`);
const sequencesIn = (page: Page): number[] =>
  [...bodyOf(page).matchAll(/data-sequence="(\d+)"/g)].map(([, number]) => Number(number));
const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);
const openSession = async (topic = 'Release'): Promise<string> => {
  const session = await mine.mustCreate({ topic, invite: [other.handle] });
  await other.mustJoin(session);
  return session;
};

describe('The page for printing a session', () => {
  it('has all of it, each event once and each day once, under its topic and participants', async () => {
    const session = await openSession('The <b>plan</b>');
    for (let index = 0; index < 118; index += 1) await other.mustSend(session, `message ${index}`);
    expect(bodyOf(await ada.open(at(session)))).toContain(`href="${at(session)}/print"`);
    const page = await print(session);
    expect(sequencesIn(page)).toEqual(upTo(120));
    expect(bodyOf(page).match(/<li class="day">/g)).toHaveLength(1);
    for (const part of ['The <b>plan</b>', mine.handle, other.handle, 'message 117', 'Complete up to event 120.'])
      expect(page.text).toContain(part);
    expect(page.answer.text.trimEnd().endsWith('</html>')).toBe(true);
  });

  it('has long texts and choices in full, and nothing to press', async () => {
    const session = await openSession();
    await other.mustSend(session, `${'word '.repeat(4_000)}the last word`);
    await other.mustSend(session, 'Deploy?', { choices: ['yes', 'no'] });
    const page = await print(session);
    expect(page.text).toContain('the last word');
    const log = bodyOf(page).slice(bodyOf(page).indexOf('aria-label="Transcript"')).split('</section>')[0] ?? '';
    expect(log.replace(/<[^>]+>/g, '')).toContain('Choices: yes, no');
    expect(log).not.toMatch(/<form|<button class="button|class="act/);
  });

  it('shows hostile text as text, with the hours that the reader prefers', async () => {
    const session = await openSession(HOSTILE);
    await other.mustSend(session, HOSTILE);
    const page = await print(session);
    expect(page.text).toContain(HOSTILE);
    expect(bodyOf(page)).not.toMatch(/<script>alert|<img src=x|<!--rest/);
    const preferences = `asp_preferences_${new URL(stage.web).port}=system:12`;
    const { text } = await request(page.url, { headers: { cookie: `${cookieOf(ada)}; ${preferences}` } });
    expect(text.match(/data-form="clock">[\d:]+\s[AP]M</g)?.length).toBeGreaterThanOrEqual(3);
    expect(page.answer.headers['content-security-policy']).toContain("default-src 'none'");
  });

  it('has what the page that leads to it shows: the account’s view, or that of one agent', async () => {
    const session = await openSession();
    const sister = await createActor(stage.desk.place, stage.operator, 'sister', { owner: mine.owner });
    await other.mustInvite(session, sister.handle);
    await sister.mustJoin(session);
    await sister.mustLeave(session);
    await other.mustSend(session, 'after it left');
    const query = `?as=${sister.name}`;
    expect(bodyOf(await ada.open(at(session) + query))).toContain(`href="${at(session)}/print${query}"`);
    const [whole, narrow] = [await print(session), await print(session, query)];
    expect([sequencesIn(whole), sequencesIn(narrow)]).toEqual([upTo(6), upTo(5)]);
    expect(narrow.text).toContain(`As ${sister.handle} sees it`);
    await mine.mustLeave(session);
    await other.mustSend(session, 'after all left');
    expect(sequencesIn(await print(session))).toEqual(upTo(7));
  });

  it('is continued on another one if the session is very long', async () => {
    const session = await openSession();
    for (let index = 0; index < 28; index += 1) await other.mustSend(session, `${index} ${'x'.repeat(200_000)}`);
    const first = await print(session);
    const rest = /This page ends with event (\d+) of 30\. <a href="([^"]+)"/.exec(bodyOf(first));
    expect(sequencesIn(first)).toEqual(upTo(Number(rest?.[1])));
    const second = await ada.open(rest?.[2] ?? 'no link');
    expect([...sequencesIn(first), ...sequencesIn(second)]).toEqual(upTo(30));
    expect(second.text).toContain('Complete up to event 30.');
  });

  it('counts as a download of the session', async () => {
    const limited = await openStage({ areLimitsOn: true });
    try {
      const eve = await limited.enter('eve');
      const second = await createActor(limited.desk.place, limited.operator, 'second');
      const values = { agent: 'main', handles: second.handle, message: 'hello' };
      const path = pathOf(await eve.press('/dashboard/new-session', /^start session$/i, values));
      for (let count = 0; count < OWN_RATE_LIMIT.exportSession.count; count += 1)
        expect((await eve.open(`${path}/${count % 2 === 0 ? 'print' : 'download'}`)).answer.status).toBe(200);
      expect((await eve.open(`${path}/print`)).answer.status).toBe(429);
    } finally {
      await limited.close();
    }
  });

  it('does not call itself complete if the session is deleted while it is sent', async () => {
    const clock = createTurnableClock(systemClock);
    const own = await openStage({ areLimitsOn: false, clock, retentionMs: DAY_MS });
    try {
      const host = await createActor(own.desk.place, own.operator, 'host');
      const viewer = await own.enterLocally(host.owner);
      const session = await host.mustCreate({ topic: 'Long' });
      // Less than a page may have, and in markup more than the sockets hold.
      for (let index = 0; index < 15; index += 1) await host.mustSend(session, '&'.repeat(250_000));
      await host.mustEnd(session);
      const headers = { cookie: cookieOf(viewer) };
      const begun = await new Promise<IncomingMessage>((resolve) => {
        httpGet(`${own.web}${at(session)}/print`, { headers }, resolve);
      });
      // Nothing is read yet, so the service waits with the rest.
      await until('the session is gone', async () => {
        clock.advance(DAY_MS);
        return (await viewer.open(at(session))).answer.status === 404;
      });
      let page = '';
      for await (const part of begun) page += String(part);
      expect(page).not.toContain('Complete up to event');
      expect(page).toMatch(/This page ends with event \d+ of \d+\./);
    } finally {
      await own.close();
      clock.stop();
    }
  });

  it('is an unknown address for sessions of others, and says that an empty one is empty', async () => {
    const eve = await stage.enter('eve');
    const session = await openSession();
    expect((await eve.open(`${at(session)}/print`)).answer.status).toBe(404);
    const empty = await mine.mustCreate({ topic: 'Empty' });
    expect((await print(empty)).text).toContain('There is nothing here.');
    expect((await print(session, '?as=nobody')).answer.status).toBe(404);
  });
});
