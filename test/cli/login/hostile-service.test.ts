import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';

import { createHome, json, startServe } from '../../acceptance/program.js';
import { runWords } from '../captured-run.js';

let server: Server | undefined;
afterEach(() => {
  server?.closeAllConnections();
  server?.close();
  server = undefined;
});

async function listen(answer: (response: ServerResponse, url: string) => void, port = 0): Promise<number> {
  server = createServer((request, response) => answer(response, request.url ?? ''));
  await new Promise<void>((resolve) => server?.listen(port, '127.0.0.1', resolve));
  return (server.address() as AddressInfo).port;
}

interface Failure {
  error: { code: string; exit_code: number; message: string; retry_after_ms?: number; next?: string[] };
}
const failureIn = (err: string): Failure['error'] => json<Failure>(err.trim().split('\n').at(-1) ?? '').error;

describe('a sign-in at a service that wastes its time', () => {
  const signIn = (port: number, timeout: string) =>
    runWords(`login @a.b --no-browser --json --timeout ${timeout} -p http://127.0.0.1:${port}/v1`, {
      environment: { ASP_TOKEN_STORE: 'file' },
    });

  it('ends at its deadline if the metadata never ends', async () => {
    const drips: NodeJS.Timeout[] = [];
    const port = await listen((response) => {
      response.writeHead(200, { 'content-type': 'application/json' });
      drips.push(setInterval(() => response.write(' '), 50));
    });
    const { code, err } = await signIn(port, '1s');
    for (const drip of drips) clearInterval(drip);
    expect(code).toBe(8);
    expect(failureIn(err)).toMatchObject({ code: 'ASP_TIMEOUT' });
  });

  it('ends at once and reports the true time if the service asks it to wait for years', async () => {
    const port = await listen((response) => void response.writeHead(429, { 'retry-after': '1000000000' }).end());
    const { code, err } = await signIn(port, '10m');
    expect(code).toBe(7);
    expect(failureIn(err)).toMatchObject({ code: 'RATE_LIMITED', retry_after_ms: 1_000_000_000_000 });
  });
});

describe('the port of a local service that has stopped', () => {
  it('never receives a token of its logins, no matter what listens there', async () => {
    const home = createHome();
    const service = await startServe(home, ['--demo']);
    const { port } = new URL(service.url);
    const next = ['asp', 'serve', '--port', port, '--data', service.data, '--demo'];
    await home.asp(['login', '@demo.you', '--yes', '--store', 'file']);
    expect(await home.asp(['whoami', '-p', service.url])).toMatchObject({ status: 0 });
    await service.stop();
    const received: string[] = [];
    await listen((response, url) => {
      received.push(url);
      response.writeHead(200, { 'content-type': 'application/json' }).end('{}');
    }, Number(port));
    for (const line of ['whoami', 'session list', 'auth refresh', 'auth token']) {
      const ended = await home.asp([...line.split(' '), '-p', service.url, '--json']);
      expect(ended.status).toBe(9);
      expect(failureIn(ended.stderr)).toMatchObject({ code: 'ASP_LOCAL_NOT_RUNNING', next });
    }
    const out = await home.asp(['logout', '@demo.you', '-p', service.url]);
    expect(out).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    expect(out.stderr).toContain('deleted here, but the service was not notified');
    expect(received).toEqual([]);
    await home.dispose();
  });
});
