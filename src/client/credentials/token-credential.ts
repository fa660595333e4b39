import { RequestError } from '../http/request-error.js';
import type { Credential, Resource } from './credential.js';

/**
 * Tokens that someone else obtained, as they come from `ASP_TOKEN` and `ASP_WS_TOKEN`. They cannot be renewed: a token that
 * was refused is the end.
 */
export function createTokenCredential(tokens: Readonly<Record<Resource, string | undefined>>): Credential {
  return {
    source: 'environment',
    async accessToken(resource, request = {}) {
      const token = tokens[resource];
      if (token === undefined || token === '')
        throw new RequestError({
          code: 'ASP_NO_CREDENTIAL',
          message: `There is no access token for the ${resource === 'ws' ? 'WebSocket' : 'REST API'}.`,
        });
      if (request.rejected === token)
        throw new RequestError({
          code: 'UNAUTHORIZED',
          message: 'The access token was refused, and it cannot be renewed from here.',
          status: 401,
        });
      return { token, expiresAtMs: undefined, scope: undefined };
    },
  };
}
