import { isId } from '../../../wire/id.js';
import type { Message } from '../../../wire/schemas/message.js';
import type { ErrorContext } from '../../context/explain.js';

/** An attachment as a message refers to it. */
export interface AttachmentReference {
  readonly id: string;
  readonly type: string;
  readonly filename: string | null;
  readonly content_type: string | null;
  readonly size: number | null;
  readonly message_id: string;
  readonly sender: string;
  readonly sequence: number;
  readonly created_at: number;
}

/** The attachments that a message refers to. */
export function listReferences({
  id: message_id,
  sender,
  sequence,
  created_at,
  content,
}: Message): AttachmentReference[] {
  if (!Array.isArray(content)) return [];
  return content.flatMap((part) => {
    const { attachment_id: id, name, mime_type, size } = part;
    if (typeof id !== 'string' || !isId('attachment', id)) return [];
    const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
    return [
      {
        id,
        type: part.type,
        filename: text(name),
        content_type: text(mime_type),
        size: typeof size === 'number' ? size : null,
        message_id,
        sender,
        sequence,
        created_at,
      },
    ];
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
