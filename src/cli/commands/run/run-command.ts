import type { Readable } from 'node:stream';
import type { Handover, Incoming, Produced, Responder } from '../../../agent/answer.js';
import { backoffMs, wait } from '../../../kit/clock.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import { readHops } from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { HOPS_VARIABLE } from '../send/hops.js';
import { describeEnd, startEventCommand } from '../session/event-command.js';
import type { CommandGuard } from './command-guard.js';

const KILL_AFTER_MS = 2_000;
const FIRST_PAUSE_MS = 1_000;
const STARTED_AFTER_MS = 150;

/** How a shell reports a command that it cannot run (POSIX, sh: Exit Status). */
const CANNOT_RUN: Readonly<Record<number, string>> = {
  126: 'exit 126 means that the command is not executable.',
  127: 'exit 127 means that the shell did not find the command, or a program that it runs.',
};

export interface CommandRules {
  readonly protocol: 'exec';
  readonly command: string;
  readonly tries: number;
  readonly timeoutMs: number;
}

/** With it, `asp` in a program acts as the same agent at the same service. */
export async function agentEnvironment(context: Context, me: string): Promise<Readonly<Record<string, string>>> {
  return { ASP_AGENT: me, ASP_PROFILE: (await context.profile()).name };
}

/** A command that is run for each message. */
export function respondByCommand(
  context: Context,
  rules: CommandRules,
  guard: CommandGuard,
  environment: Readonly<Record<string, string>>,
): Responder {
  return {
    respond: (event, signal, handover) => runCommand(context, rules, guard, event, environment, signal, handover),
    close: async () => {},
  };
}

/**
 * Runs a command for an event until it succeeds or has failed too often. Rejects with the signal's reason.
 * @throws CliError `ASP_CONFIG` if the command cannot be run at all
 */
async function runCommand(
  context: Context,
  rules: CommandRules,
  guard: CommandGuard,
  event: Incoming,
  agent: Readonly<Record<string, string>>,
  signal: AbortSignal,
  { begin, onTaken }: Handover,
): Promise<Produced> {
  for (let tries = 1; ; tries += 1) {
    const time = String(await begin());
    const environment = { ...agent, ASP_TRY: time, [HOPS_VARIABLE]: String(readHops(event.payload) + 1) };
    const printed = { ...(await runOnce(context, rules, guard, event, environment, signal, onTaken)), tries };
    signal.throwIfAborted();
    if (printed.kind === 'failed') refuseUnrunnable(printed.exitCode);
    if (printed.kind === 'printed' || tries >= rules.tries) return printed;
    await context.output.note(`${event.event_id}: ${printed.why}; trying again.`);
    await wait(context.clock, backoffMs(FIRST_PAUSE_MS, tries - 1), signal);
  }
}

/** Every message would fail the same way, so none counts as done. */
function refuseUnrunnable(exitCode: number | null): void {
  const why = CANNOT_RUN[exitCode ?? 0];
  if (why === undefined) return;
  throw new CliError('ASP_CONFIG', {
    message: 'The command of --exec cannot be run, so the message was not answered.',
    why,
  });
}

type Once = { kind: 'printed'; exitCode: 0; text: string } | { kind: 'failed'; exitCode: number | null; why: string };

async function runOnce(
  context: Context,
  { command, timeoutMs }: CommandRules,
  guard: CommandGuard,
  event: EventEnvelope,
  environment: Readonly<Record<string, string>>,
  signal: AbortSignal,
  onTaken: () => void,
): Promise<Once> {
  signal.throwIfAborted();
  const { clock } = context;
  const running = startEventCommand(context, command, event, { environment, start: guard.start });
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
  // A command that cannot be run ends at once: nothing received its message.
  cancels.push(clock.schedule(STARTED_AFTER_MS, onTaken));
  try {
    const tooMuch = (): void => stop(`the command printed more than ${MESSAGE_BODY_MAX_BYTES / 1024} KiB`);
    const [end, bytes] = await Promise.all([running.ended, collect(running.stdout, tooMuch)]);
    const { exitCode } = end;
    if (CANNOT_RUN[exitCode ?? 0] === undefined) onTaken();
    if (stopped !== undefined) return { kind: 'failed', exitCode, why: stopped };
    if (exitCode !== 0) return { kind: 'failed', exitCode, why: `the command ${describeEnd(end)}` };
    const text = decodeText(bytes);
    if (text === undefined) return { kind: 'failed', exitCode, why: 'the command printed text that is not UTF-8' };
    return { kind: 'printed', exitCode, text };
  } finally {
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

/** Strips one trailing line feed. Undefined if the output is blank or not UTF-8. */
function decodeText(bytes: Buffer): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '');
    return text.trim() === '' ? '' : text;
  } catch {
    return undefined;
  }
}
