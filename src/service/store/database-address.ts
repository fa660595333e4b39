import { suggest } from '../../kit/suggest.js';
import { OperatorError } from '../core/errors.js';

const URL_FORM = /^(postgres(?:ql)?):\/\/(?:([^@/]*)@)?([^/?#]*)([^#]*)$/;
const SCHEMA_PARAMETER = 'search_path';
const SCHEMA = /^[a-z_][a-z0-9_]{0,62}$/;
/** As for psql. Any other value would allow a server that refuses writes. */
const ROLE_PARAMETER = 'target_session_attrs';
const PRIMARY = ['read-write', 'primary'];
const TLS_PARAMETER = 'sslmode';
/** As for psql, except that the default is `disable`. */
const BINDING_PARAMETER = 'channel_binding';
const BINDINGS = ['disable', 'prefer', 'require'] as const;
const TLS_MODES = ['disable', 'prefer', 'require', 'verify-ca', 'no-verify', 'verify-full'];
/** The others are the driver's. It ignores what it does not know. */
const PARAMETERS = [
  ...[SCHEMA_PARAMETER, ROLE_PARAMETER, TLS_PARAMETER, BINDING_PARAMETER],
  ...['host', 'port', 'user', 'password', 'options', 'application_name', 'client_encoding'],
  ...['ssl', 'sslrootcert', 'sslcert', 'sslkey', 'sslnegotiation', 'uselibpqcompat'],
];

/** The address of a database. */
export interface DatabaseAddress {
  /** For the driver, one per host, in the order of the attempts; they may contain a password. */
  readonly connectionStrings: readonly string[];
  /** The requested schema; it is created if it is missing. */
  readonly schema: string | undefined;
  /** Whether the server must prove that it is the end of the encrypted connection: `require`. */
  readonly channelBinding: (typeof BINDINGS)[number];
  /** For people, logs and files: no password, no parameters. */
  readonly shown: string;
}

/** Reads `postgres://user@host:port,host:port/database?search_path=schema`, and the driver's other parameters. */
export function readDatabaseAddress(text: string): DatabaseAddress {
  const urls = parse(text);
  const [first] = urls;
  requireKnownOnce([...first.searchParams.keys()]);
  const schema = first.searchParams.get(SCHEMA_PARAMETER) ?? undefined;
  if (schema !== undefined && !SCHEMA.test(schema))
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      'The search_path of the database URL must be a single plain schema name (lowercase letters, digits and _).',
    );
  const role = first.searchParams.get(ROLE_PARAMETER);
  if (role !== null && !PRIMARY.includes(role))
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      `The ${ROLE_PARAMETER} of the database URL is '${role}'. A service writes to the primary: use read-write or leave it out.`,
    );
  const mode = first.searchParams.get(TLS_PARAMETER);
  if (mode !== null && !TLS_MODES.includes(mode))
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      `The ${TLS_PARAMETER} of the database URL is '${mode}'. Use ${TLS_MODES.slice(0, -1).join(', ')} or ${TLS_MODES.at(-1)}.`,
    );
  const given = first.searchParams.get(BINDING_PARAMETER) ?? 'disable';
  const channelBinding = BINDINGS.find((each) => each === given);
  if (channelBinding === undefined)
    throw new OperatorError(
      'DATABASE_NOT_USABLE',
      `The ${BINDING_PARAMETER} of the database URL is '${given}'. Use disable, prefer or require.`,
    );
  const shown = show(urls, schema);
  for (const url of urls)
    for (const name of [SCHEMA_PARAMETER, ROLE_PARAMETER, BINDING_PARAMETER]) url.searchParams.delete(name);
  return { connectionStrings: urls.map(({ href }) => href), schema, channelBinding, shown };
}

/** Whether a database URL contains a secret, which must not be on a command line. */
export function hasSecret(text: string): boolean {
  const [url] = parse(text);
  return url.password !== '' || [...url.searchParams.keys()].some((name) => /pass/i.test(name));
}

/**
 * A misspelled parameter would have no effect: tables in another schema, a connection in the clear. Of one that is given
 * twice, the first is checked here, and the driver uses the last.
 */
function requireKnownOnce(names: readonly string[]): void {
  const repeated = names.find((name, at) => names.indexOf(name) !== at);
  if (repeated !== undefined)
    throw new OperatorError('DATABASE_NOT_USABLE', `The database URL has ${repeated} more than once. Leave one.`);
  const unknown = names.find((name) => !PARAMETERS.includes(name));
  if (unknown === undefined) return;
  const [near] = suggest(unknown, PARAMETERS);
  const hint = near === undefined ? '. Leave it out.' : `: did you mean ${near}?`;
  throw new OperatorError('DATABASE_NOT_USABLE', `asp does not support ${unknown} in a database URL${hint}`);
}

/** One URL for each of its hosts. */
function parse(text: string): [URL, ...URL[]] {
  const [, scheme, user, hosts = '', rest] = URL_FORM.exec(text) ?? [];
  const prefix = user === undefined ? '' : `${user}@`;
  const [first, ...others] = hosts.split(',').map((host) => {
    const one = `${scheme}://${prefix}${host}${rest}`;
    if (scheme === undefined || !URL.canParse(one))
      throw new OperatorError(
        'DATABASE_NOT_USABLE',
        'The database URL must look like postgres://<user>@<host>:<port>/<database>.',
      );
    return new URL(one);
  });
  if (first === undefined) throw new Error('Splitting a text gives at least one part.');
  return [first, ...others];
}

function show(urls: readonly URL[], schema: string | undefined): string {
  const [{ username, pathname, searchParams } = new URL('postgres:///')] = urls;
  const user = username === '' ? '' : `${username}@`;
  const hosts = urls.map(({ host }) => (host === '' ? (searchParams.get('host') ?? '') : host)).join(',');
  return `postgres://${user}${hosts}${pathname}${schema === undefined ? '' : ` (schema ${schema})`}`;
}
