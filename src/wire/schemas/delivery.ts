import * as z from 'zod/mini';

import { EpochMs } from './base.js';
import { ParticipantStatus } from './session.js';

/**
 * What became of a message for one recipient: `stored` by the service, `delivered` (its client proved that it got it), `taken`
 * (handed to a turn, a command or a reader, as the recipient said), `answered` (a message of the recipient names it). Each
 * includes those before it (wire: Delivery).
 */
export const DeliveryState = z.enum(['stored', 'delivered', 'taken', 'answered']);

export type DeliveryState = z.infer<typeof DeliveryState>;

/** One recipient of a message. */
export const Recipient = z.looseObject({
  handle: z.string(),
  status: ParticipantStatus,
  state: DeliveryState,
  /** When it was taken; null where that was not reported. */
  taken_at: z.nullable(EpochMs),
  /** The first message of the recipient that names this one. */
  answered_sequence: z.nullable(z.int()),
  /** False: the recipient does not say what it takes. */
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

/** Those of them that are messages and count as taken; none where the agent does not report what it takes. */
export const TakenReply = z.looseObject({ taken: z.array(z.int()) });

export type TakenReply = z.infer<typeof TakenReply>;

/** The reply of each endpoint, in JSON. */
export const DELIVERY_REPLIES = { getDelivery: DeliveryReply, reportTaken: TakenReply } as const;
