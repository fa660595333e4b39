import { createCipheriv, createDecipheriv, randomBytes } from 'node:crypto';
import { OperatorError } from '../core/errors.js';
import { SEALED_PREFIX } from '../store/keys.js';

const CIPHER = 'aes-256-gcm';
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** Keeps the private signing keys in the database unreadable for anyone who has only the database. */
export interface KeySeal {
  /** `kid` is bound to the text: under the id of another key it does not open. */
  close(kid: string, text: string): string;
  /** The text of a key that was stored sealed or in the clear. Throws `KEYS_NOT_USABLE`. */
  open(kid: string, stored: string): string;
  /** Whether it is not stored as it would be now: in the clear, or sealed with an earlier key. */
  isOutdated(kid: string, stored: string): boolean;
}

/** Seals with the first of `secrets`, and opens with any. Without one, keys are stored in the clear. */
export function createKeySeal(secrets: readonly Buffer[]): KeySeal {
  const [current] = secrets;
  return {
    close: (kid, text) => (current === undefined ? text : seal(current, kid, text)),
    open(kid, stored) {
      if (!stored.startsWith(SEALED_PREFIX)) return stored;
      for (const secret of secrets) {
        const text = unseal(secret, kid, stored);
        if (text !== undefined) return text;
      }
      throw unusable(
        current === undefined
          ? 'The signing keys in this database are sealed, and the service has no key file.'
          : 'The signing keys in this database are sealed with a key that is not in the key file.',
      );
    },
    isOutdated: (kid, stored) => current !== undefined && unseal(current, kid, stored) === undefined,
  };
}

const unusable = (what: string): OperatorError =>
  new OperatorError(
    'KEYS_NOT_USABLE',
    `${what} Start it with the --key-file that sealed them. If that file is lost, delete all rows of the table ` +
      'signing_key: the service then makes a new key, and only access tokens from before stop working.',
  );

const boundTo = (kid: string): Buffer => Buffer.from(`asp signing key ${kid}`);

function seal(secret: Buffer, kid: string, text: string): string {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv(CIPHER, secret, nonce).setAAD(boundTo(kid));
  const sealed = Buffer.concat([cipher.update(text, 'utf8'), cipher.final()]);
  return SEALED_PREFIX + Buffer.concat([nonce, cipher.getAuthTag(), sealed]).toString('base64url');
}

/** Undefined: it was not sealed with this secret for this key. */
function unseal(secret: Buffer, kid: string, stored: string): string | undefined {
  if (!stored.startsWith(SEALED_PREFIX)) return undefined;
  const bytes = Buffer.from(stored.slice(SEALED_PREFIX.length), 'base64url');
  if (bytes.length < NONCE_BYTES + TAG_BYTES) return undefined;
  const tag = bytes.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES);
  const decipher = createDecipheriv(CIPHER, secret, bytes.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES });
  decipher.setAAD(boundTo(kid)).setAuthTag(tag);
  try {
    return Buffer.concat([decipher.update(bytes.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]).toString('utf8');
  } catch {
    return undefined;
  }
}
