import { createHash } from 'node:crypto';

import { ServiceError } from '../service-error.js';

const CHECK_LENGTH = 12;

/** What a cursor belongs to: the list, whose it is, and its filters. */
export type CursorScope = readonly (string | number | undefined)[];

/** What decides the order of a list. */
export type Place = readonly (string | number)[];

/** An opaque cursor for the row after which the next page begins. It carries no authority: only a place. */
export function encodeCursor(scope: CursorScope, place: Place): string {
  const text = JSON.stringify(place);
  return Buffer.from(checkOf(scope, text) + text).toString('base64url');
}

/** A place of the same kind. */
export type Alike<Start extends Place> = {
  readonly [Item in keyof Start]: Start[Item] extends number ? number : string;
};

/**
 * The place in a cursor of the same list, or where the list begins; anything else, whoever made it, is VALIDATION_ERROR
 * (spec: Errors).
 */
export function decodeCursor<const Start extends Place>(
  scope: CursorScope,
  cursor: string | undefined,
  start: Start,
): Alike<Start> {
  if (cursor === undefined) return start as Alike<Start>;
  const decoded = Buffer.from(cursor, 'base64url');
  const text = decoded.toString();
  const place = text.slice(CHECK_LENGTH);
  const isIntact = decoded.toString('base64url') === cursor && text.slice(0, CHECK_LENGTH) === checkOf(scope, place);
  const read = isIntact ? readPlace(place) : undefined;
  if (!isAlike(read, start)) throw new ServiceError('VALIDATION_ERROR', 'The cursor is not one of this list.');
  return read;
}

/** Whoever knows how a cursor is made may have put anything into it. */
function isAlike<Start extends Place>(read: unknown, start: Start): read is Alike<Start> {
  const fits = (item: unknown, index: number): boolean =>
    typeof item === typeof start[index] && (typeof item !== 'number' || Number.isSafeInteger(item));
  return Array.isArray(read) && read.length === start.length && read.every(fits);
}

function readPlace(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Tells a foreign or damaged cursor; nothing rests on nobody being able to compute it. */
function checkOf(scope: CursorScope, text: string): string {
  return createHash('sha256')
    .update(JSON.stringify([scope.map((item) => item ?? null), text]))
    .digest('base64url')
    .slice(0, CHECK_LENGTH);
}
