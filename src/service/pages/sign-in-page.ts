import { type Field, hidden, type Mistake, renderField, renderProblem } from './form.js';
import { type Html, html, strangersText } from './html.js';
import { layOut } from './layout.js';

export interface SignInPage {
  readonly place: string;
  /** The application that waits for an answer, if one does. */
  readonly clientName: string | undefined;
  readonly request: string | undefined;
  /** Where the browser goes afterwards, if no application waits. */
  readonly returnTo: string | undefined;
  readonly csrf: string;
  readonly signInPath: string;
  readonly signUpPath: string;
  /** Who may make an account. */
  readonly signUp: 'open' | 'invite' | 'off';
  /** Which of the two forms was sent, or should be seen first. */
  readonly form: 'sign-in' | 'sign-up';
  /** Whether whoever looks may have an account here that has no password (D-203). */
  readonly hasLocalAccounts: boolean;
  readonly mistakes: readonly Mistake[];
  readonly filled: { readonly username?: string; readonly displayName?: string; readonly invitation?: string };
}

/** Signing in and making an account, on one page. */
export function renderSignInPage(page: SignInPage): string {
  const isSignUp = page.form === 'sign-up';
  const title = isSignUp ? 'Create your account' : 'Sign in';
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1><p class="soft">${renderPurpose(page)}</p></div>
${renderProblem('There is a problem', page.mistakes)}
${isSignUp ? renderSignUpForm(page) : renderSignInForm(page)}
<hr class="rule">
${
  page.signUp === 'off'
    ? html`<p class="soft small">This service takes no new accounts. To get one, contact its operator.</p>`
    : html`<details>
<summary>${isSignUp ? 'Already have an account? Sign in' : 'New here? Create an account'}</summary>
${isSignUp ? renderSignInForm(page) : renderSignUpForm(page)}
</details>`
}
${page.hasLocalAccounts && html`<p class="soft small">Accounts created by <code>asp serve</code> have no password. Run <code>asp serve open</code> to sign in.</p>`}
</div>`;
  return layOut({ title: page.mistakes.length > 0 ? `Problem: ${title}` : title, place: page.place, main });
}

function renderPurpose({ clientName, form, place }: SignInPage): Html {
  if (clientName !== undefined)
    return html`“${strangersText(clientName)}” wants to use your account. You decide on the next page.`;
  return form === 'sign-up'
    ? html`Create agents and see their conversations.`
    : html`Sign in to <span class="wrap">${place}</span>.`;
}

function renderSignInForm(page: SignInPage): Html {
  const { mistakes } = page;
  const username = page.form === 'sign-in' ? page.filled.username : undefined;
  return html`<form method="post" action="${page.signInPath}" class="stack" aria-label="Sign in">
${hidden({ request: page.request, return_to: page.returnTo, csrf: page.csrf })}
${renderField({ ...USERNAME, id: 'username', ...(username !== undefined && { value: username }), autocomplete: 'username' }, mistakes)}
${renderField({ ...PASSWORD, id: 'password', autocomplete: 'current-password' }, mistakes)}
<div class="actions single"><button class="button primary">Sign in</button></div>
</form>`;
}

function renderSignUpForm(page: SignInPage): Html {
  const { mistakes, filled } = page;
  const isSent = page.form === 'sign-up';
  const username: Field = {
    ...USERNAME,
    id: 'new-username',
    autocomplete: 'username',
    prefix: '@',
    hint: html`The first half of your agents’ handles, as in <code>@you.agent</code>. Lowercase letters, digits, <code>_</code> and <code>-</code>.`,
    ...(isSent && filled.username !== undefined && { value: filled.username }),
  };
  const displayName: Field = {
    id: 'new-display-name',
    name: 'display_name',
    label: 'Your name',
    autocomplete: 'name',
    maxLength: 100,
    ...(isSent && filled.displayName !== undefined && { value: filled.displayName }),
  };
  const password: Field = {
    ...PASSWORD,
    id: 'new-password',
    autocomplete: 'new-password',
    minLength: 8,
    hint: 'At least 8 characters.',
  };
  const invitation: Field = {
    id: 'invitation',
    name: 'invitation',
    label: 'Invitation code',
    autocomplete: 'off',
    maxLength: 100,
    isIdentifier: true,
    hint: 'You need one from the operator of this service.',
    ...(filled.invitation !== undefined && { value: filled.invitation }),
  };
  const fields = [...(page.signUp === 'invite' ? [invitation] : []), username, displayName, password];
  return html`<form method="post" action="${page.signUpPath}" class="stack" aria-label="Create an account">
${hidden({ request: page.request, return_to: page.returnTo, csrf: page.csrf })}
${fields.map((field) => renderField(field, mistakes))}
<div class="actions single"><button class="button primary">Create account</button></div>
</form>`;
}

const USERNAME = { name: 'username', label: 'Username', maxLength: 64, isIdentifier: true } as const;
const PASSWORD = { name: 'password', label: 'Password', kind: 'password', maxLength: 200 } as const;

export interface NewPasswordPage {
  readonly place: string;
  readonly csrf: string;
  readonly path: string;
  /** The secret of the link that leads here. */
  readonly once: string;
  readonly username: string;
  readonly mistakes: readonly Mistake[];
}

/** A new password for somebody who has forgotten theirs. */
export function renderNewPasswordPage({ place, csrf, path, once, username, mistakes }: NewPasswordPage): string {
  const title = 'Choose a new password';
  const password: Field = { ...PASSWORD, id: 'new-password', autocomplete: 'new-password', minLength: 8 };
  const main = html`<div class="stack">
<div class="stack-tight"><h1>${title}</h1><p class="soft">For <span class="mono wrap">@${username}</span>. It signs out every browser and application of this account.</p></div>
${renderProblem('There is a problem', mistakes)}
<form method="post" action="${path}" class="stack" aria-label="${title}">
${hidden({ once, csrf })}
<input type="text" name="username" value="${username}" autocomplete="username" hidden>
${renderField({ ...password, hint: 'At least 8 characters.' }, mistakes)}
<div class="actions single"><button class="button primary">Set password</button></div>
</form></div>`;
  return layOut({ title: mistakes.length > 0 ? `Problem: ${title}` : title, place, main });
}
