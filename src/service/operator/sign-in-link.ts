import { isLoopbackHost } from '../../kit/loopback.js';
import { splitHandle } from '../../wire/handle.js';
import type { CreateSignInLinkRequest, SignInLink } from '../../wire/local-service.js';
import type { SignInLinks } from '../authorization-server/account/sign-in-links.js';
import { PATH } from '../authorization-server/metadata.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AccountRow, findAccountByUsername } from '../store/account-rows.js';
import { listLocalAccounts } from '../store/operator-rows.js';
import type { LocalAgent } from './local-agent.js';

const NAMES_MAX = 20;

export interface SignInLinkParts {
  readonly links: SignInLinks;
  /** Whoever is named first is meant when nobody says whom. */
  readonly seeds: readonly LocalAgent[];
}

/** Whether a browser of this machine reaches the pages directly, so that nobody else can be mistaken for it. */
export function servesPagesHere({ addresses, isBehindProxy }: ServiceContext['settings']): boolean {
  return !isBehindProxy && isLoopbackHost(new URL(addresses.webUrl).hostname);
}

/** A link that signs a browser of this machine in as a local account, once. */
export async function createSignInLink(
  context: ServiceContext,
  { links, seeds }: SignInLinkParts,
  { account: named }: CreateSignInLinkRequest,
): Promise<SignInLink> {
  const { addresses } = context.settings;
  if (!servesPagesHere(context.settings))
    throw new ServiceError(
      'VALIDATION_ERROR',
      'Its pages are reached through another address. Give the account a password with asp serve account reset-password, and sign in there.',
    );
  const account = await context.database.read(async (query) => {
    const known = await listLocalAccounts(query, NAMES_MAX);
    const [seed] = seeds;
    const name =
      named ?? (known.length > 1 && seed !== undefined ? splitHandle(seed.handle).owner : known[0]?.username);
    const chosen = name === undefined ? undefined : await findAccountByUsername(query, name);
    if (named === undefined && known.length > 1 && seed === undefined) throw undecided(known);
    if (chosen?.is_local !== 1) throw unknown(named, known);
    return chosen;
  });
  const { secret, expiresAt } = links.make(account.id);
  return {
    url: `${addresses.webUrl}${PATH.signInLink}?once=${secret}`,
    account: account.username,
    expires_at: expiresAt,
  };
}

function undecided(known: readonly AccountRow[]): ServiceError {
  return new ServiceError('VALIDATION_ERROR', `There are several accounts, so say which: ${namesOf(known)}.`);
}

function unknown(named: string | undefined, known: readonly AccountRow[]): ServiceError {
  const missing = named === undefined ? 'There is no local account' : `There is no local account ${named}`;
  const others = known.length === 0 ? 'one is made with its first agent' : `there are ${namesOf(known)}`;
  return new ServiceError('VALIDATION_ERROR', `${missing}; ${others}.`);
}

const namesOf = (known: readonly AccountRow[]): string => known.map(({ username }) => username).join(', ');
