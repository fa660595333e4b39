import * as z from 'zod/mini';
import type { $ZodObjectDef, $ZodType, $ZodTypes } from 'zod/v4/core';

import { isObject } from '../../kit/parse-json.js';

/** The value is not like its schema. */
export const MISFIT = Symbol('misfit');

/** The value as a schema describes it, or `MISFIT`. */
type Reader = (value: unknown) => unknown;

const READERS = new WeakMap<$ZodType, Reader>();

/**
 * `value` as `schema` describes it, with its optional members as the schema requires them (wire: Reading what others
 * send): where the schema allows null, an absent member becomes null; where it allows absence, null becomes absent; and
 * a list that is null becomes empty. Copies only what changes. Objects and lists are walked here, because Zod would copy
 * each of them: a page of events costs a tenth of that. Zod reads everything else.
 */
export function readAs<Schema extends z.ZodMiniType>(schema: Schema, value: unknown): z.output<Schema> | typeof MISFIT {
  return readerOf(schema)(value) as z.output<Schema> | typeof MISFIT;
}

function readerOf(schema: $ZodType): Reader {
  let reader = READERS.get(schema);
  if (reader === undefined) {
    reader = createReader(schema);
    READERS.set(schema, reader);
  }
  return reader;
}

function createReader(schema: $ZodType): Reader {
  const { def } = (schema as $ZodTypes)._zod;
  const byZod: Reader = (value) => {
    const parsed = z.safeParse(schema, value);
    return parsed.success ? parsed.data : MISFIT;
  };
  if ((def.checks?.length ?? 0) > 0) return byZod;
  switch (def.type) {
    case 'string':
      return (value) => (typeof value === 'string' ? value : MISFIT);
    case 'number':
      if (!('format' in def) || def.format !== 'safeint') return byZod;
      return (value) => (Number.isSafeInteger(value) ? value : MISFIT);
    case 'record':
      if (kindOf(def.keyType) !== 'string' || kindOf(def.valueType) !== 'unknown') return byZod;
      return (value) => (isObject(value) ? value : MISFIT);
    case 'nullable':
      return orElse(null, readerOf(def.innerType));
    case 'optional':
      return orElse(undefined, readerOf(def.innerType));
    case 'default': {
      const read = readerOf(def.innerType);
      return (value) => (value === undefined ? byZod(value) : read(value));
    }
    case 'array':
      return createListReader(readerOf(def.element));
    case 'object':
      return kindOf(def.catchall) === 'unknown' ? createObjectReader(def) : byZod;
    default:
      return byZod;
  }
}

/** Undefined if it is restricted further. */
function kindOf(schema: $ZodType | undefined): string | undefined {
  const def = schema?._zod.def;
  return (def?.checks?.length ?? 0) > 0 ? undefined : def?.type;
}

const orElse =
  (other: null | undefined, read: Reader): Reader =>
  (value) =>
    value === other ? value : read(value);

function createListReader(read: Reader): Reader {
  return (value) => {
    if (value === null) return [];
    if (!Array.isArray(value)) return MISFIT;
    let filled: unknown[] | undefined;
    for (let index = 0; index < value.length; index += 1) {
      const item: unknown = value[index];
      const full = read(item);
      if (full === MISFIT) return MISFIT;
      if (full === item) continue;
      filled ??= [...value];
      filled[index] = full;
    }
    return filled ?? value;
  };
}

function createObjectReader({ shape }: $ZodObjectDef): Reader {
  const readers = Object.entries(shape).map(([name, schema]) => ({ name, read: createMemberReader(schema) }));
  return (value) => {
    if (!isObject(value)) return MISFIT;
    let filled: Map<string, unknown> | undefined;
    for (const { name, read } of readers) {
      const member = value[name];
      const full = read(member);
      if (full === MISFIT) return MISFIT;
      if (full === member) continue;
      filled ??= new Map(Object.entries(value));
      if (full === undefined) filled.delete(name);
      else filled.set(name, full);
    }
    return filled === undefined ? value : Object.fromEntries(filled);
  };
}

/** Undefined stands for an absent member. */
function createMemberReader(schema: $ZodType): Reader {
  const read = readerOf(schema);
  const takes = (value: null | undefined): boolean => z.safeParse(schema, value).success;
  return (value) => {
    if (value === undefined) return takes(undefined) || !takes(null) ? read(undefined) : null;
    if (value === null) return takes(null) || !takes(undefined) ? read(null) : read(undefined);
    return read(value);
  };
}
