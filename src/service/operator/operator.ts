import type { RequestListener } from 'node:http';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type * as z from 'zod/mini';
import { messageOf } from '../../kit/format.js';
import { isLoopbackHost } from '../../kit/loopback.js';
import { isSameSecret } from '../../kit/same-secret.js';
import { isHandle } from '../../wire/handle.js';
import {
  type AddOperatorAgentRequest,
  type AddOperatorClientRequest,
  LOCAL_OPERATIONS,
  OPERATOR_ENDPOINT,
  OPERATOR_PATH,
  type OperatorAgent,
  type OperatorClient,
  type OperatorClientSummary,
  type OperatorOperation,
  type OperatorStatus,
  type UpdateOperatorAgentRequest,
} from '../../wire/schemas/operator.js';
import { AGENT_SCOPES, isAccountScope } from '../../wire/scope.js';
import { changeAgent } from '../agents/agents.js';
import type { ServiceContext } from '../core/context.js';
import type { Transaction } from '../core/database.js';
import { isOutage, ServiceError } from '../core/errors.js';
import { answerWith, JSON_TYPE, sendAnswer } from '../http/answers.js';
import {
  createApp,
  createHostGuard,
  createHttpServer,
  endServer,
  type HostGuard,
  isFromThisMachine,
  listen,
  loopbackNames,
  toOrigin,
} from '../http/app.js';
import type { ServerCertificate } from '../http/certificate.js';
import { readBearer } from '../http/pipeline.js';
import { readJsonBody, validate } from '../http/request.js';
import { removeAgentRecord } from '../messaging/remove-agent.js';
import type { SigningKeys } from '../oauth/access-tokens.js';
import { createAttempts, toNetwork } from '../oauth/attempts.js';
import { createConfidentialClient, revokeConfidentialClient } from '../oauth/clients.js';
import { type AgentRecordRow, findAgentByHandle } from '../store/agents.js';
import { agentLock } from '../store/lock-names.js';
import { findOAuthClient } from '../store/oauth-clients.js';
import { countAll, listAllAgents, listClientsOfAgents, type OperatorAgentRow } from '../store/operator.js';
import {
  createInvitation,
  createPasswordLink,
  createSignInLink,
  eraseOperatorAccount,
  exportOperatorAccount,
  listOperatorAccounts,
  listOperatorInvitations,
  readOperatorAccount,
  removeOperatorAccount,
  revokeInvitation,
  type SignInLinkParts,
  toOperatorQuota,
  updateOperatorAccount,
} from './accounts.js';
import { type ActingOperator, actAsOperator, logOperatorAction, type OperatorAction } from './actions.js';
import { addLocalAgent, putLocalAgent } from './local-agent.js';
import { advanceClock, type Connections, type Rehearsal, triggerEvent } from './rehearsal.js';
import { readRetention } from './retention.js';
import { nameAfter, type StreamedAnswer, streamList } from './streamed.js';

/** The operator's actions on a local service, beyond the specification. */

function listOperatorAgents(context: ServiceContext): Promise<StreamedAnswer<{ agents: OperatorAgent[] }>> {
  return streamList(context, 'agents', async (query, after, limit) => {
    const rows = await listAllAgents(query, after, limit);
    return { items: rows.map(toOperatorAgent), next: nameAfter(rows, ({ handle }) => handle) };
  });
}

async function addOperatorAgent(context: ServiceContext, body: AddOperatorAgentRequest): Promise<OperatorAgent> {
  const row = await context.database.write((transaction) =>
    addLocalAgent(context, transaction, {
      handle: body.handle,
      inboundPolicy: body.inbound_policy,
      displayName: body.display_name,
    }),
  );
  return toOperatorAgent({ ...row, is_online: 0 });
}

export async function updateOperatorAgent(
  context: ServiceContext,
  handle: string,
  body: z.infer<typeof UpdateOperatorAgentRequest>,
): Promise<OperatorAgent> {
  const changed = await context.database.write(async (transaction) =>
    changeAgent(context, transaction, await holdByHandle(transaction, handle), body),
  );
  return toOperatorAgent(changed);
}

async function removeOperatorAgent(context: ServiceContext, handle: string): Promise<{ ok: true }> {
  await context.database.write(async (transaction) =>
    removeAgentRecord(context, transaction, await holdByHandle(transaction, handle)),
  );
  return { ok: true };
}

/** A client bound to one agent, which is added if it is new. Its secret is returned only this once. */
async function addOperatorClient(
  context: ServiceContext,
  { handle, scopes = [...AGENT_SCOPES] }: AddOperatorClientRequest,
): Promise<OperatorClient> {
  if (scopes.length === 0 || scopes.some(isAccountScope))
    throw new ServiceError('VALIDATION_ERROR', 'A client that acts as an agent needs agent scopes, and no others.');
  return await context.database.write(async (transaction) => {
    const { row, isNew } = await putLocalAgent(context, transaction, { handle });
    const client = await createConfidentialClient(context, transaction, {
      name: `${row.handle} (added by the operator)`,
      accountId: row.account_id,
      agentId: row.id,
      scopes,
    });
    return {
      client_id: client.clientId,
      client_secret: client.clientSecret,
      handle: row.handle,
      scope: scopes.join(' '),
      created_agent: isNew,
    };
  });
}

function listOperatorClients(context: ServiceContext): Promise<StreamedAnswer<{ clients: OperatorClientSummary[] }>> {
  return streamList(context, 'clients', async (query, after, limit) => {
    const agents = await listAllAgents(query, after, limit);
    const through = agents.at(-1)?.handle;
    const rows = through === undefined ? [] : await listClientsOfAgents(query, after, through);
    return { items: rows.map(toClientSummary), next: nameAfter(agents, ({ handle }) => handle) };
  });
}

type ClientRow = Awaited<ReturnType<typeof listClientsOfAgents>>[number];

function toClientSummary({ id, handle, name, scope, created_at, last_used_at }: ClientRow): OperatorClientSummary {
  return { client_id: id, handle, name, scope, created_at, last_used_at };
}

/** From now on the secret gets no tokens, and the sockets of the client close. */
export async function revokeOperatorClient(context: ServiceContext, clientId: string): Promise<{ ok: true }> {
  const isRevoked = await context.database.write(async (transaction) => {
    const client = await findOAuthClient(transaction, clientId);
    return client?.kind === 'confidential' && revokeConfidentialClient(context, transaction, clientId);
  });
  if (!isRevoked) throw new ServiceError('NOT_FOUND');
  return { ok: true };
}

type State = Pick<OperatorStatus, 'not_ready' | 'accounts' | 'agents' | 'sessions' | 'sockets'>;

/** Without the database, there is still something to say. */
async function readState(context: ServiceContext, { health }: OperatorOptions): Promise<State> {
  const fault = await health.findFault();
  try {
    const counts = await context.database.read(countAll);
    return { not_ready: describeFault(fault), ...counts };
  } catch (error) {
    if (!isOutage(error)) throw error;
    return { not_ready: describeFault(fault ?? error), accounts: null, agents: null, sessions: null, sockets: null };
  }
}

/** In one line, with what caused it. */
function describeFault(fault: unknown): string | null {
  if (fault === undefined) return null;
  const cause = fault instanceof Error && fault.cause !== undefined ? ` ${describeFault(fault.cause)}` : '';
  return `${messageOf(fault)}${cause}`;
}

async function holdByHandle(transaction: Transaction, handle: string): Promise<AgentRecordRow> {
  if (!isHandle(handle)) throw new ServiceError('INVALID_HANDLE');
  await transaction.lock([agentLock(handle)]);
  const row = await findAgentByHandle(transaction, handle);
  if (row === undefined) throw new ServiceError('AGENT_NOT_FOUND');
  return row;
}

function toOperatorAgent(row: OperatorAgentRow): OperatorAgent {
  return {
    handle: row.handle,
    inbound_policy: row.inbound_policy,
    paused: row.is_paused === 1,
    is_online: row.is_online === 1,
    created_at: row.created_at,
  };
}

export interface OperatorOptions {
  readonly secret: string;
  readonly keys: SigningKeys;
  readonly signIn: SignInLinkParts;
  readonly status: Pick<OperatorStatus, 'version' | 'pid' | 'started_at'>;
  readonly health: { findFault(): Promise<unknown> };
  readonly rehearsal: Rehearsal;
  readonly connections: Connections;
  /** The operator has asked the service to stop. */
  readonly askToStop: () => void;
}

type Body<Name extends OperatorOperation> = (typeof OPERATOR_ENDPOINT)[Name] extends {
  body: infer Schema extends z.ZodMiniType;
}
  ? z.output<Schema>
  : undefined;
type Reply<Name extends OperatorOperation> = z.output<(typeof OPERATOR_ENDPOINT)[Name]['reply']>;
type Handlers = {
  [Name in OperatorOperation]: (body: Body<Name>, named: string) => Promise<Reply<Name> | StreamedAnswer<Reply<Name>>>;
};

/** Who may call which endpoints. */
interface Admission {
  /** Throws unless the request comes from an operator. */
  admit(request: FastifyRequest): ActingOperator;
  readonly offers: (operation: OperatorOperation) => boolean;
}

/** Mounts the operator endpoints that `admission` offers. */
function registerOperator(
  app: FastifyInstance,
  context: ServiceContext,
  options: OperatorOptions,
  { admit, offers }: Admission,
): void {
  const { settings } = context;
  const handlers: Handlers = {
    readStatus: async () => ({
      ...options.status,
      ...(await readState(context, options)),
      sign_up: settings.accountPolicy.signUp,
      quota: settings.areLimitsOn ? toOperatorQuota(settings.accountPolicy.quota) : null,
    }),
    stopService: async () => {
      options.askToStop();
      return { ok: true };
    },
    listOperatorAgents: () => listOperatorAgents(context),
    addOperatorAgent: (body) => addOperatorAgent(context, body),
    updateOperatorAgent: (body, handle) => updateOperatorAgent(context, handle, body),
    removeOperatorAgent: (_, handle) => removeOperatorAgent(context, handle),
    listOperatorAccounts: () => listOperatorAccounts(context),
    readOperatorAccount: (_, account) => readOperatorAccount(context, account),
    updateOperatorAccount: (body, account) => updateOperatorAccount(context, account, body),
    removeOperatorAccount: (_, account) => removeOperatorAccount(context, account),
    eraseOperatorAccount: (_, account) => eraseOperatorAccount(context, account),
    exportOperatorAccount: (_, account) => exportOperatorAccount(context, account),
    createPasswordLink: (_, account) => createPasswordLink(context, account),
    createInvitation: (body) => createInvitation(context, body),
    listInvitations: () => listOperatorInvitations(context),
    revokeInvitation: (_, id) => revokeInvitation(context, id),
    readRetention: (_, age) => readRetention(context, age),
    listSigningKeys: async () => ({ keys: await options.keys.listKeys() }),
    rotateSigningKeys: async () => {
      const rotated = await options.keys.rotateKeys();
      return { rotated, keys: await options.keys.listKeys() };
    },
    createSignInLink: (body) => createSignInLink(context, options.signIn, body),
    listOperatorClients: () => listOperatorClients(context),
    revokeOperatorClient: (_, clientId) => revokeOperatorClient(context, clientId),
    advanceClock: async ({ by_ms: ms }) => advanceClock(options.rehearsal, ms),
    triggerEvent: (body) => triggerEvent(context, options.rehearsal, options.connections, body),
    addOperatorClient: (body) => addOperatorClient(context, body),
  };
  app.register(
    async (scope) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
      for (const name of (Object.keys(OPERATOR_ENDPOINT) as OperatorOperation[]).filter(offers)) {
        const row = OPERATOR_ENDPOINT[name];
        const handle: (body: never, named: string) => Promise<unknown> = handlers[name];
        scope.route({
          method: row.method,
          url: row.path.replace(/\{\w+\}/, ':named'),
          handler: async (request, reply) => {
            const operator = admit(request);
            const body = 'body' in row ? validate(row.body, await readJsonBody(request.raw)) : undefined;
            const { named = '' } = request.params as { named?: string };
            const action = { operation: name, target: named, changes: body ?? {} };
            const answer = await report(context, operator, action, () => handle(body as never, named));
            if (isStreamed(answer))
              return sendAnswer(reply, { ...answerWith(200, JSON_TYPE, ''), more: answer.texts }, context.log);
            return sendAnswer(reply, answerWith(200, JSON_TYPE, JSON.stringify(answer)), context.log);
          },
        });
      }
    },
    { prefix: OPERATOR_PATH },
  );
}

function isStreamed(answer: unknown): answer is StreamedAnswer<unknown> {
  return typeof answer === 'object' && answer !== null && 'texts' in answer;
}

/** Runs a request of the command line, and records changes. */
async function report<Answer>(
  context: ServiceContext,
  operator: ActingOperator,
  { operation, target, changes }: Required<OperatorAction> & { readonly operation: OperatorOperation },
  work: () => Promise<Answer>,
): Promise<Answer> {
  if (OPERATOR_ENDPOINT[operation].method === 'GET') return work();
  if (operation !== 'stopService') return actAsOperator(context, operator, { operation, target, changes }, work);
  // It must work when the database does not.
  logOperatorAction(context.log, { operation, target, outcome: 'done' });
  return work();
}

/** Peers on other machines, or behind a proxy, get 404, even with the secret. */
function admitLocal(secret: string): Admission {
  return {
    offers: () => true,
    admit(request) {
      if (!isFromThisMachine(request.raw)) throw new ServiceError('NOT_FOUND');
      if (!isSameSecret(readBearer(request.headers.authorization), secret)) throw new ServiceError('UNAUTHORIZED');
      return {};
    },
  };
}

/** A token with which an operator acts from another machine. */
interface OperatorToken {
  /** Names its holder in the log of actions; may be empty. */
  readonly name: string;
  readonly token: string;
}

/** From one network. Afterwards the right token has to wait too, so that an answer says nothing about a guess. */
const WRONG_TOKENS = { count: 20, windowMs: 60_000 };

function admitTokens({ clock, log, meter }: ServiceContext, tokens: readonly OperatorToken[]): Admission {
  const wrong = createAttempts(clock, WRONG_TOKENS);
  return {
    offers: (operation) => !LOCAL_OPERATIONS.has(operation),
    admit({ ip, headers }) {
      const waitS = wrong.waitS(toNetwork(ip));
      if (waitS > 0) throw new ServiceError('RATE_LIMITED', undefined, { retryAfterS: waitS });
      const received = readBearer(headers.authorization);
      // All are compared, so that the time does not tell which one it resembles.
      const [known] = tokens.filter(({ token }) => isSameSecret(received, token));
      if (known !== undefined) return { token: known.name, address: ip };
      wrong.add(toNetwork(ip));
      meter.signInFailed();
      log.security?.('operator_refused', { address: ip, outcome: 'wrong_token' });
      throw new ServiceError('UNAUTHORIZED');
    },
  };
}

const HOST = '127.0.0.1';

export interface OperatorServer {
  /** The operator's endpoints are below this address. */
  readonly url: string;
  close(): Promise<void>;
}

interface Offer {
  /** The service's own address for this machine; undefined if there is none. */
  readonly root: string | undefined;
  readonly options: OperatorOptions;
  /** Mounts what a separate address offers to programs on this machine besides. */
  readonly registerMore?: (app: FastifyInstance) => void;
}

/**
 * Mounts the operator's endpoints on the service's own address if that shows which callers are local, otherwise on a
 * separate one.
 */
export async function offerOperator(
  app: FastifyInstance,
  context: ServiceContext,
  { root, options, registerMore }: Offer,
): Promise<OperatorServer> {
  const admission = admitLocal(options.secret);
  if (root === undefined) {
    const guard = (port: number, url: string): HostGuard => createHostGuard(loopbackNames(port, url));
    return serveOperator(context, options, {
      ...{ host: HOST, port: 0, guard, isBehindProxy: false },
      ...{ admission, registerMore },
    });
  }
  registerOperator(app, context, options, admission);
  return { url: `${root}${OPERATOR_PATH}`, close: async () => {} };
}

/** The address where operators with a token are served. */
export interface RemoteOperators {
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
  readonly tokens: readonly OperatorToken[];
}

/**
 * The operator's endpoints for other machines, on a separate port. On an address that others reach, it speaks TLS if there
 * is a certificate. Any Host is accepted, so that a tunnel may lead here: a page that a browser shows has no token.
 */
export function offerRemoteOperator(
  context: ServiceContext,
  { host, port, tokens, certificate }: RemoteOperators & { readonly certificate: ServerCertificate | undefined },
  options: OperatorOptions,
): Promise<OperatorServer> {
  return serveOperator(context, options, {
    host,
    port,
    guard: () => createHostGuard(undefined),
    certificate: isLoopbackHost(host) ? undefined : certificate,
    isBehindProxy: context.settings.isBehindProxy,
    admission: admitTokens(context, tokens),
  });
}

interface SeparateServer {
  readonly host: string;
  readonly port: number;
  readonly guard: (port: number, url: string) => HostGuard;
  readonly certificate?: ServerCertificate | undefined;
  readonly isBehindProxy: boolean;
  readonly admission: Admission;
  readonly registerMore?: Offer['registerMore'];
}

async function serveOperator(
  context: ServiceContext,
  options: OperatorOptions,
  { host, port: wanted, guard, certificate, isBehindProxy, admission, registerMore }: SeparateServer,
): Promise<OperatorServer> {
  let listener: RequestListener = (_request, response) => response.writeHead(503).end();
  const server = createHttpServer((request, response) => listener(request, response), certificate);
  const port = await listen(server, host, wanted);
  const root = toOrigin(host, port, certificate !== undefined);
  const app = createApp({
    server,
    useListener: (next) => {
      listener = next;
    },
    host,
    guardHost: guard(port, root),
    isBehindProxy,
    clock: context.clock,
    random: context.random,
    tracer: context.tracer,
    isFollowed: () => true,
    log: context.log,
    meter: context.meter,
  });
  registerOperator(app.fastify, context, options, admission);
  registerMore?.(app.fastify);
  await app.fastify.ready();
  return {
    url: `${root}${OPERATOR_PATH}`,
    async close() {
      await endServer(server);
      await app.fastify.close();
    },
  };
}
