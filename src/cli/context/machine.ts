import { lstatSync, readFileSync } from 'node:fs';
import { homedir, hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { codeOf } from '../../kit/format.js';

import type { Machine } from './context.js';

/** Facts about the machine this process runs on. A user without a home directory has none. */
export function readMachine(process: NodeJS.Process): Machine {
  return {
    platform: process.platform,
    arch: process.arch,
    nodeVersion: process.version,
    hostName: attempt(hostname),
    homeDirectory: attempt(homedir),
    temporaryDirectory: tmpdir(),
    workingDirectory: attempt(() => process.cwd()) ?? '/',
    userId: process.getuid?.(),
    processId: process.pid,
    commandLine: [process.execPath, ...process.argv.slice(1)],
    isProcessAlive,
    processStart,
  };
}

/**
 * Sets `XDG_RUNTIME_DIR` where it is missing, to the folder that Linux made when this user signed in. Programs that start
 * others with a few chosen variables leave it out: MCP clients, coding agents, cron. Without it, `asp` would find neither
 * the local service that this user started in a terminal nor the keychain, which looks it up in the environment itself.
 */
export function adoptRuntimeDirectory(
  { platform, env, getuid }: Pick<NodeJS.Process, 'platform' | 'env' | 'getuid'>,
  folder = '/run/user',
): void {
  if (platform !== 'linux' || env['XDG_RUNTIME_DIR'] !== undefined) return;
  const userId = getuid?.();
  const path = join(folder, String(userId));
  const state = lstatSync(path, { throwIfNoEntry: false });
  if (state?.isDirectory() === true && state.uid === userId && (state.mode & 0o077) === 0)
    env['XDG_RUNTIME_DIR'] = path;
}

function attempt(read: () => string): string | undefined {
  try {
    const value = read();
    return value === '' ? undefined : value;
  } catch {
    return undefined;
  }
}

/** A process of another user counts as alive; one that has ended but was not reaped yet does not. */
function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    return codeOf(error) === 'EPERM';
  }
  return processFacts(pid)?.[0] !== 'Z';
}

/** Clock ticks between the start of the system and that of the process. */
function processStart(pid: number): string | undefined {
  return processFacts(pid)?.[19];
}

/**
 * The fields of Linux's status file of a process: the first is its state, the twentieth its start (proc_pid_stat(5)).
 */
function processFacts(pid: number): readonly string[] | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
    return text.slice(text.lastIndexOf(')') + 2).split(' ');
  } catch {
    return undefined;
  }
}
