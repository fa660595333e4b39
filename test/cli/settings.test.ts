import { chmodSync, existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { until } from '../support/until.js';
import { localHome, type Stage, startStage } from './acting.js';
import { freshHome, type Ran, type RunOptions, runWords } from './captured-run.js';

/** Creates a home and returns a function that runs asp in it with these environment variables. */
function startHome() {
  const home = freshHome();
  const asp = (
    words: string | readonly string[],
    environment: Record<string, string> = {},
    options: RunOptions = {},
  ): Promise<Ran> =>
    runWords(words, {
      ...options,
      environment: { PATH: '/usr/bin:/bin', ...environment },
      machine: { homeDirectory: home, workingDirectory: home },
    });
  return { home, asp, file: join(home, '.config', 'asp-cli', 'config.json') };
}

/** A program that writes its last argument to a file. */
function startProgram(home: string, name: string): { path: string; seen: () => string } {
  const path = join(home, name);
  writeFileSync(path, `#!/bin/sh\nfor last in "$@"; do :; done\necho "$last" > "$0.seen"\n`);
  chmodSync(path, 0o755);
  return { path, seen: () => (existsSync(`${path}.seen`) ? readFileSync(`${path}.seen`, 'utf8').trim() : '') };
}

describe('A setting of this machine', () => {
  it('is validated, listed, printed and removed like any other', async () => {
    const { asp } = startHome();
    const good = {
      timeout: '2m',
      retries: '1',
      color: 'never',
      browser: 'firefox',
      editor: 'code --wait',
      store: 'file',
    };
    for (const [name, value] of Object.entries(good)) {
      expect(await asp(['config', 'set', name, value]), name).toMatchObject({ code: 0, out: `${value}\n` });
      expect((await asp(['config', 'get', name])).out, name).toBe(`${value}\n`);
    }
    const { items } = JSON.parse((await asp('config list --json')).out) as { items: { key: string; value: string }[] };
    expect(Object.fromEntries(items.map(({ key, value }) => [key, value]))).toEqual(good);
    for (const name of Object.keys(good)) expect((await asp(['config', 'unset', name])).code, name).toBe(0);
    expect((await asp('config list')).out).toBe('');
    const bad = { timeout: '0s', retries: '21', color: 'blue', browser: ' ', editor: '', store: 'cloud' };
    for (const [name, value] of Object.entries({ ...bad, timeouts: '2m' }))
      expect((await asp(['config', 'set', name, value])).code, name).toBe(2);
  });

  it('that someone wrote by hand is checked too, and a broken file does not stop other commands', async () => {
    const { asp, file } = startHome();
    await asp('config set color never');
    writeFileSync(file, '{"settings":{"timeout":"soon"}}');
    const { code, err } = await asp('config list');
    expect(code).toBe(2);
    expect(err).toContain("settings.timeout 'soon' is not a duration");
    expect((await asp('explain ASP_USAGE')).code).toBe(0);
  });

  it('color: an option wins, then a variable, then the setting', async () => {
    const { asp } = startHome();
    const isColored = async (words: string, environment: Record<string, string> = {}): Promise<boolean> =>
      (await asp(words, environment)).err.includes('\u001b[');
    const wrong = 'session show nonsense';
    expect(await isColored(wrong)).toBe(false);
    await asp('config set color always');
    expect(await isColored(wrong)).toBe(true);
    expect((await asp('help')).out).toContain('\u001b[');
    expect(await isColored(wrong, { NO_COLOR: '1' })).toBe(false);
    expect(await isColored(`${wrong} --color never`)).toBe(false);
    await asp('config set color never');
    expect(await isColored(wrong, { FORCE_COLOR: '1' })).toBe(true);
    expect(await isColored(`${wrong} --color always`)).toBe(true);
  });

  describe('at a service', () => {
    let requests = 0;
    let isSilent = false;
    const server = createServer((_, answer) => {
      requests += 1;
      if (!isSilent) answer.writeHead(503, { 'retry-after': '0' }).end();
    });
    let variables: Record<string, string>;
    beforeAll(async () => {
      await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
      const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
      variables = { ASP_PROFILE: url, ASP_TOKEN: 'a-token', ASP_WS_TOKEN: 'a-token' };
    });
    afterAll(() => {
      server.closeAllConnections();
      server.close();
    });

    it('retries: an option wins, then the variable, then the setting', async () => {
      const { asp } = startHome();
      isSilent = false;
      const count = async (words: string, environment = {}): Promise<number> => {
        requests = 0;
        expect((await asp(`session list ${words}`, { ...variables, ...environment })).code).toBe(9);
        return requests;
      };
      await asp('config set retries 0');
      expect(await count('')).toBe(1);
      expect(await count('', { ASP_RETRIES: '1' })).toBe(2);
      expect(await count('--retries 2', { ASP_RETRIES: '1' })).toBe(3);
    });

    it('timeout: an option wins, then the variable, then the setting, for commands with the default', async () => {
      const { asp } = startHome();
      isSilent = true;
      const why = async (words: string, environment = {}): Promise<string> => {
        const { code, err } = await asp(`session list ${words}`, { ...variables, ...environment });
        expect(code).toBe(8);
        return err;
      };
      await asp('config set timeout 150ms');
      expect(await why('')).toMatch(/the setting timeout is 150\s?ms/);
      expect(await why('', { ASP_TIMEOUT: '100ms' })).toMatch(/deadline of 100\s?ms/);
      expect(await why('--timeout 50ms', { ASP_TIMEOUT: '100ms' })).toMatch(/deadline of 50\s?ms/);
      // Tail has no deadline, and keeps having none.
      const stop = new AbortController();
      const tail = asp('tail', variables, { signal: stop.signal });
      const first = await Promise.race([tail, new Promise((resolve) => setTimeout(resolve, 500, 'running'))]);
      expect(first).toBe('running');
      stop.abort();
      await tail;
    });
  });

  describe('that names a program or a store', () => {
    let stage: Stage;
    beforeAll(async () => {
      stage = await startStage();
    });
    afterAll(() => stage.stop());

    it('browser: BROWSER wins', async () => {
      const { home, asp } = startHome();
      const [mine, other] = [startProgram(home, 'mine'), startProgram(home, 'other')];
      const variables = { ASP_PROFILE: stage.service.baseUrl };
      await asp(['config', 'set', 'browser', mine.path]);
      expect((await asp('open', variables)).code).toBe(0);
      await until('the browser', async () => mine.seen().endsWith('/dashboard'));
      expect((await asp('open', { ...variables, BROWSER: other.path })).code).toBe(0);
      await until('the other browser', async () => other.seen().endsWith('/dashboard'));
      await asp('config set browser none');
      expect((await asp('open', variables)).err).toContain('There is no browser to open here');
    });

    it('editor: VISUAL and EDITOR win', async () => {
      const { home, asp } = startHome();
      const [mine, other] = [startProgram(home, 'mine'), startProgram(home, 'other')];
      await asp(['config', 'set', 'editor', mine.path]);
      await asp('config edit');
      expect(mine.seen()).toMatch(/config\.json$/);
      await asp('config edit', { EDITOR: other.path });
      expect(other.seen()).toMatch(/config\.json$/);
    });

    it('store: ASP_TOKEN_STORE wins', async () => {
      const { run } = localHome(stage.service);
      const signIn = async (environment: Record<string, string>): Promise<Ran> =>
        run(['login', stage.alice.handle, '--yes', '--json'], { environment });
      await run('config set store keychain');
      // A person who names a store gets no other one.
      const nowhere = { ASP_TOKEN_STORE: '', DBUS_SESSION_BUS_ADDRESS: 'unix:path=/nonexistent' };
      expect((await signIn(nowhere)).err).toContain('You were not signed in.');
      expect((await signIn({ ASP_TOKEN_STORE: 'file' })).out).toContain('"store":"file"');
    });
  });
});
