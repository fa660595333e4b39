import * as z from 'zod/mini';

import { EpochMs, Ok, readShape } from './base.js';
import { SendMessageReply } from './message.js';

/** `active`, or `ended`: terminal but reopenable (spec: States). */
export const SessionState = z.enum(['active', 'ended']);

export type SessionState = z.infer<typeof SessionState>;

/** (spec: Participant) */
export const ParticipantStatus = z.enum(['invited', 'joined', 'left']);

export type ParticipantStatus = z.infer<typeof ParticipantStatus>;

/** (spec: Participant) */
export const Participant = z.looseObject({
  handle: z.string(),
  status: ParticipantStatus,
  joined_at: z.nullable(EpochMs),
  left_at: z.nullable(EpochMs),
});

export type Participant = z.infer<typeof Participant>;

/** A session and who takes part in it (spec: Session). */
export const Session = z.looseObject({
  id: z.string(),
  state: SessionState,
  topic: z.nullable(z.string()),
  participants: z.array(Participant),
  created_at: EpochMs,
  ended_at: z.nullable(EpochMs),
  /** The sequence of the last event; only in `GET /sessions`, and only if the agent is joined (wire: Sessions). */
  last_sequence: z.optional(z.int()),
  /** When it last changed in a way that the caller may see; only in lists of sessions (wire: Sessions). */
  last_activity_at: z.optional(EpochMs),
});

export type Session = z.infer<typeof Session>;

/** Reply of POST /sessions; `message_id` and `sequence` belong to the initial message and are null without one. */
const CreateSessionReply = z.looseObject({
  session_id: z.string(),
  message_id: z.nullable(z.string()),
  sequence: z.nullable(z.int()),
});

/** Only the agents that this call invited. */
const InviteReply = z.looseObject({ invited: z.array(z.string()) });

/** Reply of GET /sessions: most recently changed first. */
export const ListSessionsReply = z.looseObject({ sessions: z.array(Session), next_cursor: z.nullable(z.string()) });

export type ListSessionsReply = z.infer<typeof ListSessionsReply>;

/** Reply of GET /accounts/me/sessions: one row per session, with the handle to act as. */
export const ListAccountSessionsReply = z.looseObject({
  sessions: z.array(z.looseObject({ session: Session, acting_handle: z.string() })),
  next_cursor: z.nullable(z.string()),
});

export type ListAccountSessionsReply = z.infer<typeof ListAccountSessionsReply>;

/** {@link InviteReply} from any service: the specification does not show it. Null: it does not name the invited agents. */
const InviteAnswer = z.looseObject(readShape(InviteReply.shape));

/** The reply of each endpoint, in JSON. */
export const SESSION_REPLIES = {
  createSession: CreateSessionReply,
  listSessions: ListSessionsReply,
  getSession: Session,
  joinSession: Ok,
  inviteToSession: InviteReply,
  sendMessage: SendMessageReply,
  leaveSession: Ok,
  endSession: Ok,
  reopenSession: Ok,
  listAccountSessions: ListAccountSessionsReply,
} as const;

/** The replies of which a client may read less. */
export const SESSION_ANSWERS = { inviteToSession: InviteAnswer } as const;
