import type { Database } from '../../../src/service/core/database.js';

/** Creates a table for tests. */
export const addNotes = (database: Database): Promise<number> =>
  database.write((transaction) =>
    transaction.run('CREATE TABLE IF NOT EXISTS note (name TEXT PRIMARY KEY, value TEXT NOT NULL)'),
  );
/** Inserts one row. */
export const put = (database: Database, name: string, value = 'x'): Promise<number> =>
  database.write((transaction) => transaction.run('INSERT INTO note (name, value) VALUES ($1, $2)', name, value));
export const names = async (database: Database): Promise<string[]> => {
  const rows = await database.read((query) => query.all<{ name: string }>('SELECT name FROM note ORDER BY name'));
  return rows.map((row) => row.name);
};
