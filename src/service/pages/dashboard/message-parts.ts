import { attachmentIdOf, type Message } from '../../../wire/message.js';
import { type Html, html, strangersText } from '../html.js';
import { FILE, PICTURE } from '../icon.js';

/** Of one text. */
const SHOWN_MAX_LENGTH = 2_000;
const SHORT_DATA_LENGTH = 240;
/** Deeper than people read, indenting takes far more room than what is indented. */
const LAID_OUT_DEPTH_MAX = 8;
/** Of one message, where it is shown among others. */
const SHOWN_PARTS_MAX = 20;
/** What browsers show as a picture and never as a document. */
const SHOWN_PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

/** What turns text around, hides or joins it; joiners of scripts and emoji stay. */
const DECEPTIVE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text of a stranger over several lines. */
function plainText(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(DECEPTIVE, '');
}

interface PartsPlace {
  readonly path: string;
  readonly sequence: number;
  readonly isWhole: boolean;
}

/** What any part may carry. */
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

/** What was said, part by part. All of it was written by a stranger. */
export function renderParts(content: Message['content'], place: PartsPlace): Html {
  if (typeof content === 'string') return renderText(content, place);
  const shown = place.isWhole ? content : content.slice(0, SHOWN_PARTS_MAX);
  const isCut = shown.length < content.length;
  return html`${shown.map((part) => renderPart(part as AnyPart, place))}${isCut && renderRest(`Show all ${content.length} parts`, place)}`;
}

/** What was sent beside what was said. */
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
  return html`<p class="text" dir="auto">${shown}</p>${rest}`;
}

function renderData(data: unknown, type: string, place: PartsPlace): Html {
  return renderFolded(type === 'data' ? 'Data' : strangersText(type), data, place, SHORT_DATA_LENGTH);
}

/** JSON, open where it is short. */
function renderFolded(summary: Html | string, data: unknown, place: PartsPlace, openLength = 0): Html {
  const { shown, rest } = cut(layOut(data, place), place);
  const isOpen = (place.isWhole && openLength > 0) || shown.length <= openLength;
  return html`<details class="folded"${isOpen && html` open`}><summary>${summary}</summary><pre tabindex="0" dir="auto">${shown}</pre>${rest}</details>`;
}

/** On lines of their own where that is for a reader, and takes no more room than there is. */
function layOut(data: unknown, { isWhole }: PartsPlace): string {
  const plain = JSON.stringify(data);
  const isShort = isWhole || plain.length <= SHOWN_MAX_LENGTH;
  return isShort && isWithin(LAID_OUT_DEPTH_MAX, data) ? JSON.stringify(data, null, 2) : plain;
}

function isWithin(depth: number, data: unknown): boolean {
  if (typeof data !== 'object' || data === null) return true;
  return depth > 0 && Object.values(data).every((value) => isWithin(depth - 1, value));
}

/** A long text begins here and goes on at a page of its own. */
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

/** A download by an address that is signed when somebody follows the link, or an address elsewhere. */
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
