import { resolve } from 'node:path';
import * as z from 'zod/mini';
import { RequestError } from '../client/client.js';
import { holdProcessLock } from '../client/credentials/process-lock.js';
import { putLast } from '../kit/bounded-map.js';
import { parseIfJson } from '../kit/parse-json.js';
import { fileFault, isFileError, readIfPresent } from '../kit/private-file.js';
import { createSavedFile } from '../kit/saved-file.js';
import { isMessageEvent } from '../wire/event.js';
import { AWAITS_REPLY, findChoice, findInReplyTo, listChoices, textPartsOf } from '../wire/message.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Message } from '../wire/schemas/message.js';
import { BegunEvents, type Cursor, CursorsJson, cursorsFromJson, cursorsToJson } from './cursors.js';
import type { AgentContext } from './persist.js';

/** A process, by its number and its start time: numbers are reused. */
export interface ProcessIdentity {
  readonly pid: number;
  readonly start?: string | undefined;
}

/**
 * An agent's progress. In a listed session, everything up to its sequence is done; in others, everything older than
 * `sinceMs`.
 */
export interface Progress {
  readonly sinceMs: number;
  /** The guard of the last run that wrote here. */
  readonly guard: ProcessIdentity | undefined;
  readonly sessions: ReadonlyMap<string, Cursor>;
}

/** The progress, as it is written. */
export interface ProgressFile extends Progress {
  readonly awaited: AwaitedReplies;
  /** There is a file, but no earlier run wrote it. */
  readonly isNew: boolean;
  /**
   * Records, before a message is given to a handler, that it was. Returns how many times it was, including by earlier runs
   * that were killed or stopped; the record is on disk then.
   */
  begin(event: Pick<EventEnvelope, 'session_id' | 'event_id'>): Promise<number>;
  /** Records that everything up to here is done. */
  advance(sessionId: string, cursor: Cursor): void;
  /** Records that a session continues earlier, because the service's data was restored. */
  goBack(sessionId: string, cursor: Cursor): void;
  /** Records that everything older is done everywhere; the `over` sessions no longer need lines of their own. */
  settleUpTo(sinceMs: number, over: readonly string[]): void;
  /** The name of this worker: the one in the file, or else `name`, which the file then keeps. */
  nameWorker(name: string): string;
  /** Records the guard of the commands from now on. */
  guardBy(guard: ProcessIdentity | undefined): void;
  /** Resolves when all records are on disk. */
  written(): Promise<void>;
}

/**
 * Lets only one process at a time keep the progress of an agent: two would run the command twice for each message
 * (D-208). Returns undefined if another process has the lock; otherwise call the result at the end.
 */
export async function lockProgress(
  { output }: AgentContext,
  me: string,
  path: string,
): Promise<(() => void) | undefined> {
  try {
    return await holdProcessLock({}, `run\n${resolve(path)}`);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    await output.note(`Cannot find out whether another process answers as ${me}: ${error.message}`);
    return () => {};
  }
}

/** Opens or creates a file (undefined: the progress ends with the process); `nowMs` is used only if there is none: older messages are not answered. */
export async function openProgress(path: string | undefined, nowMs: () => Promise<number>): Promise<ProgressFile> {
  const found = path === undefined ? NOTHING_FOUND : parseProgress(path, await readIfPresent(path));
  const sessions = new Map(found.sessions);
  let sinceMs = found.sinceMs ?? (await nowMs());
  let { guard, worker } = found;
  const begun = new BegunEvents(found);
  let failure: unknown;

  const saved = createSavedFile(path, () => ({
    since: sinceMs,
    guard,
    worker,
    ...cursorsToJson(sessions),
    awaited: awaited.toJson(),
    ...begun.toJson(),
  }));
  const note = (): void => {
    if (failure !== undefined) throw failure;
    saved.change();
    saved.written().catch((error: unknown) => {
      failure ??= unwritable(path, error);
    });
  };
  const awaited = new AwaitedReplies(found.awaited, note);
  const file: ProgressFile = {
    awaited,
    get sinceMs() {
      return sinceMs;
    },
    isNew: path !== undefined && found.sinceMs === undefined,
    sessions,
    get guard() {
      return guard;
    },
    nameWorker(name) {
      worker ??= name;
      note();
      return worker;
    },
    guardBy(next) {
      guard = next;
      note();
    },
    async begin(event) {
      const times = begun.count(event);
      note();
      await file.written();
      return times;
    },
    advance(sessionId, cursor) {
      begun.end(sessionId);
      if (sessions.has(sessionId) && cursor.after <= (sessions.get(sessionId)?.after ?? 0)) return;
      sessions.set(sessionId, cursor);
      note();
    },
    goBack(sessionId, cursor) {
      sessions.set(sessionId, cursor);
      awaited.goBack(sessionId, cursor.after);
      note();
    },
    settleUpTo(timeMs, over) {
      if (timeMs <= sinceMs) return;
      sinceMs = timeMs;
      for (const sessionId of over) sessions.delete(sessionId);
      note();
    },
    async written() {
      await saved.written().catch(() => {});
      if (failure !== undefined) throw failure;
    },
  };
  if (found.sinceMs === undefined) note();
  await file.written();
  return file;
}

function unwritable(path: string | undefined, error: unknown): unknown {
  const why = isFileError(error, 'ENOENT') ? 'there is no such folder (ENOENT)' : fileFault(error);
  if (why === undefined) return error;
  return new RequestError({ code: 'ASP_CONFIG', message: `Cannot write ${path}: ${why}.`, cause: error });
}

interface Found {
  /** Undefined: there was no file, or one of `asp tail`, which has only sessions. */
  readonly sinceMs: number | undefined;
  readonly guard: ProcessIdentity | undefined;
  readonly worker: string | undefined;
  readonly sessions: readonly (readonly [string, Cursor])[];
  readonly awaited: readonly (readonly [string, readonly AwaitedReply[]])[];
  readonly begun: z.infer<typeof CursorsJson>['begun'];
}

const NOTHING_FOUND: Found = {
  sinceMs: undefined,
  guard: undefined,
  worker: undefined,
  sessions: [],
  awaited: [],
  begun: {},
};

/** A message of the agent whose sender waits for the reply, as it is kept. */
const AwaitedReply = z.looseObject({
  message: z.string(),
  sequence: z.int(),
  choices: z.optional(z.array(z.string())),
  /** From then on, a message that names no other is not the reply. */
  last: z.optional(z.int()),
});
type AwaitedReply = z.infer<typeof AwaitedReply>;

const ProgressJson = z.extend(CursorsJson, {
  since: z.optional(z.int().check(z.nonnegative())),
  guard: z.optional(z.looseObject({ pid: z.int().check(z.positive()), start: z.optional(z.string()) })),
  worker: z.optional(z.string()),
  awaited: z.optional(z.record(z.string(), z.array(AwaitedReply))),
});

function parseProgress(path: string, text: string | undefined): Found {
  if (text === undefined || text.trim() === '') return NOTHING_FOUND;
  const { data } = ProgressJson.safeParse(parseIfJson(text));
  if (data !== undefined) {
    const { since: sinceMs, guard, worker, awaited = {}, begun } = data;
    return { sinceMs, guard, worker, sessions: cursorsFromJson(data), awaited: Object.entries(awaited), begun };
  }
  throw new RequestError({
    code: 'ASP_USAGE',
    message: `${path} is not a cursor file. Remove it to start over, or name a different one.`,
  });
}

const QUESTIONS_MAX = 1_000;

/**
 * Replies that another program of the agent waits for, such as `asp ask` in its command: they are not new messages. The
 * questions say so themselves, so the next run recognizes them too.
 */
class AwaitedReplies {
  readonly #sessions: Map<string, AwaitedReply[]>;
  readonly #onChange: () => void;

  constructor(sessions: Iterable<readonly [string, readonly AwaitedReply[]]>, onChange: () => void) {
    this.#sessions = new Map([...sessions].map(([id, questions]) => [id, questions.map((one) => ({ ...one }))]));
    this.#onChange = onChange;
  }

  /** Undefined if there is nothing to keep. */
  toJson(): Readonly<Record<string, readonly AwaitedReply[]>> | undefined {
    return this.#sessions.size === 0 ? undefined : Object.fromEntries(this.#sessions);
  }

  /**
   * Takes every event of a session in order, and returns whether it is such a reply. A message that names the question
   * always is. One that names none is the reply if it is the first one after the question, and `isAmongTwo`: no one else
   * is in the session. With choices, so are the messages before one of them.
   */
  async take(event: EventEnvelope, me: string, isAmongTwo: (message: Message) => Promise<boolean>): Promise<boolean> {
    if (!isMessageEvent(event)) return false;
    const { session_id: sessionId, sequence, payload } = event;
    if (payload.sender === me) {
      this.#takeOwn(sessionId, sequence, payload);
      return false;
    }
    const questions = this.#sessions.get(sessionId) ?? [];
    const named = findInReplyTo(payload);
    if (named !== undefined) return questions.some(({ message }) => message === named);
    const question = questions.at(-1);
    if (question === undefined || sequence <= question.sequence) return false;
    if (question.last !== undefined) return sequence <= question.last;
    if (!(await isAmongTwo(payload))) return false;
    const { choices } = question;
    if (choices === undefined || findChoice(choices, textPartsOf(payload)) !== undefined) {
      question.last = sequence;
      this.#onChange();
    }
    return true;
  }

  /** The session has ended: no reply to an earlier question can come anymore. */
  endAt(sessionId: string, sequence: number): void {
    this.#keep(sessionId, (question) => question.sequence > sequence);
  }

  /** The service was restored: what came later is gone. */
  goBack(sessionId: string, after: number): void {
    this.#keep(sessionId, (question) => question.sequence <= after);
    for (const question of this.#sessions.get(sessionId) ?? [])
      if (question.last !== undefined && question.last > after) delete question.last;
  }

  #takeOwn(sessionId: string, sequence: number, message: Message): void {
    const questions = this.#sessions.get(sessionId) ?? [];
    if (questions.some((one) => one.message === message.id)) return;
    const latest = questions.at(-1);
    const isOpen = latest !== undefined && latest.last === undefined && latest.sequence < sequence;
    // Replies after this message are about it.
    if (isOpen) latest.last = sequence;
    const isQuestion = message.metadata?.[AWAITS_REPLY] === true;
    if (isQuestion) {
      const choices = listChoices(message);
      const question = { message: message.id, sequence, ...(choices.length > 0 && { choices: [...choices] }) };
      putLast(this.#sessions, sessionId, [...questions, question].slice(-QUESTIONS_MAX), QUESTIONS_MAX);
    }
    if (isOpen || isQuestion) this.#onChange();
  }

  #keep(sessionId: string, isKept: (question: AwaitedReply) => boolean): void {
    const questions = this.#sessions.get(sessionId);
    const kept = questions?.filter(isKept);
    if (questions === undefined || kept?.length === questions.length) return;
    if (kept === undefined || kept.length === 0) this.#sessions.delete(sessionId);
    else this.#sessions.set(sessionId, kept);
    this.#onChange();
  }
}
