import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest, HTTPMethods } from 'fastify';

import type { Log } from '../context.js';
import { ServiceError } from '../service-error.js';
import { OAuthError } from './oauth-error.js';

export const FORM_TYPE = 'application/x-www-form-urlencoded';
const BODY_MAX_BYTES = 64 * 1024;
const METHODS: readonly HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'];

/** Lets bodies of these types in, undecoded, and no others. */
export function acceptTypes(scope: FastifyInstance, types: string[]): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(types, { parseAs: 'string', bodyLimit: BODY_MAX_BYTES }, (_request, body, done) =>
    done(null, body),
  );
}

/** The undecoded body; empty when none was sent. */
export function bodyOf(request: FastifyRequest): string {
  return typeof request.body === 'string' ? request.body : '';
}

/** Answers every method that `url` has no route for with 405 and `Allow`. */
export function refuseOtherMethods(scope: FastifyInstance, url: string, allowed: readonly HTTPMethods[]): void {
  scope.route({
    method: METHODS.filter((method) => !allowed.includes(method)),
    url,
    handler: async () => {
      throw new OAuthError('invalid_request', 'This method is not allowed here.', undefined, {
        status: 405,
        headers: { allow: allowed.join(', ') },
      });
    },
  });
}

/** What was thrown, as an OAuth error; undefined when it is for the whole service to answer. */
export function asOAuthError(error: unknown): OAuthError | undefined {
  if (error instanceof OAuthError) return error;
  if (error instanceof ServiceError) {
    if (error.code !== 'RATE_LIMITED') return undefined;
    return new OAuthError('slow_down', 'Too many requests. Try again later.', undefined, {
      headers: { 'retry-after': String(error.options.retryAfterS ?? 1) },
    });
  }
  const { statusCode, code } = error as Partial<FastifyError>;
  if (statusCode === undefined || statusCode < 400 || statusCode >= 500) return undefined;
  return new OAuthError('invalid_request', 'The request body cannot be read.', code, { status: statusCode });
}

/** Errors of the endpoints that programs call (RFC 6749 §5.2). */
export function answerOAuthError(
  log: Log,
  thrown: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
): FastifyReply {
  const known = asOAuthError(thrown);
  if (known === undefined && thrown instanceof ServiceError) throw thrown;
  if (known === undefined) log.error('oauth_request_failed', thrown);
  const error = known ?? new OAuthError('server_error', 'Something went wrong. It is safe to try again.');
  log.info('oauth_refused', {
    endpoint: request.routeOptions.url ?? '',
    error: error.error,
    ...(error.detail !== undefined && { detail: error.detail }),
  });
  return reply
    .code(error.status)
    .headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', ...error.headers })
    .send({ error: error.error, error_description: error.description });
}
