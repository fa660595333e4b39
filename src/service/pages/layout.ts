import { createHash } from 'node:crypto';

import { type Html, html } from './html.js';
import { MARK, TAB_ICON } from './icon.js';
import { STYLE } from './style.js';

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

export interface Page {
  /** Of the browser's tab; what went wrong stands first, so that it is also heard first. */
  readonly title: string;
  /** The host of the service, so that a person sees whose page this is. */
  readonly place: string;
  readonly main: Html;
  readonly below?: Html;
}

/** A whole document. */
export function layOut({ title, place, main, below }: Page): string {
  const style: Html = { markup: `<style>${STYLE}</style>` };
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · asp</title>
<link rel="icon" href="${TAB_ICON}">
${style}
</head>
<body>
<header class="masthead">${MARK}<strong>asp</strong><span class="place">${place}</span></header>
<main class="sheet">${main}</main>
${below !== undefined && html`<footer class="below">${below}</footer>`}
</body>
</html>
`.markup;
}

/**
 * Headers of every page: no script, no frame, nothing from elsewhere, nothing kept, no address given away.
 * `formTargets` are origins to which a form of the page may lead in the end: Chromium holds `form-action` against the
 * redirect after a form too.
 */
export function pageHeaders(formTargets: readonly string[] = []): Record<string, string> {
  const policy = [
    "default-src 'none'",
    `style-src 'sha256-${STYLE_HASH}'`,
    'img-src data:',
    `form-action ${["'self'", ...formTargets].join(' ')}`,
    "frame-ancestors 'none'",
    "base-uri 'none'",
  ];
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy.join('; '),
    ...HEADERS_OF_REDIRECTS,
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'cross-origin-opener-policy': 'same-origin',
    'cross-origin-resource-policy': 'same-origin',
  };
}

/** Headers that an answer without a page needs too: it may carry a code. */
export const HEADERS_OF_REDIRECTS = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' } as const;
