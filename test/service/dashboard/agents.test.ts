import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Actor, actorOf, createActor } from '../../support/actors.js';
import type { Page } from '../../support/browser.js';
import { formsOf } from '../../support/html-form.js';
import { authorizationUrl, createVerifier, mustRegister } from '../../support/oauth.js';
import { mustFindForm } from '../../support/person.js';
import { bodyOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
let names = 0;
beforeAll(async () => {
  stage = await openStage();
  ada = await stage.enter('ada');
});
afterAll(() => stage.close());

const CREATE = /^create agent$/i;
/** Creates an agent for Ada. Returns its address in the dashboard too. */
async function newAgent(): Promise<{ name: string; handle: string; path: string }> {
  names += 1;
  const name = `agent-${names}`;
  return { name, handle: await ada.createAgent(name), path: `/dashboard/agents/${name}` };
}

describe('Creating an agent', () => {
  it('gives it a handle; its allowlist begins with the account’s own agents', async () => {
    const page = await ada.press('/dashboard/new-agent', CREATE, {
      name: 'first',
      display_name: 'The first',
      description: 'One\r\ntwo',
    });
    expect(pathOf(page)).toBe('/dashboard/agents/first');
    expect(page.text).toContain('The agent was created.');
    expect(page.text).toContain('One two');
    expect((await ada.open('/dashboard/agents/first/allowlist')).text).toContain(`@${ada.username}.*`);
  });

  it('one form creates one agent, no matter how often it is sent', async () => {
    const page = await ada.open('/dashboard/new-agent');
    const form = mustFindForm(page, CREATE);
    const send = () => ada.browser.submit(page, form, { name: 'twice', display_name: 'Twice' }, CREATE);
    const pages = await Promise.all([send(), send(), send()]);
    expect(pages.map(pathOf)).toEqual(pages.map(() => '/dashboard/agents/twice'));
    expect(pathOf(await send())).toBe('/dashboard/agents/twice');
    const other = await ada.browser.submit(page, form, { name: 'thrice', display_name: 'Twice' }, CREATE);
    expect(pathOf(other)).toBe('/dashboard/agents/thrice');
  });

  it('an address that is taken, was taken, or is invalid is reported at its field, and no input is lost', async () => {
    const gone = await newAgent();
    await ada.press(`${gone.path}/remove`, /^remove agent$/i);
    for (const [name, words] of [
      ['main', 'is or was in use'],
      [gone.name, 'is or was in use'],
      ['Not A Name', 'lowercase letters'],
      ['', 'lowercase letters'],
      ['x'.repeat(65), 'lowercase letters'],
    ] as const) {
      const page = await ada.press('/dashboard/new-agent', CREATE, {
        name,
        display_name: 'Kept',
        description: 'Kept too',
      });
      expect([name, page.answer.status]).toEqual([name, 400]);
      expect(page.text).toContain(words);
      expect(page.answer.text).toMatch(/id="name"[^>]*aria-invalid="true"/);
      expect(mustFindForm(page, CREATE).values).toMatchObject({ name, display_name: 'Kept', description: 'Kept too' });
    }
  });
});

describe('A name in which nothing is visible', () => {
  it.each([
    ['Hangul fillers', '\u3164\u115f\u1160\uffa0'],
    ['braille blanks', '\u2800 \u2800'],
    ['characters that show nothing by default', '\u034f\u200b\u2060\ufe0f\u{e0100}'],
    ['reversals', '\u202e\u2066'],
  ])('of %s gives way to the handle, in lists, on pages and on the consent page', async (_what, blank) => {
    names += 1;
    const name = `blank-${names}`;
    const handle = await ada.createAgent(name, { display_name: blank });
    const path = `/dashboard/agents/${name}`;
    const isNamed = async (address: string, around: RegExp): Promise<boolean> => {
      const { answer } = await ada.browser.open(address);
      return [...answer.text.matchAll(around)].some(([, shown]) => shown === handle);
    };
    expect(await isNamed(`${stage.web}/dashboard/agents`, /row-link"[^>]*><bdi>([^<]*)<\/bdi>/g)).toBe(true);
    expect(await isNamed(`${stage.web}${path}`, /<h1><bdi>([^<]*)<\/bdi>/g)).toBe(true);
    expect(await isNamed(`${stage.web}/dashboard/search?q=${name}`, /row-link"[^>]*><bdi>([^<]*)<\/bdi>/g)).toBe(true);
    const clientId = await mustRegister(stage.desk.place, { client_name: 'App' });
    const url = authorizationUrl(stage.desk.place, { clientId, challenge: createVerifier().challenge });
    expect(await isNamed(url, /<span class="who"><b><bdi>([^<]*)<\/bdi>/g)).toBe(true);
    expect(mustFindForm(await ada.open(`${path}/profile`), /^save profile$/i).values['display_name']).toBe(blank);
  });

  it('stays if one character of it is visible', async () => {
    await ada.createAgent('visible', { display_name: '\u3164é' });
    expect((await ada.open('/dashboard/agents/visible')).answer.text).toContain('<h1><bdi>é</bdi></h1>');
  });
});

describe('The overview of an agent', () => {
  const DAY_MS = 24 * 60 * 60 * 1000;
  const labelsOf = ({ answer }: Page): string[] =>
    [...answer.text.matchAll(/aria-label="(Messages [^"]*)"/g)].map(([, label = '']) => label);

  it('counts the messages that it sent and received, for each of the last seven days', async () => {
    const own = await openStage({ areLimitsOn: false });
    const { place, clock } = own.desk;
    const renew = (actor: Actor): Actor => actorOf(place, actor.handle, actor.credentials);
    let mine = await createActor(place, own.operator, 'mine');
    let other = await createActor(place, own.operator, 'other');
    const owner = await own.enterLocally(mine.owner);
    const path = `/dashboard/agents/${mine.name}`;
    expect(labelsOf(await owner.open(path))).toEqual([]);
    const session = await mine.mustCreate({ invite: [other.handle], initial_message: { content: 'first' } });
    await other.mustJoin(session);
    await mine.mustSend(session, `{"sender":"${other.handle}"}`);
    // Neither at the edge of a day, nor where rounding makes no difference.
    clock.advance(3 * DAY_MS + DAY_MS / 4);
    [mine, other] = [renew(mine), renew(other)];
    for (const one of ['a', 'b', 'c']) await other.mustSend(session, one);
    const elsewhere = await other.mustCreate({ invite: [mine.handle], initial_message: { content: 'not joined' } });
    expect(labelsOf(await owner.open(path))).toEqual([
      'Messages sent in each of the last 7 days, oldest first: 0, 0, 0, 2, 0, 0, 0. In short: 0 in the last 24 hours, peak 2',
      'Messages received in each of the last 7 days, oldest first: 0, 0, 0, 0, 0, 0, 3. In short: 3 in the last 24 hours, peak 3',
    ]);
    // The same numbers are above the pictures.
    expect((await owner.open(path)).answer.text).toContain('<p class="graph-value" aria-hidden="true">0<span');
    await mine.mustJoin(elsewhere);
    await mine.mustLeave(session);
    await other.mustSend(session, 'after it left');
    expect(labelsOf(await owner.open(path))[1]).toContain('0, 0, 0, 0, 0, 0, 4.');
    clock.advance(5 * DAY_MS);
    const again = await own.enterLocally(mine.owner);
    expect(labelsOf(await again.open(path)).map((label) => /: ([\d, ]+)\./.exec(label)?.[1])).toEqual([
      '0, 0, 0, 0, 0, 0, 0',
      '0, 4, 0, 0, 0, 0, 0',
    ]);
    await own.close();
  });

  it('counts no messages of a session whose invitation was declined', async () => {
    const own = await openStage({ areLimitsOn: false });
    const [mine, other] = [
      await createActor(own.desk.place, own.operator, 'mine'),
      await createActor(own.desk.place, own.operator, 'other'),
    ];
    const owner = await own.enterLocally(mine.owner);
    const session = await other.mustCreate({ invite: [mine.handle], initial_message: { content: 'not joined' } });
    await other.mustSend(session, 'nor later');
    await owner.press(`/dashboard/sessions/${session}`, /^decline/i);
    expect(labelsOf(await owner.open(`/dashboard/agents/${mine.name}`))).toEqual([]);
    await own.close();
  });

  it('has a page for all agents together, which counts a message between two of them once and lists the most active first', async () => {
    const own = await openStage({ areLimitsOn: false });
    const { place } = own.desk;
    const mine = await createActor(place, own.operator, 'mine');
    const sister = await createActor(place, own.operator, 'sister', { owner: mine.owner });
    const other = await createActor(place, own.operator, 'other');
    const owner = await own.enterLocally(mine.owner);
    const open = () => owner.browser.follow(agents, /^traffic of all agents$/i);
    const agents = await owner.open('/dashboard/agents');
    expect((await open()).text).toContain('No messages');
    const shared = await mine.mustCreate({ invite: [sister.handle, other.handle] });
    await sister.mustJoin(shared);
    await other.mustJoin(shared);
    for (const one of ['a', 'b', 'c']) await sister.mustSend(shared, one);
    await mine.mustSend(shared, 'd');
    await other.mustSend(shared, 'e');
    const unseen = await other.mustCreate({});
    await other.mustSend(unseen, 'not for them');
    await mine.mustLeave(shared);
    await other.mustSend(shared, 'f');
    const page = await open();
    expect(labelsOf(page).map((label) => /: ([\d, ]+)\./.exec(label)?.[1])).toEqual([
      '0, 0, 0, 0, 0, 0, 4',
      '0, 0, 0, 0, 0, 0, 2',
    ]);
    const rows = [...page.text.matchAll(/(@\S+) (?:[A-Z]\w+ )*(\d+) sent in 7 days/g)].map(([, ...row]) => row);
    expect(rows).toEqual([
      [sister.handle, '3'],
      [mine.handle, '1'],
    ]);
    await own.close();
  });

  it('says when it has not counted everything', async () => {
    const own = await openStage({ areLimitsOn: false });
    const mine = await createActor(own.desk.place, own.operator, 'mine');
    const owner = await own.enterLocally(mine.owner);
    const session = await mine.mustCreate({});
    for (let index = 0; index < 198; index += 1) await mine.mustSend(session, 'x');
    const few = (await owner.open(`/dashboard/agents/${mine.name}`)).text;
    for (let index = 0; index < 10; index += 1) await mine.mustSend(session, 'x');
    const many = (await owner.open(`/dashboard/agents/${mine.name}`)).text;
    expect([few, many].map((text) => [text.includes('198 in 7 days'), text.includes('At least:')])).toEqual([
      [true, false],
      [false, true],
    ]);
    await own.close();
  });

  it('says how much of its rate limits is used now, and which one is used up', async () => {
    const own = await openStage({ areLimitsOn: true });
    const mine = await createActor(own.desk.place, own.operator, 'mine', { policy: 'allowlist' });
    const owner = await own.enterLocally(mine.owner);
    const limitsOn = async (): Promise<string> =>
      /Rate limits (.*?) (?:About|Credentials)/.exec((await owner.open(`/dashboard/agents/${mine.name}`)).text)?.[1] ??
      '';
    expect(await limitsOn()).toBe(
      'Requests a minute 0 of 300 New sessions an hour 0 of 30 Searches a minute 0 of 30 Uploads an hour 0 of 60',
    );
    for (let count = 0; count < 30; count += 1) await mine.mustCreate({});
    for (let count = 0; count < 7; count += 1) expect((await mine.get('/sessions')).status).toBe(200);
    expect(await limitsOn()).toContain('Requests a minute 7 of 300 New sessions an hour Used up 30 of 30');
    own.desk.clock.advance(60_000);
    expect(await limitsOn()).toContain('Requests a minute 0 of 300 New sessions an hour Used up 30 of 30');
    await own.close();
  });
});

/** Returns the ids of the fields that the error summary lists, in order, and of the focused field. */
const mistakesOf = ({ answer: { text } }: Page) => ({
  told: [...text.matchAll(/<li><a href="#([^"]+)">/g)].map(([, id]) => id),
  beside: [...text.matchAll(/class="mistake" id="([^"]+)-mistake"/g)].map(([, id]) => id),
  focused: [...text.matchAll(/id="([^"]+)"[^>]* autofocus/g)].map(([, id]) => id),
});

describe('A mistake in a form', () => {
  it('is listed in the order of the fields and next to its field, and the first one has the focus', async () => {
    const made = await ada.press('/dashboard/new-agent', CREATE, { name: 'No Name', display_name: '' });
    const ids = ['name', 'display-name'];
    expect(mistakesOf(made)).toEqual({ told: ids, beside: ids, focused: ids.slice(0, 1) });
    const { path } = await newAgent();
    const long = { description: 'x'.repeat(1001), card_body: 'x'.repeat(20_001), skill_2: 'x'.repeat(101) };
    const changed = await ada.press(`${path}/profile`, /^save profile$/i, long);
    const fields = ['description', 'card-body', 'skill-1'];
    expect(mistakesOf(changed)).toEqual({ told: fields, beside: fields, focused: fields.slice(0, 1) });
  });

  it('in an unavailable choice keeps it selected, with the other selections', async () => {
    const { path } = await newAgent();
    const chosen = { inbound_policy: 'open', visibility: 'private', can_initiate_sessions: undefined };
    const page = await ada.press(path, /^save$/i, chosen);
    const open = ['inbound_policy-open'];
    expect(mistakesOf(page)).toEqual({ told: [], beside: open, focused: open });
    const form = mustFindForm(page, /^save$/i);
    expect(form.values).toMatchObject({ inbound_policy: 'open', visibility: 'private' });
    expect(form.ticked).toEqual({});
  });

  it('in several checkboxes is shown above them', async () => {
    const page = await ada.press('/dashboard/new-client', /^create api credential$/i, { name: '', scope: undefined });
    const ids = ['name', 'agent', 'scope-0'];
    expect(mistakesOf(page)).toEqual({ told: ids, beside: ids, focused: ids.slice(0, 1) });
  });
});

describe('Changing an agent', () => {
  it('profile: typed text is shown unchanged, with line breaks and hostile text', async () => {
    const { path } = await newAgent();
    const hostile = '</textarea><script>alert(1)</script>"\'&amp;\u202e';
    const values = {
      display_name: hostile,
      description: `${hostile}\r\nsecond`,
      card_body: `\n# ${hostile}`,
      skill_1: 'a',
      skill_1_about: 'b',
    };
    const saved = await ada.press(`${path}/profile`, /^save profile$/i, values);
    expect(saved.text).toContain('Your changes were saved.');
    const page = await ada.open(`${path}/profile`);
    expect(bodyOf(page)).not.toContain('<script>alert');
    expect(mustFindForm(page, /^save profile$/i).values).toMatchObject({
      display_name: hostile,
      description: `${hostile}\nsecond`,
      card_body: `\n# ${hostile}`,
      skill_1: 'a',
      skill_1_about: 'b',
    });
    for (const shown of ['/dashboard/agents', path, `${path}/remove`, '/dashboard/new-client'])
      expect(bodyOf(await ada.open(shown))).not.toContain('<script>alert');
    const emptied = await ada.press(`${path}/profile`, /^save profile$/i, {
      description: '',
      card_body: '',
      skill_1: '',
      skill_1_about: '',
    });
    expect(emptied.text).not.toContain('second');
  });

  it('profile: a skill without a name and a missing name are reported, and nothing is changed', async () => {
    const { path, name } = await newAgent();
    const page = await ada.press(`${path}/profile`, /^save profile$/i, {
      display_name: '',
      skill_2_about: 'only this',
    });
    expect(page.answer.status).toBe(400);
    expect(page.answer.text).toMatch(/href="#display-name"[\s\S]*href="#skill-1"/);
    expect(mustFindForm(page, /^save profile$/i).values).toMatchObject({
      display_name: '',
      skill_1_about: 'only this',
    });
    expect(mustFindForm(await ada.open(`${path}/profile`), /^save profile$/i).values['display_name']).toBe(name);
  });

  it('profile: a skill’s name and its description have their own mistakes, each shown once', async () => {
    const { path } = await newAgent();
    const press = (values: Record<string, string>) => ada.press(`${path}/profile`, /^save profile$/i, values);
    const nameless = await press({ skill_1_about: 'only this' });
    expect(nameless.text).toContain('Give this skill a name of 1 to 100 characters.');
    expect(mistakesOf(nameless)).toEqual({ told: [], beside: ['skill-1'], focused: ['skill-1'] });
    const lengthy = await press({ skill_1: 'sort', skill_1_about: 'x'.repeat(1001) });
    expect(lengthy.text).toContain('Shorten this description to 1000 characters.');
    expect(mistakesOf(lengthy)).toEqual({ told: [], beside: ['skill-1-about'], focused: ['skill-1-about'] });
  });

  it('profile: more rows for skills come without saving, up to 20, and keep what was typed', async () => {
    const { path } = await newAgent();
    const names = (page: Page) =>
      Object.keys(mustFindForm(page, /^save profile$/i).values).filter((name) => /^skill_\d+$/.test(name));
    const add = (page: Page, values: Record<string, string> = {}) =>
      ada.browser.submit(page, mustFindForm(page, /^add skill rows$/i), values, /^add skill rows$/i);
    let page = await ada.open(`${path}/profile`);
    expect(names(page)).toHaveLength(2);
    page = await add(page, { display_name: 'Renamed', skill_1: 'sort', skill_2: 'count' });
    expect([page.answer.status, names(page).length]).toEqual([200, 4]);
    expect(page.answer.text).toMatch(/id="skill-3"[^>]* autofocus/);
    expect(mustFindForm(page, /^save profile$/i).values).toMatchObject({ display_name: 'Renamed', skill_2: 'count' });
    expect(bodyOf(await ada.open(`${path}/profile`))).not.toContain('Renamed');
    for (let more = 0; more < 8; more += 1) page = await add(page);
    expect(names(page)).toHaveLength(20);
    expect(page.text).not.toContain('Add skill rows');
    expect(mustFindForm(page, /^save profile$/i).buttons[0]?.label).toBe('Save profile');
  });

  it('profile: skills move up and down, and keep what was typed; only saving stores the order', async () => {
    const { path } = await newAgent();
    const skills = ['plan', 'sort', 'count'];
    const fill = Object.fromEntries(skills.map((name, at) => [`skill_${at + 1}`, name]));
    await ada.press(`${path}/profile`, /^save profile$/i, { ...fill, skill_2_about: 'sorts' });
    const stored = async () => valuesOf(await ada.open(`${path}/profile`));
    const valuesOf = (page: Page) => {
      const { values } = mustFindForm(page, /^save profile$/i);
      return [1, 2, 3, 4].map((row) => [values[`skill_${row}`], values[`skill_${row}_about`]].join(': '));
    };
    const move = (page: Page, button: RegExp, values = {}) =>
      ada.browser.submit(page, mustFindForm(page, button), values, button);
    let page = await ada.open(`${path}/profile`);
    page = await move(page, /^move up sort$/i, { display_name: 'Renamed', skill_4: 'typed' });
    expect(valuesOf(page)).toEqual(['sort: sorts', 'plan: ', 'count: ', 'typed: ']);
    expect(mustFindForm(page, /^save profile$/i).values['display_name']).toBe('Renamed');
    expect(page.text).toContain('The order takes effect when you save the profile.');
    // The button stays under the finger of the person who presses it again, or the other one at an end.
    expect(page.answer.text).toMatch(/value="1-down" formnovalidate autofocus/);
    page = await move(page, /^move down plan$/i);
    expect(page.answer.text).toMatch(/value="3-down" formnovalidate autofocus/);
    expect(valuesOf(page)).toEqual(['sort: sorts', 'count: ', 'plan: ', 'typed: ']);
    expect(await stored()).toEqual(['plan: ', 'sort: sorts', 'count: ', ': ']);
    await move(page, /^save profile$/i, {});
    expect(await stored()).toEqual(['sort: sorts', 'count: ', 'plan: ', 'typed: ']);
  });

  it('profile: an order that the form does not offer changes nothing', async () => {
    const { path } = await newAgent();
    await ada.press(`${path}/profile`, /^save profile$/i, { skill_1: 'plan', skill_2: 'sort' });
    const page = await ada.open(`${path}/profile`);
    const form = mustFindForm(page, /^save profile$/i);
    for (const move of ['1-up', '20-down', '0-up', '9-sideways', '<b>']) {
      const again = await ada.browser.submit(page, form, { move });
      const { values } = mustFindForm(again, /^save profile$/i);
      expect([move, again.answer.status, values['skill_1'], values['skill_2']]).toEqual([move, 200, 'plan', 'sort']);
    }
  });

  it('profile: one skill needs no order', async () => {
    const { path } = await newAgent();
    const page = await ada.press(`${path}/profile`, /^save profile$/i, { skill_1: 'plan' });
    expect((await ada.open(`${path}/profile`)).text).not.toMatch(/move up|order/i);
    expect(page.answer.status).toBe(200);
  });

  it('profile: the preview shows what is typed as others would see it, and saves nothing', async () => {
    const { path, handle } = await newAgent();
    let page = await ada.open(`${path}/profile`);
    const typed = { display_name: 'Renamed', description: 'Sorts.', card_body: '**Bold** <b>x</b>', skill_1: 'sort' };
    page = await ada.browser.submit(page, mustFindForm(page, /^preview$/i), typed, /^preview$/i);
    const [, shown = ''] = /id="preview"([\s\S]*?)<form/.exec(bodyOf(page)) ?? [];
    for (const part of [handle, 'Renamed', 'Sorts.', '<strong>Bold</strong> &lt;b&gt;x&lt;/b&gt;', '>sort<'])
      expect(shown).toContain(part);
    expect(mustFindForm(page, /^save profile$/i).values).toMatchObject(typed);
    expect(bodyOf(await ada.open(`${path}/profile`))).not.toContain('Renamed');
  });

  it('no one can invite a paused agent, and a resumed one can be invited again', async () => {
    const { path, handle } = await newAgent();
    expect((await ada.press(path, /^pause$/i)).text).toContain('No one can invite it');
    expect((await ada.open('/dashboard/agents')).text).toMatch(new RegExp(`${handle} Paused`));
    expect((await ada.press(path, /^resume$/i)).text).not.toContain('No one can invite it');
  });

  it('access: says why an account that is not trusted cannot have open agents, and never mentions payment', async () => {
    const { path } = await newAgent();
    const page = await ada.press(path, /^save$/i, { inbound_policy: 'open', visibility: 'private' });
    expect(page.answer.status).toBe(403);
    expect(page.text).toContain('only accounts that its operator trusts can have open agents');
    expect(page.text).not.toMatch(/paid|upgrade|plan\b/i);
    expect(bodyOf(await ada.open(path))).toMatch(/value="open" disabled/);
    const form = mustFindForm(await ada.open(path), /^save$/i);
    expect(form.values).toMatchObject({ inbound_policy: 'allowlist', visibility: 'public' });
    expect(form.ticked).toMatchObject({ can_initiate_sessions: ['true'] });
  });

  it('access: an agent of a trusted account can be open, and search shows it', async () => {
    const alice = await stage.enterLocally('alice');
    await alice.createAgent('desk');
    const page = await alice.press('/dashboard/agents/desk', /^save$/i, { inbound_policy: 'open' });
    expect(page.text).toContain('Your changes were saved.');
    expect(bodyOf(await alice.open('/dashboard/agents/desk'))).not.toContain(' disabled');
    expect((await alice.open('/dashboard/agents')).text).toContain('@alice.desk Open');
    expect((await alice.open('/dashboard/agents/desk/allowlist')).text).toContain('This agent is open');
  });

  it('access: who finds it and whether it starts sessions are kept', async () => {
    const { path } = await newAgent();
    await ada.press(path, /^save$/i, { visibility: 'private', can_initiate_sessions: undefined });
    const form = mustFindForm(await ada.open(path), /^save$/i);
    expect(form.values).toMatchObject({ inbound_policy: 'allowlist', visibility: 'private' });
    expect(form.ticked).toEqual({});
  });

  it('removing asks first, and then takes it away with its clients', async () => {
    const { path, handle } = await newAgent();
    const client = await ada.press('/dashboard/new-client', /^create api credential$/i, { name: 'c', agent: handle });
    const asked = await ada.open(`${path}/remove`);
    expect(asked.text).toContain('This cannot be undone.');
    expect((await ada.open(path)).answer.status).toBe(200);
    const gone = await ada.browser.submit(asked, mustFindForm(asked, /^remove agent$/i), {}, /^remove agent$/i);
    expect(pathOf(gone)).toBe('/dashboard/agents');
    expect(gone.text).not.toContain(handle);
    expect((await ada.open(path)).answer.status).toBe(404);
    expect((await ada.open(pathOf(client))).answer.status).toBe(404);
  });
});

describe('The allowlist of an agent', () => {
  const entriesOf = async (path: string): Promise<string[]> =>
    formsOf((await ada.open(path)).answer.text)
      .flatMap(({ values }) => values['entry'] ?? values['handle'] ?? [])
      .filter((entry) => entry !== '');

  it('several entries are added at once, and each is removed on its own', async () => {
    const { path } = await newAgent();
    const list = `${path}/allowlist`;
    await ada.press(list, /^add$/i, { entry: ' @bob.helper,@grace.*  @bob.helper ' });
    expect(await entriesOf(list)).toEqual([`@${ada.username}.*`, '@bob.helper', '@grace.*'].sort());
    const page = await ada.open(list);
    const form = page.forms.find(({ values }) => values['entry'] === '@bob.helper');
    if (form === undefined) throw new Error('no form for the entry');
    await ada.browser.submit(page, form, {});
    expect(await entriesOf(list)).toEqual([`@${ada.username}.*`, '@grace.*'].sort());
    expect((await ada.browser.submit(page, form, {})).answer.status).toBe(404);
  });

  it('an entry that does not fit into a full list is reported at the field, and stays there', async () => {
    const list = `${(await newAgent()).path}/allowlist`;
    const thousand = (part: number): string =>
      Array.from({ length: 1_000 }, (_, index) => `@many.a${part * 1_000 + index}`).join(' ');
    for (let part = 0; part < 9; part += 1) await ada.press(list, /^add$/i, { entry: thousand(part) });
    const page = await ada.press(list, /^add$/i, { entry: thousand(9) });
    expect(page.answer.status).toBe(400);
    expect(page.text).toContain('An allowlist has at most 10000 entries.');
    expect(mistakesOf(page)).toEqual({ told: [], beside: ['entry'], focused: ['entry'] });
    expect(mustFindForm(page, /^add$/i).values['entry']).toBe(thousand(9));
  });

  it.each(['', 'bob', '@bob', '@*.*', '@Bob.helper', '<script>', '@bob.helper @'])(
    '%j is not an entry',
    async (entry) => {
      const page = await ada.press('/dashboard/agents/main/allowlist', /^add$/i, { entry });
      expect(page.answer.status).toBe(400);
      expect(page.text).toContain('Enter handles such as');
      expect(bodyOf(page)).not.toContain('<script>alert');
      expect(mustFindForm(page, /^add$/i).values['entry']).toBe(entry);
    },
  );

  it('the note names what was added to the allowlist, and only that', async () => {
    const { path } = await newAgent();
    const add = async (entry: string) => (await ada.press(`${path}/allowlist`, /^add$/i, { entry })).text;
    expect(await add('@bob.helper')).toContain('Added @bob.helper to the allowlist.');
    expect(await add('@bob.* @eve.bot, @eve.bot')).toContain('Added @bob.* and @eve.bot to the allowlist.');
    expect(await add('@c.a @c.b @c.c @c.d')).toContain('Added @c.a and 3 others to the allowlist.');
    expect((await ada.open(`${path}/allowlist`)).text).not.toContain('Added');
  });

  it('a removed entry can be restored with one button, once', async () => {
    const { path } = await newAgent();
    const list = `${path}/allowlist`;
    await ada.press(list, /^add$/i, { entry: '@bob.* @eve.bot' });
    const removed = await ada.press(list, /^remove @bob\.\*$/i);
    expect(removed.text).toContain('Removed from the allowlist.');
    const form = mustFindForm(removed, /^undo/i);
    const back = await ada.browser.submit(removed, form, {}, /^undo/i);
    expect([pathOf(back), back.text.includes('Added @bob.* to the allowlist.')]).toEqual([list, true]);
    expect(await entriesOf(list)).toEqual(expect.arrayContaining(['@bob.*', '@eve.bot']));
    await ada.press(list, /^remove @eve\.bot$/i);
    expect((await ada.open(list)).text).not.toContain('Undo');
  });

  it('removing an entry that is not on the list changes nothing, and offers no undo', async () => {
    const { path } = await newAgent();
    await ada.press(`${path}/allowlist`, /^add$/i, { entry: '@eve.bot' });
    for (const entry of ['x; Path=/', '@eve.bot\r\nx: y', 'bob:x', '<b>']) {
      const page = await ada.press(`${path}/allowlist`, /^remove @eve\.bot$/i, { entry });
      expect([entry, page.text.includes('Undo')]).toEqual([entry, false]);
    }
  });

  it('a lifted block can be restored with one button', async () => {
    const { path } = await newAgent();
    const list = `${path}/blocks`;
    const press = (page: Page, button: RegExp) => ada.browser.submit(page, mustFindForm(page, button), {}, button);
    await ada.press(list, /^block$/i, { handle: '@eve.bot' });
    const lifted = await ada.press(list, /^unblock @eve\.bot$/i);
    expect(lifted.text).toContain('No one is blocked');
    const again = await press(lifted, /^undo the unblocking of @eve\.bot$/i);
    expect([pathOf(again), again.text.includes('Blocked @eve.bot.'), again.text.includes('@eve.bot')]).toEqual([
      list,
      true,
      true,
    ]);
    expect((await ada.open(list)).forms.filter(({ action }) => action.endsWith('/remove'))).toHaveLength(1);
  });

  it('a handle is blocked, even if no such agent exists, and unblocked', async () => {
    const { path, handle } = await newAgent();
    const list = `${path}/blocks`;
    await ada.press(list, /^block$/i, { handle: '@bob.bot' });
    await ada.press(list, /^block$/i, { handle: '@nobody.here' });
    expect(await entriesOf(list)).toEqual(['@nobody.here', '@bob.bot']);
    for (const wrong of [handle, '@bob', ''])
      expect((await ada.press(list, /^block$/i, { handle: wrong })).answer.status).toBe(400);
    await ada.press(list, /^block$/i, { handle: '@bob.*' });
    for (const blocked of ['@bob.*', '@nobody.here', '@bob.bot'])
      await ada.press(list, new RegExp(`^unblock ${blocked.replace('*', '\\*')}$`, 'i'));
    expect((await ada.open(list)).text).toContain('No one is blocked');
  });

  it('long lists continue on the next page', async () => {
    const { path } = await newAgent();
    const all = Array.from({ length: 60 }, (_, index) => `@many.a${String(index).padStart(3, '0')}`);
    await ada.press(`${path}/allowlist`, /^add$/i, { entry: all.join(' ') });
    const first = await ada.open(`${path}/allowlist`);
    const second = await ada.browser.follow(first, /^next page$/i);
    const third = await ada.browser.follow(second, /^next page$/i);
    const listed = [first, second, third].flatMap((page) => page.text.match(/@many\.a\d+(?= Remove)/g) ?? []);
    expect(listed).toEqual(all);
    expect((await ada.open(`${path}/allowlist?after=nonsense`)).answer.status).toBe(400);
    expect((await ada.browser.follow(third, /^first page$/i)).text).toContain('@many.a000');
  });
});

it('many agents continue on the next page, each listed once', async () => {
  const bea = await stage.enter('bea');
  const made = [bea.handle];
  for (let index = 0; index < 27; index += 1) made.push(await bea.createAgent(`n${index}`));
  const first = await bea.open('/dashboard/agents');
  const second = await bea.browser.follow(first, /^next page$/i);
  const handlesOf = ({ answer }: Page) =>
    [...answer.text.matchAll(/<span class="mono">(@bea-[0-9a-f]+\.[a-z0-9]+)</g)].map(([, handle]) => handle);
  expect([...handlesOf(first), ...handlesOf(second)]).toEqual(made);
  expect(second.text).not.toContain('Next page');
});
