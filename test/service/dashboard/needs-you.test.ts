import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { QUESTION_SHOWN_LENGTH } from '../../../src/wire/message.js';
import { type Actor, createActor } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import type { Page } from '../../support/browser.js';
import { hostileTexts } from '../../support/hostile-text.js';
import { field, list, text } from '../../support/json.js';
import { bodyOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

const PATH = '/dashboard/needs-you';
const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;

let stage: Stage;
let other: Actor;
beforeAll(async () => {
  stage = await openStage();
  other = await createActor(stage.desk.place, stage.operator, 'other');
});
afterAll(() => stage.close());

/** Creates an agent that holds knocks from strangers, and signs in its owner. */
async function newOwner(): Promise<{ mine: Actor; owner: Visitor }> {
  const mine = await createActor(stage.desk.place, stage.operator, 'mine', { policy: 'hold' });
  return { mine, owner: await stage.enterLocally(mine.owner) };
}

/** Returns the number next to the section as a screen reader announces it, or undefined. */
const countOn = (page: Page): string | undefined =>
  /<a href="\/dashboard\/needs-you"[^>]*><span[^>]*>Needs you<\/span>(?: <span class="count">([^<]+)<)?/.exec(
    bodyOf(page),
  )?.[1];

const press = async (owner: Visitor, button: RegExp): Promise<Page> => pressOn(owner, await owner.open(PATH), button);
const pressOn = async (owner: Visitor, page: Page, button: RegExp): Promise<Page> => {
  const form = page.forms.find(({ buttons }) => buttons.some(({ label }) => button.test(label)));
  if (form === undefined) throw new Error(`There is no button ${button} on ${page.text}`);
  return owner.browser.submit(page, form, {}, button);
};
const allow = (mine: Actor, { handle }: Actor) =>
  mine.post(`/agents/${mine.owner}/${mine.name}/allowlist`, { entries: [handle] });

describe('The Needs you page', () => {
  it('says so if nothing needs you, and then no page has a number', async () => {
    const { owner } = await newOwner();
    const page = await owner.open(PATH);
    expect(page.text).toContain('Nothing needs you');
    expect([countOn(page), countOn(await owner.open('/dashboard/settings'))]).toEqual([undefined, undefined]);
  });

  it('lists invitations and knocks of all agents in one list, latest first, and every page has their number', async () => {
    const { mine, owner } = await newOwner();
    await owner.createAgent('second', {});
    await owner.press('/dashboard/agents/second', /^save$/i, { inbound_policy: 'hold' });
    await allow(mine, other);
    await other.mustCreate({ invite: [mine.handle], topic: 'an older invitation' });
    stage.desk.clock.advance(1000);
    const second = `@${mine.owner}.second`;
    const body = { invite: [second], initial_message: { content: 'a newer knock' } };
    mustDeny(await other.post('/sessions', body), 404, 'NOT_FOUND');
    stage.desk.clock.advance(1000);
    await other.mustCreate({ invite: [mine.handle], topic: 'the newest invitation' });
    const page = await owner.open(PATH);
    const places = ['the newest invitation', 'a newer knock', 'an older invitation'].map((one) =>
      page.text.indexOf(one),
    );
    expect(Math.min(...places)).toBeGreaterThan(0);
    expect(places).toEqual([...places].sort((one, two) => one - two));
    expect(page.text).toContain(second);
    expect([countOn(page), countOn(await owner.open('/dashboard/agents'))]).toEqual(['3', '3']);
    expect((await owner.open('/dashboard/agents/second/knocks')).text).toContain('a newer knock');
  });

  it.each([
    [/^join/i, 'Your agent has joined the session.', 'joined'],
    [/^decline/i, 'The invitation was declined.', 'left'],
  ] as const)('answers an invitation with %s in place', async (button, note, status) => {
    const { mine, owner } = await newOwner();
    await allow(mine, other);
    const id = await other.mustCreate({ invite: [mine.handle], topic: 'in place' });
    const page = await press(owner, button);
    expect([pathOf(page), page.text.includes(note), countOn(page)]).toEqual([PATH, true, undefined]);
    expect(page.text).not.toContain('in place');
    expect((await other.get(`/sessions/${id}`)).text).toMatch(new RegExp(`"${mine.handle}","status":"${status}"`));
  });

  it.each([
    [/^allow/i, 'Added to the allowlist.', 201],
    [/^dismiss/i, 'Dismissed.', 404],
    [/^block/i, 'Blocked.', 404],
  ] as const)('decides about a stranger with %s in place', async (button, note, status) => {
    const { mine, owner } = await newOwner();
    mustDeny(await other.post('/sessions', { invite: [mine.handle] }), 404, 'NOT_FOUND');
    const page = await press(owner, button);
    expect([pathOf(page), page.text.includes(note), countOn(page)]).toEqual([PATH, true, undefined]);
    expect((await other.post('/sessions', { invite: [mine.handle] })).status).toBe(status);
  });

  it('a form leads back only to its own address and this page', async () => {
    const { mine, owner } = await newOwner();
    mustDeny(await other.post('/sessions', { invite: [mine.handle] }), 404, 'NOT_FOUND');
    const page = await owner.open(PATH);
    const form = page.forms.find(({ action }) => action.endsWith('/dismiss'));
    if (form === undefined) throw new Error('no form');
    const back = await owner.browser.submit(page, form, { from: '//evil.example/' });
    expect(back.url).toBe(`${stage.web}/dashboard/agents/${mine.name}/knocks`);
  });

  it('shows nothing of other accounts, of ended sessions and of removed agents', async () => {
    const { mine, owner } = await newOwner();
    const eve = await newOwner();
    await allow(mine, other);
    const id = await other.mustCreate({ invite: [mine.handle] });
    mustDeny(await other.post('/sessions', { invite: [eve.mine.handle] }), 404, 'NOT_FOUND');
    expect([countOn(await owner.open(PATH)), countOn(await eve.owner.open(PATH))]).toEqual(['1', '1']);
    await other.mustEnd(id);
    expect((await owner.open(PATH)).text).toContain('Nothing needs you');
    await eve.owner.press(`/dashboard/agents/${eve.mine.name}/remove`, /^remove agent$/i);
    expect((await eve.owner.open(PATH)).text).toContain('Nothing needs you');
  });

  it('what a stranger wrote is shown only as text', async () => {
    const { mine, owner } = await newOwner();
    const content = '<script>alert(1)</script><img src=x onerror=alert(1)>';
    mustDeny(await other.post('/sessions', { invite: [mine.handle], initial_message: { content } }), 404, 'NOT_FOUND');
    await allow(mine, other);
    mustDeny(
      await (await createActor(stage.desk.place, stage.operator, 'third')).post('/sessions', {
        invite: [mine.handle],
        initial_message: { content },
      }),
      404,
      'NOT_FOUND',
    );
    await other.mustCreate({ invite: [mine.handle], topic: content });
    const body = bodyOf(await owner.open(PATH));
    expect(body.split('&lt;img src=x onerror=alert(1)&gt;').length).toBeGreaterThan(2);
    expect(body).not.toMatch(/<script>alert|<img src/);
  });

  it('counts to 99 and says when there are more', async () => {
    const { mine, owner } = await newOwner();
    await allow(mine, other);
    for (let count = 0; count < 99; count += 1) await other.mustCreate({ invite: [mine.handle] });
    expect(countOn(await owner.open(PATH))).toBe('99');
    await other.mustCreate({ invite: [mine.handle] });
    expect(countOn(await owner.open(PATH))).toBe('99+');
  });
});

it('every page shows the version of the service, and links to help', async () => {
  const own = await openStage({ version: '1.2.3' });
  const ada = await own.enter('ada');
  const page = await ada.open('/dashboard/settings');
  expect(page.text).toContain('asp 1.2.3');
  const help = await ada.browser.follow(page, /^help$/i);
  expect([pathOf(help), help.text.includes('asp explain')]).toEqual(['/dashboard/help', true]);
  await own.close();
});

describe('Problems on the Needs you page', () => {
  it('an API credential appears a week before it expires, and after that until it is revoked', async () => {
    const { mine } = await newOwner();
    const enter = () => stage.enterLocally(mine.owner);
    const owner = await enter();
    const made = await owner.press('/dashboard/new-client', /^create api credential$/i, {
      name: 'nightly',
      agent: mine.handle,
      expiry: '30',
    });
    stage.desk.clock.advance(22 * DAY_MS);
    expect((await (await enter()).open(PATH)).text).not.toContain('nightly');
    stage.desk.clock.advance(2 * DAY_MS);
    const soon = await (await enter()).open(PATH);
    expect(soon.text).toMatch(/nightly Expires soon .* in 6 days or less/);
    stage.desk.clock.advance(6 * DAY_MS);
    const visitor = await enter();
    const over = await visitor.open(PATH);
    expect(over.text).toMatch(/nightly Expired/);
    expect([countOn(over), bodyOf(over).includes(`href="${pathOf(made)}"`)]).toEqual(['1', true]);
    await visitor.press(`${pathOf(made)}/revoke`, /^revoke/i);
    expect((await visitor.open(PATH)).text).toContain('Nothing needs you');
  });

  it('an agent appears when messages have waited for a day since it was last seen, until it is back', async () => {
    const [sender, receiver] = [
      await createActor(stage.desk.place, stage.operator, 'sender'),
      await createActor(stage.desk.place, stage.operator, 'receiver'),
    ];
    const id = await sender.mustCreate({ invite: [receiver.handle] });
    await receiver.mustJoin(id);
    stage.desk.clock.advance(MINUTE_MS);
    await sender.mustSend(id, 'are you there?');
    stage.desk.clock.advance(DAY_MS - MINUTE_MS);
    const look = async (): Promise<Page> => (await stage.enterLocally(receiver.owner)).open(PATH);
    expect((await look()).text).toContain('Nothing needs you');
    stage.desk.clock.advance(2 * MINUTE_MS);
    const page = await look();
    expect(page.text).toMatch(/Messages wait Not collected/);
    expect([page.text.includes(receiver.handle), countOn(page)]).toEqual([true, '1']);
    const { clientId, clientSecret } = receiver.credentials;
    const answer = await fetch(stage.desk.place.tokenUrl, {
      method: 'POST',
      body: new URLSearchParams({
        grant_type: 'client_credentials',
        client_id: clientId,
        client_secret: clientSecret,
        resource: stage.desk.place.baseUrl,
      }),
    });
    expect(answer.status).toBe(200);
    expect((await look()).text).toContain('Nothing needs you');
  });

  it('an agent that never connected is not a problem: its owner may use only the dashboard', async () => {
    const ada = await stage.enter('ada');
    const fresh = await createActor(stage.desk.place, stage.operator, 'fresh');
    await ada.press('/dashboard/agents/main/allowlist', /^add$/i, { entry: fresh.handle });
    const id = await fresh.mustCreate({ invite: [ada.handle] });
    await press(ada, /^join/i);
    await fresh.mustSend(id, 'hello');
    stage.desk.clock.advance(2 * DAY_MS);
    expect((await ada.open(PATH)).text).toContain('Nothing needs you');
  });
});

describe('An agent that stops answering', () => {
  beforeEach(async () => {
    other = await createActor(stage.desk.place, stage.operator, 'other');
  });

  const converse = async (mine: Actor, from: Actor, topic: string) => {
    await allow(mine, from);
    const id = await from.mustCreate({ invite: [mine.handle], topic });
    await mine.mustJoin(id);
    const { json } = await from.post(`/sessions/${id}/messages`, { content: 'hello' });
    return { id, sequence: Number(field(json, 'sequence')), message: text(json, 'message_id') };
  };
  const report = async (mine: Actor, id: string, sequence: number, reason: string): Promise<void> =>
    expect((await mine.post(`/sessions/${id}/unanswered`, { sequence, reason })).status).toBe(204);
  const say = async (mine: Actor, id: string, metadata: object): Promise<void> =>
    expect((await mine.post(`/sessions/${id}/messages`, { content: 'a reply', metadata })).status).toBe(201);

  it.each([
    ['max_hops', 'Stopped', 'Programs kept answering each other'],
    ['max_replies', 'Stopped', 'end the session'],
    ['max_replies_per_hour', 'Stopped', 'Wait, or raise the limit'],
    ['max_tokens', 'Stopped', 'Start the agent again'],
    ['max_cost', 'Stopped', 'Start the agent again'],
    ['repeated', 'Stopped', 'the same reply'],
    ['loop_guard', 'Stopped', 'no person has written'],
    ['failed', 'Failing', 'Its output on the agent’s machine says why'],
    ['refused', 'Failing', 'The service refused the reply'],
  ])('because of %s is listed with what to do, and with the message', async (reason, badge, about) => {
    const { mine, owner } = await newOwner();
    const { id, sequence } = await converse(mine, other, '<b>Loop</b>');
    await report(mine, id, sequence, reason);
    const page = await owner.open(PATH);
    expect([countOn(page), page.text.includes(`<b>Loop</b> ${badge}`), page.text.includes(about)]).toEqual([
      '1',
      true,
      true,
    ]);
    expect(bodyOf(page)).toContain(`href="/dashboard/sessions/${id}?around=${sequence}#e${sequence}"`);
  });

  it('is listed until it answers; a notice that it failed does not count, nor does a message that answers nothing', async () => {
    const { mine, owner } = await newOwner();
    const { id, sequence, message } = await converse(mine, other, 'Loop');
    await report(mine, id, sequence, 'failed');
    await say(mine, id, { in_reply_to: message, failed: true });
    await say(mine, id, {});
    expect(countOn(await owner.open(PATH))).toBe('1');
    await say(mine, id, { in_reply_to: message, hops: 1 });
    expect((await owner.open(PATH)).text).toContain('Nothing needs you');
  });

  it('is dismissed and put back with a button, and listed again when it stops again', async () => {
    const { mine, owner } = await newOwner();
    const { id, sequence } = await converse(mine, other, 'Loop');
    await report(mine, id, sequence, 'repeated');
    const dismissed = await press(owner, /^dismiss/i);
    expect([pathOf(dismissed), countOn(dismissed), dismissed.text.includes('Dismissed.')]).toEqual([
      PATH,
      undefined,
      true,
    ]);
    const back = await pressOn(owner, dismissed, /^undo/i);
    expect([countOn(back), back.text.includes('Back on the list.')]).toEqual(['1', true]);
    expect(countOn(await press(owner, /^dismiss/i))).toBeUndefined();
    await report(mine, id, sequence, 'max_hops');
    expect(countOn(await owner.open(PATH))).toBe('1');
  });

  it('is no longer listed after a week, after its session ended, and after it left', async () => {
    const { mine, owner } = await newOwner();
    const [ended, left, old] = [
      await converse(mine, other, 'E'),
      await converse(mine, other, 'L'),
      await converse(mine, other, 'O'),
    ];
    for (const { id, sequence } of [ended, left, old]) await report(mine, id, sequence, 'failed');
    expect(countOn(await owner.open(PATH))).toBe('3');
    await other.mustEnd(ended.id);
    await mine.mustLeave(left.id);
    expect(countOn(await owner.open(PATH))).toBe('1');
    stage.desk.clock.advance(7 * DAY_MS);
    expect((await (await stage.enterLocally(mine.owner)).open(PATH)).text).toContain('Nothing needs you');
  });

  it('is shown to its owner only, and no other account can dismiss it', async () => {
    const { mine, owner } = await newOwner();
    const eve = await newOwner();
    const { id, sequence } = await converse(mine, eve.mine, 'Loop');
    await report(mine, id, sequence, 'failed');
    await report(eve.mine, id, sequence, 'max_hops');
    const page = await eve.owner.open(PATH);
    expect([countOn(page), page.text.includes('failed to answer')]).toEqual(['1', false]);
    const form = page.forms.find(({ action }) => action.endsWith('/dismiss'));
    if (form === undefined) throw new Error('no form');
    await eve.owner.browser.submit(page, form, { unanswered: mine.handle });
    expect([countOn(await owner.open(PATH)), countOn(await eve.owner.open(PATH))]).toEqual(['1', '1']);
  });

  it.each([
    ['a character that no header can contain', '€'],
    ['a line break', '\r\nx'],
    ['an attribute of a cookie', '; Max-Age=9'],
  ])('is not found if the form names it with %s', async (_, hostile) => {
    const { mine, owner } = await newOwner();
    const { id, sequence } = await converse(mine, other, 'Loop');
    await report(mine, id, sequence, 'failed');
    const page = await owner.open(PATH);
    const form = page.forms.find(({ action }) => action.endsWith('/dismiss'));
    if (form === undefined) throw new Error('no form');
    const { answer } = await owner.browser.submit(page, form, { unanswered: `${mine.handle}${hostile}` });
    expect([answer.status, answer.setCookies]).toEqual([404, []]);
    expect(countOn(await owner.open(PATH))).toBe('1');
  });
});

describe('A question on the Needs you page', () => {
  beforeEach(async () => {
    other = await createActor(stage.desk.place, stage.operator, 'other');
  });

  const ask = async (mine: Actor, content: string, choices: readonly string[] = ['yes', 'no']): Promise<string> => {
    await allow(mine, other);
    const body = { invite: [mine.handle], initial_message: { content, metadata: { choices } } };
    const id = text((await other.post('/sessions', body)).json, 'session_id');
    await mine.mustJoin(id);
    return id;
  };
  const eventsOf = async (id: string) => list((await other.get(`/sessions/${id}/events`)).json, 'events');

  it('is answered with a button, once, and the asker gets the answer to it', async () => {
    const { mine, owner } = await newOwner();
    const id = await ask(mine, 'Deploy <i>now</i>?', ['yes', 'not <b>now</b>']);
    const before = await owner.open(PATH);
    expect([countOn(before), before.text.includes('Deploy <i>now</i>?')]).toEqual(['1', true]);
    expect(bodyOf(before)).not.toMatch(/<[bi]>now/);
    const page = await pressOn(owner, before, /^not </i);
    expect([pathOf(page), countOn(page)]).toEqual([PATH, undefined]);
    expect(page.text).toContain('Your answer was sent.');
    const events = await eventsOf(id);
    const question = events.find((event) => field(event, 'type') === 'session.message');
    expect(events.at(-1)).toMatchObject({
      type: 'session.message',
      payload: {
        sender: mine.handle,
        content: 'not <b>now</b>',
        metadata: { in_reply_to: text(question, 'payload.id') },
      },
    });
    // On a page that is still open, repeating the answer changes nothing, and a different answer comes too late.
    expect((await pressOn(owner, before, /^not </i)).text).toContain('Your answer was sent.');
    expect((await pressOn(owner, before, /^yes/i)).text).toContain('Nothing was changed');
    expect(await eventsOf(id)).toHaveLength(events.length);
  });

  it('is dismissed with a button for one account, until another question comes', async () => {
    const { mine, owner } = await newOwner();
    const eve = await newOwner();
    const id = await ask(mine, 'first?');
    await allow(eve.mine, other);
    await other.post(`/sessions/${id}/invite`, { invite: [eve.mine.handle] });
    await eve.mine.mustJoin(id);
    const again = { content: 'second?', metadata: { choices: ['yes', 'no'] } };
    expect((await other.post(`/sessions/${id}/messages`, again)).status).toBe(201);
    const before = await owner.open(PATH);
    expect(before.text).toContain('second?');
    const page = await pressOn(owner, before, /^dismiss/i);
    expect([pathOf(page), countOn(page), page.text.includes('The question was dismissed.')]).toEqual([
      PATH,
      undefined,
      true,
    ]);
    expect((await pressOn(owner, before, /^dismiss/i)).text).toContain('The question was dismissed.');
    expect([countOn(await owner.open(PATH)), countOn(await eve.owner.open(PATH))]).toEqual([undefined, '1']);
    // A dismissed question can still be answered in its session.
    expect((await owner.open(`/dashboard/sessions/${id}`)).text).toContain('second?');
    expect((await other.post(`/sessions/${id}/messages`, { ...again, content: 'third?' })).status).toBe(201);
    expect((await owner.open(PATH)).text).toContain('third?');
  });

  it('that was dismissed can be restored with one button', async () => {
    const { mine, owner } = await newOwner();
    await ask(mine, 'really?');
    const dismissed = await pressOn(owner, await owner.open(PATH), /^dismiss/i);
    const back = await pressOn(owner, dismissed, /^undo/i);
    expect([pathOf(back), countOn(back), back.text.includes('Back on the list.')]).toEqual([PATH, '1', true]);
    expect(back.text).toContain('really?');
    expect(back.text).not.toContain('Undo');
  });

  it('cannot be dismissed if the account does not see its session', async () => {
    const { mine, owner } = await newOwner();
    const eve = await newOwner();
    const id = await ask(mine, 'mine?');
    const own = await ask(eve.mine, 'hers?');
    const page = await eve.owner.open(PATH);
    const form = page.forms.find(({ action }) => action.endsWith(`/${own}/dismiss`));
    if (form === undefined) throw new Error('no form');
    const answers = [
      await eve.owner.browser.submit(page, { ...form, action: form.action.replace(own, id) }, {}),
      await eve.owner.browser.submit(page, form, { question: '99' }),
      await eve.owner.browser.submit(page, form, { question: 'x' }),
    ];
    expect(answers.map(({ answer }) => answer.status)).toEqual([404, 404, 404]);
    expect([countOn(await owner.open(PATH)), countOn(await eve.owner.open(PATH))]).toEqual(['1', '1']);
  });

  it('is shown in full next to its buttons, up to the length that agents can rely on', async () => {
    const { mine, owner } = await newOwner();
    const long = (end: string) => `${'x '.repeat((QUESTION_SHOWN_LENGTH - end.length) / 2)}${end}`;
    await ask(mine, long('rm -rf /'));
    await ask(mine, `${long('rm -rf /')}, and more`);
    const { text: shown } = await owner.open(PATH);
    expect([shown.includes('x rm -rf /'), shown.includes('x rm -rf /…'), shown.includes('and more')]).toEqual([
      true,
      true,
      false,
    ]);
  });

  it('replaces earlier ones in its session, so that no one can fill the page', async () => {
    const { mine, owner } = await newOwner();
    const id = await ask(mine, 'first?');
    const again = { content: 'second?', metadata: { choices: ['yes', 'no'] } };
    expect((await other.post(`/sessions/${id}/messages`, again)).status).toBe(201);
    await mine.mustSend(id, 'a remark');
    const page = await owner.open(PATH);
    expect([countOn(page), page.text.includes('first?'), page.text.includes('second?')]).toEqual(['1', false, true]);
  });

  it('from one of the account’s own agents to another is listed too', async () => {
    const { mine, owner } = await newOwner();
    await owner.createAgent('phone', {});
    const phone = `@${mine.owner}.phone`;
    const question = { content: 'Deploy?', metadata: { choices: ['yes', 'no'] } };
    const id = await mine.mustCreate({ invite: [phone], initial_message: question });
    await owner.press(`/dashboard/sessions/${id}`, /^join/i);
    const page = await owner.open(PATH);
    expect([countOn(page), page.text.includes(`${mine.handle} asks ${phone}`)]).toEqual(['1', true]);
    await press(owner, /^yes/i);
    expect((await mine.get(`/sessions/${id}/events`)).text).toContain(`"sender":"${phone}"`);
  });

  it('to an agent that has not joined has its choices at once if the account sees it, and one press joins and answers', async () => {
    const { mine, owner } = await newOwner();
    await owner.createAgent('phone', {});
    const phone = `@${mine.owner}.phone`;
    const question = { content: 'Deploy?', metadata: { choices: ['yes', 'no'] } };
    const create = () => mine.mustCreate({ invite: [phone], initial_message: question });
    const id = await create();
    const page = await owner.open(PATH);
    expect([countOn(page), page.text.includes(`${mine.handle} asks ${phone}`)]).toEqual(['1', true]);
    expect(page.text).toContain('Answering makes it join the session.');
    expect(bodyOf(page)).not.toContain(`${id}/join`);
    const after = await pressOn(owner, page, /^yes/i);
    expect([pathOf(after), countOn(after), after.text.includes('Your answer was sent.')]).toEqual([
      PATH,
      undefined,
      true,
    ]);
    expect((await mine.mustReplay(id)).slice(-2)).toMatchObject([
      { type: 'session.joined', payload: { agent: phone } },
      { type: 'session.message', payload: { sender: phone, content: 'yes' } },
    ]);
    // On a page that is still open, the answer is not sent again, and another one is too late.
    expect((await pressOn(owner, page, /^yes/i)).text).toContain('Your answer was sent.');
    expect((await pressOn(owner, page, /^no/i)).text).toContain('Nothing was changed');
    expect((await mine.mustReplay(id)).at(-1)).toMatchObject({ payload: { content: 'yes' } });

    const inSession = await create();
    await owner.press(`/dashboard/sessions/${inSession}`, /^no$/i);
    expect((await mine.mustReplay(inSession)).at(-1)).toMatchObject({ payload: { sender: phone, content: 'no' } });

    const declined = await create();
    expect((await press(owner, /^decline/i)).text).toContain('The invitation was declined.');
    expect([countOn(await owner.open(PATH)), (await mine.mustReplay(declined)).at(-1)]).toMatchObject([
      undefined,
      { type: 'session.left' },
    ]);
  });

  it('to an agent that was handed the session is seen as far as an agent of the account that left saw it', async () => {
    const { mine, owner } = await newOwner();
    await owner.createAgent('phone', {});
    const phone = `@${mine.owner}.phone`;
    const id = await ask(mine, 'seen?');
    const again = { content: 'not seen?', metadata: { choices: ['yes', 'no'] } };
    await owner.press('/dashboard/agents/phone', /^save$/i, { inbound_policy: 'open' });
    await other.post(`/sessions/${id}/invite`, { invite: [phone] });
    await mine.mustLeave(id);
    expect((await owner.open(PATH)).text).toContain(`asks ${phone}`);
    await other.post(`/sessions/${id}/messages`, again);
    const page = await owner.open(PATH);
    expect([countOn(page), page.text.includes('asks'), bodyOf(page).includes(`${id}/join`)]).toEqual([
      '1',
      false,
      true,
    ]);
  });

  it('from another owner is not shown before its agent has joined, and then at once with its choices', async () => {
    const { mine, owner } = await newOwner();
    await allow(mine, other);
    const question = { content: 'a hidden question', metadata: { choices: ['yes', 'no'] } };
    await other.mustCreate({ invite: [mine.handle], initial_message: question });
    const before = await owner.open(PATH);
    expect([countOn(before), before.text.includes('a hidden question')]).toEqual(['1', false]);
    const joined = await pressOn(owner, before, /^join/i);
    expect([pathOf(joined), countOn(joined), joined.text.includes('a hidden question')]).toEqual([PATH, '1', true]);
    expect((await pressOn(owner, joined, /^yes/i)).text).toContain('Your answer was sent.');
  });

  it('stays text with its topic and choices, even in the list of sessions, a search, a printed and a shared session', async () => {
    const attacks = [
      '<script>alert(1)</script>',
      '"><img src=x onerror=alert(1)>',
      '</ul></main><b>',
      '&lt;',
      "' on='",
    ];
    const texts = hostileTexts(25, 7).map((hostile, index) => `${attacks[index % attacks.length]} common ${hostile}`);
    const { mine, owner } = await newOwner();
    await allow(mine, other);
    for (const hostile of texts) {
      const topic = hostile.replace(/[\ud800-\udfff]/g, '').slice(0, 60);
      const initial_message = { content: hostile, metadata: { choices: ['yes', attacks[1]] } };
      const made = await other.post('/sessions', { invite: [mine.handle], topic, initial_message });
      if (made.status === 201) await mine.mustJoin(text(made.json, 'session_id'));
    }
    const lists = [
      await owner.open(PATH),
      await owner.open('/dashboard/sessions'),
      await owner.open('/dashboard/search?q=common'),
    ];
    expect(lists.map((page) => page.text.split('common').length > 5)).toEqual([true, true, true]);
    const [, id = ''] = /href="\/dashboard\/sessions\/(sess_\w+)/.exec(bodyOf(lists[0] as Page)) ?? [];
    const printed = await owner.open(`/dashboard/sessions/${id}/print`);
    const made = await owner.press(`/dashboard/sessions/${id}/links`, /^create link/i);
    const [address = ''] = /http[^<\s]*\/shared\/[\w-]+/.exec(made.answer.text) ?? [];
    const shared = await owner.browser.open(address);
    for (const page of [...lists, printed, shared]) {
      expect(page.answer.status).toBe(200);
      expect(bodyOf(page)).not.toMatch(/<script>alert|<img src=x|<\/ul><\/main><b>|<[^>"]*\son\w+=/);
      expect(/<title>[^<]*<\/title>/.test(page.answer.text)).toBe(true);
    }
  });

  it('disappears once an agent has answered, the session has ended or been left, or a week has passed', async () => {
    const { mine, owner } = await newOwner();
    const [answered, ended, left, old] = [
      await ask(mine, 'one?'),
      await ask(mine, 'two?'),
      await ask(mine, 'three?'),
      await ask(mine, 'four?'),
    ];
    expect(countOn(await owner.open(PATH))).toBe('4');
    const asked = (await eventsOf(answered)).find((event) => field(event, 'type') === 'session.message');
    const answer = { content: 'yes', metadata: { in_reply_to: text(asked, 'payload.id') } };
    // A message from the asker does not count as an answer.
    expect((await other.post(`/sessions/${answered}/messages`, answer)).status).toBe(201);
    expect(countOn(await owner.open(PATH))).toBe('4');
    expect((await mine.post(`/sessions/${answered}/messages`, answer)).status).toBe(201);
    expect(countOn(await owner.open(PATH))).toBe('3');
    await other.post(`/sessions/${ended}/end`);
    await mine.post(`/sessions/${left}/leave`);
    const page = await owner.open(PATH);
    expect([countOn(page), page.text.includes('four?'), page.text.includes('two?')]).toEqual(['1', true, false]);
    expect(old).not.toBe(left);
    stage.desk.clock.advance(7 * DAY_MS + MINUTE_MS);
    const late = await stage.enterLocally(mine.owner);
    expect((await late.open(PATH)).text).not.toContain('four?');
  });

  it('without valid choices is not listed, and neither is one’s own or another account’s', async () => {
    const { mine, owner } = await newOwner();
    await ask(mine, 'anything?', ['same', 'same']);
    const { mine: stranger } = await newOwner();
    await ask(stranger, 'not yours');
    const question = { content: 'from here', metadata: { choices: ['yes', 'no'] } };
    await mine.mustCreate({ invite: [other.handle], initial_message: question });
    const page = await owner.open(PATH);
    expect([countOn(page), page.text.includes('Nothing needs you')]).toEqual([undefined, true]);
  });
});
