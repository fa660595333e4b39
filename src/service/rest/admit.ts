import type { FastifyRequest } from 'fastify';

import { type EndpointRow, endpointRow, isWrite, type Operation } from '../../wire/endpoint.js';
import type { RateLimitName } from '../../wire/limit.js';
import type { Scope } from '../../wire/scope.js';
import type { Actor, ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import { checkPath, readKey } from './read-request.js';
import type { Rest } from './rest.js';

const BEARER = /^Bearer +([A-Za-z0-9\-._~+/]+=*) *$/i;

/** Verifies an access token for one resource; whatever is wrong with it is UNAUTHORIZED or TOKEN_EXPIRED. */
export type VerifyToken = (token: string, audience: string) => Promise<Actor>;

export interface PresentedReply {
  readonly body: unknown;
  /** Where the answer redirects to. */
  readonly location?: string;
}

/** A request whose route, and so whose operation, is known. */
export interface Call {
  readonly operation: Operation;
  readonly request: FastifyRequest;
  /** The parameters of the row's path for this actor: an alias may leave some of them to the token. */
  pathFor(actor: Actor): Readonly<Record<string, string>>;
  /** The reply in the terms of the address that was used: an alias may say it differently, or redirect. */
  present(reply: unknown): PresentedReply;
  /** Runs `listener` once the answer has gone out whole, or never will. */
  whenDone(listener: () => void): void;
}

/** A call whose caller may make it, before its body is read. */
export interface AdmittedCall extends Call {
  readonly row: EndpointRow;
  readonly actor: Actor;
  readonly path: Readonly<Record<string, string>>;
  readonly key: string | undefined;
}

/** The checks before the body, in the order that tells a stranger least: what exists is asked last. */
export async function admit({ context, verify, bounds }: Rest, call: Call): Promise<AdmittedCall> {
  const row = endpointRow(call.operation);
  const { headers } = call.request;
  const actor = await verify(readBearer(headers.authorization), context.settings.addresses.baseUrl);
  requireActorKind(row, actor);
  requireScopes(scopesFor(row, actor), actor);
  call.whenDone(await bounds.begin(actor, call.request.raw));
  // Nobody is there any more to whom it could be answered.
  if (call.request.raw.socket.destroyed) throw new ServiceError('VALIDATION_ERROR');
  if (row.limit === 'general') await takeBudget(context, actor, 'general');
  const path = call.pathFor(actor);
  checkPath(path);
  return { ...call, row, actor, path, key: isWrite(row) ? readKey(headers['idempotency-key']) : undefined };
}

/** The token of an `Authorization: Bearer` header (RFC 6750 §2.1). No other place is looked at. */
export function readBearer(authorization: string | undefined): string {
  const token = BEARER.exec(authorization ?? '')?.[1];
  if (token === undefined) throw new ServiceError('UNAUTHORIZED');
  return token;
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
  await context.limits.take(name, subjectOf(actor));
}

/** Whose budgets and idempotency keys a call uses: the acting agent, or the account itself. */
export function subjectOf(actor: Actor): string {
  return actor.kind === 'agent' ? actor.agentId : actor.accountId;
}
