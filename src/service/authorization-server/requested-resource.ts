import type { Addresses } from '../context.js';
import { OAuthError } from './oauth-error.js';
import type { Parameters } from './parameters.js';

/** Every resource that tokens can be for (spec: Resource binding). */
export function listResources(addresses: Addresses): readonly string[] {
  return [addresses.baseUrl, addresses.wsUrl];
}

/** The `resource` values of a token request, all of which were granted; at least one (RFC 8707 §2.2). */
export function requireResources(parameters: Parameters, granted: readonly string[]): readonly string[] {
  const requested = parameters.every('resource');
  if (requested.length === 0) throw new OAuthError('invalid_target', 'The resource parameter is missing.');
  if (!requested.every((resource) => granted.includes(resource))) throw unknownResource();
  return requested;
}

/** The `resource` values of an authorization request; all resources when it names none (RFC 8707 §2.1). */
export function chooseResources(parameters: Parameters, known: readonly string[]): readonly string[] {
  const requested = parameters.every('resource');
  if (!requested.every((resource) => known.includes(resource))) throw unknownResource();
  return requested.length === 0 ? known : requested;
}

function unknownResource(): OAuthError {
  return new OAuthError('invalid_target', 'The resource is unknown or was not granted.');
}
