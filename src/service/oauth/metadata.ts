import { MCP_SCOPES } from '../../wire/mcp.js';
import { GRANT_TYPES, RESOURCE_METADATA_PATH } from '../../wire/oauth.js';
import type { ResourceMetadata, ServerMetadata } from '../../wire/schemas/oauth.js';
import { AGENT_SCOPES, isAccountScope, isScope, SCOPES, type Scope, splitScope } from '../../wire/scope.js';
import type { Addresses } from '../core/context.js';
import { OAuthError, type Parameters } from './parameters.js';

const SCOPE_MAX_LENGTH = 1000;

/** The known scopes of a list. Unknown ones are dropped; the answer to the client says what is left (RFC 6749 §3.3). */
export function parseScopes(text: string): Scope[] {
  return splitScope(text).filter(isScope);
}

/**
 * The upper bound of the scopes that a client may ask for: the known ones that it registers, or every scope when it names
 * none (RFC 7591 §2). Undefined when it names unknown ones alone.
 */
export function grantableScope(registered: string | undefined): string | undefined {
  if (registered === undefined || registered.trim() === '') return SCOPES.join(' ');
  return parseScopes(registered).join(' ') || undefined;
}

/** Whether all scopes belong to an account. A grant has scopes of an account or of an agent, never both. */
export function isForAccount(scopes: readonly Scope[]): boolean {
  return scopes.length > 0 && scopes.every(isAccountScope);
}

/**
 * The scopes of an authorization request that a person is asked for. Unknown ones are dropped, and account scopes along with
 * an agent's, because many clients ask for every scope they find in the metadata. Without any, the client's agent scopes.
 */
export function chooseScopes(requested: string | undefined, registered: readonly Scope[]): readonly Scope[] {
  if (requested !== undefined && requested.length > SCOPE_MAX_LENGTH) throw invalidScope();
  const known = requested === undefined ? registered : parseScopes(requested);
  const ofAgent = known.filter((scope) => !isAccountScope(scope));
  const chosen = ofAgent.length > 0 ? ofAgent : known;
  if (chosen.length === 0 || !chosen.every((scope) => registered.includes(scope))) throw invalidScope();
  return chosen;
}

/** The requested part of `granted`; all of it when nothing is requested. Anything else is `invalid_scope` (spec: Scopes). */
export function narrowScopes(requested: string | undefined, granted: readonly Scope[]): readonly Scope[] {
  if (requested === undefined) return granted;
  if (requested.length > SCOPE_MAX_LENGTH) throw invalidScope();
  const scopes = splitScope(requested);
  const narrowed = scopes.filter((scope) => isScope(scope)).filter((scope) => granted.includes(scope));
  if (narrowed.length === 0 || narrowed.length < scopes.length) throw invalidScope();
  return narrowed;
}

function invalidScope(): OAuthError {
  return new OAuthError('invalid_scope', 'A requested scope is unknown or cannot be granted.');
}

/** Every resource that tokens can be for (spec: Resource binding). */
function listResources(addresses: Addresses): readonly string[] {
  return [addresses.baseUrl, addresses.wsUrl, addresses.mcpUrl];
}

/** The resources of a grant, as its row stores them. */
export interface GrantedResources {
  /** Every resource that its tokens may be for. */
  readonly allowed: readonly string[];
  /** The resources of a token whose request names none: many libraries cannot name one when they refresh. */
  readonly usual: readonly string[];
}

/** The resources of a client that was not asked to narrow them. */
export function allResources(addresses: Addresses): GrantedResources {
  return { allowed: listResources(addresses), usual: [addresses.baseUrl] };
}

/** The resources of an authorization request; every resource when it names none (RFC 8707 §2.1). */
export function grantResources(parameters: Parameters, addresses: Addresses): GrantedResources {
  const all = allResources(addresses);
  const named = parameters.every('resource');
  return named.length === 0 ? all : { allowed: chooseResources(parameters, all), usual: named };
}

/** The resources of a token request, each of which was granted (RFC 8707 §2.2). */
export function chooseResources(parameters: Parameters, { allowed, usual }: GrantedResources): readonly string[] {
  const named = parameters.every('resource');
  if (!named.every((resource) => allowed.includes(resource)))
    throw new OAuthError('invalid_target', 'The resource is unknown or was not granted.');
  return named.length === 0 ? usual : named;
}

/** Paths of the authorization server, below its own address or below the web origin (spec: Discovery). */
export const PATH = {
  token: '/token',
  register: '/register',
  revoke: '/revoke',
  keySet: '/.well-known/jwks.json',
  authorize: '/oauth/authorize',
  consent: '/oauth/consent',
  signIn: '/oauth/sign-in',
  passkey: '/oauth/passkey',
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

/** The metadata of the Model Context Protocol. */
export function mcpMetadata({ mcpUrl, authUrl }: Addresses): ResourceMetadata {
  return resourceMetadata(mcpUrl, authUrl, MCP_SCOPES);
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
