/** The address and the credentials of the bus. */
export interface BusAddress {
  /** `host:port` each; any one of them is enough. */
  readonly servers: readonly string[];
  readonly isEncrypted: boolean;
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
  /** For people and logs: servers only. */
  readonly shown: string;
}

const STANDARD_PORT = '4222';
const FORM = 'nats://host:4222 or tls://host:4222, several with commas';

/**
 * Reads `nats://user:password@host:port`, `nats://token@host:port` or either with `tls:`. Throws a `TypeError` with a
 * message for people.
 */
export function readBusAddress(text: string): BusAddress {
  const urls = text.split(',').map(parse);
  const servers = urls.map(({ hostname, port }) => `${hostname}:${port === '' ? STANDARD_PORT : port}`);
  const protocols = new Set(urls.map(({ protocol }) => protocol));
  if (protocols.size > 1) throw new TypeError('The servers of a bus are either all nats:// or all tls://.');
  const [scheme = 'nats:'] = protocols;
  return {
    servers,
    isEncrypted: scheme === 'tls:',
    ...readSecrets(urls),
    shown: servers.map((server) => `${scheme}//${server}`).join(','),
  };
}

/** Whether it contains credentials, which must not be on a command line. */
export function hasBusSecret(text: string): boolean {
  const { user, token } = readBusAddress(text);
  return user !== undefined || token !== undefined;
}

function readSecrets(urls: readonly URL[]): Pick<BusAddress, 'user' | 'password' | 'token'> {
  const named = urls.find(({ username, password }) => username !== '' || password !== '');
  if (named === undefined) return {};
  const first = decodeURIComponent(named.username);
  if (named.password === '') return { token: first };
  return { user: first, password: decodeURIComponent(named.password) };
}

function parse(text: string): URL {
  const url = URL.canParse(text.trim()) ? new URL(text.trim()) : undefined;
  const isBus = url !== undefined && ['nats:', 'tls:'].includes(url.protocol) && url.hostname !== '';
  if (!isBus || !['', '/'].includes(url.pathname) || url.search !== '' || url.hash !== '')
    throw new TypeError(`The bus address must look like ${FORM}.`);
  return url;
}
