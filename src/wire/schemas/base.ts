import * as z from 'zod/mini';

/** Epoch time in milliseconds. */
export const EpochMs = z.int();

/** The envelope of every non-2xx answer (spec: Errors). */
export const ErrorEnvelope = z.looseObject({
  error: z.looseObject({ code: z.string(), message: z.string(), docs_url: z.optional(z.string()) }),
});

export type ErrorEnvelope = z.infer<typeof ErrorEnvelope>;

/** Reply of join, leave, end and reopen. */
export const Ok = z.looseObject({ ok: z.literal(true) });

/** Reply of DELETE /blocks/{blocked}. */
export const UnblockReply = z.looseObject({ unblocked: z.literal(true) });

/**
 * The reply of an endpoint whose answer says no more than its status, so that any 2xx answer will do; undefined for all
 * others.
 */
export function acknowledgement(schema: z.ZodMiniType): object | undefined {
  if (schema === Ok) return { ok: true };
  return schema === UnblockReply ? { unblocked: true } : undefined;
}
