import * as z from 'zod/mini';

import { EpochMs } from './base.js';

/** Reply of POST /sessions/{session_id}/messages; `sequence` is the replay cursor (spec). */
export const SendMessageReply = z.looseObject({ message_id: z.string(), sequence: z.int() });

export type SendMessageReply = z.infer<typeof SendMessageReply>;

/** A message as clients receive it: parts of an unknown type pass through (spec: Message). */
export const Message = z.looseObject({
  id: z.string(),
  session_id: z.string(),
  sender: z.string(),
  sequence: z.int(),
  content: z.union([z.string(), z.array(z.looseObject({ type: z.string() }))]),
  metadata: z.optional(z.record(z.string(), z.unknown())),
  created_at: EpochMs,
});

export type Message = z.infer<typeof Message>;
