import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, json, jsonLines, startServe } from '../../acceptance/program.js';
import { request } from '../../support/http.js';
import { until } from '../../support/until.js';

interface Line {
  line: string;
  entry: { event?: string; route?: string } | null;
}

const DETACHED = ['serve', '--port', '0', '--data', 'memory', '--detach'];

describe('asp serve logs', () => {
  let home: Home;
  beforeEach(() => {
    home = createHome();
  });
  afterEach(async () => {
    await home.run(['serve', 'stop']);
    await home.dispose();
  });
  const detach = async (...words: string[]): Promise<string> => {
    const { status, stdout, stderr } = await home.asp([...DETACHED, ...words]);
    expect(status, stderr).toBe(0);
    return stdout.trim();
  };
  const folder = (): string => join(home.directory, 'run/asp-cli/serve');

  /** A request is logged after it has been answered. */
  const logged = (text: string): Promise<boolean> =>
    until(text, async () => (await home.run(['serve', 'logs'])).stdout.includes(text));

  it('shows the log of the background service; -n limits it to the last N lines', async () => {
    const url = await detach('--log', 'json');
    for (const path of ['/health', '/openapi.json']) await request(`${new URL(url).origin}${path}`);
    await logged('"route":"/openapi.json"');
    const all = await home.run(['serve', 'logs']);
    expect(all).toMatchObject({ status: 0, stderr: '' });
    expect(all.stdout).toContain('Ready.');
    expect(all.stdout).not.toContain('Ctrl-C');
    const last = all.stdout.trimEnd().split('\n').slice(-2);
    expect((await home.run(['serve', 'logs', '-n', '2'])).stdout).toBe(`${last.join('\n')}\n`);
    expect((await home.run(['serve', 'logs', '-n', '0'])).stdout).toBe('');
  });

  it('--json prints one document per line, with the parsed entry if the line is JSON', async () => {
    const url = await detach('--log', 'json');
    await request(`${new URL(url).origin}/health`);
    await logged('"route":"/health"');
    const lines = jsonLines<Line>((await home.run(['serve', 'logs', '--json'])).stdout);
    expect(lines.some(({ line, entry }) => line.startsWith('Ready.') && entry === null)).toBe(true);
    expect(lines.at(-1)?.entry).toMatchObject({ event: 'request', route: '/health' });
  });

  it('--follow prints new lines and ends with the service, whose log stays readable', async () => {
    const url = await detach('--log', 'text');
    const following = home.start(['serve', 'logs', '--follow']);
    await following.until('stdout', /Ready\./);
    await request(`${new URL(url).origin}/openapi.json`);
    await following.until('stdout', /route=\/openapi\.json/);
    await home.run(['serve', 'stop']);
    const { status, stdout } = await following.ended;
    expect(status).toBe(0);
    expect((await home.run(['serve', 'logs'])).stdout).toBe(stdout);
  });

  it('--follow exits quietly when its reader is gone', async () => {
    const url = await detach('--log', 'text');
    const line = home.shell('asp serve logs --follow | head -n 1; echo $PIPESTATUS');
    await request(`${new URL(url).origin}/health`);
    const { stdout, stderr } = await line;
    expect({ lines: stdout.split('\n').at(-2), stderr }).toEqual({ lines: '0', stderr: '' });
  });

  it('of a service that was not started with --detach says where they are (exit 2)', async () => {
    const service = await startServe(home);
    const { status, stdout, stderr } = await home.run(['serve', 'logs', '--json']);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(json<{ error: object }>(stderr).error).toMatchObject({
      code: 'ASP_CONFIG',
      message: expect.stringContaining('--detach'),
      hint: expect.stringContaining(String(service.running.pid)),
    });
    await service.stop();
  });

  it.skipIf(process.platform !== 'linux')('--detach fails if its ready file cannot be written', async () => {
    const { status, stdout, stderr } = await home.asp([...DETACHED, '--json', '--ready-file', '/proc/asp/ready']);
    expect({ status, stdout }).toEqual({ status: 2, stdout: '' });
    expect(json<{ error: object }>(stderr).error).toMatchObject({
      message: 'Could not write the ready file /proc/asp/ready.',
      hint: 'it cannot be created there (ENOENT).',
    });
  });

  it('says that no service is running if none is (exit 9)', async () => {
    expect(await home.run(['serve', 'logs'])).toMatchObject({ status: 9, stdout: '' });
  });

  it('shows no control characters at a terminal, and keeps only a few logs of ended services', async () => {
    mkdirSync(folder(), { recursive: true, mode: 0o700 });
    for (let index = 0; index < 9; index += 1)
      writeFileSync(join(folder(), `${5_000_000 + index}-8744.log`), 'a\u001b[31mb\n', { mode: 0o600 });
    expect((await home.run(['serve', 'logs'])).stdout).toBe('a[31mb\n');
    await detach();
    const { readdirSync } = await import('node:fs');
    expect(readdirSync(folder()).filter((name) => name.endsWith('.log'))).toHaveLength(6);
  });
});
