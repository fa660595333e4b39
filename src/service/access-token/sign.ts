import { SignJWT } from 'jose';

import { randomToken } from '../../kit/random.js';
import { ACCESS_TOKEN_LIFETIME_S } from '../../wire/limit.js';
import type { Scope } from '../../wire/scope.js';
import type { ServiceContext } from '../context.js';
import type { SigningKeys } from './signing-keys.js';

const TOKEN_ID_BYTES = 16;

export interface AccessTokenGrant {
  readonly accountId: string;
  /** Null for an account token. */
  readonly agentId: string | null;
  readonly clientId: string;
  readonly scopes: readonly Scope[];
  /** One or more of this service's resources. */
  readonly resources: readonly string[];
  /** The refresh-token family or the confidential client. Revoking it closes the sockets opened with the token. */
  readonly grantId: string;
}

/** Signs an access token: the specification's claims, `client_id` and `jti` (RFC 9068 §2.2), and `gid` for revocation. */
export async function signAccessToken(
  context: Pick<ServiceContext, 'clock' | 'random' | 'settings'>,
  keys: SigningKeys,
  grant: AccessTokenGrant,
): Promise<string> {
  const { kid, key } = await keys.signingKey();
  const issuedAtS = Math.floor(context.clock.now() / 1000);
  const [onlyResource] = grant.resources;
  const claims = {
    iss: context.settings.addresses.authUrl,
    sub: grant.accountId,
    ...(grant.agentId !== null && { agent_id: grant.agentId }),
    azp: grant.clientId,
    client_id: grant.clientId,
    scope: grant.scopes.join(' '),
    aud: grant.resources.length === 1 && onlyResource !== undefined ? onlyResource : [...grant.resources],
    iat: issuedAtS,
    exp: issuedAtS + ACCESS_TOKEN_LIFETIME_S,
    token_type: 'access',
    jti: randomToken(context.random, TOKEN_ID_BYTES),
    gid: grant.grantId,
  };
  return new SignJWT(claims).setProtectedHeader({ alg: 'RS256', kid, typ: 'at+jwt' }).sign(key);
}
