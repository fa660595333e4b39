import { homedir, tmpdir } from 'node:os';

import type { Machine } from './context.js';

/** The facts of the machine this process runs on. A user without a home directory has none. */
export function machineOf(process: NodeJS.Process): Machine {
  return {
    platform: process.platform,
    arch: process.arch,
    nodeVersion: process.version,
    homeDirectory: attempt(homedir),
    temporaryDirectory: tmpdir(),
    workingDirectory: attempt(() => process.cwd()) ?? '/',
    userId: process.getuid?.(),
    processId: process.pid,
    commandLine: [process.execPath, ...process.argv.slice(1)],
    isProcessAlive,
  };
}

function attempt(read: () => string): string | undefined {
  try {
    const value = read();
    return value === '' ? undefined : value;
  } catch {
    return undefined;
  }
}

/** A process of another user counts as alive. */
function isProcessAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM';
  }
}
