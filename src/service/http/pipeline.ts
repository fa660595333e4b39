import { hash } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { FastifyRequest } from 'fastify';
import { type EndpointRow, endpointRow, fillPath, isWrite, type Operation, type PathOf } from '../../wire/endpoint.js';
import { RATE_LIMIT, type RateLimitName, UPLOADS_PER_AGENT_MAX, UPLOADS_WAITING_MAX } from '../../wire/limit.js';
import type { QueryInputOf, ReplyOf } from '../../wire/schemas/endpoint.js';
import type { Scope } from '../../wire/scope.js';
import { receiveUpload, type StagedUpload, UPLOAD_LIMITS } from '../attachments/receive-upload.js';
import type { Actor, AgentActor, Inboxes, Log, ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { isOutage, ServiceError } from '../core/errors.js';
import { chargeOnce } from '../core/rate-limits.js';
import { createSemaphore, type Semaphore } from '../core/semaphore.js';
import { ReplyText } from '../messaging/events.js';
import { isKeyKnown, type KeyedRequest, withIdempotency } from '../messaging/idempotency.js';
import { sessionLock } from '../store/lock-names.js';
import { type Answer, answerWith, JSON_TYPE } from './answers.js';
import type { Exchanges } from './app.js';
import { type AnyHandler, HANDLER } from './handlers.js';
import { checkBody, checkPath, checkQuery, readBodyKey, readJsonBody, readKey, readQuery } from './request.js';
import { createWorkBounds, getSubject, type WorkBounds } from './work-bounds.js';

const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;

/** Verifies an access token for one resource; any problem with it is UNAUTHORIZED or TOKEN_EXPIRED. */
type VerifyToken = (token: string, audience: string) => Promise<Actor>;

export interface PresentedReply {
  readonly body: unknown;
  /** The redirect target of the answer. */
  readonly location?: string;
}

/** A request whose route, and therefore whose operation, is known. */
export interface Call {
  readonly operation: Operation;
  readonly request: FastifyRequest;
  /** The parameters of the row's path for this actor: an alias may take some of them from the token. */
  pathFor(actor: Actor): Readonly<Record<string, string>>;
  /** The reply in the form of the requested address: an alias may word it differently, or redirect. */
  present(reply: unknown): PresentedReply;
  /** Runs `listener` once the answer has been sent completely, or never will be. */
  whenDone(listener: () => void): void;
}

/** A call whose caller may make it, before its body is read. */
interface AdmittedCall extends Call {
  readonly row: EndpointRow;
  readonly actor: Actor;
  readonly path: Readonly<Record<string, string>>;
  readonly key: string | undefined;
}

/** The checks before the body, in the order that reveals the least to a stranger: existence comes last. */
async function admit({ context, verify, bounds }: Rest, call: Call): Promise<AdmittedCall> {
  const row = endpointRow(call.operation);
  const { headers } = call.request;
  requireShortQueue(context);
  const actor = await verify(readBearer(headers.authorization), context.settings.addresses.baseUrl);
  requireActorKind(row, actor);
  requireScopes(scopesFor(row, actor), actor);
  logCaller(context.log, actor);
  if (isWrite(row)) await bounds.beginWrite(actor, call.operation);
  call.whenDone(await bounds.begin(actor, call.request.raw, row.body === 'file'));
  // The client is gone, so there is no one to answer.
  if (call.request.raw.socket.destroyed) throw new ServiceError('VALIDATION_ERROR');
  if (row.limit === 'general') await takeBudget(context, actor, 'general');
  const path = call.pathFor(actor);
  checkPath(path);
  return { ...call, row, actor, path, key: isWrite(row) ? readKey(headers['idempotency-key']) : undefined };
}

/**
 * A body can take two minutes to arrive. Meanwhile, the agent may be removed, or its account suspended, so a caller whose
 * body took longer than this is verified again.
 */
export const ADMITTED_FOR_MS = 250;

async function admitAgain({ context, verify }: Rest, { request }: AdmittedCall): Promise<void> {
  await verify(readBearer(request.headers.authorization), context.settings.addresses.baseUrl);
}

/**
 * New requests are refused while they would have to wait longer than this. Requests that are already waiting get their
 * answer.
 */
const QUEUE_MAX_MS = 1_000;

/** @throws ServiceError 503, while the database is overloaded. */
export function requireShortQueue({ database, meter }: ServiceContext): void {
  if (database.queueMs() <= QUEUE_MAX_MS) return;
  meter.shed();
  throw new ServiceError('INTERNAL_ERROR', 'The service is overloaded. Try again soon.', {
    status: 503,
    retryAfterS: 1,
  });
}

/** The token of an `Authorization: Bearer` header (RFC 6750 §2.1). Tokens anywhere else are ignored. */
export function readBearer(authorization: string | undefined): string {
  const token = BEARER.exec(authorization ?? '')?.[1];
  if (token === undefined) throw new ServiceError('UNAUTHORIZED');
  return token;
}

/** Finds the requests of a caller, or the caller of a request. */
export function logCaller({ debug }: Log, actor: Actor): void {
  if (debug === undefined) return;
  const agent = actor.kind === 'agent' ? { agent_id: actor.agentId } : {};
  debug('authenticated', { account_id: actor.accountId, ...agent });
}

function requireActorKind(row: EndpointRow, actor: Actor): void {
  if (row.actor !== 'either' && row.actor !== actor.kind) throw new ServiceError('FORBIDDEN');
}

function scopesFor(row: EndpointRow, actor: Actor): readonly Scope[] {
  return actor.kind === 'account' && row.actor === 'either' ? (row.accountScopes ?? row.scopes) : row.scopes;
}

export function requireScopes(needed: readonly Scope[], actor: Actor): void {
  if (!needed.every((scope) => actor.scopes.includes(scope))) throw new ServiceError('INSUFFICIENT_SCOPE');
}

/** Takes one call from a budget of the actor, or refuses it (spec: Rate limits). */
export async function takeBudget(context: ServiceContext, actor: Actor, name: RateLimitName): Promise<void> {
  await context.limits.take(name, getSubject(actor));
}

interface AnsweredCall {
  readonly answer: Answer;
  /** The effect did not run now: an earlier request with the same key already ran it. */
  readonly isReplay: boolean;
}

/** What the effect of a call depends on, and its answer. */
type CallToAnswer = Pick<AdmittedCall, 'row' | 'actor' | 'path' | 'present'>;

/** The limit of a row that has its own, counted for its caller; messages are counted once their session is known. */
function findOwnLimit({ row }: Pick<AdmittedCall, 'row'>): RateLimitName | undefined {
  return row.limit !== 'general' && RATE_LIMIT[row.limit].subject === 'agent' ? row.limit : undefined;
}

/**
 * Refuses a request before its body is received if its budget would refuse it in the end. A known key is let through: a
 * replay takes nothing from that budget (D-24).
 */
async function refuseBeforeBody(context: ServiceContext, call: AdmittedCall, key: string): Promise<void> {
  const limit = findOwnLimit(call);
  if (limit === undefined) return;
  try {
    await context.limits.check({ name: limit, subjectId: getSubject(call.actor) });
  } catch (error) {
    if (!(await isKeyKnown(context, { ...toKeyScope(call), key }))) throw error;
  }
}

/** What a call does, with the limits of this run. */
type Effect = (transaction: Transaction, context: ServiceContext) => Promise<unknown>;

/**
 * Runs `effect` unless its key is known. A row's own budget is checked before the effect, so that a caller who has used
 * it up learns nothing about others, and charged after it: a refusal costs nothing (D-44). On PostgreSQL, a write that
 * fails can undo those of others, which then run again: the call is still charged only once.
 */
async function answerOnce(
  context: ServiceContext,
  call: CallToAnswer,
  { key, fingerprint, isDerived }: Pick<KeyedRequest, 'key' | 'fingerprint' | 'isDerived'>,
  effect: Effect,
): Promise<AnsweredCall> {
  const limitsOfRun = chargeOnce(context.limits);
  const beginRun = (): ServiceContext => ({ ...context, limits: limitsOfRun() });
  if (call.row.isFresh === true) {
    const answer = await context.database.write(async (transaction) =>
      answerOfReply(call, await effect(transaction, beginRun())),
    );
    return { answer, isReplay: false };
  }
  const limit = findOwnLimit(call);
  let isReplay = true;
  const request = { ...toKeyScope(call), key, fingerprint, isDerived, holds: listHolds(call) };
  const recorded = await withIdempotency(context, request, async (transaction) => {
    isReplay = false;
    const run = beginRun();
    if (limit !== undefined) await run.limits.check({ name: limit, subjectId: getSubject(call.actor) });
    const reply = await effect(transaction, run);
    if (limit !== undefined) await takeBudget(run, call.actor, limit);
    return answerOfReply(call, reply);
  });
  return { answer: answerWith(recorded.status, JSON_TYPE, recorded.body), isReplay };
}

/** The locks of a message; other writes learn theirs on the way. */
function listHolds({ path, row }: CallToAnswer): readonly string[] | undefined {
  const { session_id: sessionId } = path;
  return row === endpointRow('sendMessage') && sessionId !== undefined ? [sessionLock(sessionId)] : undefined;
}

/** The scope of a key. The endpoint is that of the row, whichever address was used. */
function toKeyScope({ actor, path, row }: CallToAnswer): { readonly actorId: string; readonly endpoint: string } {
  return { actorId: getSubject(actor), endpoint: `${row.method} ${fillPath(row.path, path)}` };
}

function answerOfReply(call: Pick<AdmittedCall, 'row' | 'present'>, reply: unknown): Answer {
  const { row } = call;
  if (row.reply === 'nothing') return answerWith(row.status, JSON_TYPE, '');
  if (row.reply === 'markdown') return answerWith(row.status, 'text/markdown; charset=utf-8', String(reply));
  if (reply instanceof ReplyText) return { ...answerWith(row.status, JSON_TYPE, reply.text), more: reply.more };
  const { body, location } = call.present(reply);
  if (location === undefined) return answerWith(row.status, JSON_TYPE, JSON.stringify(body));
  return answerWith(302, JSON_TYPE, JSON.stringify(body), [['location', location]]);
}

/** JSON whose bytes do not depend on the order of members (RFC 8785 §3.2.3, as far as comparing needs it). */
function canonicalJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  const members = Object.keys(value).sort();
  return `{${members.map((name) => `${JSON.stringify(name)}:${canonicalJson(Reflect.get(value, name))}`).join(',')}}`;
}

/** The identity of a body: its content, whatever the order of members. */
function computeFingerprint(body: unknown): string {
  return hash('sha256', canonicalJson(body), 'hex');
}

/**
 * An upload goes to disk before its transaction, if its budget allows it; one agent has only a few at once, and the
 * others wait with their bodies unread. A file that did not become an attachment is removed again.
 */
async function answerUpload(rest: Rest, call: AdmittedCall): Promise<AnsweredCall> {
  const { context, uploads } = rest;
  const { key, actor, request } = call;
  if (key === undefined) throw new ServiceError('MISSING_IDEMPOTENCY_KEY');
  if (actor.kind !== 'agent') throw new ServiceError('FORBIDDEN');
  readQuery(call.operation, request.url);
  if (!request.isMultipart())
    throw new ServiceError('VALIDATION_ERROR', 'The body must be multipart/form-data.', { status: 415 });
  await refuseBeforeBody(context, call, key);
  return uploads.use(actor.agentId, async () => {
    // If a body broke off before it was read, no event would report its end.
    if (request.raw.destroyed) throw new ServiceError('VALIDATION_ERROR', 'The upload is incomplete.');
    const staged = await receiveUpload(context, request.parts({ limits: UPLOAD_LIMITS }));
    await admitAgain(rest, call).catch(async (error: unknown) => {
      await staged.release();
      throw error;
    });
    return answerStaged(context, { ...call, actor }, key, staged);
  });
}

/** Makes a received file an attachment of the actor, and lets go of it in any case. */
async function answerStaged(
  context: ServiceContext,
  call: CallToAnswer & { readonly actor: AgentActor },
  key: string,
  staged: StagedUpload,
): Promise<AnsweredCall> {
  try {
    return await answerOnce(context, call, { key, fingerprint: staged.fingerprint }, (transaction, run) =>
      HANDLER.uploadAttachment(run, call.actor, staged, transaction),
    );
  } catch (error) {
    // Its row may exist: the sweep finds out.
    if (isOutage(error)) staged.keep();
    throw error;
  } finally {
    await staged.release();
  }
}

/** The writes of an agent that its owner can make on a page, and a model with a tool. */
export type PersonalWrite =
  | 'createSession'
  | 'sendMessage'
  | 'joinSession'
  | 'inviteToSession'
  | 'leaveSession'
  | 'endSession'
  | 'reopenSession'
  | 'addToAllowlist'
  | 'blockAgent';

interface WriteAs<Name extends PersonalWrite> {
  readonly operation: Name;
  readonly path: PathOf<Name>;
  readonly body: unknown;
  readonly key: string;
  /** The key follows from what is written, so a repetition cannot have another one. */
  readonly isKeyDerived?: boolean;
}

/**
 * Makes a write for a person who acts as one of their agents. It has the checks, limits and repetition of the agent's own
 * request; the key belongs to the form.
 */
export async function writeAs<Name extends PersonalWrite>(
  context: ServiceContext,
  actor: AgentActor,
  write: WriteAs<Name>,
): Promise<ReplyOf<Name>> {
  if (endpointRow(write.operation).limit === 'general') await takeBudget(context, actor, 'general');
  return writeCounted(context, actor, write);
}

/** The same for a caller whose request has already cost its call of the general limit. */
export async function writeCounted<Name extends PersonalWrite>(
  context: ServiceContext,
  actor: AgentActor,
  { operation, path, body, key, isKeyDerived: isDerived }: WriteAs<Name>,
): Promise<ReplyOf<Name>> {
  const row: EndpointRow = endpointRow(operation);
  checkPath(path);
  const input = { path, query: {}, body: checkBody(operation, body) };
  const handle: AnyHandler = HANDLER[operation];
  const call = { row, actor, path, present: presentAsItIs };
  const { answer } = await answerOnce(
    context,
    call,
    { key, fingerprint: computeFingerprint(input.body), isDerived },
    (transaction, run) => handle(run, actor as never, input as never, transaction as never),
  );
  return JSON.parse(answer.body);
}

/** The reads of an agent that a model can make with a tool. */
type ToolRead = 'listSessions' | 'getSession' | 'getActingAgent' | 'getAgent' | 'searchAgents';

/** Reads for a caller whose request has already cost its call of the general limit. `query` is what a client passes. */
export async function readCounted<Name extends ToolRead>(
  context: ServiceContext,
  actor: AgentActor,
  read: { readonly operation: Name; readonly path: PathOf<Name>; readonly query: QueryInputOf<Name> },
): Promise<ReplyOf<Name>> {
  const { operation, path } = read;
  checkPath(path);
  const call = { operation, row: endpointRow(operation), actor, path };
  return (await runRead(context, call, checkQuery(operation, read.query))) as ReplyOf<Name>;
}

/** The same as {@link writeAs} for a file that a person attaches. Returns the id of the attachment. */
export async function uploadAs(
  context: ServiceContext,
  actor: AgentActor,
  key: string,
  staged: StagedUpload,
): Promise<ReplyOf<'uploadAttachment'>> {
  const call = { row: endpointRow('uploadAttachment'), actor, path: {}, present: presentAsItIs };
  const { answer } = await answerStaged(context, call, key, staged);
  return JSON.parse(answer.body);
}

/** The reply, as the operation returned it. */
export function presentAsItIs(reply: unknown): PresentedReply {
  return { body: reply };
}

/** The two operations whose bodies may carry the key (wire: Common rules, idempotency). */
const MAY_HAVE_BODY_KEY: ReadonlySet<Operation> = new Set(['createSession', 'sendMessage']);

/**
 * Answers one call: authenticate → actor kind → scope → general limit → path → key → body or query → stored answer, or
 * else handler and record in one transaction. Every request costs one budget (D-44): a row with its own limit costs
 * that limit when it takes effect, and an exhausted general limit does not stop it; everything else, including replays
 * and refusals, costs the general limit. A 429 costs nothing.
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

/**
 * The order of changed sessions comes from inboxes, which follow the log: a caller sees everything that happened
 * before.
 */
const SETTLE: Partial<Record<Operation, (inboxes: Inboxes, subject: string) => Promise<void>>> = {
  getAgent: (inboxes) => inboxes.settle(),
  listAccountSessions: (inboxes, accountId) => inboxes.settleForAccount(accountId),
  listSessions: (inboxes, agentId) => inboxes.settleFor(agentId),
  searchMessages: (inboxes, agentId) => inboxes.settleFor(agentId),
};

function answerAdmitted(rest: Rest, call: AdmittedCall): Promise<AnsweredCall> {
  if (call.row.body === 'file') return answerUpload(rest, call);
  return isWrite(call.row) ? answerWrite(rest, call) : answerRead(rest.context, call);
}

async function answerRead(context: ServiceContext, call: AdmittedCall): Promise<AnsweredCall> {
  const reply = await runRead(context, call, readQuery(call.operation, call.request.url));
  return { answer: answerOfReply(call, reply), isReplay: false };
}

async function runRead(
  context: ServiceContext,
  call: Pick<AdmittedCall, 'operation' | 'row' | 'actor' | 'path'>,
  query: unknown,
): Promise<unknown> {
  const limit = findOwnLimit(call);
  if (limit !== undefined) await takeBudget(context, call.actor, limit);
  const handle: AnyHandler = HANDLER[call.operation];
  const input = { path: call.path, query, body: {} };
  await SETTLE[call.operation]?.(context.inboxes, getSubject(call.actor));
  return await context.database.read((view) => handle(context, call.actor as never, input as never, view as never));
}

async function answerWrite(rest: Rest, call: AdmittedCall): Promise<AnsweredCall> {
  const { context, bounds } = rest;
  const receive = (request: IncomingMessage): Promise<Buffer> => bounds.receive(call.actor, request);
  const admittedMs = context.clock.monotonic();
  const { key, json } = await readKeyAndJson(call, receive);
  if (context.clock.monotonic() - admittedMs > ADMITTED_FOR_MS) await admitAgain(rest, call);
  const query = readQuery(call.operation, call.request.url);
  const body = checkBody(call.operation, json);
  const handle: AnyHandler = HANDLER[call.operation];
  const input = { path: call.path, query, body: withoutKey(body) };
  const request = { key, fingerprint: computeFingerprint(input.body) };
  const answered = await answerOnce(context, call, request, (transaction, run) =>
    handle(run, call.actor as never, input as never, transaction as never),
  );
  bounds.noteAnswer(call.actor, call.operation, answered.answer.body.length);
  return answered;
}

/**
 * A key in the body wins: clients that put their key there may send a fresh one in the header of every attempt. Without
 * any key, the answer does not comment on the body, even if it is malformed (wire: Common rules, idempotency).
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

/** The key in a body is not part of the compared content. */
function withoutKey(body: unknown): unknown {
  if (readBodyKey(body) === undefined) return body;
  const { idempotency_key: _, ...rest } = body as Record<string, unknown>;
  return rest;
}

/** The dependencies of every call. */
export interface Rest {
  readonly context: ServiceContext;
  readonly verify: VerifyToken;
  readonly exchanges: Exchanges;
  readonly bounds: WorkBounds;
  /** For uploads in progress. */
  readonly uploads: Semaphore;
}

export function createRest(parts: Pick<Rest, 'context' | 'verify' | 'exchanges'>): Rest {
  const uploads = createSemaphore({
    max: UPLOADS_PER_AGENT_MAX,
    waitingMax: UPLOADS_WAITING_MAX,
    refusal: 'This agent has too many uploads in progress.',
  });
  return { ...parts, bounds: createWorkBounds(parts.context), uploads };
}
