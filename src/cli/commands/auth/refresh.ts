import { refreshLogin } from '../../../client/credentials/refresh-login.js';
import { isScope, splitScope } from '../../../wire/scope.js';
import type { Context } from '../../context/context.js';
import { loginContextOf } from '../../context/login-place.js';
import { UsageError } from '../../terminal/cli-error.js';
import { relativeTime } from '../../terminal/relative-time.js';
import { readHandle } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { readScopes } from './read-scopes.js';
import { requireStoredLogin } from './stored-login.js';

export interface RefreshOptions {
  readonly handle: string | undefined;
  /** Undefined: those of the login. */
  readonly scopes: readonly string[] | undefined;
}

export function parse(words: Words): RefreshOptions {
  const [handle] = words.arguments;
  return {
    handle: handle === undefined ? undefined : readHandle(handle),
    scopes: words.text('scopes') === undefined ? undefined : readScopes(words),
  };
}

export async function run(context: Context, { handle, scopes }: RefreshOptions): Promise<void> {
  const login = await requireStoredLogin(context, handle);
  const beyond = scopes?.find((scope) => isScope(scope) && !login.scopes.includes(scope));
  if (beyond !== undefined)
    throw new UsageError(`The login of ${login.handle} does not have the scope ${beyond}.`, {
      why: `it has ${login.scopes.join(', ')}; a refresh can only narrow.`,
      next: ['asp', 'login', login.handle ?? ''],
    });
  const { signal, output, clock } = context;
  const { token } = await refreshLogin(await loginContextOf(context), login, 'api', { isForced: true, scopes, signal });
  const granted = token.scope === undefined ? (scopes ?? login.scopes) : splitScope(token.scope);
  await output.note(
    `A new access token that expires ${relativeTime(token.expiresAtMs, clock.now())}: ${granted.join(' ')}`,
  );
  const { baseUrl: base_url } = login;
  await output.document(
    { handle: login.handle, base_url, scopes: granted, expires_at: token.expiresAtMs },
    (safe) => safe.handle ?? '(account)',
  );
}
