import { fillPath } from '../../wire/endpoint.js';
import type { ServiceContext } from '../context.js';
import { withIdempotency } from '../limits/idempotency.js';
import type { Transaction } from '../store/database.js';
import { type AdmittedCall, subjectOf } from './admit.js';
import { type Answer, answerWith, JSON_TYPE } from './error-answer.js';

/** Searches and uploads cost theirs before the effect; creating and sending theirs once the caller is found eligible (D-19). */
export async function takeOwnLimit(context: ServiceContext, { row, actor }: AdmittedCall): Promise<void> {
  if (row.limit === 'search' || row.limit === 'uploadAttachment')
    await context.limits.take(row.limit, subjectOf(actor));
}

export interface AnsweredCall {
  readonly answer: Answer;
  /** The effect did not run now: an earlier request with the same key has had it. */
  readonly isReplay: boolean;
}

/** Runs `effect` unless its key is known. The endpoint of a key is that of the row, whichever address was used. */
export async function answerOnce(
  context: ServiceContext,
  call: AdmittedCall,
  { key, fingerprint }: { readonly key: string; readonly fingerprint: string },
  effect: (transaction: Transaction) => Promise<unknown>,
): Promise<AnsweredCall> {
  const endpoint = `${call.row.method} ${fillPath(call.row.path, call.path)}`;
  const request = { actorId: subjectOf(call.actor), endpoint, key, fingerprint };
  let isReplay = true;
  const recorded = await withIdempotency(context, request, async (transaction) => {
    isReplay = false;
    await takeOwnLimit(context, call);
    return answerOfReply(call, await effect(transaction));
  });
  return { answer: answerWith(recorded.status, JSON_TYPE, recorded.body), isReplay };
}

export function answerOfReply(call: AdmittedCall, reply: unknown): Answer {
  const { row } = call;
  if (row.reply === 'nothing') return answerWith(row.status, JSON_TYPE, '');
  if (row.reply === 'markdown') return answerWith(row.status, 'text/markdown; charset=utf-8', String(reply));
  return answerWith(row.status, JSON_TYPE, JSON.stringify(call.shape(reply)));
}
