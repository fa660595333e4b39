import { createHash } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { ServiceContext } from '../core/context.js';
import { STYLE } from './assets.js';
import { type Preferences, readPreferences } from './browser.js';
import { type Html, html, MARK, TAB_ICON } from './html.js';
import { useTwelveHours } from './time.js';

/** Whose page it is, and how this browser shows it. */
export interface Look {
  /** The host of the service, so that people see whose page this is. */
  readonly host: string;
  /** The name that the operator gave the service. */
  readonly name: string;
  readonly preferences: Preferences;
}

export function readLook({ settings }: Pick<ServiceContext, 'settings'>, request: FastifyRequest): Look {
  const { webUrl } = settings.addresses;
  return {
    host: new URL(webUrl).host,
    name: settings.name ?? 'asp',
    preferences: readPreferences(webUrl, request),
  };
}

export interface DocumentParts {
  readonly look: Look;
  /** For the browser's tab; a problem comes first, so that screen readers announce it first. */
  readonly title: string;
  /** Its policy must allow it. */
  readonly style: Html;
  /** Runs before any of the body exists. */
  readonly script?: string;
  readonly body: Html;
}

/** `--sheet` of each theme, for the browser's own bar, which no style sheet reaches. */
const BAR_COLOR = { light: '#fffefb', dark: '#1a1d1a' } as const;

/** A complete document. */
export function renderDocument({ look, title, style, script, body }: DocumentParts): string {
  const { theme, hours, zone, density } = look.preferences;
  const inUtc = zone === 'utc' && html` data-zone="utc"`;
  const document = html`<!doctype html>
<html lang="en"${theme !== 'system' && html` data-theme="${theme}"`}${hours === '12' && html` data-hours="12"`}${inUtc}${density === 'compact' && html` data-density="compact"`}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
${Object.entries(BAR_COLOR).map(([name, color]) => (theme === 'system' ? html`<meta name="theme-color" content="${color}" media="(prefers-color-scheme: ${name})">` : theme === name && html`<meta name="theme-color" content="${color}">`))}
<title>${title} · ${look.name}</title>
<link rel="icon" href="${TAB_ICON}">
${script !== undefined && renderScript(script)}${style}
</head>
${body}
</html>
`.markup;
  return hours === '12' ? useTwelveHours(document) : document;
}

/** A script as a part of a page. Its policy must allow it. */
export function renderScript(script: string): Html {
  return { markup: `<script>${script}</script>` };
}

/** What a page may run or fetch, by the names of the policy's directives. It leaves out those that are undefined. */
export type Allowance = Readonly<Record<string, readonly string[] | undefined>>;

/** The name of an inline text in a content security policy. */
export function toPolicyHash(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}

/**
 * The headers of a page: nothing runs, frames, loads or is cached unless it is allowed, and no referrer is sent.
 * `styleSource` is the source of its style, as its policy names it.
 */
export function documentHeaders(styleSource: string, allowed: Allowance = {}): Record<string, string> {
  const directives: Allowance = {
    'default-src': ["'none'"],
    'style-src': [styleSource],
    'img-src': ['data:'],
    'form-action': ["'self'"],
    'frame-ancestors': ["'none'"],
    'base-uri': ["'none'"],
    ...allowed,
  };
  const policy = Object.entries(directives).flatMap(([name, sources]) =>
    sources === undefined ? [] : [`${name} ${sources.join(' ')}`],
  );
  return {
    'content-type': 'text/html; charset=utf-8',
    'content-security-policy': policy.join('; '),
    ...HEADERS_OF_REDIRECTS,
    'x-frame-options': 'DENY',
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
  };
}

/** Headers that an answer without a page needs too: it may carry a code. */
export const HEADERS_OF_REDIRECTS = { 'cache-control': 'no-store', 'referrer-policy': 'no-referrer' } as const;

const INLINE_STYLE: Html = { markup: `<style>${STYLE}</style>` };
const STYLE_HASH = toPolicyHash(STYLE);

export interface Page {
  readonly look: Look;
  readonly title: string;
  readonly main: Html;
  readonly below?: Html;
  /** Runs after the page. Its headers must allow it. */
  readonly script?: string;
}

/** A document with a single card. */
export function layOut({ look, title, main, below, script }: Page): string {
  const body = html`<body>
<header class="masthead">${MARK}<strong>${look.name}</strong><span class="place">${look.host}</span></header>
<main class="sheet">${main}</main>
${below !== undefined && html`<footer class="below">${below}</footer>`}${script !== undefined && renderScript(script)}
</body>`;
  return renderDocument({ look, title, style: INLINE_STYLE, body });
}

/** The headers of a page with a single card. `script` is the page's own. */
export function pageHeaders(script?: string, more: Allowance = {}): Record<string, string> {
  return documentHeaders(STYLE_HASH, script === undefined ? more : { ...more, 'script-src': [toPolicyHash(script)] });
}

interface ErrorPage {
  readonly title: string;
  /** What happened, and what to do next; public text only. */
  readonly message: string;
  readonly advice?: string;
  /** The name of the error, for the app's developer. */
  readonly code: string;
  /** For the operator, who finds it in the log. */
  readonly requestId?: string | undefined;
  /** Where to go from here. */
  readonly onward?: { readonly href: string; readonly label: string };
}

/** An error that is not sent back to the app that caused it; a person may pass it on. */
export function sendErrorPage(
  reply: FastifyReply,
  context: Pick<ServiceContext, 'settings'>,
  status: number,
  { title, message, advice, code, requestId, onward }: ErrorPage,
): FastifyReply {
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1><p>${message}</p>${advice !== undefined && html`<p class="soft">${advice}</p>`}</div>
${onward !== undefined && html`<div class="actions single"><a class="button plain" href="${onward.href}">${onward.label}</a></div>`}<p class="soft small">Error: <span class="mono">${code}</span>${requestId !== undefined && html`<br>Request: <span class="mono wrap">${requestId}</span>`}</p>
</div>`;
  const document = layOut({ look: readLook(context, reply.request), title: `Problem: ${title}`, main });
  return reply.code(status).headers(pageHeaders()).send(document);
}
