import { formatBytes } from '../../../kit/format.js';
import { isMessageEvent } from '../../../wire/event.js';
import { isId } from '../../../wire/id.js';
import {
  AWAITS_REPLY,
  CHAT,
  CHOICES,
  DASHBOARD,
  findInReplyTo,
  getAttachmentId,
  IN_REPLY_TO,
  listAttachmentIds,
  listChoices,
  SENT_BY,
} from '../../../wire/message.js';
import type { EventEnvelope } from '../../../wire/schemas/event.js';
import type { Message } from '../../../wire/schemas/message.js';
import { measurePictures, type PictureSize, readPictureSize } from '../../attachments/picture-size.js';
import type { ServiceContext } from '../../core/context.js';
import { exactText, FILE, type Html, html, PICTURE, renderAgentFace, strangersLines, strangersText } from '../html.js';
import { renderClock } from '../time.js';
import { type ColorCode, prepareCode, renderMarkdown } from './markdown.js';

/** Of one text. */
const SHOWN_MAX_LENGTH = 2_000;
const SHORT_DATA_LENGTH = 240;
/** Of all data of one message: as a tree it takes several times as much markup. */
const TREE_VALUES_MAX = 300;
const TREE_CHARACTERS_MAX = 4_000;
/** Deeper than people read; indentation would take far more space than the content. */
const LAID_OUT_DEPTH_MAX = 8;
/** Of one message among others. */
const SHOWN_PARTS_MAX = 20;
const DATA_URI_HEAD_LENGTH = 64 * 1024;
/** The supported attachment types that are pictures. Their bytes were checked for the type's signature. */
const SHOWN_ATTACHMENT = new Set(['image/png', 'image/jpeg', 'image/gif']);
/** Types that browsers show as pictures and never as documents. */
const SHOWN_PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

/**
 * The most pixels that the pictures of one message can have together. A few kilobytes can hold billions of pixels, and a
 * browser needs four bytes for each one. Without a limit, a stranger could make the page of a session unusable.
 */
const PIXELS_MAX = 32_000_000;

/** How many pixels more a message may show. */
interface Room {
  pixels: number;
}

/** Whether a picture of this size is shown. */
function takeRoom(room: Room, size: PictureSize | undefined): size is PictureSize {
  const pixels = size === undefined ? Number.POSITIVE_INFINITY : size.width * size.height;
  if (pixels > room.pixels) return false;
  room.pixels -= pixels;
  return true;
}

interface PartsContext {
  /** Whether the message has little enough data to show as a tree. */
  readonly hasTrees?: boolean;
  /** The sizes of the attachments that can be shown. */
  readonly pictures?: ReadonlyMap<string, PictureSize> | undefined;
  readonly colorCode?: ColorCode | undefined;
  readonly path: string;
  readonly viewQuery?: string | undefined;
  readonly sequence: number;
  readonly isWhole: boolean;
  readonly isRaw: boolean;
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
function renderParts(content: Message['content'], where: PartsContext): Html {
  if (typeof content === 'string') return renderText(content, where);
  const shown = where.isWhole ? content : content.slice(0, SHOWN_PARTS_MAX);
  const isCut = shown.length < content.length;
  const room = { pixels: PIXELS_MAX };
  return html`${shown.map((part) => renderPart(part as AnyPart, where, room))}${isCut && renderRest(`Show all ${content.length} parts`, where)}`;
}

/** The metadata of a message. */
function renderMetadata(metadata: object, where: PartsContext): Html {
  return renderFolded('Metadata', metadata, where);
}

function renderPart(part: AnyPart, where: PartsContext, room: Room): Html {
  if (part.type === 'text') return renderText(part.text ?? '', where);
  if (part.type === 'file') return renderFile(part, where, FILE, 'File');
  if (part.type === 'image') return renderPicture(part, where, room);
  return renderData(part.type === 'data' ? part.data : part, part.type, where);
}

function renderText(text: string, where: PartsContext): Html {
  if (where.isRaw) return renderRaw(text);
  const { shown, rest } = cut(text, where);
  return html`${renderMarkdown(shown, where.colorCode)}${rest}`;
}

const renderRaw = (text: string): Html =>
  html`<div class="code raw"><p class="between small soft"><span>As sent</span><button type="button" class="copy">Copy</button></p><pre tabindex="0" dir="auto"><code>${exactText(text)}</code></pre></div>`;

function renderData(data: unknown, type: string, where: PartsContext): Html {
  return renderFolded(type === 'data' ? 'Data' : strangersText(type), data, where, SHORT_DATA_LENGTH);
}

/** JSON, expanded if it is short: as a tree whose branches fold if it is small enough, otherwise as text. */
function renderFolded(summary: Html | string, data: unknown, where: PartsContext, openLength = 0): Html {
  const plain = JSON.stringify(data);
  const isOpen = openLength > 0 && (where.isWhole || plain.length <= openLength);
  const isTree = where.hasTrees === true && isWithin(LAID_OUT_DEPTH_MAX, data);
  return html`<details class="folded"${isOpen && html` open`}><summary>${summary}</summary>${isTree ? renderTree(data) : renderPlainJson(data, where)}</details>`;
}

function renderPlainJson(data: unknown, where: PartsContext): Html {
  const { shown, rest } = cut(layOut(data, where), where);
  return html`<pre tabindex="0" dir="auto">${shown}</pre>${rest}`;
}

function isSmall(value: unknown): boolean {
  return JSON.stringify(value).length <= TREE_CHARACTERS_MAX && countValues(value, TREE_VALUES_MAX) <= TREE_VALUES_MAX;
}

/** Stops soon after the maximum. */
function countValues(value: unknown, max: number): number {
  if (typeof value !== 'object' || value === null) return 1;
  let count = 1;
  for (const inner of Object.values(value)) {
    if (count > max) break;
    count += countValues(inner, max - count);
  }
  return count;
}

/** One level of a tree. Names and texts come from a stranger. */
function renderTree(value: unknown): Html {
  if (typeof value !== 'object' || value === null) return html`<p class="tree mono">${renderLeaf(value)}</p>`;
  const entries = Object.entries(value);
  return html`<ul class="tree mono" dir="ltr">${entries.map(([name, inner]) => html`<li>${renderBranch(strangersLines(name), inner)}</li>`)}</ul>`;
}

function renderBranch(name: string, value: unknown): Html {
  const count = typeof value === 'object' && value !== null ? Object.keys(value).length : 0;
  if (count === 0) return html`<span class="soft"><bdi>${name}</bdi>:</span> ${renderLeaf(value)}`;
  const [open, close] = Array.isArray(value) ? '[]' : '{}';
  return html`<details><summary><bdi>${name}</bdi>: <span class="soft">${open}${count}${close}</span></summary>${renderTree(value)}</details>`;
}

function renderLeaf(value: unknown): Html {
  return html`<bdi>${strangersLines(JSON.stringify(value))}</bdi>`;
}

/** Indented if that helps a reader, and fits. */
function layOut(data: unknown, { isWhole }: PartsContext): string {
  const plain = JSON.stringify(data);
  const isShort = isWhole || plain.length <= SHOWN_MAX_LENGTH;
  return isShort && isWithin(LAID_OUT_DEPTH_MAX, data) ? JSON.stringify(data, null, 2) : plain;
}

function isWithin(depth: number, data: unknown): boolean {
  if (typeof data !== 'object' || data === null) return true;
  return depth > 0 && Object.values(data).every((value) => isWithin(depth - 1, value));
}

/** The beginning of a long text, with a link to a page for the rest. */
function cut(given: string, where: PartsContext): { shown: string; rest: Html | undefined } {
  const text = strangersLines(given);
  if (where.isWhole || text.length <= SHOWN_MAX_LENGTH) return { shown: text, rest: undefined };
  const shown = text.slice(0, SHOWN_MAX_LENGTH).replace(/[\uD800-\uDBFF]$/, '');
  return { shown: `${shown}…`, rest: renderRest(`Show all ${text.length.toLocaleString('en-US')} characters`, where) };
}

function renderRest(label: string, where: PartsContext): Html {
  return html`<p class="small"><a class="aside-link whole-link" data-back="Show less" href="${pathOfEvent(where, where.sequence)}">${label}</a></p>`;
}

function renderPicture(part: AnyPart, where: PartsContext, room: Room): Html {
  const { data_uri: uri, name = 'Image', mime_type: type = '' } = part;
  const id = getAttachmentId(part);
  const size = where.pictures?.get(id ?? '');
  if (id !== undefined && SHOWN_ATTACHMENT.has(type) && takeRoom(room, size)) {
    const path = `${where.path}/attachments/${id}`;
    return html`<a class="picture-link" href="${path}"><img class="picture" src="${path}" alt="${strangersLines(name)}" loading="lazy" decoding="async"${renderSize(size)}></a>`;
  }
  if (uri === undefined) return renderFile(part, where, PICTURE, 'Image');
  const ownSize = SHOWN_PICTURE.test(uri) ? measureDataUri(uri) : undefined;
  if (!takeRoom(room, ownSize)) return html`<p class="soft small">Image not shown: ${strangersText(name)}</p>`;
  return html`<img class="picture" src="${uri}" alt="${strangersLines(name)}" decoding="async"${renderSize(ownSize)}>`;
}

/** Room for a picture that has not arrived yet, so that the page does not move when it does. */
function renderSize({ width, height }: PictureSize): Html {
  return html` width="${width}" height="${height}"`;
}

/** The first part of the picture is enough. */
function measureDataUri(uri: string): PictureSize | undefined {
  const begin = uri.indexOf(',') + 1;
  return readPictureSize(Buffer.from(uri.slice(begin, begin + DATA_URI_HEAD_LENGTH), 'base64'));
}

/** A download from an address that is signed when someone follows the link, or an external address. */
function renderFile(part: AnyPart, { path }: PartsContext, icon: Html, kind: string): Html {
  const { url = '', name, mime_type: type, size = part.size_bytes } = part;
  const id = getAttachmentId(part);
  const facts = [type, size === undefined ? undefined : formatBytes(size)].filter((fact) => fact !== undefined);
  if (id !== undefined)
    return html`<a class="file" href="${path}/attachments/${id}">${icon}<span class="who"><b>${strangersText(name ?? kind)}</b><span class="soft small">${facts.join(' · ')}</span></span></a>`;
  if (!URL.canParse(url)) return html`<p class="soft small">${kind} without an address</p>`;
  const host = new URL(url).host;
  return html`<a class="file" href="${url}" target="_blank" rel="noopener noreferrer nofollow">${icon}<span class="who"><b>${strangersText(name ?? kind)}</b><span class="soft small">External file · <bdi>${host}</bdi>${facts.length > 0 && ` · ${facts.join(' · ')}`}</span></span></a>`;
}

/** The position of an entry, and who is viewing it. */
export interface EntryContext {
  /** Of the session's page. */
  readonly path: string;
  /** The query that keeps other pages in the same view: `?as=planner`, or empty. */
  readonly viewQuery?: string | undefined;
  /** Undefined: someone without an account here, who gets no page of details. */
  readonly username: string | undefined;
  /**
   * Up to this event the viewer sees messages as events of their own; after it, the first message appears inside an
   * invitation.
   */
  readonly through: number;
  /** The viewer's agents that can write now. Undefined: no one can write on this page. */
  readonly writers?: readonly string[];
  /** The viewer's agents that can join now, in order to answer a question. */
  readonly invited?: readonly string[];
  /** The messages on the same page that another agent has answered there. */
  readonly answered?: ReadonlySet<string>;
  /** The messages on the same page, by their ids. */
  readonly known?: ReadonlyMap<string, Pick<Message, 'sequence' | 'sender'>>;
  /** The sizes of the attachments that can be shown as pictures, by their ids. */
  readonly pictures?: ReadonlyMap<string, PictureSize>;
  /** Highlights the code in messages. */
  readonly colorCode?: ColorCode | undefined;
  /** All of a long text, or its beginning with a link to the rest. */
  readonly isWhole?: boolean;
  /** Texts as they were sent, or formatted. A page for paper offers no choice. */
  readonly isRaw?: boolean;
}

type ViewAddress = Pick<EntryContext, 'path' | 'viewQuery'>;

/** The address of a page in the same view, with a parameter. */
export const addressIn = ({ path, viewQuery = '' }: ViewAddress, parameter: string): string =>
  `${path}${viewQuery === '' ? '?' : `${viewQuery}&`}${parameter}`;

/** The address that shows an event among those around it. */
export const addressOfEvent = (where: ViewAddress, sequence: number): string =>
  `${addressIn(where, `around=${sequence}`)}#e${sequence}`;

const pathOfEvent = ({ path, viewQuery = '' }: ViewAddress, sequence: number): string =>
  `${path}/events/${sequence}${viewQuery}`;

/** One event of a session, as an item of its list. */
export interface Entry {
  readonly event: EventEnvelope;
  readonly where: EntryContext;
}

/** The events of a page, or of a part of it. */
export function toEntries(events: readonly EventEnvelope[], where: EntryContext): Entry[] {
  const messages = events.filter(isMessageEvent).map(({ payload }) => payload);
  const known = new Map(messages.map((message) => [message.id, message]));
  const answers = messages.flatMap((message) => {
    const question = known.get(findInReplyTo(message) ?? '');
    return question === undefined || question.sender === message.sender ? [] : [question.id];
  });
  return events.map((event) => ({ event, where: { ...where, known, answered: new Set(answers) } }));
}

/** Each entry is complete on its own, because it may arrive alone; after another entry it can be shorter. */
export function renderEntry({ event, where }: Entry, before?: EventEnvelope): Html {
  return isMessageEvent(event)
    ? renderMessage(event, event.payload, where, before)
    : renderHappening(event, where, before);
}

const GROUP_MS = 5 * 60_000;

/** Whether a message directly follows another one from the same sender. */
function isContinued(event: EventEnvelope, before: EventEnvelope | undefined): boolean {
  if (before === undefined || !isMessageEvent(event) || !isMessageEvent(before)) return false;
  return before.payload.sender === event.payload.sender && event.created_at - before.created_at < GROUP_MS;
}

function renderMessage(
  event: EventEnvelope,
  message: Message,
  where: EntryContext,
  before: EventEnvelope | undefined,
): Html {
  const { sender, metadata } = message;
  const { username, writers = [] } = where;
  const { sequence } = event;
  const reply =
    writers.length > 0 &&
    html` <a class="act reply" id="r${sequence}" href="${addressIn(where, `reply=${sequence}`)}#composer">Reply${about('to', event)}</a>`;
  const details =
    where.isWhole !== true &&
    username !== undefined &&
    html` <a class="act second" id="d${sequence}" href="${pathOfEvent(where, sequence)}">Details${about('of', event)}</a>`;
  const raw = renderRawLink(event, message, where);
  // A screen reader reads what one can do with a message after its text.
  const owned = [reply && `r${sequence}`, details && `d${sequence}`, raw && `x${sequence}`].filter(Boolean).join(' ');
  const by = metadata?.[SENT_BY];
  const mark = isWrittenWith(by) && html` <span class="soft small">via ${by}</span>`;
  const own = username !== undefined && sender.startsWith(`@${username}.`) && ' own';
  return renderItem(
    event,
    html`said${own}${isContinued(event, before) && ' continued'}`,
    html`${renderAgentFace(sender, 'small')}<div class="saying"${owned !== '' && html` aria-owns="${owned}"`}><p class="by"><b class="mono" id="w${sequence}">${sender}</b> ${renderMoment(event, where, before, `t${sequence}`)}${mark}${reply}${details}${raw}</p>${renderReference(message, where)}${renderBubble(event, message, where)}</div>`,
    message,
  );
}

const about = (word: string, { sequence }: EventEnvelope): Html =>
  html`<span class="hidden-label"> ${word} message ${sequence}</span>`;

/** The text as it was sent, on the page of the message and back. */
function renderRawLink(event: EventEnvelope, message: Message, where: EntryContext): Html | undefined {
  const { content } = message;
  const { username, isWhole, isRaw } = where;
  const hasText = typeof content === 'string' || content.some(({ type }) => type === 'text');
  const isForPaper = isWhole === true && isRaw === undefined;
  if (!hasText || username === undefined || isForPaper) return undefined;
  const path = pathOfEvent(where, event.sequence);
  const id = `x${event.sequence}`;
  if (isRaw === true) return html` <a class="act" id="${id}" href="${path}">Formatted${about('text of', event)}</a>`;
  const page = { path: `${where.path}/events/${event.sequence}`, viewQuery: where.viewQuery };
  return html` <a class="act second raw-link" id="${id}" data-back="Formatted" href="${addressIn(page, 'raw=1')}">Raw${about('text of', event)}</a>`;
}

/** What `asp` itself writes as the tool of a person. Other words are shown as the metadata that they are. */
const isWrittenWith = (by: unknown): by is string => by === DASHBOARD || by === CHAT;

/** The message that this one answers. The page's script finds those that this part of the page does not hold. */
function renderReference(message: Message, where: EntryContext): Html | undefined {
  const id = findInReplyTo(message);
  if (id === undefined || !isId('message', id)) return undefined;
  const answered = where.known?.get(id);
  if (answered === undefined)
    return html`<p class="re soft small" data-re="${id}">In reply to <span>an earlier message</span></p>`;
  const { sequence, sender } = answered;
  return html`<p class="re soft small">In reply to <a href="${addressOfEvent(where, sequence)}">${sender}, message ${sequence}</a></p>`;
}

function renderBubble({ sequence }: EventEnvelope, message: Message, where: EntryContext): Html {
  const { content, metadata } = message;
  const { path, viewQuery, pictures, colorCode, isWhole = false, isRaw = false } = where;
  const parts = {
    path,
    viewQuery,
    sequence,
    pictures,
    colorCode,
    isWhole,
    isRaw,
    hasTrees: isSmall([content, metadata]),
  };
  const shown = metadata && withoutMarks(metadata);
  return html`<div class="bubble">${renderParts(content, parts)}${shown !== undefined && renderMetadata(shown, parts)}</div>${renderChoices(sequence, message, where)}`;
}

/** What a button with an answer sends: the question, the choice, and what the page says will happen. */
export const answerValue = (sequence: number, index: number, handle: string, isJoined: boolean): string =>
  `${sequence}.${index} ${isJoined ? 'answer' : 'join'} ${handle}`;

/** Buttons for the possible answers, of a form that is in the composer. A page without it has only the words. */
function renderChoices(
  sequence: number,
  message: Message,
  { writers, invited = [], answered }: EntryContext,
): Html | undefined {
  const choices = listChoices(message);
  if (writers === undefined && choices.length > 0)
    return html`<p class="offered soft small">Choices: ${choices.map((choice, index) => html`${index > 0 && ', '}${strangersText(choice)}`)}</p>`;
  const answerer = [...(writers ?? []), ...invited].find((handle) => handle !== message.sender);
  if (choices.length === 0 || answerer === undefined || answered?.has(message.id) === true) return undefined;
  const isJoined = writers?.includes(answerer) === true;
  const buttons = choices.map(
    (choice, index) =>
      html`<button class="button plain small-button" form="answer" name="answer" value="${answerValue(sequence, index, answerer, isJoined)}">${strangersText(choice)}</button>`,
  );
  const act = isJoined ? 'Answer' : 'Join and answer';
  return html`<div class="offered row-actions" role="group" aria-label="${act} message ${sequence} as ${answerer}">${buttons} <span class="soft small" aria-hidden="true">${act} as <b class="mono">${answerer}</b></span></div>`;
}

/** Metadata without the members that the page puts into words, or that concern only programs; undefined: none is left. */
function withoutMarks(metadata: Record<string, unknown>): object | undefined {
  const hasChoices = listChoices({ metadata }).length > 0;
  const entries = Object.entries(metadata).filter(
    ([name, value]) =>
      !(name === SENT_BY && isWrittenWith(value)) &&
      !(name === IN_REPLY_TO && isId('message', String(value))) &&
      !(name === CHOICES && hasChoices) &&
      !(name === AWAITS_REPLY && value === true),
  );
  return entries.length === 0 ? undefined : Object.fromEntries(entries);
}

function renderHappening(event: EventEnvelope, where: EntryContext, before: EventEnvelope | undefined): Html {
  const { initial_message: first } = event.payload as { initial_message?: Message };
  const isShown = first !== undefined && event.sequence > where.through;
  return renderItem(
    event,
    html`happening`,
    html`<div class="saying"><p class="by"><span id="w${event.sequence}">${describe(event)}</span> ${renderMoment(event, where, before, `t${event.sequence}`)}${isShown && renderRawLink(event, first, where)}</p>${isShown && renderBubble(event, first, where)}</div>`,
  );
}

/** Screen readers jump from article to article. The name of each is who wrote it, or what happened, and when. */
function renderItem({ sequence }: EventEnvelope, kind: Html, body: Html, message?: Message): Html {
  const facts = message && html` data-message="${message.id}" data-sender="${message.sender}"`;
  return html`<li class="entry ${kind}" id="e${sequence}" data-sequence="${sequence}"${facts}><article aria-labelledby="w${sequence} t${sequence}">${body}</article></li>`;
}

/** The number and the time of an event link to its address, which stays valid as the session grows. */
export function renderMoment(
  { sequence, created_at: at }: EventEnvelope,
  where: EntryContext,
  before: EventEnvelope | undefined,
  id?: string,
): Html {
  const gap = before && gapInWords(at - before.created_at);
  return html`<a class="at"${id !== undefined && html` id="${id}"`} href="${addressOfEvent(where, sequence)}"><span class="number">#${sequence}</span> ${renderClock(at)}</a>${gap !== undefined && html` <span class="gap">${gap}<span class="hidden-label"> later</span></span>`}`;
}

/** The time since the event before; undefined: hardly any. The page's script says the same of events that arrive. */
export function gapInWords(ms: number): string | undefined {
  if (ms < 1_000) return undefined;
  if (ms < 9_950) return `+${(ms / 1_000).toFixed(1)} s`;
  if (ms < 59_500) return `+${Math.round(ms / 1_000)} s`;
  if (ms < 59.5 * 60_000) return `+${Math.round(ms / 60_000)} min`;
  return ms < 23.5 * 3_600_000 ? `+${Math.round(ms / 3_600_000)} h` : `+${Math.round(ms / 86_400_000)} d`;
}

/** What happened, with members of the payload in braces. */
const PHRASE: Readonly<Record<string, string>> = {
  'session.invited': '{by} invited {invitee}',
  'session.joined': '{agent} joined',
  'session.left': '{agent} left',
  'session.ended': '{ended_by} ended the session',
  'session.reopened': '{reopened_by} reopened the session',
  'session.disconnected': '{agent} lost its connection',
  'session.reconnected': '{agent} is connected again',
};
const LEFT_LATE = '{agent} left after being offline too long';

/** The parts of the phrase for an event; each second one is a name. */
function phraseOf({ type, payload }: EventEnvelope): readonly string[] {
  const isLate = type === 'session.left' && payload['reason'] === 'grace_expired';
  const phrase = isLate ? LEFT_LATE : Object.hasOwn(PHRASE, type) ? PHRASE[type] : type;
  const parts = (phrase ?? type).split(/\{(\w+)\}/);
  return parts.map((part, index) => (index % 2 === 1 ? String(payload[part] ?? 'someone') : part));
}

/** What happened, without markup. */
export const describeInText = (event: EventEnvelope): string => phraseOf(event).join('');

/** The same with the names marked. */
function describe(event: EventEnvelope): Html {
  if (!Object.hasOwn(PHRASE, event.type)) return html`<span class="mono">${event.type}</span>`;
  return html`${phraseOf(event).map((part, index) => (index % 2 === 1 ? html`<b class="mono">${part}</b>` : part))}`;
}

/** Measures the pictures in these events, and loads the highlighter if there is code in them. */
export async function prepareEntries(
  { files }: Pick<ServiceContext, 'files'>,
  events: readonly EventEnvelope[],
): Promise<Required<Pick<EntryContext, 'pictures' | 'colorCode'>>> {
  const parts = events.flatMap((event): readonly AnyPart[] => {
    const { initial_message: first } = event.payload as { initial_message?: Message };
    const { content = [] } = (isMessageEvent(event) ? event.payload : first) ?? {};
    if (typeof content === 'string') return [{ type: 'text', text: content }];
    return content.slice(0, SHOWN_PARTS_MAX) as readonly AnyPart[];
  });
  const pictures = parts.filter(({ type }) => type === 'image');
  const texts = parts.flatMap(({ text }) => (text === undefined ? [] : [text]));
  return {
    pictures: await measurePictures(files, listAttachmentIds(pictures)),
    colorCode: await prepareCode(texts),
  };
}
