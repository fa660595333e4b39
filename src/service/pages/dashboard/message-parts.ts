import type { Message } from '../../../wire/message.js';
import { type Html, html, strangersText } from '../html.js';
import { FILE, PICTURE } from '../icon.js';

/** Of one text. */
const SHOWN_MAX_LENGTH = 2_000;
const SHORT_DATA_LENGTH = 240;
/** What browsers show as a picture and never as a document. */
const SHOWN_PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}$/;

/** What turns text around, hides or joins it; joiners of scripts and emoji stay. */
const DECEPTIVE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A text of a stranger over several lines. */
export function plainText(text: string): string {
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
  readonly url?: string;
  readonly data_uri?: string;
  readonly name?: string;
  readonly mime_type?: string;
  readonly size?: number;
}

/** What was said, part by part. All of it was written by a stranger. */
export function renderParts(content: Message['content'], place: PartsPlace): Html {
  if (typeof content === 'string') return renderText(content, place);
  return html`${content.map((part) => renderPart(part as AnyPart, place))}`;
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
  const { shown, rest } = cut(JSON.stringify(data, null, 2), place);
  const isOpen = place.isWhole || shown.length <= SHORT_DATA_LENGTH;
  return html`<details class="folded"${isOpen && html` open`}><summary>${type === 'data' ? 'Data' : strangersText(type)}</summary><pre tabindex="0" dir="auto">${shown}</pre>${rest}</details>`;
}

/** A long text begins here and goes on at a page of its own. */
function cut(given: string, { path, sequence, isWhole }: PartsPlace): { shown: string; rest: Html | undefined } {
  const text = plainText(given);
  if (isWhole || text.length <= SHOWN_MAX_LENGTH) return { shown: text, rest: undefined };
  const shown = text.slice(0, SHOWN_MAX_LENGTH).replace(/[\uD800-\uDBFF]$/, '');
  return {
    shown: `${shown}…`,
    rest: html`<p class="small"><a href="${path}/events/${sequence}">Show all ${text.length} characters</a></p>`,
  };
}

function renderPicture(part: AnyPart, place: PartsPlace): Html {
  const { data_uri: uri, name = 'Image' } = part;
  if (uri === undefined) return renderFile(part, place, PICTURE, 'Image');
  if (!SHOWN_PICTURE.test(uri))
    return html`<p class="soft small">An image that is not shown: ${strangersText(name)}</p>`;
  return html`<img class="picture" src="${uri}" alt="${plainText(name)}" loading="lazy">`;
}

/** A download by an address that is signed when somebody follows the link, or an address elsewhere. */
function renderFile(part: AnyPart, { path }: PartsPlace, icon: Html, kind: string): Html {
  const { attachment_id: id, url = '', name, mime_type: type, size } = part;
  const facts = [type, size === undefined ? undefined : sizeInWords(size)].filter((fact) => fact !== undefined);
  if (id !== undefined)
    return html`<a class="file" href="${path}/attachments/${id}">${icon}<span class="who"><b>${strangersText(name ?? kind)}</b><span class="soft small">${facts.join(' · ')}</span></span></a>`;
  if (!URL.canParse(url)) return html`<p class="soft small">${kind} without an address</p>`;
  const host = new URL(url).host;
  return html`<a class="file" href="${url}" target="_blank" rel="noopener noreferrer nofollow">${icon}<span class="who"><b>${strangersText(name ?? kind)}</b><span class="soft small">Elsewhere, at <bdi>${host}</bdi>${facts.length > 0 && ` · ${facts.join(' · ')}`}</span></span></a>`;
}

function sizeInWords(bytes: number): string {
  if (bytes < 1024) return `${bytes} B`;
  return bytes < 1024 * 1024 ? `${Math.ceil(bytes / 1024)} KB` : `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}
