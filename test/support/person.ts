import type { Browser, Page, Person } from './browser.js';
import type { HtmlForm } from './html-form.js';

/** Finds the form that a button with this label sends. */
export function mustFindForm(page: Page, button: RegExp): HtmlForm {
  const form = page.forms.find(({ buttons }) => buttons.some(({ label }) => button.test(label)));
  if (form === undefined) throw new Error(`no form with ${String(button)} on ${page.answer.status}: ${page.text}`);
  return form;
}

/** Creates an account on the sign-in page. */
export function signUp(browser: Browser, page: Page, { username, password }: Person): Promise<Page> {
  const button = /create account/i;
  return browser.submit(page, mustFindForm(page, button), { username, password, display_name: username }, button);
}

export function signIn(browser: Browser, page: Page, { username, password }: Person): Promise<Page> {
  const button = /^sign in$/i;
  return browser.submit(page, mustFindForm(page, button), { username, password }, button);
}

/** Allows access for this agent; `new` with a name creates one. Returns the redirect to the client. */
export function allow(browser: Browser, page: Page, choice: Readonly<Record<string, string>> = {}): Promise<Page> {
  const button = /^allow$/i;
  return browser.submit(page, mustFindForm(page, button), choice, button);
}

export function deny(browser: Browser, page: Page): Promise<Page> {
  const button = /^deny$/i;
  return browser.submit(page, mustFindForm(page, button), {}, button);
}

/** Creates an account and an agent, and consents. Returns the answer to the client. */
export async function signUpAndAllow(browser: Browser, url: string, person: Person): Promise<Page> {
  const consent = await signUp(browser, await browser.open(url), person);
  return allow(browser, consent, { agent: 'new', agent_name: person.agentName });
}
