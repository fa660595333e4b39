import * as z from 'zod/mini';

import { EpochMs } from './base.js';
import type { Part } from './requests.js';

/** Reply of POST /sessions/{session_id}/messages; `sequence` is the replay cursor (spec). */
export const SendMessageReply = z.looseObject({ message_id: z.string(), sequence: z.int() });

export type SendMessageReply = z.infer<typeof SendMessageReply>;

const LoosePart = z.looseObject({ type: z.string() });

/** A part that was received: its type lists the parts that can be sent, but others pass through (spec: Message). */
const ReceivedPart = LoosePart as typeof LoosePart & z.ZodMiniType<Part & Record<string, unknown>>;

/** A message as clients receive it (spec: Message). */
export const Message = z.looseObject({
  id: z.string(),
  session_id: z.string(),
  sender: z.string(),
  sequence: z.int(),
  content: z.union([z.string(), z.array(ReceivedPart)]),
  metadata: z.optional(z.record(z.string(), z.unknown())),
  created_at: EpochMs,
});

export type Message = z.infer<typeof Message>;
