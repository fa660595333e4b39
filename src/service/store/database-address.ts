import { DatabaseUnusableError } from './database.js';

const SCHEMES = ['postgres:', 'postgresql:'];
const SCHEMA_PARAMETER = 'search_path';
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;

/** What is connected to. */
export interface DatabaseAddress {
  /** For the driver; may hold a password. */
  readonly connectionString: string;
  /** The schema that was asked for; it is made if it is missing. */
  readonly schema: string | undefined;
  /** For people, logs and files: no password, no parameters. */
  readonly shown: string;
}

/** Reads `postgres://user@host:port/database?search_path=schema`, and whatever else the driver knows. */
export function readDatabaseAddress(text: string): DatabaseAddress {
  const url = parse(text);
  const schema = url.searchParams.get(SCHEMA_PARAMETER) ?? undefined;
  if (schema !== undefined && !SCHEMA.test(schema))
    throw new DatabaseUnusableError(
      'The search_path of the database URL is not one plain schema name (small letters, digits and _).',
    );
  const shown = show(url, schema);
  url.searchParams.delete(SCHEMA_PARAMETER);
  if (schema !== undefined) {
    const options = url.searchParams.get('options');
    url.searchParams.set('options', [options, `-c search_path=${schema}`].filter(Boolean).join(' '));
  }
  return { connectionString: url.href, schema, shown };
}

/** Whether a database URL carries a secret, which has no place on a command line. */
export function hasSecret(text: string): boolean {
  const url = parse(text);
  return url.password !== '' || [...url.searchParams.keys()].some((name) => /pass/i.test(name));
}

function parse(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  if (url === undefined || !SCHEMES.includes(url.protocol))
    throw new DatabaseUnusableError('The database is not given as postgres://user@host:port/database.');
  return url;
}

function show({ username, host, pathname, searchParams }: URL, schema: string | undefined): string {
  const user = username === '' ? '' : `${username}@`;
  const place = host === '' ? (searchParams.get('host') ?? '') : host;
  return `postgres://${user}${place}${pathname}${schema === undefined ? '' : ` (schema ${schema})`}`;
}
