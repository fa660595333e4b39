import { describe, expect, it } from 'vitest';

import { type ConsentPage, renderConsentPage } from '../../../src/service/web/authorize.js';
import { renderMistakes, renderProblem } from '../../../src/service/web/form.js';
import { AGENT_SCOPES } from '../../../src/wire/scope.js';

describe('An error of a whole form', () => {
  it('has the focus, because no field has it', () => {
    expect(renderProblem('Please fix the following', [{ message: 'Too many.' }])?.markup).toMatch(
      /^<section [^>]*tabindex="-1" autofocus/,
    );
    expect(renderProblem('Please fix the following', [{ field: 'a', message: 'No.' }])?.markup).not.toContain(
      'autofocus',
    );
  });
});

describe('The list of mistakes above a form', () => {
  it('is left out if the only mistake is shown at its field', () => {
    expect(renderMistakes([{ field: 'a', message: 'No.' }])).toBeUndefined();
    expect(renderMistakes([])).toBeUndefined();
  });

  it('names several mistakes, and one that belongs to no field', () => {
    const both = ['a', 'b'].map((field) => ({ field, message: 'No.' }));
    expect(renderMistakes(both)?.markup).toMatch(/Please fix the following[\s\S]*href="#b"/);
    // No field can fix this.
    expect(renderMistakes([{ message: 'Too many.' }])?.markup).toMatch(/There is a problem[\s\S]*Too many\./);
  });
});

describe('The agents of a consent page', () => {
  const pageOf = (count: number, chosen?: string): ConsentPage => ({
    look: {
      host: 'asp.example',
      name: 'asp',
      preferences: { theme: 'system', hours: '24', zone: 'local', density: 'comfortable', hasShortcuts: true },
    },
    values: { request: 'r', csrf: 'c' },
    client: { id: 'client_1', name: 'an application' },
    redirectUri: 'http://127.0.0.1:1/',
    scopes: AGENT_SCOPES,
    account: { username: 'ada', display_name: 'Ada' },
    agents: Array.from({ length: count }, (_, index) => ({ handle: `@ada.a${index}`, display_name: `A ${index}` })),
    chosen,
    missingHandle: undefined,
    mistakes: [],
    filled: {},
  });
  const handlesOf = (html: string): (string | undefined)[] =>
    [...html.matchAll(/value="(@ada\.a\d+)"/g)].map(([, handle]) => handle);

  it('are in a scrolling list with the selected one first if there are many', () => {
    const html = renderConsentPage(pageOf(9, '@ada.a7'));
    expect(html).toContain('class="choices many"');
    expect(handlesOf(html)).toEqual([7, 0, 1, 2, 3, 4, 5, 6, 8].map((index) => `@ada.a${index}`));
  });

  it('leave the choice of a new one outside the list that scrolls', () => {
    const [, list = '', rest = ''] = renderConsentPage(pageOf(9)).split('<div class="choices');
    expect([list.includes('@ada.a8'), list.includes('agent-new'), rest.includes('agent-new')]).toEqual([
      true,
      false,
      true,
    ]);
  });

  it('say that one must be chosen, next to them', () => {
    const html = renderConsentPage({ ...pageOf(2), mistakes: [{ field: 'agent-0', message: 'Choose an agent.' }] });
    expect(html).toContain('<span class="mistake" id="agent-0-mistake" role="alert">Choose an agent.</span>');
    expect(html).not.toContain('Please fix the following');
  });

  it('are in a plain list if there are few', () => {
    const html = renderConsentPage(pageOf(6, '@ada.a5'));
    expect(html).toContain('class="choices"');
    expect(handlesOf(html)).toEqual([0, 1, 2, 3, 4, 5].map((index) => `@ada.a${index}`));
  });
});
