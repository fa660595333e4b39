import type { CallInput, CallResult, Client } from '../../client/client.js';
import type { Operation, ReplyOf } from '../../wire/endpoint.js';
import { CliError } from '../errors.js';
import { credentialKind } from './build-credential.js';
import { chosenKey, locate } from './calls.js';
import type { Context } from './context.js';
import { type ErrorContext, explain } from './explain.js';
import { loginContextOf } from './login-place.js';

/** Operations that the account itself does, not one of its agents. */
export type AccountOperation = Extract<
  Operation,
  'createAgent' | 'updateAgent' | 'removeAgent' | 'listAgents' | 'listAccountSessions'
>;

/** The name under which a stable key of the account is made. */
export const ACCOUNT_ACTOR = 'account';

/**
 * Speaks to the service as the account: with a token of the environment, else with the account's own login. A client of
 * one agent, and a program that gives tokens of agents, cannot.
 */
async function openAccountClient(context: Context, accountScopes: readonly string[]): Promise<Client> {
  const profile = await context.profile();
  const kind = credentialKind(context.environment, profile);
  if (kind === 'token') return context.client();
  const key = { baseUrl: profile.baseUrl, handle: null };
  const login = await (await context.logins()).find(key);
  if (login === undefined)
    throw new CliError('ASP_NO_CREDENTIAL', {
      message: `The account is not signed in at ${profile.baseUrl}, and an agent may not create or manage agents.`,
      why: `it is a sign-in of its own (${accountScopes.join(' ')})${kind === 'client' ? '; ASP_CLIENT_ID acts as one agent' : ''}.`,
      next: loginCommand(accountScopes),
    });
  const [{ connect }, { createLoginCredential }] = await Promise.all([
    import('../../client/client.js'),
    import('../../client/credentials/login-credential.js'),
  ]);
  return connect({
    service: { baseUrl: profile.baseUrl, authUrl: profile.authUrl, wsUrl: profile.wsUrl },
    credential: createLoginCredential(await loginContextOf(context), key),
    transport: await context.transport(),
    retries: context.globals.retries,
    random: context.random,
  });
}

/** How the account signs in. */
const loginCommand = (accountScopes: readonly string[]) => ['asp', 'login', '--scopes', accountScopes.join(',')];

/** One call as the account; writes carry the key the user asked for. */
export async function callAsAccount<Name extends AccountOperation>(
  context: Context,
  operation: Name,
  input: CallInput<Name>,
  errorContext: ErrorContext = {},
): Promise<CallResult<ReplyOf<Name>>> {
  const { ACCOUNT_SCOPES } = await import('../../wire/scope.js');
  const { method, path } = await locate(operation, input);
  const idempotencyKey = await chosenKey(context, `${method} ${path}`, '', ACCOUNT_ACTOR);
  const client = await openAccountClient(context, ACCOUNT_SCOPES);
  const login = loginCommand(ACCOUNT_SCOPES);
  const signIn = ['FORBIDDEN', 'INSUFFICIENT_SCOPE', 'UNAUTHORIZED', 'ASP_LOGIN_ENDED', 'ASP_NO_CREDENTIAL'];
  const explained = {
    ...errorContext,
    reasons: {
      FORBIDDEN: 'the credential acts as an agent; agents are managed by their account.',
      ...errorContext.reasons,
    },
    next: { ...Object.fromEntries(signIn.map((code) => [code, login])), ...errorContext.next },
  };
  return explain(explained, client.call(operation, { ...input, idempotencyKey, signal: context.signal }));
}
