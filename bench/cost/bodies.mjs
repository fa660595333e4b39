/** Bodies of at most 256 KiB and 10,000 values, each the worst known of its kind. */

const MAX_BYTES = 256 * 1024;
const MAX_VALUES = 10_000;

/** Counts the JSON values in a text: the value itself, and every member and element below it. */
function countValues(value) {
  if (typeof value !== 'object' || value === null) return 1;
  return Object.values(value).reduce((sum, one) => sum + countValues(one), 1);
}

/**
 * Repeats `piece` between `head` and `tail` as often as fits. `isOver`: as often as the bytes allow, with more values
 * than the service accepts.
 */
function filled(head, piece, tail, { separator = ',', isOver = false } = {}) {
  const pieceOf = typeof piece === 'function' ? piece : () => piece;
  const room = MAX_BYTES - Buffer.byteLength(head) - Buffer.byteLength(tail);
  const around = separator === ',' ? 10 : MAX_VALUES;
  const first = pieceOf(0);
  const each =
    separator === ','
      ? countValues(JSON.parse(first.startsWith('"') && first.includes('":') ? `{${first}}` : `[${first}]`)) - 1
      : 1;
  const most = isOver || separator !== ',' ? Number.POSITIVE_INFINITY : Math.floor((MAX_VALUES - around) / each);
  const pieces = [];
  for (let bytes = 0; pieces.length < most; ) {
    const next = pieceOf(pieces.length);
    bytes += Buffer.byteLength(next) + separator.length;
    if (bytes > room + separator.length) break;
    pieces.push(next);
  }
  return head + pieces.join(separator) + tail;
}

const message = (piece) => filled('{"content":"', piece, '"}', { separator: '' });
const metadata = (piece, [open, close] = ['{"a":[', ']}'], options = {}) =>
  filled(`{"content":"x","metadata":${open}`, piece, `${close}}`, options);
const parts = (piece) => filled('{"content":[', piece, ']}');
const word = (index) => `${(index * 7919).toString(36)}`;

/** Each body with its destination: the messages of a session, or another path. */
export const BODIES = {
  'plain text': { body: message('lorem ipsum dolor sit amet ') },
  'text of short words': { body: message((index) => `${word(index)} `) },
  'text without spaces': { body: message((index) => String.fromCodePoint(0x4e00 + ((index * 31) % 20_000))) },
  'text of escapes': { body: message('\\ud83d\\ude00') },
  'metadata, numbers that are too large, 43,000': { body: metadata('1e999', undefined, { isOver: true }) },
  'metadata, empty objects, 87,000': { body: metadata('{}', undefined, { isOver: true }) },
  'metadata, numbers that are too large': { body: metadata('1e999') },
  'metadata, empty objects': { body: metadata('{}') },
  'metadata, numbers of many digits': { body: metadata('1234567890.12345678901') },
  'metadata, many members': { body: metadata((index) => `"${word(index)}":1`, ['{', '}']) },
  'metadata, many long members': { body: metadata((index) => `"${'k'.repeat(16)}${word(index)}":1`, ['{', '}']) },
  'metadata, numbered members': { body: metadata((index) => `"${index * 65_536}":1`, ['{', '}']) },
  'metadata, objects of one member': { body: metadata('{"a":1}') },
  'metadata, nested': { body: metadata(`${'['.repeat(58)}${']'.repeat(58)}`) },
  'data parts': { body: parts('{"type":"data","data":{}}') },
  'text parts': { body: parts('{"type":"text","text":"x"}') },
  'text parts, full': { body: parts('{"type":"text","text":"lorem ipsum dolor sit amet, consectetur"}') },
  'parts, the last of which is not one': {
    body: filled('{"content":[', '{"type":"text","text":"x"}', ',{}]}'),
  },
  'parts that are none': { body: parts('[]') },
  'file parts without a file': { body: parts('{"type":"file"}') },
  'unknown fields': { body: filled('{"content":"x",', (index) => `"${word(index)}":1`, '}') },
  'creation, parts that are none': {
    path: '/v1/sessions',
    body: filled('{"initial_message":{"content":[', '[]', ']}}'),
  },
  'creation, handles that are none': { path: '/v1/sessions', body: filled('{"invite":[', '1', ']}') },
  'creation, handles that name nobody': {
    path: '/v1/sessions',
    body: filled('{"invite":[', (index) => `"@${word(index)}.bot"`, ']}'),
  },
  'creation, a hundred handles that name nobody': {
    path: '/v1/sessions',
    body: JSON.stringify({ invite: Array.from({ length: 100 }, (_, index) => `@${word(index)}.bot`) }),
  },
  'allowlist, entries that are none': { path: '/v1/agents/me/allowlist', body: filled('{"entries":[', '1', ']}') },
  'allowlist, a thousand entries': {
    path: '/v1/agents/me/allowlist',
    body: JSON.stringify({ entries: Array.from({ length: 1000 }, (_, index) => `@${word(index)}.bot`) }),
  },
  'profile, skills that are none': { path: '/v1/agents/me', method: 'PATCH', body: filled('{"skills":[', '1', ']}') },
  'not JSON': { body: '['.repeat(MAX_BYTES) },
};
