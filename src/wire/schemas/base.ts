import * as z from 'zod/mini';

/** Epoch time in milliseconds. */
export const EpochMs = z.int();

/** The envelope of every non-2xx answer (spec: Errors). */
export const ErrorEnvelope = z.looseObject({
  error: z.looseObject({ code: z.string(), message: z.string(), docs_url: z.optional(z.string()) }),
});

export type ErrorEnvelope = z.infer<typeof ErrorEnvelope>;

/** The members of an object as a client reads them: all but the named ones may be missing, and are null then. */
type ReadShape<Shape, Named extends keyof Shape> = {
  [Member in keyof Shape]: Member extends Named
    ? Shape[Member]
    : Shape[Member] extends z.ZodMiniType
      ? z.ZodMiniNullable<Shape[Member]>
      : never;
};

/**
 * The members of a reply that the specification does not show, as a client reads them from any service: only the named
 * ones are there for certain (wire: Reading what others send).
 */
export function readShape<Shape extends Readonly<Record<string, z.ZodMiniType>>, Named extends keyof Shape = never>(
  shape: Shape,
  ...named: readonly Named[]
): ReadShape<Shape, Named> {
  const isNamed = (member: string): boolean => named.some((one) => one === member);
  return Object.fromEntries(
    Object.entries(shape).map(([member, schema]) => [member, isNamed(member) ? schema : z.nullable(schema)]),
  ) as ReadShape<Shape, Named>;
}

/** Reply of join, leave, end and reopen. */
export const Ok = z.looseObject({ ok: z.literal(true) });

/** Reply of DELETE /blocks/{blocked}. */
export const UnblockReply = z.looseObject({ unblocked: z.literal(true) });

/**
 * The reply of an endpoint whose answer says no more than its status, so that any 2xx answer will do; undefined for all
 * others.
 */
export function acknowledgment(schema: z.ZodMiniType): object | undefined {
  if (schema === Ok) return { ok: true };
  return schema === UnblockReply ? { unblocked: true } : undefined;
}
