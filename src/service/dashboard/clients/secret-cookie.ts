import type { PageServer } from '../../authorization-server/account/browser.js';
import { hashSecret, isSameSecret, secretOf } from '../../authorization-server/secret.js';
import type { ClientOfAccountRow } from '../../store/oauth-client-rows.js';
import type { AnswerHeaders, Visit } from '../visit.js';

const COOKIE = 'asp_new_client';
const LIFETIME_S = 60;
const KEY = /^[A-Za-z0-9_-]{43}$/;

/**
 * The secret of the client that a form makes. Only the browser that sent the form can give it again: the service keeps its
 * hash alone, and a form that was sent twice by a double click has one client and one secret (D-103).
 */
export function clientSecretOf({ browser }: Pick<Visit, 'browser'>, key: string): string {
  return secretOf(browser.chanceFor(`client ${key}`), 'clientSecret');
}

/** Lets the next page, and none after it, show the secret of the client that was made with `key`. */
export function letShowSecret(server: PageServer, clientId: string, key: string): AnswerHeaders {
  return cookie(server, clientId, key, LIFETIME_S);
}

/** The secret that is to be shown now, and what keeps it from being shown again. */
export function takeSecret(
  visit: Visit,
  client: ClientOfAccountRow,
): { readonly secret: string; readonly headers: AnswerHeaders } | undefined {
  const key = readKey(visit.request.headers.cookie ?? '');
  if (key === undefined) return undefined;
  const secret = clientSecretOf(visit, key);
  if (client.secret_hash === null || !isSameSecret(hashSecret(secret), client.secret_hash)) return undefined;
  return { secret, headers: cookie(visit, client.id, '', 0) };
}

function readKey(cookies: string): string | undefined {
  for (const one of cookies.split(';')) {
    const [name, value = ''] = one.trim().split('=');
    if (name === COOKIE && KEY.test(value)) return value;
  }
  return undefined;
}

function cookie({ context }: PageServer, clientId: string, key: string, lifetimeS: number): AnswerHeaders {
  const isSecure = context.settings.addresses.webUrl.startsWith('https:');
  const place = `Path=/dashboard/clients/${clientId}; Max-Age=${lifetimeS}; HttpOnly; SameSite=Strict`;
  return { 'set-cookie': `${COOKIE}=${key}; ${place}${isSecure ? '; Secure' : ''}` };
}
