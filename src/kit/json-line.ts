import { replaceUnsafe } from './sanitize.js';

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
