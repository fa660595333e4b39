import { createHash } from 'node:crypto';

/** What the browser shows after the redirect: static, so that nothing of the request can be reflected in it. */
export type CallbackPage = 'done' | 'refused' | 'ignored' | 'gone';

const TEXT: Record<CallbackPage, { status: number; title: string; text: string }> = {
  done: { status: 200, title: 'You are signed in', text: 'You can close this window and go back to your terminal.' },
  refused: {
    status: 200,
    title: 'Nothing was approved',
    text: 'You can close this window; your terminal tells the rest.',
  },
  ignored: {
    status: 400,
    title: 'This does not belong to a sign-in',
    text: 'It was ignored. A sign-in that is under way goes on.',
  },
  gone: { status: 410, title: 'This sign-in is over', text: 'Start again with <code>asp login</code>.' },
};

/** The look of the service's own pages: their colours, their sheet, their mark. */
const STYLE = `
:root { color-scheme: light dark; --paper: #f4f3ee; --sheet: #fffefb; --ink: #1b1d1a; --soft: #5b6059; --line: #dedcd2;
  --accent: #0b6a4d; --on-accent: #fff; --tint: #e6f2ec; --note: #75510b; --note-tint: #fbf3df; }
@media (prefers-color-scheme: dark) { :root { --paper: #111311; --sheet: #1a1d1a; --ink: #edefea; --soft: #a4aba2; --line: #323731;
  --accent: #55d3a2; --on-accent: #052519; --tint: #17322a; --note: #f0c674; --note-tint: #332a16; } }
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; min-height: 100dvh; display: flex; flex-direction: column; align-items: center;
  padding: clamp(1rem, 12vh, 8rem) 1rem 2rem; background: var(--paper); color: var(--ink);
  font: 1rem/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Liberation Sans", sans-serif; }
header, main { width: 100%; max-width: 28rem; }
header { display: flex; align-items: center; gap: 0.625rem; padding: 0 0.25rem 1rem; font-size: 1.0625rem; font-weight: 700; letter-spacing: -0.02em; }
header svg { width: 1.75rem; height: 1.75rem; }
main { padding: clamp(1.25rem, 6vw, 2rem); background: var(--sheet); border: 1px solid var(--line); border-radius: 1rem; }
.sign { width: 2.75rem; height: 2.75rem; display: grid; place-items: center; margin-bottom: 1rem; border-radius: 50%; background: var(--tint); color: var(--accent); }
.sign.other { background: var(--note-tint); color: var(--note); }
.sign svg { width: 1.375rem; height: 1.375rem; }
h1 { margin: 0 0 0.5rem; font-size: 1.5rem; line-height: 1.25; font-weight: 650; letter-spacing: -0.015em; text-wrap: balance; }
p { margin: 0; color: var(--soft); text-wrap: pretty; }
code { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "Liberation Mono", monospace; font-size: 0.875em; color: var(--ink); }
@media (max-width: 30rem) { body { padding-top: 1rem; } }
`;

const MARK =
  '<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="9" fill="var(--accent)"/><path d="M21.5 10.6C20.2 9.2 18.3 8.4 16 8.4c-3.4 0-5.7 1.7-5.7 4.1 0 5.5 11.4 2 11.4 7.2 0 2.3-2.3 3.9-5.6 3.9-2.6 0-4.6-.9-6-2.5" fill="none" stroke="var(--on-accent)" stroke-width="3" stroke-linecap="round"/><circle cx="22.4" cy="10.9" r="2.3" fill="var(--on-accent)"/></svg>';

const drawn = (path: string): string =>
  `<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true"><path d="${path}"/></svg>`;
const TICK = `<div class="sign">${drawn('m4 10.5 4 4 8-9')}</div>`;
const CAUTION = `<div class="sign other">${drawn('M10 5v6M10 14.5v.1')}</div>`;

const STYLE_HASH = createHash('sha256').update(STYLE).digest('base64');

export const CALLBACK_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy': `default-src 'none'; style-src 'sha256-${STYLE_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  connection: 'close',
};

export function callbackPage(page: CallbackPage): { status: number; html: string } {
  const { status, title, text } = TEXT[page];
  const sign = page === 'done' ? TICK : CAUTION;
  const html = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="robots" content="noindex">
<title>${title} · asp</title>
<style>${STYLE}</style>
</head>
<body>
<header>${MARK}asp</header>
<main>${sign}<h1>${title}</h1><p>${text}</p></main>
</body>
</html>
`;
  return { status, html };
}
