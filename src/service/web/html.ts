import { replaceUnsafe } from '../../kit/sanitize.js';
import { toShownName } from '../../wire/handle.js';

/** Markup that is safe to send: all outside text in it was escaped. */
export interface Html {
  readonly markup: string;
}

export type HtmlValue = Html | string | number | undefined | false | readonly HtmlValue[];

const ENTITY: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** A template whose values are escaped, unless they are markup themselves; `undefined` and `false` render nothing. */
export function html(parts: TemplateStringsArray, ...values: HtmlValue[]): Html {
  return { markup: parts.reduce((text, part, index) => text + render(values[index - 1]) + part) };
}

function render(value: HtmlValue): string {
  if (value === undefined || value === false) return '';
  if (typeof value === 'string') return value.replace(/[&<>"']/g, (character) => ENTITY[character] ?? '');
  if (typeof value === 'number') return String(value);
  if ('markup' in value) return value.markup;
  return value.map(render).join('');
}

/** Characters for formatting and for private use, which every browser shows differently. Joiners can be text. */
const ODD = /(?![\u200c\u200d])[\p{Cf}\p{Co}]/gu;
const SHOWN_LENGTH_MAX = 80;
const NAME_LENGTH_MAX = 100;

/** A name that a stranger chose: it cannot reorder, hide or crowd out its surroundings. */
export function strangersText(text: string, maxLength?: number): Html {
  return html`<bdi>${untrustedText(text, maxLength)}</bdi>`;
}

/** The name of an agent or an account, which its owner chose. */
export function renderName(name: string, handle: string): Html {
  return strangersText(toShownName(name, handle), NAME_LENGTH_MAX);
}

/** The same as `strangersText` where markup is not possible: in the title of a tab. */
export function untrustedText(text: string, maxLength = SHOWN_LENGTH_MAX): string {
  const line = text.replace(/\s+/g, ' ').replace(ODD, '');
  const visible = [...replaceUnsafe(line, () => '').trim()];
  if (visible.length <= maxLength) return visible.join('');
  return `${visible
    .slice(0, maxLength)
    .join('')
    .replace(/[\u200c\u200d]+$/, '')}…`;
}

/** Characters that reverse, hide or join text; joiners of scripts and emoji are kept. */
const DECEPTIVE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/** A stranger's text over several lines. */
export function strangersLines(text: string): string {
  return text.replaceAll('\r\n', '\n').replace(DECEPTIVE, '');
}

/** Characters that no one sees and programs read: fillers, tags and rare variation selectors. Some scripts and flags need them. */
const UNSEEN = /[\u034f\u115f\u1160\u17b4\u17b5\u180e\u3164\uffa0\u{e0000}-\u{e0fff}]/u;

const EACH_ODD = new RegExp(`(${DECEPTIVE.source}|${UNSEEN.source})`, 'gu');

/**
 * A stranger's text as it was sent. A deceptive or unseen character shows its number, affects nothing around it, and is copied like
 * any other.
 */
export function exactText(text: string): Html {
  return html`${text.split(EACH_ODD).map((piece, index) => (index % 2 === 0 ? piece : exactCharacter(piece)))}`;
}

/** A browser reads a carriage return in markup as a line break unless it is written as a reference. */
function exactCharacter(character: string): Html {
  const number = character.codePointAt(0)?.toString(16).toUpperCase().padStart(4, '0');
  return html`<bdi class="odd" data-number="U+${number}">${character === '\r' ? { markup: '&#13;' } : character}</bdi>`;
}

/** The logo of the program. */
export const MARK: Html = html`<svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="9" fill="var(--accent)"/><path d="M21.5 10.6C20.2 9.2 18.3 8.4 16 8.4c-3.4 0-5.7 1.7-5.7 4.1 0 5.5 11.4 2 11.4 7.2 0 2.3-2.3 3.9-5.6 3.9-2.6 0-4.6-.9-6-2.5" fill="none" stroke="var(--on-accent)" stroke-width="3" stroke-linecap="round"/><circle cx="22.4" cy="10.9" r="2.3" fill="var(--on-accent)"/></svg>`;

/** The same for the browser's tab, which no style sheet reaches. */
export const TAB_ICON = `data:image/svg+xml,${encodeURIComponent(
  '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><rect width="32" height="32" rx="9" fill="#0b6a4d"/><path d="M21.5 10.6C20.2 9.2 18.3 8.4 16 8.4c-3.4 0-5.7 1.7-5.7 4.1 0 5.5 11.4 2 11.4 7.2 0 2.3-2.3 3.9-5.6 3.9-2.6 0-4.6-.9-6-2.5" fill="none" stroke="#fff" stroke-width="3" stroke-linecap="round"/><circle cx="22.4" cy="10.9" r="2.3" fill="#fff"/></svg>',
)}`;

/** The same as a square PNG, for a phone's home screen. */
export const TOUCH_ICON = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAALQAAAC0CAMAAAAKE/YAAAAAJFBMVEULak0XcVUmemA3hG1GjXiJt6m20snQ4tzo8e7+/v6fxLloo5EKGKXpAAADR0lEQVR42u2cC5LjIAxEzU98dP/77qS2diaZxDYGjERtvwukSxEgtcDbBgAAAAAAAAAAAAAAAAAAAMB/jrHOe2etWUKsDxRjyj8kKsxOrWDP9Kz2hUSBrTrFNuwK/oZYU7YYjrmOoiZROOV6yGuQ7GK+RmTxzCj5OtGukxlPSAabcitiwTYxt5O8C4WohLn7ie3R/Cx/Yq64lEcRZ22DfpzmaQvT5rFMUR0Hi84TMiSM1pzT7XugO5WQYnytq+UT5CA5Ynku+b86GA512tPdh/d+LfSxYnZVpauXCHQ66k3MeZVSBDI6nLQl5ixN4vStgyoWvwmCSZ2a/9rjcmXyMqzfrkgoPahrCfF+93in6PdkvOQM7PZn4c7Sv/Ms8xL79PuGd9GCiQIp7Xt/zQsciNx9kpX55yF3L6BPDXE0c0XzgGWRb+7JecBWZdPkDoBHHAov1VMKt1vA3He2/NSqNNG1duMWvnVuljumy05sP9GCetFF0tga29aS8hzZ6fVSYcWzzoNWLwavVPiJ+fhq16wQ6iflXteI1lSadLqGy3zFDlWTLpet3ke6iKtuGcalIqzbtI0QpXW3Dj5TsIusxl9HvuDC7Jgkkly0Tfu8KAnWV7a0B1uwSHHNsqNkaWVaL30I31VxTMvF+q+vGK4Lp00Bjsu1obmWjvhxc7M+yTW1C9Uhj5syHFfEXGUTb/1x0GnTiuGyG3K7KcbtzMa1G4GOlsqP7xo8Tb+cck8NbvWrZol7Yt3EBS35d3t7lmj7ddZR8GPyY5Lof61hcsuIfp4S8yrpQX2/mCSq09BXxvve6yJNdI4+y9RLYruRumRgeJE2gLuaapsm307Z+3sveFyf3D8vE+nqiS1LNYncbN9+rKbnmAh+/yrxYY25Z1XOKUzj4bx2r0ck2b7Wnj3vdL+78SO/bFYxXTG2SI+HDI8XwkmNLdY+bJH0l4apnurkDVI9udEaonq64zHgYZ/ApKj7CWXZJKCV8vnI41rgObNpnSFG0amFb8nsJO4p8WXZQcMluGuySYtJ6kLt9bGg6saeP9ctfoXpsyt58PmXovq7NaG8SP8qrCnwGh8JstY579b4ohEAAAAAAAAAAAAAAAAAAAAAd/IHP6OmMG+PoggAAAAASUVORK5CYII=',
  'base64',
);

const drawn = (shape: Html): Html =>
  html`<svg viewBox="0 0 20 20" fill="none" stroke="currentColor" stroke-width="2" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${shape}</svg>`;

export const TICK = drawn(html`<path d="m4 10.5 4 4 8-9"/>`);
export const PLUS = drawn(html`<path d="M10 4v12M4 10h12"/>`);
export const FILE = drawn(html`<path d="M5 2.5h6.5L16 7v10.5H5zM11.5 2.5V7H16"/>`);
export const PICTURE = drawn(html`<path d="M3 4h14v12H3zM3 13l4-4 4 4 2-2 4 3.5M13 7.5v.1"/>`);
export const GLASS = drawn(html`<path d="M9 3.5a5.5 5.5 0 1 1 0 11 5.5 5.5 0 0 1 0-11ZM13 13l4 4"/>`);
export const CAUTION = drawn(html`<path d="M10 3 2.5 16.5h15zM10 8.5v3.5M10 14.3v.1"/>`);

const HUES = 8;

/** The avatar of an agent: a square with the first character of its own name, in a color of its handle. */
export function renderAgentFace(handle: string, size: 'small' | 'usual' | 'large' = 'usual'): Html {
  let hash = 0;
  for (let index = 0; index < handle.length; index += 1) hash = (Math.imul(hash, 31) + handle.charCodeAt(index)) >>> 0;
  return face(handle.slice(handle.indexOf('.') + 1), `${size}-face agent-face hue-${hash % HUES}`);
}

/** Fallback avatar: the first visible character of the name in a circle. */
export function renderFace(name: string, size: 'small' | 'usual' | 'large' = 'usual'): Html {
  return face(name, `${size}-face`);
}

function face(name: string, kind: string): Html {
  const [initial = '?'] = /[\p{L}\p{N}]/u.exec(name) ?? [];
  return html`<span class="face ${kind}" aria-hidden="true">${initial.toUpperCase()}</span>`;
}
