import type { Browser, Page, Person } from './browser.js';
import type { HtmlForm } from './html-form.js';

/** The form on this page that a button with such a label sends. */
export function mustFindForm(page: Page, button: RegExp): HtmlForm {
  const form = page.forms.find(({ buttons }) => buttons.some(({ label }) => button.test(label)));
  if (form === undefined) throw new Error(`no form with ${String(button)} on ${page.answer.status}: ${page.text}`);
  return form;
}

/** Makes an account on the page that asks who is there. */
export function signUp(browser: Browser, page: Page, { username, password }: Person): Promise<Page> {
  const button = /create account/i;
  return browser.submit(page, mustFindForm(page, button), { username, password, display_name: username }, button);
}

export function signIn(browser: Browser, page: Page, { username, password }: Person): Promise<Page> {
  const button = /^sign in$/i;
  return browser.submit(page, mustFindForm(page, button), { username, password }, button);
}

/** Allows, as this agent; `new` with a name makes one. What comes back is the redirect to the client. */
export function allow(browser: Browser, page: Page, choice: Readonly<Record<string, string>> = {}): Promise<Page> {
  const button = /^allow$/i;
  return browser.submit(page, mustFindForm(page, button), choice, button);
}

export function deny(browser: Browser, page: Page): Promise<Page> {
  const button = /^deny$/i;
  return browser.submit(page, mustFindForm(page, button), {}, button);
}

/** From nothing to an answer for the client: a new account, a new agent, consent. */
export async function signUpAndAllow(browser: Browser, url: string, person: Person): Promise<Page> {
  const consent = await signUp(browser, await browser.open(url), person);
  return allow(browser, consent, { agent: 'new', agent_name: person.agentName });
}
