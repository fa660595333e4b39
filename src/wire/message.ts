import * as z from 'zod/mini';
import { AttachmentId } from './id.js';
import { lazily } from './lazily.js';
import { ATTACHMENT_FILENAME_MAX_LENGTH, ATTACHMENTS_PER_MESSAGE_MAX, IDEMPOTENCY_KEY_MAX_LENGTH } from './limit.js';
import { EpochMs } from './page.js';

const HttpUrl = lazily(() =>
  z.string().check(z.maxLength(2048), z.regex(/^https?:\/\/[^\s]+$/i, 'must be an http or https URL')),
);
const DataUri = lazily(() => z.string().check(z.regex(/^data:[^\s,]*,/i, 'must be a data: URI')));
const PartName = lazily(() => z.string().check(z.minLength(1), z.maxLength(ATTACHMENT_FILENAME_MAX_LENGTH)));
const MimeType = lazily(() =>
  z.string().check(z.maxLength(255), z.regex(/^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/, 'must be a MIME type')),
);

const countGiven = (...values: unknown[]): number => values.filter((value) => value !== undefined).length;

/** Text. */
export const TextPart = lazily(() =>
  z.strictObject({ type: z.literal('text'), text: z.string().check(z.minLength(1)) }),
);
export type TextPart = z.infer<typeof TextPart>;

/** A JSON object: no array, no scalar (wire: Content and attachments). */
export const DataPart = lazily(() => z.strictObject({ type: z.literal('data'), data: z.record(z.string(), z.json()) }));
export type DataPart = z.infer<typeof DataPart>;

/** An attachment or a file elsewhere: exactly one of `attachment_id` and `url` (wire: Content and attachments). */
export const FilePart = lazily(() =>
  z
    .strictObject({
      type: z.literal('file'),
      attachment_id: z.optional(AttachmentId),
      url: z.optional(HttpUrl),
      name: z.optional(PartName),
      mime_type: z.optional(MimeType),
      size: z.optional(z.int().check(z.nonnegative())),
    })
    .check(z.refine((part) => countGiven(part.attachment_id, part.url) === 1, 'exactly one of attachment_id and url')),
);
export type FilePart = z.infer<typeof FilePart>;

/** A picture: exactly one of `attachment_id`, `url` and `data_uri` (wire: Content and attachments). */
export const ImagePart = lazily(() =>
  z
    .strictObject({
      type: z.literal('image'),
      attachment_id: z.optional(AttachmentId),
      url: z.optional(HttpUrl),
      data_uri: z.optional(DataUri),
      name: z.optional(PartName),
      mime_type: z.optional(MimeType),
    })
    .check(
      z.refine(
        (part) => countGiven(part.attachment_id, part.url, part.data_uri) === 1,
        'exactly one of attachment_id, url and data_uri',
      ),
    ),
);
export type ImagePart = z.infer<typeof ImagePart>;

/** One typed part of a message (spec: Message, typed parts). */
export const Part = lazily(() => z.discriminatedUnion('type', [TextPart, DataPart, FilePart, ImagePart]));
export type Part = z.infer<typeof Part>;

/** The attachments that the parts of a message refer to, in order. */
export function attachmentIdsOf(content: string | readonly object[]): string[] {
  if (typeof content === 'string') return [];
  return content.flatMap((part) =>
    'attachment_id' in part && typeof part.attachment_id === 'string' ? [part.attachment_id] : [],
  );
}

const Parts = lazily(() =>
  z.array(Part).check(
    z.minLength(1),
    z.refine(
      (parts) => attachmentIdsOf(parts).length <= ATTACHMENTS_PER_MESSAGE_MAX,
      `at most ${ATTACHMENTS_PER_MESSAGE_MAX} attachments a message`,
    ),
    z.refine((parts) => new Set(attachmentIdsOf(parts)).size === attachmentIdsOf(parts).length, 'each attachment once'),
  ),
);

/** What is said: plain text, or typed parts (spec: Message). */
export const Content = lazily(() => z.union([z.string().check(z.minLength(1)), Parts]));
export type Content = z.infer<typeof Content>;

/** A free-form JSON object sent with a message (spec: Message). */
export const Metadata = lazily(() => z.record(z.string(), z.json()));
export type Metadata = z.infer<typeof Metadata>;

/** Body of POST /sessions/{session_id}/messages (spec). */
export const SendMessageRequest = lazily(() =>
  z.strictObject({
    content: Content,
    metadata: z.optional(Metadata),
    idempotency_key: z.optional(z.string().check(z.minLength(1), z.maxLength(IDEMPOTENCY_KEY_MAX_LENGTH))),
  }),
);
export type SendMessageRequest = z.infer<typeof SendMessageRequest>;

/** Reply of POST /sessions/{session_id}/messages; `sequence` is the replay cursor (spec). */
export const SendMessageReply = lazily(() => z.looseObject({ message_id: z.string(), sequence: z.int() }));
export type SendMessageReply = z.infer<typeof SendMessageReply>;

/** A message as clients receive it: parts of an unknown type pass through (spec: Message). */
export const Message = lazily(() =>
  z.looseObject({
    id: z.string(),
    session_id: z.string(),
    sender: z.string(),
    sequence: z.int(),
    content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]),
    metadata: z.optional(z.record(z.string(), z.unknown())),
    created_at: EpochMs,
  }),
);
export type Message = z.infer<typeof Message>;
