import { PENDING_ATTACHMENT_LIFETIME_S } from '../../wire/limit.js';
import { attachmentIdOf, type Content, type Part } from '../../wire/message.js';
import type { AgentActor } from '../context.js';
import { ServiceError } from '../service-error.js';
import { type AttachmentRow, claimAttachmentRow } from '../store/attachment-rows.js';
import type { Transaction } from '../store/database.js';

/**
 * Claims the attachments of a message and returns its content with their name, type and size filled in where a part
 * leaves them out. An unknown, foreign, expired or claimed attachment fails the whole transaction with NOT_FOUND.
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
    const id = attachmentIdOf(part);
    if (id === undefined || !(part.type === 'file' || part.type === 'image')) {
      parts.push(part);
      continue;
    }
    const claim = { id, agentId: actor.agentId, sessionId, sequence, expiredAt };
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
  if (filled.type !== 'file' || filled.size !== undefined || filled.size_bytes !== undefined) return filled;
  return { ...filled, size: attachment.size };
}
