import { RequestError } from '../http/request-error.js';
import type { Credential, Resource } from './credential.js';

/**
 * Access tokens that the caller already has, as they come from `ASP_TOKEN` and `ASP_WS_TOKEN`. Without a token for the WebSocket
 * the one for the REST API is used for both, which some services accept. They cannot be renewed: a token that is refused is the
 * end.
 */
export function createTokenCredential(tokens: Readonly<Record<Resource, string | undefined>>): Credential {
  const { api, ws } = { api: given(tokens.api), ws: given(tokens.ws) };
  return {
    source: 'environment',
    async accessToken(resource, request = {}) {
      const token = resource === 'ws' ? (ws ?? api) : api;
      if (token === undefined)
        throw new RequestError({
          code: 'ASP_NO_CREDENTIAL',
          message: `There is no access token for the ${resource === 'ws' ? 'WebSocket' : 'REST API'}.`,
        });
      if (request.rejected === token)
        throw new RequestError({
          code: 'UNAUTHORIZED',
          message:
            resource === 'ws' && ws === undefined
              ? 'The WebSocket does not accept the access token of the REST API: it needs one of its own (ASP_WS_TOKEN).'
              : 'The access token was refused, and it cannot be renewed from here.',
          status: 401,
        });
      return { token, expiresAtMs: undefined, scope: undefined };
    },
  };
}

const given = (token: string | undefined): string | undefined => (token === '' ? undefined : token);
