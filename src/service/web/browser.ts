import { createHmac } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { isSameSecret } from '../../kit/same-secret.js';
import { AUTHORIZATION_REQUEST_LIFETIME_S } from '../../wire/limit.js';
import type { Query } from '../core/database.js';
import { PATH } from '../oauth/metadata.js';
import { OAuthError } from '../oauth/parameters.js';
import { createSecret, hashSecret } from '../oauth/secret.js';
import type { AuthorizationServer } from '../oauth/server.js';
import type { AccountRow } from '../store/accounts.js';
import type { AuthorizationRequestRow } from '../store/authorizations.js';
import { findSignedInAccount } from '../store/browser-sessions.js';

/** How long a browser stays signed in. */
export const ACCOUNT_SESSION_LIFETIME_MS = 7 * 24 * 60 * 60 * 1000;

const SECRET = /^[A-Za-z0-9_-]{43}$/;

/** Dependencies of pages for browsers. */
export type PageServer = Pick<AuthorizationServer, 'context'>;

/** One browser, known by the secret in its cookie. The secret changes when someone signs in or out. */
export interface Browser {
  readonly hash: string;
  /** Ties a form to this browser, and to the authorization request that it answers. */
  csrfFor(request: string | undefined): string;
  /** Randomness derived from this browser's secret, different for every purpose. */
  chanceFor(purpose: string): string;
}

/** The browser that sent a request, if it has the cookie. */
export function readBrowser(server: PageServer, request: FastifyRequest): Browser | undefined {
  const { name } = getCookie(server);
  for (const part of (request.headers.cookie ?? '').split(';')) {
    const [key, value = ''] = part.trim().split('=');
    if (key === name && SECRET.test(value)) return toBrowser(value);
  }
  return undefined;
}

/** The browser that sent a request; a new one gets a secret. */
export function meetBrowser(server: PageServer, request: FastifyRequest, reply: FastifyReply): Browser {
  return readBrowser(server, request) ?? renewBrowser(server, reply);
}

/** Gives the browser a new secret. State tied to the old one must be tied to the new one or deleted. */
export function renewBrowser(server: PageServer, reply: FastifyReply, lifetimeMs?: number): Browser {
  const secret = createSecret(server.context.random, 'browser');
  const { name, isSecure } = getCookie(server);
  const parts = [`${name}=${secret}`, 'Path=/', 'HttpOnly', 'SameSite=Lax'];
  if (isSecure) parts.push('Secure');
  if (lifetimeMs !== undefined) parts.push(`Max-Age=${Math.floor(lifetimeMs / 1000)}`);
  reply.header('set-cookie', parts.join('; '));
  return toBrowser(secret);
}

/** Whether a form carries the secret of its page. */
export function matchesCsrf(browser: Browser, request: string | undefined, received: string | undefined): boolean {
  return received !== undefined && isSameSecret(received, browser.csrfFor(request));
}

export async function findAccountOf(
  server: PageServer,
  query: Query,
  browser: Browser | undefined,
): Promise<AccountRow | undefined> {
  return browser === undefined ? undefined : findSignedInAccount(query, browser.hash, server.context.clock.now());
}

function toBrowser(secret: string): Browser {
  const seal = (text: string): string => createHmac('sha256', secret).update(text).digest('base64url');
  return {
    hash: hashSecret(secret),
    csrfFor: (request) => seal(`csrf ${request ?? ''}`),
    chanceFor: (purpose) => seal(`chance ${purpose}`),
  };
}

/** Cookies ignore ports, so two services on one loopback address need two names; `__Host-` needs https. */
function getCookie({ context }: PageServer): { name: string; isSecure: boolean } {
  const { protocol, port } = new URL(context.settings.addresses.webUrl);
  if (protocol === 'https:') return { name: '__Host-asp_session', isSecure: true };
  return { name: `asp_session_${port || '80'}`, isSecure: false };
}

/** What a browser has answered: only this request of this client has its challenge (RFC 7636). */
type AnsweredRequest = Pick<AuthorizationRequestRow, 'client_id' | 'state' | 'code_challenge'>;

/** Lets the browser remember its last answer as long as a request waits for one. */
export function rememberAnswer(server: PageServer, reply: FastifyReply, answered: AnsweredRequest): void {
  const parts = [answerCookie(server, answered), `Path=${PATH.authorize}`, 'HttpOnly', 'SameSite=Lax'];
  if (getCookie(server).isSecure) parts.push('Secure');
  reply.header('set-cookie', [...parts, `Max-Age=${AUTHORIZATION_REQUEST_LIFETIME_S}`].join('; '));
}

/** Whether the browser went back to a request that it has answered. The program that asked no longer waits. */
export function remembersAnswer(server: PageServer, request: FastifyRequest, answered: AnsweredRequest): boolean {
  return (request.headers.cookie ?? '').split(/; */).includes(answerCookie(server, answered));
}

function answerCookie({ context }: PageServer, { client_id, state, code_challenge }: AnsweredRequest): string {
  const { port } = new URL(context.settings.addresses.webUrl);
  return `asp_answered_${port || '0'}=${hashSecret(JSON.stringify([client_id, state, code_challenge]))}`;
}

export const THEMES = ['system', 'light', 'dark'] as const;
/** The first of each is the default, which the cookie leaves out. */
export const HOURS = ['24', '12'] as const;
export const ZONES = ['local', 'utc'] as const;
export const DENSITIES = ['comfortable', 'compact'] as const;

/** What someone chose for one browser. Its cookie is read by every page, also before anyone has signed in. */
export interface Preferences {
  readonly theme: (typeof THEMES)[number];
  /** Whether times of day have 24 hours or AM and PM. */
  readonly hours: (typeof HOURS)[number];
  /** Whether times are in UTC for those whose browser runs the script, too. */
  readonly zone: (typeof ZONES)[number];
  /** How much room rows and messages take. */
  readonly density: (typeof DENSITIES)[number];
  /** Whether single keys are shortcuts in the dashboard (WCAG 2.2, 2.1.4). */
  readonly hasShortcuts: boolean;
}

const PREFERENCES_LIFETIME_S = 400 * 24 * 60 * 60;
const WITHOUT_SHORTCUTS = 'no-shortcuts';

export function readPreferences(webUrl: string, { headers }: FastifyRequest): Preferences {
  const start = `${preferencesName(webUrl)}=`;
  const pair = (headers.cookie ?? '').split(/; */).find((one) => one.startsWith(start));
  const words = (pair ?? '').slice(start.length).split(':');
  const find = <Word extends string>(known: readonly [Word, ...Word[]]): Word =>
    known.find((word) => words.includes(word)) ?? known[0];
  return {
    theme: find(THEMES),
    hours: find(HOURS),
    zone: find(ZONES),
    density: find(DENSITIES),
    hasShortcuts: !words.includes(WITHOUT_SHORTCUTS),
  };
}

/** The cookie that keeps them. It outlives the sign-in, because it says nothing about the person. */
export function preferencesCookie(webUrl: string, preferences: Preferences): string {
  const { theme, hours, zone, density, hasShortcuts } = preferences;
  const changed = [
    hours !== HOURS[0] && hours,
    zone !== ZONES[0] && zone,
    density !== DENSITIES[0] && density,
    !hasShortcuts && WITHOUT_SHORTCUTS,
  ];
  const words = [theme, ...changed.filter((word) => word !== false)].join(':');
  const cookie = `${preferencesName(webUrl)}=${words}; Path=/; Max-Age=${PREFERENCES_LIFETIME_S}; HttpOnly; SameSite=Lax`;
  return webUrl.startsWith('https:') ? `${cookie}; Secure` : cookie;
}

/** Cookies ignore ports, so two services on one loopback address need two names. */
const preferencesName = (webUrl: string): string => `asp_preferences_${new URL(webUrl).port || '0'}`;

/** Refuses a form from a page of another origin. */
export function requireSameOrigin(server: PageServer, request: FastifyRequest): void {
  if (!isOfSameOrigin(server, request)) throw forgedForm('another origin');
}

/**
 * Whether the form came from a page of this service; another port of this machine is another origin. Pages here send no
 * referrer, so browsers say `Origin: null`: then `Sec-Fetch-Site` must confirm it.
 */
export function isOfSameOrigin({ context }: PageServer, request: FastifyRequest): boolean {
  const { origin } = request.headers;
  const site = request.headers['sec-fetch-site'];
  const own = new URL(context.settings.addresses.webUrl).origin;
  const isOwnOrigin = origin === undefined || origin === own || (origin === 'null' && site === 'same-origin');
  return isOwnOrigin && (site === undefined || site === 'same-origin');
}

export function forgedForm(detail: string): OAuthError {
  return new OAuthError('access_denied', 'This form was not sent from a page of this service.', detail);
}

const SEGMENT = '[A-Za-z0-9_~%@-][A-Za-z0-9_.~%@-]*';
const RETURN_ADDRESS = new RegExp(`^${PATH.dashboard}(?:/${SEGMENT})*(?:\\?[A-Za-z0-9_.~%=&-]*)?$`);
const RETURN_ADDRESS_MAX_LENGTH = 500;
/** To browsers, these are dots, and two of them lead out of the dashboard. */
const ENCODED_DOT = /%2e/i;

/** Where the browser goes after signing in: a page of the dashboard, whatever the request says. */
export function readReturnAddress(text: string | undefined): string {
  if (text === undefined || text.length > RETURN_ADDRESS_MAX_LENGTH) return PATH.dashboard;
  return RETURN_ADDRESS.test(text) && !ENCODED_DOT.test(text) ? text : PATH.dashboard;
}

/** The sign-in page that continues to `address`. */
export function signInFor(address: string): string {
  return `${PATH.signIn}?return_to=${encodeURIComponent(address)}`;
}
