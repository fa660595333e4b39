import type { Context } from '../../context/context.js';
import { readId } from '../../words/values.js';
import type { Words } from '../../words/words.js';
import { readSessionEvents } from '../session/read-session-events.js';
import { type AttachmentReference, attachmentsOf, sizeText } from './attachment-facts.js';

export interface ListAttachmentsOptions {
  readonly sessionId: string;
}

export function parse(words: Words): ListAttachmentsOptions {
  return { sessionId: readId('session', words.arguments[0] ?? '') };
}

/** No endpoint lists attachments: they are read off the messages that refer to them. */
export async function run(context: Context, { sessionId }: ListAttachmentsOptions): Promise<void> {
  const items: AttachmentReference[] = [];
  for await (const event of readSessionEvents(context, sessionId)) items.push(...attachmentsOf(event));
  await context.output.list({ items, next_cursor: null }, [
    { title: 'attachment', value: ({ id }) => id },
    { title: 'name', value: ({ filename }) => filename ?? '-', isFlexible: true },
    { title: 'type', value: ({ content_type: type }) => type ?? '-' },
    {
      title: 'size',
      value: ({ size }) => (size === null ? '-' : sizeText(size)),
      piped: ({ size }) => String(size ?? ''),
    },
    { title: 'from', value: ({ sender }) => sender },
    { title: 'sequence', value: ({ sequence }) => String(sequence) },
  ]);
  if (items.length === 0) await context.output.note('No attachments.');
}
