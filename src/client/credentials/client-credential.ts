import { createHash } from 'node:crypto';

import { systemClock } from '../../kit/clock.js';
import { type Random, systemRandom } from '../../kit/random.js';
import { createTransport, type Transport } from '../http/transport.js';
import { discover, resourceOf } from '../oauth/discover.js';
import { requestClientCredentials } from '../oauth/token-endpoint.js';
import type { ServiceAddresses } from '../service-addresses.js';
import type { Credential, Resource } from './credential.js';
import { digest } from './secret-store.js';
import { createTokenCache, isUsable, type Tokens, toAccessToken, toCached, withToken } from './token-cache.js';

const RETRIES = 4;

/** A confidential client and its service. */
export interface ClientCredentialOptions {
  /** One of its own, without a proxy, unless given. */
  readonly transport?: Transport | undefined;
  readonly random?: Random | undefined;
  readonly service: ServiceAddresses;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Fewer scopes than the client has. */
  readonly scopes?: readonly string[] | undefined;
  /** A token request is tried again at most so often. */
  readonly retries?: number | undefined;
  /** Where tokens (encrypted under the secret) and metadata are kept; undefined: nothing is written. */
  readonly cacheDirectory?: string | undefined;
}

/** Tokens of a confidential client, bound to one agent: asked for again when they run out (spec: Flows). */
export function createClientCredential(options: ClientCredentialOptions): Credential {
  const { service, clientId, clientSecret, random = systemRandom } = options;
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
    const set = await requestClientCredentials(context, client, resourceOf(discovery, resource), signal);
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
