import { GRANT_TYPES, RESOURCE_METADATA_PATH, type ResourceMetadata, type ServerMetadata } from '../../wire/oauth.js';
import { AGENT_SCOPES, SCOPES, type Scope } from '../../wire/scope.js';
import type { Addresses } from '../context.js';
import { listResources } from './scope-and-resource.js';

/** Paths of the authorization server, below its own address or below the web origin (spec: Discovery). */
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
  newPassword: '/oauth/new-password',
  dashboard: '/dashboard',
} as const;

/** Authorization server metadata. No header of a request can change an address in it (RFC 8414 §2; spec: Discovery). */
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
    token_endpoint_auth_methods_supported: ['none', 'client_secret_post', 'client_secret_basic'],
    revocation_endpoint_auth_methods_supported: ['none'],
    code_challenge_methods_supported: ['S256'],
    authorization_response_iss_parameter_supported: true,
    client_id_metadata_document_supported: true,
    resource_servers: listResources(addresses).map((resource) => ({ resource })),
  };
}

/**
 * The metadata of the REST interface (RFC 9728 §2; wire: OAuth). It lists the agent scopes only: clients ask for every
 * scope that is listed here, and a token cannot act as an agent and as its account at once.
 */
export function restMetadata({ baseUrl, authUrl }: Addresses, epoch: string): ResourceMetadata {
  return { ...resourceMetadata(baseUrl, authUrl, AGENT_SCOPES), epoch };
}

/** The metadata of the WebSocket. */
export function socketMetadata({ wsUrl, authUrl }: Addresses): ResourceMetadata {
  return resourceMetadata(wsUrl, authUrl, ['realtime:read']);
}

function resourceMetadata(resource: string, issuer: string, scopes: readonly Scope[]): ResourceMetadata {
  return {
    resource,
    authorization_servers: [issuer],
    scopes_supported: [...scopes],
    bearer_methods_supported: ['header'],
  };
}

/** Where a resource publishes its metadata, as a 401 answer says (RFC 9728 §5.1). */
export function resourceMetadataUrl(resource: string): string {
  return `${resource.replace(/^ws/, 'http')}${RESOURCE_METADATA_PATH}`;
}
