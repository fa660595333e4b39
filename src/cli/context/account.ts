import type { CallInput, CallResult, Client } from '../../client/client.js';
import type { Operation } from '../../wire/endpoint.js';
import type { AnswerOf } from '../../wire/schemas/endpoint.js';
import { CliError } from '../errors.js';
import { listRunningServices } from '../profile/local-service.js';
import { credentialKind } from './build-credential.js';
import { chosenKey, locate } from './calls.js';
import type { Context } from './context.js';
import { openClient } from './create-context.js';
import { type ErrorContext, explain } from './explain.js';
import { createLoginContext } from './login-store.js';

/** Operations that the account itself performs, not one of its agents. */
export type AccountOperation = Extract<
  Operation,
  | 'createAgent'
  | 'updateAgent'
  | 'removeAgent'
  | 'listAgents'
  | 'getAgent'
  | 'listAccountSessions'
  | 'getWebhook'
  | 'setWebhook'
  | 'removeWebhook'
>;

/** The name from which a stable key of the account is made. */
export const ACCOUNT_ACTOR = 'account';

/**
 * Talks to the service as the account: with a token from the environment, or else with the account's own login. A
 * client of one agent, and a program that prints tokens of agents, cannot do this.
 */
async function openAccountClient(context: Context, accountScopes: readonly string[]): Promise<Client> {
  const profile = await context.profile();
  const kind = credentialKind(context.environment, profile);
  if (kind === 'token') return context.client();
  const key = { baseUrl: profile.baseUrl, handle: null };
  const login = await (await context.logins()).find(key);
  if (login === undefined)
    throw new CliError('ASP_NO_CREDENTIAL', {
      message: `The account is not signed in at ${profile.baseUrl}, and an agent may not act for its account.`,
      why: `an account has its own login (${accountScopes.join(' ')})${kind === 'client' ? '; ASP_CLIENT_ID acts as one agent' : ''}.`,
      next: await loginCommand(context),
    });
  const { createLoginCredential } = await import('../../client/credentials/login-credential.js');
  const credential = createLoginCredential(await createLoginContext(context), key);
  return openClient({ ...context, credential: async () => credential });
}

/** How the help of commands that call as the account says so. */
export const BY_ACCOUNT = 'It acts for the account: sign in once with asp login --account.';

/** How the account signs in. Of several local services, `local` may be another one by the time that it does. */
async function loginCommand(context: Context): Promise<readonly string[]> {
  const { baseUrl, local } = await context.profile();
  const running = local === undefined ? [] : await listRunningServices(context.paths, context.machine);
  return ['asp', 'login', '--account', ...(running.length > 1 ? ['-p', baseUrl] : [])];
}

/** One call as the account; writes carry the key the user asked for. */
export async function callAsAccount<Name extends AccountOperation>(
  context: Context,
  operation: Name,
  input: CallInput<Name>,
  errorContext: ErrorContext = {},
): Promise<CallResult<AnswerOf<Name>>> {
  const { method, path } = await locate(operation, input);
  const idempotencyKey = await chosenKey(context, `${method} ${path}`, '', ACCOUNT_ACTOR);
  return withAccountClient(
    context,
    (client) => client.call(operation, { ...input, idempotencyKey, signal: context.signal }),
    errorContext,
  );
}

/** Reads or changes something as the account. */
export async function withAccountClient<Result>(
  context: Context,
  work: (client: Client) => Promise<Result>,
  errorContext: ErrorContext = {},
): Promise<Result> {
  const { ACCOUNT_SCOPES } = await import('../../wire/scope.js');
  const client = await openAccountClient(context, ACCOUNT_SCOPES);
  return explain(() => explainAccountCall(context, errorContext), work(client));
}

const NEEDS_LOGIN = ['FORBIDDEN', 'INSUFFICIENT_SCOPE', 'UNAUTHORIZED', 'ASP_LOGIN_ENDED', 'ASP_NO_CREDENTIAL'];

async function explainAccountCall(context: Context, errorContext: ErrorContext): Promise<ErrorContext> {
  const next = await loginCommand(context);
  const isToken = credentialKind(context.environment, await context.profile()) === 'token';
  return {
    ...errorContext,
    reasons: {
      FORBIDDEN: isToken
        ? 'the token acts as an agent, or the agent belongs to another account; only its account can manage it.'
        : 'the agent belongs to another account; only its account can manage it.',
      ...errorContext.reasons,
    },
    next: { ...Object.fromEntries(NEEDS_LOGIN.map((code) => [code, next])), ...errorContext.next },
  };
}
