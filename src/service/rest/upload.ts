import { receiveUpload, UPLOAD_LIMITS } from '../attachments/receive-upload.js';
import type { ServiceContext } from '../context.js';
import { ServiceError } from '../service-error.js';
import type { AdmittedCall } from './admit.js';
import { type AnsweredCall, answerOnce, refuseBeforeBody } from './call-parts.js';
import { HANDLER } from './handlers.js';
import { readQuery } from './read-request.js';

/** An upload goes to disk before its transaction, if its budget lets it; what no row came to own is removed again. */
export async function answerUpload(context: ServiceContext, call: AdmittedCall): Promise<AnsweredCall> {
  const { key, actor, request } = call;
  if (key === undefined) throw new ServiceError('MISSING_IDEMPOTENCY_KEY');
  if (actor.kind !== 'agent') throw new ServiceError('FORBIDDEN');
  readQuery(call.row, request.url);
  if (!request.isMultipart())
    throw new ServiceError('VALIDATION_ERROR', 'The body must be multipart/form-data.', { status: 415 });
  await refuseBeforeBody(context, call, key);
  const staged = await receiveUpload(context, request.parts({ limits: UPLOAD_LIMITS }));
  try {
    return await answerOnce(context, call, { key, fingerprint: staged.fingerprint }, (transaction) =>
      HANDLER.uploadAttachment(context, actor, staged, transaction),
    );
  } finally {
    await staged.release();
  }
}
