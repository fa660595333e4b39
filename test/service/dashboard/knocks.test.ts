import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, createActor, operate } from '../../support/actors.js';
import { mustDeny } from '../../support/answers.js';
import { openBrowser } from '../../support/browser.js';
import { mustFindForm } from '../../support/person.js';
import { bodyOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
beforeAll(async () => {
  stage = await openStage();
  ada = await stage.enter('ada');
});
afterAll(() => stage.close());

let names = 0;
/** Creates an agent of Ada's that holds knocks from strangers. Returns its page too. */
async function newHolder(): Promise<{ handle: string; path: string; knocks: string }> {
  names += 1;
  const handle = await ada.createAgent(`holder-${names}`);
  const path = `/dashboard/agents/holder-${names}`;
  await ada.press(path, /^save$/i, { inbound_policy: 'hold' });
  return { handle, path, knocks: `${path}/knocks` };
}
const newStranger = (): Promise<Actor> => createActor(stage.desk.place, stage.operator, 'stranger');
const knock = async (stranger: Actor, handle: string, content?: string): Promise<void> => {
  const body = { invite: [handle], ...(content !== undefined && { initial_message: { content } }) };
  mustDeny(await stranger.post('/sessions', body), 404, 'NOT_FOUND');
};

describe('The knocks of an agent', () => {
  it('appear once it holds strangers, with what they wrote, even on an account that is not trusted', async () => {
    const stranger = await newStranger();
    const handle = await ada.createAgent('closed');
    await knock(stranger, handle, 'too early');
    const before = await ada.open('/dashboard/agents/closed/knocks');
    expect(before.text).toMatch(/Not on the allowlist Refused .* Allow/);
    const saved = await ada.press('/dashboard/agents/closed', /^save$/i, { inbound_policy: 'hold' });
    expect(saved.text).toContain('Your changes were saved.');
    expect((await ada.open('/dashboard/agents/closed/knocks')).text).toContain('No one has knocked');
    await knock(stranger, handle);
    await knock(stranger, handle, 'please');
    const { text } = await ada.open('/dashboard/agents/closed/knocks');
    expect(text).toContain(stranger.handle);
    expect(text).toContain('Knocked 2 times');
    expect(text).toContain('please');
    expect(text).not.toContain('too early');
  });

  it.each([
    [/^allow/i, 'Added to the allowlist.', 201, []],
    [/^dismiss/i, 'Dismissed.', 404, ['again']],
    [/^block/i, 'Blocked.', 404, []],
  ] as const)('%s decides about a stranger and takes it off the list', async (button, note, status, later) => {
    const { handle, knocks } = await newHolder();
    const stranger = await newStranger();
    await knock(stranger, handle, 'first');
    const page = await ada.press(knocks, button);
    expect([pathOf(page), page.text.includes(note)]).toEqual([knocks, true]);
    expect((await ada.open(knocks)).text).not.toContain(stranger.handle);
    const answer = await stranger.post('/sessions', { invite: [handle], initial_message: { content: 'again' } });
    expect(answer.status).toBe(status);
    const { text } = await ada.open(knocks);
    expect(['first', 'again'].filter((one) => text.includes(one))).toEqual(later);
  });

  it('a dismissed one can be restored unchanged with one button, until it knocks again', async () => {
    const { handle, knocks } = await newHolder();
    const stranger = await newStranger();
    await knock(stranger, handle, 'first');
    await knock(stranger, handle, 'second');
    const dismissed = await ada.press(knocks, /^dismiss/i);
    expect(dismissed.text).toContain('No one has knocked');
    const undo = mustFindForm(dismissed, /^undo/i);
    const back = await ada.browser.submit(dismissed, undo, {}, /^undo/i);
    expect([pathOf(back), back.text.includes('Back on the list.')]).toEqual([knocks, true]);
    expect([back.text.includes('Knocked 2 times'), back.text.includes('first')]).toEqual([true, true]);
    await ada.press(knocks, /^dismiss/i);
    await knock(stranger, handle, 'third');
    const { text } = await ada.open(knocks);
    expect([text.includes('Knocked 2 times'), text.includes('first'), text.includes('third')]).toEqual([
      false,
      false,
      true,
    ]);
  });

  it('only the last dismissed one is kept, and it is not counted', async () => {
    const { handle, knocks } = await newHolder();
    const [one, other] = [await newStranger(), await newStranger()];
    await knock(one, handle, 'one');
    const first = await ada.press(knocks, /^dismiss/i);
    await knock(other, handle, 'other');
    const second = await ada.press(knocks, /^dismiss/i);
    const exported = await ada.press('/dashboard/settings', /download/i);
    expect(exported.answer.text).not.toContain(one.handle);
    for (const page of [first, second]) await ada.browser.submit(page, mustFindForm(page, /^undo/i), {}, /^undo/i);
    const { text } = await ada.open(knocks);
    expect([text.includes(one.handle), text.includes(other.handle)]).toEqual([false, true]);
  });

  it('one that was blocked can be unblocked at once', async () => {
    const { handle, path, knocks } = await newHolder();
    const stranger = await newStranger();
    await knock(stranger, handle);
    const blocked = await ada.press(knocks, /^block/i);
    const back = await ada.browser.submit(blocked, mustFindForm(blocked, /^unblock/i), {}, /^unblock/i);
    expect([pathOf(back), back.text.includes('No one is blocked')]).toEqual([`${path}/blocks`, true]);
  });

  it('a decision that is sent twice, or about someone else’s agent, changes nothing more', async () => {
    const { handle, knocks } = await newHolder();
    const stranger = await newStranger();
    await knock(stranger, handle);
    const page = await ada.open(knocks);
    const form = page.forms.find(({ action }) => action.endsWith('/dismiss'));
    if (form === undefined) throw new Error('no form');
    for (let count = 0; count < 2; count += 1)
      expect((await ada.browser.submit(page, form, {})).text).toContain('Dismissed.');
    for (const sender of ['', 'stranger', '@stranger.*'])
      expect((await ada.browser.submit(page, form, { sender })).answer.status).toBe(404);
    const eve = await stage.enter('eve');
    expect((await eve.open(knocks)).answer.status).toBe(404);
  });

  it('what a stranger wrote is shown only as text', async () => {
    const { handle, knocks } = await newHolder();
    const stranger = await newStranger();
    const markup = '<script>alert(1)</script><img src=x onerror=alert(1)>" autofocus x="';
    await knock(stranger, handle, `${markup} \u202etxt.exe zero\u200bwidth`);
    const body = bodyOf(await ada.open(knocks));
    expect(body).toContain('&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;&quot; autofocus');
    expect(body).not.toMatch(/<script>alert|<img src|" autofocus x=|[\u202e\u200b]/);
  });

  it('the download of all data holds them', async () => {
    const { handle } = await newHolder();
    const stranger = await newStranger();
    await knock(stranger, handle, 'exported');
    const page = await ada.press('/dashboard/settings', /download/i);
    const { agents } = JSON.parse(page.answer.text) as { agents: { canonical_handle: string; knocks: unknown[] }[] };
    expect(agents.find((one) => one.canonical_handle === handle)?.knocks).toMatchObject([
      { sender: stranger.handle, text: 'exported', times: 1 },
    ]);
  });

  it('the page of an agent that anyone can reach says that no one has to knock', async () => {
    await operate(stage.operator, 'POST', '/agents', { handle: '@lou.door', inbound_policy: 'open' });
    const lou = await stage.enterLocally('lou');
    const { text } = await lou.open('/dashboard/agents/door/knocks');
    expect(text).toContain('Anyone can start a session with this agent, so no one has to knock.');
    expect(text).not.toContain('refused');
  });

  it('its public page is that of an agent that only lists agents', async () => {
    const { handle, path } = await newHolder();
    const shown = async (): Promise<string> => (await openBrowser().open(`${stage.web}/agents/${handle}`)).answer.text;
    const holding = await shown();
    expect(holding).toContain(handle);
    await ada.press(path, /^save$/i, { inbound_policy: 'allowlist' });
    expect(await shown()).toBe(holding);
  });
});
