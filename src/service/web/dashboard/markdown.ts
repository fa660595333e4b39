import MarkdownIt from 'markdown-it';

import { type Html, html } from '../html.js';

/** A longer text, or one of little else than marks, is shown as it was written: reading it would keep everyone else waiting. */
const MARKDOWN_MAX_LENGTH = 16 * 1024;
const MARKS_MAX = 200;
const MARKS_SHARE_MAX = 0.2;
const MARK = /[*_`~|<>[\]()\\#:&!-]/g;
const NESTING_MAX = 12;

/**
 * The part of Markdown that people and models write to each other. It makes no HTML of what it is given, loads no image from
 * anywhere, and has no link definitions, whose text could name one address and lead to another.
 */
const markdown = new MarkdownIt('zero', { linkify: true, breaks: true, maxNesting: NESTING_MAX }).enable([
  ...['backticks', 'emphasis', 'strikethrough', 'link', 'autolink', 'linkify', 'escape', 'newline'],
  ...['fence', 'heading', 'list', 'blockquote', 'table', 'hr'],
]);
// A relative address would lead to a page of the dashboard itself.
markdown.validateLink = (url) => /^(?:https?:\/\/|mailto:)/i.test(url);
// Only what is plainly an address becomes a link: `main.rs` and `node.js` are file names.
markdown.linkify.set({ fuzzyLink: false, fuzzyEmail: false });

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
rules.fence = (tokens, index) => {
  const { content = '', info = '' } = tokens[index] ?? {};
  const [language = ''] = info.trim().split(/\s+/);
  return html`<div class="code"><p class="between small soft"><span>${language.slice(0, 30)}</span><button type="button" class="copy">Copy</button></p><pre tabindex="0" dir="ltr"><code>${content}</code></pre></div>
`.markup;
};

/** A message's text, with its Markdown shown as what it means. Everything in it is escaped. */
export function renderMarkdown(text: string): Html {
  if (!isReadable(text)) return html`<p class="text as-written" dir="auto">${text}</p>`;
  return html`<div class="text" dir="auto">${{ markup: markdown.render(text).trimEnd() }}</div>`;
}

function isReadable(text: string): boolean {
  if (text.length > MARKDOWN_MAX_LENGTH) return false;
  const marks = text.match(MARK)?.length ?? 0;
  return marks <= Math.max(MARKS_MAX, text.length * MARKS_SHARE_MAX);
}
