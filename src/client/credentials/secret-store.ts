import { createHash } from 'node:crypto';

import { RequestError } from '../http/request-error.js';
import type { LoginKey, StoreKind } from './login.js';

/** Keeps one small secret a name. */
export interface SecretStore {
  readonly kind: StoreKind;
  /** @throws RequestError `ASP_STORE_UNAVAILABLE`, `ASP_STORE_LOCKED` — like all of these. */
  get(key: LoginKey): Promise<string | undefined>;
  set(key: LoginKey, secret: string): Promise<void>;
  /** Whether there was one. */
  delete(key: LoginKey): Promise<boolean>;
}

/** The store is not there, does not answer, or is not safe. */
export function storeUnavailable(message: string, cause?: unknown): RequestError {
  return new RequestError({ code: 'ASP_STORE_UNAVAILABLE', message, isRetryable: false, cause });
}

/** The store is there but closed. */
export function storeLocked(message: string, cause?: unknown): RequestError {
  return new RequestError({ code: 'ASP_STORE_LOCKED', message, isRetryable: false, cause });
}

/** The file name of a login: the same for every process, and no part of it readable. */
export function nameOf(key: LoginKey): string {
  return digest(`${key.baseUrl}\n${key.handle ?? ''}`);
}

/** The beginning of a SHA-256 in hex: tells two texts apart without telling either. */
export function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32);
}
