import * as z from 'zod/mini';
import type { Incoming, Responder } from '../../../agent/answer.js';
import { toJsonLine } from '../../../kit/json-line.js';
import { parseIfJson } from '../../../kit/parse-json.js';
import { readHops } from '../../../wire/message.js';
import type { Context } from '../../context/context.js';
import { decodeIfUtf8 } from '../../input.js';
import type { HopsFile } from '../send/hops.js';
import type { CommandGuard } from './command-guard.js';
import { type LineProcess, type LineProcessEnd, startLineProcess, toShownText } from './line-process.js';
import type { JsonExchange, Once } from './reply-json.js';
import type { RunRules } from './run.js';
import { retrying } from './run-command.js';

interface LineHandlersParts {
  readonly context: Context;
  readonly rules: Extract<RunRules, { protocol: 'lines' }>;
  readonly guard: CommandGuard;
  readonly environment: Readonly<Record<string, string>>;
  readonly exchange: JsonExchange;
  readonly hops: HopsFile;
}

/** A line of a handler: it names the message that it is about. */
const AnswerLine = z.looseObject({ event_id: z.string(), taken: z.optional(z.literal(true)) });

const NOUN = 'the handler';

/** What a handler printed about its message, or how it ended instead. */
type HandlerAnswer = { readonly reply: object } | { readonly wrong: string } | { readonly end: LineProcessEnd };

/** A message that a handler has. */
interface HandlerMessage {
  readonly eventId: string;
  readonly onTaken: () => void;
  readonly settle: (answer: HandlerAnswer) => void;
  isTaken: boolean;
}

/** A program that keeps running and handles one message after the other. */
interface Handler {
  readonly process: LineProcess;
  message: HandlerMessage | undefined;
  end: LineProcessEnd | undefined;
  /** The session of its latest message: it may remember it. */
  sessionId: string | undefined;
  /** How many messages it has got. */
  count: number;
  hasPrinted: boolean;
  isNoiseReported: boolean;
}

/**
 * Gives messages to programs that keep running: one line of JSON with the message, one with its reply. Each handles one
 * message at a time; more are started while all are busy, up to the number of sessions that are handled at a time.
 */
class LineHandlers implements Responder {
  readonly #parts: LineHandlersParts;
  readonly #idle: Handler[] = [];
  readonly #running = new Set<Handler>();
  #isClosed = false;

  constructor(parts: LineHandlersParts) {
    this.#parts = parts;
    this.respond = retrying(parts.context, parts.rules.tries, (...attempt) => this.#attempt(...attempt));
  }

  readonly respond: Responder['respond'];

  /** Starts the first one, so that it is ready when a message comes. */
  start(): void {
    this.#idle.push(this.#startHandler());
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    await Promise.all([...this.#running].map(({ process }) => process.close()));
    await this.#parts.hops.written();
  }

  async #attempt(event: Incoming, signal: AbortSignal, attempt: number, onTaken: () => void): Promise<Once | 'again'> {
    const { context, rules, exchange, hops } = this.#parts;
    const { recent, timeoutMs } = rules;
    const line = toJsonLine(await exchange.describe(event, { attempt, recent }, signal));
    signal.throwIfAborted();
    const handler = this.#takeHandler(event.session_id);
    const isUsed = handler.count > 0;
    handler.count += 1;
    const leave = await hops.enter(readHops(event.payload) + 1);
    let isLate = false;
    const onLate = (): void => {
      isLate = true;
      const hint = handler.hasPrinted ? '' : ' (it has printed nothing: it may have to flush its output)';
      void handler.process.end(`${NOUN} took longer than ${timeoutMs / 1000} s${hint}`);
    };
    const onAbort = (): void => void handler.process.end('it was stopped');
    signal.addEventListener('abort', onAbort, { once: true });
    if (signal.aborted) onAbort();
    const cancel = context.clock.schedule(timeoutMs, onLate);
    const { answer, isTaken } = await this.#give(handler, event, line, onTaken);
    // From here on, it may have another message.
    cancel();
    signal.removeEventListener('abort', onAbort);
    leave();
    if ('end' in answer) {
      const { why, exitCode } = answer.end;
      // It ended because it had done its part, and this message came in the same moment.
      if (isUsed && !isTaken && exitCode === 0 && !signal.aborted && !isLate) return 'again';
      return { kind: 'failed', exitCode, why: exitCode === 0 && !isLate ? `${why} without a reply` : why };
    }
    if ('wrong' in answer) {
      // It could print its answer now, to the next message.
      await handler.process.end(answer.wrong);
      return { kind: 'failed', exitCode: null, why: answer.wrong };
    }
    if (!this.#isClosed) this.#idle.push(handler);
    return exchange.read(event, answer.reply, null, signal);
  }

  async #give(handler: Handler, event: Incoming, line: string, onTaken: () => void) {
    const answer = await new Promise<HandlerAnswer>((settle) => {
      handler.message = { eventId: event.event_id, onTaken, settle, isTaken: false };
      if (handler.end === undefined) handler.process.write(line);
      else settle({ end: handler.end });
    });
    const isTaken = handler.message?.isTaken === true;
    handler.message = undefined;
    return { answer, isTaken };
  }

  /** An idle one, best the one that had the session before, or a new one. */
  #takeHandler(sessionId: string): Handler {
    const ready = this.#idle.filter(({ process }) => !process.hasExited());
    const found = ready.findLast((handler) => handler.sessionId === sessionId) ?? ready.at(-1);
    if (found !== undefined) this.#idle.splice(this.#idle.indexOf(found), 1);
    const handler = found ?? this.#startHandler();
    handler.sessionId = sessionId;
    return handler;
  }

  #startHandler(): Handler {
    const { context, rules, guard, environment, hops } = this.#parts;
    const process = startLineProcess(context, guard, {
      ...{ command: rules.command, environment: { ...environment, ...hops.environment }, noun: NOUN, name: 'handler' },
      onLine: (line) => this.#take(handler, line),
    });
    const handler: Handler = {
      ...{ process, end: undefined, message: undefined, sessionId: undefined },
      ...{ count: 0, hasPrinted: false, isNoiseReported: false },
    };
    this.#running.add(handler);
    // Once for all of its messages, whose replies would otherwise stay in memory as long as it runs.
    void process.ended.then(async (end) => {
      const { why, exitCode } = end;
      handler.end = end;
      handler.message?.settle({ end });
      this.#running.delete(handler);
      const at = this.#idle.indexOf(handler);
      if (at === -1) return;
      this.#idle.splice(at, 1);
      if (exitCode !== 0 && !this.#isClosed)
        await context.output.note(`While idle, ${why}. A message starts it again.`);
    });
    return handler;
  }

  async #take(handler: Handler, bytes: Buffer): Promise<void> {
    const { message } = handler;
    const text = decodeIfUtf8(bytes);
    handler.hasPrinted = true;
    if (message === undefined) return this.#passOver(handler, text);
    const shown = text === undefined ? 'text that is not UTF-8' : `a line that is not a reply: ${toShownText(text)}`;
    const value = text === undefined ? undefined : parseIfJson(text);
    const { data } = AnswerLine.safeParse(value);
    if (data === undefined) {
      const hint = 'a reply is a line of JSON with event_id; logs go to standard error';
      return message.settle({ wrong: `${NOUN} printed ${shown} (${hint})` });
    }
    const { event_id: eventId, taken, ...reply } = data;
    if (eventId !== message.eventId)
      return message.settle({ wrong: `${NOUN} printed a reply to ${toShownText(eventId)}, which it does not have` });
    if (!message.isTaken) message.onTaken();
    message.isTaken = true;
    if (taken !== true) message.settle({ reply });
  }

  async #passOver(handler: Handler, line: string | undefined): Promise<void> {
    const { output } = this.#parts.context;
    const shown = line === undefined ? 'text that is not UTF-8' : toShownText(line);
    const text = `The handler has no message, but printed: ${shown}`;
    if (handler.isNoiseReported) return output.detail(text);
    handler.isNoiseReported = true;
    await output.note(`${text}\nSuch lines are ignored; -v shows them all.`);
  }
}

/** Starts a program that keeps running and answers messages, a line for each. */
export function startLineHandlers(parts: LineHandlersParts): Responder {
  const handlers = new LineHandlers(parts);
  handlers.start();
  return handlers;
}
