import type { FastifyError, FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';
import type { Log, ServiceContext } from '../core/context.js';
import { isOutage, ServiceError } from '../core/errors.js';
import { findScope } from '../core/request-scope.js';
import { tooManyRequests } from '../oauth/attempts.js';
import { PATH } from '../oauth/metadata.js';
import { OAuthError } from '../oauth/parameters.js';
import { HEADERS_OF_REDIRECTS, sendErrorPage } from './layout.js';

export const FORM_TYPE = 'application/x-www-form-urlencoded';
const BODY_MAX_BYTES = 64 * 1024;

/** Accepts bodies of these types only, and leaves them undecoded. */
export function acceptTypes(scope: FastifyInstance, types: string[]): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(types, { parseAs: 'string', bodyLimit: BODY_MAX_BYTES }, (_request, body, done) =>
    done(null, body),
  );
}

const PAGES_PER_TURN = 16;

/**
 * A hook that begins only a few pages in each turn of the event loop. Node.js accepts one connection a turn, and turns
 * that render hundreds of pages for strangers would make everyone who connects wait for as many turns.
 */
export function createPageTurns(): () => Promise<void> {
  const waiting: (() => void)[] = [];
  let begun = 0;
  const endTurn = (): void => {
    const next = waiting.splice(0, PAGES_PER_TURN);
    begun = next.length;
    for (const begin of next) begin();
    if (begun > 0) setImmediate(endTurn);
  };
  return () => {
    if (begun === 0) setImmediate(endTurn);
    if (begun >= PAGES_PER_TURN) return new Promise((resolve) => waiting.push(resolve));
    begun += 1;
    return Promise.resolve();
  };
}

/** Redirects with 303, so that the browser does not post the form to the new address (RFC 9700 §4.12). */
export function redirect(reply: FastifyReply, location: string): FastifyReply {
  return reply.code(303).headers(HEADERS_OF_REDIRECTS).header('location', location).send();
}

/** The refusal of a method by an address that has only the `allowed` ones. */
export function methodRefusal(allowed: readonly string[]): OAuthError {
  return new OAuthError('invalid_request', 'This method is not allowed here.', undefined, {
    status: 405,
    headers: { allow: allowed.join(', ') },
  });
}

/** A thrown error as an OAuth error; undefined when the whole service answers it. */
function asOAuthError(error: unknown): OAuthError | undefined {
  if (error instanceof OAuthError) return error;
  if (error instanceof ServiceError) {
    if (error.code !== 'RATE_LIMITED') return undefined;
    return tooManyRequests(error.options.retryAfterS ?? 1);
  }
  if (isOutage(error))
    return new OAuthError(
      'server_error',
      'The service cannot read or write its data right now. Try again.',
      undefined,
      {
        status: 503,
        headers: { 'retry-after': '2' },
      },
    );
  const { statusCode, code } = error as Partial<FastifyError>;
  if (statusCode === undefined || statusCode < 400 || statusCode >= 500) return undefined;
  return new OAuthError('invalid_request', 'The request body cannot be read.', code, { status: statusCode });
}

/** The error to answer with. One that the whole service answers is thrown again, and a fault is logged as `event`. */
function requireOAuthError(log: Log, thrown: unknown, event: string): OAuthError {
  const known = asOAuthError(thrown);
  if (known === undefined && thrown instanceof ServiceError) throw thrown;
  if (known === undefined) log.error(event, thrown);
  return known ?? new OAuthError('server_error', 'The service failed. Try again.');
}

/** Shows a person an error: of a form from another page, of a malformed request, or of the service. */
export function sendFailurePage(
  context: Pick<ServiceContext, 'log' | 'settings'>,
  thrown: unknown,
  reply: FastifyReply,
  { event, adviceFor }: { readonly event: string; readonly adviceFor: (error: OAuthError) => string },
): FastifyReply {
  const error = requireOAuthError(context.log, thrown, event);
  const isFault = error.status >= 500;
  return sendErrorPage(reply.headers(error.headers), context, error.status, {
    title: isFault ? 'Something went wrong' : 'This request cannot be completed',
    message: error.description,
    advice: adviceFor(error),
    code: error.error,
    requestId: isFault ? findScope()?.requestId : undefined,
    onward: { href: PATH.dashboard, label: 'Dashboard' },
  });
}

/** Answers an error of an endpoint that programs call (RFC 6749 §5.2). */
export function answerOAuthError(
  log: Log,
  thrown: unknown,
  request: FastifyRequest,
  reply: FastifyReply,
  endpoint = request.routeOptions.url ?? '',
): FastifyReply {
  // The whole service gives the same answer while its database is down.
  if (isOutage(thrown)) throw thrown;
  const error = requireOAuthError(log, thrown, 'oauth_request_failed');
  log.info('oauth_refused', {
    endpoint,
    error: error.error,
    ...(error.detail !== undefined && { detail: error.detail }),
  });
  return reply
    .code(error.status)
    .headers({ 'cache-control': 'no-store', 'x-content-type-options': 'nosniff', ...error.headers })
    .send({ error: error.error, error_description: error.description });
}
