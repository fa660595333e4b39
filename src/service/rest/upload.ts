import { receiveUpload, UPLOAD_LIMITS } from '../attachments/receive-upload.js';
import { ServiceError } from '../service-error.js';
import { DatabaseLostError } from '../store/database.js';
import type { AdmittedCall } from './admit.js';
import { type AnsweredCall, answerOnce, refuseBeforeBody } from './call-parts.js';
import { HANDLER } from './handlers.js';
import { readQuery } from './read-request.js';
import type { Rest } from './rest.js';

/**
 * An upload goes to disk before its transaction, if its budget lets it, and not too many of one agent at once: the
 * others wait with their bodies unread. What no row came to own is removed again.
 */
export async function answerUpload({ context, uploads }: Rest, call: AdmittedCall): Promise<AnsweredCall> {
  const { key, actor, request } = call;
  if (key === undefined) throw new ServiceError('MISSING_IDEMPOTENCY_KEY');
  if (actor.kind !== 'agent') throw new ServiceError('FORBIDDEN');
  readQuery(call.row, request.url);
  if (!request.isMultipart())
    throw new ServiceError('VALIDATION_ERROR', 'The body must be multipart/form-data.', { status: 415 });
  await refuseBeforeBody(context, call, key);
  const release = await uploads.acquire(actor.agentId);
  try {
    // Nobody would ever say that a body which broke off before it was read has ended.
    if (request.raw.destroyed) throw new ServiceError('VALIDATION_ERROR', 'The upload is incomplete.');
    const staged = await receiveUpload(context, request.parts({ limits: UPLOAD_LIMITS }));
    try {
      return await answerOnce(context, call, { key, fingerprint: staged.fingerprint }, (transaction) =>
        HANDLER.uploadAttachment(context, actor, staged, transaction),
      );
    } catch (error) {
      // Its row may be there: the sweep finds out.
      if (error instanceof DatabaseLostError) staged.keep();
      throw error;
    } finally {
      await staged.release();
    }
  } finally {
    release();
  }
}
