import type { ReplyOf } from '../../wire/endpoint.js';
import type { AgentActor, ServiceContext } from '../context.js';
import { takeAttachmentBytes } from '../limits/account-quota.js';
import { insertAttachment } from '../store/attachment-rows.js';
import type { Transaction } from '../store/database.js';
import type { StagedUpload } from './receive-upload.js';

/** Gives a staged file its row: from the commit on it is an attachment, pending until a message refers to it. */
export async function uploadAttachment(
  context: Pick<ServiceContext, 'clock' | 'settings'>,
  actor: AgentActor,
  staged: StagedUpload,
  transaction: Transaction,
): Promise<ReplyOf<'uploadAttachment'>> {
  await takeAttachmentBytes(context, transaction, actor.accountId, staged.size);
  await insertAttachment(transaction, {
    id: staged.id,
    agent_id: actor.agentId,
    filename: staged.filename,
    content_type: staged.contentType,
    size: staged.size,
    sha256: staged.sha256,
    created_at: context.clock.now(),
  });
  transaction.afterCommit(staged.keep);
  return { id: staged.id, filename: staged.filename, content_type: staged.contentType, size: staged.size };
}
