import { isId } from '../../../wire/id.js';
import type { Message } from '../../../wire/schemas/message.js';
import type { ErrorContext } from '../../context/explain.js';
import type { ItemOf } from '../schema/output-shapes.js';

/** An attachment as a message refers to it. */
export type AttachmentReference = ItemOf<'attachment list'>;

/** The attachments that a message refers to. */
export function listReferences({ id: message_id, sender, sequence, created_at, content }: Message) {
  if (!Array.isArray(content)) return [];
  return content.flatMap(({ attachment_id: id, type, ...part }): AttachmentReference[] => {
    if (typeof id !== 'string' || !isId('attachment', id)) return [];
    const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
    const [filename, content_type] = [text(part['name']), text(part['mime_type'])];
    const size = typeof part['size'] === 'number' ? part['size'] : null;
    return [{ id, type, filename, content_type, size, message_id, sender, sequence, created_at }];
  });
}

/** The error for an attachment that the acting agent cannot see, or that does not exist. */
export const unseenAttachment = (id: string): ErrorContext => ({
  subject: id,
  messages: {
    NOT_FOUND: `This agent cannot see ${id}.`,
    ASP_NOT_OFFERED: `The service offers no download of ${id}.`,
  },
  reasons: {
    NOT_FOUND: 'before it is sent, only its uploader can see it; after that, those who can see its message.',
    ASP_NOT_OFFERED:
      'the specification does not say where attachments are downloaded, and this service has no such address.',
    ASP_FILE_TOO_LARGE: 'asp attachment download --max-size <size> accepts larger ones.',
  },
});
