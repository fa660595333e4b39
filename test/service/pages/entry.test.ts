import highlighter from 'highlight.js/lib/core';
import rust from 'highlight.js/lib/languages/rust';
import { describe, expect, it } from 'vitest';
import { renderAbout } from '../../../src/service/web/dashboard/agent-page.js';
import { renderComposer, renderManage } from '../../../src/service/web/dashboard/compose.js';
import { gapInWords, renderEntry } from '../../../src/service/web/dashboard/entries.js';
import { renderFrame, renderReaderPage } from '../../../src/service/web/dashboard/frame.js';
import { renderKnock } from '../../../src/service/web/dashboard/knocks.js';
import { prepareCode } from '../../../src/service/web/dashboard/markdown.js';
import { renderExcerpt } from '../../../src/service/web/dashboard/search.js';
import { renderTopic } from '../../../src/service/web/dashboard/sessions.js';
import { renderSessionHead } from '../../../src/service/web/dashboard/transcript.js';
import { html, renderFace, renderName, untrustedText } from '../../../src/service/web/html.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../src/wire/limit.js';
import type { EventEnvelope } from '../../../src/wire/schemas/event.js';
import { hostileTexts } from '../../support/hostile-text.js';

const eventOf = (said: object, type = 'session.message'): EventEnvelope =>
  ({
    type,
    session_id: 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV',
    event_id: 'evt_01ARZ3NDEKTSV4RRFFQ69G5FAV',
    sequence: 7,
    created_at: 0,
    payload: { sender: '@eve.bot', ...said },
  }) as EventEnvelope;
const entryOf = (said: object, isWhole: boolean): string => {
  const event = eventOf(said);
  return renderEntry({ event, where: { path: '/p', username: 'ada', through: 100, isWhole } }).markup;
};

/** The largest and deepest possible message. With each bracket on its own line, it takes sixty times the space. */
const BRACKETS: unknown = JSON.parse(`[${'['.repeat(55)}${']'.repeat(55)}]`);
const DEEP = { a: Array.from({ length: 2200 }, () => BRACKETS) };
const MANY = Array.from({ length: 9000 }, (_, index) => ({ type: 'text', text: `part ${index}.` }));

it.each([
  [999, undefined],
  [1_000, '+1.0 s'],
  [9_949, '+9.9 s'],
  [9_960, '+10 s'],
  [59_499, '+59 s'],
  [59_900, '+1 min'],
  [3_569_000, '+59 min'],
  [3_599_000, '+1 h'],
  [84_599_000, '+23 h'],
  [86_399_000, '+1 d'],
])('A gap of %i ms is shown as %s, in the unit that a person would use', (ms, words) =>
  expect(gapInWords(ms)).toBe(words),
);

describe('A message in a transcript', () => {
  it.each([
    ['data', { content: [{ type: 'data', data: DEEP }] }],
    ['metadata', { content: 'x', metadata: DEEP }],
    ['a part that is not known', { content: [{ type: 'new', deep: DEEP }] }],
    ['many parts', { content: MANY }],
    ['many small data', { content: Array.from({ length: 1000 }, () => ({ type: 'data', data: { a: BRACKETS } })) }],
    ['a long text', { content: 'x'.repeat(250_000) }],
  ])('stays small, no matter what it contains: %s', (_, said) => {
    expect(entryOf(said, false).length).toBeLessThan(100_000);
    expect(entryOf(said, false)).toContain('href="/p/events/7"');
    expect(entryOf(said, true).length).toBeLessThan(8 * MESSAGE_BODY_MAX_BYTES);
  });

  it('is complete on its own page', () => {
    const whole = entryOf({ content: MANY, metadata: { trace: `${'m'.repeat(5000)} the end` } }, true);
    expect(whole).toContain('part 8999.');
    expect(whole).toContain('the end');
  });

  it('is a collapsible tree if it is small, and text if it is large or deep', () => {
    const data = { order: { items: [{ sku: 'a' }] }, none: {} };
    for (const shown of [
      entryOf({ content: [{ type: 'data', data }] }, false),
      entryOf({ content: 'x', metadata: data }, false),
    ]) {
      expect(shown).toContain('<summary><bdi>items</bdi>: <span class="soft">[1]</span></summary>');
      expect(shown).toContain('<span class="soft"><bdi>sku</bdi>:</span> <bdi>&quot;a&quot;</bdi>');
    }
    const large = Object.fromEntries(Array.from({ length: 301 }, (_, index) => [`name${index}`, index]));
    expect(entryOf({ content: [{ type: 'data', data: large }] }, false)).not.toContain('class="tree');
    expect(entryOf({ content: [{ type: 'data', data: large }] }, true)).toContain('\n  &quot;name300&quot;: 300');
  });
});

const KNOWN_TAG =
  /^<(?:\/(?:li|span|div|p|b|a|bdi|details|summary|pre|ul|ol|code|em|strong|del|s|blockquote|button|table|thead|tbody|tr|td|th|article)|(?:hr|br|img|li|span|div|p|b|a|bdi|details|summary|pre|ul|ol|code|em|strong|s|blockquote|button|table|thead|tbody|tr|td|th|time|article)(?: (?:class|id|aria-labelledby|aria-owns|dir|tabindex|type|alt|title|datetime|rel|target|start|open|loading|decoding|width|height|aria-hidden|data-(?:sequence|message|sender|re|form))(?:="[^"]*")?| data-back="(?:Formatted|Show less)"| href="(?:\/p[/?]|https?:|mailto:)[^"]*"| src="(?:\/p\/|data:image\/)[^"]*")*|\/time|(?:\/?svg|path)(?: [\w-]+="[^"]*")*\/?)>$/;

/** Returns tags that the service does not write, and angle brackets outside of tags. */
const findForeign = (markup: string): string[] => {
  const tags = markup.match(/<[^>]*>?/g) ?? [];
  const between = markup.replace(/<[^>]*>/g, '');
  return [...tags.filter((tag) => !KNOWN_TAG.test(tag)), ...(between.match(/[<>]/g) ?? [])];
};

const CODE_LANGUAGES = ['js', 'ts', 'json', 'bash', 'python', 'diff', 'sql', 'yaml', 'html', 'go', 'rust'];

describe('Two thousand hostile texts', () => {
  const attacks = [
    '<script>alert(1)</script>',
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='x",
    '</pre></li><b>',
    '&lt;',
  ];
  const texts = hostileTexts(2_000, 2).map((text, index) => `${attacks[index % attacks.length]}${text}`);

  it('stay text in every part of a message', () => {
    const size = { width: 1, height: 1 };
    const id = 'att_01ARZ3NDEKTSV4RRFFQ69G5FAV';
    for (const text of texts) {
      const content = [
        { type: 'text', text },
        { type: 'text', text: `\`\`\`${text}\n${text}\n\`\`\`` },
        { type: 'data', data: { [text]: text, deeper: { [text]: [text] } } },
        { type: 'file', attachment_id: id, name: text, mime_type: text },
        { type: 'file', url: `https://example.org/${text}`, name: text },
        { type: 'image', attachment_id: id, name: text },
        { type: 'image', data_uri: 'data:image/png;base64,iVBORw0KGgo=', name: text },
        { type: text, [text]: text },
      ];
      const message = { id: 'msg_01ARZ3NDEKTSV4RRFFQ69G5FAV', sender: '@eve.bot', content, metadata: { [text]: text } };
      const event = eventOf({ ...message, metadata: { ...message.metadata, in_reply_to: text, sent_by: text } });
      const pictures = new Map([[id, size]]);
      const where = { path: '/p', username: 'ada', through: 100, canReply: true, pictures };
      expect(findForeign(renderEntry({ event, where }, event).markup)).toEqual([]);
      expect(findForeign(renderEntry({ event, where: { ...where, isWhole: true } }).markup)).toEqual([]);
    }
  });

  it('stay text wherever the dashboard shows what others named or wrote: each leaves the tags as they are', () => {
    const now = 0;
    const frame = { version: undefined, csrf: 'c', now, needsCount: 3, isPushed: false };
    const preferences = { theme: 'system', hours: '24', zone: 'local', density: 'usual', hasShortcuts: true };
    const session = (topic: string) =>
      ({ id: 's', state: 'active', topic, created_at: 0, ended_at: null, participants: [] }) as never;
    const typed = (text: string) => ({
      text,
      handles: text,
      mistakes: [{ message: text }, { field: 'text', message: text }],
    });
    const answered = (text: string) => ({ sequence: 1, id: 'm', sender: '@eve.bot', text, choices: [text] });
    const writers = [{ handle: '@ada.bot' }] as never;
    const composer = (text: string) =>
      ({
        writers,
        invited: [],
        reopeners: [],
        joined: [],
        path: '/p',
        csrf: 'c',
        key: 'k',
        typed: typed(text),
        answered: answered(text),
        isEnded: false,
        canShare: true,
        viewQuery: '',
      }) as const;
    const places: Readonly<Record<string, (text: string) => string>> = {
      'the name of an account, the title of the tab and the name of the service': (text) => {
        const account = { username: 'ada', display_name: text, is_operator: 1 } as never;
        const look = { host: 'h', name: text, preferences } as never;
        const view = { title: untrustedText(text), section: undefined, main: html`` } as const;
        return renderFrame(view, { ...frame, look, account }) + renderReaderPage(view, { look, now });
      },
      'a topic': (text) => renderTopic({ topic: text }).markup,
      'the head of a session': (text) =>
        renderSessionHead(session(text), { ownAgents: [], username: 'ada', online: new Set() }, now).markup,
      'the name of an agent': (text) => `${renderName(text, '@eve.bot').markup}${renderFace(text).markup}`,
      'a knock': (text) => {
        const knock = { sender: '@eve.bot', text, times: 2, last_at: 0 } as never;
        return renderKnock(knock, { path: '/k', csrf: 'c', now, handle: '@ada.bot' }).markup;
      },
      'the forms of a session': (text) =>
        `${renderComposer(composer(text)).markup}${renderManage(composer(text), 'two', html`${text}`).markup}`,
      'the result of a search': (text) => renderExcerpt(text, new Set(['none-of-these'])).markup,
      'the page of an agent': (text) => {
        const described = { description: text, card_body: null, owner: 'eve', owner_display_name: text };
        return renderAbout(described, [{ name: text, description: text }], undefined).markup;
      },
    };
    /** The tags, and which attributes they have: what someone wrote must change neither. */
    const skeletonOf = (markup: string): string =>
      (markup.replace(/="[^"]*"/g, '=""').match(/<[^>]*>?/g) ?? []).join('');
    for (const [place, render] of Object.entries(places)) {
      const usual = skeletonOf(render('usual'));
      const changed = texts.filter((text) => skeletonOf(render(`usual ${text}`)) !== usual);
      expect([place, changed]).toEqual([place, []]);
    }
  });

  it.each(CODE_LANGUAGES)('stay text in code, which is highlighted: %s', async (language) => {
    for (const text of texts) {
      const content = `\`\`\`${language}\nconst a = "${text}"; // ${text}\n# ${text}\n\`\`\``;
      const colorCode = await prepareCode([content]);
      const where = { path: '/p', username: 'ada', through: 100, isWhole: true };
      const colored = renderEntry({ event: eventOf({ content }), where: { ...where, colorCode } }).markup;
      expect(findForeign(colored)).toEqual([]);
      const plain = renderEntry({ event: eventOf({ content }), where }).markup;
      expect(colored.replace(/<span class="code-[a-z]+">|<\/span>/g, '')).toBe(plain.replaceAll('</span>', ''));
    }
  });

  it('stay text in the events of a session', () => {
    for (const text of texts) {
      const payload = { by: text, invitee: text, agent: text, ended_by: text, reopened_by: text };
      for (const type of ['session.invited', 'session.left', 'session.ended', text]) {
        const event = eventOf(payload, type);
        const where = { path: '/p', username: 'ada', through: 100 };
        expect(findForeign(renderEntry({ event, where }).markup)).toEqual([]);
      }
    }
  });
});

const textOf = (content: string): string => {
  const [, text = ''] =
    /<div class="bubble">([\s\S]*)<\/div><\/div><\/article><\/li>$/.exec(entryOf({ content }, false)) ?? [];
  return text;
};

describe('The text of a message', () => {
  it.each(['ftp://a/', 'ws://a/', '//a.b ', 'mailto:', 'http://', 'http://['])(
    'costs about as much with the addresses %s that it does not link as with addresses that it links',
    (address) => {
      const costOf = (text: string): number => {
        const before = process.cpuUsage();
        entryOf({ content: text.repeat(16_000 / text.length) }, true);
        const { user, system } = process.cpuUsage(before);
        return user + system;
      };
      const linked = 'http://a.b/ ';
      costOf(linked);
      expect(costOf(address)).toBeLessThan(20 * costOf(linked));
    },
  );

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

  const codeOf = async (...contents: readonly string[]): Promise<string[]> => {
    const colorCode = await prepareCode(contents);
    const where = { path: '/p', username: 'ada', through: 100, isWhole: true, colorCode };
    return contents.map((content) => {
      const { markup } = renderEntry({ event: eventOf({ content }), where });
      return /<code>([\s\S]*)<\/code>/.exec(markup)?.[1] ?? '';
    });
  };

  it.each([
    ['js', 'let a = 1;', '<span class="code-keyword">let</span> a = <span class="code-number">1</span>;'],
    ['JSON', '{"a": true}', '<span class="code-name">&quot;a&quot;</span>'],
    ['python', '# why', '<span class="code-comment"># why</span>'],
    ['sh', 'if true; then', '<span class="code-keyword">if</span>'],
    ['diff', '-old\n+new', '<span class="code-removed">-old</span>\n<span class="code-added">+new</span>'],
    ['sql', 'SELECT 1', '<span class="code-keyword">SELECT</span>'],
    ['yml', 'a: "b"', '<span class="code-string">&quot;b&quot;</span>'],
    ['html', '<b>', '&lt;<span class="code-name">b</span>&gt;'],
    ['go', 'func main() {', '<span class="code-name">main</span>'],
    // A part that has no color takes the one of the text around it.
    ['ts', 'a = `b $\u007bc} d`;', '<span class="code-string">`b $\u007bc} d`</span>'],
    ['rs', 'fn main() {', '<span class="code-keyword">fn</span>'],
  ])('highlights code in a language that it knows: %s', async (language, code, expected) => {
    expect(await codeOf(`- see\n\n  \`\`\`${language} title\n  ${code.replace('\n', '\n  ')}\n  \`\`\``)).toEqual([
      expect.stringContaining(expected),
    ]);
  });

  it('leaves code plain if the library stops in the middle of it', async () => {
    const stops = (): never => {
      throw new Error('a mistake in a language');
    };
    highlighter.registerLanguage('rust', () => ({ name: 'Rust', contains: [{ begin: /stop/, 'on:begin': stops }] }));
    try {
      expect(await codeOf('```rust\nlet a; stop; let b;\n```')).toEqual(['let a; stop; let b;\n']);
    } finally {
      highlighter.registerLanguage('rust', rust);
    }
  });

  it('does not load the highlighter for code in other languages', async () => {
    for (const text of ['plain', '```\nlet a;\n```', '```cobol\nlet a;\n```', '```constructor\nlet a;\n```', '`js`'])
      expect([text, await prepareCode([text])]).toEqual([text, undefined]);
  });

  it('does not highlight code that would block others: long lines, and large amounts on one page', async () => {
    const long = `let a = "${'a'.repeat(300)}";\n`;
    const usual = 'let a = 1;\n'.repeat(1_000);
    const codes = [long, usual, usual, usual, 'let b;\n'].map((code) => `\`\`\`js\n${code}\`\`\``);
    const isColored = (await codeOf(...codes)).map((code) => code.includes('class="code-keyword"'));
    expect(isColored).toEqual([false, true, true, false, true]);
  });

  it('does not highlight a language within another, where each level would double the work', async () => {
    const nested = '<script>\nx = html`'.repeat(300);
    const [html = '', js = ''] = await codeOf(`\`\`\`html\n${nested}\n\`\`\``, `\`\`\`js\n${nested}\n\`\`\``);
    expect(html).not.toContain('code-string');
    expect(js).not.toContain('code-name">script');
  });

  it('shows a link’s real host, whatever its text says', () => {
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
  ])('makes %s harmless', (_, content) => {
    const text = textOf(content);
    expect(text).not.toMatch(/<(?:script|img|iframe|style)|<[^>]*\son\w+=|href="(?:javascript|data|\/)/i);
  });

  it('is shown as written if it consists mostly of markup', () => {
    const marks = '*_['.repeat(600);
    expect(textOf(marks)).toContain(`<p class="text as-written" dir="auto">${marks}</p>`);
  });
});
