import type { Readable } from 'node:stream';

import { wait } from '../../../kit/clock.js';
import type { EventEnvelope } from '../../../wire/event.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { describeEnd, startEventCommand } from '../session/event-command.js';
import type { CommandGuard } from './command-guard.js';

const KILL_AFTER_MS = 2_000;
const FIRST_PAUSE_MS = 1_000;

/** What a shell says of a command that it cannot run (POSIX, sh: Exit Status). */
const CANNOT_RUN: Readonly<Record<number, string>> = {
  126: 'exit 126 means that it is not executable.',
  127: 'exit 127 means that the shell did not find it, or something in it.',
};

export interface CommandRules {
  readonly command: string;
  readonly tries: number;
  readonly timeoutMs: number;
}

/** What a command came to; `text` is empty when it has nothing to say. */
export type Printed =
  | { readonly kind: 'printed'; readonly text: string; readonly tries: number }
  | { readonly kind: 'failed'; readonly exitCode: number | null; readonly why: string; readonly tries: number };

/**
 * Runs a command for an event until it succeeds or has failed often enough. Rejects with the signal's reason.
 * @throws CliError `ASP_CONFIG` when the command cannot be run at all
 */
export async function runCommand(
  context: Context,
  rules: CommandRules,
  guard: CommandGuard,
  event: EventEnvelope,
  me: string,
  signal: AbortSignal,
): Promise<Printed> {
  for (let tries = 1; ; tries += 1) {
    const environment = { ASP_AGENT: me, ASP_PROFILE: (await context.profile()).name, ASP_TRY: String(tries) };
    const printed = { ...(await runOnce(context, rules, guard, event, environment, signal)), tries };
    signal.throwIfAborted();
    if (printed.kind === 'failed') refuseUnrunnable(printed.exitCode);
    if (printed.kind === 'printed' || tries >= rules.tries) return printed;
    await context.output.note(`${event.event_id}: ${printed.why}; trying again.`);
    await wait(context.clock, FIRST_PAUSE_MS * 2 ** (tries - 1), signal);
  }
}

/** Every message would fail alike: none is taken for done. */
function refuseUnrunnable(exitCode: number | null): void {
  const why = CANNOT_RUN[exitCode ?? 0];
  if (why === undefined) return;
  throw new CliError('ASP_CONFIG', {
    message: 'The command of --exec cannot be run. Its message is left to the next run.',
    why,
  });
}

type Once = { kind: 'printed'; text: string } | { kind: 'failed'; exitCode: number | null; why: string };

async function runOnce(
  context: Context,
  { command, timeoutMs }: CommandRules,
  guard: CommandGuard,
  event: EventEnvelope,
  environment: Readonly<Record<string, string>>,
  signal: AbortSignal,
): Promise<Once> {
  signal.throwIfAborted();
  const { clock } = context;
  const running = startEventCommand(context, command, event, { environment, isApart: true });
  const unwatch = running.group === undefined ? undefined : guard.watch(running.group);
  const cancels: (() => void)[] = [];
  let stopped: string | undefined;
  const stop = (why: string): void => {
    if (stopped !== undefined) return;
    stopped = why;
    running.kill('SIGTERM');
    cancels.push(clock.schedule(KILL_AFTER_MS, () => running.kill('SIGKILL')));
  };
  const onAbort = (): void => stop('it was stopped');
  signal.addEventListener('abort', onAbort, { once: true });
  cancels.push(clock.schedule(timeoutMs, () => stop(`the command took longer than ${timeoutMs / 1000} s`)));
  try {
    const tooMuch = (): void => stop(`the command printed more than ${MESSAGE_BODY_MAX_BYTES / 1024} KiB`);
    const [end, bytes] = await Promise.all([running.ended, collect(running.stdout, tooMuch)]);
    const { exitCode } = end;
    if (stopped !== undefined) return { kind: 'failed', exitCode, why: stopped };
    if (exitCode !== 0) return { kind: 'failed', exitCode, why: `the command ${describeEnd(end)}` };
    const text = textOf(bytes);
    if (text === undefined) return { kind: 'failed', exitCode, why: 'the command printed text that is not UTF-8' };
    return { kind: 'printed', text };
  } finally {
    unwatch?.();
    signal.removeEventListener('abort', onAbort);
    for (const cancel of cancels) cancel();
  }
}

async function collect(stream: Readable, onTooMuch: () => void): Promise<Buffer> {
  const parts: Buffer[] = [];
  let size = 0;
  for await (const part of stream) {
    size += (part as Buffer).byteLength;
    if (size > MESSAGE_BODY_MAX_BYTES) onTooMuch();
    else parts.push(part as Buffer);
  }
  return Buffer.concat(parts);
}

/** One line feed at the end is not meant; what is blank says nothing. Undefined for what is no text. */
function textOf(bytes: Buffer): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '');
    return text.trim() === '' ? '' : text;
  } catch {
    return undefined;
  }
}
