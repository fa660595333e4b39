import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DASHBOARD_STYLE, STYLE } from '../../../src/service/web/assets.js';
import { html, strangersText, untrustedText } from '../../../src/service/web/html.js';
import { ANY_CHARACTER } from '../../support/hostile-text.js';

describe('Markup', () => {
  it('escapes every value', () => {
    fc.assert(
      fc.property(fc.string({ unit: ANY_CHARACTER, maxLength: 40 }), (value) => {
        const { markup } = html`<p title="${value}">${value}</p>`;
        const inside = markup.slice('<p title="'.length, -'</p>'.length);
        expect(inside.replace('">', '')).not.toMatch(/[<>"']/);
      }),
    );
    expect(html`${'&lt;'}`.markup).toBe('&amp;lt;');
  });

  it('leaves markup unchanged, joins lists, and drops missing values', () => {
    expect(html`<ul>${['a', 'b'].map((item) => html`<li>${item}</li>`)}${undefined}${false}${0}</ul>`.markup).toBe(
      '<ul><li>a</li><li>b</li>0</ul>',
    );
  });

  it('isolates a stranger’s text, removes invisible characters, and shortens it', () => {
    fc.assert(
      fc.property(fc.string({ unit: ANY_CHARACTER, maxLength: 300 }), (value) => {
        const inside = strangersText(value).markup.replace(/^<bdi>|<\/bdi>$/g, '');
        expect(inside).not.toMatch(/(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Co}\p{Cs}<>]/u);
        expect([...inside.replaceAll(/&[#\w]+;/g, 'x')].length).toBeLessThanOrEqual(81);
      }),
    );
  });
});

describe('A name or a topic', () => {
  it.each([
    ['a family', '\u{1f468}\u200d\u{1f469}\u200d\u{1f467}'],
    ['a heart', '\u2764\ufe0f'],
    ['Persian words', '\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645'],
  ])('keeps the joiners that make %s', (_what, text) => {
    expect(untrustedText(text)).toBe(text);
  });

  it.each([
    ['Latin letters', 'pay\u200dpal', 'paypal'],
    ['a letter and the end', 'alice\u200c', 'alice'],
    ['nothing', '\u200d\u200d', ''],
  ])('loses joiners between %s, where no one sees them', (_what, text, shown) => {
    expect(untrustedText(text)).toBe(shown);
  });

  it('does not end with a joiner when it is shortened', () => {
    expect(untrustedText('\u{1f468}\u200d\u{1f469}', 2)).toBe('\u{1f468}…');
  });
});

describe('Colors', () => {
  it('need nothing that browsers have known only since May 2024', () => {
    expect(STYLE + DASHBOARD_STYLE).not.toContain('light-dark(');
  });

  const color = (theme: 'light' | 'dark', name: string): string => {
    const hex = '(#[0-9a-f]{6})';
    const both = new RegExp(`--${name}: var\\(--light, ${hex}\\) var\\(--dark, ${hex}\\)`);
    const [, light, dark] = both.exec(STYLE) ?? [];
    const value = theme === 'light' ? light : dark;
    if (value === undefined) throw new Error(`no color --${name}`);
    return value;
  };
  const luminance = (hex: string): number => {
    const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((at) => {
      const part = Number.parseInt(hex.slice(at, at + 2), 16) / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const contrast = (one: string, other: string): number => {
    const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };

  it.each(['light', 'dark'] as const)(
    '%s: text is readable (WCAG 2.2, 1.4.3), and edges and focus are visible (1.4.11)',
    (theme) => {
      const text = [
        ['ink', 'paper'],
        ['ink', 'sheet'],
        ['ink', 'tint'],
        ['ink', 'bad-tint'],
        ['soft', 'paper'],
        ['soft', 'sheet'],
        ['soft', 'tint'],
        ['accent', 'sheet'],
        ['accent', 'paper'],
        ['accent', 'tint'],
        ['on-accent', 'accent'],
        ['on-accent', 'accent-strong'],
        ['bad', 'sheet'],
        ['bad', 'tint'],
        ['bad', 'bad-tint'],
        ['on-bad', 'bad'],
        ['on-bad', 'bad-strong'],
        ['note', 'note-tint'],
      ] as const;
      for (const [front, back] of text) {
        const ratio = contrast(color(theme, front), color(theme, back));
        expect([front, back, ratio >= 4.5]).toEqual([front, back, true]);
      }
      for (const front of ['edge', 'ring'] as const) {
        expect([front, contrast(color(theme, front), color(theme, 'sheet')) >= 3]).toEqual([front, true]);
      }
    },
  );
});
