import { readFileSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { join } from 'node:path';
import { createServer as createTlsServer } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Authority, type Certificate, createAuthority } from '../support/certificates.js';
import { type ConnectProxy, listen, startConnectProxy } from '../support/connect-proxy.js';
import { freePort } from '../support/free-port.js';
import { createHome, type Ended, type Home, json, missing, type Running } from './program.js';

const NAME = 'asp.test';
const LOGIN = 'worker:s3cret-of-the-proxy';
const noOpenssl = missing('openssl');

interface Front {
  readonly port: number;
  close(): void;
}

/** Starts a TLS proxy in front of the service on `port`. */
async function startFront({ certificate, key }: Certificate, port: number): Promise<Front> {
  const server = createTlsServer({ cert: readFileSync(certificate), key: readFileSync(key) }, (socket) => {
    const service = connect(port, '127.0.0.1');
    for (const one of [socket, service]) one.on('error', () => one.destroy());
    service.once('close', () => socket.destroy());
    socket.once('close', () => service.destroy());
    socket.pipe(service).pipe(socket);
  });
  server.on('tlsClientError', () => {});
  return { port: await listen(server), close: () => server.close() };
}

const failureOf = ({ stderr }: Ended) =>
  json<{ error: { code: string; message: string; hint?: string; next?: string[] } }>(
    stderr.trim().split('\n').at(-1) ?? '',
  ).error;

describe.skipIf(noOpenssl !== undefined)(`a service behind TLS and a proxy ${noOpenssl ?? ''}`, () => {
  let home: Home;
  let authority: Authority;
  let service: Running;
  let proxy: ConnectProxy;
  const fronts: Front[] = [];
  const clients = new Map<string, NodeJS.ProcessEnv>();

  beforeAll(async () => {
    home = createHome();
    authority = createAuthority(home.directory);
    service = home.start([
      ...['serve', '--port', '0', '--data', 'memory', '--behind-proxy', '--public-url', `https://${NAME}`],
      ...['--seed', 'a.bot,b.bot'],
    ]);
    const [, port = ''] = await service.until('stderr', /Listening on 127\.0\.0\.1:(\d+)/);
    const good = await startFront(authority.issue(NAME), Number(port));
    const expired = await startFront(authority.issue('old.test', { isExpired: true }), Number(port));
    const other = await startFront(authority.issue('other.test'), Number(port));
    fronts.push(good, expired, other);
    proxy = await startConnectProxy(
      { [`${NAME}:443`]: good.port, 'old.test:443': expired.port, 'wrong.test:443': other.port },
      LOGIN,
    );
    for (const handle of ['@a.bot', '@b.bot']) {
      const added = await home.asp(['serve', 'client', 'add', handle]);
      const client = json<{ client_id: string; client_secret: string }>(added.stdout);
      clients.set(handle, { ASP_CLIENT_ID: client.client_id, ASP_CLIENT_SECRET: client.client_secret });
    }
  });
  afterAll(async () => {
    service.kill('SIGINT');
    await service.ended;
    await proxy.close();
    for (const front of fronts) front.close();
    await home.dispose();
  });

  const environmentOf = (handle: string, name = NAME): NodeJS.ProcessEnv => ({
    ...clients.get(handle),
    ASP_PROFILE: `https://${name}/v1`,
    HTTPS_PROXY: `http://${LOGIN}@127.0.0.1:${proxy.port}`,
    NODE_EXTRA_CA_CERTS: authority.file,
  });
  const whoami = (environment: NodeJS.ProcessEnv, ...words: string[]): Promise<Ended> =>
    home.asp(['whoami', '--json', '--retries', '0', ...words], { environment });

  it('REST and WebSocket go through the proxy, whose password goes to the proxy alone and is shown nowhere', async () => {
    const before = proxy.asked.length;
    const ready = join(home.directory, 'ready');
    const tail = home.start(
      ['tail', '-c', '1', '--type', 'session.message', '--join', '--debug', '--ready-file', ready],
      {
        environment: environmentOf('@b.bot'),
      },
    );
    await expect.poll(() => home.exists('ready')).toBe(true);
    const sent = await home.asp(['send', 'b.bot', 'through the tunnel', '--json', '--debug'], {
      environment: environmentOf('@a.bot'),
    });
    expect(sent).toMatchObject({ status: 0 });
    const received = await tail.ended;
    expect(received).toMatchObject({ status: 0 });
    expect(json<{ payload: { content: string } }>(received.stdout).payload.content).toBe('through the tunnel');
    const asked = proxy.asked.slice(before);
    expect(new Set(asked.map(({ target }) => target))).toEqual(new Set([`${NAME}:443`]));
    expect(asked.length).toBeGreaterThan(2);
    expect(`${sent.stderr}${received.stderr}`).toContain('wss://asp.test/connect');
    const password = LOGIN.split(':')[1] ?? '';
    for (const shown of [password, Buffer.from(LOGIN).toString('base64')])
      expect(`${sent.stdout}${sent.stderr}${received.stdout}${received.stderr}`).not.toContain(shown);
  });

  it('login --yes approves at the service itself, not through the proxy that hides who calls', async () => {
    const environment = { ...environmentOf('@a.bot'), ASP_CLIENT_ID: '', ASP_CLIENT_SECRET: '' };
    const words = ['login', '@b.bot', '--yes', '--store', 'file', '--json'];
    const ended = await home.asp(words, { environment });
    expect(ended).toMatchObject({ status: 0 });
    expect(json(ended.stdout)).toMatchObject({ handle: '@b.bot' });
    expect(await home.asp(['whoami', '--as', 'b.bot'], { environment })).toMatchObject({ stdout: '@b.bot\n' });
  });

  it('a large file is uploaded through TLS without a warning', async () => {
    const file = join(home.directory, 'large.txt');
    writeFileSync(file, 'line of a large file\n'.repeat(470_000));
    const ended = await home.asp(['attachment', 'upload', file, '--json'], { environment: environmentOf('@a.bot') });
    expect(ended).toMatchObject({ status: 0, stderr: '' });
    expect(json<{ items: { size: number }[] }>(ended.stdout).items[0]?.size).toBeGreaterThan(9_800_000);
  });

  it('a proxy that refuses is reported as such, without its password', async () => {
    const wrong = { ...environmentOf('@a.bot'), HTTPS_PROXY: `http://worker:mistaken@127.0.0.1:${proxy.port}` };
    const ended = await whoami(wrong, '--debug');
    expect(ended.status).toBe(9);
    expect(failureOf(ended)).toMatchObject({ code: 'ASP_UNREACHABLE', message: expect.stringContaining('407') });
    expect(ended.stderr).not.toContain('mistaken');
    expect(failureOf(await whoami(environmentOf('@a.bot', 'elsewhere.test'))).message).toContain('status 403');
  });

  it('NO_PROXY, even with ports, and this machine itself bypass the proxy', async () => {
    const before = proxy.asked.length;
    for (const exception of [NAME, `${NAME}:443`, '.test', '*']) {
      const environment = { ...environmentOf('@a.bot'), NO_PROXY: exception };
      expect(failureOf(await whoami(environment))).toMatchObject({ code: 'ASP_UNREACHABLE' });
    }
    expect(proxy.asked).toHaveLength(before);
    expect(await whoami({ ...environmentOf('@a.bot'), NO_PROXY: `${NAME}:8443,other.test` })).toMatchObject({
      status: 0,
    });
    const past = proxy.asked.length;
    expect(past).toBeGreaterThan(before);
    expect(await home.asp(['serve', 'status'], { environment: environmentOf('@a.bot') })).toMatchObject({ status: 0 });
    expect(proxy.asked).toHaveLength(past);
  });

  it('an unknown authority is refused with a fix, and accepted once it is configured', async () => {
    const unknown = await whoami({ ...environmentOf('@a.bot'), NODE_EXTRA_CA_CERTS: undefined });
    expect(unknown.status).toBe(9);
    expect(failureOf(unknown)).toMatchObject({
      code: 'ASP_TLS',
      hint: 'its certificate authority is unknown here. To add your own, set NODE_EXTRA_CA_CERTS=<file.pem>.',
      next: ['asp', 'doctor'],
    });
    expect(await whoami(environmentOf('@a.bot'))).toMatchObject({ status: 0 });
  });

  it('a certificate that has expired, or is for a different name, is refused', async () => {
    expect(failureOf(await whoami(environmentOf('@a.bot', 'old.test')))).toMatchObject({
      code: 'ASP_TLS',
      hint: expect.stringContaining('not valid today'),
    });
    expect(failureOf(await whoami(environmentOf('@a.bot', 'wrong.test')))).toMatchObject({
      code: 'ASP_TLS',
      hint: expect.stringContaining('a different name'),
    });
  });

  it('nothing in the environment turns off the check, for requests or sockets', async () => {
    const environment = {
      ...environmentOf('@a.bot'),
      NODE_EXTRA_CA_CERTS: undefined,
      NODE_TLS_REJECT_UNAUTHORIZED: '0',
    };
    expect(failureOf(await whoami(environment))).toMatchObject({ code: 'ASP_TLS' });
    const tokens = { ...environment, ASP_CLIENT_ID: undefined, ASP_TOKEN: 'x', ASP_WS_TOKEN: 'y' };
    const tail = await home.asp(['tail', '--json', '--retries', '0'], { environment: tokens });
    expect(failureOf(tail)).toMatchObject({ code: 'ASP_TLS' });
  });
});

describe.skipIf(noOpenssl !== undefined)(`a service that speaks TLS itself ${noOpenssl ?? ''}`, () => {
  it('is used by programs that trust its authority, and by no others', async () => {
    const home = createHome();
    const authority = createAuthority(home.directory);
    const { certificate, key } = authority.issue('localhost');
    const port = await freePort();
    const url = `https://localhost:${port}`;
    const trusting = { NODE_EXTRA_CA_CERTS: authority.file };
    const service = home.start(
      [
        ...['serve', '--port', String(port), '--data', 'memory', '--demo', '--public-url', url],
        ...['--tls-cert', certificate, '--tls-key', key],
      ],
      { environment: trusting },
    );
    try {
      await service.until('stderr', /Ready/);
      const added = await home.asp(['serve', 'client', 'add', '@alice.bot']);
      const client = json<{ client_id: string; client_secret: string }>(added.stdout);
      const environment = {
        ASP_CLIENT_ID: client.client_id,
        ASP_CLIENT_SECRET: client.client_secret,
        ASP_PROFILE: `${url}/v1`,
      };
      const words = ['send', '@demo.echo', 'over TLS', '--wait', '--quiet'];
      const sent = await home.asp(words, { environment: { ...environment, ...trusting } });
      expect(sent).toMatchObject({ status: 0, stdout: 'over TLS\n' });
      const refused = await home.asp(['whoami', '--json', '--retries', '0'], { environment });
      expect(refused.status).toBe(9);
      expect(failureOf(refused).message).toMatch(/certificate/);
      const second = await home.asp(['serve', '--port', String(port), '--data', 'memory', '--json']);
      expect(failureOf(second).message).toContain(`The local service is already running at ${url}/v1 `);
    } finally {
      service.kill('SIGINT');
      await service.ended;
      await home.dispose();
    }
  });
});
