import { hasSecret, readDatabaseAddress } from '../../../service/store/database-address.js';
import { UsageError } from '../../terminal/cli-error.js';

/** Every program of the machine can read a command line, and the shell remembers it. */
export function requireNoSecret(database: string): void {
  if (!inWords(() => hasSecret(database))) return;
  throw new UsageError('The password of a database is not given on the command line.', {
    why: 'set ASP_DATABASE to the whole URL, or PGPASSWORD, or use a pgpass file.',
  });
}

/** Where the data are, without what lets anyone in. */
export function showDatabase(database: string): string {
  return inWords(() => readDatabaseAddress(database).shown);
}

function inWords<T>(read: () => T): T {
  try {
    return read();
  } catch (error) {
    throw new UsageError(error instanceof Error ? error.message : '');
  }
}
