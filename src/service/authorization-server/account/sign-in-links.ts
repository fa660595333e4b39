import { randomToken } from '../../../kit/random.js';
import type { ServiceContext } from '../../context.js';
import { hashSecret } from '../secret.js';

const LIFETIME_MS = 60_000;
const SECRET_BYTES = 32;
/** More than anybody opens in a minute. */
const LINKS_MAX = 100;

/** Links that sign a browser in once, each for a minute. They live in this process alone, as the operator's secret does. */
export interface SignInLinks {
  make(accountId: string): { readonly secret: string; readonly expiresAt: number };
  /** Whom the link signs in; from now on nobody. */
  take(secret: string): string | undefined;
}

export function createSignInLinks({ clock, random }: Pick<ServiceContext, 'clock' | 'random'>): SignInLinks {
  const links = new Map<string, { readonly accountId: string; readonly expiresAt: number }>();
  const forgetOld = (): void => {
    for (const [hash, { expiresAt }] of links)
      if (expiresAt <= clock.now() || links.size > LINKS_MAX) links.delete(hash);
  };
  return {
    make(accountId) {
      const secret = randomToken(random, SECRET_BYTES);
      const expiresAt = clock.now() + LIFETIME_MS;
      links.set(hashSecret(secret), { accountId, expiresAt });
      forgetOld();
      return { secret, expiresAt };
    },
    take(secret) {
      forgetOld();
      const hash = hashSecret(secret);
      const link = links.get(hash);
      links.delete(hash);
      return link?.accountId;
    },
  };
}
