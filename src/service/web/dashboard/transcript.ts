import { isMessageEvent } from '../../../wire/event.js';
import { splitHandle } from '../../../wire/handle.js';
import { isId } from '../../../wire/id.js';
import { attachmentIdOf, findInReplyTo, IN_REPLY_TO } from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Message } from '../../../wire/schemas/message.js';
import type { Session } from '../../../wire/schemas/session.js';
import { signAccountDownload } from '../../attachments/attachments.js';
import type { Query } from '../../core/database.js';
import { ServiceError } from '../../core/errors.js';
import {
  type AccountView,
  findAccountView,
  lastVisibleTo,
  readAccountRows,
  toEnvelope,
  toVisibleEvents,
} from '../../messaging/events.js';
import { viewSession } from '../../messaging/list-sessions.js';
import type { Parameters } from '../../oauth/parameters.js';
import type { ReadEventRow } from '../../store/events.js';
import { listParticipants } from '../../store/participants.js';
import { TRANSCRIPT_SCRIPT } from '../assets.js';
import { FILE, type Html, html, PICTURE, renderAgentFace, strangersText, strangersWords } from '../html.js';
import { dayOf, renderClock, renderDay, renderTime } from '../time.js';
import {
  type Answered,
  type Composer,
  DASHBOARD,
  findRoles,
  renderComposer,
  renderManage,
  SENT_BY,
  type Typed,
} from './compose.js';
import { type NoteName, renderNote, renderTrail, type View } from './frame.js';
import { renderMarkdown } from './markdown.js';
import { markSeen, pathOfSession, renderState, renderTopic } from './sessions.js';
import { createFormKey, type DashboardAnswer, moved, page, type Refusal, refused, type Visit } from './visit.js';

/** Of one text. */
const SHOWN_MAX_LENGTH = 2_000;
const SHORT_DATA_LENGTH = 240;
/** Deeper than people read; indentation would take far more space than the content. */
const LAID_OUT_DEPTH_MAX = 8;
/** Of one message among others. */
const SHOWN_PARTS_MAX = 20;
/** Types that browsers show as pictures and never as documents. */
const SHOWN_PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

/** Characters that reverse, hide or join text; joiners of scripts and emoji are kept. */
const DECEPTIVE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A stranger's text over several lines. */
function plainText(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(DECEPTIVE, '');
}

interface PartsPlace {
  readonly path: string;
  readonly sequence: number;
  readonly isWhole: boolean;
}

/** Members that any part may have. */
interface AnyPart {
  readonly type: string;
  readonly text?: string;
  readonly data?: unknown;
  readonly attachment_id?: string;
  readonly file_id?: string;
  readonly url?: string;
  readonly data_uri?: string;
  readonly name?: string;
  readonly mime_type?: string;
  readonly size?: number;
  readonly size_bytes?: number;
}

/** The content of a message, part by part. All of it was written by a stranger. */
export function renderParts(content: Message['content'], place: PartsPlace): Html {
  if (typeof content === 'string') return renderText(content, place);
  const shown = place.isWhole ? content : content.slice(0, SHOWN_PARTS_MAX);
  const isCut = shown.length < content.length;
  return html`${shown.map((part) => renderPart(part as AnyPart, place))}${isCut && renderRest(`Show all ${content.length} parts`, place)}`;
}

/** The metadata of a message. */
export function renderMetadata(metadata: object, place: PartsPlace): Html {
  return renderFolded('Metadata', metadata, place);
}

function renderPart(part: AnyPart, place: PartsPlace): Html {
  if (part.type === 'text') return renderText(part.text ?? '', place);
  if (part.type === 'file') return renderFile(part, place, FILE, 'File');
  if (part.type === 'image') return renderPicture(part, place);
  return renderData(part.type === 'data' ? part.data : part, part.type, place);
}

function renderText(text: string, place: PartsPlace): Html {
  const { shown, rest } = cut(text, place);
  return html`${renderMarkdown(shown)}${rest}`;
}

function renderData(data: unknown, type: string, place: PartsPlace): Html {
  return renderFolded(type === 'data' ? 'Data' : strangersText(type), data, place, SHORT_DATA_LENGTH);
}

/** JSON, expanded if it is short. */
function renderFolded(summary: Html | string, data: unknown, place: PartsPlace, openLength = 0): Html {
  const { shown, rest } = cut(layOut(data, place), place);
  const isOpen = (place.isWhole && openLength > 0) || shown.length <= openLength;
  return html`<details class="folded"${isOpen && html` open`}><summary>${summary}</summary><pre tabindex="0" dir="auto">${shown}</pre>${rest}</details>`;
}

/** Indented if that helps a reader, and fits. */
function layOut(data: unknown, { isWhole }: PartsPlace): string {
  const plain = JSON.stringify(data);
  const isShort = isWhole || plain.length <= SHOWN_MAX_LENGTH;
  return isShort && isWithin(LAID_OUT_DEPTH_MAX, data) ? JSON.stringify(data, null, 2) : plain;
}

function isWithin(depth: number, data: unknown): boolean {
  if (typeof data !== 'object' || data === null) return true;
  return depth > 0 && Object.values(data).every((value) => isWithin(depth - 1, value));
}

/** The beginning of a long text, with a link to a page for the rest. */
function cut(given: string, place: PartsPlace): { shown: string; rest: Html | undefined } {
  const text = plainText(given);
  if (place.isWhole || text.length <= SHOWN_MAX_LENGTH) return { shown: text, rest: undefined };
  const shown = text.slice(0, SHOWN_MAX_LENGTH).replace(/[\uD800-\uDBFF]$/, '');
  return { shown: `${shown}…`, rest: renderRest(`Show all ${text.length} characters`, place) };
}

function renderRest(label: string, { path, sequence }: PartsPlace): Html {
  return html`<p class="small"><a class="aside-link" href="${path}/events/${sequence}">${label}</a></p>`;
}

function renderPicture(part: AnyPart, place: PartsPlace): Html {
  const { data_uri: uri, name = 'Image' } = part;
  if (uri === undefined) return renderFile(part, place, PICTURE, 'Image');
  if (!SHOWN_PICTURE.test(uri))
    return html`<p class="soft small">An image that is not shown: ${strangersText(name)}</p>`;
  return html`<img class="picture" src="${uri}" alt="${plainText(name)}">`;
}

/** A download from an address that is signed when someone follows the link, or an external address. */
function renderFile(part: AnyPart, { path }: PartsPlace, icon: Html, kind: string): Html {
  const { url = '', name, mime_type: type, size = part.size_bytes } = part;
  const id = attachmentIdOf(part);
  const facts = [type, size === undefined ? undefined : sizeInWords(size)].filter((fact) => fact !== undefined);
  if (id !== undefined)
    return html`<a class="file" href="${path}/attachments/${id}">${icon}<span class="who"><b>${strangersText(name ?? kind)}</b><span class="soft small">${facts.join(' · ')}</span></span></a>`;
  if (!URL.canParse(url)) return html`<p class="soft small">${kind} without an address</p>`;
  const host = new URL(url).host;
  return html`<a class="file" href="${url}" target="_blank" rel="noopener noreferrer nofollow">${icon}<span class="who"><b>${strangersText(name ?? kind)}</b><span class="soft small">External file · <bdi>${host}</bdi>${facts.length > 0 && ` · ${facts.join(' · ')}`}</span></span></a>`;
}

function sizeInWords(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

/** The position of an entry, and who is viewing it. */
export interface EntryPlace {
  /** Of the session's page. */
  readonly path: string;
  readonly username: string;
  /**
   * Up to this event the viewer sees messages as events of their own; after it, the first message appears inside an
   * invitation.
   */
  readonly through: number;
  /** Whether one of the viewer's agents can write now. */
  readonly canReply?: boolean;
  /** The messages on the same page, by their ids. */
  readonly known?: ReadonlyMap<string, Pick<Message, 'sequence' | 'sender'>>;
  /** All of a long text, or its beginning with a link to the rest. */
  readonly isWhole?: boolean;
}

/** One event of a session, as an item of its list. */
export interface Entry {
  readonly sequence: number;
  readonly createdAt: number;
  readonly item: Html;
}

/** The events of a page, or of a part of it. */
export function renderEntries(events: readonly EventEnvelope[], place: EntryPlace): Entry[] {
  const known = new Map(events.filter(isMessageEvent).map(({ payload }) => [payload.id, payload]));
  return events.map((event) => renderEntry(event, { ...place, known }));
}

/** Each entry is complete on its own, because it may arrive alone. */
export function renderEntry(event: EventEnvelope, place: EntryPlace): Entry {
  const { sequence, created_at: createdAt } = event;
  const item = isMessageEvent(event) ? renderSaid(event, event.payload, place) : renderHappening(event, place);
  return { sequence, createdAt, item };
}

function renderSaid(event: EventEnvelope, message: Message, place: EntryPlace): Html {
  const { sender, metadata } = message;
  const isOwn = sender.startsWith(`@${place.username}.`);
  const reply =
    place.canReply === true &&
    html` <a class="reply" href="${place.path}?reply=${event.sequence}#composer">Reply<span class="hidden-label"> to message ${event.sequence}</span></a>`;
  const mark = metadata?.[SENT_BY] === DASHBOARD && html` <span class="soft small">via dashboard</span>`;
  return renderItem(
    event,
    `said${isOwn ? ' own' : ''}`,
    html`${renderAgentFace(sender, 'small')}<div class="saying"><p class="by"><b class="mono">${sender}</b> ${renderMoment(event, place)}${mark}${reply}</p>${renderReference(message, place)}${renderBubble(event, message, place)}</div>`,
    message.id,
  );
}

/** The message that this one answers. The page's script finds those that this part of the page does not hold. */
function renderReference(message: Message, { path, known }: EntryPlace): Html | undefined {
  const id = findInReplyTo(message);
  if (id === undefined || !isId('message', id)) return undefined;
  const answered = known?.get(id);
  if (answered === undefined)
    return html`<p class="re soft small" data-re="${id}">In reply to <span>an earlier message</span></p>`;
  const { sequence, sender } = answered;
  return html`<p class="re soft small">In reply to <a href="${path}?around=${sequence}#e${sequence}">${sender}, message ${sequence}</a></p>`;
}

function renderBubble({ sequence }: EventEnvelope, { content, metadata }: Message, place: EntryPlace): Html {
  const { path, isWhole = false } = place;
  const parts = { path, sequence, isWhole };
  const shown = metadata && withoutMarks(metadata);
  return html`<div class="bubble">${renderParts(content, parts)}${shown !== undefined && renderMetadata(shown, parts)}</div>`;
}

/** Metadata without the members that the page puts into words; undefined: none is left. */
function withoutMarks(metadata: object): object | undefined {
  const entries = Object.entries(metadata).filter(
    ([name, value]) =>
      !(name === SENT_BY && value === DASHBOARD) && !(name === IN_REPLY_TO && isId('message', String(value))),
  );
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

function renderHappening(event: EventEnvelope, place: EntryPlace): Html {
  const { initial_message: first } = event.payload as { initial_message?: Message };
  const message = first !== undefined && event.sequence > place.through && renderBubble(event, first, place);
  return renderItem(
    event,
    'happening',
    html`<div class="saying"><p class="by"><span>${describe(event)}</span> ${renderMoment(event, place)}</p>${message}</div>`,
  );
}

function renderItem({ sequence }: EventEnvelope, kind: string, body: Html, messageId?: string): Html {
  return html`<li class="entry ${kind}" id="e${sequence}" data-sequence="${sequence}"${messageId !== undefined && html` data-message="${messageId}"`}>${body}</li>`;
}

/** The time of an event links to its address, which stays valid as the session grows. */
function renderMoment({ sequence, created_at: at }: EventEnvelope, { path }: EntryPlace): Html {
  return html`<a class="at" href="${path}?around=${sequence}#e${sequence}">${renderClock(at)}</a>`;
}

/** What happened, as a sentence. */
function describe({ type, payload }: EventEnvelope): Html {
  const who = (name: string): Html => html`<b class="mono">${String(payload[name] ?? 'someone')}</b>`;
  switch (type) {
    case 'session.invited':
      return html`${who('by')} invited ${who('invitee')}`;
    case 'session.joined':
      return html`${who('agent')} joined`;
    case 'session.left':
      return payload['reason'] === 'grace_expired'
        ? html`${who('agent')} left after being offline too long`
        : html`${who('agent')} left`;
    case 'session.ended':
      return html`${who('ended_by')} ended the session`;
    case 'session.reopened':
      return html`${who('reopened_by')} reopened the session`;
    case 'session.disconnected':
      return html`${who('agent')} lost its connection`;
    case 'session.reconnected':
      return html`${who('agent')} is connected again`;
    default:
      return html`<span class="mono">${type}</span>`;
  }
}

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
}

export function renderTranscript(transcript: TranscriptPage): View {
  const { session, path, entries, isNewest } = transcript;
  const last = entries.at(-1);
  const live = html` data-live="${path}/live" data-after="${last?.sequence ?? 0}"`;
  const main = html`<div class="stack transcript">${renderTrail('Sessions', '/dashboard/sessions')}
${isNewest && html`<noscript><a href="#end">Go to the newest message</a></noscript>`}<div id="head">${renderSessionHead(session, transcript, transcript.now)}</div>
<div id="managing">${transcript.managing}</div>
<section class="log" id="log" role="log" aria-label="Transcript"${isNewest && live}>
${renderEarlier(transcript)}
${renderList(entries)}
${entries.length === 0 && html`<p class="soft" id="nothing">No messages visible to your agents yet.</p>`}
</section>
<p id="end"></p>
${isNewest ? renderLiveState(path) : renderLater(transcript)}
${renderNote(transcript.note)}${isNewest && renderComposer(transcript.composer)}</div>`;
  const title = strangersWords(session.topic ?? session.participants.map(({ handle }) => handle).join(', '));
  return { title, section: 'sessions', main, ...(isNewest && { script: TRANSCRIPT_SCRIPT }) };
}

const PEOPLE_IN_HEAD = 5;
const PEOPLE_IN_LIST = 200;

/** The part of the page that can change while someone views the session. */
export function renderSessionHead(
  session: Session,
  { ownAgents, username }: Pick<TranscriptPage, 'ownAgents' | 'username'>,
  now: number,
): Html {
  const { participants } = session;
  const isOwn = (handle: string): boolean => ownAgents.some((agent) => agent.handle === handle);
  const more = participants.length - PEOPLE_IN_HEAD;
  return html`<div class="session-head"><div class="between"><h1>${renderTopic(session)}</h1>${renderState(session, username)}</div>
<ul class="people" aria-label="Participants">${participants
    .slice(0, PEOPLE_IN_HEAD)
    .map(
      ({ handle, status }) =>
        html`<li class="${CLASS_OF[status]}"><span class="mono">${handle}</span>${isOwn(handle) && html` <span class="soft">yours</span>`}${STATUS_WORD[status] !== '' && html` <span class="soft">${STATUS_WORD[status]}</span>`}</li>`,
    )}${more > 0 && html`<li class="in">and ${more} more</li>`}</ul>
<p class="soft small">Began ${renderTime(session.created_at, now)}${session.ended_at !== null && html`, ended ${renderTime(session.ended_at, now)}`} · <span class="mono take-id">${session.id}</span></p></div>`;
}

const CLASS_OF = { joined: 'in', invited: 'asked', left: 'gone' } as const;

/** Everyone in the session, with what their owner or this account can do about them. */
function renderPeople({ participants, id }: Session, ownAgents: readonly OwnAgent[]): Html {
  const rows = participants.slice(0, PEOPLE_IN_LIST).map(({ handle, status }) => {
    const own = ownAgents.find((agent) => agent.handle === handle);
    const trust = `${pathOfSession(id)}/trust?handle=${encodeURIComponent(handle)}`;
    const action =
      own === undefined
        ? html`<a class="aside-link" href="${trust}">Block or allow…<span class="hidden-label"> ${handle}</span></a>`
        : own.path !== undefined &&
          html`<a class="aside-link" href="${own.path}">Settings<span class="hidden-label"> of ${handle}</span></a>`;
    return html`<li class="between"><span><span class="mono wrap">${handle}</span> <span class="soft">${own !== undefined && 'yours '}${status}</span></span>${action}</li>`;
  });
  const more = participants.length - rows.length;
  return html`<ul class="members small">${rows}${more > 0 && html`<li class="soft">and ${more} more</li>`}</ul>`;
}

/** Who takes part, and what a participant can change about the session. */
export function renderManaging(seen: SeenSession, composer: Composer): Html {
  const { session } = seen;
  const count = session.participants.length;
  const summary = `${count} ${count === 1 ? 'participant' : 'participants'}${composer.joined.length > 0 ? ', invite, end or leave' : ''}`;
  return renderManage(composer, summary, renderPeople(session, listOwnAgents(seen)));
}

/** Each day begins with its date. */
function renderList(entries: readonly Entry[]): Html {
  const items = entries.map(({ createdAt, item }, index) => {
    const before = entries[index - 1];
    const isNewDay = before === undefined || dayOf(before.createdAt) !== dayOf(createdAt);
    return html`${isNewDay && html`<li class="day"><span>${renderDay(createdAt)}</span></li>`}${item}`;
  });
  return html`<ol class="entries">${items}</ol>`;
}

function renderEarlier({ entries, hasEarlier, path }: TranscriptPage): Html {
  const [first] = entries;
  const isThere = hasEarlier && first !== undefined;
  const before = first?.sequence ?? 0;
  return html`<p class="earlier" id="earlier" data-path="${path}"${!isThere && html` hidden`}><a class="button plain small-button" href="${path}?before=${before}#end">Earlier</a></p>`;
}

function renderLater({ entries, path, pageSize }: TranscriptPage): Html {
  const last = entries.at(-1);
  const later = last === undefined ? 0 : last.sequence + pageSize + 1;
  return html`<nav class="pager" aria-label="Pages">${last !== undefined && html`<a class="button plain" href="${path}?before=${later}">Later</a>`}<a class="button plain" href="${path}">Newest</a></nav>`;
}

/** Without the script this says how to see new messages; the script chooses which of the other texts to show. */
function renderLiveState(path: string): Html {
  return html`<div class="live-bar"><a class="button primary jump" id="jump" href="#end" hidden></a>
<p class="live" id="live" role="status"><span class="still"><a href="${path}">Reload for new messages</a></span>
<span class="on">Live</span><span class="slow">Updates every few seconds</span><span class="off">Connecting…</span>
<span class="signed-out">Updates stopped because you are signed out. <a href="${path}">Sign in</a></span>
<span class="gone">Updates stopped because this session is no longer available.</span></p></div>`;
}

/** One event with all of its text. */
export function renderWholeEvent(session: Session, path: string, entry: Entry): View {
  const main = html`<div class="stack transcript">${renderTrail('Transcript', path)}
<h1>${renderTopic(session)}</h1>
${renderList([entry])}</div>`;
  return { title: 'One message', section: 'sessions', main };
}

const WIDENING = 16;
/** For one page: the events must be read first, and fifty large, deeply nested messages take seconds. */
const READ_MAX_CHARACTERS = 512 * 1024;

/** The last visible events of a part of the log. */
export interface Latest {
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
    const last = lastOf(rows, count);
    return { events: last.map(toEnvelope), hasEarlier: last.length < rows.length };
  }
}

function lastOf(rows: readonly ReadEventRow[], count: number): ReadEventRow[] {
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

/** Undefined: there is no such session, or none of the account's agents ever took part in it. */
export async function findSeenSession(
  query: Query,
  accountId: string,
  sessionId: string,
): Promise<SeenSession | undefined> {
  const view = await findAccountView(query, accountId, sessionId);
  if (view === undefined) return undefined;
  const [row] = view.participations;
  const facts = {
    id: row.session_id,
    state: row.session_state,
    topic: row.topic,
    created_at: row.session_created_at,
    ended_at: row.ended_at,
  };
  return { view, session: viewSession(facts, await listParticipants(query, row.session_id)) };
}

const PER_PAGE = 50;
const SEQUENCE = /^[1-9]\d{0,14}$/;

/** How this account sees events of a session. */
export function placeOfEntries({ session, view }: SeenSession, username: string): EntryPlace {
  const canReply = findRoles(view).writers.length > 0;
  return { path: pathOfSession(session.id), username, through: view.through, canReply };
}

/** The account's own agents among the participants; a removed agent no longer has a page. */
export function listOwnAgents({ view }: SeenSession): OwnAgent[] {
  return view.participations.map(({ handle, agent_removed_at: removedAt }) => ({
    handle,
    path: removedAt === null ? `/dashboard/agents/${splitHandle(handle).name}` : undefined,
  }));
}

export function showTranscript(visit: Visit): Promise<DashboardAnswer> {
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
  let last = 0;
  const shown = await context.database.read(async (view) => {
    const seen = await requireSeen(visit, view);
    const answered = replyTo === undefined ? undefined : await findAnswered(view, seen.view, replyTo);
    const place = placeOfEntries(seen, account.username);
    const asked = { before, count: PER_PAGE };
    const { events, hasEarlier } = await readLatest(view, seen.view, asked);
    last = events.at(-1)?.sequence ?? 0;
    const composer = composerFor(visit, seen, typed, answered);
    const shown = renderTranscript({
      session: seen.session,
      ownAgents: listOwnAgents(seen),
      username: account.username,
      path: place.path,
      entries: renderEntries(events, place),
      hasEarlier,
      pageSize: PER_PAGE,
      isNewest: before > lastVisibleTo(seen.view),
      now: context.clock.now(),
      note: visit.note,
      composer,
      managing: renderManaging(seen, composer),
    });
    return refusal === undefined ? page(shown) : refused(shown, refusal);
  });
  await markSeen(context, account.id, visit.part('session_id'), last);
  return shown;
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
  return { ...findRoles(view), path: pathOfSession(session.id), csrf, key, typed, answered, isEnded };
}

/** The message that a reply answers; undefined: the account sees no message there. */
export async function findAnswered(query: Query, view: AccountView, sequence: number): Promise<Answered | undefined> {
  const event = await findEvent(query, view, sequence);
  if (event === undefined || !isMessageEvent(event)) return undefined;
  const { id, sender, content } = event.payload;
  const text = typeof content === 'string' ? content : textsIn(content);
  return { sequence, id, sender, text };
}

function textsIn(content: readonly object[]): string {
  const texts = content.map((part) => ('text' in part ? String(part.text) : ''));
  return texts.find((text) => text !== '') ?? 'an attachment';
}

/** One event, if the account may see it. */
async function findEvent(query: Query, view: AccountView, sequence: number): Promise<EventEnvelope | undefined> {
  const { events } = toVisibleEvents(await readAccountRows(query, view, sequence - 1, 1));
  return events[0]?.sequence === sequence ? events[0] : undefined;
}

/** One event with all of its text. */
export async function showEvent(visit: Visit): Promise<DashboardAnswer> {
  const sequence = readSequence(visit.part('sequence')) ?? 0;
  return visit.context.database.read(async (view) => {
    const seen = await requireSeen(visit, view);
    const event = await findEvent(view, seen.view, sequence);
    if (event === undefined) throw new ServiceError('NOT_FOUND');
    const place = placeOfEntries(seen, visit.account.username);
    const entry = renderEntry(event, { ...place, isWhole: true });
    return page(renderWholeEvent(seen.session, place.path, entry));
  });
}

/** Redirects to a newly signed address, if the viewer may see the message now. */
export async function fetchAttachment(visit: Visit): Promise<DashboardAnswer> {
  const { context } = visit;
  return context.database.read(async (query) => {
    const { view } = await requireSeen(visit, query);
    return moved(await signAccountDownload(context, view, requireAttachmentId(visit), query));
  });
}

function requireAttachmentId({ part }: Visit): string {
  const id = part('attachment_id');
  if (!isId('attachment', id)) throw new ServiceError('NOT_FOUND');
  return id;
}

export async function requireSeen({ account, part }: Visit, view: Query): Promise<SeenSession> {
  const id = part('session_id');
  const seen = isId('session', id) ? await findSeenSession(view, account.id, id) : undefined;
  if (seen === undefined) throw new ServiceError('NOT_FOUND');
  return seen;
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
