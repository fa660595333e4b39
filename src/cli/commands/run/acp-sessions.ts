import * as z from 'zod/mini';
import { putLast } from '../../../kit/bounded-map.js';
import { wait } from '../../../kit/clock.js';

import { parseIfJson } from '../../../kit/parse-json.js';
import { readIfPresent } from '../../../kit/private-file.js';
import { createSavedFile } from '../../../kit/saved-file.js';
import type { Context } from '../../context/context.js';
import { besideProgress } from '../../context/progress-path.js';
import { type AcpProcess, type AcpReply, AUTH_REQUIRED } from './acp-process.js';
import type { Questions } from './permission.js';

/** Those used least recently are forgotten. */
export const SESSIONS_MAX = 1_000;
/** When a session was last used is kept this precisely: not every turn writes it to disk. */
const USED_WITHIN_MS = 10 * 60_000;
/** After a start, sessions used since then are loaded ahead, but only this many: each can be a separate process. */
const RECENT_MS = 60 * 60_000;
const RECENT_MAX = 3;
/** A program that opens a session faster gains nothing from one that is opened ahead, and starts no program for each. */
const SLOW_MS = 300;
/** Beyond this many, those without a turn are closed: each can hold a quarter of a gigabyte. */
const OPEN_MAX = 10;
const CLOSE_WITHIN_MS = 5_000;
const RETIRED: Failed = { kind: 'ended', why: 'it is being started again', exitCode: null };
/** Stands for the spare session where the others have their own name. */
const SPARE = 'spare';

export type Failed = Exclude<AcpReply, { kind: 'result' }>;

/** Maps our sessions to those of the program, across runs. */
export interface KeptSessions {
  find(sessionId: string): string | undefined;
  put(sessionId: string, acpId: string): Promise<void>;
  /** The sessions used lately and their names in the program, latest first. */
  recent(): readonly (readonly [sessionId: string, acpId: string])[];
  /** How long the program took to open the latest session, even in an earlier run. */
  openMs: number | undefined;
  /** What failed when it was opened ahead, or ended the program. Only a message that needs it opens it again. */
  readonly doubtful: Set<string>;
  readonly questions: Questions;
  written(): Promise<void>;
}

const SessionsJson = z.looseObject({
  command: z.string(),
  sessions: z.record(z.string(), z.looseObject({ id: z.string(), at: z.optional(z.number()) })),
  open_ms: z.optional(z.number()),
  questions: z.optional(z.array(z.string())),
});

/** Names of another program's sessions mean nothing to this one: the file of another command is not reused. */
export async function openKeptSessions(
  { clock }: Pick<Context, 'clock'>,
  command: string,
  progressPath: string | undefined,
): Promise<KeptSessions> {
  const path = progressPath === undefined ? undefined : besideProgress(progressPath, '.acp.json');
  const { data } = SessionsJson.safeParse(parseIfJson(path === undefined ? undefined : await readIfPresent(path)));
  const isSame = data?.command === command;
  /** In the order of their last use. */
  const sessions = new Map(isSame ? Object.entries(data.sessions) : []);
  let openMs = isSame ? data.open_ms : undefined;
  const left = data?.questions ?? [];
  /** Whether the question of each session is open. */
  const questions = new Map(left.map((sessionId) => [sessionId, false]));
  const { change, written } = createSavedFile(path, () => ({
    command,
    sessions: Object.fromEntries(sessions),
    open_ms: openMs,
    questions: [...questions].flatMap(([sessionId, isOpen]) => (isOpen ? [sessionId] : [])),
  }));
  const putQuestion = async (sessionId: string, isOpen: boolean): Promise<void> => {
    putLast(questions, sessionId, isOpen, SESSIONS_MAX);
    change();
    await written();
  };
  return {
    find: (sessionId) => sessions.get(sessionId)?.id,
    async put(sessionId, id) {
      const known = sessions.get(sessionId);
      const now = clock.now();
      const isKnown = known?.id === id && now - (known.at ?? 0) < USED_WITHIN_MS;
      putLast(sessions, sessionId, { id, at: isKnown ? known.at : now }, SESSIONS_MAX);
      change();
      if (!isKnown) await written();
    },
    recent() {
      const since = clock.now() - RECENT_MS;
      const used = [...sessions].filter(([, { at = 0 }]) => at >= since);
      return used
        .slice(-RECENT_MAX)
        .reverse()
        .map(([sessionId, { id }]) => [sessionId, id]);
    },
    get openMs() {
      return openMs;
    },
    set openMs(ms) {
      openMs = ms;
      change();
    },
    doubtful: new Set(),
    questions: {
      left,
      has: (sessionId) => questions.has(sessionId),
      begin: async (sessionId) => (questions.has(sessionId) ? undefined : putQuestion(sessionId, true)),
      end: (sessionId) => putQuestion(sessionId, false),
    },
    written,
  };
}

const NewSessionReply = z.looseObject({ sessionId: z.string() });

/** What a program can do with its sessions. */
export interface SessionAbilities {
  readonly load: 'session/resume' | 'session/load' | undefined;
  readonly close: boolean;
}

/**
 * The sessions of a program while it runs. To open one can take seconds, because some programs start another program
 * for each session. So for those, a new session and the sessions used lately are opened before a message needs them.
 * Sessions that can be loaded again are closed when many others were used since.
 */
export class OpenSessions {
  readonly #context: Context;
  readonly #process: AcpProcess;
  readonly #canLoad: SessionAbilities['load'];
  #canClose: boolean;
  readonly #kept: KeptSessions;
  /** Our sessions that are open in the program, and its names for them, in the order of their last use. */
  readonly #open = new Map<string, string>();
  /** Those that have a turn. */
  readonly #used = new Set<string>();
  readonly #closing = new Map<string, Promise<void>>();
  readonly #loading = new Map<string, Promise<AcpReply>>();
  /** A session for the next of ours that is new. */
  #spare: Promise<string | Failed> | undefined;
  #isPreparing = false;
  /** How many sessions were opened again without being closed: the program may still hold the earlier ones. */
  #abandoned = 0;
  #isRetired = false;
  readonly #retire: () => void;

  /**
   * `retire` ends a program that holds too many sessions, none of them in use, and can only get rid of them by a new
   * start.
   */
  constructor(
    context: Context,
    process: AcpProcess,
    { load, close }: SessionAbilities,
    kept: KeptSessions,
    retire: () => void,
  ) {
    this.#context = context;
    this.#process = process;
    this.#canLoad = load;
    this.#canClose = close && load !== undefined;
    this.#kept = kept;
    this.#retire = retire;
  }

  #retireIfFull(): void {
    const isHeavy = this.#canLoad !== undefined && (this.#kept.openMs ?? 0) >= SLOW_MS;
    const isUnused = this.#used.size === 0 && !this.#isPreparing;
    const isFull = this.#open.size + this.#abandoned > OPEN_MAX;
    if (this.#isRetired || !isHeavy || this.#canClose || !isFull || !isUnused) return;
    this.#isRetired = true;
    this.#retire();
  }

  /** The turn of a session is over. */
  release(sessionId: string): void {
    this.#used.delete(sessionId);
    this.#retireIfFull();
    if (!this.#canClose) return;
    const surplus = Math.max(0, this.#open.size - OPEN_MAX);
    const unused = [...this.#open].filter(([id]) => !this.#used.has(id));
    for (const [id, acpId] of unused.slice(0, surplus)) this.#close(id, acpId);
  }

  /**
   * The program answered a turn of a session with an error, which may be the end of the session there: the next message
   * loads it again. Without that, the session would fail forever.
   */
  doubt(sessionId: string): void {
    const acpId = this.#open.get(sessionId);
    if (acpId === undefined || this.#canLoad === undefined) return;
    if (this.#canClose) this.#close(sessionId, acpId, true);
    else {
      this.#open.delete(sessionId);
      this.#abandoned += 1;
    }
  }

  #close(sessionId: string, acpId: string, mayBeGone = false): void {
    this.#open.delete(sessionId);
    const closed = this.#process.request('session/close', { sessionId: acpId });
    const late = new AbortController();
    const isLate = wait(this.#context.clock, CLOSE_WITHIN_MS, late.signal).then(
      () => true,
      () => false,
    );
    const closing = Promise.race([closed, isLate]).then((reply) => {
      late.abort();
      this.#closing.delete(sessionId);
      const isRefused = typeof reply === 'object' && reply.kind === 'refused' && !mayBeGone;
      if (reply === true || isRefused) this.#canClose = false;
    });
    this.#closing.set(sessionId, closing);
  }

  /**
   * The program's session for one of ours: the open one, the one of an earlier run, or a new one. It stays open until it
   * is released.
   */
  async open(sessionId: string): Promise<string | Failed> {
    if (this.#isRetired) return RETIRED;
    this.#used.add(sessionId);
    await this.#closing.get(sessionId);
    const known = this.#open.get(sessionId);
    if (known !== undefined) {
      putLast(this.#open, sessionId, known, Number.POSITIVE_INFINITY);
      return known;
    }
    const { output } = this.#context;
    const earlier = this.#kept.find(sessionId);
    if (earlier !== undefined && this.#canLoad !== undefined) {
      const loaded = await this.#load(this.#canLoad, sessionId, earlier);
      if (loaded.kind === 'result') {
        this.#kept.doubtful.delete(sessionId);
        return earlier;
      }
      if (loaded.kind === 'ended' || loaded.code === AUTH_REQUIRED) return loaded;
      await output.note(`${sessionId}: the agent could not continue it (${loaded.why}); it starts over.`);
    } else if (earlier !== undefined)
      await output.note(`${sessionId}: the agent program cannot load sessions; this one starts over.`);
    const spare = this.#spare;
    this.#spare = undefined;
    const spared = await spare;
    const opened = typeof spared === 'string' ? spared : await this.#create();
    if (typeof opened !== 'string') return opened;
    this.#open.set(sessionId, opened);
    this.#kept.doubtful.delete(SPARE);
    return opened;
  }

  /** Opens ahead what is not open, one session at a time, unless the program is fast without it. */
  async prepare(): Promise<void> {
    if (this.#isPreparing) return;
    this.#isPreparing = true;
    await this.#prepareSpare();
    const method = this.#canLoad;
    if (method !== undefined)
      for (const [sessionId, acpId] of this.#kept.recent()) {
        const isMissing = !this.#open.has(sessionId) && this.#open.size < OPEN_MAX;
        await this.#prepareOne(sessionId, isMissing, async () => {
          const { kind } = await this.#load(method, sessionId, acpId);
          return kind === 'result';
        });
        // It may be in use by now.
        await this.#prepareSpare();
      }
    this.#isPreparing = false;
    this.#retireIfFull();
  }

  #prepareSpare(): Promise<void> {
    return this.#prepareOne(SPARE, this.#spare === undefined, async () => {
      const spare = this.#create();
      this.#spare = spare;
      const isOpen = typeof (await spare) === 'string';
      if (!isOpen && this.#spare === spare) this.#spare = undefined;
      return isOpen;
    });
  }

  async #prepareOne(name: string, isMissing: boolean, open: () => Promise<boolean>): Promise<void> {
    const { openMs = SLOW_MS, doubtful } = this.#kept;
    if (!isMissing || openMs < SLOW_MS || doubtful.has(name) || this.#process.hasExited()) return;
    doubtful.add(name);
    if (await open()) doubtful.delete(name);
  }

  #load(method: 'session/resume' | 'session/load', sessionId: string, acpId: string): Promise<AcpReply> {
    const load = async (): Promise<AcpReply> => {
      await this.#closing.get(sessionId);
      const reply = await this.#request(method, { sessionId: acpId });
      this.#loading.delete(sessionId);
      if (reply.kind === 'result') this.#open.set(sessionId, acpId);
      return reply;
    };
    const loading = this.#loading.get(sessionId) ?? load();
    this.#loading.set(sessionId, loading);
    return loading;
  }

  async #create(): Promise<string | Failed> {
    const created = await this.#request('session/new', {});
    if (created.kind !== 'result') return created;
    const { data } = NewSessionReply.safeParse(created.result);
    return data?.sessionId ?? { kind: 'refused', code: 0, why: 'a new session without an id' };
  }

  async #request(method: string, which: object): Promise<AcpReply> {
    const { clock, machine } = this.#context;
    const beganAt = clock.monotonic();
    const reply = await this.#process.request(method, { ...which, cwd: machine.workingDirectory, mcpServers: [] });
    if (reply.kind === 'result') this.#kept.openMs = Math.round(clock.monotonic() - beganAt);
    return reply;
  }
}
