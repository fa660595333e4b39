import { type Html, html } from '../html.js';

/** A part of a list, and the way to what follows. */
export interface Listed<Item> {
  readonly items: readonly Item[];
  /** The cursor of the next part; null: this is the last one. */
  readonly next: string | null;
  readonly isFirst: boolean;
}

/** There never was anything in it, or nothing is left. */
export function isEmpty({ items, isFirst }: Listed<unknown>): boolean {
  return items.length === 0 && isFirst;
}

/** The items as rows below each other, or what is said where there are none; `path` is the list's, with its filters. */
export function renderList<Item>(
  path: string,
  listed: Listed<Item>,
  renderRow: (item: Item) => Html,
  nothing: Html,
): Html {
  if (isEmpty(listed)) return nothing;
  return html`<ul class="rows">${listed.items.map(renderRow)}</ul>${renderPager(path, listed)}`;
}

function renderPager(path: string, { next, isFirst }: Listed<unknown>): Html | undefined {
  if (next === null && isFirst) return undefined;
  const mark = path.includes('?') ? '&' : '?';
  return html`<nav class="pager" aria-label="Pages">${!isFirst && html`<a class="button plain" href="${path}">First page</a>`}${next !== null && html`<a class="button plain" href="${path}${mark}after=${encodeURIComponent(next)}">Next page</a>`}</nav>`;
}

/** Nothing is there yet: what it would be, and how it comes to be. */
export function renderEmpty(title: string, body: Html): Html {
  return html`<section class="empty"><h2>${title}</h2>${body}</section>`;
}
