import type { ServiceOptions } from '../../../src/service/service.js';
import { type Operator, operate } from '../../support/actors.js';
import {
  type Browser,
  type FormValues,
  newPerson,
  openBrowser,
  type Page,
  type Person,
  toCookieHeader,
} from '../../support/browser.js';
import { text } from '../../support/json.js';
import { authorizationUrl, createVerifier, mustRegister, redeemCode, redirectParameters } from '../../support/oauth.js';
import { mustFindForm, signUp } from '../../support/person.js';
import { type Desk, openDesk, type TokenSet } from '../authorization-server/desk.js';

/** A person who uses the dashboard. */
export interface Visitor extends Person {
  readonly browser: Browser;
  open(path: string): Promise<Page>;
  /** Opens a page, fills in the form with that button, and presses it. */
  press(path: string, button: RegExp, values?: FormValues): Promise<Page>;
  createAgent(name: string, values?: FormValues): Promise<string>;
}

export interface Stage {
  readonly desk: Desk;
  readonly web: string;
  readonly operator: Operator;
  /** Signs in a new person who has an agent called `main`. */
  enter(name: string): Promise<Visitor>;
  /** Signs in the local account with that name through its operator. */
  enterLocally(username: string): Promise<Visitor>;
  /** Connects an application that may act as `main`. Returns its tokens. */
  connect(visitor: Visitor, clientName: string): Promise<TokenSet & { readonly clientId: string }>;
  close(): Promise<void>;
}

export async function openStage(options: Partial<ServiceOptions> = {}): Promise<Stage> {
  const desk = await openDesk(options);
  const { webUrl: web, operatorUrl: url, operatorSecret: secret } = desk.service;
  const operator = { url, secret };
  return {
    desk,
    web,
    operator,
    async enter(name) {
      const person = newPerson(name);
      const browser = openBrowser();
      await signUp(browser, await browser.open(`${web}/dashboard`), person);
      const visitor = visitorOf(web, browser, person);
      await visitor.createAgent(person.agentName);
      return visitor;
    },
    async enterLocally(username) {
      const link = await operate(operator, 'POST', '/sign-in-links', { account: username });
      const browser = openBrowser();
      await browser.open(text(link, 'url'));
      return visitorOf(web, browser, { username, password: '', agentName: 'bot', handle: `@${username}.bot` });
    },
    async connect(visitor, clientName) {
      const clientId = await mustRegister(desk.place, { client_name: clientName });
      const { verifier, challenge } = createVerifier();
      const url = authorizationUrl(desk.place, { clientId, challenge, agentHandle: visitor.handle });
      const consent = await visitor.browser.open(url);
      const back = await visitor.browser.submit(consent, mustFindForm(consent, /^allow$/i), {}, /^allow$/i);
      const code = redirectParameters(back.answer).get('code') ?? '';
      const { json } = await redeemCode(desk.place, clientId, code, verifier);
      return { clientId, accessToken: text(json, 'access_token'), refreshToken: text(json, 'refresh_token') };
    },
    close: () => desk.stop(),
  };
}

function visitorOf(web: string, browser: Browser, person: Person): Visitor {
  const open: Visitor['open'] = (path) => browser.open(`${web}${path}`);
  const press: Visitor['press'] = async (path, button, values = {}) => {
    const page = await open(path);
    return browser.submit(page, mustFindForm(page, button), values, button);
  };
  return {
    ...person,
    browser,
    open,
    press,
    async createAgent(name, values = {}) {
      const made = await press('/dashboard/new-agent', /^create agent$/i, { name, display_name: name, ...values });
      if (!made.text.includes('The agent was created.')) throw new Error(made.text);
      return `@${person.username}.${name}`;
    },
  };
}

/** Returns a page's content after its head, which contains the frame's script. */
export const bodyOf = ({ answer: { text: html } }: Page): string => html.slice(html.indexOf('<body'));

/** Returns the header with a visitor's cookies. */
export const cookieOf = ({ browser }: Pick<Visitor, 'browser'>): string => toCookieHeader(browser.cookies);

/** Returns the secret of a visitor's forms. */
export async function csrfOf(visitor: Visitor): Promise<string> {
  const page = await visitor.open('/dashboard/new-agent');
  return String(mustFindForm(page, /^create agent$/i).values['csrf']);
}

/** Returns the path where the browser ended up. */
export const pathOf = (page: Page): string => new URL(page.url).pathname;
