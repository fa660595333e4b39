import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { OWN_RATE_LIMIT } from '../../../src/wire/limit.js';
import { callApi } from '../../support/actors.js';
import { request } from '../../support/http.js';
import { text } from '../../support/json.js';
import { until } from '../../support/until.js';
import { createFeed, type Feed } from './event-source.js';
import { cookieOf, openStage, type Stage, type Visitor } from './stage.js';

const STREAMS_MAX = 200;
const PER_ACCOUNT_MAX = 8;

let stage: Stage;
let feeds: Feed[] = [];
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false, isBehindProxy: true });
});
afterAll(() => stage.close());
afterEach(async () => {
  for (const feed of feeds) feed.close();
  await Promise.all(feeds.map(({ ended }) => ended));
  feeds = [];
});

const enterMany = async (name: string, count: number): Promise<Visitor[]> => {
  const visitors: Visitor[] = [];
  for (let index = 0; index < count; index += 1) visitors.push(await stage.enter(`${name}${index}`));
  return visitors;
};
/** Opens a stream as the proxy passes it on. Undefined: it was refused. */
const open = async (visitor: Visitor, address: string, path = '/dashboard/live'): Promise<Feed | undefined> => {
  const headers = { cookie: cookieOf(visitor), 'x-forwarded-for': address };
  const feed = await createFeed(`${stage.web}${path}`, headers);
  feeds.push(feed);
  return feed.headers['content-type']?.startsWith('text/event-stream') === true ? feed : undefined;
};
const mustOpen = async (...parts: Parameters<typeof open>): Promise<Feed> => {
  const feed = await open(...parts);
  if (feed === undefined) throw new Error('the stream was refused');
  return feed;
};
/** Opens all streams that the accounts may have, in turn. */
const fill = async (visitors: readonly Visitor[], addressOf: (index: number) => string): Promise<Feed[]> => {
  const all: Feed[] = [];
  for (const [index, visitor] of visitors.entries())
    for (let count = 0; count < PER_ACCOUNT_MAX && all.length < STREAMS_MAX; count += 1)
      all.push(await mustOpen(visitor, addressOf(index)));
  return all;
};
const isOver = (feed: Feed): Promise<boolean> =>
  Promise.race([feed.ended.then(() => true), new Promise<boolean>((resolve) => setImmediate(() => resolve(false)))]);
const countOver = async (all: readonly Feed[]): Promise<number> =>
  (await Promise.all(all.map(isOver))).filter((over) => over).length;

describe('When all live streams are taken', () => {
  let crowd: Visitor[];
  let newcomers: Visitor[];
  beforeAll(async () => {
    crowd = await enterMany('crowd', STREAMS_MAX / PER_ACCOUNT_MAX);
    newcomers = await enterMany('new', 3);
  });

  it('another account gets one, and the oldest of the account with the most ends, at whichever address', async () => {
    const all = await fill(crowd, (index) => `198.51.100.${index + 1}`);
    const [first, second] = newcomers as [Visitor, Visitor, Visitor];
    const feed = await mustOpen(first, '203.0.113.1');
    await until('one has ended', async () => (await countOver(all)) === 1);
    expect(await isOver(all[0] as Feed)).toBe(true);
    expect(all[0]?.text()).not.toContain('event: end');
    await mustOpen(second, '203.0.113.2');
    await until('another has ended', async () => (await countOver(all)) === 2);
    expect(await isOver(feed)).toBe(false);
    // The account that lost one has as many as the others would have afterward.
    expect(await open(crowd[0] as Visitor, '198.51.100.1')).toBeUndefined();
    expect(await countOver(all)).toBe(2);
  });

  it('many accounts at one address take none from those at other addresses', async () => {
    const [first, second, third] = newcomers as [Visitor, Visitor, Visitor];
    const [one, two] = [await mustOpen(first, '203.0.113.1'), await mustOpen(second, '203.0.113.2')];
    const all: Feed[] = [];
    for (const visitor of crowd)
      for (let count = 0; count < PER_ACCOUNT_MAX; count += 1) {
        const feed = await open(visitor, '198.51.100.1');
        if (feed !== undefined) all.push(feed);
      }
    const untilOpen = (count: number): Promise<boolean> =>
      until(`${count} are open`, async () => all.length - (await countOver(all)) === count);
    await untilOpen(STREAMS_MAX - 2);
    const three = await mustOpen(third, '203.0.113.3');
    await untilOpen(STREAMS_MAX - 3);
    expect(await countOver([one, two, three])).toBe(0);
    for (let count = 1; count < PER_ACCOUNT_MAX; count += 1) await mustOpen(first, '203.0.113.1');
    await untilOpen(STREAMS_MAX - 2 - PER_ACCOUNT_MAX);
    // At the same address, the newcomer takes the place of an account that has more.
    const fourth = await stage.enter('fourth');
    await mustOpen(fourth, '198.51.100.1');
    await untilOpen(STREAMS_MAX - 3 - PER_ACCOUNT_MAX);
    expect(await countOver([one, two, three])).toBe(0);
  });
});

it('an account has eight at most, and opens a limited number of them a minute', async () => {
  const limited = await openStage({ areLimitsOn: true });
  try {
    const [ada, eve] = [await limited.enter('ada'), await limited.enter('eve')];
    const isAdmitted = async (visitor: Visitor, path = '/dashboard/live'): Promise<boolean> => {
      const feed = await createFeed(`${limited.web}${path}`, { cookie: cookieOf(visitor) });
      feeds.push(feed);
      return feed.headers['content-type']?.startsWith('text/event-stream') === true;
    };
    for (let count = 0; count < PER_ACCOUNT_MAX; count += 1) expect(await isAdmitted(ada)).toBe(true);
    expect(await isAdmitted(ada)).toBe(false);
    const headers = { accept: 'application/json', cookie: cookieOf(ada) };
    const ask = () => request(`${limited.web}/dashboard/live`, { headers });
    for (let asked = PER_ACCOUNT_MAX + 1; asked < OWN_RATE_LIMIT.openStream.count; asked += 1)
      expect((await ask()).status).toBe(200);
    const refused = await ask();
    expect([refused.status, Number(refused.headers['retry-after']) > 0]).toEqual([429, true]);
    expect(await isAdmitted(eve)).toBe(true);
    const { accessToken } = await limited.connect(eve, 'app');
    const { json } = await callApi(limited.desk.place.baseUrl, accessToken, 'POST', '/sessions', { topic: 'own' });
    const transcript = `/dashboard/sessions/${text(json, 'session_id')}/live?after=0`;
    for (let count = 0; count < PER_ACCOUNT_MAX; count += 1) expect(await isAdmitted(eve, transcript)).toBe(true);
    expect(await isAdmitted(eve, transcript)).toBe(false);
  } finally {
    await limited.close();
  }
});
