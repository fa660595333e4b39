import type { Migration } from './migration.js';

const COLUMNS = `(
  session INTEGER NOT NULL,
  word INTEGER NOT NULL,
  position BIGINT NOT NULL,
  PRIMARY KEY (session, word, position)
)`;

/**
 * The words of the messages, session by session, in the place of each database's own full text: on both, what a search costs
 * does not grow with what is stored (D-185). Session and word are codes of 32 bits, so that what is found is read before it is
 * believed. What was said before is indexed again, behind the log. The index by which the sessions of an agent are walked
 * holds all that a search asks of them.
 */
export const messageWords: Migration = {
  version: 6,
  statements: [
    'DROP TABLE message_search',
    { sqlite: `CREATE TABLE message_word ${COLUMNS} WITHOUT ROWID`, postgres: `CREATE TABLE message_word ${COLUMNS}` },
    {
      sqlite: 'UPDATE search_progress SET indexed_position = 0',
      postgres: `INSERT INTO search_queue (position) SELECT position FROM event WHERE type = 'session.message'
        ON CONFLICT DO NOTHING`,
    },
    'DROP INDEX participant_by_change',
    'CREATE INDEX participant_by_change ON participant (agent_id, changed_at, session_id, status)',
  ],
};
