import { formatQuantity } from '../../../kit/format.js';
import type { RecordedOperation } from '../../../wire/schemas/operator.js';
import type { Deletions } from '../../messaging/retention.js';
import { AFTER_EVERY_ULID } from '../../store/cursor.js';
import { listOperatorActions, type OperatorActionRow } from '../../store/operator.js';
import { OPERATOR_AREA, renderEmpty, renderList } from '../../web/dashboard/frame.js';
import { type DashboardAnswer, page, readListed, type Visit } from '../../web/dashboard/visit.js';
import { type Html, html, strangersText } from '../../web/html.js';
import { renderTime } from '../../web/time.js';
import { TOKEN_PREFIX } from '../actions.js';
import { renderAreaPage } from './area.js';

const PATH = `${OPERATOR_AREA}/log`;

export async function showLog(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  const listed = await context.database.read((query) =>
    readListed(visit, {
      scope: ['operator actions'],
      start: [AFTER_EVERY_ULID],
      toPosition: ({ id }: OperatorActionRow) => [id],
      read: ([beforeId], limit) => listOperatorActions(query, beforeId, limit),
    }),
  );
  const nothing = renderEmpty('Nothing yet', html`<p>Operators’ actions appear here.</p>`);
  const now = context.clock.now();
  const heading = {
    title: 'Log',
    about: html`Operators’ actions, here and with <code>asp serve</code> on the machine that runs the service, and deletions of old sessions. Entries are kept for a year.`,
  };
  return page(
    renderAreaPage('log', { heading, body: renderList(PATH, listed, (row) => renderAction(row, now), nothing) }),
  );
}

function renderAction(row: OperatorActionRow, now: number): Html {
  const { operation, operator_name: operator, outcome, address, browser_name: browser, created_at: at } = row;
  const target = targetOf(row);
  const by =
    operation === 'deleteOldSessions'
      ? 'The service'
      : operator === ''
        ? 'Command line'
        : operator.startsWith(TOKEN_PREFIX)
          ? html`Token <span class="mono wrap">${operator.slice(TOKEN_PREFIX.length)}</span>`
          : html`<span class="mono wrap">@${operator}</span>`;
  const from = address !== '' && html`, ${browser !== '' && html`${browser}, `}<span class="mono">${address}</span>`;
  return html`<li class="row"><div class="who grow"><b>${describeAction(row)}</b>${target !== '' && html`<span class="soft small mono wrap">${strangersText(target)}</span>`}</div>
<div class="facts">${outcome !== 'done' && html`<span class="badges"><span class="badge warn">${describeOutcome(outcome)}</span></span>`}<span class="soft small">${by}${from}</span><span class="soft small">${renderTime(at, now)}</span></div></li>`;
}

function describeOutcome(outcome: string | null): string {
  if (outcome === null) return 'Not finished';
  return outcome === 'failed' ? 'Failed' : `Refused: ${outcome.toLowerCase().replaceAll('_', ' ')}`;
}

type Change = Readonly<Record<string, unknown>>;

const LABEL: Partial<Record<RecordedOperation, string>> = {
  deleteOldSessions: 'Old sessions deleted',
  addOperatorAgent: 'Agent added',
  removeOperatorAgent: 'Agent removed',
  removeOperatorAccount: 'Account removed',
  eraseOperatorAccount: 'Account erased',
  exportOperatorAccount: 'Account exported',
  createPasswordLink: 'Password link created',
  createInvitation: 'Invitation created',
  revokeInvitation: 'Invitation revoked',
  rotateSigningKeys: 'Signing keys rotated',
  createSignInLink: 'Sign-in link created',
  addOperatorClient: 'Credential created',
  advanceClock: 'Clock turned',
  triggerEvent: 'Event triggered',
  revokeOperatorClient: 'Credential revoked',
  disconnectApp: 'App disconnected',
};

function describeAction({ operation, changes }: OperatorActionRow): string {
  const change = JSON.parse(changes) as Change;
  if (operation === 'updateOperatorAgent') return change['paused'] === true ? 'Agent paused' : 'Agent resumed';
  if (operation !== 'updateOperatorAccount') return LABEL[operation as RecordedOperation] ?? operation;
  return `Account ${describeChange(change).join(', ') || 'unchanged'}`;
}

function describeChange({ suspended, tier, operator }: Change): string[] {
  return [
    suspended !== undefined && (suspended === true ? 'suspended' : 'resumed'),
    tier !== undefined && (tier === 'trusted' ? 'trusted' : 'no longer trusted'),
    operator !== undefined && (operator === true ? 'made an operator' : 'no longer an operator'),
  ].filter((words) => words !== false);
}

/** What is in the address of a request, or in its body for something new. */
function targetOf({ operation, target, changes }: OperatorActionRow): string {
  if (target !== '') return target;
  if (operation === 'deleteOldSessions') {
    const { sessions, events, attachments } = JSON.parse(changes) as Deletions;
    return `${formatQuantity(sessions, 'session')}, ${formatQuantity(events, 'event')}, ${formatQuantity(attachments, 'attachment')}`;
  }
  const { handle, account } = JSON.parse(changes) as Change;
  return [handle, account].find((one) => typeof one === 'string') ?? '';
}
