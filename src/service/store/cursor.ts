import { createHash } from 'node:crypto';

import { ServiceError } from '../service-error.js';

const CHECK_LENGTH = 12;

/** What a cursor belongs to: the list, whose it is, and its filters. */
export type CursorScope = readonly (string | number | undefined)[];

/** An opaque cursor for the row after which the next page begins. It carries no authority: only a place. */
export function encodeCursor(scope: CursorScope, place: readonly (string | number)[]): string {
  const text = JSON.stringify(place);
  return Buffer.from(checkOf(scope, text) + text).toString('base64url');
}

/** The place in a cursor of the same list; anything else, whoever made it, is VALIDATION_ERROR (spec: Errors). */
export function decodeCursor(scope: CursorScope, cursor: string): readonly (string | number)[] {
  const decoded = Buffer.from(cursor, 'base64url');
  const text = decoded.toString();
  const place = text.slice(CHECK_LENGTH);
  const isIntact = decoded.toString('base64url') === cursor && text.slice(0, CHECK_LENGTH) === checkOf(scope, place);
  if (!isIntact) throw new ServiceError('VALIDATION_ERROR', 'The cursor is not one of this list.');
  return JSON.parse(place);
}

/** Tells a foreign or damaged cursor; nothing rests on nobody being able to compute it. */
function checkOf(scope: CursorScope, text: string): string {
  return createHash('sha256')
    .update(JSON.stringify([scope.map((item) => item ?? null), text]))
    .digest('base64url')
    .slice(0, CHECK_LENGTH);
}
