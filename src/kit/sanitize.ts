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
