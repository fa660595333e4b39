import { GRANT_TYPES, type ResourceMetadata, type ServerMetadata } from '../../wire/oauth.js';
import { SCOPES } from '../../wire/scope.js';
import type { Addresses } from '../context.js';
import { listResources } from './requested-resource.js';

/** Paths of the authorization server, below its own address or the web origin (spec: Discovery). */
export const PATH = {
  token: '/token',
  register: '/register',
  revoke: '/revoke',
  keySet: '/.well-known/jwks.json',
  authorize: '/oauth/authorize',
  consent: '/oauth/consent',
  signIn: '/oauth/sign-in',
  signUp: '/oauth/sign-up',
  signOut: '/oauth/sign-out',
  signInLink: '/oauth/sign-in-link',
  dashboard: '/dashboard',
} as const;

/** From configuration alone: no header of a request can change an address (RFC 8414 §2; spec: Discovery). */
export function serverMetadata(addresses: Addresses): ServerMetadata {
  const { authUrl, webUrl } = addresses;
  return {
    issuer: authUrl,
    authorization_endpoint: `${webUrl}${PATH.authorize}`,
    token_endpoint: `${authUrl}${PATH.token}`,
    registration_endpoint: `${authUrl}${PATH.register}`,
    revocation_endpoint: `${authUrl}${PATH.revoke}`,
    jwks_uri: `${authUrl}${PATH.keySet}`,
    scopes_supported: [...SCOPES],
    response_types_supported: ['code'],
    response_modes_supported: ['query'],
    grant_types_supported: [...GRANT_TYPES],
    token_endpoint_auth_methods_supported: ['none', 'client_secret_post'],
    revocation_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    resource_servers: listResources(addresses).map((resource) => ({ resource })),
  };
}

/** (RFC 9728 §2; wire: OAuth) */
export function resourceMetadata(addresses: Addresses): ResourceMetadata {
  return {
    resource: addresses.baseUrl,
    authorization_servers: [addresses.authUrl],
    scopes_supported: [...SCOPES],
    bearer_methods_supported: ['header'],
  };
}
