import { chmodSync, chownSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as dialSecurely, TLSSocket } from 'node:tls';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { readDatabaseAddress } from '../../../../src/service/store/database-address.js';
import { openPostgres } from '../../../../src/service/store/postgres.js';
import { type Certificate, createAuthority } from '../../../support/certificates.js';
import { type PrivatePostgres, startPrivatePostgres, whyNoPrivatePostgres } from '../../../support/private-postgres.js';

const whyNot = whyNoPrivatePostgres();
const PASSWORD = 'CANARY-password';

/** How each user signs in. */
const USERS = { bound: 'scram-sha-256', plain: 'password', hashed: 'md5', open: 'trust' } as const;

describe.skipIf(whyNot !== undefined)(`channel_binding in the URL of a database ${whyNot ?? ''}`, () => {
  let folder: string;
  let server: PrivatePostgres;
  let between: Between;
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'asp-binding-'));
    const authority = createAuthority(folder);
    server = await startPrivatePostgres();
    await speakTls(server, authority.issue('server'));
    between = await startBetween(server.port, authority.issue('between'));
  });
  afterAll(async () => {
    between.close();
    await server.stop();
    rmSync(folder, { recursive: true, force: true });
  });

  const urlOf = (port: number, parameters: string, user: keyof typeof USERS = 'bound'): string =>
    `postgres://${user}:${PASSWORD}@127.0.0.1:${port}/postgres?${parameters}`;
  const open = async (url: string): Promise<void> => (await openPostgres(url)).close();

  it.each(['disable', 'prefer', 'require'])('%s: the service uses the server', async (binding) => {
    await open(urlOf(server.port, `sslmode=no-verify&channel_binding=${binding}`));
  });

  it('prefer and require: someone in between who has another certificate is noticed', async () => {
    for (const binding of ['prefer', 'require'])
      await expect(open(urlOf(between.port, `sslmode=no-verify&channel_binding=${binding}`))).rejects.toThrow(
        /someone may be in between/,
      );
    await open(urlOf(between.port, 'sslmode=no-verify&channel_binding=disable'));
  });

  it.each(['plain', 'hashed', 'open'] as const)(
    'require: a server that does not offer it (%s) is refused, and gets no password',
    async (user) => {
      const url = (binding: string): string =>
        urlOf(between.port, `sslmode=no-verify&channel_binding=${binding}`, user);
      between.heard.length = 0;
      await expect(open(url('require'))).rejects.toMatchObject({
        code: 'DATABASE_NOT_USABLE',
        message: expect.stringMatching(
          /channel_binding=require, and the server does not offer it.*sslmode=verify-full/,
        ),
      });
      // The message with a password begins with p.
      expect(between.heard.filter((part) => part.startsWith('p'))).toEqual([]);
      await open(url('prefer'));
      expect(between.heard.some((part) => part.startsWith('p'))).toBe(user !== 'open');
    },
  );

  it('require: a connection that is not encrypted is refused', async () => {
    await expect(open(urlOf(server.port, 'channel_binding=require'))).rejects.toThrow(
      /needs TLS from here to the server/,
    );
    await open(urlOf(server.port, 'channel_binding=prefer'));
  });
});

describe('a parameter in the URL of a database', () => {
  it('is refused if it is there twice', () => {
    for (const twice of ['sslmode=verify-full&sslmode=disable', 'search_path=a&search_path=b', 'user=a&host=h&user=b'])
      expect(() => readDatabaseAddress(`postgres://h/d?${twice}`)).toThrow(
        /has (sslmode|search_path|user) more than once/,
      );
  });

  it('is refused if channel_binding has another value', () => {
    expect(() => readDatabaseAddress('postgres://h/d?channel_binding=on')).toThrow(/Use disable, prefer or require/);
  });
});

/** Gives the server a certificate and users with passwords. */
async function speakTls(server: PrivatePostgres, { certificate, key }: Certificate): Promise<void> {
  const client = new pg.Client({ connectionString: server.url });
  await client.connect();
  const { rows } = await client.query<{ folder: string }>("SELECT current_setting('data_directory') AS folder");
  const [{ folder } = { folder: '' }] = rows;
  const { uid, gid } = statSync(folder);
  for (const [from, to] of [
    [certificate, 'server.crt'],
    [key, 'server.key'],
  ] as const) {
    const file = join(folder, to);
    writeFileSync(file, readFileSync(from));
    chmodSync(file, 0o600);
    chownSync(file, uid, gid);
  }
  await client.query('ALTER SYSTEM SET ssl = on');
  for (const [name, method] of Object.entries(USERS)) {
    await client.query(`SET password_encryption = '${method === 'md5' ? 'md5' : 'scram-sha-256'}'`);
    await client.query(`CREATE ROLE ${name} SUPERUSER LOGIN PASSWORD '${PASSWORD}'`);
  }
  await client.end();
  const rules = Object.entries({ ...USERS, postgres: 'trust' }).map(
    ([name, how]) => `host all ${name} 127.0.0.1/32 ${how}`,
  );
  writeFileSync(join(folder, 'pg_hba.conf'), `${rules.join('\n')}\n`);
  await server.restartImmediately();
}

/** Someone between a client and a server who decrypts what they say to each other. */
interface Between {
  readonly port: number;
  /** What clients said. */
  readonly heard: string[];
  close(): void;
}

/** The first message of a client that wants TLS (PostgreSQL: Message Formats, SSLRequest). */
const SSL_REQUEST = Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]);

async function startBetween(port: number, { certificate, key }: Certificate): Promise<Between> {
  const heard: string[] = [];
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    return socket.on('error', () => {}).on('close', () => sockets.delete(socket));
  };
  const listener = createServer((client) => {
    keep(client).once('data', () => {
      const upstream = keep(dial(port, '127.0.0.1', () => upstream.write(SSL_REQUEST)));
      upstream.once('data', () => {
        const there = keep(dialSecurely({ socket: upstream, rejectUnauthorized: false }));
        const here = keep(
          new TLSSocket(client, { isServer: true, cert: readFileSync(certificate), key: readFileSync(key) }),
        );
        here.on('data', (part) => heard.push(part.toString('latin1')));
        here.pipe(there).pipe(here);
        client.write('S');
      });
    });
  });
  await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve));
  return {
    port: (listener.address() as AddressInfo).port,
    heard,
    close() {
      for (const socket of sockets) socket.destroy();
      listener.close();
    },
  };
}
