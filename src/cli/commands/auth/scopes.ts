import { ACCOUNT_SCOPES, AGENT_SCOPES, isAccountScope, isScope } from '../../../wire/scope.js';
import { UsageError } from '../../errors.js';

export { AGENT_SCOPES } from '../../../wire/scope.js';

/** The scopes of `--scopes`, separated by commas or spaces. */
export function readScopes(text: string | undefined): readonly string[] | undefined {
  if (text === undefined) return undefined;
  const scopes = text.split(/[\s,]+/).filter((scope) => scope !== '');
  const unknown = scopes.find((scope) => !isScope(scope));
  if (unknown !== undefined || scopes.length === 0)
    throw new UsageError(`'${unknown ?? text}' is not a scope.`, {
      why: `scopes are ${AGENT_SCOPES.join(', ')}; of the account: ${ACCOUNT_SCOPES.join(', ')}.`,
    });
  const ofAccount = scopes.filter((scope) => isScope(scope) && isAccountScope(scope)).length;
  if (ofAccount > 0 && ofAccount < scopes.length)
    throw new UsageError('Scopes of the account and of an agent need two sign-ins.', {
      next: ['asp', 'login', '--scopes', ACCOUNT_SCOPES.join(',')],
    });
  return scopes;
}
