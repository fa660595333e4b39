import { constants } from 'node:os';

import { VERSION } from './cli/version.js';

/** How long a command may take to end on its own after a signal before the process ends without it. */
const GRACE_MS = 900;

/** The process: arguments, environment, streams and signals in; an exit code, or a death by signal, out. */
async function main(argv: readonly string[]): Promise<void> {
  const [{ run }, { processStreams }, { readMachine }, { systemClock }, { systemRandom }] = await Promise.all([
    import('./cli/run.js'),
    import('./cli/terminal/process-streams.js'),
    import('./cli/context/machine.js'),
    import('./kit/clock.js'),
    import('./kit/random.js'),
  ]);
  const stop = new AbortController();
  let received: NodeJS.Signals | undefined;
  let isFinishing = false;
  let isTidyingUp = false;
  let isTerminalLent = false;
  let impatience: AbortController | undefined;
  const dieBySignal = (signal: NodeJS.Signals): void => {
    for (const name of SIGNALS) process.removeAllListeners(name);
    // Windows has no signals: there, kill ends the process with 1.
    if (process.platform === 'win32') process.exit(SIGNAL_EXIT + constants.signals[signal]);
    process.kill(process.pid, signal);
  };
  const onSignal = (name: NodeJS.Signals): void => {
    if (name === 'SIGINT' && isTerminalLent) return;
    if (impatience !== undefined) {
      impatience.abort();
      impatience = undefined;
      return;
    }
    if (received !== undefined) {
      dieBySignal(name);
      return;
    }
    received = name;
    stop.abort(new Error(isFinishing ? `asked to finish by ${name}` : `stopped by ${name}`));
    if (!isFinishing && !isTidyingUp) setTimeout(() => dieBySignal(name), GRACE_MS).unref();
  };
  for (const name of SIGNALS) process.on(name, onSignal);

  const streams = processStreams(process, (error) => stop.abort(error));
  const exitCode = await run(argv, {
    streams,
    environment: process.env,
    machine: readMachine(process),
    clock: systemClock,
    random: systemRandom,
    version: VERSION,
    signal: stop.signal,
    finishOnSignal: () => {
      isFinishing = true;
    },
    tidyUpOnSignal: () => {
      isTidyingUp = true;
    },
    interrupt: () => onSignal('SIGINT'),
    untilSignal: async (work) => {
      const controller = new AbortController();
      impatience = controller;
      try {
        return await work(controller.signal);
      } finally {
        impatience = undefined;
      }
    },
    lendTerminal: async (work) => {
      isTerminalLent = true;
      try {
        return await work();
      } finally {
        isTerminalLent = false;
      }
    },
  });
  await Promise.all([streams.stdout.write(''), streams.stderr.write('')]).catch(() => {});
  if (received !== undefined && !isFinishing) return dieBySignal(received);
  process.exit(exitCode);
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Like a shell. */
const SIGNAL_EXIT = 128;

void main(process.argv.slice(2));
