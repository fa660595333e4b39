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
  gone: { status: 410, title: 'This sign-in is over', text: 'Start again with: asp login' },
};

const STYLE = `:root{color-scheme:light dark}body{margin:0;min-height:100vh;display:grid;place-items:center;font:1.0625rem/1.6 system-ui,sans-serif;background:#f6f5f2;color:#1d1c1a}main{margin:1.5rem;padding:2.5rem;max-width:26rem;text-align:center;background:#fff;border:1px solid #e3e0d9;border-radius:16px}h1{margin:0 0 .5rem;font-size:1.375rem;line-height:1.3}p{margin:0;color:#5c5952}@media(prefers-color-scheme:dark){body{background:#161514;color:#f1efea}main{background:#201f1d;border-color:#35332f}p{color:#aba79d}}`;

export const CALLBACK_HEADERS: Readonly<Record<string, string>> = {
  'content-type': 'text/html; charset=utf-8',
  'content-security-policy':
    "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
  'cache-control': 'no-store',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  connection: 'close',
};

export function callbackPage(page: CallbackPage): { status: number; html: string } {
  const { status, title, text } = TEXT[page];
  const html = `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>${title}</title><style>${STYLE}</style><main><h1>${title}</h1><p>${text}</p></main></html>\n`;
  return { status, html };
}
