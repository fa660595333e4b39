import { readWebhookSecret } from '../../kit/webhook.js';
import { WEBHOOK_URL_MAX_LENGTH } from '../../wire/limit.js';
import type { Webhook } from '../../wire/schemas/agent.js';
import type { SetWebhookRequest } from '../../wire/schemas/requests.js';
import { recordActivity } from '../agents/activity.js';
import { findOwnAgent, lockOwnAgent } from '../agents/agents.js';
import type { Handler, ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { isAnyUrl, isOutsideUrl } from '../core/public-internet.js';
import type { AgentRecordRow } from '../store/agents.js';
import { deleteWebhook, findWebhook, putWebhook, type WebhookRow } from '../store/webhooks.js';

type WebhooksContext = Pick<ServiceContext, 'clock' | 'settings'>;

/** A webhook as its owner sees it, without the secret. */
export function toWebhook(row: WebhookRow): Webhook {
  const { url, set_at, answered_at, failing_since, failure } = row;
  const status = toStatus(row);
  // While it is being called, that time says when another process may take over.
  const next_try_at = status === 'failing' && row.claimed_until === null ? row.next_at : null;
  return { url, status, set_at, answered_at, failing_since, failure, next_try_at };
}

function toStatus({
  off_at: offAt,
  failing_since: failingSince,
  is_test_due: isTestDue,
}: WebhookRow): Webhook['status'] {
  if (offAt !== null) return 'off';
  if (failingSince !== null) return 'failing';
  return isTestDue === 1 ? 'new' : 'on';
}

/** The webhook of an agent; null if it has none. */
export async function readWebhook(query: Query, agentId: string): Promise<Webhook | null> {
  const row = await findWebhook(query, agentId);
  return row === undefined ? null : toWebhook(row);
}

/** Why a webhook cannot have this address; undefined if it can. */
export function refuseUrl({ settings }: WebhooksContext, url: string): string | undefined {
  if (settings.webhooks === 'any')
    return isAnyUrl(url)
      ? undefined
      : 'A webhook needs an http or https URL without a user name and without a fragment.';
  if (isOutsideUrl(url, WEBHOOK_URL_MAX_LENGTH)) return undefined;
  return 'A webhook needs an https URL with a host name and a path, such as https://example.org/asp, without a user name and without a fragment.';
}

/**
 * Sets the webhook of an agent. Nothing but a test is sent until its receiver has answered one. Throws VALIDATION_ERROR
 * for an address or a secret that cannot be used, and FEATURE_NOT_AVAILABLE if the service calls no webhooks. The caller
 * holds the lock of the agent, so that it is not removed in the meantime.
 */
export async function putWebhookOf(
  context: WebhooksContext,
  transaction: Transaction,
  agent: Pick<AgentRecordRow, 'id' | 'account_id'>,
  { url, secret }: SetWebhookRequest,
): Promise<Webhook | null> {
  requireWebhooks(context);
  const refusal = refuseUrl(context, url);
  if (refusal !== undefined) throw new ServiceError('VALIDATION_ERROR', refusal);
  if (secret !== undefined && readWebhookSecret(secret) === undefined)
    throw new ServiceError('VALIDATION_ERROR', 'The secret of a webhook is 24 to 64 bytes in base64.');
  const row = { agent_id: agent.id, account_id: agent.account_id, url, secret, set_at: context.clock.now() };
  if (!(await putWebhook(transaction, row)))
    throw new ServiceError('VALIDATION_ERROR', 'The agent has no webhook yet, so a secret is needed.');
  return readWebhook(transaction, agent.id);
}

function requireWebhooks({ settings }: Pick<ServiceContext, 'settings'>): void {
  if (settings.webhooks !== undefined) return;
  throw new ServiceError('FEATURE_NOT_AVAILABLE', 'This service calls no webhooks.');
}

export const getWebhook: Handler<'getWebhook'> = async (context, actor, input, query) => {
  requireWebhooks(context);
  const { id } = await findOwnAgent(query, actor, input.path);
  return { webhook: await readWebhook(query, id) };
};

export const setWebhook: Handler<'setWebhook'> = async (context, actor, input, transaction) => {
  const agent = await lockOwnAgent(transaction, actor, input.path);
  const webhook = await putWebhookOf(context, transaction, agent, input.body);
  const detail = describeWebhook(agent.handle, input.body.url);
  await recordActivity(context, transaction, { accountId: actor.accountId, kind: 'webhook-set', detail });
  return { webhook };
};

/** Without the rest of the URL, which may be a secret. */
export const describeWebhook = (handle: string, url: string): string => `${handle} at ${new URL(url).host}`;

export const removeWebhook: Handler<'removeWebhook'> = async (context, actor, input, transaction) => {
  const agent = await findOwnAgent(transaction, actor, input.path);
  if ((await findWebhook(transaction, agent.id)) === undefined) return undefined;
  await deleteWebhook(transaction, agent.id);
  const { handle: detail } = agent;
  await recordActivity(context, transaction, { accountId: actor.accountId, kind: 'webhook-removed', detail });
  return undefined;
};
