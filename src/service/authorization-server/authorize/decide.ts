import type { FastifyReply, FastifyRequest } from 'fastify';

import { HandlePart, isHandle } from '../../../wire/handle.js';
import { createAgentRecord } from '../../agents/create-agent.js';
import type { ServiceContext } from '../../context.js';
import { NEW_AGENT } from '../../pages/consent-page.js';
import type { Mistake } from '../../pages/form.js';
import { ServiceError } from '../../service-error.js';
import type { AccountRow } from '../../store/account-rows.js';
import { findAgentByHandle } from '../../store/agent-rows.js';
import { type AuthorizationRequestRow, deleteAuthorizationRequest } from '../../store/authorization-rows.js';
import type { Transaction } from '../../store/database.js';
import { findAccountOf, isCsrfOf, readBrowser } from '../account/browser.js';
import { forgedForm, requireSameOrigin } from '../account/same-origin.js';
import { bodyOf } from '../api-scope.js';
import { PATH } from '../metadata.js';
import { OAuthError } from '../oauth-error.js';
import { type Parameters, readParameters } from '../parameters.js';
import { isForAccount, parseScopes } from '../requested-scope.js';
import type { AuthorizationServer } from '../server.js';
import { answerWithCode, answerWithError, denied, redirect } from './authorization-answer.js';
import { requireClient, requireRedirectUri } from './authorization-request.js';
import { issueCode } from './issue-code.js';
import { sendConsentPage } from './show.js';
import { answeredRequest, requireStoredRequest } from './stored-request.js';

const DISPLAY_NAME_MAX_LENGTH = 100;

/** POST authorization endpoint, from the consent page: only what the stored request says is granted. */
export async function decide(
  server: AuthorizationServer,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<FastifyReply> {
  const { context } = server;
  requireSameOrigin(server, request);
  const form = readParameters(bodyOf(request));
  const id = form.one('request');
  const browser = readBrowser(server, request);
  if (browser === undefined || id === undefined || !isCsrfOf(browser, id, form.one('csrf'))) throw forgedForm('csrf');

  const { row, client, account } = await context.database.read(async (query) => {
    const stored = await requireStoredRequest(context, query, browser, id);
    const known = await requireClient(query, stored.client_id);
    requireRedirectUri(known, stored.redirect_uri);
    return { row: stored, client: known, account: await findAccountOf(server, query, browser) };
  });
  if (account === undefined) return redirect(reply, `${PATH.consent}?request=${id}`);
  const address = { redirectUri: row.redirect_uri, state: row.state };
  if (form.one('decision') !== 'allow') {
    await context.database.write((transaction) => answerOnce(transaction, row));
    return answerWithError(server, reply, address, denied('The request was denied.'));
  }
  try {
    const code = await context.database.write((transaction) => approve(context, transaction, { row, account, form }));
    return answerWithCode(server, reply, address, code);
  } catch (error) {
    if (!(error instanceof ChoiceMistake)) throw error;
    return sendConsentPage(server, reply.code(400), { browser, id, row, client }, account, {
      mistakes: [error.mistake],
      chosen: form.one('agent'),
      filled: { name: form.one('agent_name') ?? '', displayName: form.one('agent_display_name') ?? '' },
    });
  }
}

/** What the person has to put right before the request can be approved. */
class ChoiceMistake extends Error {
  override readonly name = 'ChoiceMistake';
  readonly mistake: Mistake;

  constructor(mistake: Mistake) {
    super(mistake.message);
    this.mistake = mistake;
  }
}

interface Approval {
  readonly row: AuthorizationRequestRow;
  readonly account: AccountRow;
  readonly form: Parameters;
}

/** One transaction: a request that is answered, an agent that is new and the code are there together or not at all. */
async function approve(context: ServiceContext, transaction: Transaction, approval: Approval): Promise<string> {
  const { row, account } = approval;
  await requireClient(transaction, row.client_id);
  const agentId = isForAccount(parseScopes(row.scope)) ? null : await chooseAgent(context, transaction, approval);
  await answerOnce(transaction, row);
  return issueCode(context, transaction, {
    clientId: row.client_id,
    redirectUri: row.redirect_uri,
    scope: row.scope,
    codeChallenge: row.code_challenge,
    resources: row.resources,
    accountId: account.id,
    agentId,
  });
}

async function answerOnce(transaction: Transaction, row: AuthorizationRequestRow): Promise<void> {
  if (!(await deleteAuthorizationRequest(transaction, row.id_hash))) throw answeredRequest();
}

/** An agent of another account is answered like one that does not exist. */
async function chooseAgent(
  context: ServiceContext,
  transaction: Transaction,
  { account, form }: Approval,
): Promise<string> {
  const choice = form.one('agent');
  if (choice === NEW_AGENT) return createChosenAgent(context, transaction, account, form);
  if (choice === undefined) throw new ChoiceMistake({ field: 'agent-0', message: 'Choose an agent.' });
  const agent = isHandle(choice) ? await findAgentByHandle(transaction, choice) : undefined;
  if (agent === undefined || agent.account_id !== account.id) {
    throw new ChoiceMistake({ message: 'This agent is not one of yours. Choose another.' });
  }
  return agent.id;
}

async function createChosenAgent(
  context: ServiceContext,
  transaction: Transaction,
  account: AccountRow,
  form: Parameters,
): Promise<string> {
  const field = 'agent-name';
  const name = (form.one('agent_name') ?? '').trim();
  const displayName = (form.one('agent_display_name') ?? '').trim() || name;
  if (name === '') throw new ChoiceMistake({ field, message: 'Enter an address for the new agent.' });
  if (!HandlePart.safeParse(name).success) {
    throw new ChoiceMistake({ field, message: 'Use lowercase letters, digits, underscores and hyphens only.' });
  }
  if (displayName.length > DISPLAY_NAME_MAX_LENGTH) {
    throw new ChoiceMistake({ field: 'agent-display-name', message: 'The display name is too long.' });
  }
  try {
    return (await createAgentRecord(context, transaction, account, { name, displayName })).id;
  } catch (error) {
    if (!(error instanceof ServiceError)) throw error;
    if (error.code === 'DUPLICATE_HANDLE') {
      throw new ChoiceMistake({ field, message: 'This address is or was in use. Choose another.' });
    }
    throw new OAuthError('invalid_request', 'The agent cannot be created.', error.code);
  }
}
