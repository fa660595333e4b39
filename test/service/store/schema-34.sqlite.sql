CREATE TABLE account (
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
);

CREATE INDEX account_with_password ON account (id) WHERE password_hash IS NOT NULL;

CREATE INDEX account_local ON account (username) WHERE is_local = 1;

CREATE TABLE account_session (
  id_hash TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  address TEXT NOT NULL,
  browser_name TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  confirmed_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL
);

CREATE INDEX account_session_by_account ON account_session (account_id, created_at);

CREATE INDEX account_session_by_expiry ON account_session (expires_at);

CREATE TABLE push_subscription (
  session_hash TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  browser_name TEXT NOT NULL,
  endpoint TEXT NOT NULL UNIQUE,
  p256dh TEXT NOT NULL,
  auth TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE INDEX push_subscription_by_account ON push_subscription (account_id, created_at);

CREATE TABLE push_queue (
  account_id TEXT NOT NULL,
  position BIGINT NOT NULL,
  PRIMARY KEY (account_id, position)
);

CREATE TABLE push_notified (
  account_id TEXT NOT NULL,
  need TEXT NOT NULL,
  notified_at BIGINT NOT NULL,
  PRIMARY KEY (account_id, need)
);

CREATE TABLE passkey (
  id TEXT PRIMARY KEY,
  credential_id TEXT NOT NULL UNIQUE,
  account_id TEXT NOT NULL REFERENCES account (id),
  name TEXT NOT NULL,
  public_key TEXT NOT NULL,
  sign_count BIGINT NOT NULL,
  transports TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT
);

CREATE INDEX passkey_by_account ON passkey (account_id, id);

CREATE TABLE used_challenge (
  challenge_hash TEXT PRIMARY KEY,
  expires_at BIGINT NOT NULL
);

CREATE INDEX used_challenge_by_expiry ON used_challenge (expires_at);

CREATE TABLE activity (
  id TEXT PRIMARY KEY,
  account_id TEXT NOT NULL REFERENCES account (id),
  kind TEXT NOT NULL,
  detail TEXT NOT NULL,
  address TEXT NOT NULL,
  browser_name TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE INDEX activity_by_account ON activity (account_id, id);

CREATE INDEX activity_by_age ON activity (created_at);

CREATE TABLE operator_action (
  id TEXT PRIMARY KEY,
  operator_name TEXT NOT NULL,
  operation TEXT NOT NULL,
  target TEXT NOT NULL,
  changes TEXT NOT NULL,
  outcome TEXT,
  address TEXT NOT NULL,
  browser_name TEXT NOT NULL,
  created_at BIGINT NOT NULL
);

CREATE INDEX operator_action_by_age ON operator_action (created_at);

CREATE TABLE entry_link (
  id TEXT PRIMARY KEY,
  purpose TEXT NOT NULL CHECK (purpose IN ('sign-up', 'password')),
  secret_hash TEXT NOT NULL UNIQUE,
  account_id TEXT REFERENCES account (id),
  created_at BIGINT NOT NULL,
  expires_at BIGINT NOT NULL,
  used_at BIGINT
);

CREATE INDEX entry_link_by_account ON entry_link (account_id);

CREATE INDEX entry_link_by_expiry ON entry_link (expires_at);

CREATE TABLE agent (
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
);

CREATE INDEX agent_by_account ON agent (account_id, id);

CREATE TABLE allowlist_entry (
  agent_id TEXT NOT NULL REFERENCES agent (id),
  entry TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (agent_id, entry)
);

CREATE TABLE block (
  agent_id TEXT NOT NULL REFERENCES agent (id),
  blocked_handle TEXT NOT NULL,
  blocked_agent_id TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (agent_id, blocked_handle)
);

CREATE INDEX block_by_age ON block (agent_id, created_at, blocked_handle);

CREATE UNIQUE INDEX block_by_blocked ON block (blocked_agent_id, agent_id);

CREATE TABLE knock (
  agent_id TEXT NOT NULL,
  sender TEXT NOT NULL,
  text TEXT,
  times BIGINT NOT NULL,
  first_at BIGINT NOT NULL,
  last_at BIGINT NOT NULL,
  dismissed_at BIGINT,
  PRIMARY KEY (agent_id, sender)
);

CREATE INDEX knock_by_age ON knock (last_at);

CREATE TABLE session (
  id TEXT PRIMARY KEY,
  state TEXT NOT NULL CHECK (state IN ('active', 'ended')),
  topic TEXT,
  last_sequence BIGINT NOT NULL,
  created_at BIGINT NOT NULL,
  ended_at BIGINT
);

CREATE INDEX session_ended ON session (ended_at, id) WHERE state = 'ended';

CREATE TABLE deleted_session (
  id TEXT PRIMARY KEY
);

CREATE TABLE participant (
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
);

CREATE INDEX participant_open ON participant (session_id, agent_id) WHERE is_open = 1 AND status = 'joined';

CREATE INDEX participant_by_agent ON participant (agent_id, session_id);

CREATE INDEX participant_joined ON participant (agent_id, session_id) WHERE status = 'joined' AND session_state = 'active';

CREATE INDEX participant_invited ON participant (agent_id, session_id) WHERE status = 'invited' AND session_state = 'active';

CREATE TABLE seen_session (
  account_id TEXT NOT NULL REFERENCES account (id),
  session_id TEXT NOT NULL REFERENCES session (id),
  sequence BIGINT NOT NULL,
  PRIMARY KEY (account_id, session_id)
);

CREATE INDEX seen_session_by_session ON seen_session (session_id);

CREATE TABLE inbox (
  agent_id TEXT NOT NULL REFERENCES agent (id),
  session_id TEXT NOT NULL,
  session_state TEXT NOT NULL,
  changed_at BIGINT NOT NULL,
  last_sequence BIGINT NOT NULL,
  delivered_sequence BIGINT NOT NULL,
  is_pending INTEGER NOT NULL,
  PRIMARY KEY (agent_id, session_id)
);

CREATE INDEX inbox_by_change ON inbox (agent_id, changed_at, session_id);

CREATE INDEX inbox_by_state ON inbox (agent_id, session_state, changed_at, session_id);

CREATE INDEX inbox_pending ON inbox (agent_id, session_id) WHERE is_pending = 1;

CREATE TABLE event (
    position INTEGER PRIMARY KEY AUTOINCREMENT,
    session_id TEXT NOT NULL,
    sequence BIGINT NOT NULL,
    id TEXT NOT NULL UNIQUE,
    type TEXT NOT NULL,
    subject_agent_id TEXT,
    created_at BIGINT NOT NULL,
    payload TEXT NOT NULL,
    UNIQUE (session_id, sequence)
  );

CREATE INDEX event_by_subject ON event (session_id, subject_agent_id, sequence) WHERE subject_agent_id IS NOT NULL;

CREATE INDEX event_ended ON event (session_id, sequence) WHERE type = 'session.ended';

CREATE TABLE taken (
  session_id TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  taken_at BIGINT NOT NULL,
  PRIMARY KEY (session_id, sequence, agent_id)
);

CREATE TABLE answer (
  session_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  sequence BIGINT NOT NULL,
  PRIMARY KEY (session_id, message_id, agent_id)
);

CREATE TABLE question (
  session_id TEXT NOT NULL,
  sequence BIGINT NOT NULL,
  message_id TEXT NOT NULL,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  asked_at BIGINT NOT NULL,
  PRIMARY KEY (session_id, sequence)
);

CREATE TABLE dismissed_question (
  account_id TEXT NOT NULL REFERENCES account (id),
  session_id TEXT NOT NULL REFERENCES session (id),
  sequence BIGINT NOT NULL,
  PRIMARY KEY (account_id, session_id, sequence)
);

CREATE INDEX dismissed_question_by_session ON dismissed_question (session_id);

CREATE TABLE unanswered (
  agent_id TEXT NOT NULL REFERENCES agent (id),
  session_id TEXT NOT NULL REFERENCES session (id),
  sequence BIGINT NOT NULL,
  reason TEXT NOT NULL,
  reported_at BIGINT NOT NULL,
  is_dismissed INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (agent_id, session_id)
);

CREATE INDEX unanswered_by_time ON unanswered (agent_id, reported_at);

CREATE INDEX unanswered_by_session ON unanswered (session_id);

CREATE INDEX unanswered_by_age ON unanswered (reported_at);

CREATE TABLE attachment (
  id TEXT PRIMARY KEY,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  filename TEXT NOT NULL,
  content_type TEXT NOT NULL,
  size BIGINT NOT NULL,
  sha256 TEXT NOT NULL,
  session_id TEXT,
  sequence BIGINT,
  created_at BIGINT NOT NULL
);

CREATE INDEX attachment_pending ON attachment (created_at) WHERE session_id IS NULL;

CREATE INDEX attachment_by_session ON attachment (session_id, id) WHERE session_id IS NOT NULL;

CREATE TABLE idempotency_record (
  actor_id TEXT NOT NULL,
  endpoint TEXT NOT NULL,
  key_hash TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  status INTEGER NOT NULL,
  body TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  PRIMARY KEY (actor_id, endpoint, key_hash)
);

CREATE INDEX idempotency_record_by_age ON idempotency_record (created_at);

CREATE TABLE signing_key (
  kid TEXT PRIMARY KEY,
  private_jwk TEXT NOT NULL,
  public_jwk TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  signs_from BIGINT NOT NULL,
  retired_at BIGINT
);

CREATE TABLE oauth_client (
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
);

CREATE INDEX oauth_client_by_account ON oauth_client (account_id, id);

CREATE INDEX oauth_client_by_agent ON oauth_client (agent_id, id);

CREATE INDEX oauth_client_unused ON oauth_client (created_at) WHERE last_used_at IS NULL;

CREATE TABLE authorization_request (
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
);

CREATE INDEX authorization_request_by_browser ON authorization_request (browser_hash);

CREATE INDEX authorization_request_by_client ON authorization_request (client_id);

CREATE INDEX authorization_request_by_age ON authorization_request (created_at);

CREATE TABLE authorization_code (
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
);

CREATE INDEX authorization_code_by_client ON authorization_code (client_id);

CREATE INDEX authorization_code_by_account ON authorization_code (account_id);

CREATE INDEX authorization_code_by_agent ON authorization_code (agent_id);

CREATE INDEX authorization_code_by_age ON authorization_code (created_at);

CREATE TABLE refresh_family (
  id TEXT PRIMARY KEY,
  client_id TEXT NOT NULL REFERENCES oauth_client (id),
  account_id TEXT NOT NULL REFERENCES account (id),
  agent_id TEXT REFERENCES agent (id),
  scope TEXT NOT NULL,
  resources TEXT NOT NULL,
  created_at BIGINT NOT NULL,
  last_used_at BIGINT NOT NULL,
  revoked_at BIGINT
);

CREATE INDEX refresh_family_by_account ON refresh_family (account_id, created_at);

CREATE INDEX refresh_family_by_agent ON refresh_family (agent_id, created_at);

CREATE INDEX refresh_family_by_client ON refresh_family (client_id);

CREATE INDEX refresh_family_by_use ON refresh_family (last_used_at);

CREATE TABLE refresh_token (
  token_hash TEXT PRIMARY KEY,
  family_id TEXT NOT NULL REFERENCES refresh_family (id),
  parent_hash TEXT,
  created_at BIGINT NOT NULL,
  rotated_at BIGINT
);

CREATE INDEX refresh_token_by_family ON refresh_token (family_id);

CREATE TABLE socket (
  id TEXT PRIMARY KEY,
  process_id TEXT NOT NULL,
  agent_id TEXT NOT NULL REFERENCES agent (id),
  grant_id TEXT NOT NULL,
  opened_at BIGINT NOT NULL,
  revoked_at BIGINT
);

CREATE INDEX socket_by_agent ON socket (agent_id);

CREATE INDEX socket_by_process ON socket (process_id);

CREATE INDEX socket_by_grant ON socket (grant_id);

CREATE INDEX socket_revoked ON socket (process_id) WHERE revoked_at IS NOT NULL;

CREATE TABLE absence (
  agent_id TEXT NOT NULL REFERENCES agent (id),
  session_id TEXT NOT NULL REFERENCES session (id),
  since BIGINT NOT NULL,
  PRIMARY KEY (agent_id, session_id)
);

CREATE INDEX absence_by_age ON absence (since);

CREATE INDEX absence_by_session ON absence (session_id);

CREATE TABLE service_key (
  secret TEXT NOT NULL,
  -- Identify the service to push services; null until they are needed.
  push_keys TEXT,
  -- Of the folder or bucket of the attachments; null until a service has used one.
  attachments_home TEXT
);

CREATE TABLE epoch (
  ordinal BIGINT PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  after_position BIGINT NOT NULL,
  origin TEXT NOT NULL,
  began_at BIGINT NOT NULL
);

CREATE TABLE inbox_progress (
    spread_position BIGINT NOT NULL
  );

INSERT INTO inbox_progress (spread_position) VALUES (0);

CREATE TABLE message_word (
session INTEGER NOT NULL,
word INTEGER NOT NULL,
position BIGINT NOT NULL,
PRIMARY KEY (session, word, position)
) WITHOUT ROWID;

CREATE TABLE search_progress (
    indexed_position BIGINT NOT NULL
  );

INSERT INTO search_progress (indexed_position) VALUES (0);

CREATE TABLE search_term (
  kind TEXT NOT NULL CHECK (kind IN ('agent', 'person')),
  term TEXT NOT NULL,
  subject_id TEXT NOT NULL,
  PRIMARY KEY (kind, term, subject_id)
);

CREATE INDEX search_term_by_subject ON search_term (subject_id, term);

CREATE TABLE server_process (
  id TEXT PRIMARY KEY,
  seen_at BIGINT NOT NULL,
  schema_version INTEGER NOT NULL
);
