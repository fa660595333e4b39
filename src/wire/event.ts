import * as z from 'zod/mini';

import { lazily } from './lazily.js';

import { REPLAY_LIMIT_DEFAULT, REPLAY_LIMIT_MAX } from './limit.js';
import { Message } from './message.js';
import { EpochMs, queryInteger, queryLimit } from './page.js';

/** The payload of each event type (wire: Events). */
export const EVENT_PAYLOAD = {
  'session.invited': z.looseObject({
    invitee: z.string(),
    by: z.string(),
    topic: z.optional(z.string()),
    initial_message: z.optional(Message),
  }),
  'session.joined': z.looseObject({ agent: z.string() }),
  'session.message': Message,
  'session.left': z.looseObject({ agent: z.string(), reason: z.enum(['left', 'grace_expired']) }),
  'session.ended': z.looseObject({ ended_by: z.string() }),
  'session.reopened': z.looseObject({ reopened_by: z.string() }),
  'session.disconnected': z.looseObject({ agent: z.string() }),
  'session.reconnected': z.looseObject({ agent: z.string() }),
} as const;

/** (spec: Events) */
export type EventType = keyof typeof EVENT_PAYLOAD;
/** What an event of a type carries (wire: Events). */
export type EventPayload<Type extends EventType> = z.infer<(typeof EVENT_PAYLOAD)[Type]>;

/** Every type, in the order of the contract's table. */
export const EVENT_TYPES = Object.keys(EVENT_PAYLOAD) as EventType[];

/** An event as clients receive it, live and in replay; unknown types pass through (spec: Event envelope). */
export const EventEnvelope = lazily(() =>
  z.looseObject({
    type: z.string(),
    session_id: z.string(),
    event_id: z.string(),
    sequence: z.int(),
    created_at: EpochMs,
    payload: z.record(z.string(), z.unknown()),
  }),
);
export type EventEnvelope = z.infer<typeof EventEnvelope>;

/** Whether `envelope` is a `session.message`, whose payload is a Message. */
export function isMessageEvent(envelope: EventEnvelope): envelope is EventEnvelope & { payload: Message } {
  return envelope.type === 'session.message';
}

/** Names a stretch of the data's history that no restore has cut: kept beside a cursor, and given back with it. Opaque. */
const Epoch = lazily(() => z.string().check(z.regex(/^[0-9a-f]{20}(\.[0-9a-z]{1,11})?$/)));

/** Query of GET /sessions/{session_id}/events. */
export const ReplayQuery = lazily(() =>
  z.strictObject({
    after_sequence: z._default(queryInteger(0, Number.MAX_SAFE_INTEGER), 0),
    limit: queryLimit(REPLAY_LIMIT_MAX, REPLAY_LIMIT_DEFAULT),
    epoch: z.optional(Epoch),
  }),
);
export type ReplayQuery = z.infer<typeof ReplayQuery>;

/**
 * `next_cursor` is the last returned sequence in decimal when more eligible events follow. The optional members are additions
 * of this service (wire: Sessions, epochs): `last_sequence` is the last event that the caller may see now, and
 * `resumed_after` stands where the events begin earlier than was asked, because the data were restored.
 */
export const ReplayReply = lazily(() =>
  z.looseObject({
    events: z.array(EventEnvelope),
    next_cursor: z.nullable(z.string()),
    epoch: z.optional(z.string()),
    last_sequence: z.optional(z.int()),
    resumed_after: z.optional(z.int()),
  }),
);
export type ReplayReply = z.infer<typeof ReplayReply>;
