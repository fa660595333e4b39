import * as z from 'zod/mini';

import { EpochMs } from './base.js';

/** Reply of POST /attachments; `size` in bytes (spec: Attachment). */
export const Attachment = z.looseObject({
  id: z.string(),
  filename: z.string(),
  content_type: z.string(),
  size: z.int(),
});

export type Attachment = z.infer<typeof Attachment>;

/** Reply of GET /attachments/{attachment_id}: with a fresh signed download address (wire: Content and attachments). */
export const AttachmentLink = z.looseObject({
  id: z.string(),
  filename: z.string(),
  content_type: z.string(),
  size: z.int(),
  url: z.string(),
  url_expires_at: EpochMs,
});

export type AttachmentLink = z.infer<typeof AttachmentLink>;

/** The reply of each endpoint, in JSON. */
export const ATTACHMENT_REPLIES = {
  uploadAttachment: Attachment,
  getAttachment: AttachmentLink,
} as const;
