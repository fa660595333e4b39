import { randomBytes } from 'node:crypto';

import { formsOf, type HtmlForm, linksOf, visibleText } from './html-form.js';
import { type Answer, formBody, request } from './http.js';
import { multipartFields } from './multipart.js';

/** The page that the browser shows. */
export interface Page {
  readonly url: string;
  readonly answer: Answer;
  readonly forms: readonly HtmlForm[];
  readonly text: string;
}

/** The values that a person enters in a form. `undefined` clears a field. */
export type FormValues = Readonly<Record<string, string | readonly string[] | undefined>>;

/** A browser without rendering. It handles cookies, links, forms, and redirects within the origins it knows. */
export interface Browser {
  /**
   * Opens the URL and follows redirects. Shows a redirect that leaves the service's origins instead of following it.
   */
  open(url: string): Promise<Page>;
  /** Fills in the form and presses the button whose label matches. */
  submit(page: Page, form: HtmlForm, values: FormValues, press?: RegExp): Promise<Page>;
  follow(page: Page, label: RegExp): Promise<Page>;
  readonly cookies: ReadonlyMap<string, string>;
}

/** The header that carries these cookies. */
export const toCookieHeader = (cookies: ReadonlyMap<string, string>): string =>
  [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');

const URL_ENCODED = 'application/x-www-form-urlencoded';

interface FormText {
  readonly type: string;
  readonly text: string;
}

export function openBrowser(userAgent?: string): Browser {
  const cookies = new Map<string, string>();

  async function load(url: string, method: string, body?: FormText, referrer?: string): Promise<Page> {
    const { origin } = new URL(url);
    const answer = await request(url, {
      method,
      headers: {
        accept: 'text/html',
        ...(userAgent === undefined ? {} : { 'user-agent': userAgent }),
        ...(cookies.size === 0 ? {} : { cookie: toCookieHeader(cookies) }),
        ...(body === undefined ? {} : { 'content-type': body.type, origin }),
        ...(referrer === undefined ? {} : { 'sec-fetch-site': 'same-origin' }),
      },
      ...(body === undefined ? {} : { body: body.text }),
    });
    for (const cookie of answer.setCookies) keepCookie(cookies, cookie);
    const { location } = answer.headers;
    if (answer.status >= 300 && answer.status < 400 && location !== undefined) {
      const target = new URL(location, url);
      if (target.origin === origin) return load(target.href, 'GET', undefined, url);
    }
    return { url, answer, forms: formsOf(answer.text), text: visibleText(answer.text) };
  }

  return {
    cookies,
    open: (url) => load(url, 'GET'),
    submit(page, form, values, press) {
      const button = press === undefined ? form.buttons[0] : form.buttons.find(({ label }) => press.test(label));
      if (press !== undefined && button === undefined) throw new Error(`no button ${String(press)} on: ${page.text}`);
      const pressed = button?.name === undefined ? {} : { [button.name]: button.value };
      const fields = { ...form.ticked, ...form.values, ...values, ...pressed };
      const sent = formBody(fields);
      const target = new URL(form.action, page.url);
      if (form.method === 'GET') return load(`${target.href}?${sent}`, 'GET', undefined, page.url);
      const body = form.isInParts ? multipartFields(sent) : { type: URL_ENCODED, text: sent };
      return load(target.href, form.method, body, page.url);
    },
    follow(page, label) {
      const link = linksOf(page.answer.text).find((one) => label.test(one.label) || label.test(one.href));
      if (link === undefined) throw new Error(`no link ${String(label)} on: ${page.text}`);
      return load(new URL(link.href, page.url).href, 'GET', undefined, page.url);
    },
  };
}

function keepCookie(cookies: Map<string, string>, line: string): void {
  const [pair = '', ...attributes] = line.split(';');
  const [name = '', ...value] = pair.trim().split('=');
  const isGone = attributes.some((attribute) => /^\s*max-age=0\s*$/i.test(attribute)) || value.join('=') === '';
  if (isGone) cookies.delete(name);
  else cookies.set(name, value.join('='));
}

/** A person who has an account or is about to create one. */
export interface Person {
  readonly username: string;
  readonly password: string;
  readonly agentName: string;
  readonly handle: string;
}

export function newPerson(name: string): Person {
  const username = `${name}-${randomBytes(4).toString('hex')}`;
  return { username, password: randomBytes(12).toString('base64url'), agentName: 'main', handle: `@${username}.main` };
}
