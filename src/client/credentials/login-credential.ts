import type { AccessToken, AccessTokenRequest, Credential, Resource } from './credential.js';
import type { LoginItem, LoginKey } from './login.js';
import { cacheDirectory, type LoginContext } from './login.js';
import { requireUsableLogin } from './open-logins.js';
import { toName } from './secret-store.js';
import { type CachedToken, createTokenCache, isUsable, type Tokens, toAccessToken } from './token-cache.js';

/**
 * Tokens of a stored login. The keychain is read once, no matter how many tokens are requested; the code that renews a
 * token is loaded only when it is needed.
 */
export function createLoginCredential(context: LoginContext, key: LoginKey): Credential {
  let item: LoginItem | undefined;
  let tokens: Tokens = {};
  const pending = new Map<Resource, Promise<CachedToken>>();

  const obtain = async (resource: Resource, request: AccessTokenRequest): Promise<CachedToken> => {
    const now = context.transport.clock.now();
    item ??= (await requireUsableLogin(context, key)).item;
    const cacheKey = Buffer.from(item.key, 'base64');
    tokens = { ...tokens, ...(await createTokenCache(cacheDirectory(context)).read(toName(key), cacheKey)) };
    const known = tokens[resource];
    if (known !== undefined && isUsable(known, request, now)) return known;
    const { refreshLogin } = await import('./refresh-login.js');
    const refreshed = await refreshLogin(context, key, resource, request);
    item = refreshed.item;
    return refreshed.token;
  };

  return {
    source: 'login',
    async accessToken(resource, request = {}): Promise<AccessToken> {
      const known = tokens[resource];
      if (known !== undefined && isUsable(known, request, context.transport.clock.now())) return toAccessToken(known);
      const running = pending.get(resource) ?? obtain(resource, request).finally(() => pending.delete(resource));
      pending.set(resource, running);
      const token = await running;
      tokens = { ...tokens, [resource]: token };
      return toAccessToken(token);
    },
  };
}
