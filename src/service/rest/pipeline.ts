import type { IncomingMessage } from 'node:http';

import { isWrite, type Operation } from '../../wire/endpoint.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AdmittedCall, admit, type Call, takeBudget } from './admit.js';
import { type AnsweredCall, answerOfReply, answerOnce, ownLimitOf } from './call-parts.js';
import { fingerprintOf } from './canonical-json.js';
import type { Answer } from './error-answer.js';
import type { AnyHandler } from './handler.js';
import { HANDLER } from './handlers.js';
import { readJsonBody } from './read-body.js';
import { checkBody, readBodyKey, readQuery } from './read-request.js';
import type { Rest } from './rest.js';
import { answerUpload } from './upload.js';

/** The two operations whose bodies may carry the key (wire: Common rules, idempotency). */
const MAY_HAVE_BODY_KEY: ReadonlySet<Operation> = new Set(['createSession', 'sendMessage']);

/**
 * Answers one call: authenticate → actor kind → scope → general limit → path → key → body or query → stored answer, else
 * handler and record in one transaction. Every request costs one budget (D-44): a row with a limit of its own costs that when it
 * takes effect, and an empty general one does not hold it; anything else, replays and refusals among it, costs the general
 * one. A 429 costs nothing.
 */
export async function answerCall(rest: Rest, call: Call): Promise<Answer> {
  const admitted = await admit(rest, call);
  if (admitted.row.limit === 'general') return (await answerAdmitted(rest, admitted)).answer;
  try {
    const outcome = await answerAdmitted(rest, admitted);
    if (outcome.isReplay) await takeBudget(rest.context, admitted.actor, 'general');
    return outcome.answer;
  } catch (error) {
    if (error instanceof ServiceError && error.code !== 'RATE_LIMITED')
      await takeBudget(rest.context, admitted.actor, 'general');
    throw error;
  }
}

function answerAdmitted(rest: Rest, call: AdmittedCall): Promise<AnsweredCall> {
  if (call.row.body === 'file') return answerUpload(rest, call);
  return isWrite(call.row) ? answerWrite(rest, call) : answerRead(rest.context, call);
}

async function answerRead(context: ServiceContext, call: AdmittedCall): Promise<AnsweredCall> {
  const query = readQuery(call.row, call.request.url);
  const limit = ownLimitOf(call);
  if (limit !== undefined) await takeBudget(context, call.actor, limit);
  const handle: AnyHandler = HANDLER[call.operation];
  const input = { path: call.path, query, body: {} };
  const reply = await context.database.read((view) =>
    handle(context, call.actor as never, input as never, view as never),
  );
  return { answer: answerOfReply(call, reply), isReplay: false };
}

async function answerWrite({ context, bounds }: Rest, call: AdmittedCall): Promise<AnsweredCall> {
  const receive = (request: IncomingMessage): Promise<Buffer> => bounds.receive(call.actor, request);
  const { key, json } = await readKeyAndJson(call, receive);
  const query = readQuery(call.row, call.request.url);
  const body = checkBody(call.row, json);
  const handle: AnyHandler = HANDLER[call.operation];
  const input = { path: call.path, query, body: withoutKey(body) };
  return await answerOnce(context, call, { key, fingerprint: fingerprintOf(input.body) }, (transaction) =>
    handle(context, call.actor as never, input as never, transaction as never),
  );
}

/**
 * A key in the body wins: clients that put their key there may send a fresh one in the header of every attempt. Without
 * any key the answer says nothing about the body, not even that it is malformed (wire: Common rules, idempotency).
 */
async function readKeyAndJson(
  { key, operation, request }: AdmittedCall,
  receive: (request: IncomingMessage) => Promise<Buffer>,
): Promise<{ key: string; json: unknown }> {
  const mayHaveBodyKey = MAY_HAVE_BODY_KEY.has(operation);
  if (key !== undefined) {
    const json = await readJsonBody(request.raw, receive);
    return { key: (mayHaveBodyKey ? readBodyKey(json) : undefined) ?? key, json };
  }
  if (!mayHaveBodyKey) throw new ServiceError('MISSING_IDEMPOTENCY_KEY');
  const json = await readJsonBody(request.raw, receive).catch(() => undefined);
  const bodyKey = readBodyKey(json);
  if (bodyKey === undefined) throw new ServiceError('MISSING_IDEMPOTENCY_KEY');
  return { key: bodyKey, json };
}

/** The key in a body is for the service alone, and no part of what is compared. */
function withoutKey(body: unknown): unknown {
  if (readBodyKey(body) === undefined) return body;
  const { idempotency_key: _, ...rest } = body as Record<string, unknown>;
  return rest;
}
