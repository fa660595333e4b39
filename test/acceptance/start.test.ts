import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeEach, describe, expect, it } from 'vitest';

import { PROGRAM_FILE } from '../support/built-program-file.js';
import { createHome, type Home, startServe } from './program.js';

const homes: Home[] = [];
afterAll(async () => {
  for (const home of homes) await home.dispose();
});

/** Creates a home that shares nothing with others. */
function createOwnHome(environment?: NodeJS.ProcessEnv): Home {
  const home = createHome(environment);
  homes.push(home);
  rmSync(join(home.directory, '.cache'));
  return home;
}

/** Returns the file with the compiled code of a command. */
function codeFile(home: Home, command: string): string {
  const root = join(home.directory, '.cache/asp-cli');
  const [folder = ''] = readdirSync(root);
  return join(root, folder, `${command}.bin`);
}

describe('The compiled code cached between runs', () => {
  let home: Home;
  let shown: string;
  beforeEach(async () => {
    home = createOwnHome();
    const first = await home.asp(['help', 'exit-codes']);
    expect(first).toMatchObject({ status: 0, stderr: '' });
    shown = first.stdout;
  });

  it('is stored only for this user, and used', async () => {
    const path = codeFile(home, 'help');
    expect(readFileSync(path).length).toBeGreaterThan(10_000);
    const before = readFileSync(path);
    expect(await home.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown, stderr: '' });
    expect(readFileSync(path).equals(before)).toBe(true);
  });

  it('is not run if a single bit is wrong, and is created again', async () => {
    const path = codeFile(home, 'help');
    const whole = readFileSync(path);
    for (const at of [0, 40, 100, 5_000, Math.floor(whole.length / 2), whole.length - 1]) {
      const damaged = Buffer.from(whole);
      damaged[at] = (damaged[at] ?? 0) ^ 1;
      writeFileSync(path, damaged);
      expect(await home.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown, stderr: '' });
      expect(readFileSync(path).equals(damaged)).toBe(false);
    }
    for (const size of [0, 31, 32, 33, 1_000]) {
      writeFileSync(path, whole.subarray(0, size));
      expect(await home.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown, stderr: '' });
    }
  });

  it('is not read if others could have written it, or through a link', async () => {
    const path = codeFile(home, 'help');
    chmodSync(path, 0o666);
    expect(await home.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown });
    expect(readdirSync(join(path, '..'))).toEqual(['help.bin']);
    renameSync(path, join(home.directory, 'elsewhere'));
    const kept = readFileSync(join(home.directory, 'elsewhere'));
    symlinkSync(join(home.directory, 'elsewhere'), path);
    expect(await home.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown });
    expect(readFileSync(join(home.directory, 'elsewhere')).equals(kept)).toBe(true);
  });

  it('is neither read nor stored in a folder that others can write to', async () => {
    const path = codeFile(home, 'help');
    const kept = readFileSync(path);
    for (const folder of [join(path, '..'), join(path, '../..')]) {
      chmodSync(folder, 0o777);
      const damaged = Buffer.concat([kept, Buffer.from('x')]);
      writeFileSync(path, damaged);
      expect(await home.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown, stderr: '' });
      expect(readFileSync(path).equals(damaged)).toBe(true);
      rmSync(path);
      expect(await home.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown, stderr: '' });
      expect(existsSync(path)).toBe(false);
      chmodSync(folder, 0o700);
    }
    expect(await home.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown, stderr: '' });
    expect(existsSync(path)).toBe(true);
  });

  it('is not stored without a home, if Node.js caching is off, or for a demo', async () => {
    for (const environment of [{ HOME: undefined }, { NODE_DISABLE_COMPILE_CACHE: '1' }]) {
      const own = createOwnHome(environment);
      expect(await own.asp(['help', 'exit-codes'])).toMatchObject({ status: 0, stdout: shown });
      expect(existsSync(join(own.directory, '.cache'))).toBe(false);
    }
  });
});

describe('A folder’s settings', () => {
  it('do not choose where credentials from the environment are sent', async () => {
    const home = createHome();
    homes.push(home);
    for (const name of ['good', 'evil'])
      await home.asp(['profile', 'add', name, '--base-url', `http://127.0.0.1:9/${name}/v1`]);
    const cwd = join(home.directory, 'project');
    mkdirSync(cwd);
    writeFileSync(join(cwd, '.asp.json'), '{"profile":"evil"}');
    for (const environment of [{ ASP_TOKEN: 'x' }, { ASP_CLIENT_ID: 'x', ASP_CLIENT_SECRET: 'y' }]) {
      const ended = await home.asp(['session', 'list', '--json', '--retries', '0'], { cwd, environment });
      expect(ended).toMatchObject({ status: 2, stdout: '' });
      expect(ended.stderr).toContain('.asp.json');
      const named = await home.asp(['-p', 'good', 'session', 'list', '--json', '--retries', '0'], { cwd, environment });
      expect(named.status).toBe(9);
    }
  });
});

describe('A login', () => {
  it('does not load Node’s own HTTP client, which costs half as much as the rest', async () => {
    const home = createHome();
    homes.push(home);
    await startServe(home, ['--seed', 'alice.bot', '--data', 'memory']);
    const preload = join(home.directory, 'modules.cjs');
    writeFileSync(preload, `process.on('exit', () => console.error(process.moduleLoadList.join('\\n')));`);
    const words = ['--require', preload, PROGRAM_FILE, 'login', '@alice.bot', '--yes'];
    const { status, stderr } = await home.spawn(process.execPath, words).ended;
    expect(status, stderr).toBe(0);
    expect(stderr).toContain('NativeModule net');
    expect(stderr).not.toContain('internal/deps/undici/undici');
  });
});
