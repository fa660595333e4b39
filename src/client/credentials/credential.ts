import { createHash } from 'node:crypto';
import { systemClock } from '../../kit/clock.js';
import { type Random, systemRandom } from '../../kit/random.js';
import { requireKnownOptions } from '../../kit/suggest.js';
import { readAddresses, type ServiceAddresses } from '../http/address.js';
import { RequestError } from '../http/request-error.js';
import { createTransport, type Transport } from '../http/transport.js';
import { discover, getResource } from '../oauth/discover.js';
import { requestClientCredentials } from '../oauth/token-endpoint.js';
import { digest } from './secret-store.js';
import { createTokenCache, isUsable, type Tokens, toAccessToken, toCached, withToken } from './token-cache.js';

/** What an access token is for: the REST API or the WebSocket (spec: Resource binding). */
export type Resource = 'api' | 'ws';

/** The source of a credential, as errors and `whoami` name it. */
export type CredentialSource = 'environment' | 'client_credentials' | 'command' | 'login';

/** An access token and what its issuer said about it. */
export interface AccessToken {
  readonly token: string;
  /**
   * When it expires by this machine's clock, in epoch milliseconds, computed from `expires_in`; undefined if unknown.
   */
  readonly expiresAtMs: number | undefined;
  /** Space-separated scopes, if the answer named them. */
  readonly scope: string | undefined;
  /** The agent that it acts as, with its `@`, if the answer named it (wire: OAuth). */
  readonly handle?: string | undefined;
}

/** Requirements for a token. */
export interface AccessTokenRequest {
  /** A token that the service refused: never return this one again. */
  readonly rejected?: string | undefined;
  /** How long it must remain valid, in seconds; default 60 (spec: Refresh). */
  readonly minTtlS?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Provides access tokens, and renews them when they are about to expire or were refused. */
export interface Credential {
  readonly source: CredentialSource;
  /**
   * A token for `resource`.
   * @throws RequestError `ASP_NO_CREDENTIAL`, `ASP_LOGIN_ENDED`, `ASP_STORE_…`, an OAuth code, or a network error.
   */
  accessToken(resource: Resource, request?: AccessTokenRequest): Promise<AccessToken>;
}

/**
 * Access tokens that the caller already has, as in `ASP_TOKEN` and `ASP_WS_TOKEN`. Without a token for the WebSocket,
 * the one for the REST API is used for both, which some services accept. They cannot be renewed: a refused token ends
 * the credential.
 */
export function createTokenCredential(tokens: Readonly<Record<Resource, string | undefined>>): Credential {
  const { api, ws } = { api: nonEmpty(tokens.api), ws: nonEmpty(tokens.ws) };
  return {
    source: 'environment',
    async accessToken(resource, request = {}) {
      const token = resource === 'ws' ? (ws ?? api) : api;
      if (token === undefined)
        throw new RequestError({
          code: 'ASP_NO_CREDENTIAL',
          message: `There is no access token for the ${resource === 'ws' ? 'WebSocket' : 'REST API'}.`,
        });
      if (request.rejected === token)
        throw new RequestError({
          code: 'UNAUTHORIZED',
          message:
            resource === 'ws' && ws === undefined
              ? 'The WebSocket does not accept the access token of the REST API. Set a separate one in ASP_WS_TOKEN.'
              : 'The access token was refused, and asp cannot renew it.',
          status: 401,
        });
      return { token, expiresAtMs: undefined, scope: undefined };
    },
  };
}

const nonEmpty = (token: string | undefined): string | undefined => (token === '' ? undefined : token);

const RETRIES = 4;

/** A confidential client and its service. */
export interface ClientCredentialOptions {
  /** Default: a new one without a proxy. */
  readonly transport?: Transport | undefined;
  readonly random?: Random | undefined;
  readonly service: ServiceAddresses;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Fewer scopes than the client has. */
  readonly scopes?: readonly string[] | undefined;
  /** Maximum number of retries of a token request. */
  readonly retries?: number | undefined;
  /** Where tokens (encrypted with the secret) and metadata are kept; undefined: nothing is written. */
  readonly cacheDirectory?: string | undefined;
}

const OPTIONS: Record<keyof Required<ClientCredentialOptions>, true> = {
  ...{ service: true, clientId: true, clientSecret: true, scopes: true },
  ...{ transport: true, random: true, retries: true, cacheDirectory: true },
};

/** Tokens of a confidential client, bound to one agent and requested again when they expire (spec: Flows). */
export function createClientCredential(options: ClientCredentialOptions): Credential {
  requireKnownOptions('createClientCredential', options, OPTIONS);
  const { clientId, clientSecret, random = systemRandom } = options;
  const service = readAddresses(options.service);
  const transport = options.transport ?? createTransport({ clock: systemClock });
  const cache = createTokenCache(options.cacheDirectory);
  const name = digest(`client\n${service.baseUrl}\n${clientId}\n${options.scopes?.join(' ') ?? ''}`);
  const key = createHash('sha256').update(`asp-cli token cache\n${clientSecret}`).digest();
  let tokens: Tokens | undefined;
  const pending = new Map<Resource, Promise<void>>();

  const renew = async (resource: Resource, signal: AbortSignal | undefined): Promise<void> => {
    const { cacheDirectory } = options;
    const over = { transport, random, retries: Math.min(RETRIES, options.retries ?? RETRIES) };
    const discovery = await discover({ ...over, cacheDirectory }, service, signal);
    const context = { ...over, discovery };
    const client = { clientId, clientSecret, scopes: options.scopes };
    const set = await requestClientCredentials(context, client, getResource(discovery, resource), signal);
    tokens = withToken(tokens ?? {}, resource, toCached(set));
    await cache.write(name, key, tokens);
  };

  return {
    source: 'client_credentials',
    async accessToken(resource, request = {}) {
      tokens ??= await cache.read(name, key);
      const known = tokens[resource];
      if (known !== undefined && isUsable(known, request, transport.clock.now())) return toAccessToken(known);
      const running = pending.get(resource) ?? renew(resource, request.signal).finally(() => pending.delete(resource));
      pending.set(resource, running);
      await running;
      const fresh = tokens[resource];
      if (fresh === undefined) throw new TypeError('a renewed token is missing');
      return toAccessToken(fresh);
    },
  };
}
