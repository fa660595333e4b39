/** First and last code points of what could drive a terminal, or hides, joins or turns text around. */
const UNSAFE_RANGES: readonly (readonly [first: number, last: number])[] = [
  [0x00, 0x08], // C0, but for tab and line feed
  [0x0b, 0x1f],
  [0x7f, 0x9f], // DEL and C1
  [0xad, 0xad], // soft hyphen
  [0x34f, 0x34f], // combining grapheme joiner
  [0x61c, 0x61c], // Arabic letter mark
  [0x115f, 0x1160], // Hangul fillers
  [0x17b4, 0x17b5], // Khmer inherent vowels
  [0x180b, 0x180f], // Mongolian selectors
  [0x200b, 0x200f], // zero width, direction marks
  [0x2028, 0x202e], // separators, bidirectional embeddings
  [0x2060, 0x206f], // word joiner, isolates
  [0x3164, 0x3164], // Hangul filler
  [0xd800, 0xdfff], // lone surrogates
  [0xfe00, 0xfe0e], // variation selectors, but for the emoji one
  [0xfeff, 0xfeff], // byte order mark
  [0xffa0, 0xffa0], // half-width Hangul filler
  [0xfff0, 0xfffb], // interlinear annotations
  [0x1bca0, 0x1bca3], // shorthand controls
  [0x1d173, 0x1d17a], // musical controls
  [0xe0000, 0xe0fff], // tags
];

const escapeOf = (codePoint: number): string => `\\u{${codePoint.toString(16)}}`;
const UNSAFE = new RegExp(
  `[${UNSAFE_RANGES.map(([first, last]) => `${escapeOf(first)}-${escapeOf(last)}`).join('')}]`,
  'gu',
);

/** Text that a peer or a service wrote, for a human view: what could drive a terminal is taken out; lines and tabs stay. */
export function sanitize(text: string): string {
  return text.replace(/\r\n/g, '\n').replace(UNSAFE, '');
}

/** The same on one line. */
export function sanitizeLine(text: string): string {
  return sanitize(text).replace(/[\n\t]+/g, ' ');
}
