import { describe, expect, it } from 'vitest';

import { type ConsentPage, renderConsentPage } from '../../../src/service/web/authorize.js';
import { renderProblem } from '../../../src/service/web/form.js';
import { AGENT_SCOPES } from '../../../src/wire/scope.js';

describe('An error of a whole form', () => {
  it('has the focus, because no field has it', () => {
    expect(renderProblem('There is a problem', [{ message: 'Too many.' }])?.markup).toMatch(
      /^<section [^>]*tabindex="-1" autofocus/,
    );
    expect(renderProblem('There is a problem', [{ field: 'a', message: 'No.' }])?.markup).not.toContain('autofocus');
  });
});

describe('The agents of a consent page', () => {
  const pageOf = (count: number, chosen?: string): ConsentPage => ({
    host: 'asp.example',
    request: 'r',
    csrf: 'c',
    decidePath: '/decide',
    signOutPath: '/out',
    clientName: 'an application',
    clientUrl: undefined,
    answerTarget: { kind: 'program', name: '127.0.0.1:1' },
    scopes: AGENT_SCOPES,
    account: { username: 'ada', displayName: 'Ada' },
    agents: Array.from({ length: count }, (_, index) => ({ handle: `@ada.a${index}`, displayName: `A ${index}` })),
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

  it('are in a plain list if there are few', () => {
    const html = renderConsentPage(pageOf(6, '@ada.a5'));
    expect(html).toContain('class="choices"');
    expect(handlesOf(html)).toEqual([0, 1, 2, 3, 4, 5].map((index) => `@ada.a${index}`));
  });
});
