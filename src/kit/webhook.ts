import { createHmac, randomBytes } from 'node:crypto';

/** 24 to 64 bytes in base64 (Standard Webhooks 1.0). */
const SECRET = /^(?:whsec_)?([A-Za-z0-9+/]{32,86}={0,2})$/;
const KEY_MIN_BYTES = 24;
const KEY_MAX_BYTES = 64;
const NEW_KEY_BYTES = 32;

/** The key in the secret of a webhook; undefined if it is not one. */
export function readWebhookSecret(secret: string): Buffer | undefined {
  const [, base64 = ''] = SECRET.exec(secret) ?? [];
  const key = Buffer.from(base64, 'base64');
  return key.byteLength >= KEY_MIN_BYTES && key.byteLength <= KEY_MAX_BYTES ? key : undefined;
}

/** A new secret of random bytes. */
export function newWebhookSecret(): string {
  return toWebhookSecret(randomBytes(NEW_KEY_BYTES));
}

/** The secret made of these random bytes, in the notation that libraries for Standard Webhooks expect. */
export function toWebhookSecret(key: Buffer): string {
  return `whsec_${key.toString('base64')}`;
}

/**
 * The headers of Standard Webhooks 1.0, so that its libraries can verify the request. `timestamp` is in seconds since
 * the epoch.
 */
export function signWebhook(key: Buffer, id: string, timestamp: number, body: string) {
  const signature = createHmac('sha256', key).update(`${id}.${timestamp}.${body}`).digest('base64');
  return {
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': `v1,${signature}`,
  };
}
