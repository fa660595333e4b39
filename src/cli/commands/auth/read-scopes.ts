import { ACCOUNT_SCOPES, AGENT_SCOPES, isAccountScope, isScope } from '../../../wire/scope.js';
import { UsageError } from '../../terminal/cli-error.js';
import type { Words } from '../../words/words.js';

/** The scopes that `--scopes` or `--read-only` ask for; all an agent may have unless said. */
export function readScopes(words: Words): readonly string[] {
  words.refuseBoth('scopes', 'read-only');
  if (words.flag('read-only')) return AGENT_SCOPES.filter((scope) => scope.endsWith(':read'));
  const text = words.text('scopes');
  if (text === undefined) return AGENT_SCOPES;
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
