import { type CallInput, type CallResult, type Client, connect } from '../../client/client.js';
import { endpointRow, fillPath, type Operation, type ReplyOf } from '../../wire/endpoint.js';
import { ACCOUNT_SCOPES } from '../../wire/scope.js';
import { CliError } from '../terminal/cli-error.js';
import { credentialKind } from './build-credential.js';
import type { Context } from './context.js';
import { type About, explain } from './explain.js';
import { loginContextOf } from './login-place.js';
import { chosenKey } from './write.js';

/** Operations that the account itself does, not one of its agents. */
export type AccountOperation = Extract<
  Operation,
  'createAgent' | 'updateAgent' | 'removeAgent' | 'listAgents' | 'listAccountSessions'
>;

/** The name under which a stable key of the account is made. */
export const ACCOUNT_ACTOR = 'account';

/** How the account signs in. */
export const ACCOUNT_LOGIN = ['asp', 'login', '--scopes', ACCOUNT_SCOPES.join(',')] as const;

/**
 * Speaks to the service as the account: with a token of the environment, else with the account's own login. A client of
 * one agent, and a program that gives tokens of agents, cannot.
 */
async function openAccountClient(context: Context): Promise<Client> {
  const profile = await context.profile();
  const kind = credentialKind(context.environment, profile);
  if (kind === 'token') return context.client();
  const key = { baseUrl: profile.baseUrl, handle: null };
  const login = await (await context.logins()).find(key);
  if (login === undefined)
    throw new CliError('ASP_NO_CREDENTIAL', {
      message: `The account is not signed in at ${profile.baseUrl}, and an agent may not create or manage agents.`,
      why: `it is a sign-in of its own (${ACCOUNT_SCOPES.join(' ')})${kind === 'client' ? '; ASP_CLIENT_ID acts as one agent' : ''}.`,
      next: ACCOUNT_LOGIN,
    });
  const { createLoginCredential } = await import('../../client/credentials/login-credential.js');
  return connect({
    service: { baseUrl: profile.baseUrl, authUrl: profile.authUrl, wsUrl: profile.wsUrl },
    credential: createLoginCredential(await loginContextOf(context), key),
    transport: await context.transport(),
    retries: context.globals.retries,
    random: context.random,
  });
}

/** What the refusals of account calls mean. */
const SIGN_IN: About = {
  reasons: { FORBIDDEN: 'the credential acts as an agent; agents are managed by their account.' },
  next: {
    FORBIDDEN: ACCOUNT_LOGIN,
    INSUFFICIENT_SCOPE: ACCOUNT_LOGIN,
    UNAUTHORIZED: ACCOUNT_LOGIN,
    ASP_LOGIN_ENDED: ACCOUNT_LOGIN,
    ASP_NO_CREDENTIAL: ACCOUNT_LOGIN,
  },
};

/** One call as the account; writes carry the key the user asked for. */
export async function callAsAccount<Name extends AccountOperation>(
  context: Context,
  operation: Name,
  input: Pick<CallInput<Name>, Extract<'path' | 'body' | 'query', keyof CallInput<Name>>>,
  about: About = {},
): Promise<CallResult<ReplyOf<Name>>> {
  const { method, path } = endpointRow(operation);
  const named: unknown = 'path' in input ? input.path : {};
  const concrete = fillPath(path, named as Readonly<Record<string, string>>);
  const idempotencyKey = await chosenKey(context, `${method} ${concrete}`, '', ACCOUNT_ACTOR);
  const client = await openAccountClient(context);
  const call = { ...input, idempotencyKey, signal: context.signal } as CallInput<Name>;
  const words = {
    ...about,
    reasons: { ...SIGN_IN.reasons, ...about.reasons },
    next: { ...SIGN_IN.next, ...about.next },
  };
  return explain(words, client.call(operation, call));
}
