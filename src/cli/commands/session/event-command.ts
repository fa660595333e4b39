import type { ChildProcess } from 'node:child_process';
import type { Socket } from 'node:net';
import { constants } from 'node:os';
import type { Readable } from 'node:stream';
import type { Clock } from '../../../kit/clock.js';
import { toJsonLine } from '../../../kit/json-line.js';
import { findActor } from '../../../wire/event.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Context } from '../../context/context.js';
import { childEnvironment } from '../../terminal/child-environment.js';
import type { Streams } from '../../terminal/streams.js';
import type { StartCommand } from '../run/command-guard.js';

/** How a command ended: one of the two is null. */
export interface CommandEnd {
  readonly exitCode: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** For example `exited with 3`. A shell reports the signal that ended its program as 128 plus the signal. */
export function describeEnd({ exitCode, signal }: CommandEnd): string {
  if (signal !== null) return `was killed by ${signal}`;
  const [name] = Object.entries(constants.signals).find(([, number]) => number + 128 === exitCode) ?? [];
  return `exited with ${exitCode}${name === undefined ? '' : ` (${name})`}`;
}

/** A command that got an event. */
export interface EventCommand {
  /** Resolves when it has exited and its output has been read. Rejects if it could not be started. */
  readonly ended: Promise<CommandEnd>;
  kill(signal: NodeJS.Signals): void;
}

export interface EventCommandOptions {
  readonly environment: Readonly<Record<string, string>>;
  readonly start: StartCommand;
  /** Gets the output part by part; until it resolves, the command has to wait. Resolves to whether it wants more. */
  onOutput(part: Buffer): Promise<boolean>;
}

/**
 * Starts `command`: the event on its standard input, its ids in the environment, no peer text on its command line. Its
 * stderr goes to ours; if ours is JSON, each line becomes a line of JSON that names the event.
 */
export function startEventCommand(
  { clock, environment, output, streams }: Context,
  command: string,
  event: EventEnvelope,
  options: EventCommandOptions,
): EventCommand {
  const ids = {
    ...options.environment,
    ASP_EVENT_ID: event.event_id,
    ASP_EVENT_TYPE: event.type,
    ASP_SESSION_ID: event.session_id,
    ASP_SEQUENCE: String(event.sequence),
    ASP_ACTOR: findActor(event),
  };
  const { child, opened, kill } = options.start(command, {
    stdio: ['pipe', 'pipe', output.format === 'human' ? 'inherit' : 'pipe'],
    env: childEnvironment(environment, ids),
  });
  const closed = new Promise<CommandEnd>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (exitCode, signal) => resolve({ exitCode, signal }));
  });
  const reading = readWhileHeld(clock, child, child.stdout, async (from) => {
    for await (const part of from) if (!(await options.onOutput(part as Buffer))) return;
  });
  const passing = readWhileHeld(clock, child, child.stderr, (from) =>
    passOnErrors(from, { event_id: event.event_id }, streams.stderr),
  );
  const ended = Promise.all([closed, reading, passing]).then(async ([end, ...held]) => {
    if (held.includes(true)) await output.note(`${event.event_id}: ${HELD}`);
    return end;
  });
  // A command does not have to read its input.
  child.stdin?.on('error', () => {});
  void opened.then(() => child.stdin?.end(`${toJsonLine(event)}\n`));
  return { ended, kill };
}

const HELD =
  'the command has exited, but a process that it started keeps its output open. Everything that process prints from now on is lost. Redirect its output, for example with >/dev/null 2>&1.';
const HELD_MS = 2_000;
/** A pipe on Linux holds at most this much, unless root raises the limit. */
const PIPE_MAX_BYTES = 1024 * 1024;

/**
 * Reads an output of a program until its end. If a process that the program started keeps it open, it is closed a
 * moment after the program has exited. Resolves to whether that happened.
 */
export async function readWhileHeld(
  clock: Clock,
  child: ChildProcess,
  output: Readable | null,
  read: (from: Readable) => Promise<void>,
): Promise<boolean> {
  if (output === null) return false;
  const from = output as Socket;
  let isHeld = false;
  let cancel = (): void => {};
  const watch = (ownBytesMax: number): void => {
    cancel = clock.schedule(HELD_MS, () => {
      // The reader may still be busy with what the program itself printed.
      if (from.readableLength > 0 && from.bytesRead <= ownBytesMax) return watch(ownBytesMax);
      isHeld = true;
      from.destroy();
    });
  };
  const onExit = (): void => watch(from.bytesRead + PIPE_MAX_BYTES);
  child.once('exit', onExit);
  try {
    await read(from);
  } catch (error) {
    if (!isHeld) throw error;
  } finally {
    child.removeListener('exit', onExit);
    cancel();
  }
  return isHeld;
}

/** A longer line becomes several, so that it does not fill the memory. */
const ERROR_LINE_MAX = 64 * 1024;

/** Each line of a program's errors as a line of JSON that says what it is `about`. */
export async function passOnErrors(
  from: Readable,
  about: Readonly<Record<string, string>>,
  to: Streams['stderr'],
): Promise<void> {
  let rest = '';
  let held = '';
  const write = async (stderr: string): Promise<void> => {
    rest = '';
    await to.write(`${toJsonLine({ ...about, stderr })}\n`);
  };
  from.setEncoding('utf8');
  try {
    for await (const more of from) {
      const text = `${held}${more}`;
      // A line feed may follow.
      held = text.endsWith('\r') ? '\r' : '';
      const [first = '', ...lines] = text.slice(0, text.length - held.length).split(/\r\n|\n|\r/);
      rest += first;
      for (const line of lines) {
        await write(rest);
        rest = line;
      }
      while (rest.length >= ERROR_LINE_MAX) {
        const after = rest.slice(ERROR_LINE_MAX);
        await write(rest.slice(0, ERROR_LINE_MAX));
        rest = after;
      }
    }
  } finally {
    if (rest !== '') await write(rest);
  }
}
