import * as z from 'zod/mini';

import type { EventType } from '../event.js';
import { EpochMs } from './base.js';
import { Message } from './message.js';

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
} as const satisfies Record<EventType, z.ZodMiniType>;

/** What an event of a type carries (wire: Events). */
export type EventPayload<Type extends EventType> = z.infer<(typeof EVENT_PAYLOAD)[Type]>;

const Envelope = z.looseObject({
  type: z.string(),
  session_id: z.string(),
  event_id: z.string(),
  sequence: z.int(),
  created_at: EpochMs,
  payload: z.record(z.string(), z.unknown()),
});

/** An event of one type, with its payload. */
export interface TypedEvent<Type extends EventType> {
  type: Type;
  session_id: string;
  event_id: string;
  sequence: number;
  created_at: number;
  payload: EventPayload<Type>;
  [member: string]: unknown;
}

/**
 * An event as clients receive it, live and in replay (spec: Event envelope). The type lists the events of the
 * contract, so that comparing `type` gives `payload` its type; events of other types pass through all the same.
 */
export type EventEnvelope = { [Type in EventType]: TypedEvent<Type> }[EventType];
export const EventEnvelope = Envelope as typeof Envelope & z.ZodMiniType<EventEnvelope>;

/**
 * `next_cursor` is the last returned sequence in decimal if more eligible events follow. The optional members are
 * additions of this service (wire: Sessions, epochs): `last_sequence` is the last event that the caller may see now,
 * and `resumed_after` is present if the events begin earlier than requested because the data was restored.
 */
export const ReplayReply = z.looseObject({
  events: z.array(EventEnvelope),
  next_cursor: z.nullable(z.string()),
  epoch: z.optional(z.string()),
  last_sequence: z.optional(z.int()),
  resumed_after: z.optional(z.int()),
});

export type ReplayReply = z.infer<typeof ReplayReply>;

/** The reply of each endpoint, in JSON. */
export const EVENT_REPLIES = {
  replayEvents: ReplayReply,
} as const;
