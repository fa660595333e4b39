import { expect } from 'vitest';
import { type Migration, SCHEMA_VERSION } from '../../../src/service/store/migrations.js';
import type { Actor } from '../../support/actors.js';
import type { TestService } from '../../support/service.js';

export const NEXT_VERSION = SCHEMA_VERSION + 1;

/** One step of each kind, as the next release might need them. */
export const NEXT: Migration = {
  to: NEXT_VERSION,
  readableFrom: SCHEMA_VERSION,
  steps: [
    {
      kind: 'change',
      what: 'add event.day',
      table: 'event',
      sql: {
        sqlite: 'ALTER TABLE event ADD COLUMN day BIGINT',
        postgres: 'ALTER TABLE event ADD COLUMN IF NOT EXISTS day BIGINT',
      },
    },
    { kind: 'index', what: 'build event_by_day', table: 'event', name: 'event_by_day', columns: '(day, position)' },
    {
      kind: 'fill',
      what: 'fill event.day',
      table: 'event',
      key: 'position',
      set: 'day = created_at / 86400000',
      where: 'day IS NULL',
    },
  ],
};

/** The release after it removes what the current version needs. */
export const AFTER_NEXT: Migration = {
  to: NEXT_VERSION + 1,
  readableFrom: NEXT_VERSION,
  steps: [{ kind: 'change', what: 'add note', table: 'note', sql: 'CREATE TABLE IF NOT EXISTS note (id TEXT)' }],
};

/** Opens a session of a new agent with another one. */
export async function openSession(service: TestService): Promise<{ alice: Actor; sessionId: string }> {
  const [alice, bob] = [await service.createAgent('alice'), await service.createAgent('bob')];
  const opened = await alice.post('/sessions', { invite: [bob.handle], initial_message: { content: 'hello' } });
  expect(opened.status, opened.text).toBe(201);
  return { alice, sessionId: (opened.json as { session_id: string }).session_id };
}
