import type { Message } from '../../../wire/message.js';
import { isoTime, relativeTime } from '../../terminal/relative-time.js';
import type { Column } from '../../terminal/table.js';
import { messageText } from './message-text.js';

/** The columns of a list of messages; `isAcross`: of several sessions. */
export function messageColumns(nowMs: number, isAcross: boolean): readonly Column<Message>[] {
  const session: Column<Message> = { title: 'session', value: ({ session_id: id }) => id };
  return [
    ...(isAcross ? [session] : []),
    { title: 'sequence', value: ({ sequence }) => String(sequence) },
    {
      title: 'when',
      value: ({ created_at: at }) => relativeTime(at, nowMs),
      piped: ({ created_at: at }) => isoTime(at),
      paint: (text, _, style) => style.dim(text),
    },
    { title: 'from', value: ({ sender }) => sender, paint: (text, _, style) => style.cyan(text) },
    { title: 'text', value: ({ content }) => messageText(content), isFlexible: true },
  ];
}
