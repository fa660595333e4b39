import type { FastifyRequest } from 'fastify';

import { OAuthError } from '../oauth-error.js';
import type { PageServer } from './browser.js';

/**
 * Refuses a form that a page of another origin has sent; another port of this machine is another origin. Pages here
 * send no referrer, for which browsers say `Origin: null`: then `Sec-Fetch-Site` must vouch for them.
 */
export function requireSameOrigin({ context }: PageServer, request: FastifyRequest): void {
  const { origin } = request.headers;
  const site = request.headers['sec-fetch-site'];
  const own = new URL(context.settings.addresses.webUrl).origin;
  const isOwnOrigin = origin === undefined || origin === own || (origin === 'null' && site === 'same-origin');
  const isOwnSite = site === undefined || site === 'same-origin';
  if (!isOwnOrigin || !isOwnSite) throw forgedForm('another origin');
}

export function forgedForm(detail: string): OAuthError {
  return new OAuthError('access_denied', 'This form was not sent from a page of this service.', detail);
}
