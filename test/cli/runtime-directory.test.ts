import { spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, readdirSync, realpathSync, rmdirSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { adoptRuntimeDirectory } from '../../src/cli/context/machine.js';
import { findRuntimeDirectory } from '../../src/cli/context/runtime-directory.js';
import { resolvePaths } from '../../src/cli/profile/paths.js';
import { createHome, type Home, startServe } from '../acceptance/program.js';
import { PROGRAM_FILE } from '../support/built-program-file.js';

const isRoot = process.getuid?.() === 0;
const STRANGER = 65_534;

let home: Home;
let stolen: string;
let target: string;
beforeEach(() => {
  home = createHome();
  const folder = join(realpathSync(home.directory), 'tmp');
  target = join(home.directory, 'target');
  stolen = join(folder, `asp-cli-${process.getuid?.()}`);
  for (const path of [folder, target]) mkdirSync(path, { mode: 0o700 });
});
afterEach(() => home.dispose());

/** Runs a program that sees other mounts. */
const MOUNTS = ['--map-root-user', '--mount'];
const canMount = spawnSync('unshare', [...MOUNTS, 'mount', '-t', 'tmpfs', 'tmpfs', '/run']).status === 0;

/** As where there is no XDG_RUNTIME_DIR, and the folder is next to those of all other users. */
const shared = () => ({ environment: { XDG_RUNTIME_DIR: '', TMPDIR: join(stolen, '..') } });

describe.each([
  { by: 'is a link', says: `is not a directory`, put: () => symlinkSync(target, stolen), isPossible: true },
  {
    by: 'belongs to another user',
    says: 'belongs to another user',
    put: () => {
      mkdirSync(stolen, { mode: 0o777 });
      chownSync(stolen, STRANGER, STRANGER);
    },
    isPossible: isRoot,
  },
])('a runtime folder in /tmp that $by', ({ says, put, isPossible }) => {
  it.runIf(isPossible)('gets no secrets and no logs of a service, and the refusal says what to do', async () => {
    put();
    for (const more of [[], ['--detach']]) {
      const words = ['serve', '--port', '0', '--data', join(home.directory, 'data'), ...more];
      const ended = await home.asp(words, shared());
      expect(ended.status).toBe(2);
      expect(ended.stderr).toContain(`error: ${stolen} ${says}.`);
      expect(ended.stderr).toContain('set XDG_RUNTIME_DIR to a folder of your own');
    }
    expect([...readdirSync(target), ...readdirSync(stolen)]).toEqual([]);
  });

  it.runIf(isPossible)('gets no tokens and no caches, and doctor names it', async () => {
    put();
    expect(await findRuntimeDirectory({ runtimeDirectory: stolen })).toBeUndefined();
    expect((await home.asp(['doctor'], shared())).stdout).toContain(stolen);
    expect([...readdirSync(target), ...readdirSync(stolen)]).toEqual([]);
  });
});

describe('a program that starts without XDG_RUNTIME_DIR, as MCP clients and cron start it', () => {
  const userId = process.getuid?.();
  const adopted = (env: NodeJS.ProcessEnv = {}, platform: NodeJS.Platform = 'linux') => {
    adoptRuntimeDirectory({ platform, env, getuid: () => userId ?? 0 }, target);
    return env['XDG_RUNTIME_DIR'];
  };

  it('uses the folder that Linux made when the user signed in', () => {
    expect(adopted()).toBeUndefined();
    const folder = join(target, String(userId));
    mkdirSync(folder, { mode: 0o700 });
    expect(adopted()).toBe(folder);
    expect(adopted({ XDG_RUNTIME_DIR: '/run/asp' })).toBe('/run/asp');
    expect(adopted({ XDG_RUNTIME_DIR: '' })).toBe('');
    expect(adopted({}, 'darwin')).toBeUndefined();
  });

  it.skipIf(!canMount)('finds the local service there', async () => {
    const service = await startServe(home, ['--seed', 'me.bot']);
    await home.run(['login', '@me.bot', '--yes']);
    const script = [
      'mount -t tmpfs tmpfs /run && mkdir -p -m 700 /run/user/$(id -u)',
      'mount --bind "$1" /run/user/$(id -u) && shift && exec "$@"',
    ].join(' && ');
    const inside = (given: '' | undefined) =>
      home.spawn(
        'unshare',
        [...MOUNTS, 'sh', '-c', script, 'sh', join(home.directory, 'run'), process.execPath, PROGRAM_FILE, 'whoami'],
        { environment: { XDG_RUNTIME_DIR: given } },
      ).ended;
    expect(await inside(undefined)).toMatchObject({ status: 0, stdout: '@me.bot\n' });
    expect((await inside('')).status).not.toBe(0);
    await service.stop();
  });

  it('does not use one that others can read, or a link', () => {
    const folder = join(target, String(userId));
    mkdirSync(folder);
    chmodSync(folder, 0o755);
    expect(adopted()).toBeUndefined();
    mkdirSync(join(home.directory, 'elsewhere'), { mode: 0o700 });
    rmdirSync(folder);
    symlinkSync(join(home.directory, 'elsewhere'), folder);
    expect(adopted()).toBeUndefined();
  });

  it.runIf(isRoot)('does not use one of another user', () => {
    const folder = join(target, String(userId));
    mkdirSync(folder, { mode: 0o700 });
    chownSync(folder, STRANGER, STRANGER);
    expect(adopted()).toBeUndefined();
  });

  it('has the same folder on macOS, whatever TMPDIR is', () => {
    const folderWith = (temporaryDirectory: string) =>
      resolvePaths({
        environment: {},
        machine: {
          platform: 'darwin',
          homeDirectory: '/Users/ada',
          temporaryDirectory,
          workingDirectory: '/',
          userId: 501,
        },
      }).runtimeDirectory;
    expect(folderWith('/var/folders/x/T')).toBe('/Users/ada/Library/Caches/asp-cli/run');
    expect(folderWith('/tmp')).toBe(folderWith('/var/folders/x/T'));
  });
});
