import { createHash, timingSafeEqual } from 'node:crypto';

/** Whether both are the same, in constant time. */
export function isSameSecret(received: string, expected: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(received), digest(expected));
}
