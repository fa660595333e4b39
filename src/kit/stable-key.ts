import { createHash } from 'node:crypto';

/** A key in the form of a version 4 UUID that is the same whenever agent, endpoint and name are (RFC 9562 §5.4). */
export function stableKey(handle: string, endpoint: string, name: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([handle, endpoint, name]))
    .digest();
  hash[6] = ((hash[6] ?? 0) & 0x0f) | 0x40;
  hash[8] = ((hash[8] ?? 0) & 0x3f) | 0x80;
  const hex = hash.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20, 32)}`;
}
