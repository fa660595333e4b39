import { existsSync } from 'node:fs';
import { join } from 'node:path';

import type { SqliteConnection, SqliteStatement } from '../../../src/service/store/sqlite-driver.js';
import { field } from '../../support/json.js';
import { type LoggedEvent, SessionLog } from './session-log.js';
import type { World } from './world.js';

interface ParticipantRow {
  readonly session_id: string;
  readonly handle: string;
  readonly status: string;
  readonly left_sequence: number | null;
  readonly position: number;
}

interface SessionRow {
  readonly id: string;
  readonly state: string;
  readonly topic: string | null;
  readonly last_sequence: number;
}

const QUERY = {
  newest: 'SELECT COALESCE(MAX(position), 0) AS newest FROM event',
  sessionCount: 'SELECT COUNT(*) AS count FROM session',
  events: 'SELECT position, session_id, sequence, id, type, payload FROM event WHERE position > ?1 ORDER BY position',
  sessions: 'SELECT id, state, topic, last_sequence FROM session ORDER BY id',
  participants:
    'SELECT session_id, handle, status, left_sequence, position FROM participant ORDER BY session_id, position',
  families: `SELECT family_id, COUNT(*) - COUNT(rotated_at) AS live FROM refresh_token GROUP BY family_id
    HAVING COUNT(*) - COUNT(rotated_at) <> 1`,
  attachments: 'SELECT id, filename, session_id FROM attachment',
  doubleKeys: `SELECT COUNT(*) AS count FROM idempotency_record GROUP BY actor_id, endpoint, key_hash HAVING COUNT(*) > 1`,
  blocked: `SELECT 1 FROM block JOIN agent ON agent.id = block.agent_id
    WHERE (agent.handle = ?1 AND blocked_handle = ?2) OR (agent.handle = ?2 AND blocked_handle = ?1)`,
  token: `SELECT family_id, rotated_at, revoked_at FROM refresh_token JOIN refresh_family ON refresh_family.id = family_id
    WHERE token_hash = ?1`,
} as const;

/** Reads the database over a separate connection after each commit and compares its content with every rule. */
export class Books {
  readonly sessions = new Map<string, SessionLog>();
  /**
   * The sessions by topic, messages by content, and attachments by filename. Each such text belongs to one operation.
   */
  readonly found = new Map<string, string[]>();
  readonly #world: World;
  readonly #directory: string;
  readonly #connection: SqliteConnection;
  readonly #statements: Readonly<Record<keyof typeof QUERY, SqliteStatement>>;
  readonly #eventIds = new Set<string>();
  readonly #claimed = new Set<string>();
  readonly #known = new Set<string>();
  #newest = 0;

  constructor(world: World, directory: string, connection: SqliteConnection) {
    this.#world = world;
    this.#directory = directory;
    this.#connection = connection;
    const names = Object.keys(QUERY) as (keyof typeof QUERY)[];
    this.#statements = Object.fromEntries(names.map((name) => [name, connection.prepare(QUERY[name])])) as Record<
      keyof typeof QUERY,
      SqliteStatement
    >;
  }

  close(): void {
    this.#connection.close();
  }

  #rows<Row>(name: keyof typeof QUERY, ...parameters: (string | number)[]): Row[] {
    return this.#statements[name].all(...parameters) as Row[];
  }

  #violate(what: string): void {
    this.#world.violate(what);
  }

  /** Call this after each commit. */
  readonly compare = (): void => {
    this.#compareSessions();
    this.#compareAttachments();
    for (const { family_id, live } of this.#rows<{ family_id: string; live: number }>('families'))
      this.#violate(`family ${family_id} has ${live} live refresh tokens`);
  };

  #compareSessions(): void {
    const [top] = this.#rows<{ newest: number }>('newest');
    const [count] = this.#rows<{ count: number }>('sessionCount');
    if (top?.newest === this.#newest && count?.count === this.sessions.size) return;
    const participants = this.#rows<ParticipantRow>('participants');
    const rows = this.#rows<SessionRow>('sessions');
    for (const { id, topic } of rows) {
      if (this.sessions.has(id)) continue;
      const creator = participants.find((row) => row.session_id === id && row.position === 0);
      this.sessions.set(id, new SessionLog(creator?.handle ?? ''));
      this.#find(`topic ${topic}`, id);
    }
    const invitations: LoggedEvent[] = [];
    for (const event of this.#rows<LoggedEvent & { position: number }>('events', this.#newest)) {
      this.#newest = event.position;
      this.#take(event);
      if (event.type === 'session.invited') invitations.push(event);
    }
    for (const row of rows) this.#compareSession(row, participants);
    for (const event of invitations) this.#compareInvitation(event);
  }

  #take(event: LoggedEvent): void {
    const log = this.sessions.get(event.session_id);
    if (log === undefined) {
      this.#violate(`an event of no session: ${event.session_id}`);
      return;
    }
    if (this.#eventIds.has(event.id)) this.#violate(`event id ${event.id} is double`);
    this.#eventIds.add(event.id);
    const fault = log.add(event);
    if (fault !== undefined) this.#violate(`${event.session_id} ${event.sequence} ${event.type}: ${fault}`);
    this.#world.trace(
      `logged ${event.payload.slice(0, 110)} ${event.session_id} ${event.sequence} ${event.id} ${event.type}`,
    );
    if (event.type !== 'session.message') return;
    const content = field(JSON.parse(event.payload), 'content');
    const text = typeof content === 'string' ? content : String(field(content, '0.text'));
    this.#find(`content ${text}`, `${event.session_id} ${event.sequence} ${field(JSON.parse(event.payload), 'id')}`);
    const parts: unknown[] = Array.isArray(content) ? content : [];
    for (const part of parts)
      if (typeof field(part, 'attachment_id') === 'string') this.#claimed.add(String(field(part, 'attachment_id')));
  }

  #compareSession({ id, state, last_sequence }: SessionRow, participants: readonly ParticipantRow[]): void {
    const log = this.sessions.get(id);
    if (log === undefined) return;
    if (log.events.length !== last_sequence)
      this.#violate(`${id} has ${log.events.length} events and counts ${last_sequence}`);
    if (log.state !== state) this.#violate(`${id} is ${state}, and its log says ${log.state}`);
    const rows = participants.filter((row) => row.session_id === id);
    if (rows.length !== log.parts.size)
      this.#violate(`${id} has ${rows.length} participants, its log ${log.parts.size}`);
    for (const { handle, status, left_sequence } of rows) {
      const part = log.parts.get(handle);
      const isRight = part?.status === status && (status !== 'left' || part.leftAt === left_sequence);
      if (!isRight)
        this.#violate(`${handle} is ${status} ${left_sequence} in ${id}, its log says ${part?.status} ${part?.leftAt}`);
    }
  }

  /** No agent takes part in an active session because of an invitation across a block. */
  #compareInvitation(event: LoggedEvent): void {
    const payload: unknown = JSON.parse(event.payload);
    const [invitee, by] = [String(field(payload, 'invitee')), String(field(payload, 'by'))];
    const log = this.sessions.get(event.session_id);
    if (log?.state !== 'active' || log.parts.get(invitee)?.status === 'left' || log.parts.get(by)?.status === 'left')
      return;
    if (this.#rows('blocked', invitee, by).length > 0) this.#violate(`${by} invited ${invitee} across a block`);
  }

  #compareAttachments(): void {
    const rows = this.#rows<{ id: string; filename: string; session_id: string | null }>('attachments');
    const bySession = new Map(rows.map((row) => [row.id, row.session_id]));
    for (const { id, filename } of rows) {
      if (this.#known.has(id)) continue;
      this.#known.add(id);
      this.#find(`file ${filename}`, id);
      if (!this.hasFile(id)) this.#violate(`attachment ${id} has no file`);
    }
    for (const id of this.#claimed)
      if (typeof bySession.get(id) !== 'string') this.#violate(`a message refers to ${id}, which is not its own`);
    this.compareFiles();
  }

  /** Call this also after each removal of a file. */
  compareFiles(): void {
    for (const id of this.#claimed)
      if (!this.hasFile(id)) this.#violate(`a message refers to ${id}, which has no file`);
  }

  /**
   * Looks in the trash too: if an hour passes during an upload, another process moves the file, which comes back on
   * request.
   */
  hasFile(id: string): boolean {
    const folder = join(this.#directory, 'attachments');
    return [folder, join(folder, 'trash')].some((path) => existsSync(join(path, id)));
  }

  attachmentIds(): string[] {
    return this.#rows<{ id: string }>('attachments').map(({ id }) => id);
  }

  #find(what: string, where: string): void {
    const places = [...(this.found.get(what) ?? []), where];
    this.found.set(what, places);
    if (places.length > 1) this.#violate(`${what} had effect ${places.length} times: ${places.join(', ')}`);
  }

  /** Returns a refresh token's family and state. */
  tokenOf(hash: string): { family: string; isLive: boolean; isRevoked: boolean } | undefined {
    const [row] = this.#rows<{ family_id: string; rotated_at: number | null; revoked_at: number | null }>(
      'token',
      hash,
    );
    if (row === undefined) return undefined;
    const isRevoked = row.revoked_at !== null;
    return { family: row.family_id, isLive: row.rotated_at === null && !isRevoked, isRevoked };
  }

  assertKeysUnique(): void {
    if (this.#rows('doubleKeys').length > 0) this.#violate('an idempotency key has two records');
  }
}
