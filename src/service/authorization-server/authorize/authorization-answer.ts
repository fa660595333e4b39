import type { FastifyReply } from 'fastify';

import { HEADERS_OF_REDIRECTS } from '../../pages/document.js';
import { pageHeaders } from '../../pages/layout.js';
import { renderErrorPage } from '../../pages/message-page.js';
import { OAuthError } from '../oauth-error.js';
import { withParameters } from '../redirect-uri.js';
import type { AuthorizationServer } from '../server.js';
import type { AnswerAddress } from './authorization-request.js';

/** Sends the browser back to the client with a code (RFC 6749 §4.1.2; RFC 9207 §2). */
export function answerWithCode(
  server: AuthorizationServer,
  reply: FastifyReply,
  { redirectUri, state }: AnswerAddress,
  code: string,
): FastifyReply {
  return redirect(reply, withParameters(redirectUri, { code, state, iss: issuerOf(server) }));
}

/** Sends the browser back to the client with an error (RFC 6749 §4.1.2.1; RFC 9207 §2). */
export function answerWithError(
  server: AuthorizationServer,
  reply: FastifyReply,
  address: AnswerAddress,
  error: OAuthError,
): FastifyReply {
  return redirect(reply, locationOfError(server, address, error));
}

function locationOfError(
  server: AuthorizationServer,
  { redirectUri, state }: AnswerAddress,
  { error, description }: OAuthError,
): string {
  return withParameters(redirectUri, { error, error_description: description, state, iss: issuerOf(server) });
}

/**
 * Tells of an error before anybody was asked. An address of the person's own machine hears it at once; to any other the
 * person goes by a link, or whoever registers a client could send browsers anywhere through us (D-122).
 */
export function answerUnaskedError(
  server: AuthorizationServer,
  reply: FastifyReply,
  address: AnswerAddress,
  error: OAuthError,
): FastifyReply {
  if (address.redirectUri.startsWith('http:')) return answerWithError(server, reply, address, error);
  const href = locationOfError(server, address, error);
  const page = renderErrorPage({
    place: new URL(server.context.settings.addresses.webUrl).host,
    title: 'This request cannot go on',
    message: error.description,
    advice: 'The application made a mistake. It can be told of it, if you know the place it belongs to.',
    code: error.error,
    onward: { href, label: `Go to ${new URL(href).host}` },
  });
  return reply.code(400).headers(pageHeaders()).send(page);
}

/** 303: whatever was posted here is not posted there (RFC 9700 §4.12). */
export function redirect(reply: FastifyReply, location: string): FastifyReply {
  return reply.code(303).headers(HEADERS_OF_REDIRECTS).header('location', location).send();
}

export function denied(description: string): OAuthError {
  return new OAuthError('access_denied', description);
}

function issuerOf({ context }: AuthorizationServer): string {
  return context.settings.addresses.authUrl;
}
