import type { Migration } from './migration.js';

/**
 * Full text of messages, filled behind the log, and the words by which agents and people are found.
 *
 * On SQLite, `message_search` is SQLite's own; its rowid is `event.position`, and how far it goes is `search_progress`. On
 * PostgreSQL, commits may overtake one another, so what is yet to be indexed stands in `search_queue`, put there by the
 * insert itself, and the words in a `tsvector`; the session is one of its words, so that a search walks one index. Words
 * are cut by `searchTermsOf`, so that neither has anything left to cut.
 */
export const search: Migration = {
  version: 2,
  statements: [
    {
      sqlite: `CREATE VIRTUAL TABLE message_search USING fts5 (
        session, text, content='', columnsize=0, tokenize='ascii'
      )`,
      postgres: `CREATE TABLE message_search (
        position BIGINT PRIMARY KEY REFERENCES event (position),
        words tsvector NOT NULL
      )`,
    },
    {
      sqlite: `CREATE TABLE search_progress (
        indexed_position BIGINT NOT NULL
      )`,
      postgres: `CREATE INDEX message_search_words ON message_search USING gin (words)`,
    },
    {
      sqlite: `INSERT INTO search_progress (indexed_position) VALUES (0)`,
      postgres: `CREATE TABLE search_queue (
        position BIGINT PRIMARY KEY
      )`,
    },
    {
      sqlite: undefined,
      postgres: `CREATE FUNCTION put_in_search_queue() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          INSERT INTO search_queue (position) VALUES (NEW.position);
          RETURN NULL;
        END
      $$`,
    },
    {
      sqlite: undefined,
      postgres: `CREATE TRIGGER event_to_index AFTER INSERT ON event
        FOR EACH ROW WHEN (NEW.type = 'session.message') EXECUTE FUNCTION put_in_search_queue()`,
    },
    `CREATE TABLE search_term (
      kind TEXT NOT NULL CHECK (kind IN ('agent', 'person')),
      term TEXT NOT NULL,
      subject_id TEXT NOT NULL,
      PRIMARY KEY (kind, term, subject_id)
    )`,
    `CREATE INDEX search_term_by_subject ON search_term (subject_id, term)`,
  ],
};
