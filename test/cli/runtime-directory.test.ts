import { chownSync, mkdirSync, readdirSync, realpathSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';

import { findRuntimeDirectory } from '../../src/cli/context/runtime-directory.js';
import { createHome, type Home } from '../acceptance/program.js';

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

/** As without XDG_RUNTIME_DIR, where the folder is beside those of all other users. */
const shared = () => ({ environment: { XDG_RUNTIME_DIR: undefined, TMPDIR: join(stolen, '..') } });

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
