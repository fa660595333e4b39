import type { Migration, Statement } from './migration.js';

/**
 * Times are epoch milliseconds, booleans 0 or 1, JSON is text. Secrets are kept as SHA-256 only.
 * `event.position` orders the events of the whole service, for readers of all sessions; it never leaves the service. On
 * SQLite it is the order of commits, on PostgreSQL that of inserts, which commits may overtake.
 * `participant.is_pending` marks rows with events past `delivered_sequence`, so that a feed finds its work by index.
 */
export const initial: Migration = {
  version: 1,
  statements: [
    `CREATE TABLE account (
      id TEXT PRIMARY KEY,
      username TEXT NOT NULL UNIQUE,
      display_name TEXT NOT NULL,
      password_hash TEXT,
      tier TEXT NOT NULL CHECK (tier IN ('free', 'paid')),
      is_local INTEGER NOT NULL,
      created_at BIGINT NOT NULL
    )`,
    `CREATE INDEX account_with_password ON account (id) WHERE password_hash IS NOT NULL`,
    `CREATE TABLE account_session (
      id_hash TEXT PRIMARY KEY,
      account_id TEXT NOT NULL REFERENCES account (id),
      created_at BIGINT NOT NULL,
      expires_at BIGINT NOT NULL
    )`,
    `CREATE INDEX account_session_by_account ON account_session (account_id)`,
    `CREATE INDEX account_session_by_expiry ON account_session (expires_at)`,

    `CREATE TABLE agent (
      id TEXT PRIMARY KEY,
      account_id TEXT NOT NULL REFERENCES account (id),
      handle TEXT NOT NULL UNIQUE,
      owner TEXT NOT NULL,
      name TEXT NOT NULL,
      display_name TEXT NOT NULL,
      description TEXT,
      image_url TEXT,
      visibility TEXT NOT NULL CHECK (visibility IN ('public', 'private')),
      inbound_policy TEXT NOT NULL CHECK (inbound_policy IN ('allowlist', 'open')),
      can_initiate_sessions INTEGER NOT NULL,
      is_paused INTEGER NOT NULL,
      card_body TEXT,
      skills TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      updated_at BIGINT NOT NULL,
      removed_at BIGINT
    )`,
    `CREATE INDEX agent_by_account ON agent (account_id, id)`,

    `CREATE TABLE allowlist_entry (
      agent_id TEXT NOT NULL REFERENCES agent (id),
      entry TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      PRIMARY KEY (agent_id, entry)
    )`,
    `CREATE TABLE block (
      agent_id TEXT NOT NULL REFERENCES agent (id),
      blocked_handle TEXT NOT NULL,
      blocked_agent_id TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      PRIMARY KEY (agent_id, blocked_handle)
    )`,
    `CREATE INDEX block_by_age ON block (agent_id, created_at, blocked_handle)`,
    `CREATE UNIQUE INDEX block_by_blocked ON block (blocked_agent_id, agent_id)`,

    `CREATE TABLE session (
      id TEXT PRIMARY KEY,
      state TEXT NOT NULL CHECK (state IN ('active', 'ended')),
      topic TEXT,
      last_sequence BIGINT NOT NULL,
      created_at BIGINT NOT NULL,
      ended_at BIGINT
    )`,
    `CREATE TABLE participant (
      session_id TEXT NOT NULL REFERENCES session (id),
      agent_id TEXT NOT NULL REFERENCES agent (id),
      handle TEXT NOT NULL,
      position INTEGER NOT NULL,
      status TEXT NOT NULL CHECK (status IN ('invited', 'joined', 'left')),
      joined_at BIGINT,
      left_at BIGINT,
      first_invited_sequence BIGINT,
      left_sequence BIGINT,
      was_joined_at_end INTEGER NOT NULL,
      session_state TEXT NOT NULL,
      changed_at BIGINT NOT NULL,
      delivered_sequence BIGINT NOT NULL,
      is_pending INTEGER NOT NULL,
      PRIMARY KEY (session_id, agent_id)
    )`,
    `CREATE INDEX participant_by_change ON participant (agent_id, changed_at, session_id)`,
    `CREATE INDEX participant_by_state ON participant (agent_id, session_state, changed_at, session_id)`,
    `CREATE INDEX participant_pending ON participant (agent_id, session_id) WHERE is_pending = 1`,
    `CREATE INDEX participant_joined ON participant (agent_id, session_id) WHERE status = 'joined' AND session_state = 'active'`,

    eventTable({ sqlite: 'INTEGER PRIMARY KEY', postgres: 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY' }),
    `CREATE INDEX event_by_subject ON event (session_id, subject_agent_id, sequence) WHERE subject_agent_id IS NOT NULL`,
    `CREATE INDEX event_ended ON event (session_id, sequence) WHERE type = 'session.ended'`,

    `CREATE TABLE attachment (
      id TEXT PRIMARY KEY,
      agent_id TEXT NOT NULL REFERENCES agent (id),
      filename TEXT NOT NULL,
      content_type TEXT NOT NULL,
      size BIGINT NOT NULL,
      sha256 TEXT NOT NULL,
      session_id TEXT REFERENCES session (id),
      sequence BIGINT,
      created_at BIGINT NOT NULL
    )`,
    `CREATE INDEX attachment_pending ON attachment (created_at) WHERE session_id IS NULL`,

    `CREATE TABLE idempotency_record (
      actor_id TEXT NOT NULL,
      endpoint TEXT NOT NULL,
      key_hash TEXT NOT NULL,
      fingerprint TEXT NOT NULL,
      status INTEGER NOT NULL,
      body TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      PRIMARY KEY (actor_id, endpoint, key_hash)
    )`,
    `CREATE INDEX idempotency_record_by_age ON idempotency_record (created_at)`,

    `CREATE TABLE signing_key (
      kid TEXT PRIMARY KEY,
      private_jwk TEXT NOT NULL,
      public_jwk TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      signs_from BIGINT NOT NULL,
      retired_at BIGINT
    )`,
    `CREATE TABLE oauth_client (
      id TEXT PRIMARY KEY,
      kind TEXT NOT NULL CHECK (kind IN ('public', 'confidential')),
      name TEXT NOT NULL,
      redirect_uris TEXT NOT NULL,
      scope TEXT NOT NULL,
      secret_hash TEXT,
      account_id TEXT REFERENCES account (id),
      agent_id TEXT REFERENCES agent (id),
      created_at BIGINT NOT NULL,
      last_used_at BIGINT,
      revoked_at BIGINT
    )`,
    `CREATE INDEX oauth_client_by_account ON oauth_client (account_id, id)`,
    `CREATE INDEX oauth_client_unused ON oauth_client (created_at) WHERE last_used_at IS NULL`,
    `CREATE TABLE authorization_request (
      id_hash TEXT PRIMARY KEY,
      browser_hash TEXT NOT NULL,
      client_id TEXT NOT NULL REFERENCES oauth_client (id),
      redirect_uri TEXT NOT NULL,
      scope TEXT NOT NULL,
      state TEXT,
      code_challenge TEXT NOT NULL,
      resources TEXT NOT NULL,
      agent_handle TEXT,
      intent TEXT,
      created_at BIGINT NOT NULL
    )`,
    `CREATE INDEX authorization_request_by_browser ON authorization_request (browser_hash)`,
    `CREATE INDEX authorization_request_by_client ON authorization_request (client_id)`,
    `CREATE INDEX authorization_request_by_age ON authorization_request (created_at)`,
    `CREATE TABLE authorization_code (
      code_hash TEXT PRIMARY KEY,
      client_id TEXT NOT NULL REFERENCES oauth_client (id),
      account_id TEXT NOT NULL REFERENCES account (id),
      agent_id TEXT REFERENCES agent (id),
      redirect_uri TEXT NOT NULL,
      scope TEXT NOT NULL,
      code_challenge TEXT NOT NULL,
      resources TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      used_at BIGINT,
      family_id TEXT
    )`,
    `CREATE INDEX authorization_code_by_client ON authorization_code (client_id)`,
    `CREATE INDEX authorization_code_by_agent ON authorization_code (agent_id)`,
    `CREATE INDEX authorization_code_by_age ON authorization_code (created_at)`,
    `CREATE TABLE refresh_family (
      id TEXT PRIMARY KEY,
      client_id TEXT NOT NULL REFERENCES oauth_client (id),
      account_id TEXT NOT NULL REFERENCES account (id),
      agent_id TEXT REFERENCES agent (id),
      scope TEXT NOT NULL,
      resources TEXT NOT NULL,
      created_at BIGINT NOT NULL,
      last_used_at BIGINT NOT NULL,
      revoked_at BIGINT
    )`,
    `CREATE INDEX refresh_family_by_account ON refresh_family (account_id, created_at)`,
    `CREATE INDEX refresh_family_by_client ON refresh_family (client_id)`,
    `CREATE INDEX refresh_family_by_use ON refresh_family (last_used_at)`,
    `CREATE TABLE refresh_token (
      token_hash TEXT PRIMARY KEY,
      family_id TEXT NOT NULL REFERENCES refresh_family (id),
      parent_hash TEXT,
      created_at BIGINT NOT NULL,
      rotated_at BIGINT
    )`,
    `CREATE INDEX refresh_token_by_family ON refresh_token (family_id)`,

    `CREATE TABLE socket (
      id TEXT PRIMARY KEY,
      process_id TEXT NOT NULL,
      agent_id TEXT NOT NULL REFERENCES agent (id),
      grant_id TEXT NOT NULL,
      opened_at BIGINT NOT NULL
    )`,
    `CREATE INDEX socket_by_agent ON socket (agent_id)`,
    `CREATE INDEX socket_by_process ON socket (process_id)`,
    `CREATE TABLE absence (
      agent_id TEXT NOT NULL REFERENCES agent (id),
      session_id TEXT NOT NULL REFERENCES session (id),
      since BIGINT NOT NULL,
      PRIMARY KEY (agent_id, session_id)
    )`,
    `CREATE INDEX absence_by_age ON absence (since)`,
  ],
};

function eventTable(position: { readonly sqlite: string; readonly postgres: string }): Statement {
  const make = (type: string): string => `CREATE TABLE event (
      position ${type},
      session_id TEXT NOT NULL REFERENCES session (id),
      sequence BIGINT NOT NULL,
      id TEXT NOT NULL UNIQUE,
      type TEXT NOT NULL,
      subject_agent_id TEXT,
      created_at BIGINT NOT NULL,
      payload TEXT NOT NULL,
      UNIQUE (session_id, sequence)
    )`;
  return { sqlite: make(position.sqlite), postgres: make(position.postgres) };
}
