import MarkdownIt from 'markdown-it';

import { type Html, html } from '../html.js';

/**
 * A longer text, or one that is mostly markup, is shown as it was written: parsing it would keep everyone else waiting.
 */
const MARKDOWN_MAX_LENGTH = 16 * 1024;
const MARKS_MAX = 200;
const MARKS_SHARE_MAX = 0.2;
const MARK = /[*_`~|<>[\]()\\#:&!-]/g;
const NESTING_MAX = 12;

/**
 * The part of Markdown that people and models write to each other. It passes no HTML through, loads no images, and
 * supports no link definitions, whose text could name one address and lead to another.
 */
const markdown = new MarkdownIt('zero', { linkify: true, breaks: true, maxNesting: NESTING_MAX }).enable([
  ...['backticks', 'emphasis', 'strikethrough', 'link', 'autolink', 'linkify', 'escape', 'newline'],
  ...['fence', 'heading', 'list', 'blockquote', 'table', 'hr'],
]);
// A relative address would lead to a page of the dashboard itself.
markdown.validateLink = (url) => /^(?:https?:\/\/|mailto:)/i.test(url);
// Only text that is clearly an address becomes a link: `main.rs` and `node.js` are file names.
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });
// It would be found, refused, and looked for again at each colon of the rest of the text.
markdown.linkify.add('ftp:', null);

const { rules } = markdown.renderer;
rules.heading_open = () => '<p class="title">';
rules.heading_close = () => '</p>\n';
rules.table_open = () => '<div class="scroll" tabindex="0"><table>\n';
rules.table_close = () => '</table></div>\n';
rules.link_open = (tokens, index) => {
  const href = tokens[index]?.attrGet('href') ?? '';
  return html`<a href="${href}" target="_blank" rel="noopener noreferrer nofollow">`.markup;
};
rules.link_close = (tokens, index) => {
  const from = tokens.slice(0, index).findLastIndex(({ type }) => type === 'link_open');
  const opening = tokens[from];
  const href = String(opening?.attrGet('href') ?? '');
  const isItsOwnText = opening?.info === 'auto' || !URL.canParse(href);
  const { host, pathname } = isItsOwnText ? { host: '', pathname: '' } : new URL(href);
  return html`</a>${!isItsOwnText && html` <bdi class="soft small">(${host === '' ? pathname : host})</bdi>`}`.markup;
};
rules.fence = (tokens, index, _options, env) => {
  const { content = '', info = '' } = tokens[index] ?? {};
  const [language = ''] = info.trim().split(/\s+/);
  const colorCode = env?.['colorCode'] as ColorCode | undefined;
  const code = colorCode?.(content, language) ?? content;
  return html`<div class="code"><p class="between small soft"><span>${language.slice(0, 30)}</span><button type="button" class="copy">Copy</button></p><pre tabindex="0" dir="ltr"><code>${code}</code></pre></div>
`.markup;
};

/** A message's text with its Markdown rendered. Everything in it is escaped. */
export function renderMarkdown(text: string, colorCode?: ColorCode): Html {
  if (!isReadable(text)) return html`<p class="text as-written" dir="auto">${text}</p>`;
  return html`<div class="text" dir="auto">${{ markup: markdown.render(text, { colorCode }).trimEnd() }}</div>`;
}

/** Of a text that is shown on one line: reading all of a long one would cost more than its beginning is worth. */
const LINE_READ_LENGTH = 1_000;

/** The beginning of a message's text without its marks, for one line. The result is a stranger's text like the first. */
export function toPlainText(text: string): string {
  const start = text.slice(0, LINE_READ_LENGTH);
  if (!isReadable(start)) return text;
  const words = markdown.parse(start, {}).flatMap(({ type, content, children }) => {
    if (children === null) return type === 'fence' ? [content.trim()] : [];
    return [children.map((one) => (one.type.endsWith('break') ? ' ' : one.content)).join('')];
  });
  return `${words.join(' ')}${text.slice(LINE_READ_LENGTH)}`;
}

/** The languages that are highlighted, by the names that people give them. */
const LANGUAGE_OF = {
  ...{ js: 'js', javascript: 'js', jsx: 'js', mjs: 'js', cjs: 'js', node: 'js' },
  ...{ ts: 'ts', typescript: 'ts', tsx: 'ts' },
  ...{ json: 'json', jsonc: 'json', jsonl: 'json', yaml: 'yaml', yml: 'yaml' },
  ...{ bash: 'bash', sh: 'bash', shell: 'bash', zsh: 'bash', python: 'python', py: 'python' },
  ...{ diff: 'diff', patch: 'diff', sql: 'sql', html: 'html', xml: 'html', svg: 'html' },
  ...{ go: 'go', golang: 'go', rust: 'rust', rs: 'rust' },
} as const;
export type CodeLanguage = (typeof LANGUAGE_OF)[keyof typeof LANGUAGE_OF];

function findLanguage(name: string): CodeLanguage | undefined {
  const known = name.toLowerCase();
  return Object.hasOwn(LANGUAGE_OF, known) ? LANGUAGE_OF[known as keyof typeof LANGUAGE_OF] : undefined;
}

/** Highlights code; undefined: it stays plain. */
export type ColorCode = (code: string, language: string) => Html | undefined;

/** Of all code on one page. The library takes up to 20 times as long for hostile code as for usual code. */
const COLORED_MAX_LENGTH = 32 * 1024;
/** The library starts again at each character of a long word. */
const COLORED_LINE = /^.{0,300}$/gm;
const FENCE = /(?<![`~])(?:`{3,}|~{3,})[ \t]{0,9}([A-Za-z]{1,10})/g;

/** How to highlight the code on a page of these texts; undefined: it has none, and the library is not loaded. */
export async function prepareCode(texts: readonly string[]): Promise<ColorCode | undefined> {
  const hasCode = texts.some((text) =>
    [...text.matchAll(FENCE)].some(([, name = '']) => findLanguage(name) !== undefined),
  );
  if (!hasCode) return undefined;
  const { highlight } = await import('./highlight.js');
  let left = COLORED_MAX_LENGTH;
  return (code, name) => {
    const language = findLanguage(name);
    if (language === undefined || code.length > left) return undefined;
    if (code.replace(COLORED_LINE, '').trim() !== '') return undefined;
    left -= code.length;
    return highlight(code, language);
  };
}

function isReadable(text: string): boolean {
  if (text.length > MARKDOWN_MAX_LENGTH) return false;
  const marks = text.match(MARK)?.length ?? 0;
  return marks <= Math.max(MARKS_MAX, text.length * MARKS_SHARE_MAX);
}
