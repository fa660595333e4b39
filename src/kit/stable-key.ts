import { createHash } from 'node:crypto';
import { toUuid } from './random.js';

/** A key in the form of a UUID that is the same whenever agent, endpoint and name are. */
export function stableKey(handle: string, endpoint: string, name: string): string {
  return toUuid(
    createHash('sha256')
      .update(JSON.stringify([handle, endpoint, name]))
      .digest(),
  );
}
