import { createHmac } from 'node:crypto';

import type { FastifyReply, FastifyRequest } from 'fastify';

import type { AccountRow } from '../../store/account-rows.js';
import { findSignedInAccount } from '../../store/account-session-rows.js';
import type { Query } from '../../store/database.js';
import { createSecret, hashSecret, isSameSecret } from '../secret.js';
import type { AuthorizationServer } from '../server.js';

/** How long somebody stays signed in in a browser. */
export const ACCOUNT_SESSION_LIFETIME_MS = 7 * 24 * 60 * 60 * 1000;

const SECRET = /^[A-Za-z0-9_-]{43}$/;

/** Whoever shows pages to browsers. */
export type PageServer = Pick<AuthorizationServer, 'context'>;

/** One browser, known by the secret in its cookie. The secret changes when somebody signs in or out. */
export interface Browser {
  readonly hash: string;
  /** Ties a form to this browser, and to the authorization request that it answers. */
  csrfFor(request: string | undefined): string;
  /** Chance that only this browser's own secret can give again, other for every purpose. */
  chanceFor(purpose: string): string;
}

/** The browser that sent a request, if it carries the cookie. */
export function readBrowser(server: PageServer, request: FastifyRequest): Browser | undefined {
  const { name } = cookieOf(server);
  for (const part of (request.headers.cookie ?? '').split(';')) {
    const [key, value = ''] = part.trim().split('=');
    if (key === name && SECRET.test(value)) return browserOf(value);
  }
  return undefined;
}

/** The browser that sent a request; a new one is given a secret. */
export function meetBrowser(server: PageServer, request: FastifyRequest, reply: FastifyReply): Browser {
  return readBrowser(server, request) ?? renewBrowser(server, reply);
}

/** Gives the browser another secret. What is kept for the old one must be bound to the new one or go. */
export function renewBrowser(server: PageServer, reply: FastifyReply, lifetimeMs?: number): Browser {
  const secret = createSecret(server.context.random, 'browser');
  const { name, isSecure } = cookieOf(server);
  const parts = [`${name}=${secret}`, 'Path=/', 'HttpOnly', 'SameSite=Lax'];
  if (isSecure) parts.push('Secure');
  if (lifetimeMs !== undefined) parts.push(`Max-Age=${Math.floor(lifetimeMs / 1000)}`);
  reply.header('set-cookie', parts.join('; '));
  return browserOf(secret);
}

/** Whether a form carries the secret of the page it stood on. */
export function isCsrfOf(browser: Browser, request: string | undefined, given: string | undefined): boolean {
  return given !== undefined && isSameSecret(given, browser.csrfFor(request));
}

export async function findAccountOf(
  server: PageServer,
  query: Query,
  browser: Browser | undefined,
): Promise<AccountRow | undefined> {
  return browser === undefined ? undefined : findSignedInAccount(query, browser.hash, server.context.clock.now());
}

function browserOf(secret: string): Browser {
  const seal = (text: string): string => createHmac('sha256', secret).update(text).digest('base64url');
  return {
    hash: hashSecret(secret),
    csrfFor: (request) => seal(`csrf ${request ?? ''}`),
    chanceFor: (purpose) => seal(`chance ${purpose}`),
  };
}

/** Cookies know no ports, so two services on one loopback address need two names; `__Host-` needs https. */
function cookieOf({ context }: PageServer): { name: string; isSecure: boolean } {
  const { protocol, port } = new URL(context.settings.addresses.webUrl);
  if (protocol === 'https:') return { name: '__Host-asp_session', isSecure: true };
  return { name: `asp_session_${port || '80'}`, isSecure: false };
}
