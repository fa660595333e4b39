import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, mkdtempSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';

import { startPrivatePostgres, whyNotOurs } from './private-postgres.js';
import { IS_LONG } from './tally.js';

/** Linux keeps the files below it in memory. */
const IN_MEMORY = '/dev/shm';
/** A run leaves less than 1 GB. Containers have 64 MB there by default. */
const WANTED_BYTES = 4 * 2 ** 30;

/**
 * Puts all temporary files of the tests into one folder, which is removed when they are done. So are the data of
 * PostgreSQL, where the tests can start it: each test makes a schema of fifty tables, which takes a disk longest.
 */
export async function setup({ vitest }: TestProject): Promise<(() => Promise<void>) | undefined> {
  if (process.env['ASP_TEST_FOLDER'] !== undefined) return undefined;
  const folder = inMemory() ?? mkdtempSync(join(tmpdir(), 'asp-test-'));
  // Some programs run as another user and must be able to enter their own folder inside.
  chmodSync(folder, 0o711);
  process.env['ASP_TEST_FOLDER'] = folder;
  process.env['TMPDIR'] = folder;
  const usesPostgres = vitest.projects.some(({ name }) => name === 'postgres');
  const postgres =
    usesPostgres && whyNotOurs() === undefined ? await startPrivatePostgres().catch(sayWhyNot) : undefined;
  if (postgres !== undefined) process.env['ASP_TEST_POSTGRES'] = postgres.url;
  return async () => {
    if (postgres === undefined) await (await import('./stores.js')).dropEmptied();
    await postgres?.stop();
    rmSync(folder, { recursive: true, force: true });
  };
}

/**
 * Creates a folder in memory. The tests make tens of thousands of files, which cost a disk more time than everything
 * else that some tests do. Undefined if `TMPDIR` names another place, for long runs, and where it is too small or runs
 * no programs. No test asks what a disk keeps without power: that one records the writes and cuts them itself.
 */
function inMemory(): string | undefined {
  if (IS_LONG || process.env['TMPDIR'] !== undefined || !existsSync(IN_MEMORY)) return undefined;
  const { bavail, bsize } = statfsSync(IN_MEMORY);
  if (bavail * bsize < WANTED_BYTES) return undefined;
  const folder = mkdtempSync(join(IN_MEMORY, 'asp-test-'));
  const program = join(folder, 'program');
  writeFileSync(program, '#!/bin/sh\nexit 0\n', { mode: 0o755 });
  const isRun = spawnSync(program).status === 0;
  rmSync(isRun ? program : folder, { recursive: true });
  return isRun ? folder : undefined;
}

/** If the tests cannot start a server, they use the one that runs on this machine. */
function sayWhyNot(error: unknown): undefined {
  process.stderr.write(`The tests could not start a PostgreSQL server, and use the one on this machine: ${error}\n`);
}
