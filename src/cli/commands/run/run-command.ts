import type { Readable } from 'node:stream';

import { wait } from '../../../kit/clock.js';
import type { EventEnvelope } from '../../../wire/event.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import type { Context } from '../../context/context.js';
import { startEventCommand } from '../session/event-command.js';

const KILL_AFTER_MS = 2_000;
const FIRST_PAUSE_MS = 1_000;

export interface CommandRules {
  readonly command: string;
  readonly tries: number;
  readonly timeoutMs: number;
}

/** What a command came to; `text` is empty when it has nothing to say. */
export type Printed =
  | { readonly kind: 'printed'; readonly text: string; readonly tries: number }
  | { readonly kind: 'failed'; readonly exitCode: number | null; readonly why: string; readonly tries: number };

/** Runs a command for an event until it succeeds or has failed often enough. Rejects with the signal's reason. */
export async function runCommand(
  context: Context,
  rules: CommandRules,
  event: EventEnvelope,
  me: string,
  signal: AbortSignal,
): Promise<Printed> {
  for (let tries = 1; ; tries += 1) {
    const printed = { ...(await runOnce(context, rules, event, me, signal)), tries };
    signal.throwIfAborted();
    if (printed.kind === 'printed' || tries >= rules.tries) return printed;
    await context.output.note(`${event.event_id}: ${printed.why}; trying again.`);
    await wait(context.clock, FIRST_PAUSE_MS * 2 ** (tries - 1), signal);
  }
}

type Once = { kind: 'printed'; text: string } | { kind: 'failed'; exitCode: number | null; why: string };

async function runOnce(
  context: Context,
  { command, timeoutMs }: CommandRules,
  event: EventEnvelope,
  me: string,
  signal: AbortSignal,
): Promise<Once> {
  signal.throwIfAborted();
  const { clock } = context;
  const running = startEventCommand(context, command, event, { environment: { ASP_AGENT: me }, isApart: true });
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
    const [exitCode, bytes] = await Promise.all([running.ended, collect(running.stdout, tooMuch)]);
    if (stopped !== undefined) return { kind: 'failed', exitCode, why: stopped };
    if (exitCode !== 0)
      return { kind: 'failed', exitCode, why: `the command ended with exit ${exitCode ?? 'by a signal'}` };
    const text = textOf(bytes);
    if (text === undefined) return { kind: 'failed', exitCode, why: 'the command printed what is not UTF-8' };
    return { kind: 'printed', text };
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

/** One line feed at the end is not meant; what is blank says nothing. Undefined for what is no text. */
function textOf(bytes: Buffer): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '');
    return text.trim() === '' ? '' : text;
  } catch {
    return undefined;
  }
}
