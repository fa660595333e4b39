import { formatQuantity } from '../../../kit/format.js';
import { isMessageEvent } from '../../../wire/event.js';
import { splitHandle } from '../../../wire/handle.js';
import { isId } from '../../../wire/id.js';
import { findInReplyTo, listChoices } from '../../../wire/message.js';
import type { ReplyOf } from '../../../wire/schemas/endpoint.js';
import type { EventEnvelope, TypedEvent } from '../../../wire/schemas/event.js';
import type { Session } from '../../../wire/schemas/session.js';
import { signAccountDownload } from '../../attachments/attachments.js';
import type { ServiceContext } from '../../core/context.js';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import { getDelivery } from '../../messaging/delivery-states.js';
import {
  type AccountView,
  findAccountView,
  findLastVisibleTo,
  lastVisibleTo,
  listNarrower,
  narrowTo,
  readAccountRows,
  toEnvelope,
  toVisibleEvents,
  wholeThrough,
} from '../../messaging/events.js';
import { viewSessionOf } from '../../messaging/list-sessions.js';
import type { Parameters } from '../../oauth/parameters.js';
import type { AccountRow } from '../../store/accounts.js';
import { listEvents, type ReadEventRow } from '../../store/events.js';
import { listOnline } from '../../store/participants.js';
import { TRANSCRIPT_SCRIPT } from '../assets.js';
import { hidden } from '../form.js';
import { type Html, html, strangersLines, untrustedText } from '../html.js';
import { renderClock, renderDay, renderTime, toDay } from '../time.js';
import { actingAs } from './agent.js';
import { type Answered, type Composer, findRoles, renderComposer, renderManage, type Typed } from './compose.js';
import {
  addressIn,
  addressOfEvent,
  type Entry,
  type EntryContext,
  gapInWords,
  prepareEntries,
  renderEntry,
  renderMoment,
  toEntries,
} from './entries.js';
import { type NoteName, renderNote, renderTrail, type View } from './frame.js';
import { readReportedUsage } from './reported-usage.js';
import { markSeen, pathOfSession, renderState, renderTopic } from './sessions.js';
import { createFormKey, type DashboardAnswer, moved, page, type Refusal, refused, type Visit } from './visit.js';

const STATUS_WORD = { joined: '', invited: 'invited', left: 'left' } as const;

/** An agent of the account that is viewing the page. */
export interface OwnAgent {
  readonly handle: string;
  /** Its page, if it still has one. */
  readonly path: string | undefined;
}

export interface TranscriptPage {
  readonly session: Session;
  readonly ownAgents: readonly OwnAgent[];
  readonly username: string;
  readonly path: string;
  /** Newest last. */
  readonly entries: readonly Entry[];
  readonly hasEarlier: boolean;
  readonly pageSize: number;
  readonly isNewest: boolean;
  readonly now: number;
  readonly note: NoteName | undefined;
  readonly composer: Composer;
  readonly managing: Html;
  readonly view: AccountView;
  readonly online: ReadonlySet<string>;
  readonly receipt: Html;
}

/** The address of the page, up to its own parameters. */
function getAddress({ path, view }: Pick<TranscriptPage, 'path' | 'view'>): string {
  return addressIn({ path, viewQuery: queryOf(view) }, '');
}

/** If one of the account's agents sees less than the account: whose view this is, and the others. */
function renderViews({ path, view }: TranscriptPage): Html | undefined {
  const narrower = listNarrower(view);
  if (narrower.length === 0) return undefined;
  const link = (label: Html | string, href: string, isCurrent: boolean): Html =>
    html`<li><a href="${href}"${isCurrent && html` aria-current="page"`}>${label}</a></li>`;
  return html`<nav class="views small" aria-label="As seen by"><span class="soft">As seen by</span><ul>${link('you', path, view.agent === undefined)}${narrower.map(({ handle }) => link(html`<span class="mono">${handle}</span>`, `${path}?as=${splitHandle(handle).name}`, view.agent?.handle === handle))}</ul></nav>`;
}

function renderTranscript(transcript: TranscriptPage): View {
  const { session, entries, isNewest } = transcript;
  const last = entries.at(-1)?.event;
  const address = getAddress(transcript);
  const live = html` data-live="${address.replace('?', `/live?account=${transcript.username}&`)}" data-after="${last?.sequence ?? 0}"`;
  const main = html`<div class="stack transcript">${renderTrail('Sessions', '/dashboard/sessions')}
${isNewest && html`<noscript><a href="#end">Go to the newest message</a></noscript>`}<div id="head">${renderSessionHead(session, transcript, transcript.now)}</div>
${renderViews(transcript)}<div id="managing">${transcript.managing}</div>
<section class="log" id="log" role="log" aria-label="Transcript"${isNewest && live}>
${renderEarlier(transcript)}
${renderEntries(entries)}
${entries.length === 0 && html`<p class="soft" id="nothing">${isNewest ? 'No messages visible to your agents yet.' : 'Nothing is here. Go to the newest messages.'}</p>`}
</section>
${isNewest && html`<p class="hidden-label" id="news" aria-live="polite"></p>`}<div id="receipt">${isNewest && transcript.receipt}</div>
<p id="end"></p>
${isNewest ? renderLiveState(address.slice(0, -1)) : renderLater(transcript)}
${renderNote(transcript.note)}${isNewest && renderComposer(transcript.composer)}</div>`;
  const title = untrustedText(session.topic ?? session.participants.map(({ handle }) => handle).join(', '));
  return { title, section: 'sessions', main, script: TRANSCRIPT_SCRIPT, hasPictures: true };
}

const PEOPLE_IN_HEAD = 5;
const PEOPLE_IN_LIST = 200;

/** The part of the page that can change while someone views the session. */
export function renderSessionHead(
  session: Session,
  { ownAgents, username, online }: Pick<TranscriptPage, 'ownAgents' | 'username' | 'online'>,
  now: number,
): Html {
  const { participants } = session;
  const isOwn = (handle: string): boolean => ownAgents.some((agent) => agent.handle === handle);
  const more = participants.length - PEOPLE_IN_HEAD;
  return html`<div class="session-title between"><h1>${renderTopic(session)}</h1>${renderState(session, username)}</div>
<div class="session-head"><ul class="people" aria-label="Participants">${participants
    .slice(0, PEOPLE_IN_HEAD)
    .map(
      ({ handle, status }) =>
        html`<li class="${CLASS_OF[status]}${online.has(handle) && ' online'}"><span class="mono">${handle}</span>${online.has(handle) && html`<span class="hidden-label"> online</span>`}${isOwn(handle) && html` <span class="soft">yours</span>`}${STATUS_WORD[status] !== '' && html` <span class="soft">${STATUS_WORD[status]}</span>`}</li>`,
    )}${more > 0 && html`<li class="in"><span>and ${more} more</span></li>`}</ul>
<p class="soft small began"><span>Began ${renderTime(session.created_at, now)}${session.ended_at !== null && html`, ended ${renderTime(session.ended_at, now)}`}</span><span class="mono take-id">${session.id}</span></p></div>`;
}

const CLASS_OF = { joined: 'in', invited: 'asked', left: 'gone' } as const;

/** Everyone in the session, with the actions of their owner or of this account. */
function renderPeople(
  { participants, id }: Session,
  ownAgents: readonly OwnAgent[],
  online: ReadonlySet<string>,
  viewQuery: string,
): Html {
  const rows = participants.slice(0, PEOPLE_IN_LIST).map(({ handle, status }) => {
    const own = ownAgents.find((agent) => agent.handle === handle);
    const trust = addressIn({ path: `${pathOfSession(id)}/trust`, viewQuery }, `handle=${encodeURIComponent(handle)}`);
    const action =
      own === undefined
        ? html`<a class="aside-link" href="${trust}">Block or allow…<span class="hidden-label"> ${handle}</span></a>`
        : own.path !== undefined &&
          html`<a class="aside-link" href="${own.path}">Settings<span class="hidden-label"> of ${handle}</span></a>`;
    return html`<li class="between"><span><span class="mono wrap">${handle}</span> <span class="soft">${own !== undefined && 'yours, '}${status}${online.has(handle) && ', online'}</span></span>${action}</li>`;
  });
  const more = participants.length - rows.length;
  return html`<ul class="members small">${rows}${more > 0 && html`<li class="soft">and ${more} more</li>`}</ul>
<p class="small"><span class="mono wrap">${id}</span> <button type="button" class="copy" data-copy="${id}">Copy<span class="hidden-label"> the session’s ID</span></button></p>`;
}

/** Who takes part, and what a participant can change about the session. */
export function renderManaging(seen: SeenSession, composer: Composer, online: ReadonlySet<string>): Html {
  const { session } = seen;
  return renderManage(
    composer,
    formatQuantity(session.participants.length, 'participant'),
    renderPeople(session, listOwnAgents(seen), online, queryOf(seen.view)),
  );
}

const FOLDED_INVITATIONS_MIN = 3;

export const renderEntries = (entries: readonly Entry[]): Html =>
  html`<ol class="entries">${renderItems(entries)}</ol>`;

/** Each day begins with its date. Many invitations in a row are one entry that unfolds. */
export function renderItems(entries: readonly Entry[], previous?: EventEnvelope): Html[] {
  const items: Html[] = [];
  let before = previous;
  for (let index = 0; index < entries.length; ) {
    const entry = entries[index];
    if (entry === undefined) break;
    const { created_at: createdAt } = entry.event;
    if (before === undefined || toDay(before.created_at) !== toDay(createdAt))
      items.push(html`<li class="day"><span>${renderDay(createdAt)}</span></li>`);
    const invitations = invitationsFrom(entries, index);
    const isFolded = invitations.length >= FOLDED_INVITATIONS_MIN;
    items.push(isFolded ? renderInvitations(entry, invitations) : renderEntry(entry, before));
    index += isFolded ? invitations.length : 1;
    before = entries[index - 1]?.event;
  }
  return items;
}

/** The invitations from there on that one agent sent in a row, on one day. */
function invitationsFrom(entries: readonly Entry[], index: number): readonly Entry[] {
  const first = entries[index]?.event;
  const rest = entries.slice(index);
  const end = rest.findIndex(
    ({ event: { type, payload, created_at: at } }) =>
      type !== 'session.invited' ||
      payload['by'] !== first?.payload['by'] ||
      'initial_message' in payload ||
      toDay(at) !== toDay(first?.created_at ?? 0),
  );
  return end === -1 ? rest : rest.slice(0, end);
}

function renderInvitations({ event, where }: Entry, invitations: readonly Entry[]): Html {
  const by = html`<b class="mono">${String(event.payload['by'])}</b>`;
  return html`<li class="entry happening"><details class="invitations"><summary>${by} invited ${invitations.length} agents</summary><ol class="entries">${invitations.map((one) => renderEntry(one))}</ol></details>${renderMoment(event, where, undefined)}</li>`;
}

function renderEarlier(transcript: TranscriptPage): Html {
  const { entries, hasEarlier, isNewest, path, view } = transcript;
  const first = entries[0]?.event;
  const isThere = hasEarlier && first !== undefined;
  const address = getAddress(transcript);
  const as = view.agent && hidden({ as: splitHandle(view.agent.handle).name });
  return html`<div class="earlier" id="earlier" data-path="${address}"${!isThere && isNewest && html` hidden`}>${(isThere || isNewest) && html`<a class="button plain small-button" href="${address}before=${first?.sequence ?? 0}#end">Earlier</a>`}
<details class="fold jump-to"><summary>Go to…</summary><form action="${path}" class="row-actions">${as}<a class="button plain small-button" href="${address}before=${PER_PAGE + 1}#log">Beginning</a><label><span>Number</span><input type="number" name="number" min="1" inputmode="numeric"></label><label><span>or date (UTC)</span><input type="date" name="date"></label><button class="button plain small-button">Go</button></form></details></div>`;
}

function renderLater(transcript: TranscriptPage): Html {
  const { entries, pageSize } = transcript;
  const last = entries.at(-1)?.event;
  const later = last === undefined ? 0 : last.sequence + pageSize + 1;
  const address = getAddress(transcript);
  return html`<nav class="pager" aria-label="Pages">${last !== undefined && html`<a class="button plain" href="${address}before=${later}#log">Later</a>`}<a class="button plain" href="${address.slice(0, -1)}">Newest</a></nav>`;
}

/** Without the script this says how to see new messages; the script chooses which of the other texts to show. */
function renderLiveState(address: string): Html {
  return html`<div class="live-bar"><a class="button primary jump" id="jump" href="#end" hidden></a>
<p class="live" id="live" role="status"><span class="still"><a href="${address}">Reload for new messages</a></span>
<span class="on">Live</span><span class="over">Ended. If someone reopens the session, this page shows it.</span><span class="slow">Updates every few seconds</span><span class="off">Connecting…</span>
<span class="signed-out">Updates stopped because you are signed out. <a href="${address}">Sign in</a></span>
<span class="gone">Updates stopped because this session is no longer available.</span></p></div>`;
}

type MessageEvent = TypedEvent<'session.message'>;

/** One event with all of its text, its delivery, and its data as programs get it. */
function renderWholeEvent(
  session: Session,
  entry: Entry,
  { trace, answered }: { readonly trace?: MessageTrace | undefined; readonly answered?: MessageEvent | undefined },
): View {
  const { event, where } = entry;
  const around = addressOfEvent(where, event.sequence);
  const raw = JSON.stringify(event, null, 2);
  const main = html`<div class="stack transcript">${renderTrail('Transcript', around)}
<h1>${renderTopic(session)}</h1>
${renderEntries([entry])}
${isMessageEvent(event) && renderFacts(event, answered, where)}
${trace !== undefined && renderDelivery(trace, event.created_at, where)}
<details class="fold"><summary>Raw event</summary><div class="code"><p class="between small soft"><span class="mono">${event.event_id}</span><button type="button" class="copy">Copy</button></p><pre tabindex="0" dir="ltr"><code>${strangersLines(raw)}</code></pre></div></details></div>`;
  return {
    title: `Message ${event.sequence}`,
    section: 'sessions',
    main,
    script: TRANSCRIPT_SCRIPT,
    hasPictures: true,
  };
}

/** How long the sender took to answer, and what it reports of its work. */
function renderFacts(event: MessageEvent, answered: MessageEvent | undefined, where: EntryContext): Html | undefined {
  const { sender } = event.payload;
  const reported = readReportedUsage(event.payload).map(([label, value]) => renderFact(label, value));
  const measured =
    answered &&
    renderFact(
      'Reply time',
      html`${gapInWords(event.created_at - answered.created_at)?.slice(1) ?? 'within a second'} <span class="soft">after</span> <a href="${addressOfEvent(where, answered.sequence)}">message ${answered.sequence}</a>`,
    );
  if (measured === undefined && reported.length === 0) return undefined;
  const source = measured ? 'The service measures the reply time. The rest is what' : 'This is what';
  return html`<section class="card stack-tight" aria-labelledby="facts"><h2 id="facts">Facts</h2><ul class="members small">${measured}${reported}</ul>${reported.length > 0 && html`<p class="soft small">${source} <span class="mono wrap">${sender}</span> reports.</p>`}</section>`;
}

const renderFact = (label: string, value: Html | string): Html =>
  html`<li class="between"><span>${label}</span><span>${value}</span></li>`;

const STATE_WORD = { stored: 'Waiting', delivered: 'Delivered', taken: 'Taken', answered: 'Answered' } as const;

/** How a message went for each recipient. Receiving it writes no time: only reports and answers have one. */
function renderDelivery({ delivery, answeredAt }: MessageTrace, sentAt: number, where: EntryContext): Html {
  const { recipients } = delivery;
  const rows = recipients.map(({ handle, state, taken_at: takenAt, answered_sequence: answer }) => {
    const answered = answer === null ? undefined : answeredAt.get(answer);
    const steps = [
      takenAt !== null && html`Taken ${renderStep(takenAt, sentAt)}`,
      answer !== null &&
        html`Answered in <a href="${addressOfEvent(where, answer)}">message ${answer}</a>${answered !== undefined && html` ${renderStep(answered, sentAt)}`}`,
    ].filter((step) => step !== false);
    const shown =
      steps.length === 0 ? STATE_WORD[state] : steps.map((step, at) => html`${at > 0 && html`<br>`}${step}`);
    return html`<li class="between"><span class="mono wrap">${handle}</span><span>${shown}</span></li>`;
  });
  return html`<section class="card stack-tight" aria-labelledby="delivery"><h2 id="delivery">Delivery</h2><ul class="members small">${rows}${rows.length === 0 && html`<li class="soft">No one else was in the session.</li>`}</ul></section>`;
}

/** When a step was made, and how long after the message. */
function renderStep(at: number, sentAt: number): Html {
  const gap = gapInWords(at - sentAt);
  return html`${renderClock(at)} <span class="soft">(${gap === undefined ? 'within a second' : `${gap.slice(1)} later`})</span>`;
}

const WIDENING = 16;
/** For one page: the events must be read first, and fifty large, deeply nested messages take seconds. */
export const READ_MAX_CHARACTERS = 512 * 1024;

/** The last visible events of a part of the log. */
interface Latest {
  readonly events: readonly EventEnvelope[];
  /** Whether the account may see more events before these. */
  readonly hasEarlier: boolean;
}

/**
 * The last `count` events before the number `before` that the account may see; fewer if they are large. The log is read
 * forward from some way back, and from farther back for an account that sees few of its events.
 */
export async function readLatest(
  query: Query,
  view: AccountView,
  { before, count }: { readonly before: number; readonly count: number },
): Promise<Latest> {
  const end = Math.min(before, lastVisibleTo(view) + 1);
  for (let span = count + 1; ; span *= WIDENING) {
    const start = Math.max(0, end - 1 - span);
    const rows = await readWindow(query, view, { start, end, count: count + 1 });
    if (rows.length <= count && start > 0) continue;
    const last = takeLast(rows, count);
    return { events: last.map(toEnvelope), hasEarlier: last.length < rows.length };
  }
}

function takeLast(rows: readonly ReadEventRow[], count: number): ReadEventRow[] {
  const last: ReadEventRow[] = [];
  let characters = 0;
  for (const row of rows.slice(-count).reverse()) {
    if (characters >= READ_MAX_CHARACTERS) break;
    last.unshift(row);
    characters += row.payload.length;
  }
  return last;
}

/** At most one page of the log is held, plus the same amount of what comes before it. */
async function readWindow(
  query: Query,
  view: AccountView,
  { start, end, count }: { readonly start: number; readonly end: number; readonly count: number },
): Promise<ReadEventRow[]> {
  let latest: ReadEventRow[] = [];
  let after = start;
  while (true) {
    const { events, hasMore } = await readAccountRows(query, view, after, count);
    const inside = events.filter(({ sequence }) => sequence < end);
    latest = [...latest, ...inside].slice(-count);
    const last = events.at(-1);
    if (!hasMore || last === undefined || last.sequence + 1 >= end) return latest;
    after = last.sequence;
  }
}

/** A session as an account sees it. */
export interface SeenSession {
  readonly session: Session;
  readonly view: AccountView;
}

/**
 * As the account sees it, or as one of its agents does. Undefined: there is no such session, or none of the account's agents
 * ever took part in it.
 */
export async function findSeenSession(
  query: Query,
  accountId: string,
  sessionId: string,
  agent?: string,
): Promise<SeenSession | undefined> {
  const whole = await findAccountView(query, accountId, sessionId);
  const view = whole && agent !== undefined ? narrowTo(whole, agent) : whole;
  if (view === undefined) return undefined;
  return { view, session: await viewSessionOf(query, view.participations[0]) };
}

export const PER_PAGE = 50;
const SEQUENCE = /^[1-9]\d{0,14}$/;
const DAY = /^\d{4}-\d{2}-\d{2}$/;

/** How this account sees events of a session. */
export function toEntryContext({ session, view }: SeenSession, username: string): EntryContext {
  return {
    path: pathOfSession(session.id),
    viewQuery: queryOf(view),
    username,
    through: wholeThrough(view),
    writers: findRoles(view).writers.map(({ handle }) => handle),
    invited: findRoles(view).invited.map(({ handle }) => handle),
  };
}

/** The account's own agents among the participants; a removed agent no longer has a page. */
export function listOwnAgents({ view }: SeenSession): OwnAgent[] {
  return view.participations.map(({ handle, agent_removed_at: removedAt }) => ({
    handle,
    path: removedAt === null ? `/dashboard/agents/${splitHandle(handle).name}` : undefined,
  }));
}

export async function showTranscript(visit: Visit): Promise<DashboardAnswer> {
  const target = await visit.context.database.read((view) => findTarget(visit, view));
  const as = visit.query.one('as');
  const address = `${pathOfSession(visit.part('session_id'))}?${as === undefined ? '' : `as=${as}&`}`;
  if (target !== undefined) return moved(`${address}around=${target}#e${target}`);
  return transcriptWith(visit, { replyTo: readSequence(visit.query.one('reply')) });
}

/** A transcript with what someone typed into its forms, and why it was refused. */
export async function transcriptWith(
  visit: Visit,
  { replyTo, ...typed }: Typed & { readonly replyTo?: number | undefined },
  refusal?: Refusal,
): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const before = readBefore(query);
  const { seen, latest, isNewest, status, answered } = await context.database.read(async (view) => {
    const found = await requireSeen(visit, view);
    const latest = await readLatest(view, found.view, { before, count: PER_PAGE });
    const own = findOwnMessage(latest.events, account.username);
    return {
      seen: found,
      latest,
      isNewest: before > (await findLastVisibleTo(view, found.view)),
      status: await readStatus(context, view, found, { account, own }),
      answered: replyTo === undefined ? undefined : await findAnswered(view, found.view, replyTo),
    };
  });
  const where = { ...toEntryContext(seen, account.username), ...(await prepareEntries(context, latest.events)) };
  const composer = composerFor(visit, seen, typed, answered);
  const shown = renderTranscript({
    session: seen.session,
    ownAgents: listOwnAgents(seen),
    username: account.username,
    path: where.path,
    entries: toEntries(latest.events, where),
    hasEarlier: latest.hasEarlier,
    pageSize: PER_PAGE,
    isNewest,
    now: context.clock.now(),
    note: visit.note,
    composer,
    managing: renderManaging(seen, composer, status.online),
    view: seen.view,
    ...status,
  });
  await markSeen(context, account.id, seen.session.id, latest.events.at(-1)?.sequence ?? 0);
  return refusal === undefined ? page(shown) : refused(shown, refusal);
}

/** The parts of a session that change without an event. */
export interface SessionStatus {
  readonly online: ReadonlySet<string>;
  /** The delivery of the account's own last message. */
  readonly receipt: Html;
}

/** The number of the last message that one of the account's agents sent; undefined: there is none among these. */
export function findOwnMessage(events: readonly EventEnvelope[], username: string): number | undefined {
  const isOwn = (event: EventEnvelope): boolean =>
    isMessageEvent(event) && event.payload.sender.startsWith(`@${username}.`);
  return events.findLast(isOwn)?.sequence;
}

/** Who is connected, and who has received the message `own`. */
export async function readStatus(
  context: ServiceContext,
  query: Query,
  seen: SeenSession,
  { account, own }: { readonly account: Pick<AccountRow, 'id' | 'username'>; readonly own: number | undefined },
): Promise<SessionStatus> {
  const { session } = seen;
  const online = await listOnline(query, session.id, { accountId: account.id, owner: account.username });
  const delivery = own === undefined ? undefined : await findDelivery(context, account.id, seen, own, query);
  if (delivery === undefined) return { online, receipt: html`` };
  const since = await readAccountRows(query, seen.view, delivery.sequence, WRITTEN_SINCE_MAX);
  const messages = since.events.map(toEnvelope).filter(isMessageEvent);
  const writers = new Set(messages.map(({ payload }) => payload.sender));
  return { online, receipt: renderReceipt(delivery, writers) };
}

/** Events after the account's last message in which a recipient may have written. */
const WRITTEN_SINCE_MAX = 50;

const RECEIPT_NAMES_MAX = 3;

/** In one line: who has received a message, and who has neither proved that, nor written or left since. */
function renderReceipt({ sequence, recipients }: ReplyOf<'getDelivery'>, writers: ReadonlySet<string>): Html {
  const isAwaited = ({ handle, status }: (typeof recipients)[number]): boolean =>
    status !== 'left' && !writers.has(handle);
  const groups = RECEIPT.flatMap(([state, words]) => {
    const handles = recipients
      .filter((one) => one.state === state && (state !== 'stored' || isAwaited(one)))
      .map(({ handle }) => handle);
    const more = handles.length - RECEIPT_NAMES_MAX;
    const names = handles.slice(0, RECEIPT_NAMES_MAX).join(', ');
    return handles.length === 0 ? [] : [`${words} ${names}${more > 0 ? ` and ${more} more` : ''}`];
  });
  return html`<p class="receipt soft small" data-own="${sequence}">${groups.length > 0 && `Message ${sequence}: ${groups.join('; ')}.`}</p>`;
}

const RECEIPT = [
  ['answered', 'answered by'],
  ['taken', 'taken by'],
  ['delivered', 'delivered to'],
  ['stored', 'waiting for'],
] as const;

/** The event that someone wants to go to: by its number, or the first one of a day. */
async function findTarget(visit: Visit, query: Query): Promise<number | undefined> {
  const number = readSequence(visit.query.one('number'));
  const day = visit.query.one('date');
  const start = day !== undefined && DAY.test(day) ? Date.parse(`${day}T00:00:00Z`) : Number.NaN;
  if (number === undefined && Number.isNaN(start)) return undefined;
  const { view } = await requireSeen(visit, query);
  const last = await findLastVisibleTo(query, view);
  return Math.min(number ?? (await findFirstSince(query, view, start, last)), last);
}

/**
 * Numbers and times of a session grow together, so halving finds the first event of a day in a few reads. An event that
 * the account may not see stands for the next one that it may.
 */
async function findFirstSince(query: Query, view: AccountView, start: number, last: number): Promise<number> {
  const sessionId = view.participations[0].session_id;
  let low = 1;
  let high = last;
  while (low < high) {
    const middle = Math.floor((low + high) / 2);
    const [event] = await listEvents(query, sessionId, middle - 1, middle, 1);
    if (event !== undefined && event.created_at < start) low = middle + 1;
    else high = middle;
  }
  const { events } = await readAccountRows(query, view, low - 1, 1);
  return events[0]?.sequence ?? low;
}

/** The forms of a session, for what the account's agents may do in it now. */
export function composerFor(
  { context, csrf }: Pick<Visit, 'context' | 'csrf'>,
  { session, view }: SeenSession,
  typed: Typed = {},
  answered?: Answered,
): Composer {
  const isEnded = session.state === 'ended';
  const key = createFormKey(context);
  const path = pathOfSession(session.id);
  const canShare = context.settings.shareLinks !== 'off';
  return { ...findRoles(view), path, csrf, key, typed, answered, isEnded, canShare, viewQuery: queryOf(view) };
}

/** The message that a reply answers; undefined: the account sees no message there. */
export async function findAnswered(query: Query, view: AccountView, sequence: number): Promise<Answered | undefined> {
  const event = await findEvent(query, view, sequence);
  if (event === undefined || !isMessageEvent(event)) return undefined;
  const { id, sender, content } = event.payload;
  const text = typeof content === 'string' ? content : textsIn(content);
  return { sequence, id, sender, text, choices: listChoices(event.payload) };
}

function textsIn(content: readonly object[]): string {
  const texts = content.map((part) => ('text' in part ? String(part.text) : ''));
  return texts.find((text) => text !== '') ?? 'an attachment';
}

/** One event, if the account may see it. */
export async function findEvent(query: Query, view: AccountView, sequence: number): Promise<EventEnvelope | undefined> {
  const { events } = toVisibleEvents(await readAccountRows(query, view, sequence - 1, 1));
  return events[0]?.sequence === sequence ? events[0] : undefined;
}

/** One event with all of its text. */
export async function showEvent(visit: Visit): Promise<DashboardAnswer> {
  const { context, account, query } = visit;
  const sequence = readSequence(visit.part('sequence')) ?? 0;
  const { seen, event, trace, answered } = await context.database.read(async (view) => {
    const seen = await requireSeen(visit, view);
    const event = await findEvent(view, seen.view, sequence);
    if (event === undefined) throw new ServiceError('NOT_FOUND');
    const isMessage = isMessageEvent(event);
    return {
      seen,
      event,
      trace: isMessage ? await findTrace(context, account.id, seen, sequence, view) : undefined,
      answered: isMessage ? await findAnsweredBy(view, seen.view, event) : undefined,
    };
  });
  const prepared = await prepareEntries(context, [event]);
  const own = {
    ...toEntryContext(seen, account.username),
    ...prepared,
    isWhole: true,
    isRaw: query.one('raw') === '1',
  };
  const known = new Map(answered && [[answered.payload.id, answered.payload]]);
  return page(renderWholeEvent(seen.session, { event, where: { ...own, known } }, { trace, answered }));
}

/** The message that a message answers, if it is among the events of a page before it. */
async function findAnsweredBy(
  query: Query,
  view: AccountView,
  { sequence, payload }: MessageEvent,
): Promise<MessageEvent | undefined> {
  const id = findInReplyTo(payload);
  if (id === undefined) return undefined;
  const { events } = await readLatest(query, view, { before: sequence, count: PER_PAGE });
  return events.filter(isMessageEvent).find((one) => one.payload.id === id);
}

/** The delivery of a message, and when those answers were sent that the account may see. */
interface MessageTrace {
  readonly delivery: ReplyOf<'getDelivery'>;
  readonly answeredAt: ReadonlyMap<number, number>;
}

/** Answers whose time one page reads. */
const TIMED_ANSWERS_MAX = 20;

async function findTrace(
  context: ServiceContext,
  accountId: string,
  seen: SeenSession,
  sequence: number,
  query: Query,
): Promise<MessageTrace | undefined> {
  const delivery = await findDelivery(context, accountId, seen, sequence, query);
  if (delivery === undefined) return undefined;
  const answers = delivery.recipients.flatMap(({ answered_sequence: answer }) => answer ?? []);
  const answeredAt = new Map<number, number>();
  for (const answer of answers.slice(0, TIMED_ANSWERS_MAX)) {
    const event = await findEvent(query, seen.view, answer);
    if (event !== undefined) answeredAt.set(answer, event.created_at);
  }
  return { delivery, answeredAt };
}

/** The delivery of a message; undefined if none of the account's agents is joined, so that none may know. */
async function findDelivery(
  context: ServiceContext,
  accountId: string,
  { session, view }: SeenSession,
  sequence: number,
  query: Query,
): Promise<ReplyOf<'getDelivery'> | undefined> {
  const [member] = findRoles(view).joined;
  if (member === undefined) return undefined;
  const actor = actingAs(accountId, { id: member.agent_id, handle: member.handle });
  return getDelivery(context, actor, { path: { session_id: session.id }, query: { sequence } }, query);
}

/** Redirects to a newly signed address, if the viewer may see the message now. */
export async function fetchAttachment(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  return context.database.read(async (query) => {
    const { view } = await requireSeen(visit, query);
    const { pathname, search } = new URL(await signAccountDownload(context, view, requireAttachmentId(visit), query));
    // On the address that the browser uses, so that pictures are of the page's own origin.
    return moved(`${pathname}${search}`);
  });
}

function requireAttachmentId({ part }: Visit): string {
  const id = part('attachment_id');
  if (!isId('attachment', id)) throw new ServiceError('NOT_FOUND');
  return id;
}

export async function requireSeen(visit: Visit, view: Query): Promise<SeenSession> {
  const { account, part } = visit;
  const id = part('session_id');
  const seen = isId('session', id) ? await findSeenSession(view, account.id, id, readAgent(visit)) : undefined;
  if (seen === undefined) throw new ServiceError('NOT_FOUND');
  return seen;
}

/** The query of a page in this view: `?as=planner`, or empty for the view of the account. */
export function queryOf({ agent }: Pick<AccountView, 'agent'>): string {
  return agent === undefined ? '' : `?as=${splitHandle(agent.handle).name}`;
}

/** The agent whose view the address asks for. */
export function readAgent({ account, query }: Pick<Visit, 'account' | 'query'>): string | undefined {
  const name = query.one('as');
  return name === undefined ? undefined : `@${account.username}.${name}`;
}

/** The address of an event shows it in the middle of a page. */
function readBefore(query: Parameters): number {
  const around = readSequence(query.one('around'));
  if (around !== undefined) return around + PER_PAGE / 2;
  return readSequence(query.one('before')) ?? Number.MAX_SAFE_INTEGER;
}

/** Invalid numbers are ignored. */
export function readSequence(text: string | undefined): number | undefined {
  return text !== undefined && SEQUENCE.test(text) ? Number(text) : undefined;
}
