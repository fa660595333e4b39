import { isId } from '../../../wire/id.js';
import { QUESTION_SHOWN_LENGTH, type UnansweredReason } from '../../../wire/message.js';
import type { ServiceContext } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { readKnocksOfAccount, toKnock } from '../../messaging/knocks.js';
import { readListMark } from '../../messaging/list-sessions.js';
import { listStalledAgents, type StalledAgentRow } from '../../store/inboxes.js';
import { type ClientOfAccountRow, listExpiringClients } from '../../store/oauth-clients.js';
import { listInvitedAgents } from '../../store/participants.js';
import { listOpenQuestions, type OpenQuestionRow, type QuestionRow } from '../../store/questions.js';
import { listUnanswered, type UnansweredOfAccountRow } from '../../store/unanswered.js';
import { listOffWebhooks, type OffWebhookRow } from '../../store/webhooks.js';
import { LISTS_SCRIPT } from '../assets.js';
import { renderTick } from '../form.js';
import { type Html, html, renderAgentFace, strangersText, untrustedText } from '../html.js';
import { renderTime } from '../time.js';
import { findAnswerer } from './compose.js';
import { answerValue } from './entries.js';
import {
  FROM_NEEDS,
  NEEDS_PATH,
  renderButton,
  renderEmpty,
  renderHeading,
  renderNote,
  type SmallForm,
} from './frame.js';
import { renderKnock } from './knocks.js';
import { undoDecision } from './refusals.js';
import { listInvitations, pathOfSession, renderInvitations, type TimedRow } from './sessions.js';
import { findAnswered, findSeenSession } from './transcript.js';
import { createFormKey, type DashboardAnswer, page, type Visit } from './visit.js';

const DAY_MS = 24 * 60 * 60 * 1000;
/** A credential appears this long before it expires. */
const NOTICE_MS = 7 * DAY_MS;
/** An agent appears when something has waited for it this long. */
const PATIENCE_MS = DAY_MS;
/** A question stays on the page for this long. After that, no one waits for its answer. */
const ANSWERABLE_MS = 7 * DAY_MS;
/** An agent's report stays on the page for this long. */
const REPORTED_MS = 7 * DAY_MS;
/** The most rows of each kind. */
const SHOWN_MAX = 100;

const readExpiring = ({ clock }: Pick<ServiceContext, 'clock'>, accountId: string, query: Query) =>
  listExpiringClients(query, accountId, clock.now() + NOTICE_MS, SHOWN_MAX);
const readStalled = ({ clock }: Pick<ServiceContext, 'clock'>, accountId: string, query: Query) =>
  listStalledAgents(query, accountId, clock.now() - PATIENCE_MS, SHOWN_MAX);

const readQuestions = ({ clock }: Pick<ServiceContext, 'clock'>, accountId: string, query: Query) =>
  listOpenQuestions(query, accountId, clock.now() - ANSWERABLE_MS, SHOWN_MAX);

const readUnanswered = ({ clock }: Pick<ServiceContext, 'clock'>, accountId: string, query: Query) =>
  listUnanswered(query, accountId, clock.now() - REPORTED_MS, SHOWN_MAX);

/** None if the service calls no webhooks: then its owner can only remove it. */
const readOff = async (
  { settings }: Pick<ServiceContext, 'settings'>,
  accountId: string,
  query: Query,
): Promise<readonly OffWebhookRow[]> =>
  settings.webhooks === undefined ? [] : listOffWebhooks(query, accountId, SHOWN_MAX);

/** The sessions whose question stands for their invitation: answering it joins. */
function isInvitedToAnswer(questions: readonly OpenQuestionRow[]): (sessionId: string) => boolean {
  const ids = new Set(questions.flatMap((row) => (row.is_joined === 0 ? [row.session_id] : [])));
  return (sessionId) => ids.has(sessionId);
}

/** The number of rows on the page, for the navigation. */
export function countNeeds(context: ServiceContext, accountId: string): Promise<number> {
  return context.database.read(async (query) => {
    const lists = await Promise.all([
      listInvitations(query, accountId, SHOWN_MAX),
      readQuestions(context, accountId, query),
      readKnocksOfAccount(context, accountId, query, SHOWN_MAX),
      readExpiring(context, accountId, query),
      readStalled(context, accountId, query),
      readUnanswered(context, accountId, query),
      readOff(context, accountId, query),
    ]);
    const [invitations, questions, ...others] = lists;
    const isAsked = isInvitedToAnswer(questions);
    const waiting = invitations.filter(({ id }) => !isAsked(id));
    return [waiting, questions, ...others].reduce((sum, { length }) => sum + length, 0);
  });
}

/** The content of a notification about a row. */
export interface Need {
  /** Identifies the row for as long as it is listed. */
  readonly key: string;
  readonly title: string;
  readonly text: string;
  readonly path: string;
  /** The account's agent, if the title does not name it. */
  readonly agent?: string | undefined;
}

/** Whether a list may have more entries than these. */
export const isCut = (needs: readonly Need[]): boolean => needs.length >= SHOWN_MAX;

/** The kinds of entries that show a notification: someone is waiting for each of them. */
export async function listNeeds(
  context: Pick<ServiceContext, 'clock' | 'settings'>,
  accountId: string,
  query: Query,
): Promise<readonly Need[]> {
  const [invitations, invited, knocks, questions, unanswered, off] = await Promise.all([
    listInvitations(query, accountId, SHOWN_MAX),
    listInvitedAgents(query, accountId, SHOWN_MAX),
    readKnocksOfAccount(context, accountId, query, SHOWN_MAX),
    readQuestions(context, accountId, query),
    readUnanswered(context, accountId, query),
    readOff(context, accountId, query),
  ]);
  const asked = await Promise.all(questions.map((row) => findAsked(query, accountId, row)));
  const isAsked = isInvitedToAnswer(questions);
  const waiting = invitations.filter(({ id }) => !isAsked(id));
  const needs = [
    ...waiting.map(({ id, topic }) => ({
      key: `invitation ${id}`,
      title: 'Invitation to a session',
      text: topic ?? 'No topic',
      path: pathOfSession(id),
      agent: invited.get(id),
    })),
    ...knocks.map(({ sender, text, handle }) => ({
      key: `knock ${sender} ${handle}`,
      title: `${sender} knocked at ${handle}`,
      text: text ?? '',
      path: NEEDS_PATH,
    })),
    ...asked.flat().map(({ question, answerer, path }) => ({
      key: `question ${path}`,
      title: `Question from ${question.sender}`,
      text: question.text,
      path,
      agent: answerer.handle,
    })),
    ...unanswered.map((row) => ({
      key: `unanswered ${row.handle} ${row.session_id} ${row.sequence}`,
      title: `${row.handle} ${UNANSWERED[row.reason].title}`,
      text: row.topic ?? 'No topic',
      path: pathOfUnanswered(row),
    })),
    ...off.map((row) => ({
      key: `webhook ${row.handle} ${row.off_at}`,
      title: OFF_TITLE,
      text: `The service stopped calling it: ${row.failure}.`,
      path: pathOfWebhook(row),
      agent: row.handle,
    })),
  ];
  return needs.map((need) => ({ ...need, text: untrustedText(need.text, NOTIFIED_LENGTH) }));
}

const NOTIFIED_LENGTH = 160;

/** Everything that the owner of the account needs to decide, latest first. */
export async function showNeedsYou(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, csrf, note } = visit;
  const isPushOffered = context.settings.webPush !== undefined;
  const now = context.clock.now();
  await context.inboxes.settleForAccount(account.id);
  const { rows, mark } = await context.database.read(async (query): Promise<{ rows: TimedRow[]; mark: string }> => {
    const questions = await readQuestions(context, account.id, query);
    const knocks = await readKnocksOfAccount(context, account.id, query, SHOWN_MAX);
    const rows = [
      ...(await renderInvitations(visit, query, SHOWN_MAX, isInvitedToAnswer(questions))),
      ...(await Promise.all(questions.map((row) => renderAsked(visit, query, row)))).flat(),
      ...knocks.map((row) => {
        const path = `/dashboard/agents/${row.agent_name}/knocks`;
        return { at: row.last_at, html: renderKnock(toKnock(row), { path, csrf, now, handle: row.handle }) };
      }),
      ...(await readExpiring(context, account.id, query)).map((row) => renderExpiring(row, now)),
      ...(await readStalled(context, account.id, query)).map((row) => renderStalled(row, now)),
      ...(await readUnanswered(context, account.id, query)).map((row) => renderUnanswered(visit, row)),
      ...(await readOff(context, account.id, query)).map((row) => renderOff(row, now)),
    ];
    return { rows, mark: await readListMark(query, account.id) };
  });
  const heading = renderHeading({
    title: 'Needs you',
    about: 'Things your agents can’t decide or fix themselves, most recent first.',
  });
  const nothing = renderEmpty(
    'Nothing needs you',
    html`<p>Questions, invitations, strangers that knocked, expiring credentials, webhooks that are off, and agents that stopped answering or don’t collect their messages appear here.</p>`,
  );
  const sorted = rows.sort((one, other) => other.at - one.at);
  const list = html`<ul class="rows">${sorted.map((row) => row.html)}</ul>`;
  const main = html`<div class="stack">${heading}${renderNote(note, undoOf(visit))}<div id="list" data-live="/dashboard/live" data-mark="${mark}">${sorted.length === 0 ? nothing : list}</div>${renderNotifications(isPushOffered)}</div>`;
  return page({ title: 'Needs you', section: 'needs', main, script: LISTS_SCRIPT });
}

/** Takes back what the note says was dismissed or blocked. */
function undoOf(visit: Visit): SmallForm | undefined {
  const { csrf, note, noteAbout = '' } = visit;
  if (note !== 'question-dismissed' && note !== 'unanswered-dismissed') return undoDecision(visit, FROM_NEEDS);
  const [id = '', what = ''] = noteAbout.split('/');
  if (!isId('session', id)) return undefined;
  const values = { [note === 'question-dismissed' ? 'question' : 'unanswered']: what, ...FROM_NEEDS };
  return { path: `${pathOfSession(id)}/restore`, csrf, label: 'Undo', about: 'the dismissal', values };
}

const SWITCH = { id: 'notify', name: 'notify', value: 'true', label: 'Notify me in this browser', isTicked: false };

const MORE = html` To be notified while no page is open, too, turn on push notifications in <a href="/dashboard/settings#push">Settings</a>.`;

/** The script of the frame shows what applies to this browser. */
const renderNotifications = (
  isPushOffered: boolean,
): Html => html`<section class="card stack-tight" id="notifications" data-on="Notifications are on" aria-labelledby="notifications-title"><h2 id="notifications-title">Notifications</h2>
<div data-when="able unanswered" hidden>${renderTick(SWITCH)}</div>
<div aria-live="off" class="soft"><p data-when="none">Notifications need JavaScript, and this browser doesn’t run it here.</p>
<p data-when="insecure" hidden>Browsers show notifications only for services with an https address.</p>
<p data-when="unable" hidden>This browser can’t show notifications for a page.</p>
<p data-when="denied" hidden>This browser blocks notifications from this service. Allow them in its settings for this site, then reload the page.</p>
<p data-when="unanswered" hidden>You didn’t allow notifications. Turn on the switch to be asked again.</p>
<p data-when="pushed" hidden>Push notifications are on in this browser. You can turn them off in <a href="/dashboard/settings#push">Settings</a>.</p>
<p data-when="able" hidden>For new invitations, knocks and questions, agents that stop answering, and webhooks that are off, while a page of this dashboard is open but out of view.${isPushOffered && MORE}</p></div></section>`;

/** A question with a button for each of its choices. Any other answer is written in the session. */
async function renderAsked(
  { account, context, csrf }: Visit,
  query: Query,
  row: QuestionRow,
): Promise<readonly TimedRow[]> {
  const [asked] = await findAsked(query, account.id, row);
  if (asked === undefined) return [];
  const { question, answerer, isJoined, path: ownPath } = asked;
  const { session_id: sessionId, sequence, asked_at: at } = row;
  const path = pathOfSession(sessionId);
  const values = (index: number) => ({
    answer: answerValue(sequence, index, answerer.handle, isJoined),
    ...FROM_NEEDS,
  });
  const about = html`to ${question.sender} as ${answerer.handle}${!isJoined && ', which joins the session'}`;
  const buttons = question.choices.map((choice, index) =>
    renderButton({ csrf, path: `${path}/answer`, label: strangersText(choice), about, values: values(index) }),
  );
  const decline = {
    csrf,
    path: `${path}/decline`,
    label: 'Decline',
    about: html`the invitation from ${question.sender} as ${answerer.handle}`,
    values: { as: answerer.handle, key: createFormKey(context), ...FROM_NEEDS },
  };
  const dismiss = {
    csrf,
    path: `${path}/dismiss`,
    label: 'Dismiss',
    about: html`the question from ${question.sender}`,
    values: { question: String(sequence), ...FROM_NEEDS },
  };
  const shown = html`<li class="row knock">${renderAgentFace(question.sender, 'small')}
<div class="who grow"><a class="row-link" href="${ownPath}">${strangersText(question.text, QUESTION_SHOWN_LENGTH)}</a><span class="soft small"><span class="mono wrap">${question.sender}</span> asks <span class="mono wrap">${answerer.handle}</span>, ${renderTime(at, context.clock.now())}</span>${!isJoined && html`<span class="soft small">The agent is invited. Answering makes it join the session.</span>`}</div>
<div class="answers">${buttons}${renderButton(isJoined ? dismiss : decline)}</div></li>`;
  return [{ at, html: shown }];
}

/** A question as the account sees it, and the agent that can answer it; undefined if the account cannot see it. */
async function findAsked(query: Query, accountId: string, { session_id: sessionId, sequence }: QuestionRow) {
  const seen = await findSeenSession(query, accountId, sessionId);
  const question = seen && (await findAnswered(query, seen.view, sequence));
  const answerer = seen && findAnswerer(seen.view, question?.sender);
  if (question === undefined || answerer === undefined) return [];
  const isJoined = answerer.status === 'joined';
  return [{ question, answerer, isJoined, path: `${pathOfSession(sessionId)}?around=${sequence}#e${sequence}` }];
}

interface Problem {
  readonly handle: string;
  readonly title: Html | string;
  readonly about: Html;
  readonly badge: string;
  readonly action: { readonly label: string; readonly path: string };
}

function renderProblem({ handle, title, about, badge, action }: Problem): Html {
  return html`<li class="row knock">${renderAgentFace(handle, 'small')}
<div class="who grow"><span>${title} <span class="badge warn">${badge}</span></span><span class="mono soft small wrap">${handle}</span><span class="soft small">${about}</span></div>
<div class="answers"><a class="button plain small-button" href="${action.path}">${action.label}<span class="hidden-label"> ${title}</span></a></div></li>`;
}

function renderExpiring({ id, name, handle, expires_at: expiresAt }: ClientOfAccountRow, now: number): TimedRow {
  const at = expiresAt ?? now;
  const isOver = at <= now;
  return {
    at: isOver ? at : now,
    html: renderProblem({
      handle,
      title: strangersText(name),
      about: isOver
        ? html`Programs with this API credential have been refused since it expired ${renderTime(at, now)}.`
        : html`This API credential stops working in ${String(Math.max(1, Math.ceil((at - now) / DAY_MS)))} days or less.`,
      badge: isOver ? 'Expired' : 'Expires soon',
      action: { label: 'Open credential', path: `/dashboard/clients/${id}` },
    }),
  };
}

function renderStalled(row: StalledAgentRow, now: number): TimedRow {
  const { handle, name, waiting_since: since, seen_at: seenAt } = row;
  return {
    at: since,
    html: renderProblem({
      handle,
      title: 'Messages wait',
      about: html`The oldest came ${renderTime(since, now)}. The agent was last seen ${renderTime(seenAt, now)}.`,
      badge: 'Not collected',
      action: { label: 'Open agent', path: `/dashboard/agents/${name}` },
    }),
  };
}

const OFF_TITLE = 'Webhook is off';
const pathOfWebhook = ({ name }: OffWebhookRow): string => `/dashboard/agents/${name}/webhook`;

function renderOff(row: OffWebhookRow, now: number): TimedRow {
  const { handle, failure, off_at: at } = row;
  return {
    at,
    html: renderProblem({
      handle,
      title: OFF_TITLE,
      about: html`The service stopped calling it ${renderTime(at, now)}: ${failure ?? ''}.`,
      badge: 'Not called',
      action: { label: 'Open webhook', path: pathOfWebhook(row) },
    }),
  };
}

interface Unanswered {
  /** Follows the agent's handle. */
  readonly title: string;
  readonly badge: 'Failing' | 'Stopped';
  /** What happened, and what the owner can do. */
  readonly about: string;
}

const failing = (about: string): Unanswered => ({ title: 'failed to answer', badge: 'Failing', about });
const stopped = (about: string): Unanswered => ({ title: 'stopped answering', badge: 'Stopped', about });

const UNANSWERED: Readonly<Record<UnansweredReason, Unanswered>> = {
  failed: failing('The program that writes its replies failed. Its output on the agent’s machine says why.'),
  refused: failing('The service refused the reply. The agent’s output on its machine says why.'),
  max_replies: stopped(
    'It has used up its replies in this session (max-replies). If this is a loop, end the session. To let the agent continue, raise the limit, or write as an agent that it counts as human.',
  ),
  max_replies_per_hour: stopped(
    'It has used up its replies for this hour (max-replies-per-hour). Wait, or raise the limit.',
  ),
  max_hops: stopped(
    'Programs kept answering each other (max-hops). If this is a loop, end the session. To let the agent continue, write a new message, or raise the limit.',
  ),
  max_tokens: stopped('It has used up the tokens of its run (max-tokens). Start the agent again, or raise the limit.'),
  max_cost: stopped('It has used up the budget of its run (max-cost). Start the agent again, or raise the limit.'),
  loop_guard: stopped(
    'The service stopped this conversation because no person has written in it for too many messages (loop-guard). If this is a loop, end the session. To let the agents continue, write a message.',
  ),
  repeated: stopped(
    'It was about to send the same reply for the third time in a row. If this is a loop, end the session. To let the agent continue, write a new message.',
  ),
};

const pathOfUnanswered = ({ session_id: id, sequence }: UnansweredOfAccountRow): string =>
  `${pathOfSession(id)}?around=${sequence}#e${sequence}`;

function renderUnanswered({ context, csrf }: Visit, row: UnansweredOfAccountRow): TimedRow {
  const { handle, topic, session_id: sessionId, reason, reported_at: at } = row;
  const { title, badge, about } = UNANSWERED[reason];
  const dismiss = renderButton({
    csrf,
    path: `${pathOfSession(sessionId)}/dismiss`,
    label: 'Dismiss',
    about: html`the report of ${handle}`,
    values: { unanswered: handle, ...FROM_NEEDS },
  });
  const shown = html`<li class="row knock">${renderAgentFace(handle, 'small')}
<div class="who grow"><span><a class="row-link" href="${pathOfUnanswered(row)}">${strangersText(topic ?? 'No topic')}</a> <span class="badge warn">${badge}</span></span><span class="soft small"><span class="mono wrap">${handle}</span> ${title} ${renderTime(at, context.clock.now())}</span><span class="soft small">${about}</span></div>
<div class="answers">${dismiss}</div></li>`;
  return { at, html: shown };
}
