import type { Incoming, Responder } from '../../../agent/answer.js';
import type { FindRelation } from '../../../agent/relation.js';
import { backoffMs, wait } from '../../../kit/clock.js';
import { sanitizeLine } from '../../../kit/sanitize.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import { readHops } from '../../../wire/message.js';
import type { Relation } from '../../../wire/relation.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Message } from '../../../wire/schemas/message.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { decodeIfUtf8 } from '../../input.js';
import { HOPS_VARIABLE } from '../send/hops.js';
import { describeEnd, startEventCommand } from '../session/event-command.js';
import type { CommandGuard } from './command-guard.js';
import type { JsonExchange, Once } from './reply-json.js';
import type { Allowed, RunRules } from './run.js';

const KILL_AFTER_MS = 2_000;
const FIRST_PAUSE_MS = 1_000;
const STARTED_AFTER_MS = 150;
const JSON_FACTOR = 6;

/** How a shell reports a command that it cannot run (POSIX, sh: Exit Status). */
const CANNOT_RUN: Readonly<Record<number, string>> = {
  126: 'exit 126 means that the command is not executable.',
  127: 'exit 127 means that the shell did not find the command, or a program that it runs.',
};

type CommandRules = Extract<RunRules, { protocol: 'exec' }>;

/** With it, `asp` in a program acts as the same agent at the same service. */
export async function agentEnvironment(context: Context, me: string): Promise<Readonly<Record<string, string>>> {
  return { ASP_AGENT: me, ASP_PROFILE: (await context.profile()).name };
}

/** The event with what it does not say itself. */
export async function describeMessage(
  event: Incoming,
  attempt: number,
  findRelation: FindRelation,
  recent?: readonly Message[],
): Promise<EventEnvelope> {
  const { payload } = event;
  const relation = await findRelation(payload.sender);
  const asp = { try: attempt, hops: readHops(payload) + 1, relation, ...(recent !== undefined && { recent }) };
  return { ...event, asp } as EventEnvelope;
}

/** A command that is run for each message. Without an exchange, it prints text. */
export function respondByCommand(
  context: Context,
  rules: CommandRules,
  guard: CommandGuard,
  agent: Readonly<Record<string, string>>,
  findRelation: FindRelation,
  exchange: JsonExchange | undefined,
): Responder {
  const respond = retrying(context, rules.tries, async (event, signal, attempt, onTaken) => {
    const environment = { ...agent, ASP_TRY: String(attempt), [HOPS_VARIABLE]: String(readHops(event.payload) + 1) };
    const { recent } = rules;
    const input =
      exchange === undefined || recent === 0
        ? await describeMessage(event, attempt, findRelation)
        : await exchange.describe(event, { attempt, recent }, signal);
    const once = await runOnce(context, rules, guard, input, environment, signal, onTaken);
    const isJson = exchange !== undefined && rules.repliesAs === 'json' && once.kind === 'printed';
    return isJson ? exchange.readText(event, once.text, once.exitCode, signal) : once;
  });
  return { respond, close: async () => {} };
}

/** Starts nothing for senders without the right to run it, and sends nothing to those without the right to a reply. */
export function withRights(
  context: Context,
  allow: Allowed | undefined,
  findRelation: FindRelation,
  responder: Responder,
): Responder {
  if (allow === undefined) return responder;
  const note = async (event: Incoming, what: string, right: string, relation: Relation): Promise<void> => {
    const sender = `${sanitizeLine(event.payload.sender)} (${relation})`;
    await context.output.note(`${event.event_id}: ${what}: --allow does not grant ${right} to ${sender}.`);
  };
  return {
    close: () => responder.close(),
    async respond(event, signal, handover) {
      const relation = await findRelation(event.payload.sender);
      const rights = allow.get(relation);
      if (rights?.has('run') !== true) {
        await note(event, 'the command was not run', 'run', relation);
        return { kind: 'printed', exitCode: null, tries: 0, text: '' };
      }
      const produced = await responder.respond(event, signal, handover);
      if (rights.has('reply')) return produced;
      await note(event, 'nothing was sent', 'reply', relation);
      const { exitCode, tries } = produced;
      return produced.kind === 'failed'
        ? { ...produced, isSilent: true }
        : { kind: 'printed', exitCode, tries, text: '' };
    },
  };
}

/** One attempt; `attempt` counts those of earlier runs too. */
type Attempt = (event: Incoming, signal: AbortSignal, attempt: number, onTaken: () => void) => Promise<Once | 'again'>;

/**
 * Repeats an attempt for a message until it succeeds or has failed too often. `again` does not count.
 * @throws CliError `ASP_CONFIG` if the command cannot be run at all, and the signal's reason
 */
export function retrying(context: Context, triesMax: number, once: Attempt): Responder['respond'] {
  return async (event, signal, { begin, onTaken }) => {
    for (let tries = 1; ; ) {
      const result = await once(event, signal, await begin(), onTaken);
      signal.throwIfAborted();
      if (result === 'again') continue;
      const produced = { ...result, tries };
      if (produced.kind === 'printed') return produced;
      refuseUnrunnable(produced.exitCode);
      if (tries >= triesMax) return produced;
      await context.output.note(`${event.event_id}: ${produced.why}; trying again.`);
      await wait(context.clock, backoffMs(FIRST_PAUSE_MS, tries - 1), signal);
      tries += 1;
    }
  };
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

async function runOnce(
  context: Context,
  { command, timeoutMs, repliesAs }: CommandRules,
  guard: CommandGuard,
  event: EventEnvelope,
  environment: Readonly<Record<string, string>>,
  signal: AbortSignal,
  onTaken: () => void,
): Promise<Once> {
  signal.throwIfAborted();
  const { clock } = context;
  // Escapes make JSON longer than the message.
  const maxBytes = repliesAs === 'json' ? JSON_FACTOR * MESSAGE_BODY_MAX_BYTES : MESSAGE_BODY_MAX_BYTES;
  const parts: Buffer[] = [];
  let size = 0;
  const running = startEventCommand(context, command, event, {
    ...{ environment, start: guard.start },
    async onOutput(part) {
      parts.push(part);
      size += part.byteLength;
      if (size > maxBytes) stop(`the command printed more than ${maxBytes / 1024} KiB`);
      return size <= maxBytes;
    },
  });
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
    const end = await running.ended;
    const { exitCode } = end;
    if (CANNOT_RUN[exitCode ?? 0] === undefined) onTaken();
    if (stopped !== undefined) return { kind: 'failed', exitCode, why: stopped };
    if (exitCode !== 0) return { kind: 'failed', exitCode, why: `the command ${describeEnd(end)}` };
    const text = decodeText(Buffer.concat(parts));
    if (text === undefined) return { kind: 'failed', exitCode, why: 'the command printed text that is not UTF-8' };
    return { kind: 'printed', exitCode, text };
  } finally {
    signal.removeEventListener('abort', onAbort);
    for (const cancel of cancels) cancel();
  }
}

/** Strips one trailing line feed; blank output is empty. Undefined if it is not UTF-8. */
function decodeText(bytes: Buffer): string | undefined {
  const text = decodeIfUtf8(bytes)?.replace(/\r?\n$/, '');
  return text?.trim() === '' ? '' : text;
}
