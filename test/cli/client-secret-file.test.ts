import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, chownSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';

import type { Actor } from '../support/actors.js';
import { startTestService, type TestService } from '../support/service.js';
import { collect, PROGRAM_FILE, startProgram } from './built-program.js';
import { runWords } from './captured-run.js';

const isRoot = process.getuid?.() === 0;
const canMount = spawnSync('unshare', ['-rm', 'true'], { stdio: 'ignore' }).status === 0;
/** The id of a user who is not root. */
const NOBODY = 65_534;

let service: TestService;
let alice: Actor;
let folder: string;
beforeAll(async () => {
  service = await startTestService();
  alice = await service.createAgent('alice');
});
afterAll(() => service.stop());
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'asp-secret-'));
  chmodSync(folder, 0o755);
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

function secretFile(mode: number, path = join(folder, 'secret')): string {
  writeFileSync(path, `${alice.credentials.clientSecret}\n`);
  chmodSync(path, mode);
  return path;
}

const environmentOf = (path: string) => ({
  ASP_PROFILE: service.baseUrl,
  ASP_CLIENT_ID: alice.credentials.clientId,
  ASP_CLIENT_SECRET_FILE: path,
});

async function whoami(path: string) {
  const { code, out, err } = await runWords('whoami --short --json --retries 0', { environment: environmentOf(path) });
  const failure = err === '' ? undefined : (JSON.parse(err) as { error: { message: string; hint?: string } }).error;
  return { code, isAlice: out.includes(alice.handle), message: failure?.message, hint: failure?.hint };
}

describe('ASP_CLIENT_SECRET_FILE', () => {
  it.each(['600', '400'])('is used when it is private (%s)', async (mode) => {
    expect(await whoami(secretFile(Number.parseInt(mode, 8)))).toMatchObject({ code: 0, isAlice: true });
  });

  it('is followed through links, as Kubernetes lays secrets out', async () => {
    mkdirSync(join(folder, '..2026_11_21'));
    secretFile(0o400, join(folder, '..2026_11_21', 'secret'));
    symlinkSync('..2026_11_21', join(folder, '..data'));
    symlinkSync('..data/secret', join(folder, 'secret'));
    expect(await whoami(join(folder, 'secret'))).toMatchObject({ code: 0, isAlice: true });
  });

  it.each(['644', '604', '660', '602'])('is refused when other users can read or write it (%s)', async (mode) => {
    const path = secretFile(Number.parseInt(mode, 8));
    expect(await whoami(path)).toMatchObject({
      code: 4,
      message: `${path} (ASP_CLIENT_SECRET_FILE) is not used.`,
      hint: 'other users can read or write it. Run chmod 600 on it, or mount it read-only.',
    });
  });

  it('is named if it does not exist, is empty, or is not a regular file', async () => {
    const missing = join(folder, 'missing');
    expect(await whoami(missing)).toMatchObject({
      code: 4,
      message: `${missing} (ASP_CLIENT_SECRET_FILE) does not exist.`,
    });
    writeFileSync(missing, ' \n', { mode: 0o600 });
    expect((await whoami(missing)).message).toBe(`${missing} (ASP_CLIENT_SECRET_FILE) contains no secret.`);
    expect(await whoami(folder)).toMatchObject({ code: 4, hint: 'it is not a regular file, or it is too large.' });
  });

  it.runIf(isRoot)("is refused when it is another user's", async () => {
    const path = secretFile(0o600);
    chownSync(path, NOBODY, NOBODY);
    expect(await whoami(path)).toMatchObject({ code: 4, hint: 'it belongs to another user.' });
  });

  it.runIf(isRoot)("may be root's and group-readable, but not the user's own and group-readable", async () => {
    const path = secretFile(0o440);
    chownSync(path, 0, NOBODY);
    const run = () =>
      collect(startProgram(['whoami', '--short'], environmentOf(path), { uid: NOBODY, gid: NOBODY, cwd: '/' }));
    expect(await run()).toMatchObject({ code: 0, out: `${alice.handle}\n` });
    chownSync(path, NOBODY, NOBODY);
    expect(await run()).toMatchObject({ code: 4, err: expect.stringContaining('other users can read or write it') });
  });

  it.runIf(canMount)('may be readable by all if it is mounted read-only, whatever its owner', async () => {
    const path = secretFile(0o444);
    const mount = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1"';
    const line = `${mount}; exec "$2" "$3" whoami --short`;
    const words = ['-rm', 'sh', '-c', line, 'sh', folder, process.execPath, PROGRAM_FILE];
    const env = { PATH: process.env['PATH'], ...environmentOf(path) };
    const run = () => collect(spawn('unshare', words, { stdio: ['ignore', 'pipe', 'pipe'], env }));
    expect(await run()).toMatchObject({ code: 0, out: `${alice.handle}\n` });
    if (isRoot) chownSync(path, NOBODY, NOBODY);
    expect(await run()).toMatchObject({ code: 0, out: `${alice.handle}\n` });
  });
});
