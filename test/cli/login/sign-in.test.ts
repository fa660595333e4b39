import { existsSync, readFileSync, statSync } from 'node:fs';
import { createServer } from 'node:net';
import { hostname } from 'node:os';
import { join } from 'node:path';

import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import { createHome, type Home, json, type ServiceProcess, startServe } from '../../acceptance/program.js';
import { newPerson, openBrowser } from '../../support/browser.js';
import { freePort } from '../../support/free-port.js';
import { request } from '../../support/http.js';
import { deny, signUp } from '../../support/person.js';
import { approve, createHomeWithService, startLogin } from './signed-in-home.js';

interface Failure {
  error: { code: string; next?: string[]; message: string };
}

const status = async (home: Home): Promise<{ handle: string; scopes: string[] }[]> =>
  json<{ items: { handle: string; scopes: string[] }[] }>((await home.run(['auth', 'status', '--json'])).stdout).items;

describe('signing in with the real program at a real service', () => {
  let home: Home;
  let service: ServiceProcess;

  beforeAll(async () => {
    ({ home, service } = await createHomeWithService());
  });
  afterAll(async () => {
    await service.stop();
    await home.dispose();
  });
  afterEach(async () => {
    await home.run(['logout', '--all']);
  });

  describe('login --yes', () => {
    it('signs in as a local agent without a browser; stdout is the handle', async () => {
      const ended = await home.run(['login', '@demo.you', '--yes']);
      expect(ended).toMatchObject({ status: 0, stdout: '@demo.you\n' });
      expect(ended.stderr).toContain('in a file that only you can read');
      expect(await status(home)).toMatchObject([{ handle: '@demo.you' }]);
    });

    it('needs a handle if there are several agents, and names them', async () => {
      const ended = await home.run(['login', '--yes', '--json']);
      expect(ended.status).toBe(2);
      expect(json<Failure>(ended.stderr.trim().split('\n').at(-1) ?? '').error.next).toEqual([
        ...['asp', 'login'],
        expect.stringMatching(/^@/),
        '--yes',
      ]);
    });

    it('refuses an agent the local service does not have (exit 4)', async () => {
      const ended = await home.run(['login', '@nobody.here', '--yes', '--json']);
      expect(ended.status).toBe(4);
      expect(json<Failure>(ended.stderr.trim()).error.code).toBe('ASP_LOGIN_DENIED');
    });

    it('approves nothing at a service of another user', async () => {
      const stranger = createHome();
      const ended = await stranger.run(['login', '@demo.you', '--yes', '-p', service.url, '--json']);
      expect(ended.status).toBe(2);
      expect(json<Failure>(ended.stderr).error.code).toBe('ASP_USAGE');
      await stranger.dispose();
    });

    it('asks only for the given scopes, not even for one to look up its own agent', async () => {
      const ended = await home.run(['login', '@demo.you', '--yes', '--scopes', 'sessions:read']);
      expect(ended).toMatchObject({ status: 0, stdout: '@demo.you\n' });
      expect((await status(home))[0]?.scopes).toEqual(['sessions:read']);
      expect(await home.run(['whoami'])).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    });

    it('registers one client for all its logins', async () => {
      await home.run(['login', '@demo.you', '--yes']);
      const first = await home.run(['auth', 'clients', '--json']);
      await home.run(['login', '@alice.bot', '--yes']);
      expect((await home.run(['auth', 'clients', '--json'])).stdout).toBe(first.stdout);
    });

    it('keeps login, client and record files readable by their user alone', async () => {
      await home.run(['login', '@demo.you', '--yes']);
      const listed = await home.shell(
        'find "$HOME/.local/state/asp-cli" "$XDG_RUNTIME_DIR/asp-cli" -type f -perm /077; find "$HOME/.local/state/asp-cli" -type d -perm /022',
      );
      expect(listed.stdout).toBe('');
    });
  });

  describe('login through a browser', () => {
    it('prints the address on stderr, receives the redirect, prints the handle', async () => {
      const person = newPerson('person');
      const { login, url } = await startLogin(home);
      const answer = await request(await approve(openBrowser(), url, person));
      expect(answer.status).toBe(200);
      expect(await login.ended).toMatchObject({ status: 0, stdout: `${person.handle}\n` });
    });

    it('tells the person which machine it runs on', async () => {
      const { login, url } = await startLogin(home);
      const browser = openBrowser();
      const consent = await signUp(browser, await browser.open(url), newPerson('machine'));
      expect(consent.text).toContain(`asp on ${hostname().split('.')[0]}`);
      await request((await deny(browser, consent)).answer.headers['location'] ?? '');
      await login.ended;
    });

    it('ends with 4 when the person denies', async () => {
      const { login, url } = await startLogin(home, ['--json']);
      const browser = openBrowser();
      const consent = await signUp(browser, await browser.open(url), newPerson('denier'));
      const { answer } = await deny(browser, consent);
      await request(answer.headers['location'] ?? '');
      const ended = await login.ended;
      expect(ended).toMatchObject({ status: 4, stdout: '' });
      expect(ended.stderr).toContain('"code":"ASP_LOGIN_DENIED"');
      expect(await status(home)).toEqual([]);
    });

    it('refuses a different agent than requested (exit 6), revokes the approval and stores nothing', async () => {
      const person = newPerson('wrong');
      const { login, url } = await startLogin(home, ['@demo.you', '--debug']);
      // Without the requested agent in the address, the person can pick another one.
      const free = new URL(url);
      free.searchParams.delete('agent_handle');
      await request(await approve(openBrowser(), free.href, person));
      const ended = await login.ended;
      expect(ended).toMatchObject({ status: 6, stdout: '' });
      expect(ended.stderr).toContain('ASP_WRONG_AGENT');
      expect(ended.stderr).toMatch(/POST http:\S+\/revoke/);
      expect(await status(home)).toEqual([]);
    });

    it('keeps waiting after hostile callbacks, and the real one still signs in', async () => {
      const person = newPerson('patient');
      const { login, url } = await startLogin(home);
      const redirect = new URL(url).searchParams.get('redirect_uri') ?? '';
      for (const query of ['error=access_denied', 'code=x&state=guess', 'error=access_denied&state=guess'])
        expect((await request(`${redirect}?${query}`)).status).toBe(400);
      await request(await approve(openBrowser(), url, person));
      expect(await login.ended).toMatchObject({ status: 0, stdout: `${person.handle}\n` });
    });

    it('Ctrl-C ends the wait by the signal and closes the listener', async () => {
      const { login, url } = await startLogin(home);
      const redirect = new URL(url).searchParams.get('redirect_uri') ?? '';
      login.kill('SIGINT');
      expect(await login.ended).toMatchObject({ signal: 'SIGINT', stdout: '' });
      await expect(request(redirect)).rejects.toThrow();
    });

    it('--timeout ends the wait with 8 and closes the listener', async () => {
      const { login, url } = await startLogin(home, ['--timeout', '3s', '--json']);
      const ended = await login.ended;
      expect(ended).toMatchObject({ status: 8, stdout: '' });
      expect(ended.stderr).toContain('"code":"ASP_LOGIN_TIMEOUT"');
      expect(ended.stderr).toContain('within 3s');
      await expect(request(new URL(url).searchParams.get('redirect_uri') ?? '')).rejects.toThrow();
    });

    it('prints the code verifier nowhere, not even with --debug', async () => {
      const person = newPerson('quiet');
      const { login, url } = await startLogin(home, ['--debug']);
      const location = await approve(openBrowser(), url, person);
      await request(location);
      const { stderr } = await login.ended;
      const code = new URL(location).searchParams.get('code') ?? 'none';
      expect(stderr).not.toContain(code);
      expect(stderr).not.toMatch(/code_verifier=[\w-]{20}/);
      expect(stderr).not.toMatch(/eyJ[\w-]+\.[\w-]+\.[\w-]+/);
    });

    it('--callback-host listens where a published port of a container leads, and the browser goes to 127.0.0.1', async () => {
      const person = newPerson('contained');
      const port = await freePort();
      const words = ['--callback-host', '127.0.0.2', '--callback-port', String(port)];
      const { login, url } = await startLogin(home, words);
      const location = await approve(openBrowser(), url, person);
      expect(location).toContain(`http://127.0.0.1:${port}/callback?`);
      await expect(request(location)).rejects.toThrow('ECONNREFUSED');
      // As a published port passes it on: to the address of the container, under the name that the browser knows.
      const answer = await request(location.replace('127.0.0.1', '127.0.0.2'), {
        headers: { host: `127.0.0.1:${port}` },
      });
      expect(answer.status).toBe(200);
      expect(await login.ended).toMatchObject({ status: 0, stdout: `${person.handle}\n` });
    });

    it('says when its port is taken (exit 6)', async () => {
      const squatter = createServer().listen(0, '127.0.0.1');
      await new Promise((resolve) => squatter.once('listening', resolve));
      const address = squatter.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      const ended = await home.run(['login', '--no-browser', '--callback-port', String(port)]);
      squatter.close();
      expect(ended).toMatchObject({ status: 6, stdout: '' });
    });
  });

  describe('login in two steps', () => {
    const start = async () => {
      const { stdout } = await home.run(['login', '--start', '--json']);
      return json<{ login_id: string; authorize_url: string; next: string[] }>(stdout);
    };
    const pendingFile = (): string => join(home.directory, '.local/state/asp-cli/pending-sign-in.json');

    it('--start prints an address and returns; --finish with the redirect completes', async () => {
      const person = newPerson('two-steps');
      const started = await start();
      expect(started.next).toEqual(['asp', 'login', '--finish', '-']);
      const location = await approve(openBrowser(), started.authorize_url, person);
      const finished = await home.run(started.next.slice(1), { input: `${location}\n` });
      expect(finished).toMatchObject({ status: 0, stdout: `${person.handle}\n` });
      expect(existsSync(pendingFile())).toBe(false);
    });

    it('keeps its state in a file that only its user can read, and shows no verifier', async () => {
      const started = await start();
      expect(statSync(pendingFile()).mode & 0o777).toBe(0o600);
      const { request: kept } = json<{ request: { codeVerifier: string } }>(readFileSync(pendingFile(), 'utf8'));
      expect(JSON.stringify(started)).not.toContain(kept.codeVerifier);
    });

    it('--finish refuses the address of another sign-in (exit 2), and the right one still completes', async () => {
      const person = newPerson('not-mine');
      const { authorize_url } = await start();
      const location = await approve(openBrowser(), authorize_url, person);
      const forged = new URL(location);
      forged.searchParams.set('state', 'another');
      expect((await home.run(['login', '--finish', forged.href])).status).toBe(2);
      expect(await home.run(['login', '--finish', location])).toMatchObject({ status: 0 });
    });

    it('--finish works once', async () => {
      const { authorize_url } = await start();
      const location = await approve(openBrowser(), authorize_url, newPerson('once'));
      expect((await home.run(['login', '--finish', location])).status).toBe(0);
      const again = await home.run(['login', '--finish', location]);
      expect(again.status).toBe(2);
      expect(again.stderr).toContain('There is no sign-in');
    });
  });
});

describe('a local service that lost its data', () => {
  let home: Home;
  beforeEach(() => {
    home = createHome();
  });
  afterEach(() => home.dispose());

  it('does not know the old client: the next login registers again and signs in', async () => {
    const first = await startServe(home, ['--demo', '--data', 'memory']);
    expect(await home.run(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0 });
    await first.stop();
    const second = await startServe(home, ['--demo', '--data', 'memory'], first.url);
    expect(second.url).toBe(first.url);
    expect(await home.run(['login', '@demo.you', '--yes'])).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    expect(await home.run(['whoami'])).toMatchObject({ status: 0, stdout: '@demo.you\n' });
    await second.stop();
  });
});
