import type { TailItem } from '../../../client/client.js';
import type { Context } from '../../context/context.js';
import { CliError } from '../../terminal/cli-error.js';
import { type AgentParts, createAgent } from './agent.js';
import { openProgress, progressPath } from './progress-file.js';
import type { CommandRules } from './run-command.js';
import { SessionQueues } from './session-queues.js';
import { findStartPoints, serviceTime } from './start-points.js';
import { takePlace } from './take-place.js';

export interface RunOptions {
  readonly rules: CommandRules;
  /** Empty: everyone. */
  readonly from: readonly string[];
  readonly joins: boolean;
  readonly ends: boolean;
  /** Stop after so many messages. */
  readonly count: number | undefined;
  readonly concurrency: number;
  readonly cursorFile: string | undefined;
}

/** What stops an agent: `soft` takes nothing new, `hard` ends what is under way. */
interface Stops {
  readonly soft: AbortSignal;
  readonly hard: AbortController;
}

/** So much may wait before the stream of events is slowed down. */
const QUEUE_CAPACITY = 256;
/** What is under way gets so long to finish once the agent is told to stop. */
const FINISH_MS = 10_000;

/** Answers messages until it is told to stop; then what is under way is finished. */
export async function serveAgent(context: Context, options: RunOptions): Promise<void> {
  const { clock, globals } = context;
  const stop = new AbortController();
  const stops = { soft: AbortSignal.any([context.signal, stop.signal]), hard: new AbortController() };
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
    // What was asked for while the stop came says no more than that it came.
    if (!stops.soft.aborted || error instanceof CliError) throw error;
  } finally {
    cancel?.();
  }
  if (failure !== undefined) throw failure.error;
  if (isTimeOver) throw new CliError('ASP_TIMEOUT', { message: 'The time was over.', isRetryable: true });
}

async function followAndAnswer(
  context: Context,
  options: RunOptions,
  queues: SessionQueues,
  stops: Stops,
): Promise<void> {
  const { soft, hard } = stops;
  const client = await context.client();
  const me = await context.actingHandle();
  const path = options.cursorFile ?? (await progressPath(context, me));
  const release = await takePlace(context, me, path);
  try {
    const progress = await openProgress(path, () => serviceTime(client, context.clock.now(), soft));
    await answerAll({ context, client, me, options, progress, queues, soft, signal: hard.signal }, stops);
  } finally {
    release?.();
  }
}

/** What answers, once it is known where to begin. */
async function answerAll(given: Omit<AgentParts, 'points'>, stops: Stops): Promise<void> {
  const { context, client, me, progress, queues, soft } = given;
  const points = await findStartPoints(client, progress, me, soft);
  for (const sessionId of points.invitations) progress.advance(sessionId, 0);
  const agent = createAgent({ ...given, points });
  const { hurry, rest } = finishing(context, queues, stops);
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
function finishing({ clock }: Context, queues: SessionQueues, { soft, hard }: Stops) {
  let cancel: (() => void) | undefined;
  const hurry = (): void => {
    queues.stop();
    cancel ??= clock.schedule(FINISH_MS, () => hard.abort(new Error('it was stopped')));
  };
  soft.addEventListener('abort', hurry, { once: true });
  const rest = (): void => {
    soft.removeEventListener('abort', hurry);
    cancel?.();
  };
  return { hurry, rest };
}
