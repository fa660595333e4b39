import { ATTACHMENT_FILENAME_MAX_LENGTH } from '../../../wire/limit.js';

/** Device names of Windows, with whatever ending. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

/**
 * A name that stays in its folder on every system, from what a service calls a file: the last path part, without what a
 * shell, a terminal or a file system could take for something else.
 */
export function safeFilename(given: string): string {
  const last = given.normalize('NFC').split(/[/\\]/).at(-1) ?? '';
  const plain = last
    .replace(/[\p{C}\p{Z}]+/gu, ' ')
    .replace(/[^\p{L}\p{M}\p{N} ._-]+/gu, '_')
    .replace(/^[ .-]+|[ .]+$/g, '');
  const name = DEVICE.test(plain) ? `_${plain}` : plain;
  return name === '' ? 'file' : shorten(name);
}

/** Names are counted in bytes by most file systems; the ending is kept. */
function shorten(name: string): string {
  if (Buffer.byteLength(name) <= ATTACHMENT_FILENAME_MAX_LENGTH) return name;
  const dot = name.lastIndexOf('.');
  const ending = dot > 0 && name.length - dot <= 12 ? name.slice(dot) : '';
  let kept = '';
  for (const character of ending === '' ? name : name.slice(0, dot)) {
    if (Buffer.byteLength(kept + character + ending) > ATTACHMENT_FILENAME_MAX_LENGTH) break;
    kept += character;
  }
  return `${kept.trimEnd()}${ending}`;
}
