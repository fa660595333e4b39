import type * as z from 'zod/mini';
import type { Client } from '../../client/client.js';
import { type FailedRequest, isRefusedConnection, RequestError } from '../../client/http/request-error.js';
import { describeRequest } from '../../client/http/send.js';
import type { HttpRequest } from '../../client/http/transport.js';
import { messageOf } from '../../kit/format.js';
import { parseIfJson } from '../../kit/parse-json.js';
import { fillPath } from '../../wire/endpoint.js';
import { ErrorEnvelope } from '../../wire/schemas/base.js';
import type { LocalServiceRecord } from '../../wire/schemas/local-service.js';
import { OPERATOR_ENDPOINT, OPERATOR_PATH, type OperatorOperation } from '../../wire/schemas/operator.js';
import { CliError, usageError } from '../errors.js';
import { findServiceAt, localNotReached, localNotRunning } from '../profile/local-service.js';
import type { Context } from './context.js';
import { type ErrorContext, ifNotFound, withContext } from './explain.js';
import { findLocalLogin } from './stopped-service.js';

type ReplyOf<Name extends OperatorOperation> = z.output<(typeof OPERATOR_ENDPOINT)[Name]['reply']>;

/**
 * The running local service that the profile names, or else the latest one; undefined if none runs. An option that names
 * another one is an error: the command must not act somewhere else.
 */
export async function findChosenService(context: Context): Promise<LocalServiceRecord | undefined> {
  const isNamed = Boolean(context.globals.profile);
  const profile = await context.profile().catch((error: unknown) => {
    if (isNamed) throw error;
  });
  if (profile === undefined) return context.localService();
  const record = profile.local ?? (await findServiceAt(context.paths, context.machine, profile.baseUrl));
  if (record !== undefined || !isNamed) return record ?? context.localService();
  const login = await findLocalLogin(context, profile.baseUrl);
  throw new CliError('ASP_LOCAL_NOT_RUNNING', {
    message: `No local service of yours is running at ${profile.baseUrl}.`,
    next: login?.localStart,
    isRetryable: true,
  });
}

/** The chosen local service, or the error that says how to start one. */
export async function requireLocalService(context: Context): Promise<LocalServiceRecord> {
  const record = await findChosenService(context);
  if (record !== undefined) return record;
  throw localNotRunning(await context.endedService());
}

/** A service on another machine, where an operator acts with a token. */
interface RemoteService {
  readonly operator_url: string;
  readonly secret: string;
}

/** Where an operator acts, and with which secret. */
export type OperatorAccess = LocalServiceRecord | RemoteService;

export const isLocal = (access: OperatorAccess): access is LocalServiceRecord => 'pid' in access;

/** The service of `--operator`, or else the running local one. */
export async function findOperatorAccess(context: Context): Promise<OperatorAccess> {
  const { operator, operatorTokenFile } = context.globals;
  if (operator !== undefined) return openRemote(context, operator);
  if (operatorTokenFile !== undefined) throw usageError('--operator-token-file needs --operator.');
  return requireLocalService(context);
}

async function openRemote({ environment, globals }: Context, text: string): Promise<RemoteService> {
  const { readServiceUrl } = await import('../profile/config.js');
  const { readSecretFile } = await import('./client-secret.js');
  let url: string;
  try {
    url = readServiceUrl(text);
  } catch (error) {
    throw usageError(`--operator '${text}' ${messageOf(error)}.`);
  }
  const path = globals.operatorTokenFile;
  const secret =
    path === undefined
      ? environment['ASP_OPERATOR_TOKEN']
      : readSecretFile(path, { name: '--operator-token-file', code: 'ASP_USAGE' });
  if (!secret)
    throw usageError('--operator needs your token.', {
      why: 'name its file with --operator-token-file, or set ASP_OPERATOR_TOKEN.',
    });
  if (!/^[\x21-\x7e]+$/.test(secret))
    throw usageError('The token of the operator is not one word of ASCII characters.');
  return { operator_url: `${url}${OPERATOR_PATH}`, secret };
}

/** The parameters of an operator endpoint. */
export interface OperatorInput {
  readonly path?: Readonly<Record<string, string>>;
  readonly body?: object;
}

function toRequest(
  context: Context,
  access: OperatorAccess,
  operation: OperatorOperation,
  input: OperatorInput,
): HttpRequest {
  const { method, path } = OPERATOR_ENDPOINT[operation];
  return {
    method,
    url: `${access.operator_url}${fillPath(path, input.path ?? {})}`,
    headers: {
      authorization: `Bearer ${access.secret}`,
      ...(input.body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    body: input.body === undefined ? undefined : JSON.stringify(input.body),
    signal: context.signal,
  };
}

const refuseUnlessRunning = (access: OperatorAccess) => (error: unknown) =>
  Promise.reject(isLocal(access) && isRefusedConnection(error) ? localNotReached(access) : error);

const nameOf = (access: OperatorAccess): string =>
  isLocal(access) ? 'The local service' : `The service at ${new URL(access.operator_url).origin}`;

/** The answer of an operator endpoint as it arrives, for one that may be larger than memory. */
export async function openOperator(
  context: Context,
  access: OperatorAccess,
  operation: OperatorOperation,
  input: OperatorInput = {},
): Promise<AsyncIterable<Uint8Array>> {
  const transport = await context.transport();
  const sent = toRequest(context, access, operation, input);
  const answer = await transport.open(sent).catch(refuseUnlessRunning(access));
  if (answer.status < 300) return answer.body;
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body) chunks.push(chunk);
  const document = parseIfJson(Buffer.concat(chunks).toString('utf8'));
  throw refusal(context, access, operation, { document, status: answer.status, request: describeRequest(sent) });
}

/** Calls one operator endpoint. */
export async function callOperator<Name extends OperatorOperation>(
  context: Context,
  access: OperatorAccess,
  operation: Name,
  input: OperatorInput = {},
): Promise<ReplyOf<Name>> {
  const { method, reply } = OPERATOR_ENDPOINT[operation];
  const transport = await context.transport();
  const sent = toRequest(context, access, operation, input);
  const answer = await transport.send(sent).catch(refuseUnlessRunning(access));
  const document = parseIfJson(answer.body.toString('utf8'));
  const { status } = answer;
  const request = describeRequest(sent);
  if (status >= 300) throw refusal(context, access, operation, { document, status, request });
  const parsed = reply.safeParse(document);
  if (parsed.success) return parsed.data as ReplyOf<Name>;
  const message = `${nameOf(access)} sent an answer that asp cannot parse (status ${status}). Is it a different version?`;
  const outcome = method === 'GET' ? 'not_applied' : 'applied';
  throw new RequestError({ code: 'ASP_BAD_ANSWER', message, status, outcome, attempts: 1, request });
}

/** A client of the local service that acts as one of its agents, with credentials of its own. A new agent is added. */
export async function connectAsLocal(
  context: Context,
  record: LocalServiceRecord,
  handle: string,
): Promise<{ readonly client: Client; readonly clientId: string }> {
  const added = await callOperator(context, record, 'addOperatorClient', { body: { handle } });
  const { client_id: clientId, client_secret: clientSecret } = added;
  const { connect } = await import('../../client/client.js');
  const { createClientCredential } = await import('../../client/credentials/credential.js');
  const over = { transport: await context.transport(), random: context.random };
  const service = { baseUrl: record.url, authUrl: record.auth_url, wsUrl: record.ws_url };
  const credential = createClientCredential({ ...over, service, clientId, clientSecret });
  return { client: connect({ ...over, service, credential }), clientId };
}

/** The service's own code decides the exit code, as for every other endpoint. */
function refusal(
  { globals }: Context,
  access: OperatorAccess,
  operation: OperatorOperation,
  {
    document,
    status,
    request,
  }: { readonly document: unknown; readonly status: number; readonly request: FailedRequest },
): Error {
  const { data } = ErrorEnvelope.safeParse(document);
  const code = data?.error.code ?? (status >= 500 ? 'INTERNAL_ERROR' : 'ASP_BAD_ANSWER');
  const message = `${nameOf(access)} refused: ${data?.error.message ?? `status ${status}`}`;
  const outcome = request.method !== 'GET' && status >= 500 ? 'unknown' : 'not_applied';
  const error = new RequestError({ code, message, status, outcome, attempts: 1, request });
  const { path } = OPERATOR_ENDPOINT[operation];
  // Where a path names nothing, only the address can be wrong.
  if (code === 'NOT_FOUND' && !isLocal(access) && !path.includes('{'))
    return withContext(error, explainAddress(access));
  const [, kind = ''] = path.split('/');
  return withContext(
    error,
    explainRefusal(access, NOUN[kind] ?? 'agent', globals.operatorTokenFile ?? 'ASP_OPERATOR_TOKEN'),
  );
}

const explainAddress = ({ operator_url: url }: RemoteService): ErrorContext =>
  ifNotFound(
    `Operators are not served at ${new URL(url).origin}.`,
    ['asp', 'serve', 'status', '--help'],
    '--operator needs the address of asp serve --operator-port, which is not that of the service.',
  );

/** By the beginning of the operation's path; the others are about agents. */
const NOUN: Readonly<Record<string, string>> = { accounts: 'account', invitations: 'invite', clients: 'client' };

/** `tokenFrom`: the file or the variable with the token of an operator on another machine. */
function explainRefusal(access: OperatorAccess, noun: string, tokenFrom: string): ErrorContext {
  const service = nameOf(access);
  const none = `${service} has no such ${noun === 'invite' ? 'invitation' : noun}.`;
  const there = isLocal(access) ? [] : ['--operator', access.operator_url.slice(0, -OPERATOR_PATH.length)];
  const list = ['asp', 'serve', noun, 'list', ...there];
  const remote = isLocal(access)
    ? undefined
    : {
        message: { UNAUTHORIZED: `${service} does not accept this token.` },
        reason: {
          UNAUTHORIZED: `it came from ${tokenFrom}. The service accepts those that were in the file of its --operator-token-file when it started.`,
        },
        next: { UNAUTHORIZED: [] },
      };
  return {
    messages: { AGENT_NOT_FOUND: none, NOT_FOUND: none, ...remote?.message },
    reasons: { DUPLICATE_HANDLE: 'a handle is never used again, even after its agent is gone.', ...remote?.reason },
    next: { AGENT_NOT_FOUND: list, NOT_FOUND: list, DUPLICATE_HANDLE: list, ...remote?.next },
  };
}
