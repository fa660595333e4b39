import type { TakenReports } from '../../../agent/taken-reports.js';
import { RequestError } from '../../../client/http/request-error.js';
import { backoffMs, wait } from '../../../kit/clock.js';
import { toJsonLine } from '../../../kit/json-line.js';
import { sanitize, sanitizeLine } from '../../../kit/sanitize.js';
import { signWebhook } from '../../../kit/webhook.js';
import { isMessageEvent } from '../../../wire/event.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Context } from '../../context/context.js';
import { openRelations } from '../../context/relations.js';
import { CliError } from '../../errors.js';
import { endLine } from '../../terminal/output.js';
import { isoTime } from '../../terminal/relative-time.js';
import type { Style } from '../../terminal/style.js';
import { describeEvent, fencedMessage, messageText } from '../message/message-text.js';
import { startUnguarded } from '../run/command-guard.js';
import { type CommandEnd, describeEnd, startEventCommand } from '../session/event-command.js';
import type { CursorFile } from './cursor-file.js';
import type { EventOptions, View } from './tail.js';

/** Handles one event; resolves once it was processed. */
export type ConsumeEvent = (event: EventEnvelope) => Promise<void>;

/** The text of an event as it is printed, with its line feed; empty: nothing is. */
type Render = (event: EventEnvelope) => string | Promise<string>;

/** How events are printed: as JSON lines, for people, as bare text, or fenced for a language model. */
async function createRenderer(context: Context, view: View, isOneSession: boolean): Promise<Render> {
  const { output, random } = context;
  if (view === 'lines') return (event) => output.toRecord(event);
  const style = await output.style();
  if (view === 'pretty') return (event) => `${prettyText(event, style, isOneSession)}\n`;
  const relationOf = openRelations(context);
  return (event) => {
    if (!isMessageEvent(event)) return '';
    if (view === 'text') return endLine(sanitize(messageText(event.payload))) || '\n';
    const { session_id, sequence } = event;
    return fencedMessage(random, relationOf, { ...event.payload, session_id, sequence }).then(endLine);
  };
}

/** If more characters than this are waiting, they are written at once. */
const WAITING_MAX = 64 * 1024;

/**
 * Prints events. Into a pipe, those that arrive in one turn of the event loop are one write: a system call costs more
 * than a line.
 */
export interface Printer {
  /** Prints an event. Waits only if much is waiting. Throws if an earlier line was not accepted. */
  add(event: EventEnvelope): void | Promise<void>;
  /** Calls `action` once the lines of the events so far were accepted. */
  after(action: () => void): void;
  /** Resolves once all lines were accepted. */
  flush(): Promise<void>;
}

export async function createPrinter(context: Context, view: View, isOneSession: boolean): Promise<Printer> {
  const { output, streams } = context;
  // A cursor never passes an event whose line is incomplete.
  const waitingMax = streams.stdout.isFile ? 0 : WAITING_MAX;
  const render = await createRenderer(context, view, isOneSession);
  let waiting = '';
  let onAccepted: (() => void)[] = [];
  let isScheduled = false;
  let writing: Promise<void> | undefined;
  let failure: { readonly error: unknown } | undefined;
  const write = async (text: string, actions: readonly (() => void)[]): Promise<void> => {
    if (failure !== undefined) return;
    try {
      if (text !== '') await (view === 'lines' ? output.records(text) : output.verbatim(text));
      for (const action of actions) action();
    } catch (error) {
      failure ??= { error };
    }
  };
  const flush = async (): Promise<void> => {
    const [text, actions] = [waiting, onAccepted];
    waiting = '';
    onAccepted = [];
    if (text !== '' || actions.length > 0) {
      const mine = (writing ?? Promise.resolve()).then(() => write(text, actions));
      writing = mine;
      await mine;
      if (writing === mine) writing = undefined;
    } else await writing;
    if (failure !== undefined) throw failure.error;
  };
  const schedule = (): void => {
    if (isScheduled) return;
    isScheduled = true;
    setImmediate(async () => {
      // A slow reader gets the backlog next; if that is large, `add` waits.
      await writing;
      isScheduled = false;
      // The next call also throws it.
      await flush().catch(() => {});
    });
  };
  const put = (text: string): Promise<void> | undefined => {
    waiting += text;
    if (waiting.length >= waitingMax) return flush();
    schedule();
    return undefined;
  };
  return {
    add(event) {
      if (failure !== undefined) throw failure.error;
      const text = render(event);
      return typeof text === 'string' ? put(text) : text.then(put);
    },
    after(action) {
      if (waiting === '' && writing === undefined) return action();
      onAccepted.push(action);
      schedule();
    },
    flush,
  };
}

function prettyText(event: EventEnvelope, style: Style, isOneSession: boolean): string {
  const time = style.dim(isoTime(event.created_at).slice(11, 19) || '-');
  const where = isOneSession ? '' : ` ${style.dim(`…${sanitizeLine(event.session_id).slice(-6)}`)}`;
  if (!isMessageEvent(event)) return `${time}${where} ${style.dim(`· ${sanitizeLine(describeEvent(event))}`)}`;
  const lines = sanitize(messageText(event.payload)).split('\n');
  const head = `${time}${where} ${style.cyan(sanitizeLine(event.payload.sender))}`;
  return lines.length === 1 ? `${head}  ${lines[0]}` : [head, ...lines.map((line) => `    ${line}`)].join('\n');
}

const TRIES = 5;
const PARTIAL = 'the events before it were handled; a cursor file continues with this one.';
const FIRST_WAIT_MS = 500;

/** Why an event was not handled. */
interface Fault {
  readonly message: string;
  /** Tried again even if the options do not say so. */
  readonly isTemporary: boolean;
  /** Whether another run may succeed. */
  readonly isRetryable: boolean;
}

/** Handles each event with `handle`, which resolves to undefined on success. After a fault, `onError` decides. */
function retrying(
  { output, clock, signal }: Context,
  onError: EventOptions['onError'],
  handle: (event: EventEnvelope, attempt: number) => Promise<Fault | undefined>,
): ConsumeEvent {
  return async (event) => {
    for (let attempt = 1; ; attempt += 1) {
      const fault = await handle(event, attempt);
      if (fault === undefined) return;
      const { message, isTemporary, isRetryable } = fault;
      if (attempt === TRIES || !(isTemporary || onError === 'retry')) {
        if (onError === 'skip') return output.note(message);
        throw new CliError('ASP_PARTIAL', { message, why: PARTIAL, outcome: 'applied', isRetryable });
      }
      await output.note(`${message} Trying again.`);
      await wait(clock, backoffMs(FIRST_WAIT_MS, attempt - 1), signal);
    }
  };
}

/** Runs `command` for each event and passes on its output. Without `begin`, only this run counts its tries. */
export function createCommandRunner(
  context: Context,
  command: string,
  onError: EventOptions['onError'],
  reports: TakenReports,
  begin: CursorFile['begin'] | undefined,
): ConsumeEvent {
  return retrying(context, onError, async (event, attempt) => {
    const end = await runEventCommand(context, command, event, (await begin?.(event)) ?? attempt);
    if (end.exitCode !== 0) {
      const message = `${event.event_id}: the command ${describeEnd(end)}.`;
      return { message, isTemporary: false, isRetryable: true };
    }
    if (isMessageEvent(event)) reports.note(event.session_id, event.sequence);
    return undefined;
  });
}

/** Nested commands act as the same agent at the same service. */
async function runEventCommand(
  context: Context,
  command: string,
  event: EventEnvelope,
  time: number,
): Promise<CommandEnd> {
  const { streams, signal } = context;
  const [{ name }, { handle }] = await Promise.all([context.profile(), context.agent()]);
  const identity = { ASP_PROFILE: name, ASP_TRY: String(time), ...(handle !== undefined && { ASP_AGENT: handle }) };
  return startEventCommand(context, command, event, {
    environment: identity,
    start: (line, options) => startUnguarded(line, { ...options, signal }),
    async onOutput(part) {
      await streams.stdout.write(part);
      return true;
    },
  }).ended;
}

/** Where events are posted. */
export interface ForwardOptions {
  readonly url: string;
  /** The file with the key that signs each request. */
  readonly secretFile: string | undefined;
  readonly onError: EventOptions['onError'];
}

/**
 * Posts each event to a URL, and prints it once it was accepted. Temporary errors, such as a 503, are always retried.
 */
export async function createForwarder(
  context: Context,
  { url, secretFile, onError }: ForwardOptions,
  { add, flush }: Printer,
): Promise<ConsumeEvent> {
  const key = secretFile === undefined ? undefined : await readWebhookKey(secretFile);
  return retrying(context, onError, async (event) => {
    const { status, fault } = await post(context, event, url, key);
    if (fault === undefined) {
      await add(event);
      await flush();
      return undefined;
    }
    const isTemporary = status === undefined || status >= 500 || status === 429 || status === 408;
    const message = `${new URL(url).origin} did not accept ${event.event_id}${fault}`;
    return { message, isTemporary, isRetryable: isTemporary };
  });
}

/** The result of a request. `fault`: why it was not accepted, as the end of a sentence. */
interface Posted {
  readonly status?: number | undefined;
  readonly fault?: string;
}

/** Sends a request like those of a webhook. As there, only a status of success accepts the event. */
async function post(context: Context, event: EventEnvelope, url: string, key: Buffer | undefined): Promise<Posted> {
  const { clock, signal } = context;
  const transport = await context.transport();
  // A token may not reveal its agent.
  const agent = await context.actingHandle().catch(() => undefined);
  const body = toJsonLine(event);
  const signature = key && signWebhook(key, event.event_id, Math.floor(clock.now() / 1000), body);
  const headers = {
    'content-type': 'application/json',
    'x-asp-event-id': event.event_id,
    ...(agent !== undefined && { 'x-asp-agent': agent }),
    ...signature,
  };
  try {
    const { status } = await transport.send({ method: 'POST', url, headers, body, signal });
    return { status, ...((status < 200 || status >= 300) && { fault: ` (HTTP ${status}).` }) };
  } catch (error) {
    if (signal.aborted || !(error instanceof RequestError)) throw error;
    return { status: error.status, fault: `: ${error.message}` };
  }
}

async function readWebhookKey(path: string): Promise<Buffer> {
  const { readWebhookSecretFile } = await import('../../context/client-secret.js');
  return readWebhookSecretFile(path, '--forward-secret-file').key;
}
