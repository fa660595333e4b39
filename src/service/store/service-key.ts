import { createHmac, timingSafeEqual } from 'node:crypto';

import type { Query } from './database.js';

/** What each derived key is for: a seal made for one purpose means nothing for another. */
export type KeyPurpose = 'download' | 'hidden-agent' | 'bells' | 'attachments';

/** HMAC-SHA-256 of `text` under the service's own secret. */
export async function seal(query: Query, purpose: KeyPurpose, text: string): Promise<Buffer> {
  const row = await query.get<{ secret: string }>('SELECT secret FROM service_key');
  if (row === undefined) throw new Error('The data holds no service key.');
  const key = createHmac('sha256', Buffer.from(row.secret, 'base64url')).update(purpose).digest();
  return createHmac('sha256', key).update(text).digest();
}

/** Whether `given`, base64url as a caller sent it, is `expected`; in a time that does not tell how much of it is. */
export function isSeal(given: string, expected: Buffer): boolean {
  const bytes = Buffer.from(given, 'base64url');
  return bytes.length === expected.length && timingSafeEqual(bytes, expected) && bytes.toString('base64url') === given;
}
