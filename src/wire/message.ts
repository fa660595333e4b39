import * as z from 'zod/mini';
import { AttachmentId, FileId, toAttachmentId } from './id.js';
import { abortOnIssue, lazily } from './lazily.js';
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

/** A value that JSON can carry. */
type Json = z.core.util.JSONType;

/** A member that is left out of the text is undefined, or has a class that JSON does not know. */
function isJson(value: unknown): value is Json {
  if (typeof value === 'number') return Number.isFinite(value);
  if (typeof value !== 'object' || value === null)
    return typeof value === 'string' || typeof value === 'boolean' || value === null;
  return Array.isArray(value) ? value.every(isJson) : isJsonObject(value);
}

function isJsonObject(value: unknown): value is Record<string, Json> {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  const isPlain = prototype === null || prototype === Object.prototype;
  return isPlain && Object.keys(value).every((name) => isJson(Reflect.get(value, name)));
}

/**
 * Any JSON object. One walk checks it: a schema of unions would try each kind of value on every member, which makes a large
 * object ten times as expensive to check as to parse.
 */
export const JsonObject = lazily(() =>
  z.custom<Record<string, Json>>(isJsonObject, { error: 'must be a JSON object' }),
);
export type JsonObject = z.infer<typeof JsonObject>;
// What JSON Schema says of it: a check in code has no schema of its own.
z.globalRegistry.add(JsonObject, { type: 'object' });

/** Text. */
export const TextPart = lazily(() =>
  z.strictObject({ type: z.literal('text'), text: z.string().check(z.minLength(1)) }),
);
export type TextPart = z.infer<typeof TextPart>;

/** A JSON object: no array, no scalar (wire: Content and attachments). */
export const DataPart = lazily(() => z.strictObject({ type: z.literal('data'), data: JsonObject }));
export type DataPart = z.infer<typeof DataPart>;

/**
 * An attachment or a file elsewhere: exactly one of `attachment_id`, `file_id` and `url` (wire: Content and attachments).
 * `file_id` and `size_bytes` are other names of `attachment_id` and `size` (wire: Aliases).
 */
export const FilePart = lazily(() =>
  z
    .strictObject({
      type: z.literal('file'),
      attachment_id: z.optional(AttachmentId),
      file_id: z.optional(FileId),
      url: z.optional(HttpUrl),
      name: z.optional(PartName),
      mime_type: z.optional(MimeType),
      size: z.optional(z.int().check(z.nonnegative())),
      size_bytes: z.optional(z.int().check(z.nonnegative())),
    })
    .check(
      z.refine(
        (part) => countGiven(part.attachment_id, part.file_id, part.url) === 1,
        'exactly one of attachment_id, file_id and url',
      ),
    ),
);
export type FilePart = z.infer<typeof FilePart>;

/** A picture: exactly one of `attachment_id`, `file_id`, `url` and `data_uri` (wire: Content and attachments). */
export const ImagePart = lazily(() =>
  z
    .strictObject({
      type: z.literal('image'),
      attachment_id: z.optional(AttachmentId),
      file_id: z.optional(FileId),
      url: z.optional(HttpUrl),
      data_uri: z.optional(DataUri),
      name: z.optional(PartName),
      mime_type: z.optional(MimeType),
    })
    .check(
      z.refine(
        (part) => countGiven(part.attachment_id, part.file_id, part.url, part.data_uri) === 1,
        'exactly one of attachment_id, file_id, url and data_uri',
      ),
    ),
);
export type ImagePart = z.infer<typeof ImagePart>;

/** One typed part of a message (spec: Message, typed parts). */
export const Part = lazily(() =>
  z.discriminatedUnion('type', [TextPart, DataPart, FilePart, ImagePart]).check(abortOnIssue()),
);
export type Part = z.infer<typeof Part>;

/** The attachment that a part refers to, by either of its names; undefined for every other part. */
export function attachmentIdOf(part: object): string | undefined {
  if ('attachment_id' in part && typeof part.attachment_id === 'string') return part.attachment_id;
  return 'file_id' in part && typeof part.file_id === 'string' ? toAttachmentId(part.file_id) : undefined;
}

/** The attachments that the parts of a message refer to, in order. */
export function attachmentIdsOf(content: string | readonly object[]): string[] {
  if (typeof content === 'string') return [];
  return content.flatMap((part) => attachmentIdOf(part) ?? []);
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

/** Body of POST /sessions/{session_id}/messages (spec). */
export const SendMessageRequest = lazily(() =>
  z.strictObject({
    content: Content,
    metadata: z.optional(JsonObject),
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

/** The member of a message's metadata that names the message it answers (wire: Content and attachments, replies). */
export const IN_REPLY_TO = 'in_reply_to';

/** The id of the message that a message answers, if it says so. */
export function findInReplyTo({ metadata }: Pick<Message, 'metadata'>): string | undefined {
  const id = metadata?.[IN_REPLY_TO];
  return typeof id === 'string' ? id : undefined;
}
