import { constants } from 'node:os';
import type { Readable } from 'node:stream';
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
  readonly stdout: Readable;
  /** Rejects when the command could not be started. */
  readonly ended: Promise<CommandEnd>;
  kill(signal: NodeJS.Signals): void;
}

export interface EventCommandOptions {
  readonly environment: Readonly<Record<string, string>>;
  readonly start: StartCommand;
}

/**
 * Starts `command`: the event on its standard input, its ids in the environment, no peer text on its command line. Its
 * stderr goes to ours; if ours is JSON, each line becomes a line of JSON that names the event.
 */
export function startEventCommand(
  { environment, output, streams }: Context,
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
  const passedOn =
    child.stderr === null ? undefined : passOnErrors(child.stderr, { event_id: event.event_id }, streams.stderr);
  const ended = Promise.all([closed, passedOn]).then(([end]) => end);
  // A command does not have to read its input.
  child.stdin?.on('error', () => {});
  void opened.then(() => child.stdin?.end(`${toJsonLine(event)}\n`));
  return { stdout: child.stdout as Readable, ended, kill };
}

/** A longer line of errors is passed on in pieces of this many characters, so that it does not fill the memory. */
const ERROR_LINE_MAX = 64 * 1024;

/** Each line of a program's errors as a line of JSON that says what it is `about`. */
export async function passOnErrors(
  from: Readable,
  about: Readonly<Record<string, string>>,
  to: Streams['stderr'],
): Promise<void> {
  const pass = (line: string): Promise<void> => to.write(`${toJsonLine({ ...about, stderr: line })}\n`);
  from.setEncoding('utf8');
  let rest = '';
  for await (const text of from) {
    // A carriage return at the end may be half of a line break.
    const lines = `${rest}${text}`.split(/\r\n|\n|\r(?!$)/);
    rest = lines.pop() ?? '';
    for (const line of lines) await pass(line);
    for (; rest.length > ERROR_LINE_MAX; rest = rest.slice(ERROR_LINE_MAX)) await pass(rest.slice(0, ERROR_LINE_MAX));
  }
  if (rest !== '') await pass(rest.replace(/\r$/, ''));
}
