import type { Readable } from 'node:stream';
import { messageOf } from '../../../kit/format.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import type { Context } from '../../context/context.js';
import { byteLinesOf } from '../../input.js';
import { childEnvironment } from '../../terminal/child-environment.js';
import { shorten } from '../../terminal/output.js';
import { type CommandEnd, describeEnd, passOnErrors, readWhileHeld } from '../session/event-command.js';
import type { CommandGuard } from './command-guard.js';

const KILL_AFTER_MS = 2_000;
const LINE_MAX_BYTES = 8 * 1024 * 1024;
const SHOWN_MAX = 200;

/** Text from a program, on one line. */
export const toShownText = (text: string): string => shorten(sanitizeLine(text), SHOWN_MAX);

/** How a program ended. */
export interface LineProcessEnd {
  readonly why: string;
  readonly exitCode: number | null;
}

/** A program that keeps running and exchanges lines: ours on its standard input, its own on standard output. */
export interface LineProcess {
  /** Writes a line as soon as the program reads. */
  write(line: string): void;
  /** Ends its input, and the program if that does not. */
  close(): Promise<void>;
  /** Ends the program and what it started; `why` is the reason in `ended`. */
  end(why: string): Promise<void>;
  /** Resolves when the program is gone and all of its output was read. */
  readonly ended: Promise<LineProcessEnd>;
  /** The program is gone, but a process that it started may still hold its output. */
  hasExited(): boolean;
}

export interface LineProcessOptions {
  readonly command: string;
  readonly environment: Readonly<Record<string, string>>;
  /** What messages call it, such as `the agent program`. */
  readonly noun: string;
  /** Its name in the JSON lines with its errors. */
  readonly name: string;
  /** Gets each line that is not blank, one after the other: while it is busy, the program waits to write. */
  onLine(line: Buffer): Promise<void>;
}

export function startLineProcess(
  { clock, environment: own, machine, output, streams }: Context,
  guard: CommandGuard,
  { command, environment, noun, name, onLine }: LineProcessOptions,
): LineProcess {
  const { child, opened, kill } = guard.start(command, {
    stdio: ['pipe', 'pipe', output.format === 'human' ? 'inherit' : 'pipe'],
    env: childEnvironment(own, environment),
    cwd: machine.workingDirectory,
  });
  let stopped: string | undefined;
  let isGone = false;
  const end = async (why: string): Promise<void> => {
    if (stopped === undefined && !isGone) {
      stopped = why;
      child.stdin?.end();
      kill('SIGTERM');
      const cancel = clock.schedule(KILL_AFTER_MS, () => kill('SIGKILL'));
      void ended.then(cancel);
    }
    await ended;
  };
  const closed = new Promise<CommandEnd | string>((resolve) => {
    child.once('error', (error) => resolve(error.message));
    child.once('close', (exitCode, signal) => resolve({ exitCode, signal }));
  });
  child.once('exit', () => {
    kill('SIGTERM');
    clock.schedule(KILL_AFTER_MS, () => kill('SIGKILL'), true);
  });
  child.stdin?.on('error', () => {});
  const reading = readWhileHeld(clock, child, child.stdout, (from) => readLines(from, noun, onLine)).then(
    () => {
      // Without output, it can only end.
      const cancel = clock.schedule(KILL_AFTER_MS, () => void end(`${noun} closed its output`));
      void ended.then(cancel);
    },
    (error: unknown) => void end(messageOf(error)),
  );
  const passing = readWhileHeld(clock, child, child.stderr, (from) =>
    passOnErrors(from, { [name]: command }, streams.stderr),
  );
  const ended = Promise.all([closed, reading, passing]).then(([how]): LineProcessEnd => {
    isGone = true;
    const why = stopped ?? (typeof how === 'string' ? how : `${noun} ${describeEnd(how)}`);
    return { why, exitCode: typeof how === 'string' ? null : how.exitCode };
  });
  return {
    write: (line) => void opened.then(() => void (isGone || child.stdin?.write(`${line}\n`))),
    async close() {
      void opened.then(() => child.stdin?.end());
      const cancel = clock.schedule(KILL_AFTER_MS, () => void end('it did not end with its input'));
      await ended;
      cancel();
    },
    end,
    ended,
    hasExited: () => child.exitCode !== null || child.signalCode !== null,
  };
}

async function readLines(from: Readable, noun: string, take: (line: Buffer) => Promise<void>): Promise<void> {
  const tooLong = (): Error => new Error(`${noun} printed a line longer than ${LINE_MAX_BYTES / 1024 / 1024} MiB`);
  for await (const line of byteLinesOf(from, LINE_MAX_BYTES, tooLong))
    if (line.some((byte) => byte > 0x20)) await take(line);
}
