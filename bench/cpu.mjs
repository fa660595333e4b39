import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

const timerInto = (output) => `TIMEFORMAT='%3U %3S'; { time "$@" >${output} 2>/dev/null; } 2>&1`;

/**
 * Returns the CPU seconds (user and system) of one whole process, as counted by the kernel; throws unless it exits with
 * 0. With `isPiped` it writes into a pipe, whose reader does not count: programs treat /dev/null as a file.
 */
export function cpuOf(command, environment, { isPiped = false } = {}) {
  const timer = timerInto(isPiped ? ' >(cat >/dev/null)' : '/dev/null');
  const { stdout, status } = spawnSync('bash', ['-c', timer, 'bench', ...command], {
    env: environment,
    encoding: 'utf8',
  });
  const [user, system] = stdout.trim().split(' ').map(Number);
  if (status !== 0 || Number.isNaN(user + system)) throw new Error(`${command.join(' ')} ended with ${status}`);
  return user + system;
}

/** Returns the CPU milliseconds of a process's main thread. */
export const threadMsOf = (pid) =>
  Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;

export function medianOf(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/**
 * Returns an environment in which bare Node.js starts as fast as possible: on Node 20, loading extra certificate
 * authorities takes several times as long.
 */
export function quietEnvironment(extra = {}) {
  const { NODE_EXTRA_CA_CERTS: _, NODE_OPTIONS: __, ...rest } = process.env;
  return { ...rest, ...extra };
}
