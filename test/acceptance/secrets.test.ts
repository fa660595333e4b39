import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { newPerson, openBrowser, type Person } from '../support/browser.js';
import { signUpAndAllow } from '../support/person.js';
import { createHome, type Ended, type Home, json, type ServiceProcess, startServe } from './program.js';

const PASSPHRASE = 'CANARY-passphrase-5e1f';
const DATABASE_PASSWORD = 'CANARY-database-77ab';
const AMBIENT = 'CANARY-ambient-token-90cd';

/** All secrets by name, with every form in which each might appear. */
type Secrets = Map<string, string>;

function formsOf(secret: string): string[] {
  const bytes = Buffer.from(secret);
  return [secret, encodeURIComponent(secret), bytes.toString('base64').replace(/=+$/, ''), bytes.toString('hex')];
}

/** Returns the names of the secrets that a text contains. */
function findIn(text: string | Buffer, secrets: Secrets): string[] {
  return [...secrets].flatMap(([what, secret]) => (formsOf(secret).some((form) => text.includes(form)) ? [what] : []));
}

/** Records the command line of every process on this machine. */
function watchCommandLines(): { seen: Set<string>; stop(): void } {
  const seen = new Set<string>();
  const look = (): void => {
    for (const pid of readdirSync('/proc'))
      try {
        if (/^\d+$/.test(pid)) seen.add(readFileSync(`/proc/${pid}/cmdline`, 'utf8'));
      } catch {
        // The process has ended.
      }
  };
  const timer = setInterval(look, 20);
  return { seen, stop: () => clearInterval(timer) };
}

function everyFile(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? everyFile(join(folder, entry.name)) : entry.isFile() ? [join(folder, entry.name)] : [],
  );
}

/**
 * A program for commands to start. It reports its environment, its arguments, and those of its parent, and prints
 * `prints`.
 */
const spyScript = (prints: string): string => `#!/bin/sh
{ env; tr '\\0' '\\n' < /proc/$PPID/cmdline; printf '%s\\n' "$@"; } >> "$HOME/spied.txt"
cat > /dev/null < /dev/stdin || true
${prints}
`;

describe.skipIf(!existsSync('/proc/self/cmdline'))('secrets', () => {
  let home: Home;
  let service: ServiceProcess;
  let person: Person;
  const secrets: Secrets = new Map();
  const told: { line: string; text: string }[] = [];
  const commandLines = watchCommandLines();

  /** Runs a command and records its output. With `isSecret`, the command prints a secret to stdout on purpose. */
  const run = async (
    line: string,
    options: { env?: NodeJS.ProcessEnv; input?: string; isSecret?: boolean; status?: number } = {},
  ): Promise<Ended> => {
    const { env = {}, input = '', isSecret = false, status = 0 } = options;
    const ended = await home.asp(line.split(' '), { environment: env, input });
    expect(ended.status, `asp ${line}\n${ended.stderr}`).toBe(status);
    told.push({ line, text: isSecret ? ended.stderr : `${ended.stdout}\n${ended.stderr}` });
    return ended;
  };
  const spy = (name: string, prints = ''): string => {
    const path = join(home.directory, name);
    writeFileSync(path, spyScript(prints));
    chmodSync(path, 0o755);
    return path;
  };

  beforeAll(async () => {
    home = createHome({ ASP_TOKEN: '', ASP_STORE_PASSPHRASE: PASSPHRASE, PGPASSWORD: DATABASE_PASSWORD });
    home.environment['ASP_SERVE_DATABASE'] = '';
    service = await startServe(home, ['--demo', '--log', 'json']);
    person = newPerson('canary');
    const record = JSON.parse(readFileSync(join(home.directory, 'run/asp-cli/serve/default.json'), 'utf8'));
    secrets.set('passphrase', PASSPHRASE);
    secrets.set('database password', DATABASE_PASSWORD);
    secrets.set('token of the environment', AMBIENT);
    secrets.set('password', person.password);
    secrets.set('operator secret', record.secret);
  });
  afterAll(async () => {
    commandLines.stop();
    await service.stop();
    await home.dispose();
  });

  /** Signs in through the browser with a known code and verifier. */
  async function signIn(): Promise<void> {
    const { stdout } = await run('login --start --json --debug');
    const started = json<{ authorize_url: string }>(stdout);
    const pending = readFileSync(join(home.directory, '.local/state/asp-cli/pending-sign-in.json'), 'utf8');
    secrets.set('code verifier', json<{ request: { codeVerifier: string } }>(pending).request.codeVerifier);
    const browser = openBrowser();
    const { answer } = await signUpAndAllow(browser, started.authorize_url, person);
    for (const [name, value] of browser.cookies) secrets.set(`cookie ${name}`, value);
    const location = answer.headers['location'] ?? '';
    secrets.set('authorization code', new URL(location).searchParams.get('code') ?? 'none');
    expect(await run('login --finish - --debug', { input: `${location}\n` })).toMatchObject({ status: 0 });
  }

  it('are in no output of a command, except the one it prints on purpose', async () => {
    await signIn();
    for (const resource of ['api', 'ws'])
      secrets.set(
        `access token (${resource})`,
        (await run(`auth token --resource ${resource}`, { isSecret: true })).stdout.trim(),
      );
    const client = json<Record<string, string>>(
      (await run('serve client add @demo.ci --debug', { isSecret: true })).stdout,
    );
    secrets.set('client secret', client['client_secret'] ?? 'none');
    const asClient = { ASP_CLIENT_ID: client['client_id'], ASP_CLIENT_SECRET: client['client_secret'] };

    await run('login @demo.you --yes --debug', { env: { ASP_STORE_PASSPHRASE: '' } });
    const store = join(home.directory, '.local/state/asp-cli/secrets');
    const open = readdirSync(store).map((name) => readFileSync(join(store, name), 'utf8'));
    const [item = '{}'] = open.flatMap((text) => json<{ secret?: string }>(text).secret ?? []);
    secrets.set('refresh token', json<{ rt?: string }>(item).rt ?? 'none');
    await run('logout @demo.you', { env: { ASP_STORE_PASSPHRASE: '' } });
    await run(`use ${person.handle}`);

    const browser = spy('browser');
    await run(`login @nobody.else --browser ${browser} --timeout 2s --debug`, { status: 8 });
    await run('whoami --explain --debug');
    const sent = await run('send @demo.echo hello --debug --json');
    const { session_id: id } = json<{ session_id: string }>(sent.stdout);
    const exec = spy('exec', 'echo heard');
    await run(`tail ${id} -n 9 -c 2 --exec ${exec} --debug`, { env: { ASP_WS_TOKEN: '' } });
    await run(`send ${id} --edit`, { env: { EDITOR: spy('editor', 'echo edited > "$1"') } });
    writeFileSync(join(home.directory, 'note.txt'), 'a note\n');
    const attachment = (await run(`attachment upload ${join(home.directory, 'note.txt')} --debug`)).stdout.trim();
    const link = json<{ url: string }>(
      (await run(`attachment show ${attachment} --json --debug`, { isSecret: true })).stdout,
    );
    secrets.set('signed address', new URL(link.url).searchParams.get('signature') ?? 'none');
    await run(`attachment download ${attachment} --dir got --debug`);
    for (const line of [
      'auth status --json',
      'auth refresh --debug',
      'config list --origin --json',
      'config path',
      'doctor --debug',
      'status --json',
      'session list --debug',
      'completion bash',
      'auth clients',
    ])
      await run(line, { env: { ASP_SERVE_DATABASE: `postgres://asp:${DATABASE_PASSWORD}@127.0.0.1:9/asp` } });

    await run('whoami --debug --json', { env: asClient });
    await run(`tail ${id} -n 1 -c 1 --debug --json`, { env: asClient, status: 3 });
    await run('whoami --debug', {
      env: { ...asClient, ASP_CLIENT_SECRET: `${asClient.ASP_CLIENT_SECRET}x` },
      status: 4,
    });
    await run('whoami --debug --json', { env: { ASP_TOKEN: AMBIENT }, status: 4 });
    await run(`tail ${id} -n 1 --debug`, { env: { ASP_TOKEN: AMBIENT, ASP_WS_TOKEN: AMBIENT }, status: 4 });
    await run('api agents/me -i --debug', { env: { ASP_TOKEN: AMBIENT }, status: 4 });
    await run('status --debug', { env: { ASP_TOKEN: AMBIENT } });

    const command = spy('credential', `echo ${'CANARY-of-a-program-1234'}`);
    await run(`profile add by-program --base-url ${service.url}`);
    const config = join(home.directory, '.config/asp-cli/config.json');
    const settings = JSON.parse(readFileSync(config, 'utf8'));
    settings.profiles['by-program'].credential_command = [command];
    writeFileSync(config, JSON.stringify(settings));
    secrets.set('token of a program', 'CANARY-of-a-program-1234');
    await run('whoami -p by-program --debug', { env: { ASP_AGENT: '@demo.you' }, status: 4 });

    const database = { ASP_SERVE_DATABASE: `postgres://asp:${DATABASE_PASSWORD}@127.0.0.1:9/asp` };
    await run('serve --port 0 --log json --debug', { env: database, status: 2 });
    await run('serve --print-config --json', { env: database });
    await run('serve status --json --debug');
    await run(`serve backup ${join(home.directory, 'saved.tar')} --debug`);
    await run('logout --debug');

    expect([...secrets.keys()].filter((what) => !what.startsWith('cookie'))).toHaveLength(13);
    expect([...secrets.keys()].some((what) => what.startsWith('cookie'))).toBe(true);
    for (const [what, secret] of secrets) expect(secret.length, what).toBeGreaterThan(12);
    for (const { line, text } of told) expect(findIn(text, secrets), `asp ${line}\n${text}`).toEqual([]);
  }, 300_000);

  it('are in no command line', () => {
    const lines = [...commandLines.seen].filter((line) => line.includes('asp.js') || line.includes(home.directory));
    expect(lines.length).toBeGreaterThan(10);
    for (const line of lines) expect(findIn(line, secrets), line.replaceAll('\0', ' ')).toEqual([]);
  });

  it('are in the environment of no program that a command starts', () => {
    const spied = readFileSync(join(home.directory, 'spied.txt'), 'utf8');
    for (const name of ['browser', 'exec', 'editor']) expect(spied).toContain(join(home.directory, name));
    expect(findIn(spied, secrets)).toEqual([]);
  });

  it('are not in the log of the service', () => {
    const log = service.running.stderr();
    expect(log.split('\n').length).toBeGreaterThan(20);
    expect(findIn(log, secrets)).toEqual([]);
  });

  it('are in no file except the stores for secrets', () => {
    /** The record of the local service identifies its OS user, and the scripts of this test contain what they print. */
    const kept: readonly [file: RegExp, what: string][] = [
      [/run\/asp-cli\/serve\/default\.json$/, 'operator secret'],
      [/\/credential$/, 'token of a program'],
      [/\/asp-cli\/secrets\//, 'refresh token'],
    ];
    const files = everyFile(home.directory);
    expect(files.length).toBeGreaterThan(10);
    for (const path of files) {
      const found = findIn(readFileSync(path), secrets).filter(
        (what) => !kept.some(([file, its]) => file.test(path) && its === what),
      );
      expect(found, path).toEqual([]);
      if (/asp-cli|serve-data/.test(path)) expect(statSync(path).mode & 0o077, path).toBe(0);
    }
  });
});
