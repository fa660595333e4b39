import * as z from 'zod/mini';
import type { $ZodType, $ZodTypes } from 'zod/v4/core';

/** The choices of a service for an optional member that has no value. */
export type LeavingOut = 'absent' | 'null';

/** Returns `value` without the members that `schema` makes optional, or with them set to null. */
export function leaveOut(schema: $ZodType, value: unknown, how: LeavingOut): unknown {
  const { def } = (schema as $ZodTypes)._zod;
  if (def.type === 'nullable' || def.type === 'optional' || def.type === 'default')
    return leaveOut(def.innerType, value, how);
  if (def.type === 'array') return Array.isArray(value) ? value.map((item) => leaveOut(def.element, item, how)) : value;
  if (def.type !== 'object' || typeof value !== 'object' || value === null) return value;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const described = def.shape[name];
    if (described === undefined) return [[name, member] as const];
    const isOptional = [undefined, null].some((nothing) => z.safeParse(described, nothing).success);
    if (!isOptional) return [[name, leaveOut(described, member, how)] as const];
    return how === 'null' ? [[name, null] as const] : [];
  });
  return Object.fromEntries(members);
}
