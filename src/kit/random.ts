import { createHash, randomBytes } from 'node:crypto';

/** Randomness, injected so that tests control it. */
export interface Random {
  /** `count` unpredictable bytes. */
  bytes(count: number): Uint8Array;
  /** A number from 0 up to but not including 1, for jitter; never use it for a secret. */
  fraction(): number;
}

const RESERVE_BYTES = 2_048;
/** A larger share would use up the reserve. */
const SHARE_MAX_BYTES = 64;
let reserve: Uint8Array = new Uint8Array(0);
let usedBytes = 0;

/** A few bytes of a reserve: asking the machine each time costs more than many bytes at once. */
function takeReserved(count: number): Uint8Array {
  if (usedBytes + count > reserve.length) {
    reserve = randomBytes(RESERVE_BYTES);
    usedBytes = 0;
  }
  const start = usedBytes;
  usedBytes += count;
  const bytes = new Uint8Array(reserve.subarray(start, usedBytes));
  reserve.fill(0, start, usedBytes);
  return bytes;
}

/** The machine's own source of randomness. */
export const systemRandom: Random = {
  bytes: (count) => (count <= SHARE_MAX_BYTES ? takeReserved(count) : randomBytes(count)),
  fraction: () => Math.random(),
};

/** `count` unpredictable bytes in base64url: 4 characters for every 3 bytes. */
export function randomToken(random: Random, count: number): string {
  return Buffer.from(random.bytes(count)).toString('base64url');
}

/** A version 4 UUID (RFC 9562 §5.4). */
export function randomUuid(random: Random): string {
  return toUuid(random.bytes(16));
}

/** The first 16 bytes in the form of a version 4 UUID (RFC 9562 §5.4). */
function toUuid(bytes: Uint8Array): string {
  const marked = Buffer.from(bytes.subarray(0, 16));
  marked[6] = ((marked[6] ?? 0) & 0x0f) | 0x40;
  marked[8] = ((marked[8] ?? 0) & 0x3f) | 0x80;
  const hex = marked.toString('hex');
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/** A key in the form of a UUID that is the same whenever agent, endpoint and name are. */
export function stableKey(handle: string, endpoint: string, name: string): string {
  return toUuid(
    createHash('sha256')
      .update(JSON.stringify([handle, endpoint, name]))
      .digest(),
  );
}
