import { randomToken } from '../../../kit/random.js';
import type { ServiceContext } from '../../core/context.js';
import { CAUTION, type Html, html } from '../html.js';
import { renderCopyable } from './frame.js';
import type { AnswerHeaders, Visit } from './visit.js';

/** How long the form that made a secret still leads to it: long enough for a double click. */
const REPEATED_WITHIN_MS = 30_000;
const COOKIE = /^asp_new_secret_[A-Za-z0-9_-]{6}$/;
const COOKIE_ENDING_BYTES = 4;
const LIFETIME_S = 60;

/**
 * Lets the next page at `path`, and only that one, show the secret that the form with `key` made. Each answer has its own
 * cookie: after a double click, a page that was never displayed must not delete the cookie that the second one needs.
 */
export function letShowSecret(
  { context }: Pick<Visit, 'context'>,
  path: string,
  key: string,
  madeAt: number,
): AnswerHeaders {
  if (context.clock.now() - madeAt >= REPEATED_WITHIN_MS) return {};
  const name = `asp_new_secret_${randomToken(context.random, COOKIE_ENDING_BYTES)}`;
  return { 'set-cookie': [cookie(context, path, `${name}=${key}`, LIFETIME_S)] };
}

/** A secret, and the cookie change that keeps it from being shown again. */
export interface TakenSecret {
  readonly secret: string;
  readonly headers: AnswerHeaders;
}

/** The secret that the page at `path` must show now. */
export function takeSecret(
  { context, request }: Pick<Visit, 'context' | 'request'>,
  path: string,
  derive: (key: string) => string,
  isCurrent: (secret: string) => boolean,
): TakenSecret | undefined {
  const cookies = readCookies(request.headers.cookie ?? '');
  const secret = cookies.map(({ key }) => derive(key)).find(isCurrent);
  if (secret === undefined) return undefined;
  const taken = cookies.map(({ name }) => cookie(context, path, `${name}=`, 0));
  return { secret, headers: { 'set-cookie': taken } };
}

function readCookies(text: string): { name: string; key: string }[] {
  const pairs = text.split(';').map((one) => one.trim().split('='));
  return pairs.flatMap(([name = '', key = '']) => (COOKIE.test(name) && key !== '' ? [{ name, key }] : []));
}

function cookie({ settings }: Pick<ServiceContext, 'settings'>, path: string, pair: string, lifetimeS: number): string {
  const isSecure = settings.addresses.webUrl.startsWith('https:');
  return `${pair}; Path=${path}; Max-Age=${lifetimeS}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
}

export interface NewSecret {
  /** Of the element with the secret. */
  readonly id: string;
  readonly secret: string;
  /** What helps someone who has lost it. */
  readonly ifLost: string;
  /** What to do with it. */
  readonly use: Html;
}

/** A secret that is shown only now. */
export function renderNewSecret({ id, secret, ifLost, use }: NewSecret): Html {
  return html`<section class="card secret stack" aria-labelledby="secret"><div class="stack-tight"><h2 id="secret">Copy the secret now</h2>
<p class="notice">${CAUTION}<span>You won’t see it again. ${ifLost}</span></p></div>
${renderCopyable(html`<p class="command"><code class="take" id="${id}">${secret}</code></p>`)}
<div class="stack-tight">${use}</div></section>`;
}
