import type { EndpointRow } from '../../wire/endpoint.js';
import { SCOPE_DESCRIPTION, SCOPES } from '../../wire/scope.js';
import { PATH } from '../authorization-server/metadata.js';
import type { Addresses } from '../context.js';
import type { Json } from './schemas.js';

/** (spec: Authentication) */
export function securityScheme({ authUrl, webUrl }: Addresses): Json {
  const scopes = Object.fromEntries(SCOPES.map((scope) => [scope, SCOPE_DESCRIPTION[scope]]));
  const tokenUrl = `${authUrl}${PATH.token}`;
  return {
    type: 'oauth2',
    description: 'Bearer access tokens; `resource` names the base URL of this interface (RFC 8707).',
    flows: {
      authorizationCode: { authorizationUrl: `${webUrl}${PATH.authorize}`, tokenUrl, refreshUrl: tokenUrl, scopes },
      clientCredentials: { tokenUrl, scopes },
    },
  };
}

/** All scopes of one requirement, or all of the other. */
export function securityOf(row: EndpointRow): Json[] {
  const alternatives = row.accountScopes === undefined ? [row.scopes] : [row.scopes, row.accountScopes];
  return alternatives.map((scopes) => ({ oauth: [...scopes] }));
}
