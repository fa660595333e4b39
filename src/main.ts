import { constants } from 'node:os';

import { VERSION } from './cli/version.js';

/** How long a command may take to end on its own after a signal before the process ends without it. */
const GRACE_MS = 900;

/** The process: arguments, environment, streams and signals in; an exit code, or a death by signal, out. */
async function main(argv: readonly string[]): Promise<void> {
  const [{ run }, { processStreams }, { adoptRuntimeDirectory, readMachine }, { systemClock }, { systemRandom }] =
    await Promise.all([
      import('./cli/run.js'),
      import('./cli/terminal/process-streams.js'),
      import('./cli/context/machine.js'),
      import('./kit/clock.js'),
      import('./kit/random.js'),
    ]);
  adoptRuntimeDirectory(process);
  const stop = new AbortController();
  const signals = new Signals(stop);
  const streams = processStreams(process, (error) => stop.abort(error));
  const exitCode = await run(argv, {
    streams,
    environment: process.env,
    machine: readMachine(process),
    clock: systemClock,
    random: systemRandom,
    version: VERSION,
    signal: stop.signal,
    finishOnSignal: () => signals.finishOnSignal(),
    tidyUpOnSignal: () => signals.tidyUpOnSignal(),
    interrupt: () => signals.receive('SIGINT'),
    untilSignal: (work) => signals.untilSignal(work),
    lendTerminal: (work) => signals.lendTerminal(work),
  });
  await Promise.all([streams.stdout.write(''), streams.stderr.write('')]).catch(() => {});
  if (signals.fatal !== undefined) return dieBySignal(signals.fatal);
  process.exit(exitCode);
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const;
/** Like a shell. */
const SIGNAL_EXIT = 128;

/** Handles the signals that ask the process to end: the first stops the command, the second ends the process. */
class Signals {
  readonly #stop: AbortController;
  #received: NodeJS.Signals | undefined;
  #isFinishing = false;
  #isTidyingUp = false;
  #isTerminalLent = false;
  /** The work that the next signal ends, instead of the command. */
  #interruptible: AbortController | undefined;

  constructor(stop: AbortController) {
    this.#stop = stop;
    for (const name of SIGNALS) process.on(name, (received) => this.receive(received));
  }

  receive(name: NodeJS.Signals): void {
    if (name === 'SIGINT' && this.#isTerminalLent) return;
    if (this.#interruptible !== undefined) {
      this.#interruptible.abort();
      this.#interruptible = undefined;
      return;
    }
    if (this.#received !== undefined) {
      dieBySignal(name);
      return;
    }
    this.#received = name;
    this.#stop.abort(new Error(this.#isFinishing ? `asked to finish by ${name}` : `stopped by ${name}`));
    if (!this.#isFinishing && !this.#isTidyingUp) setTimeout(() => dieBySignal(name), GRACE_MS).unref();
  }

  finishOnSignal(): void {
    this.#isFinishing = true;
  }

  tidyUpOnSignal(): void {
    this.#isTidyingUp = true;
  }

  async untilSignal<Value>(work: (signal: AbortSignal) => Promise<Value>): Promise<Value> {
    const controller = new AbortController();
    this.#interruptible = controller;
    try {
      return await work(controller.signal);
    } finally {
      this.#interruptible = undefined;
    }
  }

  async lendTerminal<Value>(work: () => Promise<Value>): Promise<Value> {
    this.#isTerminalLent = true;
    try {
      return await work();
    } finally {
      this.#isTerminalLent = false;
    }
  }

  /** The signal by which the process dies once the command has ended. */
  get fatal(): NodeJS.Signals | undefined {
    return this.#isFinishing ? undefined : this.#received;
  }
}

function dieBySignal(signal: NodeJS.Signals): void {
  for (const name of SIGNALS) process.removeAllListeners(name);
  // Windows has no signals: there, kill ends the process with 1.
  if (process.platform === 'win32') process.exit(SIGNAL_EXIT + constants.signals[signal]);
  process.kill(process.pid, signal);
}

void main(process.argv.slice(2));
