import type { FastifyReply } from 'fastify';

import type { AccountRow } from '../../store/account-rows.js';
import { deleteAccountSession, insertAccountSession } from '../../store/account-session-rows.js';
import { rebindAuthorizationRequests } from '../../store/authorization-rows.js';
import { ACCOUNT_SESSION_LIFETIME_MS, type Browser, type PageServer, renewBrowser } from './browser.js';
import { browserNameOf } from './browser-name.js';

/** Signs an account in. A new secret for the browser: one that was known before the sign-in is worth nothing after it. */
export async function enterAs(
  server: PageServer,
  reply: FastifyReply,
  before: Browser | undefined,
  account: AccountRow,
): Promise<void> {
  const { clock, database, log } = server.context;
  const { ip, headers } = reply.request;
  const now = clock.now();
  const browser = renewBrowser(server, reply, ACCOUNT_SESSION_LIFETIME_MS);
  await database.write(async (transaction) => {
    if (before !== undefined) {
      await deleteAccountSession(transaction, before.hash);
      await rebindAuthorizationRequests(transaction, before.hash, browser.hash);
    }
    await insertAccountSession(transaction, {
      id_hash: browser.hash,
      account_id: account.id,
      address: ip.replace(/^::ffff:(?=\d+\.)/, ''),
      browser_name: browserNameOf(headers['user-agent']),
      created_at: now,
      expires_at: now + ACCOUNT_SESSION_LIFETIME_MS,
    });
  });
  log.security?.('signed_in', { account: account.username, address: ip, outcome: 'done' });
}
