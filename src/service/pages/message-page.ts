import { hidden, hiddenEntries } from './form.js';
import { html } from './html.js';
import { layOut } from './layout.js';

export interface ErrorPage {
  readonly place: string;
  readonly title: string;
  /** What happened, and what to do now; public text only. */
  readonly message: string;
  readonly advice?: string;
  /** The error's name, for whoever wrote the application. */
  readonly code: string;
  /** Where to go from here. */
  readonly onward?: { readonly href: string; readonly label: string };
}

/** An error that is not sent back to the application that caused it; a person may carry it there. */
export function renderErrorPage({ place, title, message, advice, code, onward }: ErrorPage): string {
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1><p>${message}</p>${advice !== undefined && html`<p class="soft">${advice}</p>`}</div>
${onward !== undefined && html`<div class="actions single"><a class="button plain" href="${onward.href}">${onward.label}</a></div>`}<p class="soft small">Error: <span class="mono">${code}</span></p>
</div>`;
  return layOut({ title: `Problem: ${title}`, place, main });
}

export interface SignedInPage {
  readonly place: string;
  readonly csrf: string;
  readonly signOutPath: string;
  readonly dashboardPath: string;
  readonly account: { readonly username: string; readonly displayName: string };
}

/** Nothing is left to do in this browser. */
export function renderSignedInPage({ place, csrf, signOutPath, dashboardPath, account }: SignedInPage): string {
  const main = html`<div class="stack">
<div class="stack-tight"><h1>You are signed in</h1>
<p class="soft">As <bdi>${account.displayName}</bdi> <span class="mono wrap">@${account.username}</span>. You can close this page and go back to your application.</p></div>
<form method="post" action="${signOutPath}">${hidden({ csrf })}<div class="actions"><a class="button primary" href="${dashboardPath}">Dashboard</a><button class="button plain">Sign out</button></div></form>
</div>`;
  return layOut({ title: 'You are signed in', place, main });
}

export interface SignedOutPage {
  readonly place: string;
  readonly signInPath: string;
  readonly form: { readonly path: string; readonly entries: readonly (readonly [name: string, value: string])[] };
}

/** A sign-in ended while somebody filled in a form. */
export function renderSignedOutPage({ place, signInPath, form }: SignedOutPage): string {
  const title = 'You were signed out';
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1><p>What you typed is kept on this page. Sign in in a new tab, then come back and continue.</p></div>
<form method="post" action="${form.path}">${hiddenEntries(form.entries)}<div class="actions"><a class="button primary" href="${signInPath}" target="_blank" rel="noopener">Sign in</a><button class="button plain">Continue</button></div></form>
</div>`;
  return layOut({ title: `Problem: ${title}`, place, main });
}

/** An account is gone, and the browser signed out. */
export function renderDeletedPage({ place, username }: { readonly place: string; readonly username: string }): string {
  const main = html`<div class="stack"><h1>Your account was deleted</h1>
<p class="soft"><span class="mono wrap">@${username}</span> and its agents are gone. All browsers, apps and API credentials were signed out.</p></div>`;
  return layOut({ title: 'Your account was deleted', place, main });
}
