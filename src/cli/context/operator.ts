import type * as z from 'zod/mini';
import type { Client } from '../../client/client.js';
import { type FailedRequest, isRefusedConnection, RequestError } from '../../client/http/request-error.js';
import { describeRequest } from '../../client/http/send.js';
import type { HttpRequest } from '../../client/http/transport.js';
import { parseIfJson } from '../../kit/parse-json.js';
import { fillPath } from '../../wire/endpoint.js';
import { ErrorEnvelope } from '../../wire/schemas/base.js';
import type { LocalServiceRecord } from '../../wire/schemas/local-service.js';
import { OPERATOR_ENDPOINT, type OperatorOperation } from '../../wire/schemas/operator.js';
import { localNotRunning } from '../profile/local-service.js';
import type { Context } from './context.js';
import { type ErrorContext, withContext } from './explain.js';

type ReplyOf<Name extends OperatorOperation> = z.output<(typeof OPERATOR_ENDPOINT)[Name]['reply']>;

/** The running local service, or the error that says how to start one. */
export async function requireLocalService(context: Context): Promise<LocalServiceRecord> {
  const record = await context.localService();
  if (record !== undefined) return record;
  throw localNotRunning(await context.endedService());
}

/** The parameters of an operator endpoint. */
export interface OperatorInput {
  readonly path?: Readonly<Record<string, string>>;
  readonly body?: object;
}

function toRequest(
  context: Context,
  record: LocalServiceRecord,
  operation: OperatorOperation,
  input: OperatorInput,
): HttpRequest {
  const { method, path } = OPERATOR_ENDPOINT[operation];
  return {
    method,
    url: `${record.operator_url}${fillPath(path, input.path ?? {})}`,
    headers: {
      authorization: `Bearer ${record.secret}`,
      ...(input.body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    body: input.body === undefined ? undefined : JSON.stringify(input.body),
    signal: context.signal,
  };
}

const refuseUnlessRunning = (record: LocalServiceRecord) => (error: unknown) =>
  Promise.reject(isRefusedConnection(error) ? localNotRunning(record) : error);

/** The answer of an operator endpoint as it arrives, for one that may be larger than memory. */
export async function openOperator(
  context: Context,
  record: LocalServiceRecord,
  operation: OperatorOperation,
  input: OperatorInput = {},
): Promise<AsyncIterable<Uint8Array>> {
  const transport = await context.transport();
  const sent = toRequest(context, record, operation, input);
  const answer = await transport.open(sent).catch(refuseUnlessRunning(record));
  if (answer.status < 300) return answer.body;
  const chunks: Uint8Array[] = [];
  for await (const chunk of answer.body) chunks.push(chunk);
  const document = parseIfJson(Buffer.concat(chunks).toString('utf8'));
  throw refusal(document, answer.status, describeRequest(sent), OPERATOR_ENDPOINT[operation].path);
}

/** One operator endpoint of the running local service. */
export async function callOperator<Name extends OperatorOperation>(
  context: Context,
  record: LocalServiceRecord,
  operation: Name,
  input: OperatorInput = {},
): Promise<ReplyOf<Name>> {
  const { method, path, reply } = OPERATOR_ENDPOINT[operation];
  const transport = await context.transport();
  const sent = toRequest(context, record, operation, input);
  const answer = await transport.send(sent).catch(refuseUnlessRunning(record));
  const document = parseIfJson(answer.body.toString('utf8'));
  const { status } = answer;
  const request = describeRequest(sent);
  if (status >= 300) throw refusal(document, status, request, path);
  const parsed = reply.safeParse(document);
  if (parsed.success) return parsed.data as ReplyOf<Name>;
  const message = `Could not parse the local service's answer (status ${status}). Is it a different version?`;
  const outcome = method === 'GET' ? 'not_applied' : 'applied';
  throw new RequestError({ code: 'ASP_BAD_ANSWER', message, status, outcome, attempts: 1, request });
}

/** A client of the local service that acts as one of its agents, with credentials of its own. A new agent is added. */
export async function connectAsLocal(
  context: Context,
  record: LocalServiceRecord,
  handle: string,
): Promise<{ readonly client: Client; readonly clientId: string }> {
  const { client_id: clientId, client_secret: clientSecret } = await callOperator(
    context,
    record,
    'addOperatorClient',
    {
      body: { handle },
    },
  );
  const { connect } = await import('../../client/client.js');
  const { createClientCredential } = await import('../../client/credentials/credential.js');
  const over = { transport: await context.transport(), random: context.random };
  const service = { baseUrl: record.url, authUrl: record.auth_url, wsUrl: record.ws_url };
  const credential = createClientCredential({ ...over, service, clientId, clientSecret });
  return { client: connect({ ...over, service, credential }), clientId };
}

/** The service's own code decides the exit code, as for every other endpoint. */
function refusal(document: unknown, status: number, request: FailedRequest, operationPath: string): Error {
  const { data } = ErrorEnvelope.safeParse(document);
  const code = data?.error.code ?? (status >= 500 ? 'INTERNAL_ERROR' : 'ASP_BAD_ANSWER');
  const message = `The local service refused: ${data?.error.message ?? `status ${status}`}`;
  const outcome = request.method !== 'GET' && status >= 500 ? 'unknown' : 'not_applied';
  const error = new RequestError({ code, message, status, outcome, attempts: 1, request });
  const [, kind = ''] = operationPath.split('/');
  return withContext(error, NO_SUCH[kind] ?? NO_SUCH_AGENT);
}

const UNKNOWN = 'The local service has no such agent.';
const LIST = ['asp', 'serve', 'agent', 'list'];
const NO_SUCH_AGENT: ErrorContext = {
  messages: { AGENT_NOT_FOUND: UNKNOWN, NOT_FOUND: UNKNOWN },
  reasons: { DUPLICATE_HANDLE: 'a handle is never used again, even after its agent is gone.' },
  next: { AGENT_NOT_FOUND: LIST, NOT_FOUND: LIST, DUPLICATE_HANDLE: LIST },
};

/** By the beginning of the operation's path. */
const NO_SUCH: Readonly<Record<string, ErrorContext>> = {
  accounts: {
    messages: { NOT_FOUND: 'The local service has no such account.' },
    next: { NOT_FOUND: ['asp', 'serve', 'account', 'list'] },
  },
  invitations: {
    messages: { NOT_FOUND: 'The local service has no such invitation.' },
    next: { NOT_FOUND: ['asp', 'serve', 'invite', 'list'] },
  },
  clients: {
    messages: { NOT_FOUND: 'The local service has no such client.' },
    next: { NOT_FOUND: ['asp', 'serve', 'client', 'list'] },
  },
};
