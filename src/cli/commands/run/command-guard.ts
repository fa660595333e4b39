import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import type { ProcessIdentity } from '../../../agent/progress-file.js';
import { wait } from '../../../kit/clock.js';
import type { Context } from '../../context/context.js';
import { childEnvironment } from '../../terminal/child-environment.js';

/** A shell command that runs. Its standard input is a pipe. */
interface StartedCommand {
  readonly child: ChildProcess;
  /** Resolves when its input may be written: from then on, a guarded command ends when its runner does. */
  readonly opened: Promise<void>;
  /** A guarded command is a process group: the signal also reaches the processes that it started. */
  kill(signal: NodeJS.Signals): void;
}

export type StartCommand = (
  command: string,
  options: SpawnOptions & Required<Pick<SpawnOptions, 'env'>>,
) => StartedCommand;

/**
 * Starts commands that do not outlive their runner. There is no guard on Windows, where only the shell of a command ends
 * with the runner: Node.js puts it into a job object.
 */
export interface CommandGuard {
  readonly identity: ProcessIdentity | undefined;
  readonly start: StartCommand;
  /** Lets the guard go. True if it has nothing to do: all the commands have ended. */
  close(): boolean;
}

/**
 * A shell that receives each process group that begins (+) and ends (-). Its input ends when the runner does, even by
 * `kill -9`: then it ends the remaining groups, with SIGKILL after 2 s.
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

/**
 * A shell that runs the command once it has read a line. Its input ends when the runner dies, so a command that the
 * guard never heard of never runs. The command then runs in its own shell, so its errors have the usual line numbers.
 */
const GATE = 'read -r _ && exec /bin/sh -c "$0"';

export function startCommandGuard({ environment, machine }: Pick<Context, 'environment' | 'machine'>): CommandGuard {
  if (machine.platform === 'win32') return { identity: undefined, start: startOnWindows, close: () => true };
  const shell = spawn('/bin/sh', ['-c', SCRIPT], {
    stdio: ['pipe', 'ignore', 'ignore'],
    env: childEnvironment(environment),
    detached: true,
  });
  // Commands run even without a guard.
  shell.on('error', () => {});
  shell.stdin.on('error', () => {});
  shell.unref();
  const { pid } = shell;
  const running = new Set<number>();
  return {
    identity: pid === undefined ? undefined : { pid, start: machine.processStart(pid) },
    start(command, options) {
      const child = spawn('/bin/sh', ['-c', GATE, command], { ...options, detached: true });
      const { pid: group } = child;
      if (group === undefined) return { child, opened: Promise.resolve(), kill: () => {} };
      running.add(group);
      child.once('close', () => {
        running.delete(group);
        shell.stdin.write(`- ${group}\n`);
      });
      const opened = new Promise<void>((resolve) => {
        // The guard reads the line even if this process dies now.
        shell.stdin.write(`+ ${group}\n`, () => {
          child.stdin?.write('\n');
          resolve();
        });
      });
      return { child, opened, kill: (signal) => sendSignal(-group, signal) };
    },
    close() {
      shell.stdin.end();
      return running.size === 0;
    },
  };
}

/** Starts a command in the process group of its runner: an interrupt at the terminal reaches both. */
export const startUnguarded: StartCommand = (command, options) => {
  const child = spawn(command, { ...options, shell: true });
  const { pid } = child;
  return { child, opened: Promise.resolve(), kill: (signal) => pid !== undefined && sendSignal(pid, signal) };
};

/**
 * Starts a command whose processes Windows ends together. There are no signals, and the shell alone would leave its
 * program behind, whose output someone would wait for.
 */
const startOnWindows: StartCommand = (command, options) => {
  const child = spawn(command, { ...options, shell: true });
  const { pid } = child;
  const kill = (): void => {
    if (pid === undefined || child.exitCode !== null) return;
    const taskkill = `${options.env?.['SystemRoot'] ?? 'C:\\Windows'}\\System32\\taskkill.exe`;
    const ending = spawn(taskkill, ['/T', '/F', '/PID', String(pid)], { stdio: 'ignore', windowsHide: true });
    ending.once('error', () => void child.kill());
    ending.once('exit', (status) => status === 0 || child.kill());
  };
  return { child, opened: Promise.resolve(), kill };
};

function sendSignal(target: number, signal: NodeJS.Signals): void {
  try {
    process.kill(target, signal);
  } catch {
    // It ended on its own in the meantime.
  }
}

const POLL_MS = 50;
const GONE_WITHIN_MS = 5_000;

/** Waits until the guard of an earlier run has ended the commands that the run left behind. */
export async function waitForGuard(
  { machine, clock, output }: Context,
  { pid, start }: ProcessIdentity,
  signal: AbortSignal,
): Promise<void> {
  const isThere = (): boolean => machine.isProcessAlive(pid) && machine.processStart(pid) === start;
  const lastAt = clock.monotonic() + GONE_WITHIN_MS;
  if (isThere()) await output.detail('waiting for the commands of the previous run to end');
  while (isThere() && clock.monotonic() < lastAt) await wait(clock, POLL_MS, signal);
}
