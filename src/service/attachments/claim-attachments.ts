import { PENDING_ATTACHMENT_LIFETIME_S } from '../../wire/limit.js';
import type { Content, Part } from '../../wire/message.js';
import type { AgentActor } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AttachmentRow, claimAttachmentRow } from '../store/attachment-rows.js';
import type { Transaction } from '../store/database.js';

/**
 * Makes the attachments of a message its own, and gives the content with what its parts leave unsaid about them filled
 * in. One that is unknown, foreign, expired or claimed fails the whole transaction, NOT_FOUND.
 */
export async function claimAttachments(
  transaction: Transaction,
  actor: Pick<AgentActor, 'agentId'>,
  sessionId: string,
  sequence: number,
  content: Content,
  now: number,
): Promise<Content> {
  if (typeof content === 'string') return content;
  const expiredAt = now - PENDING_ATTACHMENT_LIFETIME_S * 1000;
  const parts: Part[] = [];
  for (const part of content) {
    if (!('attachment_id' in part) || part.attachment_id === undefined) {
      parts.push(part);
      continue;
    }
    const claim = { id: part.attachment_id, agentId: actor.agentId, sessionId, sequence, expiredAt };
    const attachment = await claimAttachmentRow(transaction, claim);
    if (attachment === undefined) throw new ServiceError('NOT_FOUND');
    parts.push(fillIn(part, attachment));
  }
  return parts;
}

function fillIn(part: Part & { type: 'file' | 'image' }, attachment: AttachmentRow): Part {
  const filled = {
    ...part,
    name: part.name ?? attachment.filename,
    mime_type: part.mime_type ?? attachment.content_type,
  };
  return filled.type === 'file' ? { ...filled, size: filled.size ?? attachment.size } : filled;
}
