import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type * as z from 'zod/mini';

import { OPERATOR_ENDPOINT, type OperatorOperation, type OperatorStatus } from '../../wire/local-service.js';
import type { SigningKeys } from '../access-token/signing-keys.js';
import type { ServiceContext } from '../context.js';
import { isFromThisMachine } from '../local-peer.js';
import { readBearer } from '../rest/admit.js';
import { answerWith, JSON_TYPE } from '../rest/error-answer.js';
import { readJsonBody } from '../rest/read-body.js';
import { validate } from '../rest/read-request.js';
import { sendAnswer } from '../rest/send-answer.js';
import { ServiceError } from '../service-error.js';
import { countAll } from '../store/operator-rows.js';
import {
  createInvitation,
  createPasswordLink,
  listOperatorAccounts,
  listOperatorInvitations,
  readOperatorAccount,
  removeOperatorAccount,
  revokeInvitation,
  toOperatorQuota,
  updateOperatorAccount,
} from './accounts.js';
import {
  addOperatorAgent,
  addOperatorClient,
  listOperatorAgents,
  listOperatorClients,
  listOperatorKeys,
  removeOperatorAgent,
  revokeOperatorClient,
  updateOperatorAgent,
} from './operate.js';
import { createSignInLink, type SignInLinkParts } from './sign-in-link.js';

/** Below the service's root. */
export const OPERATOR_PATH = '/operator';

export interface OperatorOptions {
  readonly secret: string;
  readonly keys: SigningKeys;
  readonly signIn: SignInLinkParts;
  readonly status: Pick<OperatorStatus, 'version' | 'pid' | 'started_at'>;
  /** Somebody has asked the service to stop. */
  readonly askToStop: () => void;
}

type Body<Name extends OperatorOperation> = (typeof OPERATOR_ENDPOINT)[Name] extends {
  body: infer Schema extends z.ZodMiniType;
}
  ? z.output<Schema>
  : undefined;
type Reply<Name extends OperatorOperation> = z.output<(typeof OPERATOR_ENDPOINT)[Name]['reply']>;
type Handlers = { [Name in OperatorOperation]: (body: Body<Name>, named: string) => Promise<Reply<Name>> };

/** Mounts the operator endpoints. Peers on other machines, or behind a proxy, find nothing there, whatever they know. */
export function registerOperator(app: FastifyInstance, context: ServiceContext, options: OperatorOptions): void {
  const { settings } = context;
  const handlers: Handlers = {
    readStatus: async () => ({
      ...options.status,
      ...(await context.database.read(countAll)),
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
    createPasswordLink: (_, account) => createPasswordLink(context, account),
    createInvitation: (body) => createInvitation(context, body),
    listInvitations: () => listOperatorInvitations(context),
    revokeInvitation: (_, id) => revokeInvitation(context, id),
    listSigningKeys: async () => ({ keys: await listOperatorKeys(options.keys) }),
    rotateSigningKeys: async () => {
      const rotated = await options.keys.rotateKeys();
      return { rotated, keys: await listOperatorKeys(options.keys) };
    },
    createSignInLink: (body) => createSignInLink(context, options.signIn, body),
    listOperatorClients: () => listOperatorClients(context),
    revokeOperatorClient: (_, clientId) => revokeOperatorClient(context, clientId),
    addOperatorClient: (body) => addOperatorClient(context, body),
  };
  app.register(
    async (scope) => {
      scope.removeAllContentTypeParsers();
      scope.addContentTypeParser('*', (_request, _payload, done) => done(null));
      for (const name of Object.keys(OPERATOR_ENDPOINT) as OperatorOperation[]) {
        const row = OPERATOR_ENDPOINT[name];
        const handle: (body: never, named: string) => Promise<unknown> = handlers[name];
        scope.route({
          method: row.method,
          url: row.path.replace(/\{\w+\}/, ':named'),
          handler: async (request, reply) => {
            requireOperator(request, options.secret);
            const body = 'body' in row ? validate(row.body, await readJsonBody(request.raw)) : undefined;
            const { named = '' } = request.params as { named?: string };
            const answer = await tellOf(context, name, named, () => handle(body as never, named));
            return sendAnswer(reply, answerWith(200, JSON_TYPE, JSON.stringify(answer)));
          },
        });
      }
    },
    { prefix: OPERATOR_PATH },
  );
}

/** Runs what the operator asks for, and tells the security log what changes. */
async function tellOf<Answer>(
  { log }: ServiceContext,
  operation: OperatorOperation,
  target: string,
  work: () => Promise<Answer>,
): Promise<Answer> {
  const tell = (outcome: string): void => {
    if (OPERATOR_ENDPOINT[operation].method === 'GET') return;
    log.security?.('operator_acted', { operation, ...(target !== '' && { target }), outcome });
  };
  try {
    const answer = await work();
    tell('done');
    return answer;
  } catch (error) {
    tell(error instanceof ServiceError ? error.code : 'failed');
    throw error;
  }
}

function requireOperator(request: FastifyRequest, secret: string): void {
  if (!isFromThisMachine(request.raw)) throw new ServiceError('NOT_FOUND');
  const hash = (text: string): Buffer => createHash('sha256').update(text).digest();
  if (!timingSafeEqual(hash(readBearer(request.headers.authorization)), hash(secret)))
    throw new ServiceError('UNAUTHORIZED');
}
