import { describe, expect, it } from 'vitest';

import { CHOICE_MAX_LENGTH, CHOICES_MAX, listChoices } from '../../src/wire/message.js';

const of = (...choices: unknown[]): readonly string[] => listChoices({ metadata: { choices } });

describe('The choices of a question', () => {
  it.each([
    [['yes', 'no']],
    [['Deploy now', 'In an hour', '100 %', '<b>later</b>']],
    [['はい', 'いいえ']],
    [['نعم', 'لا']],
    [['é', 'e']],
    [['\u{1f44d}', '\u{1f44e}']],
    [['x'.repeat(CHOICE_MAX_LENGTH), 'y']],
    [Array.from({ length: CHOICES_MAX }, (_, index) => `${index}`)],
  ])('are offered unchanged: %j', (choices) => {
    expect(of(...choices)).toEqual(choices);
  });

  it.each([
    ['too few', []],
    ['only one', ['yes']],
    ['too many', Array.from({ length: CHOICES_MAX + 1 }, (_, index) => `${index}`)],
    ['a number', ['yes', 1]],
    ['nothing', ['yes', '']],
    ['too long', ['yes', 'x'.repeat(CHOICE_MAX_LENGTH + 1)]],
    ['the same twice', ['yes', 'no', 'yes']],
    ['the same in upper case', ['yes', 'YES']],
    ['a space before', ['yes', ' no']],
    ['a space after', ['yes', 'no ']],
    ['two spaces', ['yes', 'not  now']],
    ['a space of another kind', ['yes', 'not\u00a0now']],
    ['only spaces', ['yes', '\u3000']],
    ['a line break', ['yes', 'no\nyes']],
    ['a line separator', ['yes', 'no\u2028yes']],
    ['a control character', ['yes', 'no\u0007']],
    ['a C1 control character', ['yes', 'no\u009b']],
    ['a soft hyphen', ['yes', 'n\u00ado']],
    ['a zero-width space', ['yes', 'no\u200b']],
    ['a change of direction', ['yes', '\u202eno']],
    ['an isolate', ['yes', '\u2066no\u2069']],
    ['hidden ASCII', ['yes', 'no\u{e0041}\u{e0042}']],
    ['a variation selector', ['yes', 'no\u{e0100}']],
    ['a Hangul filler', ['yes', 'no\u3164']],
    ['an empty Braille cell', ['yes', 'no\u2800']],
    ['private use', ['yes', 'no\ue000']],
    ['half a surrogate pair', ['yes', 'no\ud83d']],
  ])('are not offered with %s', (_, choices) => {
    expect(of(...choices)).toEqual([]);
  });
});
