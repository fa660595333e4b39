import { type Limits, openLimits } from '../../../agent/limits.js';
import { RequestError } from '../../../client/http/request-error.js';
import { isMessageEvent } from '../../../wire/event.js';
import { IN_REPLY_TO, toText } from '../../../wire/message.js';
import {
  collectOwn,
  describeLimit,
  findReplyLimit,
  MODEL_MESSAGES_PER_HOUR,
  type ReplyLimit,
  type Said,
} from '../../../wire/reply-limit.js';
import type { Context } from '../../context/context.js';
import { progressPath } from '../../context/progress-path.js';
import { openRelations } from '../../context/relations.js';
import { CliError } from '../../errors.js';
import { withFileLock } from '../../profile/file-lock.js';
import { readEventsBack } from '../session/session-events.js';

/** Keeps a coding agent from sending forever. */
export interface AgentLimits {
  /**
   * Before a message; without a session, it begins one.
   * @throws CliError `ASP_LIMIT` if the message would exceed a limit.
   */
  check(next: Said, sessionId: string | undefined): Promise<void>;
  /** A message was sent. */
  count(): Promise<void>;
}

/** A session with more events than this since the last message of a person counts as if it began there. */
const EVENTS_MAX = 1_000;

/** The log of the session has the other counts. */
const HOURLY = {
  replies: 0,
  repliesPerHour: MODEL_MESSAGES_PER_HOUR,
  hops: 0,
  tokens: 0,
  cost: 0,
  humans: [],
} as const;

/**
 * This process remembers nothing, so what a session allows comes from its log, and the messages of the last hour from a
 * file. `answersAlways`: each message is an answer. Otherwise, one after the agent's own message is not.
 */
export function openAgentLimits(context: Context, answersAlways: boolean): AgentLimits {
  const withHourly = async <Result>(use: (limits: Limits) => Promise<Result> | Result): Promise<Result | undefined> => {
    if (context.paths.stateDirectory === undefined) return undefined;
    const path = await progressPath(context, await context.actingHandle(), 'send');
    return withFileLock(context, path, async () => use(await openLimits(HOURLY, context.clock, path)));
  };
  const isHourOver = async (limits: Limits): Promise<boolean> => {
    const ticket = limits.begin(undefined);
    if (typeof ticket === 'string') return true;
    ticket.close(false);
    return false;
  };
  return {
    async check(next, sessionId) {
      const own = sessionId === undefined ? [] : await collect(context, sessionId, answersAlways);
      const { once, idempotencyKey } = context.globals;
      // The service has the message already, and sends nothing twice.
      const isRepeated = (once ?? idempotencyKey) !== undefined && isSame(own.at(-1), next);
      const limit = findReplyLimit(isRepeated ? own.slice(0, -1) : own, next);
      if (limit !== undefined) throw limitError(limit, sessionId);
      if (!isRepeated && (await withHourly(isHourOver)) === true) throw limitError('max_replies_per_hour', sessionId);
    },
    async count() {
      const record = async (limits: Limits): Promise<void> => {
        const ticket = limits.begin(undefined);
        if (typeof ticket !== 'string') ticket.close(true);
        await limits.written();
      };
      // The message was sent, even if its count cannot be saved.
      await withHourly(record).catch((error: unknown) => context.output.detail(String(error)));
    },
  };
}

/** The agent's messages since the last one of a person; none if the next message answers no one. */
async function collect(context: Context, sessionId: string, answersAlways: boolean): Promise<readonly Said[]> {
  const me = await context.actingHandle();
  const relationOf = openRelations(context);
  const collected = collectOwn(me, async (handle) => (await relationOf(handle)) !== 'anyone');
  let left = EVENTS_MAX;
  let isAnswer = answersAlways;
  try {
    for await (const event of readEventsBack(context, sessionId)) {
      left -= 1;
      if (left < 0) break;
      if (!isMessageEvent(event)) continue;
      if (!isAnswer && event.payload.sender === me) return [];
      isAnswer = true;
      if (!(await collected.add(event.payload))) break;
    }
  } catch (error) {
    // The service says later whether an agent that cannot read the session may write in it.
    if (!(error instanceof RequestError) || (error.status !== 403 && error.status !== 404)) throw error;
  }
  return collected.own;
}

const limitError = (limit: ReplyLimit, sessionId: string | undefined): CliError =>
  new CliError('ASP_LIMIT', {
    message: `Nothing was sent${sessionId === undefined ? '' : ` to ${sessionId}`}: the limit ${limit} for a coding agent is reached.`,
    why: describeLimit(limit),
  });

const isSame = (sent: Said | undefined, next: Said): boolean =>
  sent?.metadata?.[IN_REPLY_TO] === next.metadata?.[IN_REPLY_TO] &&
  toText(sent?.content ?? '') === toText(next.content);
