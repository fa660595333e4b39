import { createHash } from 'node:crypto';

import { type Html, html } from './html.js';
import { TAB_ICON } from './icon.js';

export interface DocumentParts {
  /** Of the browser's tab; what went wrong stands first, so that it is also heard first. */
  readonly title: string;
  readonly style: string;
  /** Runs before anything of the body is there. */
  readonly script?: string;
  readonly body: Html;
}

/** A whole document. */
export function renderDocument({ title, style, script, body }: DocumentParts): string {
  const sheet: Html = { markup: `<style>${style}</style>` };
  return html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · asp</title>
<link rel="icon" href="${TAB_ICON}">
${sheet}${script !== undefined && renderScript(script)}
</head>
${body}
</html>
`.markup;
}

/** A script as a part of a page. Its policy must allow it. */
export function renderScript(script: string): Html {
  return { markup: `<script>${script}</script>` };
}

/** What of a page may be carried out or fetched, by the names of the policy's directives. */
export type Allowance = Readonly<Record<string, readonly string[]>>;

/** How a content security policy names a text that stands in the page. */
export function policyHashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/** Makes the headers of pages with this style: nothing runs, frames, loads or is kept but what is allowed, and no address is given away. */
export function headersFor(style: string): (allowed?: Allowance) => Record<string, string> {
  const styleHash = policyHashOf(style);
  return (allowed = {}) => documentHeaders(styleHash, allowed);
}

function documentHeaders(styleHash: string, allowed: Allowance): Record<string, string> {
  const directives: Allowance = {
    'default-src': ["'none'"],
    'style-src': [styleHash],
    'img-src': ['data:'],
    'form-action': ["'self'"],
    'frame-ancestors': ["'none'"],
    'base-uri': ["'none'"],
    ...allowed,
  };
  const policy = Object.entries(directives).map(([name, sources]) => `${name} ${sources.join(' ')}`);
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
