import { putLast } from '../../kit/bounded-map.js';
import { parseIfJson } from '../../kit/parse-json.js';
import { isFromPerson } from '../../wire/message.js';
import { collectOwn, describeLimit, findReplyLimit, type ReplyLimit } from '../../wire/reply-limit.js';
import type { Message } from '../../wire/schemas/message.js';
import type { AgentActor, LoopGuard, ServiceContext } from '../core/context.js';
import type { Query } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import type { Meter } from '../core/meter.js';
import type { Budget } from '../core/rate-limits.js';
import { listClaims, listOwnAndClaims } from '../store/events.js';
import { relateTo } from './trust-gate.js';

const SESSIONS_MAX = 10_000;
const PAGE_ROWS = 100;
/** How far back the messages of one agent count. An agent that wrote few of the last 1,000 drives no loop. */
const OWN_EVENTS_MAX = 1_000;
/** How far back a count looks if few of the events are messages. */
const EVENTS_MAX = 5_000;

/** How many messages there are up to an event since the last one from a person. */
interface Counted {
  readonly sequence: number;
  readonly id: string;
  readonly count: number;
}

/**
 * Counts in the log, so that it knows nothing that a restart or another process would not know. What it remembers only
 * saves reading the same events again.
 */
export function createLoopGuard(limit: number, meter: Pick<Meter, 'loopStopped'>): LoopGuard {
  const remembered = new Map<string, Counted>();
  const remember = (sessionId: string, counted: Counted): void => putLast(remembered, sessionId, counted, SESSIONS_MAX);
  return {
    async check(query, sessionId, lastSequence, message) {
      if (isFromPerson(message)) return;
      const counted = await countSincePerson(query, sessionId, lastSequence, limit, remembered.get(sessionId));
      if (counted === undefined) return;
      remember(sessionId, counted);
      if (counted.count < limit) return;
      meter.loopStopped();
      throw new ServiceError(
        'LOOP_GUARD',
        `This session has had ${limit} messages in a row without one from a person. A message that a person writes in the dashboard or with asp chat continues it.`,
      );
    },
  };
}

/** Reads back from the last event to a person's message, to `limit` messages, or to what an earlier call has counted. */
async function countSincePerson(
  query: Query,
  sessionId: string,
  lastSequence: number,
  limit: number,
  earlier: Counted | undefined,
): Promise<Counted | undefined> {
  let last: Omit<Counted, 'count'> | undefined;
  let count = 0;
  let through = lastSequence;
  let from = earlier !== undefined && earlier.sequence <= lastSequence ? earlier.sequence : 1;
  while (through > 0 && lastSequence - through < EVENTS_MAX) {
    const rows = await listClaims(query, sessionId, from, through, PAGE_ROWS);
    for (const { sequence, id, type, claim } of rows) {
      last ??= { sequence, id };
      // Another event may have had this sequence: one that was never committed, or that a restore removed.
      if (earlier?.id === id) return { ...last, count: count + earlier.count };
      if (type !== 'session.message') continue;
      if (claim !== null && isFromPerson(parseIfJson(claim) as Message)) return { ...last, count };
      count += 1;
      if (count >= limit) return { ...last, count };
    }
    through = (rows.at(-1)?.sequence ?? 1) - 1;
    if (through < from) from = 1;
  }
  return last && { ...last, count };
}

/**
 * The context for what a model sends: with the limits of `asp run`, after those of the operator. A check in the transaction
 * of the message counts calls that come at the same time.
 */
export function limitModel(context: ServiceContext, actor: AgentActor): ServiceContext {
  const { loopGuard, limits } = context;
  const messageBudget: Budget = { name: 'sendAsModel', subjectId: actor.agentId };
  return {
    ...context,
    messageBudget,
    loopGuard: {
      async check(query, sessionId, lastSequence, message) {
        await loopGuard?.check(query, sessionId, lastSequence, message);
        const trusted = new Map<string, boolean>();
        const collected = collectOwn(actor.handle, async (handle) => {
          const isTrusted = trusted.get(handle) ?? (await relateTo(query, actor, [handle]))[handle] !== 'anyone';
          trusted.set(handle, isTrusted);
          return isTrusted;
        });
        await collectBack(query, sessionId, actor.handle, lastSequence, collected.add);
        const limit = findReplyLimit(collected.own, message);
        if (limit !== undefined) throw new ServiceError('LOOP_GUARD', describeRefusal(limit, sessionId));
        // Alone, so that the refusal names it.
        await limits.check(messageBudget);
      },
    },
  };
}

/** What a model learns of a limit. */
export const describeRefusal = (limit: ReplyLimit, sessionId?: string): string =>
  `Nothing was sent${sessionId === undefined ? '' : ` to ${sessionId}`}: the limit ${limit} of these tools is reached. Why: ${describeLimit(limit)}`;

/** Passes on messages from the last one backward, until `add` wants no more. */
async function collectBack(
  query: Query,
  sessionId: string,
  me: string,
  lastSequence: number,
  add: (message: Message) => Promise<boolean>,
): Promise<void> {
  let through = lastSequence;
  while (through > 0 && lastSequence - through < OWN_EVENTS_MAX) {
    const rows = await listOwnAndClaims(query, sessionId, me, through, PAGE_ROWS);
    for (const { claim } of rows) if (claim !== null && !(await add(parseIfJson(claim) as Message))) return;
    through = (rows.at(-1)?.sequence ?? 1) - 1;
  }
}
