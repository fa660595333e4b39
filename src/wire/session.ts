import * as z from 'zod/mini';
import { Handle } from './handle.js';
import { lazily } from './lazily.js';
import { IDEMPOTENCY_KEY_MAX_LENGTH, INVITEES_PER_CALL_MAX, TOPIC_MAX_LENGTH } from './limit.js';
import { Content, JsonObject } from './message.js';
import { Cursor, EpochMs, queryLimit } from './page.js';

/** `active`, or `ended`: terminal but reopenable (spec: States). */
export const SessionState = lazily(() => z.enum(['active', 'ended']));
export type SessionState = z.infer<typeof SessionState>;

/** (spec: Participant) */
export const ParticipantStatus = lazily(() => z.enum(['invited', 'joined', 'left']));
export type ParticipantStatus = z.infer<typeof ParticipantStatus>;

/** (spec: Participant) */
export const Participant = lazily(() =>
  z.looseObject({
    handle: z.string(),
    status: ParticipantStatus,
    joined_at: z.nullable(EpochMs),
    left_at: z.nullable(EpochMs),
  }),
);
export type Participant = z.infer<typeof Participant>;

/** (spec: Session) */
export const Session = lazily(() =>
  z.looseObject({
    id: z.string(),
    state: SessionState,
    topic: z.nullable(z.string()),
    participants: z.array(Participant),
    created_at: EpochMs,
    ended_at: z.nullable(EpochMs),
    /** The last event, in `GET /sessions` and for who is joined (wire: Sessions). */
    last_sequence: z.optional(z.int()),
  }),
);
export type Session = z.infer<typeof Session>;

/** The first message of a session that is created or reopened, sent atomically with it (spec: POST /sessions; wire: reopen). */
export const InitialMessage = lazily(() => z.strictObject({ content: Content, metadata: z.optional(JsonObject) }));
export type InitialMessage = z.infer<typeof InitialMessage>;

/** An idempotency key that an ASP client puts in the body instead of the header (wire: Common rules, idempotency). */
export const BodyIdempotencyKey = lazily(() =>
  z.string().check(z.minLength(1), z.maxLength(IDEMPOTENCY_KEY_MAX_LENGTH)),
);

const Invitees = lazily(() => z.array(Handle).check(z.maxLength(INVITEES_PER_CALL_MAX)));

/** Body of POST /sessions (spec: POST /sessions). */
export const CreateSessionRequest = lazily(() =>
  z
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
    ),
);
export type CreateSessionRequest = z.infer<typeof CreateSessionRequest>;

/** Reply of POST /sessions; `message_id` and `sequence` are those of the initial message, null without one. */
export const CreateSessionReply = lazily(() =>
  z.looseObject({ session_id: z.string(), message_id: z.nullable(z.string()), sequence: z.nullable(z.int()) }),
);
export type CreateSessionReply = z.infer<typeof CreateSessionReply>;

/** Body of POST /sessions/{session_id}/invite (wire: Sessions). */
export const InviteRequest = lazily(() => z.strictObject({ invite: Invitees.check(z.minLength(1)) }));
export type InviteRequest = z.infer<typeof InviteRequest>;

/** Only those who became `invited` by this call. */
export const InviteReply = lazily(() => z.looseObject({ invited: z.array(z.string()) }));
export type InviteReply = z.infer<typeof InviteReply>;

/** Body of POST /sessions/{session_id}/reopen (wire: Sessions). */
export const ReopenRequest = lazily(() =>
  z.strictObject({
    invite: z.optional(Invitees),
    initial_message: z.optional(InitialMessage),
  }),
);
export type ReopenRequest = z.infer<typeof ReopenRequest>;

/** Body of the verbs that take none: nothing, or an empty object. */
export const EmptyRequest = lazily(() => z.strictObject({}));

/** Reply of join, leave, end and reopen. */
export const Ok = lazily(() => z.looseObject({ ok: z.literal(true) }));

/** Query of GET /sessions. */
export const ListSessionsQuery = lazily(() =>
  z.strictObject({
    state: z.optional(SessionState),
    limit: queryLimit(),
    cursor: z.optional(Cursor),
  }),
);
export type ListSessionsQuery = z.infer<typeof ListSessionsQuery>;

/** Reply of GET /sessions: most recently changed first. */
export const ListSessionsReply = lazily(() =>
  z.looseObject({ sessions: z.array(Session), next_cursor: z.nullable(z.string()) }),
);
export type ListSessionsReply = z.infer<typeof ListSessionsReply>;

/** Reply of GET /accounts/me/sessions: one row a session, with the handle to act as. */
export const ListAccountSessionsReply = lazily(() =>
  z.looseObject({
    sessions: z.array(z.looseObject({ session: Session, acting_handle: z.string() })),
    next_cursor: z.nullable(z.string()),
  }),
);
export type ListAccountSessionsReply = z.infer<typeof ListAccountSessionsReply>;
