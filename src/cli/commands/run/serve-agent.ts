import { setMaxListeners } from 'node:events';
import { resolve } from 'node:path';

import type { TailItem } from '../../../client/client.js';
import { holdProcessLock } from '../../../client/credentials/process-lock.js';
import { RequestError } from '../../../client/http/request-error.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../errors.js';
import { openReadyFile } from '../../ready-file.js';
import { createAdmission } from './admission.js';
import { type AgentParts, createAgent } from './agent.js';
import { startCommandGuard, waitForGuard } from './command-guard.js';
import { waitForService } from './persist.js';
import { openProgress, progressPath } from './progress-file.js';
import type { RunOptions } from './run.js';
import { SessionQueues } from './session-queues.js';
import { findStartPoints, serviceTime } from './start-points.js';

/** What stops an agent: `soft` takes nothing new, `hard` ends what is under way. */
interface Stops {
  readonly soft: AbortSignal;
  readonly hard: AbortController;
}

/** So much may wait before the stream of events is slowed down. */
const QUEUE_CAPACITY = 256;

/** Answers messages until it is told to stop; then what is under way is finished. */
export async function serveAgent(context: Context, options: RunOptions): Promise<void> {
  const { clock, globals } = context;
  const stop = new AbortController();
  const stops = { soft: AbortSignal.any([context.signal, stop.signal]), hard: new AbortController() };
  // Every command that runs listens to it, which Node.js would report as a leak.
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
    // A request aborted by the stop fails only because of it.
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
  try {
    const now = (): Promise<number> => serviceTime(client, context.clock.now(), soft);
    const progress = await openProgress(path, async () => options.sinceMs ?? waitForService(context, soft, now));
    if (progress.guard !== undefined) await waitForGuard(context, progress.guard, soft);
    progress.guardBy(guard.identity);
    await progress.written();
    const admits = createAdmission({ context, client, me, from: options.from, signal: soft });
    const parts = {
      context,
      client,
      me,
      options,
      progress,
      queues,
      guard,
      admits,
      readyFile,
      soft,
      signal: hard.signal,
    };
    await answerAll(parts, stops);
  } finally {
    guard.close();
    await readyFile.remove();
    release?.();
  }
}

/** One process at a time keeps how far an agent has got: two would run its command twice for each message (D-208). */
async function lockProgress(context: Context, me: string, path: string): Promise<(() => void) | undefined> {
  const file = resolve(context.machine.workingDirectory, path);
  let release: (() => void) | undefined;
  try {
    release = await holdProcessLock({}, `run\n${file}`);
  } catch (error) {
    if (!(error instanceof RequestError)) throw error;
    await context.output.note(`Whether another asp run answers as ${me} is not known: ${error.message}`);
    return undefined;
  }
  if (release !== undefined) return release;
  throw new CliError('ASP_ALREADY_RUNNING', {
    message: `Another asp run answers as ${me} already.`,
    why: `both would keep how far they got in ${path}; one that answers something else takes --cursor-file.`,
  });
}

/** What answers, once it is known where to begin. */
async function answerAll(given: Omit<AgentParts, 'points'>, stops: Stops): Promise<void> {
  const { context, client, me, options, progress, queues, soft } = given;
  const points = await waitForService(context, soft, () => findStartPoints(client, progress, me, soft));
  if (progress.isNew && options.sinceMs === undefined && Object.keys(points.cursors).length > points.invitations.length)
    await context.output.note(
      'Nothing is saved of an earlier run: starting now. --since 1h answers earlier messages, too.',
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

/** True when `take` wanted no more before there was no more. */
async function takeAll(items: AsyncIterable<TailItem>, take: (item: TailItem) => Promise<boolean>): Promise<boolean> {
  for await (const item of items) if (!(await take(item))) return true;
  return false;
}

/** From the stop on, nothing begins any more, and what is under way has a time to end in. */
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
