import type { Scope } from '../../../wire/scope.js';
import type { ServiceContext } from '../../context.js';
import type { Transaction } from '../../store/database.js';
import type { OAuthClientRow } from '../../store/oauth-client-rows.js';
import type { OAuthError } from '../oauth-error.js';
import type { Parameters } from '../parameters.js';

/** What a grant gives: all that an access token says, and what goes beside it. */
export interface Granted {
  readonly clientId: string;
  readonly accountId: string;
  readonly agentId: string | null;
  /** Null for an account token. */
  readonly agentHandle: string | null;
  readonly grantId: string;
  readonly scopes: readonly Scope[];
  readonly resources: readonly string[];
  /** Only refreshing leaves it out of the answer (spec: POST /token). */
  readonly isScopeShown: boolean;
  readonly refreshToken: string | undefined;
}

/**
 * `refused` keeps what the grant has written, such as the end of a family; an error that is thrown undoes it, so that
 * the request changed nothing.
 */
export type GrantOutcome =
  | { readonly kind: 'granted'; readonly granted: Granted }
  | { readonly kind: 'refused'; readonly error: OAuthError };

export interface GrantRequest {
  readonly parameters: Parameters;
  readonly client: OAuthClientRow;
}

/** One row of the grant table. */
export type Grant = (context: ServiceContext, transaction: Transaction, request: GrantRequest) => Promise<GrantOutcome>;

/** Takes one of the client's 120 tokens a minute; last of all checks, so that nothing was consumed when it refuses. */
export async function takeFromLimit(context: ServiceContext, client: OAuthClientRow): Promise<void> {
  await context.limits.take('issueToken', client.id);
}
