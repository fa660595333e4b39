import { join } from 'node:path';

import * as z from 'zod/mini';

import { readPrivateFile, removePrivateFile, writePrivateFile } from '../../kit/private-file.js';
import { seal, unseal } from '../../kit/seal.js';
import { REFRESH_THRESHOLD_S } from '../../wire/limit.js';
import type { TokenSet } from '../oauth/token-endpoint.js';
import type { AccessToken, AccessTokenRequest, Resource } from './credential.js';

const BACKWARD_TOLERANCE_MS = 5_000;

/** An access token and when it was requested, both by this machine's clock. */
export const CachedToken = z.strictObject({
  token: z.string(),
  obtainedAtMs: z.number(),
  expiresAtMs: z.number(),
  scope: z.optional(z.string()),
  handle: z.optional(z.string()),
});
export type CachedToken = z.infer<typeof CachedToken>;

const Tokens = z.strictObject({ api: z.optional(CachedToken), ws: z.optional(CachedToken) });
/** The access tokens of one login: for the REST API and for sockets. */
export type Tokens = z.infer<typeof Tokens>;

/** The access tokens of one login, encrypted with the key in its item, in a private file. */
export interface TokenCache {
  read(name: string, key: Buffer): Promise<Tokens>;
  /** A failed write is not an error: the next process requests a token again. */
  write(name: string, key: Buffer, tokens: Tokens): Promise<void>;
  remove(name: string): Promise<void>;
}

/** A cache in `directory`; undefined: nothing is kept. */
export function createTokenCache(directory: string | undefined): TokenCache {
  if (directory === undefined) return { read: async () => ({}), write: async () => {}, remove: async () => {} };
  const getPath = (name: string): string => join(directory, `${name}.bin`);
  return {
    async read(name, key) {
      try {
        const text = await readPrivateFile(getPath(name));
        return text === undefined ? {} : Tokens.parse(JSON.parse(unseal(key, name, Buffer.from(text, 'base64'))));
      } catch {
        return {};
      }
    },
    async write(name, key, tokens) {
      const sealed = seal(key, name, JSON.stringify(tokens)).toString('base64');
      await writePrivateFile(getPath(name), sealed).catch(() => undefined);
    },
    async remove(name) {
      await removePrivateFile(getPath(name)).catch(() => undefined);
    },
  };
}

/**
 * Whether a token may still be used: it was not refused, it is valid for long enough, and it was not obtained in the
 * future, which would mean that the clock was set back.
 */
export function isUsable(token: CachedToken | undefined, request: AccessTokenRequest, nowMs: number): boolean {
  if (token === undefined || token.token === request.rejected) return false;
  const isFromTheFuture = token.obtainedAtMs > nowMs + BACKWARD_TOLERANCE_MS;
  return !isFromTheFuture && token.expiresAtMs - nowMs > (request.minTtlS ?? REFRESH_THRESHOLD_S) * 1000;
}

/** The part of a token answer that is stored. */
export function toCached(tokens: TokenSet): CachedToken {
  const { accessToken: token, obtainedAtMs, expiresInS, scope, handle } = tokens;
  return {
    token,
    obtainedAtMs,
    expiresAtMs: obtainedAtMs + expiresInS * 1000,
    ...(scope !== undefined && { scope }),
    ...(handle !== undefined && { handle }),
  };
}

/** The part of it that a caller gets. */
export function toAccessToken(cached: CachedToken): AccessToken {
  const { token, expiresAtMs, scope, handle } = cached;
  return { token, expiresAtMs, scope, handle };
}

/** `tokens` with one of them replaced. */
export function withToken(tokens: Tokens, resource: Resource, token: CachedToken): Tokens {
  return { ...tokens, [resource]: token };
}
