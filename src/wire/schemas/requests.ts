import * as z from 'zod/mini';

import { HANDLE_MAX_LENGTH, HANDLE_PART_PATTERN, HANDLE_PATTERN, OWNER_GLOB_PATTERN } from '../handle.js';
import { FILE_ID_PATTERN, ID_PATTERN } from '../id.js';
import {
  ATTACHMENT_FILENAME_MAX_LENGTH,
  ATTACHMENTS_PER_MESSAGE_MAX,
  CLAIM_MAX_MS,
  IDEMPOTENCY_KEY_MAX_LENGTH,
  INVITEES_PER_CALL_MAX,
  LIST_LIMIT_DEFAULT,
  LIST_LIMIT_MAX,
  MESSAGE_SEARCH_LIMIT_MAX,
  REPLAY_LIMIT_DEFAULT,
  REPLAY_LIMIT_MAX,
  SEARCH_LIMIT_DEFAULT,
  SEARCH_LIMIT_MAX,
  SEARCH_QUERY_MAX_LENGTH,
  SEARCH_QUERY_MIN_LENGTH,
  TAKEN_PER_CALL_MAX,
  TOPIC_MAX_LENGTH,
  WEBHOOK_SECRET_MAX_LENGTH,
  WEBHOOK_URL_MAX_LENGTH,
  WORKER_MAX_LENGTH,
} from '../limit.js';
import { listAttachmentIds, UNANSWERED_REASONS } from '../message.js';
import { SCOPES } from '../scope.js';
import { InboundPolicy, Visibility } from './agent.js';
import { SessionState } from './session.js';

const DIGITS = /^(0|[1-9]\d{0,15})$/;

/**
 * The last check of a schema whose values come in arrays. The service stops at the first issue of a body, but zod continues
 * with the next element of an array after issues that do not abort, such as a pattern that does not match or an
 * unknown member.
 */
function abortOnIssue<Value>(): z.core.$ZodCheck<Value> {
  return z.check((payload) => {
    if (payload.issues.length > 0) payload.aborted = true;
  });
}

/**
 * A whole number in a query string, or the number itself on the client's side: decimal digits only, from `min` to
 * `max`. `1e2`, `+1`, ` 1` and `1.0` are refused.
 */
function queryInteger(min: number, max: number) {
  return z.pipe(
    z.pipe(z.union([z.string().check(z.regex(DIGITS, 'must be a whole number')), z.number()]), z.transform(Number)),
    z.int().check(z.gte(min), z.lte(max)),
  );
}

/** The `limit` of a list: 1 to `max`, default `standard`. */
function queryLimit(max: number = LIST_LIMIT_MAX, standard: number = LIST_LIMIT_DEFAULT) {
  return z._default(queryInteger(1, max), standard);
}

/** An opaque cursor: the `next_cursor` of the previous page (wire: Common rules, lists). */
const Cursor = z.string().check(z.minLength(1), z.maxLength(512));

/** `limit` and `cursor`, as every list accepts them. */
export const PageQuery = z.strictObject({ limit: queryLimit(), cursor: z.optional(Cursor) });

export type PageQuery = z.infer<typeof PageQuery>;

/** One scope. */
export const Scope = z.enum(SCOPES);

/** `att_…` (spec: Attachment). */
const AttachmentId = z.string().check(z.regex(ID_PATTERN.attachment, 'an attachment id has the form att_…'));

/** `file_…`: another name for an attachment id (wire: Aliases). */
const FileId = z.string().check(z.regex(FILE_ID_PATTERN, 'a file id has the form file_…'));

/** An agent's address, `@owner.agent_name`: lower case, exactly one dot (spec: Resources, Handle). */
export const Handle = z
  .string()
  .check(
    z.maxLength(HANDLE_MAX_LENGTH),
    z.regex(HANDLE_PATTERN, 'a handle has the form @owner.agent_name'),
    abortOnIssue(),
  );

/** One half of a handle: the owner's name or the agent's local name. */
export const HandlePart = z
  .string()
  .check(z.minLength(1), z.maxLength(64), z.regex(HANDLE_PART_PATTERN, 'only a-z, 0-9, _ and - are allowed'));

/** Every agent of one owner, `@owner.*`, as an allowlist entry (wire: Agents, search, trust). */
export const OwnerGlob = z.string().check(z.maxLength(HANDLE_MAX_LENGTH), z.regex(OWNER_GLOB_PATTERN));

const HttpUrl = z.string().check(z.maxLength(2048), z.regex(/^https?:\/\/[^\s]+$/i, 'must be an http or https URL'));

const PictureUri = z
  .string()
  .check(z.regex(/^data:image\/[\w!#$&^.+-]+(;[^\s,]*)?,/i, 'must be a data: URI of an image, such as data:image/png'));

const PartName = z.string().check(z.minLength(1), z.maxLength(ATTACHMENT_FILENAME_MAX_LENGTH));

const MimeType = z.string().check(z.maxLength(255), z.regex(/^[\w!#$&^.+-]+\/[\w!#$&^.+-]+$/, 'must be a MIME type'));

/** A value that JSON can represent. */
type Json = z.core.util.JSONType;

const countGiven = (...values: unknown[]): number => values.filter((value) => value !== undefined).length;

/** A member that JSON omits because it is undefined, or whose class JSON does not support. */
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
 * Any JSON object. One walk checks it: a schema of unions would try each kind of value on every member, which makes a
 * large object ten times as expensive to check as to parse.
 */
export const JsonObject = z.custom<Record<string, Json>>(isJsonObject, { error: 'must be a JSON object' });

export type JsonObject = z.infer<typeof JsonObject>;

// The JSON Schema for it: a check in code has no schema of its own.
z.globalRegistry.add(JsonObject, { type: 'object' });

/** Text. */
const TextPart = z.strictObject({ type: z.literal('text'), text: z.string().check(z.minLength(1)) });

/** A JSON object: not an array, not a scalar (wire: Content and attachments). */
const DataPart = z.strictObject({ type: z.literal('data'), data: JsonObject });

/**
 * An attachment or a file elsewhere: exactly one of `attachment_id`, `file_id` and `url` (wire: Content and attachments).
 * `file_id` and `size_bytes` are other names of `attachment_id` and `size` (wire: Aliases).
 */
const FilePart = z
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
  );

/** A picture: exactly one of `attachment_id`, `file_id`, `url` and `data_uri` (wire: Content and attachments). */
const ImagePart = z
  .strictObject({
    type: z.literal('image'),
    attachment_id: z.optional(AttachmentId),
    file_id: z.optional(FileId),
    url: z.optional(HttpUrl),
    data_uri: z.optional(PictureUri),
    name: z.optional(PartName),
    mime_type: z.optional(MimeType),
  })
  .check(
    z.refine(
      (part) => countGiven(part.attachment_id, part.file_id, part.url, part.data_uri) === 1,
      'exactly one of attachment_id, file_id, url and data_uri',
    ),
  );

/** One typed part of a message (spec: Message, typed parts). */
export const Part = z.discriminatedUnion('type', [TextPart, DataPart, FilePart, ImagePart]).check(abortOnIssue());

export type Part = z.infer<typeof Part>;

const Parts = z.array(Part).check(
  z.minLength(1),
  z.refine(
    (parts) => listAttachmentIds(parts).length <= ATTACHMENTS_PER_MESSAGE_MAX,
    `at most ${ATTACHMENTS_PER_MESSAGE_MAX} attachments per message`,
  ),
  z.refine(
    (parts) => new Set(listAttachmentIds(parts)).size === listAttachmentIds(parts).length,
    'use each attachment only once',
  ),
);

/** The content of a message: plain text, or typed parts (spec: Message). */
export const Content = z.union([z.string().check(z.minLength(1)), Parts]);

export type Content = z.infer<typeof Content>;

/** Body of POST /sessions/{session_id}/messages (spec). */
export const SendMessageRequest = z.strictObject({
  content: Content,
  metadata: z.optional(JsonObject),
  idempotency_key: z.optional(z.string().check(z.minLength(1), z.maxLength(IDEMPOTENCY_KEY_MAX_LENGTH))),
});

export type SendMessageRequest = z.infer<typeof SendMessageRequest>;

/** The first message of a session that is created or reopened, sent atomically with it (spec: POST /sessions; wire: reopen). */
export const InitialMessage = z.strictObject({ content: Content, metadata: z.optional(JsonObject) });

export type InitialMessage = z.infer<typeof InitialMessage>;

/** An idempotency key that an ASP client puts in the body instead of the header (wire: Common rules, idempotency). */
const BodyIdempotencyKey = z.string().check(z.minLength(1), z.maxLength(IDEMPOTENCY_KEY_MAX_LENGTH));

const Invitees = z.array(Handle).check(z.maxLength(INVITEES_PER_CALL_MAX));

/** Body of POST /sessions (spec: POST /sessions). */
export const CreateSessionRequest = z
  .strictObject({
    invite: z.optional(Invitees),
    topic: z.optional(z.string().check(z.maxLength(TOPIC_MAX_LENGTH))),
    initial_message: z.optional(InitialMessage),
    end_after_send: z.optional(z.boolean()),
    idempotency_key: z.optional(BodyIdempotencyKey),
  })
  .check(
    z.refine((body) => body.end_after_send !== true || body.initial_message !== undefined, {
      error: 'end_after_send needs initial_message',
      path: ['end_after_send'],
    }),
  );

export type CreateSessionRequest = z.infer<typeof CreateSessionRequest>;

/** Body of POST /sessions/{session_id}/invite (wire: Sessions). */
export const InviteRequest = z.strictObject({ invite: Invitees.check(z.minLength(1)) });

export type InviteRequest = z.infer<typeof InviteRequest>;

/** Body of POST /sessions/{session_id}/reopen (wire: Sessions). */
export const ReopenRequest = z.strictObject({
  invite: z.optional(Invitees),
  initial_message: z.optional(InitialMessage),
});

export type ReopenRequest = z.infer<typeof ReopenRequest>;

/** Body of the verbs that take none: nothing, or an empty object. */
export const EmptyRequest = z.strictObject({});

/** Query of GET /sessions. */
export const ListSessionsQuery = z.strictObject({
  state: z.optional(SessionState),
  limit: queryLimit(),
  cursor: z.optional(Cursor),
});

export type ListSessionsQuery = z.infer<typeof ListSessionsQuery>;

/**
 * Identifies a stretch of the data's history that no restore has interrupted. A client stores it with its cursor and
 * sends both back. Opaque.
 */
const Epoch = z.string().check(z.regex(/^[0-9a-f]{20}(\.[0-9a-z]{1,11})?$/));

/** Query of GET /sessions/{session_id}/events. */
export const ReplayQuery = z.strictObject({
  after_sequence: z._default(queryInteger(0, Number.MAX_SAFE_INTEGER), 0),
  limit: queryLimit(REPLAY_LIMIT_MAX, REPLAY_LIMIT_DEFAULT),
  epoch: z.optional(Epoch),
});

export type ReplayQuery = z.infer<typeof ReplayQuery>;

/** Query of GET /sessions/{session_id}/delivery: the sequence of a message. */
export const DeliveryQuery = z.strictObject({ sequence: queryInteger(1, Number.MAX_SAFE_INTEGER) });

export type DeliveryQuery = z.infer<typeof DeliveryQuery>;

const MessageSequence = z.int().check(z.gte(1), z.lte(Number.MAX_SAFE_INTEGER));

/** Body of POST /sessions/{session_id}/taken: sequences of messages that the caller has taken. */
export const TakenRequest = z.strictObject({
  sequences: z.array(MessageSequence).check(z.minLength(1), z.maxLength(TAKEN_PER_CALL_MAX)),
});

export type TakenRequest = z.infer<typeof TakenRequest>;

/** Body of POST /sessions/{session_id}/claim: who handles an event, for how long, and whether it is done. */
export const ClaimRequest = z.strictObject({
  worker: z.string().check(z.minLength(1), z.maxLength(WORKER_MAX_LENGTH), z.regex(/^[\w.:-]*$/)),
  event_id: z.string().check(z.minLength(1), z.maxLength(64)),
  sequence: MessageSequence,
  lease_ms: z.int().check(z.gte(0), z.lte(CLAIM_MAX_MS)),
  done: z.optional(z.boolean()),
});

export type ClaimRequest = z.infer<typeof ClaimRequest>;

/** Body of POST /sessions/{session_id}/unanswered: the message that gets no answer, and why. */
export const UnansweredRequest = z.strictObject({ sequence: MessageSequence, reason: z.enum(UNANSWERED_REASONS) });

export type UnansweredRequest = z.infer<typeof UnansweredRequest>;

/** Something an agent says it can do. */
export const Skill = z
  .strictObject({
    name: z.string().check(z.minLength(1), z.maxLength(100)),
    description: z.string().check(z.maxLength(1000)),
  })
  .check(abortOnIssue());

export type Skill = z.infer<typeof Skill>;

const DisplayName = z.string().check(z.minLength(1), z.maxLength(100));

const profileShape = {
  display_name: z.optional(DisplayName),
  description: z.optional(z.nullable(z.string().check(z.maxLength(1000)))),
  card_body: z.optional(z.nullable(z.string().check(z.maxLength(20_000)))),
  skills: z.optional(z.array(Skill).check(z.maxLength(20))),
};

const controlShape = {
  visibility: z.optional(Visibility),
  inbound_policy: z.optional(InboundPolicy),
  can_initiate_sessions: z.optional(z.boolean()),
};

/** Body of PATCH /agents/me: what an agent may change about itself. */
export const UpdateActingAgentRequest = z.strictObject({ ...profileShape, reports_taken: z.optional(z.boolean()) });

export type UpdateActingAgentRequest = z.infer<typeof UpdateActingAgentRequest>;

/** Body of PATCH /agents/{owner}/{name}: what its account may change. */
export const UpdateAgentRequest = z.strictObject({
  ...profileShape,
  ...controlShape,
  paused: z.optional(z.boolean()),
  reports_taken: z.optional(z.boolean()),
});

export type UpdateAgentRequest = z.infer<typeof UpdateAgentRequest>;

/**
 * Body of POST /agents/{owner}/{name}/webhook. Without `secret`, the old one stays; the first call needs one. It is 24
 * to 64 bytes in base64, and may begin with `whsec_` (Standard Webhooks 1.0).
 */
export const SetWebhookRequest = z.strictObject({
  url: z.string().check(z.minLength(1), z.maxLength(WEBHOOK_URL_MAX_LENGTH)),
  secret: z.optional(z.string().check(z.maxLength(WEBHOOK_SECRET_MAX_LENGTH))),
});

export type SetWebhookRequest = z.infer<typeof SetWebhookRequest>;

/** Body of POST /agents. */
export const CreateAgentRequest = z.strictObject({
  ...profileShape,
  ...controlShape,
  local_name: HandlePart,
  display_name: DisplayName,
});

export type CreateAgentRequest = z.infer<typeof CreateAgentRequest>;

const SearchText = z.string().check(z.minLength(SEARCH_QUERY_MIN_LENGTH), z.maxLength(SEARCH_QUERY_MAX_LENGTH));

/** Query of GET /agents. */
export const ListAgentsQuery = z.strictObject({
  q: z.optional(z.string().check(z.maxLength(SEARCH_QUERY_MAX_LENGTH))),
  limit: queryLimit(),
  cursor: z.optional(Cursor),
});

export type ListAgentsQuery = z.infer<typeof ListAgentsQuery>;

/** Query of GET /search/agents and /search/directory. */
export const SearchQuery = z.strictObject({
  q: SearchText,
  limit: queryLimit(SEARCH_LIMIT_MAX, SEARCH_LIMIT_DEFAULT),
  cursor: z.optional(Cursor),
});

export type SearchQuery = z.infer<typeof SearchQuery>;

/** Query of GET /search/messages. */
export const SearchMessagesQuery = z.strictObject({
  q: SearchText,
  limit: queryLimit(MESSAGE_SEARCH_LIMIT_MAX, SEARCH_LIMIT_DEFAULT),
  cursor: z.optional(Cursor),
  session_id: z.optional(z.string()),
  counterpart: z.optional(z.string()),
});

export type SearchMessagesQuery = z.infer<typeof SearchMessagesQuery>;

/** A handle, or every agent of an owner (wire: Agents, search, trust). */
export const AllowlistEntry = z.union([Handle, OwnerGlob]);

export type AllowlistEntry = z.infer<typeof AllowlistEntry>;

/** Body of POST /agents/{owner}/{name}/allowlist. */
export const AddAllowlistRequest = z.strictObject({
  entries: z.array(AllowlistEntry).check(z.minLength(1), z.maxLength(1000)),
});

export type AddAllowlistRequest = z.infer<typeof AddAllowlistRequest>;

/** Body of POST /blocks. A pattern, `@owner.*`, blocks an owner: all of its agents, present and future. */
export const BlockRequest = z.strictObject({ handle: AllowlistEntry });

export type BlockRequest = z.infer<typeof BlockRequest>;
