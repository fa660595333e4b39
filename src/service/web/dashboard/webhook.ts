import { isSameSecret } from '../../../kit/same-secret.js';
import { toWebhookSecret } from '../../../kit/webhook.js';
import { WEBHOOK_URL_MAX_LENGTH } from '../../../wire/limit.js';
import type { Agent, Webhook } from '../../../wire/schemas/agent.js';
import { lockOwnAgent, toAgent } from '../../agents/agents.js';
import type { ServiceContext } from '../../core/context.js';
import type { Query, Transaction } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { describeWebhook, putWebhookOf, refuseUrl, toWebhook } from '../../messaging/webhooks.js';
import type { Parameters } from '../../oauth/parameters.js';
import { deleteWebhook, findWebhook, type WebhookRow } from '../../store/webhooks.js';
import { type Field, hidden, type Mistake, renderField } from '../form.js';
import { type Html, html, strangersText } from '../html.js';
import { renderDeadline, renderTime } from '../time.js';
import { getAgentPath, renderAgentPage, requireAgent } from './agent.js';
import { renderButton, renderQuestion } from './frame.js';
import { letShowSecret, renderNewSecret, takeSecret } from './shown-secret.js';
import {
  createFormKey,
  type DashboardAnswer,
  mistaken,
  moved,
  movedWithNote,
  once,
  page,
  type Refusal,
  refused,
  toKey,
  UNREFUSED,
  type Visit,
  withAffected,
  withHeaders,
} from './visit.js';

const getAgentAddress = ({ part }: Visit): string => `/dashboard/agents/${part('name')}`;
const getAddress = (visit: Visit): string => `${getAgentAddress(visit)}/webhook`;

/** Shows the webhook of an agent, and once, right after a form made it, its secret too. */
export async function showWebhook(visit: Visit, form?: Parameters, refusal = UNREFUSED): Promise<DashboardAnswer> {
  const { context, note } = visit;
  const { mistakes } = refusal;
  const { row, agentRow } = await context.database.read(async (query) => {
    const found = await requireAgent(visit, query);
    return { agentRow: found, row: await findWebhook(query, found.id) };
  });
  const agent = toAgent(context, agentRow);
  const isCalled = context.settings.webhooks !== undefined;
  if (row === undefined && !isCalled) throw new ServiceError('NOT_FOUND');
  const taken =
    row &&
    takeSecret(
      visit,
      getAddress(visit),
      (key) => deriveSecret(visit, key),
      (secret) => isSameSecret(secret, row.secret),
    );
  const shown = { agent, typed: form && typedUrlIn(form), mistakes };
  const body =
    row === undefined
      ? renderNewForm(visit, shown)
      : html`${taken && renderSecret(taken.secret)}${renderWebhook(visit, row, { ...shown, isSecretShown: taken !== undefined })}${isCalled && renderChangeForm(visit, row, shown)}${renderRest(visit)}`;
  const view = renderAgentPage(
    { context, agent, note, mistakes },
    'webhook',
    html`<div class="stack measure">${body}</div>`,
  );
  return withHeaders(refused(view, refusal), taken?.headers ?? {});
}

/** The form of the page. */
interface ShownForm {
  readonly agent: Agent;
  /** Undefined: as it is stored. */
  readonly typed: string | undefined;
  readonly mistakes: readonly Mistake[];
}

const ABOUT = 'The service sends events to this address while the agent has no connection.';

function toField({ settings }: Pick<ServiceContext, 'settings'>, value: string): Field {
  const hint =
    settings.webhooks === 'any'
      ? 'An http or https address that this service can reach.'
      : html`An https address with a host name and a path, such as <span class="wrap">https://example.org/asp</span>.`;
  return { id: 'url', name: 'url', label: 'URL', kind: 'url', value, hint, autocomplete: 'off' };
}

function renderNewForm(visit: Visit, { typed = '', mistakes }: ShownForm): Html {
  const { context, csrf } = visit;
  return html`<form method="post" action="${getAddress(visit)}" class="card stack" aria-labelledby="webhook">${hidden({ csrf, key: createFormKey(context) })}<div class="stack-tight"><h2 id="webhook">Webhook</h2>
<p class="soft">${ABOUT}</p></div>
${renderField(toField(context, typed), mistakes)}
<p class="soft small">The service creates a secret that signs each call. It is shown once, on the next page.</p>
<div class="row-actions"><button class="button primary">Set webhook</button></div></form>`;
}

function renderWebhook(
  visit: Visit,
  row: WebhookRow,
  { agent, isSecretShown }: ShownForm & { readonly isSecretShown: boolean },
): Html {
  const { context, csrf } = visit;
  const isCalled = context.settings.webhooks !== undefined;
  const { status, url } = toWebhook(row);
  const { badge, label } = STATUS[status];
  const path = getAddress(visit);
  // If the webhook was removed in the meantime, the key makes the secret of a new one.
  const values = { url, key: createFormKey(context) };
  const button = isCalled && renderButton({ path, csrf, label, values, kind: status === 'off' ? 'primary' : 'plain' });
  const now = context.clock.now();
  const again = status === 'new' && !isSecretShown && html` <a href="${path}">Check again</a>`;
  const state = isCalled
    ? html`<p>${describeStatus(row, now)}${again}</p>${agent.paused && html`<p>Nothing is sent while the agent is paused.</p>`}`
    : html`<p>This service no longer calls webhooks. Messages are kept until the agent connects.</p>`;
  return html`<section class="card stack" aria-labelledby="webhook"><div class="stack-tight"><h2 id="webhook">Webhook${isCalled && html` ${badge}`}</h2>
<p class="mono wrap">${strangersText(url, url.length)}</p>
${state}</div>${button && html`<div class="row-actions">${button}</div>`}</section>`;
}

/** The badge of each status, and the label of the button that sets the same URL again. */
const STATUS: Readonly<Record<Webhook['status'], { readonly badge: Html; readonly label: string }>> = {
  new: { badge: html`<span class="badge">Waiting</span>`, label: 'Send a test' },
  on: { badge: html`<span class="badge good">Working</span>`, label: 'Send a test' },
  failing: { badge: html`<span class="badge warn">Failing</span>`, label: 'Send a test' },
  off: { badge: html`<span class="badge warn">Off</span>`, label: 'Turn on again' },
};

function describeStatus(row: WebhookRow, now: number): Html {
  const { status, answered_at: answeredAt, failing_since: since, failure, next_try_at: nextAt } = toWebhook(row);
  const answered = answeredAt !== null && html` Last answered ${renderTime(answeredAt, now)}.`;
  switch (status) {
    case 'new':
      return html`Waiting for an answer to the test. Events follow after that.`;
    case 'on':
      return html`${ABOUT}${answered}`;
    case 'failing': {
      const next = nextAt === null || nextAt <= now ? 'now' : renderDeadline(nextAt);
      return html`Calls began to fail ${renderTime(since ?? now, now)}: ${failure ?? ''}. Next try: ${next}.${answered}`;
    }
    case 'off':
      return html`The service stopped calling it ${renderTime(row.off_at ?? now, now)}: ${failure ?? ''}. Events wait until the agent connects, or you turn it on again.${answered}`;
  }
}

function renderChangeForm(visit: Visit, { url }: WebhookRow, { typed = url, mistakes }: ShownForm): Html {
  const { context, csrf } = visit;
  return html`<form method="post" action="${getAddress(visit)}" class="card stack" aria-label="Change URL">${hidden({ csrf, key: createFormKey(context) })}
${renderField(toField(context, typed), mistakes)}
<p class="soft small">The secret stays the same. The service sends a test to the new URL first.</p>
<div class="row-actions"><button class="button plain">Change URL</button></div></form>`;
}

function renderRest(visit: Visit): Html {
  const path = getAddress(visit);
  const remove = html`<a class="button plain quiet-danger" href="${path}/remove">Remove webhook…</a>`;
  if (visit.context.settings.webhooks === undefined) return html`<p>${remove}</p>`;
  return html`<section class="card stack-tight" aria-labelledby="replace"><h2 id="replace">Replace or remove</h2>
<p class="soft small">The secret was shown once. If you lose it, create a new one.</p>
<div class="row-actions"><a class="button plain" href="${path}/secret">New secret…</a>${remove}</div></section>`;
}

function renderSecret(secret: string): Html {
  const use = html`<p class="soft small">Your receiver needs it to check the signature of each call (Standard Webhooks). Until it has the secret, it may refuse the test; you can send another one.</p>`;
  return renderNewSecret({ id: 'webhook-secret', secret, ifLost: 'If you lose it, create a new one.', use });
}

/**
 * The secret that a form makes. Only the browser that sent the form can derive it again, so a form that was sent twice by
 * a double click has one secret (D-103).
 */
function deriveSecret({ browser }: Pick<Visit, 'browser'>, key: string): string {
  return toWebhookSecret(Buffer.from(browser.chanceFor(`webhook ${key}`), 'base64url'));
}

const typedUrlIn = (form: Parameters): string => (form.one('url') ?? '').trim();

/** As browsers write it, which is how it is called. */
const toUrl = (typed: string): string => (URL.canParse(typed) ? new URL(typed).href : typed);

function findUrlMistake(context: ServiceContext, url: string): string | undefined {
  if (url === '') return 'Enter a URL.';
  if (url.length > WEBHOOK_URL_MAX_LENGTH) return `Shorten the URL to ${WEBHOOK_URL_MAX_LENGTH} characters.`;
  return refuseUrl(context, url);
}

const OUTDATED: Refusal = {
  mistakes: [{ message: 'The webhook was removed after you sent this form. Send it again to set a new one.' }],
  status: 409,
};

/** Sets the URL, even the same again. An agent without a webhook gets a secret as well. */
export async function actWebhook(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  requireCalls(context);
  const url = toUrl(typedUrlIn(form));
  const message = findUrlMistake(context, url);
  if (message !== undefined) return showWebhook(visit, form, mistaken({ field: 'url', message }));
  const path = getAddress(visit);
  const key = toKey(form, ['url']);
  const secret = deriveSecret(visit, key);
  const known = await context.database.read((query) => findWebhookOf(visit, query));
  if (known !== undefined && known.url === url && isSameSecret(known.secret, secret)) {
    const shown = letShowSecret(visit, path, key, known.set_at);
    if ('set-cookie' in shown) return withAffected(moved(path, shown), null);
  }
  /** Undefined: a form that was sent before did it. */
  let affected: string | undefined;
  /** When the secret was made; empty: the webhook has another one, and keeps it. */
  const set = async (transaction: Transaction): Promise<string> => {
    const agent = await lockOwnAgent(transaction, visit.actor, getAgentPath(visit));
    const isNew = (await findWebhook(transaction, agent.id)) === undefined;
    await putWebhookOf(context, transaction, agent, { url, ...(isNew && { secret }) });
    affected = describeWebhook(agent.handle, url);
    return isNew ? String(context.clock.now()) : '';
  };
  const madeAt = known === undefined ? await once(visit, { path, key }, set) : await context.database.write(set);
  if (affected === undefined && (await context.database.read((query) => findWebhookOf(visit, query))) === undefined)
    return showWebhook(visit, form, OUTDATED);
  const answer =
    madeAt === ''
      ? movedWithNote(visit, path, 'webhook-set')
      : moved(path, letShowSecret(visit, path, key, Number(madeAt)));
  return withAffected(answer, affected ?? null);
}

export async function showNewWebhookSecret(visit: Visit): Promise<DashboardAnswer> {
  const { context, csrf, account, part } = visit;
  requireCalls(context);
  await context.database.read((query) => requireWebhook(visit, query));
  const path = getAddress(visit);
  const handle = `@${account.username}.${part('name')}`;
  const main = renderQuestion({
    title: html`New secret for the webhook of <span class="wrap">${handle}</span>?`,
    consequences: [
      'The new secret is shown once, on the next page.',
      'The old one stops working at once. If your receiver refuses calls until it has the new one, the service retries them.',
    ],
    path: `${path}/secret`,
    csrf,
    label: 'Create new secret',
    fields: hidden({ key: createFormKey(context) }),
    back: { label: 'Webhook', path },
  });
  return page({ title: `New secret for the webhook of ${handle}?`, section: 'agents', main });
}

/** Like the first secret, only the browser that sent the form can show it (D-103). */
export async function actNewWebhookSecret(visit: Visit, form: Parameters): Promise<DashboardAnswer> {
  const { context } = visit;
  requireCalls(context);
  const path = getAddress(visit);
  const key = toKey(form, []);
  let affected: string | undefined;
  const madeAt = await once(visit, { path: `${path}/secret`, key }, async (transaction) => {
    const agent = await lockOwnAgent(transaction, visit.actor, getAgentPath(visit));
    const { url } = await requireWebhook(visit, transaction);
    await putWebhookOf(context, transaction, agent, { url, secret: deriveSecret(visit, key) });
    affected = describeWebhook(agent.handle, url);
    return String(context.clock.now());
  });
  return withAffected(moved(path, letShowSecret(visit, path, key, Number(madeAt))), affected ?? null);
}

export async function showRemoveWebhook(visit: Visit): Promise<DashboardAnswer> {
  const { context, csrf, account, part } = visit;
  const { url } = await context.database.read((query) => requireWebhook(visit, query));
  const path = getAddress(visit);
  const handle = `@${account.username}.${part('name')}`;
  const main = renderQuestion({
    title: html`Remove the webhook of <span class="wrap">${handle}</span>?`,
    consequences: [
      html`The service forgets <span class="mono wrap">${strangersText(url, url.length)}</span> and its secret.`,
      'Messages are kept until the agent connects.',
      'A new webhook gets a new secret.',
    ],
    path: `${path}/remove`,
    csrf,
    label: 'Remove webhook',
    back: { label: 'Webhook', path },
  });
  return page({ title: `Remove the webhook of ${handle}?`, section: 'agents', main });
}

/** It is not an error if it was removed in the meantime. */
export async function actRemoveWebhook(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  const isCalled = context.settings.webhooks !== undefined;
  const handle = await context.database.write(async (transaction) => {
    const agent = await requireAgent(visit, transaction);
    if ((await findWebhook(transaction, agent.id)) === undefined) return null;
    await deleteWebhook(transaction, agent.id);
    return agent.handle;
  });
  if (handle === null && !isCalled) throw new ServiceError('NOT_FOUND');
  const to = isCalled ? getAddress(visit) : getAgentAddress(visit);
  return withAffected(movedWithNote(visit, to, 'webhook-removed'), handle);
}

/** A service that calls no webhooks does not know these forms. */
function requireCalls({ settings }: Pick<ServiceContext, 'settings'>): void {
  if (settings.webhooks === undefined) throw new ServiceError('NOT_FOUND');
}

async function findWebhookOf(visit: Visit, query: Query): Promise<WebhookRow | undefined> {
  return findWebhook(query, (await requireAgent(visit, query)).id);
}

async function requireWebhook(visit: Visit, query: Query): Promise<WebhookRow> {
  const row = await findWebhookOf(visit, query);
  if (row === undefined) throw new ServiceError('NOT_FOUND');
  return row;
}
