import { spawnSync } from 'node:child_process';
import { X509Certificate } from 'node:crypto';
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { connect as connectTls, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';

import { OperatorError } from '../../src/service/core/errors.js';
import { type RunningService, type ServiceOptions, startService } from '../../src/service/service.js';
import { REQUESTS_PER_ADDRESS_MAX } from '../../src/wire/limit.js';
import { type Authority, type Certificate, createAuthority } from '../support/certificates.js';
import { createTestClock } from '../support/clock.js';
import { freePort } from '../support/free-port.js';
import { request } from '../support/http.js';
import { until } from '../support/until.js';

const hasOpenssl = spawnSync('openssl', ['version']).status === 0;
const NEW_CONNECTIONS_MAX = 1_000;
const LOOK_MS = 60_000;

const expiryOf = ({ certificate }: Certificate): number =>
  Date.parse(new X509Certificate(readFileSync(certificate)).validTo) / 1000;

describe.skipIf(!hasOpenssl)(`a service that speaks TLS${hasOpenssl ? '' : ' (openssl is not installed)'}`, () => {
  let folder: string;
  let authority: Authority;
  let good: Certificate;
  const running: RunningService[] = [];
  const open = new Set<Socket>();
  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), 'asp-tls-'));
    authority = createAuthority(folder);
    good = authority.issue('127.0.0.1');
  });
  afterEach(async () => {
    for (const socket of open) socket.destroy();
    open.clear();
    for (const service of running.splice(0)) await service.stop();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  async function start(options: Partial<ServiceOptions> = {}): Promise<RunningService> {
    const service = await startService({ host: '127.0.0.1', port: 0, data: 'memory', certificate: good, ...options });
    running.push(service);
    return service;
  }

  async function openTls(
    { port }: Pick<RunningService, 'port'>,
    servername = 'localhost',
    localAddress = '127.0.0.1',
  ): Promise<TLSSocket> {
    const ca = readFileSync(authority.file);
    const checkServerIdentity = () => undefined;
    const under = connect({ host: '127.0.0.1', port, localAddress });
    const socket = connectTls({ socket: under, ca, servername, checkServerIdentity });
    open.add(socket);
    socket.on('error', () => {});
    await new Promise((resolve, reject) => socket.once('secureConnect', resolve).once('close', reject));
    return socket;
  }

  /** Sends one request on an open connection and returns everything that has arrived when `end` has. */
  async function ask(socket: TLSSocket, path: string, port: number, end: string, more = ''): Promise<string> {
    let text = '';
    const listen = (data: Buffer): void => {
      text += data;
    };
    socket.on('data', listen);
    socket.write(`GET ${path} HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\n${more}\r\n`);
    await until(`${end} has arrived`, async () => text.includes(end));
    socket.off('data', listen);
    return text;
  }

  const failure = (options: Partial<ServiceOptions>): Promise<string> =>
    start(options).then(
      () => 'it started',
      (error) => (error instanceof OperatorError ? `${error.code}: ${error.message}` : String(error)),
    );

  it('has https and wss addresses, serves both, and stays on one connection after a proposal of another protocol', async () => {
    const service = await start();
    const { port } = service;
    expect(service.baseUrl).toBe(`https://127.0.0.1:${port}/v1`);
    expect(service.wsUrl).toBe(`wss://127.0.0.1:${port}/connect`);
    const socket = await openTls(service);
    expect(await ask(socket, '/health', port, '"ok":true')).toMatch(/^HTTP\/1\.1 200/);
    const proposal = 'connection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABkAARAAAAA\r\n';
    for (const again of ['first', 'second'])
      expect(await ask(socket, '/health', port, '"ok":true', proposal), again).toMatch(/^HTTP\/1\.1 200/);
    const ca = readFileSync(authority.file);
    const live = new WebSocket(service.wsUrl, { ca });
    const status = await new Promise((resolve, reject) => {
      live.once('unexpected-response', (_request, { statusCode }) => resolve(statusCode)).once('error', reject);
    });
    expect(status).toBe(401);
  });

  it('gives the operator a loopback port without TLS, as behind a proxy', async () => {
    const service = await start();
    expect(new URL(service.operatorUrl)).toMatchObject({ protocol: 'http:', hostname: '127.0.0.1' });
    expect(new URL(service.operatorUrl).port).not.toBe(String(service.port));
    const outside = await ask(await openTls(service), '/operator/status', service.port, '}');
    expect(outside).toMatch(/^HTTP\/1\.1 404/);
  });

  it('sees the addresses of its clients, and may listen on every interface', async () => {
    const port = await freePort();
    const certificate = authority.issue('asp.test');
    const service = await start({ host: '0.0.0.0', port, publicUrl: `https://asp.test:${port}`, certificate });
    expect(service.isAddressShared).toBe(false);
    expect(service.baseUrl).toBe(`https://asp.test:${port}/v1`);
    expect(await ask(await openTls(service), '/health', port, '"ok":true')).toMatch(/^HTTP\/1\.1 200/);
  });

  it('has clients that share an address if it listens only on loopback for a public URL', async () => {
    const certificate = authority.issue('asp.test');
    const service = await start({ publicUrl: 'https://asp.test', certificate });
    expect(service.isAddressShared).toBe(true);
  });

  it(`answers at most ${REQUESTS_PER_ADDRESS_MAX} requests of one address at once`, async () => {
    const certificate = authority.issue('asp.test');
    const service = await start({ host: '0.0.0.0', publicUrl: 'https://asp.test', certificate });
    const status = async (localAddress?: string): Promise<number> => {
      const socket = await openTls(service, 'localhost', localAddress);
      const text = await ask(socket, '/health', service.port, '\r\n\r\n');
      socket.destroy();
      return Number(text.split(' ')[1]);
    };
    const head = ['POST /token HTTP/1.1', 'host: x', 'content-length: 100'];
    for (let count = 0; count < REQUESTS_PER_ADDRESS_MAX; count += 1) {
      const socket = await openTls(service);
      socket.write(`${[...head, 'content-type: application/x-www-form-urlencoded'].join('\r\n')}\r\n\r\n`);
    }
    await until('the address is refused', async () => (await status()) === 429);
    expect(await status('127.0.0.2')).toBe(200);
  });

  it('encrypts the ports for operators and for metrics where other machines reach them, and only there', async () => {
    const token = 'a'.repeat(32);
    const certificate = authority.issue('127.0.0.2');
    const shared = { certificate, publicUrl: 'https://127.0.0.2', metricsPort: 0, metricsToken: token };
    const tokens = [{ name: 'maria', token }];
    const headers = { authorization: `Bearer ${token}` };
    const near = await start({ ...shared, remoteOperators: { host: '127.0.0.1', port: 0, tokens } });
    expect((await request(`${near.remoteOperatorUrl}/status`, { headers })).status).toBe(200);
    expect((await request(near.metricsUrl ?? '', { headers })).status).toBe(200);
    const far = await start({
      ...{ ...shared, metricsHost: '0.0.0.0' },
      remoteOperators: { host: '0.0.0.0', port: 0, tokens },
    });
    for (const url of [`${far.remoteOperatorUrl}/status`, far.metricsUrl ?? '']) {
      expect(url).toMatch(/^https:\/\/0\.0\.0\.0:/);
      const { port, pathname } = new URL(url);
      const socket = await openTls({ port: Number(port) });
      const text = await ask(socket, pathname, Number(port), '\r\n\r\n', `authorization: Bearer ${token}\r\n`);
      expect(text).toMatch(/^HTTP\/1\.1 200/);
      await expect(request(url.replace('https://0.0.0.0', 'http://127.0.0.1'), { headers })).rejects.toThrow();
    }
  });

  it(`closes the oldest of more than ${NEW_CONNECTIONS_MAX} connections that never ask, not one that has asked`, async () => {
    const service = await start();
    const { port } = service;
    const known = await openTls(service);
    await ask(known, '/health', port, '"ok":true');
    const silent: Socket[] = [];
    for (let count = 0; count < NEW_CONNECTIONS_MAX + 5; count += 1) {
      const socket = connect({ host: '127.0.0.1', port });
      open.add(socket);
      socket.on('error', () => {});
      await new Promise((resolve) => socket.once('connect', resolve));
      silent.push(socket);
    }
    await until('the oldest are closed', async () => {
      const [oldest] = silent;
      oldest?.resume();
      return oldest?.closed === true;
    });
    expect(await ask(known, '/health', port, '"ok":true')).toMatch(/^HTTP\/1\.1 200/);
    expect(await ask(await openTls(service), '/health', port, '"ok":true')).toMatch(/^HTTP\/1\.1 200/);
  });

  it('closes a connection that does not finish its handshake within ten seconds', async () => {
    const { port } = await start();
    const silent = connect({ host: '127.0.0.1', port });
    open.add(silent);
    silent.write(Buffer.from('16030100c8010000c40303', 'hex'));
    await new Promise((resolve) => silent.once('close', resolve).resume());
  });

  it('stops at once while connections have not finished their handshakes', async () => {
    const service = await startService({ host: '127.0.0.1', port: 0, data: 'memory', certificate: good });
    const silent = connect({ host: '127.0.0.1', port: service.port });
    open.add(silent);
    silent.on('error', () => {}).resume();
    await new Promise((resolve) => silent.once('connect', resolve));
    expect(await ask(await openTls(service), '/health', service.port, '"ok":true')).toMatch(/^HTTP\/1\.1 200/);
    await service.stop();
  });

  it('serves a renewed certificate within a minute; open connections continue, and an unusable one is reported once', async () => {
    const clock = createTestClock(Date.now());
    /** How many timers wait for a minute: the next look is among them once a look has ended. */
    let waiting = 0;
    const counted = {
      ...clock,
      schedule(delayMs: number, action: () => void) {
        if (delayMs !== LOOK_MS) return clock.schedule(delayMs, action);
        waiting += 1;
        return clock.schedule(delayMs, () => {
          waiting -= 1;
          action();
        });
      },
    };
    const lines: string[] = [];
    const log = {
      info: (event: string) => void lines.push(event),
      warn: (event: string) => void lines.push(event),
      error: (event: string, error: unknown) => void lines.push(`${event}: ${(error as Error).message}`),
    };
    const [certificate, key] = [join(folder, 'live.pem'), join(folder, 'live.key')];
    const put = (from: Certificate): void => {
      copyFileSync(from.certificate, certificate);
      copyFileSync(from.key, key);
    };
    put(good);
    const service = await start({ clock: counted, log, certificate: { certificate, key }, metricsPort: 0 });
    const expiry = async (): Promise<number> => {
      const { text } = await request(service.metricsUrl ?? '');
      return Number(/^asp_certificate_expiry_timestamp_seconds (\S+)$/m.exec(text)?.[1]);
    };
    const serial = async (): Promise<string> => (await openTls(service)).getPeerCertificate().serialNumber;
    const before = await openTls(service);
    const first = await serial();

    const next = authority.issue('127.0.0.1');
    copyFileSync(next.certificate, certificate);
    for (let round = 0; round < 3; round += 1) {
      const before = waiting;
      clock.advance(LOOK_MS);
      expect(waiting).toBeLessThan(before);
      await until('it has looked', async () => waiting === before);
    }
    expect(lines.filter((line) => line.startsWith('certificate_'))).toEqual([
      `certificate_not_renewed: The key in ${key} does not belong to the certificate in ${certificate}.`,
    ]);
    expect(await serial()).toBe(first);

    const soon = await expiry();
    expect(soon).toBe(expiryOf(good));
    put(next);
    await until('it is renewed', async () => {
      clock.advance(LOOK_MS);
      return lines.includes('certificate_renewed');
    });
    expect(await serial()).not.toBe(first);
    expect(await expiry()).toBe(expiryOf(next));
    expect(await ask(before, '/health', service.port, '"ok":true')).toMatch(/^HTTP\/1\.1 200/);

    copyFileSync(good.certificate, certificate);
    await until('a later fault is reported again', async () => {
      clock.advance(LOOK_MS);
      return lines.filter((line) => line.startsWith('certificate_not_renewed')).length === 2;
    });
  });

  describe('does not start', () => {
    const refused = (why: string): string => `CERTIFICATE_NOT_USABLE: ${why}`;

    it('if a file cannot be read or has other contents', async () => {
      const { certificate, key } = good;
      const none = join(folder, 'none.pem');
      expect(await failure({ certificate: { certificate: none, key } })).toMatch(
        new RegExp(refused(`Cannot read ${none}: ENOENT`)),
      );
      expect(await failure({ certificate: { certificate: key, key } })).toBe(
        refused(`${key} contains no certificate in PEM.`),
      );
      expect(await failure({ certificate: { certificate, key: certificate } })).toBe(
        refused(`${certificate} contains no private key without a passphrase in PEM.`),
      );
      const sealed = join(folder, 'sealed.key');
      spawnSync('openssl', ['ec', '-in', key, '-aes256', '-passout', 'pass:secret', '-out', sealed]);
      expect(readFileSync(sealed, 'utf8')).toContain('ENCRYPTED');
      expect(await failure({ certificate: { certificate, key: sealed } })).toBe(
        refused(`${sealed} contains no private key without a passphrase in PEM.`),
      );
      const empty = join(folder, 'empty.pem');
      writeFileSync(empty, '');
      expect(await failure({ certificate: { certificate: empty, key } })).toBe(
        refused(`${empty} contains no certificate in PEM.`),
      );
    });

    it('with the key of another certificate', async () => {
      const { key } = authority.issue('127.0.0.1');
      expect(await failure({ certificate: { certificate: good.certificate, key } })).toBe(
        refused(`The key in ${key} does not belong to the certificate in ${good.certificate}.`),
      );
    });

    it('with a certificate that has expired, is not valid yet, or is for another name', async () => {
      const expired = authority.issue('127.0.0.1', { isExpired: true });
      expect(await failure({ certificate: expired })).toMatch(/The certificate in .* expired on \d{4}-\d\d-\d\d\.$/);
      const early = createTestClock(Date.now() - 86_400_000);
      expect(await failure({ clock: early })).toMatch(/is not valid before \d{4}-\d\d-\d\d\.$/);
      const other = authority.issue('other.test');
      expect(await failure({ certificate: other })).toBe(
        refused(`The certificate in ${other.certificate} is for other.test, not for 127.0.0.1.`),
      );
      expect(await failure({ certificate: other, publicUrl: 'https://asp.test' })).toBe(
        refused(`The certificate in ${other.certificate} is for other.test, not for asp.test.`),
      );
      expect(await failure({ certificate: other, publicUrl: 'https://asp.test', isBehindProxy: true })).toBe(
        'it started',
      );
    });

    it('with a certificate that has its name only in the subject, which browsers ignore', async () => {
      const [certificate, key] = [join(folder, 'old.pem'), join(folder, 'old.key')];
      const words = ['req', '-x509', '-nodes', '-newkey', 'rsa:2048', '-subj', '/CN=asp.test'];
      spawnSync('openssl', [...words, '-keyout', key, '-out', certificate]);
      expect(await failure({ certificate: { certificate, key }, publicUrl: 'https://asp.test' })).toBe(
        refused(`The certificate in ${certificate} is for no name, not for asp.test.`),
      );
    });

    it.each(['its own key', 'the key of its authority'])(
      'with a certificate that clients refuse: %s is too short',
      async (whose) => {
        const [certificate, key] = [join(folder, 'short.pem'), join(folder, 'short.key')];
        const short = ['req', '-x509', '-nodes', '-newkey', 'rsa:1024', '-keyout', key, '-out', certificate];
        spawnSync('openssl', [...short, '-subj', '/CN=short', '-addext', 'subjectAltName=IP:127.0.0.1']);
        const chain = join(folder, 'chain.pem');
        writeFileSync(chain, [good.certificate, certificate].map((path) => readFileSync(path, 'utf8')).join(''));
        const files = whose === 'its own key' ? { certificate, key } : { certificate: chain, key: good.key };
        expect(await failure({ certificate: files })).toBe(
          refused(`A key in ${files.certificate} is too short: clients refuse RSA keys of less than 2048 bits.`),
        );
      },
    );

    it('with a public URL that is not encrypted', async () => {
      expect(await failure({ publicUrl: 'http://127.0.0.1' })).toBe(
        'INVALID_PUBLIC_URL: With a certificate, the public URL must begin with https://.',
      );
    });
  });
});
