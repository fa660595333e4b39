import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createActor, operate } from '../../support/actors.js';
import type { Page } from '../../support/browser.js';
import { mustFindForm, signIn } from '../../support/person.js';
import { until } from '../../support/until.js';
import { bodyOf, openStage, pathOf, type Stage, type Visitor } from './stage.js';

let stage: Stage;
let ada: Visitor;
let count = 0;
beforeAll(async () => {
  stage = await openStage();
  ada = await stage.enter('ada');
});
afterAll(() => stage.close());

const newAgent = async (): Promise<string> => {
  count += 1;
  const name = `agent${count}`;
  await ada.createAgent(name);
  return `/dashboard/agents/${name}`;
};
const press = (page: Page, button: RegExp, values = {}) =>
  ada.browser.submit(page, mustFindForm(page, button), values, button);
const many = (length: number): string[] =>
  Array.from({ length }, (_, index) => `@many.a${String(index).padStart(5, '0')}`);
/** The entries that a page lists. */
const listedOn = (page: Page): string[] =>
  [...bodyOf(page).matchAll(/class="mono ink">([^<]+)</g)].map(([, one = '']) => one);

describe('The search in a long allowlist or block list', () => {
  it('finds entries by a part of a handle, and stays after one is removed and restored', async () => {
    const list = `${await newAgent()}/allowlist`;
    expect((await ada.open(list)).text).not.toContain('Search this list');
    await ada.press(list, /^add$/i, { entry: [...many(40), '@bob.helper', '@bob.h_lper'].join(' ') });
    const found = await press(await ada.open(list), /^search$/i, { q: ' Bob.H_ ' });
    expect(listedOn(found)).toEqual(['@bob.h_lper']);
    const removed = await press(found, /^remove @bob\.h_lper$/i);
    expect(new URL(removed.url).search).toBe('?q=bob.h_');
    expect(removed.text).toContain('No entry contains “bob.h_”.');
    const restored = await press(removed, /^undo/i);
    expect([new URL(restored.url).search, listedOn(restored)]).toEqual(['?q=bob.h_', ['@bob.h_lper']]);
    expect(listedOn(await ada.browser.follow(restored, /^whole list$/i))).toContain('@many.a00001');
  });

  it('a whole handle also finds the entry for all agents of its owner, in both lists', async () => {
    const path = await newAgent();
    await ada.press(`${path}/allowlist`, /^add$/i, { entry: '@bob.* @bobby.helper @x.bob' });
    await ada.press(`${path}/blocks`, /^block$/i, { handle: '@bob.*' });
    for (const q of ['@bob.helper', 'bob.helper']) {
      expect(listedOn(await ada.open(`${path}/allowlist?q=${q}`))).toEqual(['@bob.*']);
      expect(listedOn(await ada.open(`${path}/blocks?q=${q}`))).toEqual(['@bob.*']);
    }
  });

  it('continues on the next page with the same search', async () => {
    const list = `${await newAgent()}/allowlist`;
    await ada.press(list, /^add$/i, { entry: [...many(60), '@other.one'].join(' ') });
    const first = await ada.open(`${list}?q=many`);
    const second = await ada.browser.follow(first, /^next page$/i);
    const third = await ada.browser.follow(second, /^next page$/i);
    expect([first, second, third].flatMap(listedOn)).toEqual(many(60));
  });

  it.each(['%', '!', '\u0000', "' OR 1=1 --", '<script>alert(1)</script>', 'a'.repeat(200), 'böb'])(
    '%j finds nothing, and is shown as text',
    async (q) => {
      for (const list of ['/dashboard/agents/main/allowlist', '/dashboard/agents/main/blocks']) {
        const page = await ada.open(`${list}?q=${encodeURIComponent(q)}`);
        expect([page.answer.status, listedOn(page)]).toEqual([200, []]);
        expect(page.text).toContain('Nothing found');
        expect(bodyOf(page)).not.toContain('<script>alert');
        expect(pathOf(page)).toBe(list);
      }
    },
  );
});

describe('A pasted list', () => {
  it('has comments of any length, whatever characters they contain', async () => {
    const list = `${await newAgent()}/allowlist`;
    const text = `@bob.helper ${'#'.repeat(40_000)} for Bob\u2028and Ann\n@a.one#`;
    const page = await ada.press(list, /^add all$/i, { list: text });
    expect(page.text).toContain('Added @bob.helper and @a.one to the allowlist.');
  });

  const LISTS = [
    ['allowlist', /^add all$/i, 'Added @bob.* and 4 others to the allowlist.'],
    ['blocks', /^block all$/i, 'Blocked @bob.* and 4 others. Any sessions you shared go on without them.'],
  ] as const;

  it.each(LISTS)(
    '%s: lines, spaces, commas and comments are understood, and each entry counts once',
    async (kind, button, note) => {
      const list = `${await newAgent()}/${kind}`;
      const text = '# from ops.allow\r\n@bob.*\r\n@a.one, @a.two;@a.three # old\n\t@a.four\n@a.one\n';
      const page = await ada.press(list, button, { list: text });
      expect([pathOf(page), page.text.includes(note)]).toEqual([list, true]);
      expect(listedOn(page)).toEqual(expect.arrayContaining(['@bob.*', '@a.one', '@a.two', '@a.three', '@a.four']));
    },
  );

  it.each(LISTS)(
    '%s: what cannot be added is reported with its line and the reason, and nothing is changed',
    async (kind, button) => {
      const list = `${await newAgent()}/${kind}`;
      const before = listedOn(await ada.open(list));
      const text = '@bob.helper\nbob.helper\n@eve.bot @Eve.Bot\n<script>alert(1)</script>';
      const page = await ada.press(list, button, { list: text });
      expect(page.answer.status).toBe(400);
      for (const fault of [
        'Line 2: “bob.helper” does not begin with @.',
        'Line 3: “@Eve.Bot” has capital letters.',
        'Line 4: “<script>alert(1)</script>” is not a handle.',
      ])
        expect(page.text).toContain(fault);
      expect(bodyOf(page)).not.toContain('<script>alert');
      expect(mustFindForm(page, button).values['list']?.split(/\r?\n/)).toEqual(text.split('\n'));
      expect(listedOn(await ada.open(list))).toEqual(before);
    },
  );

  it('the others are added if the person asks for it, and the note counts what was left out', async () => {
    const list = `${await newAgent()}/allowlist`;
    const asked = await ada.press(list, /^add all$/i, { list: '@bob.helper\nbob\n@eve.bot\n@Eve.bot' });
    const page = await press(asked, /^add the other 2$/i);
    expect(page.text).toContain('Added @bob.helper and @eve.bot to the allowlist. 2 left out.');
    expect(listedOn(page)).toEqual(expect.arrayContaining(['@bob.helper', '@eve.bot']));
    const nothing = await ada.press(list, /^add all$/i, { list: 'bob eve' });
    expect(nothing.text).not.toContain('the other');
    expect((await press(nothing, /^add all$/i, { skip: '1' })).answer.status).toBe(400);
  });

  it('an agent blocks itself neither by its handle nor by its owner', async () => {
    const path = await newAgent();
    const handle = `@${ada.username}.${path.split('/').at(-1)}`;
    for (const entry of [handle, `@${ada.username}.*`]) {
      const page = await ada.press(`${path}/blocks`, /^block$/i, { handle: `@bob.bot ${entry}` });
      expect([page.answer.status, page.text.includes('An agent cannot block itself.')]).toEqual([400, true]);
      const rest = await press(page, /^block the other one$/i);
      expect(listedOn(rest)).toEqual(['@bob.bot']);
    }
  });

  it('many faults are counted, and ten thousand entries are added at once', async () => {
    const list = `${await newAgent()}/allowlist`;
    const wrong = await ada.press(list, /^add all$/i, { list: many(1_000).join('\n').replaceAll('@', '') });
    expect(wrong.text).toContain('Line 20: “many.a00019” does not begin with @. And 980 more.');
    expect(wrong.text).not.toContain('Line 21');
    const full = await ada.press(list, /^add all$/i, { list: many(10_000).join('\n') });
    expect([full.answer.status, full.text.includes('An allowlist has at most 10000 entries.')]).toEqual([400, true]);
    const page = await press(full, /^add all$/i, { list: many(9_999).join('\n') });
    expect(page.text).toContain('Added @many.a00000 and 9,998 others to the allowlist.');
    expect(listedOn(await ada.open(`${list}?q=a09998`))).toEqual(['@many.a09998']);
    const more = await ada.press(list, /^add all$/i, { list: `${many(10_000).join('\n')}\n@one.more` });
    expect([more.answer.status, more.text.includes('Enter at most 10,000 handles at once.')]).toEqual([400, true]);
  });

  it('is refused as a whole if it is larger than a form can be', async () => {
    const list = `${await newAgent()}/allowlist`;
    const page = await ada.press(list, /^add all$/i, { list: `${'# ä'.repeat(200_000)}\n@bob.helper` });
    expect(page.answer.status).toBe(413);
    expect(listedOn(await ada.open(list))).toEqual([`@${ada.username}.*`]);
  });

  it('waits while its person signs in again, no matter how long the list is', async () => {
    const zoe = await stage.enter('zoe');
    const list = '/dashboard/agents/main/allowlist';
    const text = many(5_000).join('\n');
    const page = await zoe.open(list);
    await zoe.press('/dashboard/agents', /^sign out$/i);
    const send = (from: Page, button: RegExp, values = {}) =>
      zoe.browser.submit(from, mustFindForm(from, button), values, button);
    const waiting = await send(page, /^add all$/i, { list: text });
    expect([waiting.answer.status, waiting.text.includes('You were signed out')]).toEqual([403, true]);
    await signIn(zoe.browser, await zoe.open('/oauth/sign-in'), zoe);
    const shown = await send(waiting, /^continue$/i);
    expect(shown.text).toContain('You signed in again after you opened this page.');
    expect((await send(shown, /^add all$/i)).text).toContain('Added @many.a00000 and 4,999 others');
  });

  it('no field of these lists cuts what someone pastes', async () => {
    for (const list of ['/dashboard/agents/main/allowlist', '/dashboard/agents/main/blocks']) {
      const { text } = (await ada.open(list)).answer;
      for (const tag of text.match(/<(?:input[^>]*id="(?:entry|handle)"|textarea)[^>]*>/g) ?? [])
        expect(tag).not.toContain('maxlength');
    }
  });
});

describe('Recent counterparts', () => {
  const ADD = /^add (@\S+)$/i;
  const suggestedOn = (page: Page): string[] =>
    page.forms.flatMap(({ buttons }) => buttons.flatMap(({ label }) => ADD.exec(label)?.[1] ?? []));
  const offeredOn = (page: Page): string[] =>
    [...page.answer.text.matchAll(/<option value="(@[^"]+)">/g)].map(([, one = '']) => one);

  it('are suggested until a list names them or their owner, whether or not they still exist', async () => {
    const { desk, operator } = stage;
    const mine = await createActor(desk.place, operator, 'mine', { policy: 'allowlist' });
    const [bob, carol, dan, erin] = [
      await createActor(desk.place, operator, 'bob'),
      await createActor(desk.place, operator, 'carol'),
      await createActor(desk.place, operator, 'dan'),
      await createActor(desk.place, operator, 'erin'),
    ];
    const sister = await createActor(desk.place, operator, 'sister', { owner: mine.owner });
    for (const other of [bob, carol, dan, sister]) {
      await mine.mustCreate({ invite: [other.handle] });
      desk.clock.advance(1_000);
    }
    await erin.mustCreate({ invite: [bob.handle] });
    await operate(operator, 'DELETE', `/accounts/${carol.owner}`);
    const owner = await stage.enterLocally(mine.owner);
    const [list, blocks] = ['allowlist', 'blocks'].map((kind) => `/dashboard/agents/${mine.name}/${kind}`);
    if (list === undefined || blocks === undefined) throw new Error('no pages');
    const page = await until('all are suggested', async () => {
      const opened = await owner.open(list);
      return suggestedOn(opened).length === 3 && opened;
    });
    const met = [bob.handle, carol.handle, dan.handle];
    expect([...suggestedOn(page)].sort()).toEqual(met);
    expect(suggestedOn(page).filter((handle) => handle !== carol.handle)).toEqual([dan.handle, bob.handle]);
    expect(offeredOn(await owner.open(blocks)).sort()).toEqual(met);
    const added = await owner.press(list, new RegExp(`^add ${dan.handle}$`, 'i'));
    expect(added.text).toContain(`Added ${dan.handle} to the allowlist.`);
    await owner.press(list, /^add$/i, { entry: `@${bob.owner}.*` });
    await owner.press(blocks, /^block$/i, { handle: carol.handle });
    expect(suggestedOn(await owner.open(list))).toEqual([]);
    expect((await owner.open(list)).text).not.toContain('Recent counterparts');
    expect(offeredOn(await owner.open(blocks))).toEqual([]);
  });
});
