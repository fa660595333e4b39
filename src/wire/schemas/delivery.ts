import * as z from 'zod/mini';

import { EpochMs } from './base.js';
import { ParticipantStatus } from './session.js';

/**
 * How far a message got with one recipient: `stored` by the service, `delivered` (the recipient's client confirmed it),
 * `taken` (the recipient reported that it handed the message to a model, a command or a reader), `answered` (the
 * recipient sent a message that names it). Each state includes those before it (wire: Delivery).
 */
export const DeliveryState = z.enum(['stored', 'delivered', 'taken', 'answered']);

export type DeliveryState = z.infer<typeof DeliveryState>;

/** One recipient of a message. */
export const Recipient = z.looseObject({
  handle: z.string(),
  status: ParticipantStatus,
  state: DeliveryState,
  /** When it was taken; null if that was not reported. */
  taken_at: z.nullable(EpochMs),
  /** The first message of the recipient that names this one. */
  answered_sequence: z.nullable(z.int()),
  /** False if the recipient does not report what it has taken. */
  reports_taken: z.boolean(),
});

export type Recipient = z.infer<typeof Recipient>;

/** Reply of GET /sessions/{session_id}/delivery: everyone but the sender who can see the message, or will once it joins. */
export const DeliveryReply = z.looseObject({
  message_id: z.string(),
  sequence: z.int(),
  recipients: z.array(Recipient),
});

export type DeliveryReply = z.infer<typeof DeliveryReply>;

/** Those that are messages and count as taken; empty if the agent does not report what it has taken. */
export const TakenReply = z.looseObject({ taken: z.array(z.int()) });

export type TakenReply = z.infer<typeof TakenReply>;

/** Reply of POST /sessions/{session_id}/claim. */
export const ClaimReply = z.looseObject({
  /** Whether the caller has the session now. */
  is_yours: z.boolean(),
  /** Whether the event is done, by any worker. */
  is_done: z.boolean(),
  /** Until the session is free, unless its worker renews the claim. */
  expires_in_ms: z.int(),
  /** How many workers have claimed the session for this event, including this one. */
  attempt: z.int(),
});

export type ClaimReply = z.infer<typeof ClaimReply>;

/** The reply of each endpoint, in JSON. */
export const DELIVERY_REPLIES = {
  getDelivery: DeliveryReply,
  reportTaken: TakenReply,
  claimSession: ClaimReply,
} as const;
