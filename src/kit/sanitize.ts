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
 * Text from a peer or a service, made safe for people: removes invisible characters and those that control a terminal;
 * line breaks and tabs stay.
 */
export function sanitize(text: string): string {
  return replaceUnsafe(text.replace(/\r\n/g, '\n'), () => '');
}

/** The same on one line. */
export function sanitizeLine(text: string): string {
  return sanitize(text).replace(/[\n\t]+/g, ' ');
}

/** After the scheme: up to the last `@` of the host, or of the line if the text after a colon is not a port. */
const USER_INFO = /(?<=:\/\/)(?:[^\s/?#"'<>]*|[^\s/:@]*:(?!\d{0,5}(?:[/?#\s]|$)).*)@/g;
/** `user:password@` where the scheme or a slash is missing. */
const BARE_USER_INFO = /(?<![\w.+-])(?!mailto:)[\w.+-]+:[^\s/@]+@/gi;

/** `text` without the user and password of addresses, even of addresses that are not valid. */
export function hidePasswords(text: string): string {
  return text.includes('@') ? text.replace(USER_INFO, '[redacted]@').replace(BARE_USER_INFO, '[redacted]@') : text;
}
