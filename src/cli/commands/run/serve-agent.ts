import { setMaxListeners } from 'node:events';
import { resolve } from 'node:path';
import { type Client, RequestError, type TailItem } from '../../../client/client.js';
import { holdProcessLock } from '../../../client/credentials/process-lock.js';
import { LIST_LIMIT_MAX } from '../../../wire/limit.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Session } from '../../../wire/schemas/session.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { openReadyFile } from '../../ready-file.js';
import { createTakenReports } from '../session/taken-reports.js';
import type { Cursor } from '../tail/cursor-file.js';
import { type AgentParts, createAgent } from './agent.js';
import { type CommandGuard, type Responder, respondByCommand, startCommandGuard, waitForGuard } from './answer.js';
import { openLimits } from './limits.js';
import { openProgress, type Progress, progressPath, waitForService } from './progress-file.js';
import { createRelations, type FindRelation } from './relation.js';
import type { RunOptions } from './run.js';

/** Whether an agent is answered. */
export type Admits = (handle: string) => Promise<boolean>;

export interface AdmissionParts {
  readonly context: Context;
  readonly me: string;
  readonly from: RunOptions['from'];
  readonly relationOf: FindRelation;
}

/** The agents in `--from`; otherwise agents of the same owner and those on the agent's allowlist, whatever its policy. */
export function createAdmission({ context, me, from, relationOf }: AdmissionParts): Admits {
  if (from === 'anyone') return async () => true;
  if (from.length > 0) return async (handle) => from.includes(handle);
  const { output } = context;
  let isTold = false;
  return async (handle) => {
    if ((await relationOf(handle)) !== 'anyone') return true;
    const text = `Not answering ${handle}: it has a different owner and is not on the allowlist of ${me}.`;
    if (isTold) await output.detail(text);
    else await output.note(`${text} Add it with asp allowlist add, or answer everyone with --from anyone.`);
    isTold = true;
    return false;
  };
}

/** Work in a session that must follow the earlier work there. */
export type Work = () => Promise<void>;

export interface QueueLimits {
  /** How many sessions are handled at a time. */
  readonly concurrency: number;
  /** How much work may wait. */
  readonly capacity: number;
}

/** Work in many sessions: in order within each, several sessions at a time. */
export class SessionQueues {
  readonly #limits: QueueLimits;
  readonly #onFailure: (error: unknown) => void;
  /** The queue of each session; the first item is in progress. */
  readonly #waiting = new Map<string, Work[]>();
  readonly #ready: string[] = [];
  readonly #wakers = new Set<() => void>();
  #size = 0;
  #running = 0;
  #isStopped = false;
  #failure: { readonly error: unknown } | undefined;

  /** `onFailure` is called once, with the first failure; no new work begins after it. */
  constructor(limits: QueueLimits, onFailure: (error: unknown) => void) {
    this.#limits = limits;
    this.#onFailure = onFailure;
  }

  /** Resolves as soon as there is room for more: awaiting it slows the producer down instead of filling the memory. */
  async add(sessionId: string, work: Work): Promise<void> {
    const queue = this.#waiting.get(sessionId);
    if (queue === undefined) {
      this.#waiting.set(sessionId, [work]);
      this.#ready.push(sessionId);
    } else queue.push(work);
    this.#size += 1;
    this.#begin();
    await this.#until(() => this.#size < this.#limits.capacity || this.#isStopped);
  }

  /** Drops all work that has not begun. */
  stop(): void {
    this.#isStopped = true;
    this.#wakeAll();
  }

  /** Resolves when no work is in progress; rejects with the first failure of any work. */
  async settled(): Promise<void> {
    await this.#until(() => this.#running === 0 && (this.#isStopped || this.#size === 0));
    if (this.#failure !== undefined) throw this.#failure.error;
  }

  /** Whether work is waiting or in progress there. */
  isBusy(sessionId: string): boolean {
    return this.#waiting.has(sessionId);
  }

  #begin(): void {
    while (this.#running < this.#limits.concurrency && !this.#isStopped) {
      const sessionId = this.#ready.shift();
      if (sessionId === undefined) return;
      this.#running += 1;
      void this.#serve(sessionId);
    }
  }

  async #serve(sessionId: string): Promise<void> {
    const queue = this.#waiting.get(sessionId) ?? [];
    try {
      await queue[0]?.();
    } catch (error) {
      this.#isStopped = true;
      if (this.#failure === undefined) this.#onFailure(error);
      this.#failure ??= { error };
    }
    this.#running -= 1;
    this.#size -= 1;
    queue.shift();
    if (queue.length > 0) this.#ready.push(sessionId);
    else this.#waiting.delete(sessionId);
    this.#begin();
    this.#wakeAll();
  }

  #wakeAll(): void {
    for (const wake of this.#wakers) wake();
    this.#wakers.clear();
  }

  async #until(isMet: () => boolean): Promise<void> {
    while (!isMet()) await new Promise<void>((resolve) => this.#wakers.add(resolve));
  }
}

/** Where each session continues, and which later events are already done. */
export interface StartPoints {
  readonly cursors: Readonly<Record<string, Cursor>>;
  /** Sessions that wait for the agent to join, which then answers everything in them. */
  readonly invitations: readonly string[];
  isDone(event: EventEnvelope): boolean;
  /** A session continues earlier: later events are not done. */
  goBack(sessionId: string, cursor: Cursor): void;
}

/** The service's time from its `Date`; ours if it has none. */
export async function serviceTime(client: Client, nowMs: number, signal: AbortSignal): Promise<number> {
  const { headers } = await client.raw({ method: 'GET', path: '/sessions?limit=1', signal });
  const told = Date.parse(headers['date'] ?? '');
  return Number.isNaN(told) ? nowMs : told;
}

/** Every session that may have work waiting. */
export async function findStartPoints(
  client: Client,
  { sinceMs, sessions }: Progress,
  me: string,
  signal: AbortSignal,
): Promise<StartPoints> {
  const known = new Map(sessions);
  const cursors: Record<string, Cursor> = {};
  const invitations: string[] = [];
  for await (const page of pagesOf(client, 'active', signal))
    for (const { id, participants } of page) {
      const isInvited = participants.some(({ handle, status }) => handle === me && status === 'invited');
      if (isInvited) invitations.push(id);
      // After an invitation that was read but not accepted, only the invitation itself appears again.
      cursors[id] = isInvited ? { after: 0 } : (known.get(id) ?? { after: 0 });
    }
  for await (const page of pagesOf(client, 'ended', signal)) {
    const recent = page.filter(({ ended_at: endedAt }) => (endedAt ?? sinceMs) >= sinceMs);
    for (const { id } of recent) cursors[id] = known.get(id) ?? { after: 0 };
    if (recent.length === 0) break;
  }
  const isWhole = new Set([...known.keys(), ...invitations]);
  return {
    cursors,
    invitations,
    goBack: (id, cursor) => void known.set(id, cursor),
    isDone: ({ session_id: id, sequence, created_at: createdAt }) =>
      sequence <= (known.get(id)?.after ?? 0) || (!isWhole.has(id) && createdAt < sinceMs),
  };
}

/** The sessions of an agent in one state, most recently changed first. */
async function* pagesOf(client: Client, state: Session['state'], signal: AbortSignal): AsyncGenerator<Session[]> {
  let cursor: string | undefined;
  do {
    const query = { state, limit: LIST_LIMIT_MAX, ...(cursor !== undefined && { cursor }) };
    const { reply } = await client.call('listSessions', { query, signal });
    yield reply.sessions;
    cursor = reply.next_cursor ?? undefined;
  } while (cursor !== undefined);
}

/** Stops an agent: `soft` takes no new work, `hard` ends work in progress. */
interface Stops {
  readonly soft: AbortSignal;
  readonly hard: AbortController;
}

/** This much work may wait before the stream of events is slowed down. */
const QUEUE_CAPACITY = 256;

/** Answers messages until it is stopped; then finishes the work in progress. */
export async function serveAgent(context: Context, options: RunOptions): Promise<void> {
  const { clock, globals } = context;
  const stop = new AbortController();
  const stops = { soft: AbortSignal.any([context.signal, stop.signal]), hard: new AbortController() };
  // Every running command listens to it, which Node.js would report as a leak.
  setMaxListeners(0, stops.hard.signal);
  let failure: { readonly error: unknown } | undefined;
  let isTimeOver = false;
  const limits = { concurrency: options.concurrency, capacity: QUEUE_CAPACITY };
  const queues = new SessionQueues(limits, (error) => {
    failure = { error };
    stop.abort();
  });
  const onTime = (): void => {
    isTimeOver = true;
    stop.abort();
  };
  const cancel = globals.timeoutMs === undefined ? undefined : clock.schedule(globals.timeoutMs, onTime, true);
  try {
    await followAndAnswer(context, options, queues, stops);
  } catch (error) {
    // A request aborted by the shutdown fails only because of it; ignore the error.
    if (!stops.soft.aborted || error instanceof CliError) throw error;
  } finally {
    cancel?.();
  }
  if (failure !== undefined) throw failure.error;
  if (isTimeOver) throw new CliError('ASP_TIMEOUT', { message: 'Timed out.', isRetryable: true });
}

async function followAndAnswer(
  context: Context,
  options: RunOptions,
  queues: SessionQueues,
  stops: Stops,
): Promise<void> {
  const { soft, hard } = stops;
  const readyFile = await openReadyFile(options.readyFile);
  const client = await waitForService(context, soft, () => context.client());
  const me = await waitForService(context, soft, () => context.actingHandle());
  const path = options.cursorFile ?? (await progressPath(context, me));
  const release = await lockProgress(context, me, path);
  const guard = startCommandGuard(context);
  const reports = createTakenReports(context, async () => client);
  let responder: Responder | undefined;
  try {
    const now = (): Promise<number> => serviceTime(client, context.clock.now(), soft);
    const progress = await openProgress(path, async () => options.sinceMs ?? waitForService(context, soft, now));
    if (progress.guard !== undefined) await waitForGuard(context, progress.guard, soft);
    progress.guardBy(guard.identity);
    await progress.written();
    const relationsUntil = (signal: AbortSignal): FindRelation => createRelations({ context, client, me, signal });
    const admits = createAdmission({ context, me, from: options.from, relationOf: relationsUntil(soft) });
    const relationOf = relationsUntil(hard.signal);
    responder = await startResponder({
      context,
      me,
      rules: options.rules,
      guard,
      relationOf,
      progressPath: path,
      signal: soft,
    });
    const parts = {
      context,
      client,
      me,
      options,
      progress,
      queues,
      respond: responder.respond,
      reports,
      limits: await openLimits(options.limits, context.clock, path),
      admits,
      readyFile,
      soft,
      signal: hard.signal,
    };
    await answerAll(parts, stops);
  } finally {
    await responder?.close();
    await reports.settle();
    guard.close();
    await readyFile.remove();
    release?.();
  }
}

interface ResponderParts {
  readonly context: Context;
  readonly me: string;
  readonly rules: RunOptions['rules'];
  readonly guard: CommandGuard;
  readonly relationOf: FindRelation;
  readonly progressPath: string;
  readonly signal: AbortSignal;
}

/** What makes the replies: a command that runs for each message, or an agent program that stays. */
async function startResponder({ rules, ...parts }: ResponderParts): Promise<Responder> {
  if (rules.protocol === 'exec') return respondByCommand(parts.context, rules, parts.guard, parts.me);
  const { startAcpAgent } = await import('./acp-agent.js');
  return startAcpAgent({ ...parts, rules });
}

/** One process at a time keeps the progress of an agent: two would run its command twice for each message (D-208). */
async function lockProgress(context: Context, me: string, path: string): Promise<(() => void) | undefined> {
  const file = resolve(context.machine.workingDirectory, path);
  let release: (() => void) | undefined;
  try {
    release = await holdProcessLock({}, `run\n${file}`);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    await context.output.note(`Cannot find out whether another asp run answers as ${me}: ${error.message}`);
    return undefined;
  }
  if (release !== undefined) return release;
  throw new CliError('ASP_ALREADY_RUNNING', {
    message: `Another asp run already answers as ${me}.`,
    why: `both would store their progress in ${path}. To run a second one with a different command, use --cursor-file.`,
  });
}

/** Answers messages, once it is known where to begin. */
async function answerAll(given: Omit<AgentParts, 'points'>, stops: Stops): Promise<void> {
  const { context, client, me, options, progress, queues, soft } = given;
  const points = await waitForService(context, soft, () => findStartPoints(client, progress, me, soft));
  if (progress.isNew && options.sinceMs === undefined && Object.keys(points.cursors).length > points.invitations.length)
    await context.output.note(
      'No progress of an earlier run was found, so the agent starts now. To answer earlier messages too, add --since 1h.',
    );
  for (const sessionId of points.invitations) progress.advance(sessionId, { after: 0 });
  const agent = createAgent({ ...given, points });
  const { hurry, rest } = finishing(context, options.graceMs, queues, stops);
  try {
    const isComplete = await takeAll(client.tail({ cursors: points.cursors, signal: soft }), agent.take);
    if (!isComplete) hurry();
  } catch (error) {
    hurry();
    throw error;
  } finally {
    await queues.settled().finally(rest);
    await progress.written();
  }
}

/** True if `take` wanted no more before the end. */
async function takeAll(items: AsyncIterable<TailItem>, take: (item: TailItem) => Promise<boolean>): Promise<boolean> {
  for await (const item of items) if (!(await take(item))) return true;
  return false;
}

/** After the stop, no new work begins, and work in progress has a time limit. */
function finishing({ clock }: Context, graceMs: number, queues: SessionQueues, { soft, hard }: Stops) {
  let cancel: (() => void) | undefined;
  const hurry = (): void => {
    queues.stop();
    cancel ??= clock.schedule(graceMs, () => hard.abort(new Error('it was stopped')));
  };
  soft.addEventListener('abort', hurry, { once: true });
  const rest = (): void => {
    soft.removeEventListener('abort', hurry);
    cancel?.();
  };
  return { hurry, rest };
}
