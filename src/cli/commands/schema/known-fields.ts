import * as z from 'zod/mini';

import { UsageError } from '../../terminal/cli-error.js';
import { suggest } from '../../words/suggest.js';
import { COMMAND_OUTPUT } from './output-shapes.js';

/** Refuses, before anything happens, a field that the command's documents, or the items of its list, never have. */
export function refuseUnknownFields(words: string, fields: readonly string[]): void {
  const known = fieldsOf(words);
  if (known === undefined) return;
  const unknown = fields.map((field) => field.split('.', 1)[0] ?? '').find((field) => !known.includes(field));
  if (unknown === undefined) return;
  const near = suggest(unknown, known)[0];
  throw new UsageError(`'${unknown}' is not a field of what asp ${words} prints.`, {
    why: near === undefined ? `fields are ${known.join(', ')}.` : `did you mean '${near}'?`,
    next: ['asp', 'schema', ...words.split(' ')],
  });
}

/** Undefined: what the command prints has no fields of its own, or nobody knows them. */
function fieldsOf(words: string): readonly string[] | undefined {
  const shapes: Readonly<Record<string, z.ZodMiniType>> = COMMAND_OUTPUT;
  // What `asp schema` prints depends on what it is asked for.
  const shape = words === 'schema' ? undefined : shapes[words];
  const document = z.toJSONSchema(shape ?? z.unknown(), { unrepresentable: 'any' });
  const { items } = document.properties ?? {};
  const isList = typeof items === 'object' && typeof items.items === 'object' && !Array.isArray(items.items);
  const one = isList ? items.items : document;
  const names = typeof one === 'object' && !Array.isArray(one) ? Object.keys(one.properties ?? {}) : [];
  return names.length === 0 ? undefined : names;
}
