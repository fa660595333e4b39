import type { FastifyReply } from 'fastify';

import { HEADERS_OF_REDIRECTS } from '../../pages/document.js';
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
  { redirectUri, state }: AnswerAddress,
  { error, description }: OAuthError,
): FastifyReply {
  const parameters = { error, error_description: description, state, iss: issuerOf(server) };
  return redirect(reply, withParameters(redirectUri, parameters));
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
