import type { AuthorizationRequest } from '../../client/oauth/authorization-request.js';
import { readCallback } from '../../client/oauth/callback.js';
import type { LocalServiceRecord } from '../../wire/local-service.js';
import type { Context } from '../context/context.js';
import { callOperator } from '../context/operator.js';
import { CliError, UsageError } from '../errors.js';
import { loginWords } from '../profile/resolve-profile.js';
import type { OwnCallback } from './loopback.js';

/** The record of the local service at this address; only its own OS user can read it. */
export async function localRecordOf(context: Context, baseUrl: string): Promise<LocalServiceRecord> {
  const record = await context.localService();
  if (record?.url === baseUrl) return record;
  throw new UsageError('--yes approves a sign-in only at the local service of this user.', {
    why: `${baseUrl} is not one that runs here: a person has to approve there.`,
    next: ['asp', 'login'],
  });
}

/** The agent to sign in as when none was named: the only one there is. */
export async function onlyAgent(
  context: Context,
  record: LocalServiceRecord,
  scopes: readonly string[],
): Promise<string> {
  const { agents } = await callOperator(context, record, 'listOperatorAgents');
  const handles = agents.map((agent) => agent.handle);
  const [only, ...others] = handles;
  if (only !== undefined && others.length === 0) return only;
  throw new UsageError(
    only === undefined ? 'The local service has no agents yet.' : 'Which agent? The local service has several.',
    only === undefined
      ? { next: ['asp', 'serve', 'agent', 'add', 'me.bot'] }
      : { why: `they are ${handles.slice(0, 8).join(', ')}.`, next: [...loginWords(only, scopes), '--yes'] },
  );
}

/** Approves the request with the record's secret, at the same endpoint where a browser would ask. */
export async function approveLocally(
  context: Context,
  record: LocalServiceRecord,
  request: AuthorizationRequest,
): Promise<OwnCallback> {
  if (new URL(request.url).origin !== new URL(record.auth_url).origin)
    throw new CliError('ASP_BAD_ANSWER', {
      message: 'The local service names an authorization endpoint elsewhere: its secret was not sent there.',
    });
  const transport = await context.transport();
  const answer = await transport.send({
    method: 'POST',
    url: request.url,
    headers: { authorization: `Bearer ${record.secret}` },
    isRedirectAnAnswer: true,
    signal: context.signal,
  });
  const callback = readCallback(request, answer.headers['location'] ?? '');
  if (callback.kind !== 'foreign') return callback;
  throw new CliError('ASP_BAD_ANSWER', {
    message: `The local service did not approve the sign-in (${answer.status}).`,
  });
}
