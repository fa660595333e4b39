import { createHash } from 'node:crypto';
import { parseIfJson } from '../../kit/parse-json.js';

import { ServiceError } from '../core/errors.js';

const CHECK_LENGTH = 12;

/** After the prefix of an id: greater than every id, because a ULID begins with a digit. */
export const AFTER_EVERY_ULID = 'Z';

/** The scope of a cursor: the list, its owner, and its filters. */
export type CursorScope = readonly (string | number | undefined)[];

/** The sort key of a list. */
export type Position = readonly (string | number)[];

/** An opaque cursor for the row before the next page. It carries no authority, only a position. */
export function encodeCursor(scope: CursorScope, position: Position): string {
  const text = JSON.stringify(position);
  return Buffer.from(computeCheck(scope, text) + text).toString('base64url');
}

/** A position of the same kind. */
export type SameTypes<Start extends Position> = {
  readonly [Item in keyof Start]: Start[Item] extends number ? number : string;
};

/**
 * The position in a cursor of the same list, or the beginning of the list; anything else is VALIDATION_ERROR (spec:
 * Errors).
 */
export function decodeCursor<const Start extends Position>(
  scope: CursorScope,
  cursor: string | undefined,
  start: Start,
): SameTypes<Start> {
  if (cursor === undefined) return start as SameTypes<Start>;
  const decoded = Buffer.from(cursor, 'base64url');
  const text = decoded.toString();
  const position = text.slice(CHECK_LENGTH);
  const isIntact =
    decoded.toString('base64url') === cursor && text.slice(0, CHECK_LENGTH) === computeCheck(scope, position);
  const read = isIntact ? parseIfJson(position) : undefined;
  if (!isAlike(read, start)) throw new ServiceError('VALIDATION_ERROR', 'The cursor does not belong to this list.');
  return read;
}

/** The pages of a whole list; `read` returns the rows after the last one, up to a limit. */
export async function* eachPage<Row>(
  limit: number,
  read: (last: Row | undefined, limit: number) => Promise<readonly Row[]>,
): AsyncGenerator<readonly Row[]> {
  let last: Row | undefined;
  while (true) {
    const rows = await read(last, limit);
    yield rows;
    if (rows.length < limit) return;
    last = rows.at(-1);
  }
}

/** The same, row by row. */
export async function* eachRow<Row>(...list: Parameters<typeof eachPage<Row>>): AsyncGenerator<Row> {
  for await (const rows of eachPage(...list)) yield* rows;
}

/** A list that is read one page after the other. */
export interface PagedList<Row, Start extends Position> {
  readonly scope: CursorScope;
  /** Before its first row. */
  readonly start: Start;
  toPosition(row: Row): SameTypes<Start>;
  /** The rows after a position, in the order of the list. */
  read(after: SameTypes<Start>, limit: number): Promise<readonly Row[]>;
}

/** The page at a cursor, and the cursor of the next one; null: this is the last. */
export async function readPage<Row, const Start extends Position>(
  { limit, cursor }: { readonly limit: number; readonly cursor?: string | undefined },
  { scope, start, toPosition, read }: PagedList<Row, Start>,
): Promise<{ readonly rows: readonly Row[]; readonly next: string | null }> {
  const found = await read(decodeCursor(scope, cursor, start), limit + 1);
  const rows = found.slice(0, limit);
  const last = rows.at(-1);
  return { rows, next: last !== undefined && found.length > limit ? encodeCursor(scope, toPosition(last)) : null };
}

/** Anyone who knows the format of a cursor may have put anything into it. */
function isAlike<Start extends Position>(read: unknown, start: Start): read is SameTypes<Start> {
  const fits = (item: unknown, index: number): boolean =>
    typeof item === typeof start[index] && (typeof item !== 'number' || Number.isSafeInteger(item));
  return Array.isArray(read) && read.length === start.length && read.every(fits);
}

/** Detects a foreign or damaged cursor; it is not a security measure. */
function computeCheck(scope: CursorScope, text: string): string {
  return createHash('sha256')
    .update(JSON.stringify([scope.map((item) => item ?? null), text]))
    .digest('base64url')
    .slice(0, CHECK_LENGTH);
}
