import { type CursorScope, decodeCursor } from '../store/cursor.js';
import { LIST_START, type ListPlace } from '../store/session-list-rows.js';

/** Where a list of sessions goes on. */
export function readPlace(scope: CursorScope, cursor: string | undefined): ListPlace {
  const [changedAt, sessionId] = decodeCursor(scope, cursor, [LIST_START.changedAt, LIST_START.sessionId]);
  return { changedAt, sessionId };
}
