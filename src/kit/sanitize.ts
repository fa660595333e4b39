import { replaceUnsafe } from './json-line.js';

/**
 * Text that a peer or a service wrote, made safe for people: invisible characters and those that control a terminal are
 * removed; lines and tabs stay.
 */
export function sanitize(text: string): string {
  return replaceUnsafe(text.replace(/\r\n/g, '\n'), () => '');
}

/** The same on one line. */
export function sanitizeLine(text: string): string {
  return sanitize(text).replace(/[\n\t]+/g, ' ');
}
