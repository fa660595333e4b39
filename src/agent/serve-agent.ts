import { setMaxListeners } from 'node:events';
import type { Client, TailItem } from '../client/client.js';
import type { Clock } from '../kit/clock.js';
import { codeOf } from '../kit/format.js';
import { createIds } from '../kit/ids.js';
import { systemRandom } from '../kit/random.js';
import type { EventEnvelope } from '../wire/schemas/event.js';
import type { Advice, Responder, RunRecord } from './answer.js';
import { Claims } from './claims.js';
import { openLimits } from './limits.js';
import { type AgentContext, waitForService } from './persist.js';
import type { ProgressFile } from './progress-file.js';
import type { FindRelation } from './relation.js';
import { SessionQueues } from './session-queues.js';
import { findStartPoints } from './start-points.js';
import { type Admits, type AgentOptions, type AgentParts, EventTaker } from './take-events.js';
import { createTakenReports } from './taken-reports.js';
import { createUnansweredReports } from './unanswered-reports.js';

/** What admission depends on. */
interface AdmissionParts {
  readonly context: AgentContext;
  readonly advice: Advice;
  readonly me: string;
  readonly from: AgentOptions['from'];
  readonly findRelation: FindRelation;
}

/** The agents in `from`; otherwise agents of the same owner and those on the agent's allowlist, whatever its policy. */
function createAdmission({ context, advice, me, from, findRelation }: AdmissionParts): Admits {
  if (from === 'anyone') return async () => true;
  if (from.length > 0) return async (handle) => from.includes(handle);
  const { output } = context;
  let isReported = false;
  return async (handle) => {
    if ((await findRelation(handle)) !== 'anyone') return true;
    const text = `Not answering ${handle}: it has a different owner and is not on the allowlist of ${me}.`;
    if (isReported) await output.detail(text);
    else await output.note(`${text} ${advice.admit}`);
    isReported = true;
    return false;
  };
}

/** Stops an agent: `soft` takes no new work, `hard` ends work in progress. */
export interface Stops {
  readonly soft: AbortSignal;
  readonly hard: AbortController;
}

/** What a program opens for its agent. */
export interface OpenedAgent {
  readonly client: Client;
  readonly me: string;
  readonly progress: ProgressFile;
  /** The counts of the limits are stored next to it; undefined to store nothing. */
  readonly progressPath: string | undefined;
  readonly respond: Responder['respond'];
  readonly passesOver?: Responder['passesOver'];
  readonly findRelation: FindRelation;
  /** Whether to join the session of an invitation; undefined: every one. */
  readonly accepts?: AgentParts['accepts'];
  /** Gets every new event, before a message in it is answered. */
  readonly onEvent?: ((event: EventEnvelope) => Promise<void>) | undefined;
  readonly onReady: () => Promise<void>;
  readonly onRecord: (record: RunRecord) => Promise<void>;
}

/** Answers messages until the agent is stopped. */
export type AnswerAll = (opened: OpenedAgent) => Promise<void>;

/** This much work may wait before the stream of events is slowed down. */
const QUEUE_CAPACITY = 256;

/** The errors of a request that fails because the agent is stopping. */
const PASSING = ['ASP_ABORTED', 'ASP_UNREACHABLE', 'ASP_TIMEOUT'];

/**
 * Answers messages until `signal` aborts; then finishes the work in progress. `open` gets everything that an agent needs, calls
 * `answerAll` with it, and releases it.
 */
export async function serveAgent(
  context: AgentContext,
  advice: Advice,
  options: AgentOptions,
  signal: AbortSignal,
  open: (stops: Stops, answerAll: AnswerAll) => Promise<void>,
): Promise<void> {
  const stop = new AbortController();
  const stops = { soft: AbortSignal.any([signal, stop.signal]), hard: new AbortController() };
  // Everything in progress listens to it; without this, Node.js would report a leak.
  setMaxListeners(0, stops.hard.signal);
  let failure: { readonly error: unknown } | undefined;
  const limits = { concurrency: options.concurrency, capacity: QUEUE_CAPACITY };
  const queues = new SessionQueues(limits, (error) => {
    failure = { error };
    stop.abort();
  });
  try {
    await open(stops, (opened) => answerAll({ ...opened, context, advice, options, queues }, stops));
  } catch (error) {
    // A request aborted by the shutdown fails only because of it; ignore the error.
    if (!stops.soft.aborted || isOwnFailure(error)) throw error;
  }
  if (failure !== undefined) throw failure.error;
}

function isOwnFailure(error: unknown): boolean {
  const code = codeOf(error);
  return code.startsWith('ASP_') && !PASSING.includes(code);
}

type Given = OpenedAgent & Pick<AgentParts, 'context' | 'advice' | 'options' | 'queues'>;

/** Answers messages once it has found out where to begin. */
async function answerAll(given: Given, stops: Stops): Promise<void> {
  const { context, advice, client, me, options, progress, progressPath, findRelation, queues } = given;
  const { soft, hard } = stops;
  const reports = createTakenReports(context, async () => client);
  let claims: Claims | undefined;
  try {
    const { sinceMs } = progress;
    const points = await waitForService(context, soft, () => findStartPoints(client, progress, me, soft));
    const isFirst = progress.isNew && options.sinceMs === undefined;
    if (isFirst && Object.keys(points.cursors).length > points.invitations.length)
      await context.output.note(`No progress of an earlier run was found, so the agent starts now. ${advice.since}`);
    for (const sessionId of points.invitations) progress.advance(sessionId, { after: 0 });
    if (options.isShared) {
      const worker = progress.nameWorker(createIds(context.clock, systemRandom).ulid());
      await progress.written();
      claims = new Claims(context, client, worker, hard.signal);
    }
    const taker = new EventTaker({
      ...given,
      claims,
      points,
      reports,
      unanswered: createUnansweredReports(context, client, hard.signal),
      limits: await openLimits(options.limits, context.clock, progressPath),
      admits: createAdmission({ context, advice, me, from: options.from, findRelation }),
      soft,
      signal: hard.signal,
    });
    const { hurry, rest } = finishing(context.clock, options.graceMs, queues, stops);
    try {
      const isComplete = await takeAll(client.tail({ cursors: points.cursors, sinceMs, signal: soft }), taker);
      if (!isComplete) hurry();
    } catch (error) {
      hurry();
      throw error;
    } finally {
      await queues.settled().finally(rest);
      await progress.written();
    }
  } finally {
    await claims?.close();
    await reports.settle();
  }
}

/** True if the taker wanted no more before the end. */
async function takeAll(items: AsyncIterable<TailItem>, taker: EventTaker): Promise<boolean> {
  for await (const item of items) if (!(await taker.take(item))) return true;
  return false;
}

/** After the stop, no new work begins, and work in progress has a time limit. */
function finishing(clock: Clock, graceMs: number, queues: SessionQueues, { soft, hard }: Stops) {
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
