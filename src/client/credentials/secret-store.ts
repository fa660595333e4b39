import { createHash } from 'node:crypto';

import { RequestError } from '../http/request-error.js';
import type { LoginKey, StoreKind } from './login.js';

/** Stores one small secret per name. */
export interface SecretStore {
  readonly kind: StoreKind;
  /** @throws RequestError `ASP_STORE_UNAVAILABLE` or `ASP_STORE_LOCKED`, like all of these. */
  get(key: LoginKey): Promise<string | undefined>;
  set(key: LoginKey, secret: string): Promise<void>;
  /** Returns whether there was one. */
  delete(key: LoginKey): Promise<boolean>;
}

/** The store does not exist, does not respond, or is not safe. */
export function storeUnavailable(message: string, cause?: unknown): RequestError {
  return new RequestError({ code: 'ASP_STORE_UNAVAILABLE', message, isRetryable: false, cause });
}

/** The store exists but is locked. */
export function storeLocked(message: string): RequestError {
  return new RequestError({ code: 'ASP_STORE_LOCKED', message, isRetryable: false });
}

/** The file name of a login: the same for every process, and it reveals nothing. */
export function toName(key: LoginKey): string {
  return digest(`${key.baseUrl}\n${key.handle ?? ''}`);
}

/** The beginning of a SHA-256 in hex: a fingerprint that does not reveal the text. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
