import { toCookieHeader } from '../../support/browser.js';
import { type Answer, formBody, request } from '../../support/http.js';

/** A browser without scripts. It keeps cookies, sends forms with their values, and follows redirects on request. */
export interface TestBrowser {
  readonly cookies: Map<string, string>;
  get(url: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Sends the form of `page` whose action is `action`, with its hidden fields and `fields`. */
  submit(
    page: Answer,
    action: string,
    fields?: Readonly<Record<string, string | undefined>>,
    headers?: Readonly<Record<string, string>>,
  ): Promise<Answer>;
  /** Follows redirects within the service. */
  follow(answer: Answer): Promise<Answer>;
}

export function createBrowser(origin: string): TestBrowser {
  const cookies = new Map<string, string>();
  const cookieHeader = (): Record<string, string> => (cookies.size === 0 ? {} : { cookie: toCookieHeader(cookies) });
  const keep = (answer: Answer): Answer => {
    for (const cookie of answer.setCookies) {
      const [pair = ''] = cookie.split(';');
      const mark = pair.indexOf('=');
      cookies.set(pair.slice(0, mark), pair.slice(mark + 1));
    }
    return answer;
  };
  const get: TestBrowser['get'] = async (url, headers = {}) =>
    keep(await request(new URL(url, origin).href, { headers: { ...cookieHeader(), ...headers } }));
  return {
    cookies,
    get,
    submit: async (page, action, fields = {}, headers = {}) =>
      keep(
        await request(new URL(action, origin).href, {
          method: 'POST',
          headers: {
            'content-type': 'application/x-www-form-urlencoded',
            // What Chromium sends from a page with a no-referrer policy.
            origin: 'null',
            'sec-fetch-site': 'same-origin',
            ...cookieHeader(),
            ...headers,
          },
          body: formBody({ ...hiddenFields(page.text, action), ...fields }),
        }),
      ),
    async follow(answer) {
      let next = answer;
      while (next.status === 303 && (next.headers['location'] ?? '').startsWith('/')) {
        next = await get(next.headers['location'] ?? '');
      }
      return next;
    },
  };
}

/** Returns the hidden fields of the form whose action is `action`. */
export function hiddenFields(html: string, action: string): Record<string, string> {
  const form = html.split('<form').find((part) => part.includes(`action="${action}"`)) ?? '';
  const inputs = form
    .slice(0, form.indexOf('</form>'))
    .matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g);
  return Object.fromEntries([...inputs].map(([, name, value]) => [name ?? '', value ?? '']));
}
