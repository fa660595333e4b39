import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createPageBounds } from '../../../src/service/web/dashboard/page-bounds.js';
import { OWN_RATE_LIMIT } from '../../../src/wire/limit.js';
import { type Actor, createActor, operate } from '../../support/actors.js';
import { openBrowser } from '../../support/browser.js';
import { request } from '../../support/http.js';
import { cookieOf, openStage, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
let mine: Actor;
let bob: Actor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: true });
  const { operator } = stage;
  mine = await createActor(stage.desk.place, operator, 'mine', { owner: 'ada' });
  bob = await createActor(stage.desk.place, operator, 'bob');
  ada = await stage.enterLocally('ada');
});
afterAll(() => stage.close());

/** Past the windows of all pages that were opened before. */
const waitAMinute = (): void => stage.desk.clock.advance(61_000);
const refusalOf = (answer: { status: number; headers: Readonly<Record<string, unknown>> }): unknown[] => [
  answer.status,
  answer.headers['retry-after'],
];

describe('Pages, which may take long to render, are limited:', () => {
  it('the dashboard opens 300 a minute for an account, and says when it opens the next one', async () => {
    waitAMinute();
    const { count } = OWN_RATE_LIMIT.viewPage;
    for (let opened = 0; opened < count; opened += 1)
      expect((await ada.open('/dashboard/settings/activity')).answer.status).toBe(200);
    const refused = await ada.open('/dashboard/settings/activity');
    expect(refusalOf(refused.answer)).toEqual([429, '60']);
    expect(refused.text).toContain('You opened too many pages. Try again in 60 seconds.');
    waitAMinute();
    expect((await ada.open('/dashboard/settings/activity')).answer.status).toBe(200);
  });

  it('an open page that asks for news is refused only news that it would render', async () => {
    waitAMinute();
    const session = await bob.mustCreate({ topic: 'news', invite: [mine.handle] });
    await mine.mustJoin(session);
    await bob.mustSend(session, 'hello');
    const path = `/dashboard/sessions/${session}`;
    const cookie = cookieOf(ada);
    const headers = { cookie, accept: 'application/json' };
    const poll = (after: number) => request(`${stage.web}${path}/live?after=${after}`, { headers });
    for (let opened = 0; opened < OWN_RATE_LIMIT.viewPage.count; opened += 1) await ada.open('/dashboard/settings');
    expect((await poll(1_000)).status).toBe(200);
    expect(refusalOf(await poll(0))).toEqual([429, '60']);
  });

  it('an address gets 120 public pages of agents a minute, and the same answer for agents that are not public', async () => {
    waitAMinute();
    await operate(stage.operator, 'POST', '/agents', { handle: '@eve.shown', inbound_policy: 'open' });
    const visit = async (handle: string) => (await openBrowser().open(`${stage.web}/agents/${handle}`)).answer;
    for (let opened = 0; opened < OWN_RATE_LIMIT.viewAgentPage.count; opened += 1) await visit('@no.one');
    const refused = await visit('@eve.shown');
    expect(refusalOf(refused)).toEqual([429, '60']);
    expect((await visit('@no.one')).text).toBe(refused.text);
  });

  it('an address gets 300 pages and pictures of shared sessions a minute', async () => {
    waitAMinute();
    const visit = () => request(`${stage.web}/shared/none`);
    for (let opened = 0; opened < OWN_RATE_LIMIT.viewSharedSession.count; opened += 1) await visit();
    expect(refusalOf(await visit())).toEqual([429, '60']);
    waitAMinute();
    expect((await visit()).status).toBe(404);
  });

  const createBounds = () => {
    const { clock } = stage.desk;
    const limits = { take: async () => {}, takeAll: async () => {} };
    return createPageBounds({ clock, limits, settings: { isAddressShared: false } } as never);
  };

  it('a page that is rendered while it is sent takes its turn for each part, and holds none between them', async () => {
    const bounds = createBounds();
    let isClosed = false;
    async function* write(): AsyncGenerator<string> {
      try {
        for (const text of ['one', 'two', 'three']) yield text;
      } finally {
        isClosed = true;
      }
    }
    const parts = bounds.inTurn('a', write())[Symbol.asyncIterator]();
    expect((await parts.next()).value).toBe('one');
    const finish: (() => void)[] = [];
    const hold = () => bounds.forAccount('a', () => new Promise<void>((resolve) => finish.push(resolve)));
    const pages = [hold(), hold()];
    await new Promise((resolve) => setImmediate(resolve));
    expect(finish).toHaveLength(2);
    let hasSecond = false;
    const second = parts.next().finally(() => {
      hasSecond = true;
    });
    await new Promise((resolve) => setImmediate(resolve));
    expect(hasSecond).toBe(false);
    for (const end of finish) end();
    expect((await second).value).toBe('two');
    await parts.return?.();
    expect(isClosed).toBe(true);
    await Promise.all(pages);
  });

  it('a viewer gets two at a time, and the others wait without keeping anyone else waiting', async () => {
    const bounds = createBounds();
    const begun: string[] = [];
    const finish: (() => void)[] = [];
    const view = (account: string, name: string): Promise<void> =>
      bounds.forAccount(account, () => {
        begun.push(name);
        return new Promise<void>((resolve) => finish.push(resolve));
      });
    const pages = [view('a', 'a1'), view('a', 'a2'), view('a', 'a3'), view('b', 'b1')];
    await new Promise((resolve) => setImmediate(resolve));
    expect(begun).toEqual(['a1', 'a2', 'b1']);
    finish.shift()?.();
    await new Promise((resolve) => setImmediate(resolve));
    expect(begun).toEqual(['a1', 'a2', 'b1', 'a3']);
    for (const end of finish) end();
    await Promise.all(pages);
  });
});
