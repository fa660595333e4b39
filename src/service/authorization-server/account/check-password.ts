import type { FastifyRequest } from 'fastify';

import { type AccountRow, findAccountByUsername } from '../../store/account-rows.js';
import { listSignInAddresses } from '../../store/account-session-rows.js';
import { type Attempts, UNCOUNTED } from '../attempts.js';
import { networkOf, widerNetworkOf } from '../network-of.js';
import { hashSecret } from '../secret.js';
import type { AuthorizationServer } from '../server.js';
import { isPasswordOf } from './password.js';

/** What somebody gave as the password of an account. */
export type PasswordCheck =
  | { readonly kind: 'right'; readonly account: AccountRow }
  | { readonly kind: 'wrong' }
  /** It was not looked at: there were too many attempts. */
  | { readonly kind: 'refused'; readonly waitS: number };

/**
 * Every page that asks for a password asks here, so that attempts on one count on all. An unknown account and a wrong
 * password have one answer, and take as long.
 */
export async function checkPassword(
  server: AuthorizationServer,
  { ip }: FastifyRequest,
  { username, password }: { readonly username: string; readonly password: string },
): Promise<PasswordCheck> {
  const network = networkOf(ip);
  const wider = widerNetworkOf(ip) ?? '';
  // Whatever is typed as a username takes no more room than this.
  const name = hashSecret(username);
  const subject = hashSecret(`${username} ${network}`);
  const { account, addresses } = await server.context.database.read(async (query) => {
    const found = await findAccountByUsername(query, username);
    return { account: found, addresses: await listSignInAddresses(query, found?.id ?? '') };
  });
  const isKnown = server.rightSignIns.has(subject) || addresses.some((address) => networkOf(address) === network);
  const attempts: (readonly [Attempts, string])[] = [
    [server.signInsOfAccount, subject],
    [server.signInsOfAddress, network],
    [wider === '' ? UNCOUNTED : server.signInsOfWiderNetwork, wider],
    // Whoever guesses from everywhere does not lock out the owner at home.
    [isKnown ? UNCOUNTED : server.signInsOfStrangers, name],
  ];
  const waitS = Math.max(...attempts.map(([counted, of]) => counted.waitS(of)));
  const fail = (outcome: string): void => {
    server.context.meter.signInFailed();
    // What was typed may be a password: only the name of an account is told.
    const named = account === undefined ? {} : { account: username };
    server.context.log.security?.('sign_in_failed', { ...named, address: ip, outcome });
  };
  if (waitS > 0) {
    fail('too_many');
    return { kind: 'refused', waitS };
  }
  for (const [counted, of] of attempts) counted.add(of);
  const isRight = await isPasswordOf(account?.password_hash, password);
  if (account === undefined || !isRight) {
    fail(account === undefined ? 'no_such_account' : 'wrong_password');
    return { kind: 'wrong' };
  }
  server.signInsOfAccount.forget(subject);
  server.rightSignIns.add(subject);
  return { kind: 'right', account };
}
