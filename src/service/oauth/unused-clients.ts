import type { Transaction } from '../core/database.js';
import { deleteUnusedOAuthClients, findUnusedOAuthClientAfter } from '../store/oauth-clients.js';
import { tooManyRequests } from './attempts.js';

/** A client that no one approved is deleted then. */
export const UNUSED_CLIENT_KEPT_MS = 30 * 24 * 60 * 60 * 1000;
/**
 * From all addresses together, registered or described by a document: a limit for each address does not bound those who
 * have many.
 */
const UNUSED_CLIENTS_MAX = 10_000;
/** A person has at least this long to approve a new client. */
const UNUSED_CLIENT_SAFE_MS = 60 * 60 * 1000;
const ROOM = 100;

/**
 * Deletes the oldest clients that no one approved, if there are too many. One that is younger than an hour stays: a
 * flood of registrations is refused, but does not push out a client that a person is about to approve.
 */
export async function makeRoom(transaction: Transaction, now: number): Promise<void> {
  const oldestAt = await findUnusedOAuthClientAfter(transaction, UNUSED_CLIENTS_MAX - 1, now - UNUSED_CLIENT_KEPT_MS);
  if (oldestAt === undefined) return;
  const deleted = await deleteUnusedOAuthClients(transaction, now - UNUSED_CLIENT_SAFE_MS, ROOM);
  if (deleted === 0) throw tooManyRequests(Math.max(60, Math.ceil((oldestAt + UNUSED_CLIENT_SAFE_MS - now) / 1000)));
}
