import * as z from 'zod/mini';

import { EpochMs, readShape } from './base.js';

/** A file that was uploaded; `size` in bytes (spec: Attachment). */
export const Attachment = z.looseObject({
  id: z.string(),
  filename: z.string(),
  content_type: z.string(),
  size: z.int(),
});

export type Attachment = z.infer<typeof Attachment>;

/** Reply of GET /attachments/{attachment_id}: with a fresh signed download address (wire: Content and attachments). */
const AttachmentLink = z.looseObject({
  id: z.string(),
  filename: z.string(),
  content_type: z.string(),
  size: z.int(),
  url: z.string(),
  url_expires_at: EpochMs,
});

/** The reply of each endpoint, in JSON. */
export const ATTACHMENT_REPLIES = {
  uploadAttachment: Attachment,
  getAttachment: AttachmentLink,
} as const;

/** An attachment with its download address, as a client reads it from any service. */
export const AttachmentLinkAnswer = z.looseObject({
  ...AttachmentLink.shape,
  ...readShape({ url_expires_at: AttachmentLink.shape.url_expires_at }),
});

export type AttachmentLinkAnswer = z.infer<typeof AttachmentLinkAnswer>;

/** The replies of which a client may read less. */
export const ATTACHMENT_ANSWERS = { getAttachment: AttachmentLinkAnswer } as const;
