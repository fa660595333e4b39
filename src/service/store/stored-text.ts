import type { SqlValue } from './database.js';

/**
 * PostgreSQL keeps no U+0000 in text, and SQLite's drivers end a text there; JSON of others may hold one. U+FDD0, which is
 * no character, stands before a digit that says what was meant.
 */
const MARK = '\uFDD0';

export function encodeValue(value: SqlValue): SqlValue {
  if (typeof value !== 'string' || !(value.includes('\0') || value.includes(MARK))) return value;
  return value.replaceAll(MARK, `${MARK}1`).replaceAll('\0', `${MARK}0`);
}

export function decodeText(text: string): string {
  if (!text.includes(MARK)) return text;
  return text.replace(/\uFDD0([01])/g, (_, digit) => (digit === '0' ? '\0' : MARK));
}

export function decodeRow<Row>(row: Row): Row {
  const columns = row as Record<string, unknown> | undefined;
  for (const name in columns) {
    const value = columns[name];
    if (typeof value === 'string' && value.includes(MARK)) columns[name] = decodeText(value);
  }
  return row;
}
