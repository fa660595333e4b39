import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { isStartError } from '../../src/service/core/errors.js';
import { type ServiceOptions, startService } from '../../src/service/service.js';
import { loadSqlite } from '../../src/service/store/sqlite-driver.js';
import { operate } from '../support/actors.js';
import { list, text } from '../support/json.js';
import { rawBytes } from '../support/raw-http.js';
import { startTestService } from '../support/service.js';
import { until } from '../support/until.js';

let directory: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'asp-start-'));
});
afterAll(() => rm(directory, { recursive: true, force: true }));

const BASE: ServiceOptions = { host: '127.0.0.1', port: 0, data: 'memory' };
const failure = async (options: Partial<ServiceOptions>): Promise<unknown> => {
  try {
    const service = await startService({ ...BASE, ...options });
    await service.stop();
    return 'it started';
  } catch (error) {
    return isStartError(error) ? error.code : error;
  }
};

it('a service that is starting does not answer a handshake with a 404', async () => {
  const free = createServer().listen(0, '127.0.0.1');
  await once(free, 'listening');
  const { port } = free.address() as AddressInfo;
  free.close();
  await once(free, 'close');
  const handshake = [
    'GET /connect HTTP/1.1',
    `host: 127.0.0.1:${port}`,
    'connection: Upgrade',
    'upgrade: websocket',
    'sec-websocket-version: 13',
    'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
    '\r\n',
  ].join('\r\n');
  const statuses = new Set<string | undefined>();
  let isOver = false;
  const knock = async (): Promise<void> => {
    while (!isOver) {
      const answer = await new Promise<string>((resolve) => {
        const socket = connect({ host: '127.0.0.1', port }, () => socket.write(handshake));
        socket.on('error', () => resolve('')).on('close', () => resolve(''));
        socket.once('data', (bytes) => {
          socket.destroy();
          resolve(bytes.toString());
        });
      });
      statuses.add(answer.split(' ')[1]);
    }
  };
  const knocking = Array.from({ length: 8 }, knock);
  for (let round = 0; round < 10; round += 1) await (await startService({ ...BASE, port })).stop();
  isOver = true;
  await Promise.all(knocking);
  statuses.delete(undefined);
  expect(statuses).toContain('503');
  expect(statuses).not.toContain('404');
});

describe('a service does not start', () => {
  it('on a port in use, and says so', async () => {
    const other = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => other.once('listening', resolve));
    expect(await failure({ port: (other.address() as AddressInfo).port })).toBe('PORT_IN_USE');
    other.close();
  });

  it('on an address that is not its own', async () => {
    expect(await failure({ host: '192.0.2.1', isBehindProxy: true })).toBe('ADDRESS_NOT_AVAILABLE');
  });

  it('on data that another one uses, and frees its port and data', async () => {
    const first = await startService({ ...BASE, data: { directory } });
    expect(await failure({ data: { directory } })).toBe('DATA_IN_USE');
    await first.stop();
    expect(await failure({ data: { directory }, port: first.port })).toBe('it started');
  });

  it('if others could read the tokens: beyond loopback without https or a proxy', async () => {
    expect(await failure({ host: '0.0.0.0' })).toBe('NOT_ENCRYPTED');
    expect(await failure({ host: '0.0.0.0', publicUrl: 'http://asp.example' })).toBe('NOT_ENCRYPTED');
    expect(await failure({ publicUrl: 'http://asp.example' })).toBe('NOT_ENCRYPTED');
    expect(await failure({ host: '0.0.0.0', publicUrl: 'https://asp.example' })).toBe('NOT_ENCRYPTED');
    expect(await failure({ host: '0.0.0.0', publicUrl: 'https://127.0.0.1' })).toBe('NOT_ENCRYPTED');
    expect(await failure({ host: '0.0.0.0', publicUrl: 'https://asp.example', isBehindProxy: true })).toBe(
      'it started',
    );
    expect(await failure({ publicUrl: 'https://asp.example' })).toBe('it started');
    expect(await failure({ host: '0.0.0.0', isBehindProxy: true })).toBe('it started');
  });

  it('if its last step fails, and then ends what it had started', async () => {
    const data = { directory: join(directory, 'late') };
    expect(await failure({ data })).toBe('it started');
    const file = (await loadSqlite())(join(data.directory, 'asp.sqlite'));
    file.exec(
      "CREATE TRIGGER no_keys BEFORE UPDATE OF push_keys ON service_key BEGIN SELECT RAISE(ABORT, 'no keys'); END",
    );
    file.close();
    const tokens = [{ name: '', token: 'a'.repeat(32) }];
    const late: Partial<ServiceOptions> = {
      ...{ data, isBehindProxy: true, metricsPort: 0, remoteOperators: { host: '127.0.0.1', port: 0, tokens } },
      webPush: 'mailto:ops@asp.example',
    };
    const count = (kind: string): number => process.getActiveResourcesInfo().filter((name) => name === kind).length;
    const [servers, timers] = [count('TCPServerWrap'), count('Timeout')];
    expect(String(await failure(late))).toContain('no keys');
    // Those of earlier tests in this process may end in the meantime.
    await until(
      'all ports and timers are gone',
      async () => count('TCPServerWrap') <= servers && count('Timeout') <= timers,
    );
    const open = await startService({
      ...BASE,
      isBehindProxy: true,
      metricsPort: 0,
      remoteOperators: { host: '127.0.0.1', port: 0, tokens },
    });
    const ports = [open.baseUrl, open.operatorUrl, open.metricsUrl, open.remoteOperatorUrl];
    expect(new Set(ports.map((url) => new URL(url ?? '').port)).size).toBe(4);
    expect(count('TCPServerWrap')).toBeGreaterThanOrEqual(4);
    await open.stop();
  });

  it('with an invalid public URL', async () => {
    for (const publicUrl of ['asp.example', 'ftp://asp.example', 'https://a:b@asp.example', 'https://asp.example/?x=1'])
      expect(await failure({ publicUrl }), publicUrl).toBe('INVALID_PUBLIC_URL');
  });

  it('with a public URL below a path of its host, where neither pages nor metadata would be found', async () => {
    for (const publicUrl of ['https://asp.example/asp', 'https://asp.example/v1/'])
      expect(await failure({ publicUrl }), publicUrl).toBe('INVALID_PUBLIC_URL');
  });
});

describe('the addresses of a service', () => {
  it('come from its configuration', async () => {
    const service = await startService({ ...BASE, publicUrl: 'https://asp.example/' });
    const { baseUrl, authUrl, webUrl, wsUrl } = service;
    await service.stop();
    expect({ baseUrl, authUrl, webUrl, wsUrl }).toEqual({
      baseUrl: 'https://asp.example/v1',
      authUrl: 'https://asp.example',
      webUrl: 'https://asp.example',
      wsUrl: 'wss://asp.example/connect',
    });
  });

  it('are the only ones a loopback service answers to (DNS rebinding)', async () => {
    const service = await startService(BASE);
    const url = `http://127.0.0.1:${service.port}/health`;
    const ask = async (host: string): Promise<string> => (await rawAs(url, host)).slice(9, 12);
    for (const host of [`127.0.0.1:${service.port}`, `localhost:${service.port}`, `LOCALHOST:${service.port}`])
      expect(await ask(host), host).toBe('200');
    for (const host of [
      '127.0.0.1',
      'evil.example',
      `evil.example:${service.port}`,
      `localhost.evil.example:${service.port}`,
    ])
      expect(await ask(host), host).toBe('403');
    await service.stop();
  });
});

describe('seeds', () => {
  it('exist from the start, open by default, and once', async () => {
    const options: Partial<ServiceOptions> = {
      data: { directory: join(directory, 'seeds') },
      seeds: [{ handle: '@alice.bot' }, { handle: '@alice.two', inboundPolicy: 'allowlist' }, { handle: '@bob.bot' }],
    };
    for (const _ of ['the first start', 'the second']) {
      const service = await startTestService(options);
      const agents = list(await operate(service.operator, 'GET', '/agents'), 'agents');
      expect(agents.map((agent) => [text(agent, 'handle'), text(agent, 'inbound_policy')])).toEqual([
        ['@alice.bot', 'open'],
        ['@alice.two', 'allowlist'],
        ['@bob.bot', 'open'],
      ]);
      await service.stop();
    }
  });
});

/** Sends a request whose Host header differs from its connection's address. */
async function rawAs(url: string, host: string): Promise<string> {
  const { hostname, port, pathname } = new URL(url);
  const head = `GET ${pathname} HTTP/1.1\r\nhost: ${host}\r\nconnection: close\r\n\r\n`;
  return (await rawBytes(hostname, Number(port), head)).toString('latin1');
}
