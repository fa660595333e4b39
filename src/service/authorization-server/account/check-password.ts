import type { FastifyRequest } from 'fastify';

import { type AccountRow, findAccountByUsername } from '../../store/account-rows.js';
import { networkOf } from '../network-of.js';
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
  { context, signInsOfAccount, signInsOfAddress }: AuthorizationServer,
  { ip }: FastifyRequest,
  { username, password }: { readonly username: string; readonly password: string },
): Promise<PasswordCheck> {
  const network = networkOf(ip);
  // Whatever is typed as a username takes no more room than this.
  const subject = hashSecret(`${username} ${network}`);
  const waitS = Math.max(signInsOfAccount.waitS(subject), signInsOfAddress.waitS(network));
  if (waitS > 0) return { kind: 'refused', waitS };
  signInsOfAccount.add(subject);
  signInsOfAddress.add(network);
  const account = await context.database.read((query) => findAccountByUsername(query, username));
  const isRight = await isPasswordOf(account?.password_hash, password);
  if (account === undefined || !isRight) return { kind: 'wrong' };
  signInsOfAccount.forget(subject);
  return { kind: 'right', account };
}
