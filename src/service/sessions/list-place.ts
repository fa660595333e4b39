import { type CursorScope, decodeCursor } from '../store/cursor.js';
import { LIST_START, type ListPlace } from '../store/session-list-rows.js';

/** Where a list of sessions goes on. */
export function readPlace(scope: CursorScope, cursor: string | undefined): ListPlace {
  if (cursor === undefined) return LIST_START;
  const [changedAt, sessionId] = decodeCursor(scope, cursor);
  return { changedAt: Number(changedAt), sessionId: String(sessionId) };
}
