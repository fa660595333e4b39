import { randomToken } from '../../../kit/random.js';
import type { PageServer } from '../../authorization-server/account/browser.js';
import { hashSecret, isSameSecret, secretOf } from '../../authorization-server/secret.js';
import type { ServiceContext } from '../../context.js';
import type { ClientOfAccountRow } from '../../store/oauth-client-rows.js';
import type { AnswerHeaders, Visit } from '../visit.js';

const COOKIE = /^asp_new_client_[A-Za-z0-9_-]{6}$/;
const COOKIE_ENDING_BYTES = 4;
const LIFETIME_S = 60;

/**
 * The secret of the client that a form makes. Only the browser that sent the form can give it again: the service keeps its
 * hash alone, and a form that was sent twice by a double click has one client and one secret (D-103).
 */
export function clientSecretOf({ browser }: Pick<Visit, 'browser'>, key: string): string {
  return secretOf(browser.chanceFor(`client ${key}`), 'clientSecret');
}

/**
 * Lets the next page, and none after it, show the secret of the client that was made with `key`. Each answer has a cookie of
 * its own: after a double click, the page that nobody saw any more must not take away what the second one needs.
 */
export function letShowSecret({ context }: PageServer, clientId: string, key: string): AnswerHeaders {
  const name = `asp_new_client_${randomToken(context.random, COOKIE_ENDING_BYTES)}`;
  return { 'set-cookie': [cookie(context, clientId, `${name}=${key}`, LIFETIME_S)] };
}

/** The secret that is to be shown now, and what keeps it from being shown again. */
export function takeSecret(
  visit: Visit,
  client: ClientOfAccountRow,
): { readonly secret: string; readonly headers: AnswerHeaders } | undefined {
  const cookies = readCookies(visit.request.headers.cookie ?? '');
  const secret = cookies
    .map(({ key }) => clientSecretOf(visit, key))
    .find((one) => client.secret_hash !== null && isSameSecret(hashSecret(one), client.secret_hash));
  if (secret === undefined) return undefined;
  const taken = cookies.map(({ name }) => cookie(visit.context, client.id, `${name}=`, 0));
  return { secret, headers: { 'set-cookie': taken } };
}

function readCookies(text: string): { name: string; key: string }[] {
  const pairs = text.split(';').map((one) => one.trim().split('='));
  return pairs.flatMap(([name = '', key = '']) => (COOKIE.test(name) && key !== '' ? [{ name, key }] : []));
}

function cookie({ settings }: ServiceContext, clientId: string, pair: string, lifetimeS: number): string {
  const isSecure = settings.addresses.webUrl.startsWith('https:');
  const place = `Path=/dashboard/clients/${clientId}; Max-Age=${lifetimeS}; HttpOnly; SameSite=Strict`;
  return `${pair}; ${place}${isSecure ? '; Secure' : ''}`;
}
