const UNSAFE = /[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

/**
 * `value` as JSON on one line that stays one line for every reader: DEL, C1, U+2028, U+2029, bidirectional and
 * zero-width characters are written as `\u` escapes, which parse back to the same text. Lone surrogates are escaped by
 * JSON itself. Without the line feed.
 */
export function toJsonLine(value: unknown): string {
  return escapeJson(JSON.stringify(value));
}

/** Escapes in a JSON text what a terminal or a line reader could act on. */
export function escapeJson(json: string): string {
  return json.replace(UNSAFE, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}
