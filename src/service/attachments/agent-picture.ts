import type { ServiceContext } from '../core/context.js';
import type { Query, Transaction } from '../core/database.js';
import { ServiceError } from '../core/errors.js';
import { type AgentRow, updatePicture } from '../store/agents.js';
import { claimAttachmentRow, releasePictures } from '../store/attachments.js';
import { signDownload, uploadAttachment } from './attachments.js';
import type { StagedUpload } from './receive-upload.js';

/**
 * Gives an agent a picture, or takes it away: an attachment that belongs to the agent in place of a session, so no one
 * gets it as an attachment. The one before is swept like one that no message refers to.
 */
export async function changePicture(
  context: Pick<ServiceContext, 'clock' | 'meter' | 'settings'>,
  transaction: Transaction,
  { id: agentId, account_id: accountId }: Pick<AgentRow, 'id' | 'account_id'>,
  staged: StagedUpload | undefined,
): Promise<void> {
  await releasePictures(transaction, agentId);
  if (staged !== undefined) {
    await uploadAttachment(context, { agentId, accountId }, staged, transaction);
    await claimAttachmentRow(transaction, { id: staged.id, agentId, sessionId: agentId, sequence: 0, expiredAt: 0 });
  }
  await updatePicture(transaction, agentId, staged?.id ?? null, context.clock.now());
}

/** A signed address of the picture, below the web origin. */
export async function signPicture(
  context: Pick<ServiceContext, 'clock' | 'settings'>,
  query: Query,
  { image_url: pictureId }: Pick<AgentRow, 'image_url'>,
): Promise<string> {
  if (pictureId === null) throw new ServiceError('NOT_FOUND');
  const { pathname, search } = new URL((await signDownload(context, query, pictureId)).url);
  return `${pathname}${search}`;
}
