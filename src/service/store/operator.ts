import type { InboundPolicy } from '../../wire/schemas/agent.js';
import type { Dialect, Query, Transaction } from '../core/database.js';
import type { AccountRow, EntryLinkRow } from './accounts.js';
import type { OAuthClientRow } from './oauth-clients.js';
import type { ProcessRow } from './processes.js';
import { LAST_CHARACTER } from './search.js';
import { insertRow } from './sql.js';

export interface ServiceCounts {
  readonly accounts: number;
  readonly agents: number;
  readonly sessions: number;
  readonly sockets: number;
}

export async function countAll(query: Query): Promise<ServiceCounts> {
  const row = await query.get<ServiceCounts>(
    `SELECT (SELECT COUNT(*) FROM account WHERE removed_at IS NULL) AS accounts,
       (SELECT COUNT(*) FROM agent WHERE removed_at IS NULL) AS agents,
       (SELECT COUNT(*) FROM session) AS sessions,
       (SELECT COUNT(*) FROM socket) AS sockets`,
  );
  return row ?? { accounts: 0, agents: 0, sessions: 0, sockets: 0 };
}

/** Ended sessions in which nothing has happened for some time. */
export interface OldSessions {
  readonly sessions: number;
  readonly events: number;
  readonly attachments: number;
  readonly attachment_bytes: number;
  /** When the first of them ended; null: there are none. */
  readonly oldest_ended_at: number | null;
}

/** Those with no event after `before`. */
export async function countOldSessions(query: Query, before: number): Promise<OldSessions> {
  const old = `SELECT session.id, session.ended_at, session.last_sequence FROM session
    JOIN event ON event.session_id = session.id AND event.sequence = session.last_sequence
    WHERE session.state = 'ended' AND session.ended_at <= $1 AND event.created_at <= $1`;
  const row = await query.get<OldSessions>(
    `SELECT CAST(COUNT(*) AS BIGINT) AS sessions, CAST(COALESCE(SUM(last_sequence), 0) AS BIGINT) AS events,
       MIN(ended_at) AS oldest_ended_at,
       (SELECT CAST(COUNT(*) AS BIGINT) FROM (${old}) AS its JOIN attachment ON attachment.session_id = its.id) AS attachments,
       (SELECT CAST(COALESCE(SUM(attachment.size), 0) AS BIGINT)
        FROM (${old}) AS its JOIN attachment ON attachment.session_id = its.id) AS attachment_bytes
     FROM (${old}) AS old`,
    before,
  );
  return row ?? { sessions: 0, events: 0, attachments: 0, attachment_bytes: 0, oldest_ended_at: null };
}

/** The size of all attachments, including those of removed accounts, which stay with their messages. */
export async function sumAttachmentBytes(query: Query): Promise<number> {
  const row = await query.get<{ bytes: number }>(
    'SELECT CAST(COALESCE(SUM(attachment_bytes), 0) AS BIGINT) AS bytes FROM account',
  );
  return row?.bytes ?? 0;
}

/** A process that uses this data, and how many sockets it has. */
export interface ProcessUsageRow extends ProcessRow {
  readonly sockets: number;
}

/** Processes that have not stopped, oldest first. */
export function listProcesses(query: Query, limit: number): Promise<ProcessUsageRow[]> {
  return query.all<ProcessUsageRow>(
    `SELECT id, seen_at,
       (SELECT COUNT(*) FROM socket WHERE socket.process_id = server_process.id) AS sockets
     FROM server_process WHERE seen_at <> 0 ORDER BY id LIMIT $1`,
    limit,
  );
}

/** The version of the schema; the cheapest proof that the database responds. */
export async function findSchemaVersion(query: Query): Promise<number> {
  const row = await query.get<{ version: number | null }>('SELECT MAX(version) AS version FROM schema_version');
  return row?.version ?? 0;
}

const SIZE: Readonly<Record<Dialect, string>> = {
  sqlite: 'SELECT page_count * page_size AS bytes FROM pragma_page_count(), pragma_page_size()',
  postgres: 'SELECT pg_database_size(current_database()) AS bytes',
};

/** The size of the database in bytes, including reserved space. */
export async function measureDatabase(query: Query): Promise<number | undefined> {
  const row = await query.get<{ bytes: number }>(SIZE[query.dialect]);
  return row?.bytes;
}

/** Events that background work has not reached yet. */
export interface Backlog {
  /** Counted up to 10,000. */
  readonly events: number;
  /** When the oldest of them happened; undefined: there are none. */
  readonly oldestAt: number | undefined;
}

/** What only the database knows, for the metrics. */
export interface DatabaseMeasures {
  readonly bytes: number | undefined;
  readonly inboxBacklog: Backlog;
  /** Undefined: messages are not indexed. */
  readonly searchBacklog: Backlog | undefined;
  /** When the key that signs tokens now was made. */
  readonly signingKeyCreatedAt: number | undefined;
}

const BACKLOG_MAX = 10_000;

/** The first events that are not in the inboxes, or not in the word index. */
const BEHIND: Readonly<Record<Dialect, Readonly<Record<'inbox' | 'search', string>>>> = {
  sqlite: {
    inbox: 'SELECT position FROM event WHERE position > (SELECT spread_position FROM inbox_progress)',
    search: 'SELECT position FROM event WHERE position > (SELECT indexed_position FROM search_progress)',
  },
  postgres: { inbox: 'SELECT position FROM inbox_queue', search: 'SELECT position FROM search_queue' },
};

export async function readMeasures(query: Query, now: number, isSearchOn: boolean): Promise<DatabaseMeasures> {
  const key = await query.get<{ created_at: number }>(
    'SELECT created_at FROM signing_key WHERE signs_from <= $1 ORDER BY signs_from DESC, kid DESC LIMIT 1',
    now,
  );
  return {
    bytes: await measureDatabase(query),
    inboxBacklog: await measureBacklog(query, BEHIND[query.dialect].inbox),
    searchBacklog: isSearchOn ? await measureBacklog(query, BEHIND[query.dialect].search) : undefined,
    signingKeyCreatedAt: key?.created_at,
  };
}

async function measureBacklog(query: Query, behind: string): Promise<Backlog> {
  const row = await query.get<{ events: number; first: number | null }>(
    `SELECT COUNT(*) AS events, MIN(position) AS first FROM (${behind} ORDER BY position LIMIT ${BACKLOG_MAX}) AS behind`,
  );
  if (row === undefined || row.first === null) return { events: 0, oldestAt: undefined };
  const oldest = await query.get<{ created_at: number }>('SELECT created_at FROM event WHERE position = $1', row.first);
  return { events: row.events, oldestAt: oldest?.created_at };
}

/** Accounts that no person signed up for, by name. */
export function listLocalAccounts(query: Query, limit: number): Promise<AccountRow[]> {
  return query.all<AccountRow>(
    'SELECT * FROM account WHERE is_local = 1 AND removed_at IS NULL ORDER BY username LIMIT $1',
    limit,
  );
}

export interface OperatorAgentRow {
  readonly handle: string;
  readonly inbound_policy: InboundPolicy;
  readonly is_paused: number;
  readonly is_online: number;
  readonly created_at: number;
}

/** The next `limit` agents of all accounts, by handle. */
export function listAllAgents(query: Query, afterHandle: string, limit: number): Promise<OperatorAgentRow[]> {
  return query.all<OperatorAgentRow>(
    `SELECT handle, inbound_policy, is_paused, created_at,
       CASE WHEN EXISTS (SELECT 1 FROM socket WHERE socket.agent_id = agent.id) THEN 1 ELSE 0 END AS is_online
     FROM agent WHERE removed_at IS NULL AND handle > $1 ORDER BY handle LIMIT $2`,
    afterHandle,
    limit,
  );
}

/** An account with its usage. */
export interface OperatorAccountRow extends AccountRow {
  readonly agents: number;
  readonly clients: number;
}

const ACCOUNT = `SELECT account.*,
    (SELECT COUNT(*) FROM agent WHERE agent.account_id = account.id AND agent.removed_at IS NULL) AS agents,
    (SELECT COUNT(*) FROM oauth_client WHERE oauth_client.account_id = account.id AND oauth_client.revoked_at IS NULL) AS clients
  FROM account`;

/** The next `limit` whose names begin with `prefix`, by name. */
export function listAccountsByName(
  query: Query,
  prefix: string,
  afterName: string,
  limit: number,
): Promise<OperatorAccountRow[]> {
  return query.all<OperatorAccountRow>(
    `${ACCOUNT} WHERE username >= $1 AND username < $2 AND username > $3 AND removed_at IS NULL
     ORDER BY username LIMIT $4`,
    prefix,
    prefix + LAST_CHARACTER,
    afterName,
    limit,
  );
}

export function findOperatorAccount(query: Query, username: string): Promise<OperatorAccountRow | undefined> {
  return query.get<OperatorAccountRow>(`${ACCOUNT} WHERE username = $1 AND removed_at IS NULL`, username);
}

/** An invitation with the name of the account that signed up with it. */
export type InvitationRow = EntryLinkRow & { readonly username: string | null };

/** Newest first, those whose id is smaller than `beforeId`. */
export function listInvitations(query: Query, beforeId: string, limit: number): Promise<InvitationRow[]> {
  return query.all<InvitationRow>(
    `SELECT entry_link.*, account.username FROM entry_link LEFT JOIN account ON account.id = entry_link.account_id
     WHERE purpose = 'sign-up' AND entry_link.id < $1 ORDER BY entry_link.id DESC LIMIT $2`,
    beforeId,
    limit,
  );
}

/** The clients with a secret that is still valid, of the agents in this range, by agent; newest first. */
export function listClientsOfAgents(
  query: Query,
  afterHandle: string,
  throughHandle: string,
): Promise<(OAuthClientRow & { readonly handle: string })[]> {
  return query.all(
    `SELECT oauth_client.*, agent.handle AS handle FROM agent JOIN oauth_client ON oauth_client.agent_id = agent.id
     WHERE agent.handle > $1 AND agent.handle <= $2 AND agent.removed_at IS NULL
       AND oauth_client.kind = 'confidential' AND oauth_client.revoked_at IS NULL
     ORDER BY agent.handle, oauth_client.id DESC`,
    afterHandle,
    throughHandle,
  );
}

/** Something that an operator did, or tried to do. */
export interface OperatorActionRow {
  /** In order of time. */
  readonly id: string;
  /** The account of the operator; empty: the command line on the machine of the service. */
  readonly operator_name: string;
  readonly operation: string;
  /** The thing that the action affected; may be empty. */
  readonly target: string;
  /** The fields that it set, as JSON. */
  readonly changes: string;
  /** `done`, or the code of an error; null: it has not finished, or was interrupted. */
  readonly outcome: string | null;
  readonly address: string;
  readonly browser_name: string;
  readonly created_at: number;
}

export async function insertOperatorAction(
  transaction: Transaction,
  row: Omit<OperatorActionRow, 'outcome'>,
): Promise<void> {
  await insertRow(transaction, 'operator_action', row);
}

export async function concludeOperatorAction(
  transaction: Transaction,
  id: string,
  { outcome, changes }: { readonly outcome: string; readonly changes: string },
): Promise<void> {
  await transaction.run('UPDATE operator_action SET outcome = $2, changes = $3 WHERE id = $1', id, outcome, changes);
}

/** The next `limit` before the one with `beforeId`, newest first. */
export function listOperatorActions(query: Query, beforeId: string, limit: number): Promise<OperatorActionRow[]> {
  return query.all<OperatorActionRow>(
    'SELECT * FROM operator_action WHERE id < $1 ORDER BY id DESC LIMIT $2',
    beforeId,
    limit,
  );
}

export function deleteOperatorActionsBefore(transaction: Transaction, epochMs: number): Promise<number> {
  return transaction.run('DELETE FROM operator_action WHERE created_at < $1', epochMs);
}
