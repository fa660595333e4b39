import { describe, expect, it } from 'vitest';

import { renderEntry } from '../../../src/service/web/dashboard/transcript.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../src/wire/limit.js';
import type { EventEnvelope } from '../../../src/wire/schemas/event.js';

const entryOf = (said: object, isWhole: boolean): string => {
  const event: EventEnvelope = {
    type: 'session.message',
    session_id: 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV',
    event_id: 'evt_01ARZ3NDEKTSV4RRFFQ69G5FAV',
    sequence: 7,
    created_at: 0,
    payload: { sender: '@eve.bot', ...said },
  };
  return renderEntry(event, { path: '/p', username: 'ada', through: 100, isWhole }).item.markup;
};

/** As large as a message may be, and as deep: laid out on lines of their own its brackets take sixty times the room. */
const BRACKETS: unknown = JSON.parse(`[${'['.repeat(55)}${']'.repeat(55)}]`);
const DEEP = { a: Array.from({ length: 2200 }, () => BRACKETS) };
const MANY = Array.from({ length: 9000 }, (_, index) => ({ type: 'text', text: `part ${index}.` }));

describe('A message in a transcript', () => {
  it.each([
    ['data', { content: [{ type: 'data', data: DEEP }] }],
    ['metadata', { content: 'x', metadata: DEEP }],
    ['a part that is not known', { content: [{ type: 'new', deep: DEEP }] }],
    ['many parts', { content: MANY }],
    ['many small data', { content: Array.from({ length: 1000 }, () => ({ type: 'data', data: { a: BRACKETS } })) }],
    ['a long text', { content: 'x'.repeat(250_000) }],
  ])('takes little room, whatever it holds: %s', (_, said) => {
    expect(entryOf(said, false).length).toBeLessThan(100_000);
    expect(entryOf(said, false)).toContain('href="/p/events/7"');
    expect(entryOf(said, true).length).toBeLessThan(8 * MESSAGE_BODY_MAX_BYTES);
  });

  it('is whole on a page of its own', () => {
    const whole = entryOf({ content: MANY, metadata: { trace: `${'m'.repeat(5000)} the end` } }, true);
    expect(whole).toContain('part 8999.');
    expect(whole).toContain('the end');
  });

  it('is indented if it is not deeper than people read', () => {
    const data = { order: { items: [{ sku: 'a' }] } };
    expect(entryOf({ content: [{ type: 'data', data }] }, false)).toContain('\n        &quot;sku&quot;: &quot;a&quot;');
    expect(entryOf({ content: 'x', metadata: data }, false)).toContain('\n        &quot;sku&quot;: &quot;a&quot;');
  });
});

const textOf = (content: string): string => {
  const [, text = ''] = /<div class="bubble">([\s\S]*)<\/div><\/div><\/li>$/.exec(entryOf({ content }, false)) ?? [];
  return text;
};

describe('The text of a message', () => {
  it('shows the Markdown that agents write', () => {
    const text = textOf('# Plan\n\n1. *build*\n2. **ship** `main`\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |');
    expect(text).toContain('<p class="title">Plan</p>');
    expect(text).toContain('<li><em>build</em></li>');
    expect(text).toContain('<strong>ship</strong> <code>main</code>');
    expect(text).toContain('<blockquote>');
    expect(text).toContain('<td>2</td>');
  });

  it('keeps line breaks, and lets a reader copy code', () => {
    expect(textOf('one\ntwo')).toContain('one<br>\ntwo');
    const code = textOf('```ts\nconst a = 1 < 2;\n```');
    expect(code).toContain('<span>ts</span><button type="button" class="copy">Copy</button>');
    expect(code).toContain('<code>const a = 1 &lt; 2;\n</code>');
  });

  it('says which host a link leads to, whatever its text says', () => {
    expect(textOf('[your bank](https://evil.example/login)')).toContain(
      '<a href="https://evil.example/login" target="_blank" rel="noopener noreferrer nofollow">your bank</a> <bdi class="soft small">(evil.example)</bdi>',
    );
    const shown = textOf('[https://bank.example](https://evil.example/)');
    expect(shown).toContain('(evil.example)');
    expect(textOf('see https://docs.example/a')).not.toContain('<bdi');
  });

  it.each([
    ['a script', '<script>alert(1)</script>'],
    ['an event handler', '<img src=x onerror=alert(1)>'],
    ['a script address', '[x](javascript:alert(1))'],
    ['a data address', '[x](data:text/html;base64,PHNjcmlwdD4=)'],
    ['an address of the dashboard itself', '[x](/dashboard/settings/delete)'],
    ['an image from elsewhere', '![x](https://evil.example/pixel.png)'],
    ['a quote in an address', '[x](https://a.example/"onmouseover="alert(1))'],
    ['a link definition', '[bank]\n\n[bank]: https://evil.example'],
    ['a language with markup', '```"><script>\nx\n```'],
  ])('makes nothing dangerous of %s', (_, content) => {
    const text = textOf(content);
    expect(text).not.toMatch(/<(?:script|img|iframe|style)|<[^>]*\son\w+=|href="(?:javascript|data|\/)/i);
  });

  it('is shown as it was written where it is little else than marks', () => {
    const marks = '*_['.repeat(600);
    expect(textOf(marks)).toContain(`<p class="text as-written" dir="auto">${marks}</p>`);
  });
});
