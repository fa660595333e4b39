import { randomBytes } from 'node:crypto';
import type { Dialect } from '../core/database.js';
import { MIGRATIONS, recordVersion, type Statement, sqlOf } from './migrations.js';

/** The statements that create the schema on one database, including the new service's secret. */
export function schemaStatements(dialect: Dialect): string[] {
  const secret = randomBytes(32).toString('base64url');
  return [
    ...SCHEMA.map((statement) => sqlOf(statement, dialect)),
    `INSERT INTO service_key (secret) VALUES ('${secret}')`,
    recordVersion(MIGRATIONS),
  ].filter((statement) => statement !== undefined);
}

const MESSAGE_WORD = `CREATE TABLE message_word (
  session INTEGER NOT NULL,
  word INTEGER NOT NULL,
  position BIGINT NOT NULL,
  PRIMARY KEY (session, word, position)
)`;

/**
 * Times are epoch milliseconds, booleans 0 or 1, JSON is text. Secrets are stored as SHA-256 only. `event.position`
 * orders the events of the whole service, for readers of all sessions; it never leaves the service. On SQLite it is the
 * order of commits, on PostgreSQL that of inserts, which commits may overtake. `inbox.is_pending` marks rows with
 * events past `delivered_sequence`, so that delivery finds its work by index. Tables that are too large to be deleted
 * together with a session do not reference it (retention.ts).
 */
const SCHEMA: readonly Statement[] = [
  `CREATE TABLE account (
    id TEXT PRIMARY KEY,
    username TEXT NOT NULL UNIQUE,
    display_name TEXT NOT NULL,
    password_hash TEXT,
    tier TEXT NOT NULL CHECK (tier IN ('standard', 'trusted')),
    is_local INTEGER NOT NULL,
    is_operator INTEGER NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    suspended_at BIGINT,
    removed_at BIGINT,
    attachment_bytes BIGINT NOT NULL DEFAULT 0
  )`,
  `CREATE INDEX account_with_password ON account (id) WHERE password_hash IS NOT NULL`,
  // The sign-in page asks whether there is one, the operator for the first.
  `CREATE INDEX account_local ON account (username) WHERE is_local = 1`,
  `CREATE TABLE account_session (
    id_hash TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES account (id),
    address TEXT NOT NULL,
    browser_name TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    confirmed_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL
  )`,
  `CREATE INDEX account_session_by_account ON account_session (account_id, created_at)`,
  `CREATE INDEX account_session_by_expiry ON account_session (expires_at)`,
  // Browsers that notify their person while no page is open (web-push.ts). Signing out ends this, but not the end of
  // the sign-in by time.
  `CREATE TABLE push_subscription (
    session_hash TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES account (id),
    browser_name TEXT NOT NULL,
    endpoint TEXT NOT NULL UNIQUE,
    p256dh TEXT NOT NULL,
    auth TEXT NOT NULL,
    created_at BIGINT NOT NULL
  )`,
  `CREATE INDEX push_subscription_by_account ON push_subscription (account_id, created_at)`,
  // Accounts of these for which something may have come up, one row for each event, filled behind the log (inboxes.ts).
  `CREATE TABLE push_queue (
    account_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (account_id, position)
  )`,
  // The entries of Needs you about which they were notified.
  `CREATE TABLE push_notified (
    account_id TEXT NOT NULL,
    need TEXT NOT NULL,
    notified_at BIGINT NOT NULL,
    PRIMARY KEY (account_id, need)
  )`,
  `CREATE TABLE passkey (
    id TEXT PRIMARY KEY,
    credential_id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL REFERENCES account (id),
    name TEXT NOT NULL,
    public_key TEXT NOT NULL,
    sign_count BIGINT NOT NULL,
    transports TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used_at BIGINT
  )`,
  `CREATE INDEX passkey_by_account ON passkey (account_id, id)`,
  // Challenges that a passkey has answered. Each counts once.
  `CREATE TABLE used_challenge (
    challenge_hash TEXT PRIMARY KEY,
    expires_at BIGINT NOT NULL
  )`,
  `CREATE INDEX used_challenge_by_expiry ON used_challenge (expires_at)`,
  // What was done with an account, for its owner.
  `CREATE TABLE activity (
    id TEXT PRIMARY KEY,
    account_id TEXT NOT NULL REFERENCES account (id),
    kind TEXT NOT NULL,
    detail TEXT NOT NULL,
    address TEXT NOT NULL,
    browser_name TEXT NOT NULL,
    created_at BIGINT NOT NULL
  )`,
  `CREATE INDEX activity_by_account ON activity (account_id, id)`,
  `CREATE INDEX activity_by_age ON activity (created_at)`,
  // What operators did. No outcome: the action has not finished, or was interrupted.
  `CREATE TABLE operator_action (
    id TEXT PRIMARY KEY,
    operator_name TEXT NOT NULL,
    operation TEXT NOT NULL,
    target TEXT NOT NULL,
    changes TEXT NOT NULL,
    outcome TEXT,
    address TEXT NOT NULL,
    browser_name TEXT NOT NULL,
    created_at BIGINT NOT NULL
  )`,
  `CREATE INDEX operator_action_by_age ON operator_action (created_at)`,
  // Links from the operator. The account is the one whose password it sets, or the one that signed up with it.
  `CREATE TABLE entry_link (
    id TEXT PRIMARY KEY,
    purpose TEXT NOT NULL CHECK (purpose IN ('sign-up', 'password')),
    secret_hash TEXT NOT NULL UNIQUE,
    account_id TEXT REFERENCES account (id),
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    used_at BIGINT
  )`,
  `CREATE INDEX entry_link_by_account ON entry_link (account_id)`,
  `CREATE INDEX entry_link_by_expiry ON entry_link (expires_at)`,

  // `image_url` is the id of the attachment that is its picture.
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
    inbound_policy TEXT NOT NULL CHECK (inbound_policy IN ('allowlist', 'hold', 'open')),
    can_initiate_sessions INTEGER NOT NULL,
    is_paused INTEGER NOT NULL,
    reports_taken INTEGER NOT NULL DEFAULT 1,
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

  // Strangers that were refused, for agents that want to know. The other refusals write a row too, which no one reads, so
  // that they take the same work: its agent_id does not belong to an agent.
  `CREATE TABLE knock (
    agent_id TEXT NOT NULL,
    sender TEXT NOT NULL,
    text TEXT,
    times BIGINT NOT NULL,
    first_at BIGINT NOT NULL,
    last_at BIGINT NOT NULL,
    dismissed_at BIGINT,
    PRIMARY KEY (agent_id, sender)
  )`,
  `CREATE INDEX knock_by_age ON knock (last_at)`,

  `CREATE TABLE session (
    id TEXT PRIMARY KEY,
    state TEXT NOT NULL CHECK (state IN ('active', 'ended')),
    topic TEXT,
    last_sequence BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at BIGINT
  )`,
  `CREATE INDEX session_ended ON session (ended_at, id) WHERE state = 'ended'`,
  // Sessions that no one can see anymore, until everything that belonged to them is deleted too.
  `CREATE TABLE deleted_session (
    id TEXT PRIMARY KEY
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
    joined_through BIGINT,
    was_joined_at_end INTEGER NOT NULL,
    session_state TEXT NOT NULL,
    is_open INTEGER NOT NULL,
    PRIMARY KEY (session_id, agent_id)
  )`,
  `CREATE INDEX participant_open ON participant (session_id, agent_id) WHERE is_open = 1 AND status = 'joined'`,
  `CREATE INDEX participant_by_agent ON participant (agent_id, session_id)`,
  `CREATE INDEX participant_joined ON participant (agent_id, session_id) WHERE status = 'joined' AND session_state = 'active'`,

  `CREATE INDEX participant_invited ON participant (agent_id, session_id) WHERE status = 'invited' AND session_state = 'active'`,
  // How far the people of an account have read a session in the dashboard.
  `CREATE TABLE seen_session (
    account_id TEXT NOT NULL REFERENCES account (id),
    session_id TEXT NOT NULL REFERENCES session (id),
    sequence BIGINT NOT NULL,
    PRIMARY KEY (account_id, session_id)
  )`,
  `CREATE INDEX seen_session_by_session ON seen_session (session_id)`,

  // Addresses with which anyone can read a session as its owner saw it then: all of it up to `through_sequence`, and
  // what an invited agent sees up to `last_sequence`. With `view_handle`, it was the view of this agent alone.
  `CREATE TABLE share_link (
    id TEXT PRIMARY KEY,
    secret_hash TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL REFERENCES account (id),
    session_id TEXT NOT NULL,
    through_sequence BIGINT NOT NULL,
    last_sequence BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    view_handle TEXT
  )`,
  `CREATE INDEX share_link_by_account ON share_link (account_id, id)`,
  `CREATE INDEX share_link_by_session ON share_link (session_id, account_id, id)`,
  `CREATE INDEX share_link_by_expiry ON share_link (expires_at)`,

  // The news for each agent, by agent, filled behind the log (inboxes.ts).
  `CREATE TABLE inbox (
    agent_id TEXT NOT NULL REFERENCES agent (id),
    session_id TEXT NOT NULL,
    session_state TEXT NOT NULL,
    changed_at BIGINT NOT NULL,
    last_sequence BIGINT NOT NULL,
    delivered_sequence BIGINT NOT NULL,
    is_pending INTEGER NOT NULL,
    PRIMARY KEY (agent_id, session_id)
  )`,
  `CREATE INDEX inbox_by_change ON inbox (agent_id, changed_at, session_id)`,
  `CREATE INDEX inbox_by_state ON inbox (agent_id, session_state, changed_at, session_id)`,
  `CREATE INDEX inbox_pending ON inbox (agent_id, session_id) WHERE is_pending = 1`,

  // A position is never used again, even when the last event is deleted.
  eventTable({
    sqlite: 'INTEGER PRIMARY KEY AUTOINCREMENT',
    postgres: 'BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY',
  }),
  `CREATE INDEX event_by_subject ON event (session_id, subject_agent_id, sequence) WHERE subject_agent_id IS NOT NULL`,
  `CREATE INDEX event_ended ON event (session_id, sequence) WHERE type = 'session.ended'`,

  // Recipients' reports on messages: sending a message writes nothing here, except the one row of an answer.
  `CREATE TABLE taken (
    session_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    taken_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, sequence, agent_id)
  )`,
  `CREATE TABLE answer (
    session_id TEXT NOT NULL,
    message_id TEXT NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    sequence BIGINT NOT NULL,
    PRIMARY KEY (session_id, message_id, agent_id)
  )`,

  // Messages that offer choices for their answer.
  `CREATE TABLE question (
    session_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    message_id TEXT NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    asked_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, sequence)
  )`,
  `CREATE TABLE dismissed_question (
    account_id TEXT NOT NULL REFERENCES account (id),
    session_id TEXT NOT NULL REFERENCES session (id),
    sequence BIGINT NOT NULL,
    PRIMARY KEY (account_id, session_id, sequence)
  )`,
  `CREATE INDEX dismissed_question_by_session ON dismissed_question (session_id)`,

  // Messages that an agent does not answer, for its owner: the last one of each session.
  `CREATE TABLE unanswered (
    agent_id TEXT NOT NULL REFERENCES agent (id),
    session_id TEXT NOT NULL REFERENCES session (id),
    sequence BIGINT NOT NULL,
    reason TEXT NOT NULL,
    reported_at BIGINT NOT NULL,
    is_dismissed INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (agent_id, session_id)
  )`,
  `CREATE INDEX unanswered_by_time ON unanswered (agent_id, reported_at)`,
  `CREATE INDEX unanswered_by_session ON unanswered (session_id)`,
  `CREATE INDEX unanswered_by_age ON unanswered (reported_at)`,

  // Which worker of an agent works in a session. It cascades because older programs, which delete sessions, do not know it.
  `CREATE TABLE claim (
    session_id TEXT NOT NULL REFERENCES session (id) ON DELETE CASCADE,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    worker TEXT NOT NULL,
    event_id TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    expires_at BIGINT NOT NULL,
    PRIMARY KEY (session_id, agent_id)
  )`,
  // The events that the workers of an agent have handled. An agent with one worker has no rows.
  `CREATE TABLE handled (
    session_id TEXT NOT NULL,
    event_id TEXT NOT NULL,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    PRIMARY KEY (session_id, event_id, agent_id)
  )`,
  // The addresses that are called with the events of agents without a connection (webhook-calls.ts). The key must sign, so
  // it cannot be stored as a hash.
  `CREATE TABLE webhook (
    agent_id TEXT PRIMARY KEY REFERENCES agent (id),
    account_id TEXT NOT NULL REFERENCES account (id),
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    revision INTEGER NOT NULL DEFAULT 1,
    set_at BIGINT NOT NULL,
    is_test_due INTEGER NOT NULL DEFAULT 1,
    next_at BIGINT,
    claimed_until BIGINT,
    failures INTEGER NOT NULL DEFAULT 0,
    failing_since BIGINT,
    failure TEXT,
    answered_at BIGINT,
    off_at BIGINT
  )`,
  `CREATE INDEX webhook_by_time ON webhook (next_at) WHERE next_at IS NOT NULL`,
  `CREATE INDEX webhook_off ON webhook (account_id, off_at) WHERE off_at IS NOT NULL`,
  // Those of these agents that may have new events, filled behind the log (inboxes.ts).
  `CREATE TABLE webhook_queue (
    agent_id TEXT NOT NULL,
    position BIGINT NOT NULL,
    PRIMARY KEY (agent_id, position)
  )`,

  `CREATE TABLE attachment (
    id TEXT PRIMARY KEY,
    agent_id TEXT NOT NULL REFERENCES agent (id),
    filename TEXT NOT NULL,
    content_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    session_id TEXT,
    sequence BIGINT,
    created_at BIGINT NOT NULL
  )`,
  `CREATE INDEX attachment_pending ON attachment (created_at) WHERE session_id IS NULL`,
  `CREATE INDEX attachment_by_session ON attachment (session_id, id) WHERE session_id IS NOT NULL`,

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
    old_secret_hash TEXT,
    old_secret_until BIGINT,
    expires_at BIGINT,
    account_id TEXT REFERENCES account (id),
    agent_id TEXT REFERENCES agent (id),
    created_at BIGINT NOT NULL,
    last_used_at BIGINT,
    revoked_at BIGINT
  )`,
  `CREATE INDEX oauth_client_by_account ON oauth_client (account_id, id)`,
  `CREATE INDEX oauth_client_by_agent ON oauth_client (agent_id, id)`,
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
  `CREATE INDEX authorization_code_by_account ON authorization_code (account_id)`,
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
    revoked_at BIGINT,
    last_network TEXT,
    last_program TEXT
  )`,
  `CREATE INDEX refresh_family_by_account ON refresh_family (account_id, created_at)`,
  `CREATE INDEX refresh_family_by_agent ON refresh_family (agent_id, created_at)`,
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
    opened_at BIGINT NOT NULL,
    revoked_at BIGINT
  )`,
  `CREATE INDEX socket_by_agent ON socket (agent_id)`,
  `CREATE INDEX socket_by_process ON socket (process_id)`,
  `CREATE INDEX socket_by_grant ON socket (grant_id)`,
  `CREATE INDEX socket_revoked ON socket (process_id) WHERE revoked_at IS NOT NULL`,
  `CREATE TABLE absence (
    agent_id TEXT NOT NULL REFERENCES agent (id),
    session_id TEXT NOT NULL REFERENCES session (id),
    since BIGINT NOT NULL,
    PRIMARY KEY (agent_id, session_id)
  )`,
  `CREATE INDEX absence_by_age ON absence (since)`,
  `CREATE INDEX absence_by_session ON absence (session_id)`,

  // The one secret of this service, from which keys are derived for each purpose.
  `CREATE TABLE service_key (
    secret TEXT NOT NULL,
    -- Identify the service to push services; null until they are needed.
    push_keys TEXT,
    -- Of the folder or bucket of the attachments; null until a service has used one.
    attachments_home TEXT
  )`,

  // Stretches of the history that no restore has interrupted (epochs.ts). A copy has a different `origin`.
  `CREATE TABLE epoch (
    ordinal BIGINT PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    after_position BIGINT NOT NULL,
    origin TEXT NOT NULL,
    began_at BIGINT NOT NULL
  )`,
  { sqlite: undefined, postgres: dataOrigin() },

  // How far inboxes follow the log. On PostgreSQL commits may overtake each other, so each event queues itself.
  {
    sqlite: `CREATE TABLE inbox_progress (
      spread_position BIGINT NOT NULL
    )`,
    postgres: `CREATE TABLE inbox_queue (
      position BIGINT PRIMARY KEY
    )`,
  },
  {
    sqlite: `INSERT INTO inbox_progress (spread_position) VALUES (0)`,
    postgres: undefined,
  },

  // Full text of messages, filled behind the log; session and word are 32-bit hashes, so a match is verified by reading
  // the message (D-185). On PostgreSQL commits may overtake each other, so each message queues itself.
  { sqlite: `${MESSAGE_WORD} WITHOUT ROWID`, postgres: MESSAGE_WORD },
  {
    sqlite: `CREATE TABLE search_progress (
      indexed_position BIGINT NOT NULL
    )`,
    postgres: `CREATE TABLE search_queue (
      position BIGINT PRIMARY KEY
    )`,
  },
  {
    sqlite: `INSERT INTO search_progress (indexed_position) VALUES (0)`,
    postgres: undefined,
  },
  // The terms by which agents and people are found.
  `CREATE TABLE search_term (
    kind TEXT NOT NULL CHECK (kind IN ('agent', 'person')),
    term TEXT NOT NULL,
    subject_id TEXT NOT NULL,
    PRIMARY KEY (kind, term, subject_id)
  )`,
  `CREATE INDEX search_term_by_subject ON search_term (subject_id, term)`,

  // The processes that use the data, by the last time each reported, and the version of the schema that each expects.
  `CREATE TABLE server_process (
    id TEXT PRIMARY KEY,
    seen_at BIGINT NOT NULL,
    schema_version INTEGER NOT NULL
  )`,
  // When one of them last did each chore.
  {
    sqlite: undefined,
    postgres: `CREATE TABLE chore (
      name TEXT PRIMARY KEY,
      taken_at BIGINT NOT NULL
    )`,
  },
  // The calls that the rate limits count, if several processes share them. A budget remembers its last N calls in N
  // slots, filled in a circle: the next slot holds the oldest call, and it alone decides. A crash of the database may
  // lose the counts, so the table is unlogged.
  {
    sqlite: undefined,
    postgres: `CREATE UNLOGGED TABLE rate_budget (
      name TEXT NOT NULL,
      subject_id TEXT NOT NULL,
      taken BIGINT NOT NULL,
      last_at BIGINT NOT NULL,
      PRIMARY KEY (name, subject_id)
    )`,
  },
  {
    sqlite: undefined,
    postgres: `CREATE UNLOGGED TABLE rate_call (
      name TEXT NOT NULL,
      subject_id TEXT NOT NULL,
      slot BIGINT NOT NULL,
      at BIGINT NOT NULL,
      PRIMARY KEY (name, subject_id, slot)
    )`,
  },
  { sqlite: undefined, postgres: takeCalls() },
];

function eventTable(position: { readonly sqlite: string; readonly postgres: string }): Statement {
  const make = (type: string): string => `CREATE TABLE event (
      position ${type},
      session_id TEXT NOT NULL,
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

/**
 * Where the data is: a different server, database, table or timeline means that it was restored or lost its end.
 * A server that does not report all of it (some hosted ones) is assumed not to change.
 */
function dataOrigin(): string {
  return `CREATE FUNCTION data_origin() RETURNS text LANGUAGE plpgsql AS $$
    DECLARE
      place text := (SELECT oid FROM pg_database WHERE datname = current_database()) || ' ' || 'epoch'::regclass::oid;
    BEGIN
      BEGIN
        place := place || ' ' || (SELECT system_identifier FROM pg_control_system());
      EXCEPTION WHEN OTHERS THEN NULL;
      END;
      BEGIN
        place := place || ' ' || substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8);
      EXCEPTION WHEN OTHERS THEN NULL;
      END;
      RETURN place;
    END
  $$`;
}

/**
 * Takes one call from each budget, or from none. Returns the milliseconds to wait; 0: taken. Without `given_at` the
 * time is that of the database, which is the same for all services; it is read when the budgets are locked, so that it
 * never goes back.
 */
function takeCalls(): string {
  return `CREATE FUNCTION take_calls(budgets json, given_at bigint) RETURNS bigint LANGUAGE plpgsql AS $$
    DECLARE
      wanted record;
      moment bigint;
      freeing bigint;
      wait bigint := 0;
    BEGIN
      FOR wanted IN SELECT b.name, b.subject_id FROM json_to_recordset(budgets) AS b (name text, subject_id text)
        ORDER BY b.name, b.subject_id LOOP
        INSERT INTO rate_budget (name, subject_id, taken, last_at) VALUES (wanted.name, wanted.subject_id, 0, 0)
          ON CONFLICT (name, subject_id) DO UPDATE SET last_at = rate_budget.last_at;
      END LOOP;
      moment := COALESCE(given_at, FLOOR(EXTRACT(EPOCH FROM clock_timestamp()) * 1000)::bigint);
      FOR wanted IN SELECT b.window_ms, rate_call.at
        FROM json_to_recordset(budgets) AS b (name text, subject_id text, calls bigint, window_ms bigint, weight bigint)
          JOIN rate_budget ON rate_budget.name = b.name AND rate_budget.subject_id = b.subject_id
          JOIN rate_call ON rate_call.name = b.name AND rate_call.subject_id = b.subject_id
            AND rate_call.slot = (rate_budget.taken + b.weight - 1) % b.calls LOOP
        freeing := wanted.at + wanted.window_ms;
        IF freeing > moment THEN wait := GREATEST(wait, freeing - moment); END IF;
      END LOOP;
      IF wait > 0 THEN RETURN wait; END IF;
      FOR wanted IN
        SELECT b.name, b.subject_id, b.calls, b.weight
        FROM json_to_recordset(budgets) AS b (name text, subject_id text, calls bigint, weight bigint) LOOP
        INSERT INTO rate_call (name, subject_id, slot, at)
          SELECT wanted.name, wanted.subject_id, (taken + step) % wanted.calls, moment
          FROM rate_budget, generate_series(0, wanted.weight - 1) AS step
          WHERE name = wanted.name AND subject_id = wanted.subject_id
          ON CONFLICT (name, subject_id, slot) DO UPDATE SET at = excluded.at;
        UPDATE rate_budget SET taken = taken + wanted.weight, last_at = moment
          WHERE name = wanted.name AND subject_id = wanted.subject_id;
      END LOOP;
      RETURN 0;
    END
  $$`;
}
