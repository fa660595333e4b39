import { isAccountScope, isScope, type Scope, splitScope } from '../../wire/scope.js';
import { OAuthError } from './oauth-error.js';

const SCOPE_MAX_LENGTH = 1000;

/** The scopes of a stored list; what the table no longer knows is gone. */
export function parseScopes(text: string): Scope[] {
  return splitScope(text).filter(isScope);
}

/** Whether all scopes are an account's own; none of them may stand beside an agent's. */
export function isForAccount(scopes: readonly Scope[]): boolean {
  return scopes.length > 0 && scopes.every(isAccountScope);
}

/** What of `granted` is asked for; all of it when nothing is. Asking for anything else is `invalid_scope` (spec: Scopes). */
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
