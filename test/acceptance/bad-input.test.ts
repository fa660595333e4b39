import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { createHome, type Ended, type Home, json, type ServiceProcess, startServe } from './program.js';

interface ErrorLine {
  error: { code: string; exit_code: number; outcome: string; retryable: boolean };
}

/** Expects nothing on stdout, one JSON line with this code on stderr, and this exit code. */
function mustRefuse(ended: Ended, code: string, exitCode: number): ErrorLine['error'] {
  expect(ended.stdout).toBe('');
  expect(ended.stderr.trim().split('\n')).toHaveLength(1);
  const { error } = json<ErrorLine>(ended.stderr.trim());
  expect(error).toMatchObject({ code, exit_code: exitCode });
  expect(ended.status).toBe(exitCode);
  return error;
}

describe('bad input gets a clear error, the exit code of the table, and leaves stdout empty', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    home = createHome();
    service = await startServe(home, ['--demo']);
    expect(await home.run(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0 });
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });

  it.each([
    [['send', '@Alice.Bot', 'hi'], 'ASP_USAGE', 2],
    [['send', 'alice', 'hi'], 'ASP_USAGE', 2],
    [['send', '@a.b.c', 'hi'], 'ASP_USAGE', 2],
    [['send', '@alice.bot', ''], 'ASP_USAGE', 2],
    [['send'], 'ASP_USAGE', 2],
    [['sned', '@alice.bot', 'hi'], 'ASP_USAGE', 2],
    [['send', '@alice.bot', 'hi', '--ended'], 'ASP_USAGE', 2],
    [['send', '@alice.bot', 'hi', '--timeout', 'soon'], 'ASP_USAGE', 2],
    [['send', '@nobody.here', 'hi'], 'NOT_FOUND', 3],
    [['send', 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV', 'hi'], 'NOT_FOUND', 3],
    [['tail', 'msg_01ARZ3NDEKTSV4RRFFQ69G5FAV'], 'ASP_USAGE', 2],
    [['tail', 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV'], 'NOT_FOUND', 3],
    [['session', 'show', 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV'], 'NOT_FOUND', 3],
    [['session', 'end', 'sess_01ARZ3NDEKTSV4RRFFQ69G5FAV'], 'NOT_FOUND', 3],
    [['session', 'list', '--state', 'open'], 'ASP_USAGE', 2],
    [['send', '@alice.bot', 'hi', '--as', '@someone.else'], 'ASP_NO_CREDENTIAL', 4],
    [['-p', 'nowhere', 'send', '@alice.bot', 'hi'], 'ASP_CONFIG', 2],
  ] as const)('asp %j is %s, exit %i', async (words, code, exitCode) => {
    mustRefuse(await home.asp([...words, '--json']), code, exitCode);
  });

  it('for an unreachable handle, the error says that nothing was sent and does not guess why', async () => {
    const ended = await home.asp(['send', '@nobody.here', 'hi']);
    expect(ended).toMatchObject({ status: 3, stdout: '' });
    expect(ended.stderr).toContain('error: @nobody.here could not be reached. Nothing was sent.');
    expect(ended.stderr).toMatch(/code: NOT_FOUND · exit 3\n$/);
    expect(ended.stderr.trimEnd().split('\n').length).toBeLessThanOrEqual(4);
  });

  it('a port that is taken: exit 6, and the service that uses it keeps running', async () => {
    const { port } = new URL(service.url);
    mustRefuse(await home.asp(['serve', '--port', port, '--data', 'memory', '--json']), 'ASP_PORT_IN_USE', 6);
    expect(await home.asp(['whoami'])).toMatchObject({ status: 0, stdout: '@demo.you\n' });
  });

  it('data that another service is using: exit 6', async () => {
    const ended = await home.asp(['serve', '--port', '0', '--data', service.data, '--json']);
    expect(ended).toMatchObject({ status: 6, stdout: '' });
  });
});

describe('a bad environment', () => {
  let home: Home;
  beforeAll(() => {
    home = createHome();
  });
  afterAll(() => home.dispose());

  it('without a running or named service, the error says what to do', async () => {
    const error = mustRefuse(await home.asp(['send', '@alice.bot', 'hi', '--json']), 'ASP_CONFIG', 2);
    expect(error).toMatchObject({ outcome: 'not_applied' });
  });

  it('no login: exit 4', async () => {
    const service = await startServe(home, ['--demo']);
    mustRefuse(await home.asp(['send', '@alice.bot', 'hi', '--json']), 'ASP_NO_CREDENTIAL', 4);
    expect(await service.stop()).toMatchObject({ status: 0 });
  });

  it('an unreachable service: exit 9 after the retries, and a write that never connected is reported as not applied', async () => {
    const port = await unusedPort();
    expect(await home.asp(['profile', 'add', 'gone', '--base-url', `http://127.0.0.1:${port}/v1`])).toMatchObject({
      status: 0,
    });
    const environment = { ASP_TOKEN: 'x.y.z' };
    const words = ['-p', 'gone', 'send', '@alice.bot', 'hi', '--json', '--retries', '0'];
    expect(mustRefuse(await home.asp(words, { environment }), 'ASP_UNREACHABLE', 9)).toMatchObject({
      outcome: 'not_applied',
    });
  });

  it('an unreadable or invalid configuration: exit 2, and the file is unchanged', async () => {
    const own = createHome();
    const directory = join(own.directory, '.config/asp-cli');
    const config = join(directory, 'config.json');
    mkdirSync(directory, { recursive: true });
    for (const text of ['{"default_profile":', '[]', '{"default_profile":7}']) {
      writeFileSync(config, text, { mode: 0o600 });
      mustRefuse(await own.asp(['whoami', '--json']), 'ASP_CONFIG', 2);
      expect(readFileSync(config, 'utf8')).toBe(text);
    }
    if (process.getuid?.() !== 0) {
      chmodSync(config, 0);
      mustRefuse(await own.asp(['whoami', '--json']), 'ASP_CONFIG', 2);
    }
    await own.dispose();
  });
});

async function unusedPort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address !== null ? address.port : 0;
}
