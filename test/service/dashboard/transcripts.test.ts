import { connect } from 'node:net';
import { setTimeout as pause } from 'node:timers/promises';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, actorOf, createActor, operate } from '../../support/actors.js';
import { createTestClock } from '../../support/clock.js';
import { mustGrant } from '../../support/grants.js';
import { type Answer, request } from '../../support/http.js';
import { field, list } from '../../support/json.js';
import { drawPng } from '../../support/pictures.js';
import { createRandom } from '../../support/seeded-random.js';
import { until } from '../../support/until.js';
import { createFeed } from './event-source.js';
import { cookieOf, openStage, type Stage, type Visitor } from './stage.js';

const HOSTILE = '<script>alert(1)</script><img src=x onerror=alert(2)>"\'&\u202etxt.exe';

let stage: Stage;
let ada: Visitor;
let mine: Actor;
let other: Actor;
beforeAll(async () => {
  stage = await openStage({ areLimitsOn: false });
  const { operator } = stage;
  const { place } = stage.desk;
  await operate(operator, 'POST', '/agents', { handle: '@ada.first', inbound_policy: 'open' });
  mine = await createActor(place, operator, 'helper', { owner: 'ada' });
  other = await createActor(place, operator, 'eve');
  ada = await stage.enterLocally('ada');
});
afterAll(() => stage.close());

const get = (path: string, headers: Record<string, string> = {}): Promise<Answer> =>
  request(`${stage.web}${path}`, { headers: { cookie: cookieOf(ada), ...headers } });
const toDataUri = (png: Buffer): string => `data:image/png;base64,${png.toString('base64')}`;
const pathOf = (session: string): string => `/dashboard/sessions/${session}`;
const sequencesOf = (html: string): number[] =>
  [...html.matchAll(/data-sequence="(\d+)"/g)].map(([, number]) => Number(number));
/** Creates a session that both have joined. */
const openSession = async (topic: string): Promise<string> => {
  const session = await mine.mustCreate({ topic, invite: [other.handle] });
  await other.mustJoin(session);
  return session;
};

describe('The list of sessions', () => {
  it('shows state, topic, participants and the last activity, and filters by state', async () => {
    const active = await openSession('The active one');
    const ended = await openSession('The ended one');
    await mine.mustEnd(ended);
    const all = (await get('/dashboard/sessions')).text;
    expect(all.indexOf('The ended one')).toBeLessThan(all.indexOf('The active one'));
    for (const part of [mine.handle, other.handle, 'Ended', '<time datetime="']) expect(all).toContain(part);
    const only = async (state: string) => (await get(`/dashboard/sessions?state=${state}`)).text;
    expect(await only('active')).toContain(active);
    expect(await only('active')).not.toContain(ended);
    expect(await only('ended')).toContain(ended);
    expect(await only('ended')).not.toContain(active);
  });

  it('names the first of several participants, and says to screen readers what the number after it counts', async () => {
    const third = await createActor(stage.desk.place, stage.operator, 'third');
    await mine.mustCreate({ topic: 'Three', invite: [other.handle, third.handle] });
    expect((await get('/dashboard/sessions')).text).toMatch(/@[\w.-]+ \+1<span class="hidden-label"> more<\/span>/);
  });

  it('continues with an opaque cursor, each session once', async () => {
    for (let index = 0; index < 30; index += 1) await mine.mustCreate({ topic: `number ${index}` });
    const seen: string[] = [];
    let path: string | undefined = '/dashboard/sessions';
    while (path !== undefined) {
      const { text: html }: Answer = await get(path);
      seen.push(...[...html.matchAll(/row-link" href="\/dashboard\/sessions\/(sess_\w+)"/g)].map(([, id = '']) => id));
      path = /rel="next" href="([^"]+)"/.exec(html)?.[1];
    }
    expect(new Set(seen).size).toBe(seen.length);
    expect(seen.length).toBeGreaterThan(30);
    expect((await get('/dashboard/sessions?after=nonsense')).status).toBe(400);
  });

  it('has a session once, even if two agents of the account are in it', async () => {
    const sibling = await createActor(stage.desk.place, stage.operator, 'sibling', { owner: mine.owner });
    const acts: readonly ((session: string) => Promise<unknown>)[] = [
      async () => {},
      (session) => sibling.mustJoin(session),
      async (session) => {
        await sibling.mustJoin(session);
        await sibling.mustLeave(session);
      },
    ];
    const sessions: string[] = [];
    for (const act of acts)
      for (const end of [false, true]) {
        const session = await mine.mustCreate({ invite: [sibling.handle] });
        await act(session);
        if (end) await mine.mustEnd(session);
        sessions.push(session);
      }
    for (const state of ['all', 'active', 'ended']) {
      const { text: html } = await get(`/dashboard/sessions?state=${state}`);
      const listed = sessions.map(
        (session) => html.split(`row-link" href="/dashboard/sessions/${session}"`).length - 1,
      );
      const ended = [0, 1, 0, 1, 0, 1];
      const active = [1, 0, 1, 0, 1, 0];
      expect(listed, state).toEqual(state === 'all' ? [1, 1, 1, 1, 1, 1] : state === 'ended' ? ended : active);
    }
  });
});

describe('A transcript', () => {
  it('shows messages and events, newest last, and hostile text as text', async () => {
    const session = await openSession(HOSTILE);
    await other.mustSend(session, HOSTILE);
    const parts = [
      { type: 'text', text: 'a part' },
      { type: 'data', data: { key: HOSTILE } },
      { type: 'file', url: 'https://example.org/"><b>', name: HOSTILE },
      { type: 'image', data_uri: toDataUri(drawPng(8, 8)), name: HOSTILE },
      { type: 'image', data_uri: 'data:image/svg+xml,<svg/>', name: 'no picture' },
    ];
    await other.mustSend(session, parts, { trace: HOSTILE });
    const { text: html, headers } = await get(pathOf(session));
    expect(html).not.toMatch(/<script>alert|<img src=x|<b>"/);
    expect(html).not.toContain('\u202e');
    expect(html).toContain('&lt;script&gt;alert(1)&lt;/script&gt;');
    expect(html).toContain(`<img class="picture" src="${toDataUri(drawPng(8, 8))}"`);
    expect(html).not.toContain('src="data:image/svg');
    expect(html).toMatch(/Image not shown: [^/]*no picture/);
    expect(html).toContain('<summary>Metadata</summary>');
    expect(html).toMatch(/<details class="folded"><summary>Metadata/);
    const sequences = sequencesOf(html);
    expect(sequences).toEqual(sequences.map((_, index) => index + 1));
    expect(headers['content-security-policy']).toMatch(/script-src( 'sha256-[\w+/=]+'){2}; connect-src 'self'$/);
    expect(headers['content-security-policy']).toContain("default-src 'none'");
  });

  it('shows the beginning of a long text, which is complete on its own page', async () => {
    const session = await openSession('long');
    const said = `${'word '.repeat(1500)}its last words`;
    await other.mustSend(session, said);
    const { text: html } = await get(pathOf(session));
    expect(html).not.toContain('its last words');
    const [, path = ''] = /href="([^"]+\/events\/\d+)"/.exec(html) ?? [];
    expect((await get(path)).text).toContain('its last words');
    expect((await get(`${pathOf(session)}/events/999`)).status).toBe(404);
  });

  it('has the text of a message exactly as it was sent, with hidden characters made visible', async () => {
    const session = await openSession('raw');
    await other.mustSend(session, `**bold** ${HOSTILE}\r\nend unseen\u{e0041}`);
    const path = `${pathOf(session)}/events/3`;
    expect((await get(pathOf(session))).text).toContain(`href="${path}?raw=1">Raw`);
    const { text: html } = await get(`${path}?raw=1`);
    const [, code = ''] = /<pre[^>]*><code>(.*?)<\/code>/s.exec(html) ?? [];
    expect(code).toMatch(/^\*\*bold\*\* &lt;script&gt;alert\(1\)&lt;\/script&gt;/);
    expect(code).toContain('<bdi class="odd" data-number="U+202E">\u202e</bdi>txt.exe');
    expect(code).toContain('<bdi class="odd" data-number="U+000D">&#13;</bdi>\nend');
    expect(code).toContain('unseen<bdi class="odd" data-number="U+E0041">\u{e0041}</bdi>');
    expect(html).toContain(`href="${path}">Formatted`);
    expect((await get(path)).text).toContain('<strong>bold</strong>');
  });

  it('links to an attachment through an address that is signed on request', async () => {
    const session = await openSession('files');
    const attachment = await other.mustUpload();
    await other.mustSend(session, [{ type: 'file', attachment_id: attachment }]);
    const { text: html } = await get(pathOf(session));
    const link = `${pathOf(session)}/attachments/${attachment}`;
    expect(html).toContain(`href="${link}"`);
    const sent = await get(link);
    expect(sent.status).toBe(303);
    expect((await request(`${stage.web}${sent.headers['location']}`)).status).toBe(200);
    expect((await get(`${pathOf(session)}/attachments/att_01HZZZZZZZZZZZZZZZZZZZZZZZ`)).status).toBe(404);
  });

  it('groups messages of one sender within five minutes, and folds invitations', async () => {
    const carol = await createActor(stage.desk.place, stage.operator, 'carol');
    const dave = await createActor(stage.desk.place, stage.operator, 'dave');
    const session = await mine.mustCreate({ topic: 'grouped', invite: [other.handle, carol.handle, dave.handle] });
    for (const text of ['first', 'second']) await mine.mustSend(session, text);
    stage.desk.clock.advance(90_000);
    await mine.mustSend(session, 'third');
    stage.desk.clock.advance(300_000);
    await mine.mustSend(session, 'fourth');
    const { text: html } = await get(pathOf(session));
    const continued = [...html.matchAll(/said own( continued)?" id="e(\d+)"/g)].map(([, is, number]) => [
      number,
      is !== undefined,
    ]);
    expect(continued).toEqual([
      ['4', false],
      ['5', true],
      ['6', true],
      ['7', false],
    ]);
    expect([...html.matchAll(/class="gap">([^<]+)<span class="hidden-label"> later</g)].map(([, gap]) => gap)).toEqual([
      '+2 min',
      '+5 min',
    ]);
    expect(html).toMatch(
      /<details class="invitations"><summary><b class="mono">@ada\.[^<]+<\/b> invited 3 agents<\/summary>/,
    );
    expect(sequencesOf(html)).toEqual([1, 2, 3, 4, 5, 6, 7]);
  });

  it('shows only attached pictures in place, with space reserved for them', async () => {
    const session = await openSession('pictures');
    const png = Buffer.alloc(60);
    Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex').copy(png);
    png.writeUInt32BE(640, 16);
    png.writeUInt32BE(480, 20);
    const picture = await other.mustUpload({ filename: 'plot.png', type: 'image/png', bytes: png });
    const notes = await other.mustUpload({ filename: 'notes.txt', type: 'text/plain', bytes: 'notes' });
    await other.mustSend(session, [
      { type: 'image', attachment_id: picture },
      { type: 'image', attachment_id: notes, mime_type: 'image/png' },
      { type: 'image', url: 'https://images.example.org/a.png' },
    ]);
    const { text: html, headers } = await get(pathOf(session));
    const path = `${pathOf(session)}/attachments/${picture}`;
    const shown = `<img class="picture" src="${path}" alt="plot.png" loading="lazy" decoding="async" width="640" height="480">`;
    expect(html).toContain(`<a class="picture-link" href="${path}">${shown}</a>`);
    expect(html.match(/<img /g)).toHaveLength(1);
    expect(headers['content-security-policy']).toContain("img-src data: 'self';");
    const { headers: file } = await request(`${stage.web}${(await get(path)).headers['location']}`);
    expect(file['content-security-policy']).toBe("sandbox; default-src 'none'");
    expect([file['content-type'], file['x-content-type-options']]).toEqual(['image/png', 'nosniff']);
  });

  it('shows no picture that would take a browser hundreds of megabytes', async () => {
    const session = await openSession('bombs');
    const large = drawPng(8, 8);
    large.writeUInt32BE(12_000, 16);
    large.writeUInt32BE(12_000, 20);
    const picture = await other.mustUpload({ filename: 'large.png', type: 'image/png', bytes: large });
    await other.mustSend(session, [
      { type: 'image', data_uri: toDataUri(large), name: 'large' },
      { type: 'image', data_uri: toDataUri(large.subarray(0, 8)), name: 'of unknown size' },
      { type: 'image', attachment_id: picture },
    ]);
    const { text: html } = await get(pathOf(session));
    expect(html).not.toContain('<img ');
    expect(html.match(/Image not shown/g)).toHaveLength(2);
    expect(html).toContain(`<a class="file" href="${pathOf(session)}/attachments/${picture}">`);
  });

  it('shows as many pictures of one message as a browser can hold', async () => {
    const session = await openSession('many pictures');
    const large = drawPng(8, 8);
    large.writeUInt32BE(4_000, 16);
    large.writeUInt32BE(4_000, 20);
    const part = { type: 'image', data_uri: toDataUri(large), name: 'large' } as const;
    for (let count = 0; count < 2; count += 1) await other.mustSend(session, [part, part, part]);
    const { text: html } = await get(pathOf(session));
    expect(html.match(/<img /g)).toHaveLength(4);
    expect(html.match(/Image not shown/g)).toHaveLength(2);
  });

  it('jumps to a message by its number, and to a day', async () => {
    const session = await openSession('jumps');
    for (let index = 0; index < 60; index += 1) await mine.mustSend(session, `day one ${index}`);
    stage.desk.clock.advance(3 * 24 * 60 * 60_000);
    [mine, other] = [mine, other].map((actor) => actorOf(stage.desk.place, actor.handle, actor.credentials)) as [
      Actor,
      Actor,
    ];
    for (let index = 0; index < 60; index += 1) await mine.mustSend(session, `day four ${index}`);
    const day = new Date(stage.desk.clock.now()).toISOString().slice(0, 10);
    const leadsTo = async (query: string) => (await get(`${pathOf(session)}?${query}`)).headers['location'];
    expect(await leadsTo('number=7')).toBe(`${pathOf(session)}?around=7#e7`);
    expect(await leadsTo('number=9999')).toBe(`${pathOf(session)}?around=122#e122`);
    expect(await leadsTo(`date=${day}`)).toBe(`${pathOf(session)}?around=63#e63`);
    expect(await leadsTo('date=1999-01-01')).toBe(`${pathOf(session)}?around=1#e1`);
    expect(await leadsTo('date=2999-01-01')).toBe(`${pathOf(session)}?around=122#e122`);
    expect((await get(`${pathOf(session)}?date=today&number=-1`)).status).toBe(200);
    const beginning = /href="([^"]+)">Beginning</.exec((await get(pathOf(session))).text)?.[1] ?? '';
    expect(sequencesOf((await get(beginning)).text)).toEqual(Array.from({ length: 50 }, (_, index) => index + 1));
    const hidden = await other.mustCreate({ topic: 'not yours' });
    expect((await get(`${pathOf(hidden)}?number=1`)).status).toBe(404);
  });

  it('tells the page of someone who is only invited nothing about hidden messages', async () => {
    const session = await other.mustCreate({ invite: [mine.handle] });
    const shared = await createFeed(`${stage.web}/dashboard/live?of=${session}`, { cookie: cookieOf(ada) });
    const told = (): string[] =>
      [...shared.text().matchAll(/event: session\ndata: (.+)\n/g)].map(([, data = '']) => data);
    await until('the first state', async () => told().length === 1);
    for (let index = 0; index < 3; index += 1) await other.mustSend(session, `hidden ${index}`);
    await other.mustEnd(session);
    await until('the end', async () => told().at(-1) === `${session} 5 0`);
    expect(told()).toEqual([`${session} 1 0`, `${session} 5 0`]);
    shared.close();
  });

  it('leads someone who is only invited to no hidden message, whatever they jump to', async () => {
    const own = await openStage({ areLimitsOn: false });
    const { place, clock } = own.desk;
    const guest = await createActor(place, own.operator, 'guest');
    let host = await createActor(place, own.operator, 'host');
    const owner = await own.enterLocally(guest.owner);
    const path = pathOf(await host.mustCreate({ invite: [guest.handle] }));
    const session = path.split('/').at(-1) ?? '';
    for (let index = 0; index < 3; index += 1) await host.mustSend(session, `hidden ${index}`);
    const ask = (query: string) => request(`${own.web}${path}?${query}`, { headers: { cookie: cookieOf(owner) } });
    const leadsTo = async (query: string) => (await ask(query)).headers['location'];
    for (const query of ['number=9999', 'date=2999-01-01']) expect(await leadsTo(query)).toBe(`${path}?around=1#e1`);
    const shownBefore = async (sequence: number) =>
      (await ask(`before=${sequence}`)).text.replaceAll(`before=${sequence}`, '').replace(/value="[\w-]{22,43}"/g, '');
    expect(await shownBefore(3)).toBe(await shownBefore(9));
    clock.advance(2 * 24 * 60 * 60_000);
    host = actorOf(place, host.handle, host.credentials);
    await host.mustSend(session, 'hidden on another day');
    await host.mustEnd(session);
    const day = new Date(clock.now()).toISOString().slice(0, 10);
    expect(await leadsTo(`date=${day}`)).toBe(`${path}?around=6#e6`);
    await own.close();
  });

  it('shows participants one message with its delivery and its JSON', async () => {
    const session = await openSession('details');
    await mine.mustSend(session, 'asked');
    const { id } = await mine.mustSend(session, HOSTILE);
    expect((await other.post(`/sessions/${session}/taken`, { sequences: [4] })).status).toBe(200);
    stage.desk.clock.advance(3_000);
    await other.mustSend(session, 'answered', { in_reply_to: id });
    const { text: html } = await get(`${pathOf(session)}/events/4`);
    expect(html).toContain(`<span class="mono wrap">${other.handle}</span><span>Taken `);
    expect(html).toContain(`<br>Answered in <a href="${pathOf(session)}?around=5#e5">message 5`);
    expect(html).toMatch(/message 5<\/a> <time [^>]+>[\d:]+<\/time> <span class="soft">\(3\.0 s later\)/);
    expect(html).toMatch(/<span>Taken <time [^>]+>[\d:]+<\/time> <span class="soft">\(within a second\)/);
    expect(html).toContain(`&quot;id&quot;: &quot;${id}&quot;`);
    expect(html).not.toMatch(/<script>alert|<img src=x/);
    await mine.mustLeave(session);
    expect((await get(`${pathOf(session)}/events/4`)).text).not.toContain('Answered in');
  });

  it('says of a reply how long it took, and what its sender reports of model, tokens and cost', async () => {
    const session = await openSession('facts');
    const { id } = await mine.mustSend(session, 'asked');
    stage.desk.clock.advance(4_200);
    const usage = { input_tokens: 12_345, output_tokens: 67 };
    const cost = { amount: 0.00421, currency: 'USD' };
    await other.mustSend(session, 'answered', { in_reply_to: id, model: `<b>${HOSTILE}`, usage, cost });
    const factsOf = async (sequence: number): Promise<string | undefined> => {
      const { text: html } = await get(`${pathOf(session)}/events/${sequence}`);
      return /<section[^>]+"facts">.*?<\/section>/s
        .exec(html)?.[0]
        .replace(/<[^>]+>/g, ' ')
        .replace(/ +/g, ' ');
    };
    expect(await factsOf(3)).toBeUndefined();
    const facts = await factsOf(4);
    for (const fact of ['Reply time 4.2 s after message 3', 'Tokens 12,345 in, 67 out', 'Cost 0.00421 USD'])
      expect(facts).toContain(fact);
    expect(facts).toContain('Model &lt;b&gt;&lt;script&gt;');
    expect(facts).toContain(`The service measures the reply time. The rest is what ${other.handle} reports.`);
    await other.mustSend(session, 'odd', { model: 5, usage: [1], cost: 3, tokens: 'many' });
    expect(await factsOf(5)).toBeUndefined();
    await other.mustSend(session, 'flat', { model: 'm-1', total_tokens: 9, cost_usd: -1 });
    expect(await factsOf(6)).toMatch(/^ Facts Model m-1 Tokens 9 in all This is what /);
    await other.mustSend(session, 'no currency', { cost: { amount: 1, currency: 'credits' } });
    expect(await factsOf(7)).toBeUndefined();
  });

  it('can be viewed as one of your agents, and then shows no more than that agent’s replay', async () => {
    const late = await createActor(stage.desk.place, stage.operator, 'late', { owner: 'ada' });
    const session = await openSession('two views');
    await mine.mustSend(session, 'before');
    await mine.mustInvite(session, late.handle);
    await other.mustSend(session, 'not for the late one');
    const { text: html } = await get(pathOf(session));
    const path = `${pathOf(session)}?as=${late.name}`;
    expect(html).toContain(`<a href="${path}"><span class="mono">${late.handle}</span></a>`);
    const { text: shown } = await get(path);
    expect([sequencesOf(html), sequencesOf(shown)]).toEqual([[1, 2, 3, 4, 5], [4]]);
    expect(shown).toContain(`<a href="${path}">Reload for new messages</a>`);
    expect(shown).not.toContain('not for the late one');
    const feed = await createFeed(`${stage.web}${pathOf(session)}/live?as=${late.name}&after=0`, {
      cookie: cookieOf(ada),
    });
    await feed.until((seen) => seen.includes(4));
    await late.mustJoin(session);
    await feed.until((seen) => seen.includes(6));
    expect(feed.sequences()).toEqual([4, 5, 6]);
    feed.close();
    expect((await get(pathOf(session))).text).not.toContain('As seen by');
    expect((await get(`${pathOf(session)}?as=nobody`)).status).toBe(404);
    const jump = await get(`${path}&number=5`);
    expect(jump.headers['location']).toBe(`${path}&around=5#e5`);
  });

  it('has the number of things that need you in its title, a button for its ID, and a download as Markdown', async () => {
    const session = await openSession('# A topic');
    const named = await createActor(stage.desk.place, stage.operator, 'not_in_italics_', { owner: 'ada' });
    await mine.mustInvite(session, named.handle);
    await mine.mustSend(session, '# Not a heading\n- one');
    await other.mustSend(session, 'yes?', { choices: ['yes', 'no'] });
    const { text: shown } = await get(pathOf(session));
    expect(shown).toMatch(/<title>\(\d+\) # A topic · asp<\/title>/);
    expect(shown).toContain(`data-copy="${session}"`);
    const { headers, text: file } = await get(`${pathOf(session)}/download?format=markdown`);
    expect(headers).toMatchObject({
      'content-type': 'text/markdown; charset=utf-8',
      'content-disposition': `attachment; filename="${session}.md"`,
    });
    expect(file.split('\n').filter((line) => line !== '')).toEqual([
      '# \\# A topic',
      session,
      expect.stringMatching(/^@ada\.\S+ invited @eve\S+ \(#1, .*Z\)$/),
      expect.stringMatching(/^@eve\S+ joined \(#2, .*Z\)$/),
      expect.stringMatching(/ invited @ada\.not\\_in\\_italics\\_\S* \(#3, .*Z\)$/),
      expect.stringMatching(/^\*\*@ada\..*\*\* \(#\d+, .*Z\):$/),
      '> # Not a heading',
      '> - one',
      expect.stringMatching(/^\*\*@eve-/),
      '> yes?',
    ]);
  });

  it('as one of your agents stays so in its links and after its forms', async () => {
    const late = await createActor(stage.desk.place, stage.operator, 'late', { owner: 'ada' });
    const session = await openSession('a view to keep');
    await mine.mustInvite(session, late.handle);
    await other.mustSend(session, 'not for the late one');
    const path = `${pathOf(session)}?as=${late.name}`;
    const linksOf = (html: string): string[] =>
      [...html.matchAll(/(?:href|action)="([^"]+)"/g)].flatMap(([, address = '']) =>
        address.startsWith(pathOf(session)) ? [address.replaceAll('&amp;', '&')] : [],
      );
    const isKept = (address: string): boolean => address.includes(`?as=${late.name}`);
    const { text: shown } = await get(path);
    const others = linksOf(shown).filter((address) => !isKept(address));
    // The link to the account's own view, and the form whose hidden field has the agent.
    expect([new Set(others), linksOf(shown).length > 10]).toEqual([new Set([pathOf(session)]), true]);
    const sent = await ada.press(path, /^send$/i, { text: 'from the view' });
    expect(sent.url).toBe(`${stage.web}${path}#composer`);
    const joined = await ada.press(path, /^join/i);
    expect(joined.url).toBe(`${stage.web}${path}`);
    const { text: whole } = await get(path);
    const inside = linksOf(whole).filter((address) => /events\/|reply=|around=/.test(address));
    expect([inside.every(isKept), inside.length > 5]).toEqual([true, true]);
    const details = inside.find((address) => address.includes('/events/')) ?? '';
    expect(linksOf((await get(details)).text).every(isKept)).toBe(true);
  });

  it('as one of your agents shows the message in its invitation, even if another one of yours has joined', async () => {
    const late = await createActor(stage.desk.place, stage.operator, 'late', { owner: 'ada' });
    const session = await other.mustCreate({
      invite: [mine.handle, late.handle],
      initial_message: { content: 'all there is' },
      end_after_send: true,
    });
    await other.mustReopen(session, { initial_message: { content: 'and more' } });
    await mine.mustJoin(session);
    const { text: shown } = await get(`${pathOf(session)}?as=${late.name}`);
    expect([shown.includes('all there is'), shown.includes('and more')]).toEqual([true, false]);
    const { text: printed } = await get(`${pathOf(session)}/print?as=${late.name}`);
    expect(printed).toContain('all there is');
    const { text: whole } = await get(pathOf(session));
    expect(whole.match(/all there is/g)).toHaveLength(1);
  });

  it('shows who is connected, and who has received your last message', async () => {
    const session = await openSession('status');
    await mine.mustSend(session, 'for you');
    const online = new RegExp(`class="in online"><span class="mono">${other.handle}<`);
    const before = (await get(pathOf(session))).text;
    expect(before).toContain(`Message 3: waiting for ${other.handle}.`);
    expect(before).not.toMatch(online);
    const socket = await other.mustConnect();
    await other.post(`/sessions/${session}/taken`, { sequences: [3] });
    const after = (await get(pathOf(session))).text;
    expect(after).toContain(`Message 3: taken by ${other.handle}.`);
    expect(after).toMatch(online);
    const polled = await get(`${pathOf(session)}/live?after=3&own=3`, { accept: 'application/json' });
    expect(field(polled.json, 'receipt')).toContain(`Message 3: taken by ${other.handle}.`);
    expect(field(polled.json, 'head')).toMatch(online);
    await socket.close();
    await mine.mustLeave(session);
    expect((await get(pathOf(session))).text).not.toContain('Message 3:');
  });

  it('shows a long log in pages of at most fifty events', async () => {
    const session = await openSession('long log');
    for (let index = 0; index < 120; index += 1) await mine.mustSend(session, `message ${index}`);
    const pages: number[][] = [];
    let path: string | undefined = pathOf(session);
    while (path !== undefined) {
      const { text: html }: Answer = await get(path);
      pages.unshift(sequencesOf(html));
      path = /id="earlier"[^>]*(?<!hidden)><a [^>]*href="([^"]+)"/.exec(html)?.[1];
    }
    expect(pages.map(({ length }) => length)).toEqual([22, 50, 50]);
    expect(pages.flat()).toEqual(Array.from({ length: 122 }, (_, index) => index + 1));
    const { text: older } = await get(`${pathOf(session)}?before=73`);
    expect(sequencesOf((await get(/href="([^"]+)">Later</.exec(older)?.[1] ?? '')).text)).toEqual(pages[2]);
    expect(older).not.toContain('data-live');
  });

  it('shows fewer at once if they are large, with a link to the others', async () => {
    const session = await openSession('large');
    for (let index = 0; index < 6; index += 1) await mine.mustSend(session, 'x'.repeat(200_000));
    const { text: html } = await get(pathOf(session));
    expect(sequencesOf(html)).toEqual([6, 7, 8]);
    const { text: earlier } = await get(`${pathOf(session)}?before=6`);
    expect(html).toMatch(/id="earlier"[^>]*(?<!hidden)><a [^>]*before=6#end"/);
    expect(sequencesOf(earlier)).toEqual([3, 4, 5]);
    expect(sequencesOf((await get(`${pathOf(session)}?before=3`)).text)).toEqual([1, 2]);
  });

  it('keeps earlier messages when the other agent reopens the session and invites yours again', async () => {
    const session = await openSession('reopened');
    await mine.mustSend(session, 'said by your agent');
    await other.mustSend(session, 'said to your agent');
    const attachment = await other.mustUpload();
    await other.mustSend(session, [{ type: 'file', attachment_id: attachment }]);
    await mine.mustEnd(session);
    expect(sequencesOf((await get(pathOf(session))).text)).toEqual([1, 2, 3, 4, 5, 6]);
    await other.mustReopen(session);
    await other.mustSend(session, 'not for an agent that has not joined');
    const { text: html } = await get(pathOf(session));
    expect(html).toContain('said by your agent');
    expect(html).not.toContain('not for an agent that has not joined');
    // Everything it saw, and its new invitation. The agent's own replay shows only the invitation.
    expect(sequencesOf(html)).toEqual([1, 2, 3, 4, 5, 6, 8]);
    const replayed = await mine.mustReplay(session);
    expect(replayed.map((event) => field(event, 'sequence'))).toEqual([8]);
    const link = await get(`${pathOf(session)}/attachments/${attachment}`);
    expect((await request(`${stage.web}${link.headers['location']}`)).status).toBe(200);
    expect((await get('/dashboard/sessions')).text).toContain('Invited');
    await mine.mustJoin(session);
    expect(sequencesOf((await get(pathOf(session))).text)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  });

  it('keeps what one of your agents said when it leaves and another is only invited', async () => {
    const planner = await createActor(stage.desk.place, stage.operator, 'planner', { owner: 'ada' });
    const coder = await createActor(stage.desk.place, stage.operator, 'coder', { owner: 'ada' });
    const session = await planner.mustCreate({ topic: 'handed over', invite: [other.handle, coder.handle] });
    await other.mustJoin(session);
    for (let index = 0; index < 3; index += 1) await planner.mustSend(session, `planned ${index}`);
    await planner.mustLeave(session);
    await other.mustSend(session, 'nobody of yours was there');
    const shown = (await get(pathOf(session))).text;
    expect(sequencesOf(shown)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    expect(shown.match(/<li class="(?:in|asked|gone)">[^/]*<\/span> <span class="soft">yours/g)).toHaveLength(2);
    expect(shown).toContain(`href="/dashboard/agents/${coder.name}"`);
    await ada.press(`/dashboard/agents/${planner.name}/remove`, /^remove agent$/i);
    expect(sequencesOf((await get(pathOf(session))).text)).toEqual([1, 2, 3, 4, 5, 6, 7]);
    await ada.press(`/dashboard/agents/${coder.name}/remove`, /^remove agent$/i);
    expect((await get(pathOf(session))).text).toContain('planned 2');
  });

  it.each([1, 2, 3])('shows everything that any of your agents could ever read (seed %i)', async (seed) => {
    const random = createRandom(seed);
    const helper = await createActor(stage.desk.place, stage.operator, 'walker', { owner: 'ada' });
    const session = await other.mustCreate({ topic: 'a random walk', invite: [mine.handle] });
    const agents = [mine, helper, other];
    const readable = new Set<unknown>();
    for (let step = 0; step < 40; step += 1) {
      const actor = random.pick(agents);
      const verb = random.pick(['join', 'join', 'invite', 'invite', 'messages', 'leave', 'end', 'reopen', 'reopen']);
      const body = { invite: { invite: [mine.handle, helper.handle] }, messages: { content: 'said' } }[verb];
      await actor.post(`/sessions/${session}/${verb}`, body);
      for (const own of [mine, helper]) {
        const replay = await own.get(`/sessions/${session}/events?limit=1000`);
        if (replay.status !== 200) continue;
        for (const event of list(replay.json, 'events')) readable.add(field(event, 'sequence'));
      }
      const shown = sequencesOf((await get(pathOf(session))).text);
      expect(shown).toEqual(
        [...readable]
          .map(Number)
          .sort((a, b) => a - b)
          .slice(-50),
      );
    }
  });

  it('can be addressed by each of its events, even after fifty more', async () => {
    const session = await openSession('addressed');
    for (let index = 0; index < 100; index += 1) await mine.mustSend(session, `message ${index}`);
    const { text: html } = await get(pathOf(session));
    expect(html).toContain(`href="${pathOf(session)}?around=60#e60"`);
    const { text: around } = await get(`${pathOf(session)}?around=20`);
    expect(sequencesOf(around)).toEqual(Array.from({ length: 44 }, (_, index) => index + 1));
    expect(around).toContain('id="e20"');
    expect(around).not.toContain('data-live');
    expect((await get(`${pathOf(session)}?around=90`)).text).toContain('EventSource');
  });

  it('shows what a past or present participant may see by its status: invited, joined, left', async () => {
    const seenBy = async (session: string, status: string) => {
      const shown = sequencesOf((await get(pathOf(session))).text);
      const replayed = list((await mine.get(`/sessions/${session}/events`)).json, 'events').map((event) =>
        field(event, 'sequence'),
      );
      expect(shown, status).toEqual(replayed);
      return shown;
    };
    const session = await other.mustCreate({ topic: 'by status', invite: [mine.handle] });
    await other.mustSend(session, 'before it joined');
    expect(await seenBy(session, 'invited')).toEqual([1]);
    await mine.mustJoin(session);
    expect(await seenBy(session, 'joined')).toEqual([1, 2, 3]);
    await mine.mustLeave(session);
    await other.mustSend(session, 'after it left');
    expect(await seenBy(session, 'left')).toEqual([1, 2, 3, 4]);
  });

  it('shows the message in an invitation to a one-shot session', async () => {
    const session = await other.mustCreate({
      invite: [mine.handle],
      initial_message: { content: 'said once and for all' },
      end_after_send: true,
    });
    expect((await get(pathOf(session))).text).toContain('said once and for all');
  });

  it('is an unknown address for sessions of others and nonexistent ones', async () => {
    const foreign = await other.mustCreate({ topic: 'a secret' });
    for (const path of [
      pathOf(foreign),
      `${pathOf(foreign)}/events/1`,
      `${pathOf(foreign)}/live`,
      pathOf('sess_none'),
    ]) {
      const answer = await get(path);
      expect([path, answer.status]).toEqual([path, 404]);
      expect(answer.text).not.toContain('a secret');
    }
  });
});

describe('A transcript, live', () => {
  const live = (session: string, after: number, headers: Record<string, string> = {}) =>
    createFeed(`${stage.web}${pathOf(session)}/live?after=${after}`, { cookie: cookieOf(ada), ...headers });

  it('sends the events past the cursor, and then each new event, once and in order', async () => {
    const session = await openSession('live');
    const feed = await live(session, 1);
    expect(feed.headers['content-type']).toContain('text/event-stream');
    await feed.until((seen) => seen.includes(2));
    for (let index = 0; index < 40; index += 1) await other.mustSend(session, `message ${index}`);
    await feed.until((seen) => seen.includes(42));
    expect(feed.sequences()).toEqual(Array.from({ length: 41 }, (_, index) => index + 2));
    feed.close();
    const again = await live(session, 1, { 'last-event-id': '40' });
    await again.until((seen) => seen.includes(42));
    expect(again.sequences()).toEqual([41, 42]);
    again.close();
  });

  it('waits for no one who has written since your last message, even without proof that they read it', async () => {
    const session = await openSession('written since');
    await mine.mustSend(session, 'for you');
    expect((await get(pathOf(session))).text).toContain(`Message 3: waiting for ${other.handle}.`);
    await other.mustSend(session, 'a reply that names no message');
    expect((await get(pathOf(session))).text).not.toContain('waiting for');
    const { json } = await mine.get(`/sessions/${session}/delivery?sequence=3`);
    expect(field(list(json, 'recipients')[0], 'state')).toBe('stored');
  });

  it('waits for no one who has left', async () => {
    const session = await openSession('left since');
    await mine.mustSend(session, 'for you');
    await other.mustLeave(session);
    expect((await get(pathOf(session))).text).not.toContain('waiting for');
  });

  it('says at once how far your last message got, although nothing was written to the session', async () => {
    const clock = createTestClock();
    const own = await openStage({ clock });
    const sender = await createActor(own.desk.place, own.operator, 'helper', { owner: 'ada' });
    const reader = await createActor(own.desk.place, own.operator, 'eve');
    const cookie = cookieOf(await own.enterLocally('ada'));
    const session = await sender.mustCreate({ topic: 'how far', invite: [reader.handle] });
    await reader.mustJoin(session);
    clock.advance(1);
    const socket = await reader.mustConnect();
    const alone = await createFeed(`${own.web}${pathOf(session)}/live?after=0`, { cookie });
    const shared = await createFeed(`${own.web}/dashboard/live?of=${session}`, { cookie });
    const newsOf = (): string | undefined =>
      shared
        .text()
        .match(/event: session\ndata: .+/g)
        ?.at(-1);
    const untilNews = async (sequence: number, receipt: string, before?: string): Promise<string | undefined> => {
      await until(receipt, async () => /.*(Message \d+: [^<]*)/s.exec(alone.text())?.[1] === receipt);
      await until('the pages that share a stream hear of it', async () => newsOf() !== before);
      expect(newsOf()).toContain(`${session} ${sequence} `);
      return newsOf();
    };
    await sender.mustSend(session, 'for you');
    const stored = await untilNews(
      3,
      `Message 3: waiting for ${reader.handle}.`,
      `event: session\ndata: ${session} 2 0`,
    );
    const sentMs = clock.monotonic();
    await until('the reader has proved that it has the message', async () => {
      clock.advance(10);
      const { json } = await sender.get(`/sessions/${session}/delivery?sequence=3`);
      return field(list(json, 'recipients')[0], 'state') === 'delivered';
    });
    const delivered = await untilNews(3, `Message 3: delivered to ${reader.handle}.`, stored);
    await reader.post(`/sessions/${session}/taken`, { sequences: [3] });
    await untilNews(3, `Message 3: taken by ${reader.handle}.`, delivered);
    expect(clock.monotonic() - sentMs).toBeLessThan(1_000);
    for (const feed of [alone, shared]) feed.close();
    await socket.close();
    await own.close();
  });

  it('says at once who is connected, and nothing about an agent that hides it', async () => {
    const clock = createTestClock();
    const own = await openStage({ clock });
    const host = await createActor(own.desk.place, own.operator, 'host', { owner: 'ada' });
    const guest = await createActor(own.desk.place, own.operator, 'guest');
    const hidden = await createActor(own.desk.place, own.operator, 'hidden');
    const createdMs = clock.monotonic();
    const session = await host.mustCreate({ topic: 'who', invite: [guest.handle, hidden.handle] });
    for (const actor of [guest, hidden]) await actor.mustJoin(session);
    const { accessToken } = await mustGrant(own.desk.place, own.operator, hidden.handle, {
      scope: 'account:read account:agents:read',
    });
    const token = { token: accessToken };
    expect(
      (await hidden.patch(`/agents/${hidden.handle.slice(1).replace('.', '/')}`, { visibility: 'private' }, token))
        .status,
    ).toBe(200);
    const cookie = cookieOf(await own.enterLocally('ada'));
    const alone = await createFeed(`${own.web}${pathOf(session)}/live?after=0`, { cookie });
    const shared = await createFeed(`${own.web}/dashboard/live?of=list&of=${session}`, { cookie });
    const isShown = (): boolean => /online\\"><[^>]*>@guest-/.test(alone.text().split('event: ').at(-1) ?? '');
    const heard = (event: string): number => shared.text().split(`event: ${event}\n`).length - 1;
    await until('the streams are open', async () => heard('changed') === 1 && alone.sequences().length > 0);
    const startMs = clock.monotonic();
    const untilHeard = (what: string, isSo: () => boolean): Promise<boolean> =>
      until(what, async () => {
        clock.advance(10);
        return isSo();
      });
    const sockets = [await hidden.mustConnect(), await guest.mustConnect()];
    // Of the guest, the stream also hears that it got the earlier events.
    let [told, toldMs] = [0, 0];
    await untilHeard('the guest is online, and nothing more is heard for longer than lookups pause', () => {
      if (!isShown() || heard('session') !== told) toldMs = clock.monotonic();
      told = heard('session');
      return told > 1 && clock.monotonic() - toldMs >= 1_000;
    });
    for (const socket of sockets) await socket.close();
    await untilHeard('the guest is offline', () => !isShown() && heard('session') === told + 1);
    expect(heard('changed')).toBe(1);
    const socket = await host.mustConnect();
    await untilHeard('the list has changed', () => heard('changed') === 2);
    // Sooner than anyone looks without a notification.
    expect(clock.monotonic() - startMs).toBeLessThan(5_000);
    await socket.close();
    // The head also says how old the session is. That must not change because of the hidden agent, either.
    const statuses = (): number => alone.text().split('event: status\n').length - 1;
    const untilAge = async (ms: number): Promise<void> => {
      for (; clock.monotonic() < createdMs + ms; await new Promise((resolve) => setTimeout(resolve, 5)))
        clock.advance(100);
      await new Promise((resolve) => setTimeout(resolve, 200));
    };
    await untilAge(57_900);
    // The next status without news is then due five seconds later.
    const guestSocket = await guest.mustConnect();
    await untilHeard('the guest is online again', isShown);
    // The clock must not run ahead of a slow machine: the news that this causes must come first.
    let [settled, settledAt] = [statuses(), performance.now()];
    await until('it has settled', async () => {
      if (statuses() !== settled) [settled, settledAt] = [statuses(), performance.now()];
      return performance.now() - settledAt >= 1_000;
    });
    await untilAge(60_300);
    const before = statuses();
    const hiddenSocket = await hidden.mustConnect();
    await untilAge(62_000);
    expect(statuses()).toBe(before);
    await untilAge(66_000);
    await until('it says the age', async () => statuses() === before + 1);
    for (const one of [guestSocket, hiddenSocket]) await one.close();
    for (const feed of [alone, shared]) feed.close();
    await own.close();
  });

  it('updates the participants and the state when they change', async () => {
    const session = await openSession('changes');
    const feed = await live(session, 2);
    await mine.mustEnd(session);
    await feed.until((seen) => seen.includes(3));
    expect(feed.text()).toContain('Ended');
    feed.close();
  });

  it('ends when the sign-in ends', async () => {
    const session = await openSession('signing out');
    const visitor = await stage.enterLocally('ada');
    const feed = await createFeed(`${stage.web}${pathOf(session)}/live?after=0`, { cookie: cookieOf(visitor) });
    await feed.until((seen) => seen.includes(2));
    await visitor.press('/dashboard/agents', /^sign out$/i);
    await other.mustSend(session, 'for whoever is signed in');
    await feed.ended;
    expect(feed.text()).toContain('event: end\ndata: signed-out\n\n');
    expect(feed.text()).not.toContain('for whoever is signed in');
  });

  it('shows the same as the page after a reload, even when the session is reopened', async () => {
    const session = await openSession('live and reopened');
    const feed = await live(session, 0);
    await mine.mustSend(session, 'before');
    await mine.mustEnd(session);
    await other.mustReopen(session);
    await feed.until((seen) => seen.includes(6));
    expect(feed.sequences()).toEqual(sequencesOf((await get(pathOf(session))).text));
    feed.close();
  });

  it('can be polled for news by a page without a stream', async () => {
    const session = await openSession('asked');
    for (let index = 0; index < 40; index += 1) await mine.mustSend(session, `message ${index}`);
    const ask = (after: number) => get(`${pathOf(session)}/live?after=${after}`, { accept: 'application/json' });
    const first = await ask(2);
    expect([first.status, field(first.json, 'hasMore'), list(first.json, 'entries').length]).toEqual([200, true, 32]);
    expect(list((await ask(34)).json, 'entries').length).toBe(8);
    const last = await ask(42);
    expect(last.json).toMatchObject({ hasMore: false, entries: [] });
    const stranger = await request(`${stage.web}${pathOf(session)}/live`, { headers: { accept: 'application/json' } });
    expect(stranger.status).toBe(401);
  });

  it('is only for a page of this service and a signed-in visitor', async () => {
    const session = await openSession('closed');
    const path = `${pathOf(session)}/live`;
    const stranger = await request(`${stage.web}${path}`);
    expect([stranger.status, field(field(stranger.json, 'error'), 'message')]).toEqual([
      401,
      'This browser is not signed in.',
    ]);
    for (const headers of [{ 'sec-fetch-site': 'cross-site' }, { origin: 'https://evil.example' }]) {
      const answer = await get(path, headers);
      expect([answer.status, field(field(answer.json, 'error'), 'code')]).toEqual([403, 'FORBIDDEN']);
    }
  });

  it('is limited for each account', async () => {
    const session = await openSession('many');
    const feeds = await Promise.all(Array.from({ length: 8 }, () => live(session, 0)));
    const refused = await get(`${pathOf(session)}/live`);
    expect([refused.status, refused.headers['retry-after']]).toEqual([429, '5']);
    expect(field(field(refused.json, 'error'), 'code')).toBe('RATE_LIMITED');
    for (const feed of feeds) feed.close();
  });

  it('uses no slot for a visitor who left before it began', async () => {
    const session = await openSession('hasty');
    const { hostname, port, host } = new URL(stage.web);
    const leaveAfter = async (ms: number): Promise<void> => {
      const socket = connect(Number(port), hostname);
      socket.write(`GET ${pathOf(session)}/live HTTP/1.1\r\nhost: ${host}\r\ncookie: ${cookieOf(ada)}\r\n\r\n`);
      await pause(ms);
      socket.resetAndDestroy();
    };
    await Promise.all(Array.from({ length: 60 }, (_, index) => leaveAfter(index / 2)));
    const settled = async (): Promise<boolean> => {
      const feeds = await Promise.all(Array.from({ length: 8 }, () => live(session, 0)));
      for (const feed of feeds) feed.close();
      return feeds.every(({ headers }) => headers['content-type']?.includes('text/event-stream') === true);
    };
    await until('eight transcripts are open', settled);
  });

  it('does not keep the service from stopping', async () => {
    const own = await openStage();
    const agent = await createActor(own.desk.place, own.operator, 'helper', { owner: 'ada' });
    const session = await agent.mustCreate({ topic: 'to the end' });
    await agent.mustSend(session, 'hello');
    const visitor = await own.enterLocally('ada');
    const feed = await createFeed(`${own.web}${pathOf(session)}/live?after=0`, { cookie: cookieOf(visitor) });
    await feed.until((seen) => seen.includes(1));
    // The service's clock is frozen, so any wait on it would never end.
    await own.close();
    await feed.ended;
  });
});
