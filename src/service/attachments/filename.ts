import { ATTACHMENT_FILENAME_MAX_LENGTH } from '../../wire/limit.js';

const CONTROL = /\p{Cc}/gu;
const SEPARATOR = /[/\\]/;
const UNSAFE_RUN = /[^A-Za-z0-9._ -]+/g;
/** A leading dash would be an option to whoever types the name; leading dots hide it; outer spaces cannot be seen. */
const LEADING = '. -';
const TRAILING = '. ';
/** Names that Windows opens as devices, whatever their extension. */
const DEVICE = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;
const EXTENSION = /\.[A-Za-z0-9]{1,16}$/;

/** What is left of a sender's file name: a plain base name that is safe to show and to save (wire: Content and attachments). */
export function sanitiseFilename(name: string): string {
  const segments = name.replace(CONTROL, '').split(SEPARATOR);
  const base = segments.findLast((segment) => trim(segment) !== '') ?? '';
  const plain = trim(base.replace(UNSAFE_RUN, '_'));
  const safe = DEVICE.test(plain) ? `_${plain}` : plain;
  const short = shorten(safe);
  return short === '' ? 'file' : short;
}

/** No expression for the end of a text: it would look on from each of a hundred thousand dots. */
function trim(name: string): string {
  let start = 0;
  let end = name.length;
  while (start < end && LEADING.includes(name.charAt(start))) start += 1;
  while (end > start && TRAILING.includes(name.charAt(end - 1))) end -= 1;
  return name.slice(start, end);
}

/** Cuts before the extension, so that the kind of the file stays to be seen. */
function shorten(name: string): string {
  if (name.length <= ATTACHMENT_FILENAME_MAX_LENGTH) return name;
  const extension = EXTENSION.exec(name)?.[0] ?? '';
  return trim(name.slice(0, ATTACHMENT_FILENAME_MAX_LENGTH - extension.length)) + extension;
}
