import { spawn } from 'node:child_process';

import { wait } from '../../../kit/clock.js';
import type { Context } from '../../context/context.js';

/** A process, by its number and its start: numbers are given again. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly start?: string | undefined;
}

/** Ends commands that outlive their runner. */
export interface CommandGuard {
  /** Undefined where there is none: on Windows, which knows no process groups. */
  readonly identity: ProcessIdentity | undefined;
  /** Watches over a process group; the result says that it has ended. */
  watch(group: number): () => void;
  close(): void;
}

/**
 * A shell that is told of each process group that begins (+) and ends (-). Its input ends when the runner does, also by
 * `kill -9`: then it ends the groups that are left, by SIGKILL after 2 s.
 */
const SCRIPT = `
trap '' HUP INT TERM
groups=' '
while read -r what group; do
  case $what in
    +) groups="$groups$group " ;;
    -) groups="\${groups%% $group *} \${groups#* $group }" ;;
  esac
done
is_alive() { for group in $groups; do kill -s 0 -- "-$group" && return 0; done; return 1; }
for group in $groups; do kill -s TERM -- "-$group"; done
tries=0
while is_alive && [ $tries -lt 20 ]; do sleep 0.1; tries=$((tries + 1)); done
for group in $groups; do kill -s KILL -- "-$group"; done
`;

export function startCommandGuard({ machine }: Context): CommandGuard {
  if (machine.platform === 'win32') return { identity: undefined, watch: () => () => {}, close: () => {} };
  const child = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  // Without a guard, commands are run all the same.
  child.on('error', () => {});
  child.stdin.on('error', () => {});
  child.unref();
  const { pid } = child;
  return {
    identity: pid === undefined ? undefined : { pid, start: machine.processStart(pid) },
    watch(group) {
      child.stdin.write(`+ ${group}\n`);
      return () => void child.stdin.write(`- ${group}\n`);
    },
    close: () => void child.stdin.end(),
  };
}

const POLL_MS = 50;
const GONE_WITHIN_MS = 5_000;

/** Waits until the guard of an earlier run has ended what that one left behind. */
export async function waitForGuard(
  { machine, clock, output }: Context,
  { pid, start }: ProcessIdentity,
  signal: AbortSignal,
): Promise<void> {
  const isThere = (): boolean => machine.isProcessAlive(pid) && machine.processStart(pid) === start;
  const lastAt = clock.monotonic() + GONE_WITHIN_MS;
  if (isThere()) await output.detail('waiting for the commands of the last run to end');
  while (isThere() && clock.monotonic() < lastAt) await wait(clock, POLL_MS, signal);
}
