import { replaceUnsafe } from './json-line.js';

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
