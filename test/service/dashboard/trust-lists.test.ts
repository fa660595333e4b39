import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { Page } from '../../support/browser.js';
import { mustFindForm } from '../../support/person.js';
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
