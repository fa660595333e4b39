import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/**
 * A text that only this key opens, and only under this name: a nonce, the tag, the encrypted text. The key has 32 bytes.
 */
export function seal(key: Buffer, name: string, text: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(Buffer.from(name));
  const data = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return Buffer.concat([nonce, cipher.getAuthTag(), data]);
}

/** The text. Throws if it was sealed with another key or under another name, or was changed since. */
export function unseal(key: Buffer, name: string, sealed: Buffer): string {
  const { nonce, tag, data } = splitSealed(sealed);
  // Without the length, the first four bytes of a tag would do, and those can be guessed.
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAAD(Buffer.from(name)).setAuthTag(tag);
  return Buffer.concat([decipher.update(data), decipher.final()]).toString('utf8');
}

/** For a format that stores its parts apart. */
export function splitSealed(sealed: Buffer) {
  return {
    nonce: sealed.subarray(0, NONCE_BYTES),
    tag: sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES),
    data: sealed.subarray(NONCE_BYTES + TAG_BYTES),
  };
}
