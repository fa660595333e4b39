import { spawn } from 'node:child_process';
import type { Readable } from 'node:stream';
import type { Client } from '../../../client/client.js';
import { wait } from '../../../kit/clock.js';
import { MESSAGE_BODY_MAX_BYTES } from '../../../wire/limit.js';
import { findInReplyTo, IN_REPLY_TO } from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Message } from '../../../wire/schemas/message.js';
import type { JsonObject } from '../../../wire/schemas/requests.js';
import { stableKey } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { describeEnd, startEventCommand } from '../session/event-command.js';
import type { TakenReports } from '../session/taken-reports.js';
import { HOPS, HOW_TO_GO_ON, hopsOf, type LimitName, type Limits, RUN_LIMITS, type Ticket } from './limits.js';
import { persist, type Settled } from './progress-file.js';
import type { RunOptions } from './run.js';

const KILL_AFTER_MS = 2_000;
const FIRST_PAUSE_MS = 1_000;
const STARTED_AFTER_MS = 150;

/** How a shell reports a command that it cannot run (POSIX, sh: Exit Status). */
const CANNOT_RUN: Readonly<Record<number, string>> = {
  126: 'exit 126 means that it is not executable.',
  127: 'exit 127 means that the shell did not find it, or something in it.',
};

export interface CommandRules {
  readonly protocol: 'exec';
  readonly command: string;
  readonly tries: number;
  readonly timeoutMs: number;
}

/** The result of a command or a turn; `text` is empty if there is no reply. */
export type Produced = { readonly exitCode: number | null; readonly tries: number; readonly turn?: TurnFacts } & (
  | { readonly kind: 'printed'; readonly text: string }
  | { readonly kind: 'failed'; readonly why: string }
);

/** What an agent program said of its turn. */
export interface TurnFacts {
  readonly acp_session_id: string | null;
  readonly stop_reason: string | null;
  /** Tokens of the turn, where the agent says so. */
  readonly tokens: number | null;
  /** Of the agent's context window, in tokens. */
  readonly context_used: number | null;
  readonly context_size: number | null;
  /** Of the whole session so far. */
  readonly cost: { readonly amount: number; readonly currency: string } | null;
  readonly permissions: { readonly allowed: number; readonly refused: number };
}

/** What makes the reply to a message. */
export interface Responder {
  /**
   * Calls `onTaken` once it is certain that the message was handed over. Rejects with the signal's reason, or with a
   * `CliError` when no message could be answered.
   */
  respond(event: Incoming, signal: AbortSignal, onTaken: () => void): Promise<Produced>;
  close(): Promise<void>;
}

/** A command that is run for each message. */
export function respondByCommand(context: Context, rules: CommandRules, guard: CommandGuard, me: string): Responder {
  return {
    respond: (event, signal, onTaken) => runCommand(context, rules, guard, event, me, signal, onTaken),
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
  event: EventEnvelope,
  me: string,
  signal: AbortSignal,
  onTaken: () => void,
): Promise<Produced> {
  for (let tries = 1; ; tries += 1) {
    const environment = { ASP_AGENT: me, ASP_PROFILE: (await context.profile()).name, ASP_TRY: String(tries) };
    const printed = { ...(await runOnce(context, rules, guard, event, environment, signal, onTaken)), tries };
    signal.throwIfAborted();
    if (printed.kind === 'failed') refuseUnrunnable(printed.exitCode);
    if (printed.kind === 'printed' || tries >= rules.tries) return printed;
    await context.output.note(`${event.event_id}: ${printed.why}; trying again.`);
    await wait(context.clock, FIRST_PAUSE_MS * 2 ** (tries - 1), signal);
  }
}

/** Every message would fail the same way, so none counts as done. */
function refuseUnrunnable(exitCode: number | null): void {
  const why = CANNOT_RUN[exitCode ?? 0];
  if (why === undefined) return;
  throw new CliError('ASP_CONFIG', {
    message: 'The command of --exec cannot be run. Its message is left to the next run.',
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
  // A command that cannot be run ends at once: nothing received its message.
  cancels.push(clock.schedule(STARTED_AFTER_MS, onTaken));
  try {
    const tooMuch = (): void => stop(`the command printed more than ${MESSAGE_BODY_MAX_BYTES / 1024} KiB`);
    const [end, bytes] = await Promise.all([running.ended, collect(running.stdout, tooMuch)]);
    const { exitCode } = end;
    if (CANNOT_RUN[exitCode ?? 0] === undefined) onTaken();
    if (stopped !== undefined) return { kind: 'failed', exitCode, why: stopped };
    if (exitCode !== 0) return { kind: 'failed', exitCode, why: `the command ${describeEnd(end)}` };
    const text = textOf(bytes);
    if (text === undefined) return { kind: 'failed', exitCode, why: 'the command printed text that is not UTF-8' };
    return { kind: 'printed', exitCode, text };
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

/** Strips one trailing line feed. Undefined if the output is blank or not UTF-8. */
function textOf(bytes: Buffer): string | undefined {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytes).replace(/\r?\n$/, '');
    return text.trim() === '' ? '' : text;
  } catch {
    return undefined;
  }
}

/** The output of `asp run` for a message from another agent. */
export interface RunRecord {
  readonly session_id: string;
  readonly event_id: string;
  readonly message_id: string;
  readonly sequence: number;
  readonly from: string;
  /** `answered`: an earlier run already replied. */
  readonly outcome: 'replied' | 'silent' | 'failed' | 'refused' | 'answered' | 'limited';
  readonly exit_code: number | null;
  readonly tries: number;
  /** For a failed command: the notice that was sent instead of its reply. */
  readonly reply: { readonly message_id: string; readonly sequence: number } | null;
  /** The code of the service's refusal, or the limit that was reached. */
  readonly code: string | null;
  /** When it was done, in milliseconds since the epoch. */
  readonly at: number;
  /** From the start of the command until its reply was sent. */
  readonly duration_ms: number;
  /** Of an agent program alone. */
  readonly turn?: TurnFacts;
}

/** The result for a message; the caller adds the time. */
export type RunResult = Omit<RunRecord, 'at' | 'duration_ms'>;

/** A message from another agent, as the envelope that carries it. */
export type Incoming = EventEnvelope & { readonly payload: Message };

export interface Answering {
  readonly context: Context;
  readonly client: Client;
  readonly me: string;
  readonly respond: Responder['respond'];
  readonly ends: boolean;
  readonly onFailure: RunOptions['onFailure'];
  readonly onLimit: RunOptions['onLimit'];
  readonly reports: TakenReports;
  readonly limits: Limits;
  /** Aborts everything in progress. */
  readonly signal: AbortSignal;
}

/** The member of a reply's metadata that is true if a command failed. */
const FAILED = 'failed';
const FAILURE_NOTICE = 'Sorry, I could not process this message.';

/** Whether a message only says that another agent's command failed. As with bounced mail, it gets no answer. */
export function isFailureNotice(message: Message): boolean {
  return message.metadata?.[FAILED] === true && findInReplyTo(message) !== undefined;
}

/**
 * Gets the reply to a message and sends it. The key of the reply is derived from the event's id, and its
 * metadata name the message. So a later run recognizes an existing reply: by the key while the key is stored, and in
 * the replay forever.
 */
export async function answer(answering: Answering, event: Incoming): Promise<RunResult> {
  const { limits } = answering;
  const ticket = limits.begin(event.payload);
  if (typeof ticket === 'string') {
    // A budget is of this run: the next one answers the message.
    if (answering.onLimit === 'stop' && RUN_LIMITS.includes(ticket)) throw limitStop(event, ticket);
    return limited(answering, event, ticket);
  }
  let wasSent = false;
  try {
    const result = await answerWithin(answering, event, ticket);
    wasSent = result.outcome === 'replied';
    return result;
  } finally {
    ticket.close(wasSent);
    if (wasSent) await limits.written();
  }
}

async function answerWithin(answering: Answering, event: Incoming, ticket: Ticket): Promise<RunResult> {
  const { context, respond, onFailure, reports, signal } = answering;
  const { output } = context;
  // A message that came with an invitation is not part of a session that the agent has joined.
  const isInSession = event.sequence === event.payload.sequence;
  const onTaken = (): void => {
    if (isInSession) reports.note(event.session_id, event.sequence);
  };
  const printed = await respond(event, signal, onTaken);
  const { tries, exitCode, turn } = printed;
  for (const name of ticket.spend({ tokens: turn?.tokens ?? null, cost: turn?.cost ?? null }))
    await output.note(
      `--${name.replace('_', '-')} has no effect: the agent program does not report what its turns use.`,
    );
  const about = { ...aboutMessage(event), exit_code: exitCode, tries, ...(turn !== undefined && { turn }) };
  if (printed.kind === 'failed') {
    const { why } = printed;
    if (onFailure === 'stop') throw failureStop(event, why);
    const isTold = onFailure === 'reply';
    await output.note(`${event.event_id}: ${why}; ${isTold ? 'the sender is notified.' : 'no reply was sent.'}`);
    const failed = { ...about, outcome: 'failed' } as const;
    const notice = isTold ? await reply(answering, event, FAILURE_NOTICE, { [FAILED]: true }) : undefined;
    if (notice === undefined) return failed;
    return notice.kind === 'done' ? { ...failed, reply: notice.reply } : { ...failed, code: notice.error.code };
  }
  if (printed.text === '') return { ...about, outcome: 'silent' };
  const broken = ticket.checkText(printed.text);
  if (broken !== undefined)
    return { ...about, ...(await limited(answering, event, broken)), exit_code: exitCode, tries };
  const sent = await reply(answering, event, printed.text, { [HOPS]: hopsOf(event.payload) + 1 });
  if (sent.kind === 'done') return { ...about, outcome: 'replied', reply: sent.reply };
  // The command printed something different this time; the earlier reply was sent.
  if (sent.error.code === 'IDEMPOTENCY_MISMATCH') return { ...(await answeredBefore(answering, event)), tries };
  await output.note(`${event.event_id}: the reply was refused: ${sent.error.code}`);
  return { ...about, outcome: 'refused', code: sent.error.code };
}

/** Says which limit stops the agent here, and how to go on. */
async function limited({ context }: Answering, event: Incoming, limit: LimitName): Promise<RunResult> {
  await context.output.note(`${event.session_id}: no reply, the limit ${limit} is reached. ${HOW_TO_GO_ON[limit]}`);
  return { ...aboutMessage(event), outcome: 'limited', code: limit, exit_code: null, tries: 0 };
}

/** Sends the one reply to a message, and ends the session if requested. */
async function reply(
  answering: Answering,
  event: Incoming,
  content: string,
  metadata: JsonObject = {},
): Promise<Settled<NonNullable<RunRecord['reply']>>> {
  const { context, client, me, ends, signal } = answering;
  const path = { session_id: event.session_id };
  const body = { content, metadata: { ...metadata, [IN_REPLY_TO]: event.payload.id } };
  const idempotencyKey = stableKey(me, `POST /sessions/${event.session_id}/messages`, `reply:${event.event_id}`);
  const sent = await persist(context, signal, () => client.call('sendMessage', { path, body, idempotencyKey, signal }));
  if (sent.kind === 'refused') return sent;
  if (ends) await endSession(answering, event.session_id);
  const { message_id, sequence } = sent.reply.reply;
  return { kind: 'done', reply: { message_id, sequence } };
}

/** Ends the run with an exit code of its own. */
export function limitStop({ session_id: sessionId }: Pick<EventEnvelope, 'session_id'>, limit: LimitName): CliError {
  const what = RUN_LIMITS.includes(limit) ? 'Its message is left to the next run' : 'Its message gets no reply';
  return new CliError('ASP_LIMIT', {
    message: `${sessionId}: the limit ${limit} is reached. ${what}.`,
    why: `${HOW_TO_GO_ON[limit]} --on-limit stop ends the run here.`,
  });
}

function failureStop(event: Incoming, why: string): CliError {
  return new CliError('ASP_PARTIAL', {
    message: `${event.event_id}: ${why}. The message is left to the next run.`,
    why: '--on-failure stop ends the run here.',
  });
}

/** The remaining work for a message that an earlier run replied to. */
export async function answeredBefore(answering: Answering, event: Incoming): Promise<RunResult> {
  if (answering.ends) await endSession(answering, event.session_id);
  return { ...aboutMessage(event), outcome: 'answered', exit_code: null, tries: 0 };
}

function aboutMessage(event: Incoming) {
  const { session_id, event_id, payload } = event;
  const { id: message_id, sequence, sender: from } = payload;
  return { session_id, event_id, message_id, sequence, from, reply: null, code: null };
}

/** The session may have ended already; not an error. */
async function endSession({ context, client, signal }: Answering, sessionId: string): Promise<void> {
  await persist(context, signal, () => client.call('endSession', { path: { session_id: sessionId }, signal }));
}

/** A process, by its number and its start time: numbers are reused. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly start?: string | undefined;
}

/** Ends commands that outlive their runner. */
export interface CommandGuard {
  /** Undefined if there is none: Windows has no process groups. */
  readonly identity: ProcessIdentity | undefined;
  /** Watches over a process group; call the result when the group has ended. */
  watch(group: number): () => void;
  close(): void;
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

export function startCommandGuard({ machine }: Context): CommandGuard {
  if (machine.platform === 'win32') return { identity: undefined, watch: () => () => {}, close: () => {} };
  const child = spawn('/bin/sh', ['-c', SCRIPT], { stdio: ['pipe', 'ignore', 'ignore'], detached: true });
  // Commands run even without a guard.
  child.on('error', () => {});
  child.stdin.on('error', () => {});
  child.unref();
  const { pid } = child;
  return {
    identity: pid === undefined ? undefined : { pid, start: machine.processStart(pid) },
    watch(group) {
      child.stdin.write(`+ ${group}\n`);
      return () => void child.stdin.write(`- ${group}\n`);
    },
    close: () => void child.stdin.end(),
  };
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
