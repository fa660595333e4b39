import { seal, unseal } from '../../kit/seal.js';
import { OperatorError } from '../core/errors.js';
import { SEALED_PREFIX } from '../store/keys.js';

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
    close: (kid, text) => (current === undefined ? text : sealKey(current, kid, text)),
    open(kid, stored) {
      if (!stored.startsWith(SEALED_PREFIX)) return stored;
      for (const secret of secrets) {
        const text = unsealKey(secret, kid, stored);
        if (text !== undefined) return text;
      }
      throw unusable(
        current === undefined
          ? 'The signing keys in this database are sealed, and the service has no key file.'
          : 'The signing keys in this database are sealed with a key that is not in the key file.',
      );
    },
    isOutdated: (kid, stored) => current !== undefined && unsealKey(current, kid, stored) === undefined,
  };
}

const unusable = (what: string): OperatorError =>
  new OperatorError(
    'KEYS_NOT_USABLE',
    `${what} Start it with the --key-file that sealed them. If that file is lost, delete all rows of the table ` +
      'signing_key: the service then makes a new key, and only access tokens from before stop working.',
  );

const nameOf = (kid: string): string => `asp signing key ${kid}`;

function sealKey(secret: Buffer, kid: string, text: string): string {
  return SEALED_PREFIX + seal(secret, nameOf(kid), text).toString('base64url');
}

/** Undefined: it was not sealed with this secret for this key. */
function unsealKey(secret: Buffer, kid: string, stored: string): string | undefined {
  if (!stored.startsWith(SEALED_PREFIX)) return undefined;
  try {
    return unseal(secret, nameOf(kid), Buffer.from(stored.slice(SEALED_PREFIX.length), 'base64url'));
  } catch {
    return undefined;
  }
}
