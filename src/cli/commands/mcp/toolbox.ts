import { realpath, stat } from 'node:fs/promises';
import { isAbsolute, join, relative, resolve } from 'node:path';
import type { RequestId } from '@modelcontextprotocol/server';
import type { FindRelation } from '../../../agent/relation.js';
import type { TakenReports } from '../../../agent/taken-reports.js';
import { type Outcome, RequestError } from '../../../client/http/request-error.js';
import { putLast } from '../../../kit/bounded-map.js';
import { quoteArgs } from '../../../kit/format.js';
import { joinSignals } from '../../../kit/join-signals.js';
import { toJsonLine } from '../../../kit/json-line.js';
import { type ToolResult, toToolError, toToolResult } from '../../../kit/mcp.js';
import { findActor, isMessageEvent } from '../../../wire/event.js';
import { findOpenSessions } from '../../../wire/open-session.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Message } from '../../../wire/schemas/message.js';
import {
  cutEvent,
  cutMessage,
  describeSeveral,
  findContinued,
  findToolMistake,
  MESSAGE_CHARS_DEFAULT,
  READ_LIMIT_DEFAULT,
} from '../../../wire/schemas/tool.js';
import type { OptionValue, ParsedArgs } from '../../command.js';
import { read } from '../../context/calls.js';
import type { Context } from '../../context/context.js';
import { describeFailure } from '../../context/describe-failure.js';
import { explain } from '../../context/explain.js';
import { relateSenders } from '../../context/relations.js';
import { findStartCommand } from '../../context/stopped-service.js';
import { CliError, usageError } from '../../errors.js';
import { type Failure, failureLine } from '../../terminal/failure.js';
import type { Output } from '../../terminal/output.js';
import type { Streams } from '../../terminal/streams.js';
import { loadStyle } from '../../terminal/style.js';
import { readId } from '../../values.js';
import { safeFilename } from '../attachment/transfer.js';
import type { messageSend } from '../send/send.js';
import { unseenSession } from '../session/participants.js';
import { type Inbox, type InboxPage, readSession } from './inbox.js';
import { parseSession, type SendLimits } from './send-limits.js';
import { type NextCall, READ_INPUT, type ToolArgs, type ToolDefinition, toNextCall } from './tools.js';

export interface ToolboxParts {
  readonly context: Context;
  readonly tools: readonly ToolDefinition[];
  readonly me: string;
  readonly inbox: Inbox;
  /** The folder of files, whose path on the machine is not revealed. */
  readonly folder: SharedFolder | undefined;
  /** Undefined if the tools may only read. */
  readonly reports: TakenReports | undefined;
  readonly sendLimits: SendLimits;
  readonly relationOf: FindRelation;
  /** Stops all waiting; open calls finish. */
  readonly soft: AbortSignal;
}

/** A call of the client: its number, and a signal that aborts when the client cancels it. */
interface Request {
  readonly requestId: RequestId;
  readonly signal: AbortSignal;
}

/** Calls tools. */
export interface Toolbox {
  call(tool: ToolDefinition, given: Readonly<Record<string, unknown>>, request: Request): Promise<ToolResult>;
  /** Records that the client has the answer to a call. */
  answered(requestId: RequestId): void;
  /** Resolves when no call is open. */
  settled(): Promise<void>;
}

type Arguments = Readonly<Record<string, unknown>>;

/** The sequence of the last message in each session, if its reply was not returned yet. */
type LastSent = Map<string, number>;
const LAST_SENT_MAX = 1_000;

const DEADLINE_MS = 60_000;
/** Exit codes of errors that only a person can fix. */
const SIGN_IN = 4;
const UNREACHABLE = 9;

export function createToolbox(parts: ToolboxParts): Toolbox {
  const running = new Set<Promise<unknown>>();
  const deliveries = new Map<RequestId, () => void>();
  const lastSent: LastSent = new Map();
  return {
    async call(tool, received, { requestId, signal }) {
      const deliver = (delivered: () => void): void => {
        deliveries.set(requestId, delivered);
        signal.addEventListener('abort', () => deliveries.delete(requestId), { once: true });
      };
      const work = callTool(parts, tool, received, { canceled: signal, deliver, lastSent });
      running.add(work);
      try {
        return await work;
      } finally {
        running.delete(work);
      }
    },
    answered(requestId) {
      deliveries.get(requestId)?.();
      deliveries.delete(requestId);
    },
    async settled() {
      await Promise.allSettled(running);
    },
  };
}

interface Call {
  readonly canceled: AbortSignal;
  /** Receives what to do once the client has the answer. */
  readonly deliver: (delivered: () => void) => void;
  readonly lastSent: LastSent;
}

async function callTool(
  parts: ToolboxParts,
  tool: ToolDefinition,
  received: Arguments,
  { canceled, deliver, lastSent }: Call,
): Promise<ToolResult> {
  const { context, soft } = parts;
  const deadline = new AbortController();
  let isDeadlinePassed = false;
  let cancel = (): void => {};
  let release = (): void => {};
  try {
    const input = afterLastSent(tool, checked(tool, received), lastSent);
    const { once, idempotencyKey, deadlineMs = DEADLINE_MS } = tool.rules(input);
    cancel = context.clock.schedule(deadlineMs, () => {
      isDeadlinePassed = true;
      deadline.abort(new Error('the deadline has passed'));
    });
    // Waiting ends with the server; writes finish.
    const ends = tool.effect === 'reads' || input['wait_s'] !== undefined ? [soft] : [];
    const joined = joinSignals(canceled, deadline.signal, ...ends);
    const { signal } = joined;
    release = joined.release;
    const value =
      tool.command === undefined
        ? await readEvents(parts, input, signal, deliver)
        : cutResult(await withinLimits(parts, tool, input, { signal, once, idempotencyKey }));
    noteSent(tool, value, lastSent);
    if (tool.command !== undefined) deliver(() => noteTaken(parts, listReturned(value)));
    const senders = tool.isOwn === true ? {} : await relateSenders(parts.relationOf, value);
    return toToolResult(context.random, tool.isOwn === true, value, senders);
  } catch (error) {
    return toFailureResult(parts, tool, error, isDeadlinePassed);
  } finally {
    cancel();
    release();
  }
}

function noteSent({ command }: ToolDefinition, value: object, lastSent: LastSent): void {
  if (command !== 'message send' && command !== 'session wait') return;
  const { session_id: id = '', sequence, reply, condition } = value as Partial<SentOrMet>;
  if (command === 'message send' && reply === undefined && typeof sequence === 'number')
    putLast(lastSent, id, sequence, LAST_SENT_MAX);
  // The model has its reply.
  else if (reply !== undefined || condition === 'reply') lastSent.delete(id);
}

/** What `send` and `wait` return. */
interface SentOrMet {
  readonly session_id: string;
  readonly sequence: number | null;
  readonly reply: Message;
  readonly condition: string;
}

/** A wait for a reply begins at the last message that was sent: the reply may have arrived before the call. */
function afterLastSent(tool: ToolDefinition, input: Arguments, lastSent: LastSent): Arguments {
  const { session_id: sessionId, for: condition = 'reply', after } = input;
  if (tool.command !== 'session wait' || after !== undefined || condition !== 'reply') return input;
  const sequence = lastSent.get(parseSession(sessionId) ?? '');
  return sequence === undefined ? input : { ...input, after: sequence };
}

function checked(tool: ToolDefinition, received: Arguments): Arguments {
  const mistake = findToolMistake(tool, received);
  if (mistake === undefined) return tool.input.parse(received);
  throw usageError(`The arguments of ${tool.name} are invalid.`, { why: mistake });
}

interface Run {
  readonly signal: AbortSignal;
  readonly once: string | undefined;
  readonly idempotencyKey: string | undefined;
}

/** Runs the command of a tool, unless it sends a message beyond a limit. */
async function withinLimits(parts: ToolboxParts, tool: ToolDefinition, input: Arguments, run: Run): Promise<object> {
  const { text } = input;
  if (tool.command !== 'message send') return runCommand(parts, tool, await tool.args(input), run);
  const { options, ...args }: ToolArgs<typeof messageSend> = await tool.args(input);
  const given = parseSession(input['to']);
  const sessionId = given ?? (await findOpenSession({ ...parts.context, signal: run.signal }, parts, input));
  const positional = given === undefined && sessionId !== undefined ? [sessionId] : args.positional;
  const message = {
    sessionId,
    text: typeof text === 'string' ? text : undefined,
    key: run.idempotencyKey ?? run.once,
  };
  const permit = await parts.sendLimits.begin(message, run.signal);
  let outcome: Outcome = 'applied';
  let key: string | undefined;
  try {
    const meta = [...(options?.meta ?? []), ...permit.metadata];
    return await runCommand(parts, tool, { ...(positional && { positional }), options: { ...options, meta } }, run);
  } catch (error) {
    if (error instanceof RequestError || error instanceof CliError) outcome = error.outcome;
    if (error instanceof RequestError) key = error.idempotencyKey;
    throw error;
  } finally {
    // A message that may have been sent counts: a wait that timed out has sent it.
    await permit.close(outcome !== 'not_applied', key);
  }
}

/** The open session that a message to a handle goes into; for a repetition, the one that the first attempt went to. */
async function findOpenSession(
  context: Context,
  { me, sendLimits }: ToolboxParts,
  input: Arguments,
): Promise<string | undefined> {
  const known = sendLimits.findSession(input['idempotency_key']);
  if (known !== undefined) return known;
  const handle = findContinued(input);
  if (handle === undefined) return undefined;
  const found = await findOpenSessions(me, handle, (query) => read(context, 'listSessions', { query }));
  if (found.length < 2) return found[0]?.id;
  const { message, why } = describeSeveral(handle, found);
  throw usageError(message, { why });
}

/** Runs the command of a tool as one agent; of this process's streams, it uses only the notes. */
async function runCommand(
  { context }: ToolboxParts,
  tool: ToolDefinition,
  toolArgs: ToolArgs,
  run: Run,
): Promise<object> {
  const { signal, once, idempotencyKey } = run;
  const entry = context.program.entries.find(({ path }) => path === tool.command);
  if (entry === undefined) throw new TypeError(`there is no command ${tool.command}`);
  const command = await entry.load();
  const output = captureOutput(context.output);
  const args = toParsedArgs(toolArgs);
  const globals = { ...context.globals, format: 'json', fields: undefined, once, idempotencyKey } as const;
  const streams = { ...NO_STREAMS, stderr: context.streams.stderr };
  await command.start(args, { ...context, globals, output, signal, streams });
  return output.captured() ?? {};
}

/** A tool reads no input, and its output is captured as a document. */
const NO_STREAMS: Pick<Streams, 'stdin' | 'stdout'> = {
  stdin: {
    isTerminal: true,
    async *read() {
      yield* [];
    },
  },
  stdout: { isTerminal: false, isFile: false, columns: 80, isAbandoned: () => false, write: async () => {} },
};

/** The result of a waiting command may be as long as a message can be. */
function cutResult(value: object): object {
  const { reply, event } = value as { readonly reply?: Message; readonly event?: EventEnvelope | null };
  return {
    ...value,
    ...(reply !== undefined && { reply: cutMessage(reply, MESSAGE_CHARS_DEFAULT) }),
    ...(event && { event: cutEvent(event, MESSAGE_CHARS_DEFAULT) }),
  };
}

function toParsedArgs({ positional = [], options = {} }: ToolArgs): ParsedArgs {
  const entries = Object.entries<OptionValue | number | undefined>(options);
  const received = entries.flatMap(([name, value]): [string, OptionValue][] =>
    value === undefined ? [] : [[name, typeof value === 'number' ? String(value) : value]],
  );
  return { options: new Map(received), positional };
}

/** An output that keeps what a command would have printed with `--json`. */
interface CapturedOutput extends Output {
  readonly captured: () => object | undefined;
}

/** Notes are not part of a document and still go to `notes`. */
function captureOutput(notes: Output): CapturedOutput {
  let value: object | undefined;
  const ignore = async (): Promise<void> => {};
  return {
    format: 'json',
    captured: () => value,
    async document(received) {
      value = received;
    },
    async list(page) {
      value = page;
    },
    async record(received) {
      value = received;
    },
    toRecord: toJsonLine,
    records: ignore,
    finish: () => {},
    text: ignore,
    verbatim: ignore,
    bytes: ignore,
    note: (text) => notes.detail(text),
    detail: (text) => notes.detail(text),
    trace: (entry) => notes.trace(entry),
    style: () => loadStyle(false),
  };
}

async function readEvents(
  { context, me, inbox, reports }: ToolboxParts,
  input: Arguments,
  signal: AbortSignal,
  deliver: Call['deliver'],
): Promise<InboxPage> {
  const { session_id: session, after, ...read } = READ_INPUT.parse(input);
  const wanted = {
    after,
    limit: read.limit ?? READ_LIMIT_DEFAULT,
    maxChars: read.max_chars ?? MESSAGE_CHARS_DEFAULT,
    waitMs: (read.wait_s ?? 0) * 1000,
    isWanted: (event: EventEnvelope) => read.others_only !== true || findActor(event) !== me,
  };
  if (session === undefined) {
    const { page, delivered } = await inbox.read(wanted, signal);
    deliver(() => {
      delivered();
      noteTaken({ me, reports }, page.events);
    });
    return page;
  }
  const sessionId = readId('session', session);
  const page = await explain(unseenSession(sessionId), readSession(context, sessionId, wanted, signal));
  deliver(() => noteTaken({ me, reports }, page.events));
  return page;
}

/** What a tool that waited returned: the answer to what it sent, or the event it waited for. */
function listReturned(value: object): EventEnvelope[] {
  const { reply, event } = value as { readonly reply?: Message; readonly event?: EventEnvelope | null };
  if (event) return [event];
  if (reply === undefined) return [];
  const { session_id, sequence, created_at } = reply;
  return [{ type: 'session.message', session_id, event_id: '', sequence, created_at, payload: reply }];
}

/** The model has these: the client has the answer that contains them. */
function noteTaken({ me, reports }: Pick<ToolboxParts, 'me' | 'reports'>, events: readonly EventEnvelope[]): void {
  for (const event of events)
    if (isMessageEvent(event) && event.payload.sender !== me) reports?.note(event.session_id, event.sequence);
}

/** Codes as services send them, without anything that could be read as a sentence. */
export const CODE = /^[A-Za-z0-9_]{1,40}$/;
const OUT_OF_SIGHT = '(in the words of the service, below)';

/** The error as every command prints it with `--json`, with advice in terms of tools. */
async function toFailureResult(
  { context, tools, folder }: ToolboxParts,
  tool: ToolDefinition,
  error: unknown,
  isDeadlinePassed: boolean,
): Promise<ToolResult> {
  const quotes: string[] = [];
  const quote = (text: string): string => {
    quotes.push(text);
    return OUT_OF_SIGHT;
  };
  const identity = { ...context.identity(), startLocal: await findStartCommand(context, error) };
  const deadline = { isDeadlinePassed, deadlineMs: undefined, deadlineFrom: undefined };
  const failure = describeFailure(error, { argv: [], identity, isDebug: false, quote, ...deadline });
  const code = CODE.test(failure.code) ? failure.code : quote(failure.code);
  const { next, why } = suggestNext(failure, tool, tools);
  const message = folder === undefined ? failure.message : failure.message.replaceAll(join(folder.path, '/'), '');
  const line = JSON.parse(failureLine({ ...failure, code, message, why, next: undefined })) as { error: object };
  return toToolError(context.random, { ...line.error, next }, quotes);
}

/** What a model can do about a failure; steps that only a person can take say so. */
function suggestNext(
  failure: Failure,
  tool: ToolDefinition,
  tools: readonly ToolDefinition[],
): { readonly next?: NextCall; readonly why?: string | undefined } {
  const key = failure.request?.idempotencyKey;
  if (failure.outcome === 'unknown' && key !== undefined)
    return { why: `repeat the call with idempotency_key ${key}.` };
  const call = failure.next && toNextCall(failure.next);
  const next = tools.some(({ name }) => name === call?.tool) ? call : undefined;
  const isForPeople = failure.exitCode === SIGN_IN || failure.exitCode === UNREACHABLE;
  const command = failure.next !== undefined && isForPeople ? quoteArgs(failure.next) : undefined;
  const hints = [
    tool.hints?.[failure.code] ?? failure.why,
    ...(command === undefined ? [] : [`the person who runs these tools can run: ${command}`]),
  ].filter((hint) => hint !== undefined);
  return { ...(next !== undefined && { next }), why: hints.length === 0 ? undefined : hints.join(' ') };
}

/** The only folder whose files tools may send, and to which they may save files. */
export interface SharedFolder {
  readonly path: string;
  /** The file that a path in the folder really leads to. @throws CliError when it leads out of it. */
  fileToSend(path: string): Promise<string>;
  /** Where a file of that name is to be saved. @throws CliError for what is more than a name. */
  resolvePath(filename: string): string;
}

export async function openSharedFolder(received: string, workingDirectory: string): Promise<SharedFolder> {
  const path = await realpath(resolve(workingDirectory, received)).catch(() => undefined);
  if (path === undefined || !(await stat(path)).isDirectory())
    throw usageError(`--files ${received} is not a folder.`, { why: 'create it first.' });
  return {
    path,
    async fileToSend(named) {
      const real = await realpath(resolve(path, named)).catch(() => undefined);
      // Files outside and missing files get the same error: a caller learns nothing about the rest of the machine.
      if (real === undefined || !isWithin(path, real))
        throw usageError(`${named} is not a file in the shared folder.`, {
          why: 'only files in the shared folder can be sent.',
        });
      if (
        relative(path, real)
          .split(/[\\/]/)
          .some((part) => part.startsWith('.'))
      )
        throw usageError(`${named} is hidden.`, { why: 'hidden files, such as .env, are not sent.' });
      // The other name of a file with two names may be anywhere, and the file may be a secret.
      if ((await stat(real)).nlink > 1 && !(await stat(real)).isDirectory())
        throw usageError(`${named} has a second name, perhaps outside the shared folder.`, {
          why: 'hard links are not sent. Copy the file into the folder.',
        });
      return real;
    },
    resolvePath(filename) {
      if (safeFilename(filename) !== filename)
        throw usageError(`'${filename}' is not a plain file name.`, {
          why: 'files are saved in the shared folder itself.',
        });
      return join(path, filename);
    },
  };
}

function isWithin(folder: string, path: string): boolean {
  const way = relative(folder, path);
  return way !== '' && way !== '..' && !way.startsWith(`..${'/'}`) && !way.startsWith('..\\') && !isAbsolute(way);
}
