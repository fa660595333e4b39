import { fillPath } from '../../wire/endpoint.js';
import { RATE_LIMIT, type RateLimitName } from '../../wire/limit.js';
import type { ServiceContext } from '../context.js';
import { ReplyText } from '../events/reply-text.js';
import { isKeyKnown, withIdempotency } from '../limits/idempotency.js';
import type { Transaction } from '../store/database.js';
import { type AdmittedCall, subjectOf, takeBudget } from './admit.js';
import { type Answer, answerWith, JSON_TYPE } from './error-answer.js';

export interface AnsweredCall {
  readonly answer: Answer;
  /** The effect did not run now: an earlier request with the same key has had it. */
  readonly isReplay: boolean;
}

/** The limit of a row that has one of its own, counted for its caller; what is sent is counted where its session is known. */
export function ownLimitOf({ row }: AdmittedCall): RateLimitName | undefined {
  return row.limit !== 'general' && RATE_LIMIT[row.limit].subject === 'agent' ? row.limit : undefined;
}

/**
 * Refuses, before its body is received, what its budget would refuse in the end. Those who repeat a known key are let
 * through: a replay takes nothing from that budget (D-24).
 */
export async function refuseBeforeBody(context: ServiceContext, call: AdmittedCall, key: string): Promise<void> {
  const limit = ownLimitOf(call);
  if (limit === undefined) return;
  try {
    await context.limits.check(limit, subjectOf(call.actor));
  } catch (error) {
    if (!(await isKeyKnown(context, { ...placeOf(call), key }))) throw error;
  }
}

/**
 * Runs `effect` unless its key is known. A row's own budget is asked before the effect, so that who has used it up learns
 * nothing of others, and taken from after it: a refusal takes nothing (D-44).
 */
export async function answerOnce(
  context: ServiceContext,
  call: AdmittedCall,
  { key, fingerprint }: { readonly key: string; readonly fingerprint: string },
  effect: (transaction: Transaction) => Promise<unknown>,
): Promise<AnsweredCall> {
  const limit = ownLimitOf(call);
  let isReplay = true;
  const recorded = await withIdempotency(context, { ...placeOf(call), key, fingerprint }, async (transaction) => {
    isReplay = false;
    if (limit !== undefined) await context.limits.check(limit, subjectOf(call.actor));
    const reply = await effect(transaction);
    if (limit !== undefined) await takeBudget(context, call.actor, limit);
    return answerOfReply(call, reply);
  });
  return { answer: answerWith(recorded.status, JSON_TYPE, recorded.body), isReplay };
}

/** What a key belongs to. The endpoint is that of the row, whichever address was used. */
function placeOf({ actor, path, row }: AdmittedCall): { readonly actorId: string; readonly endpoint: string } {
  return { actorId: subjectOf(actor), endpoint: `${row.method} ${fillPath(row.path, path)}` };
}

export function answerOfReply(call: AdmittedCall, reply: unknown): Answer {
  const { row } = call;
  if (row.reply === 'nothing') return answerWith(row.status, JSON_TYPE, '');
  if (row.reply === 'markdown') return answerWith(row.status, 'text/markdown; charset=utf-8', String(reply));
  if (reply instanceof ReplyText) return { ...answerWith(row.status, JSON_TYPE, reply.text), more: reply.more };
  const { body, location } = call.present(reply);
  if (location === undefined) return answerWith(row.status, JSON_TYPE, JSON.stringify(body));
  return answerWith(302, JSON_TYPE, JSON.stringify(body), [['location', location]]);
}
