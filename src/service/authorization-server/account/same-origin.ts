import type { FastifyRequest } from 'fastify';

import { OAuthError } from '../oauth-error.js';
import type { PageServer } from './browser.js';

/** Refuses a form that a page of another origin has sent. */
export function requireSameOrigin(server: PageServer, request: FastifyRequest): void {
  if (!isOfSameOrigin(server, request)) throw forgedForm('another origin');
}

/**
 * Whether a page of this service asks; another port of this machine is another origin. Pages here send no referrer, for
 * which browsers say `Origin: null`: then `Sec-Fetch-Site` must vouch for them.
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
