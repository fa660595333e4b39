/**
 * Characters that control a terminal, break a line for some reader, reverse text or are invisible; tabs and line feeds
 * are not included.
 */
const UNSAFE =
  /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028\u2029\ud800-\udfff\ufff9-\ufffb\p{Default_Ignorable_Code_Point}]/gu;

/**
 * Whether this is a letter or mark of a script whose letters are shaped by joiners; in other scripts joiners are
 * invisible. The expression is inside because building it would cost every start a millisecond.
 */
const isShaped = (letter = ''): boolean =>
  /^(?![\p{sc=Latin}\p{sc=Greek}\p{sc=Cyrillic}\p{sc=Han}\p{sc=Hira}\p{sc=Kana}\p{sc=Hangul}])[\p{L}\p{M}]$/u.test(
    letter,
  );

const BEGINS_EMOJI = /^\p{Extended_Pictographic}/u;
const ENDS_EMOJI = /(?:\p{Extended_Pictographic}|\p{Emoji_Modifier}|\ufe0f)$/u;
const ENDS_EMOJI_BASE = /\p{Emoji}$/u;

/** Whether a joiner is between two letters or emoji, or a selector follows an emoji: then it is text. */
function isText(character: string, offset: number, text: string): boolean {
  const isJoiner = character === '\u200d';
  if (!isJoiner && character !== '\u200c' && character !== '\ufe0f') return false;
  // One code point, which may be two units.
  const before = text.slice(Math.max(0, offset - 2), offset);
  const after = text.slice(offset + 1, offset + 3);
  if (character === '\ufe0f') return ENDS_EMOJI_BASE.test(before);
  return (
    (isShaped([...before].at(-1)) && isShaped([...after][0])) ||
    (isJoiner && ENDS_EMOJI.test(before) && BEGINS_EMOJI.test(after))
  );
}

/**
 * `text` with `replace` applied to every character that is unsafe to show: controls, separators and invisible
 * characters.
 */
export function replaceUnsafe(text: string, replace: (character: string) => string): string {
  return text.replace(UNSAFE, (character, offset: number) =>
    isText(character, offset, text) ? character : replace(character),
  );
}

/**
 * `value` as JSON on one line that stays one line for every reader: controls, U+2028, U+2029, bidirectional and
 * invisible characters are written as `\u` escapes, which parse back to the same text. JSON itself escapes lone
 * surrogates. Without the line feed.
 */
export function toJsonLine(value: unknown): string {
  return escapeJson(JSON.stringify(value));
}

/**
 * `value` with every unsafe character of its texts and names written as a `\\u` escape that stays when it is parsed: for
 * models that read a value, which a program has already parsed.
 */
export function showUnsafe(value: unknown): unknown {
  if (typeof value === 'string') return replaceUnsafe(value, escapeUnits);
  if (Array.isArray(value)) return value.map(showUnsafe);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => [replaceUnsafe(name, escapeUnits), showUnsafe(member)]),
  );
}

/** Escapes everything in a JSON text that could deceive a terminal, a line reader or a reviewer. */
export function escapeJson(json: string): string {
  return replaceUnsafe(json, escapeUnits);
}

function escapeUnits(character: string): string {
  return character
    .split('')
    .map((unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`)
    .join('');
}
