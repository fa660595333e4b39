import * as z from 'zod/mini';
import { didYouMean, suggest } from '../../../kit/suggest.js';
import { EVENT_TYPES } from '../../../wire/event.js';
import { EVENT_PAYLOAD, EventEnvelope } from '../../../wire/schemas/event.js';
import { findCommand } from '../../argv.js';
import type { Context } from '../../context/context.js';
import { type CliError, usageError } from '../../errors.js';
import { COMMAND_OUTPUT, OBJECT } from './output-shapes.js';

interface Named {
  readonly name: string;
  readonly kind: 'command' | 'event' | 'object';
  readonly schema: z.ZodMiniType;
}

/** Everything that has a schema; a command comes before an object with the same name. */
export function everySchema(): readonly Named[] {
  return [
    ...Object.entries(COMMAND_OUTPUT).map(([name, schema]): Named => ({ name, kind: 'command', schema })),
    ...EVENT_TYPES.map((name): Named => {
      const schema = z.looseObject({
        ...EventEnvelope.shape,
        type: z.literal(name),
        payload: EVENT_PAYLOAD[name],
      });
      return { name, kind: 'event', schema };
    }),
    ...Object.entries(OBJECT).map(([name, schema]): Named => ({ name, kind: 'object', schema })),
  ];
}

export async function printSchema(context: Context, name: string | undefined): Promise<void> {
  const all = everySchema();
  if (name === undefined) {
    const items = all.map((one) => ({ name: one.name, kind: one.kind }));
    return context.output.list({ items, next_cursor: null }, [
      { title: 'name', value: (item) => item.name },
      { title: 'kind', value: (item) => item.kind, paint: (text, _, style) => style.dim(text) },
    ]);
  }
  const { command } = await findCommand(context.program, name.split(' '));
  const found = all.find((one) => one.name === name) ?? all.find((one) => one.name === command?.path);
  if (found === undefined) throw unknownName(name, all);
  const document = {
    title: `asp ${found.kind} ${found.name}`,
    ...z.toJSONSchema(found.schema, { unrepresentable: 'any' }),
  };
  await context.output.document(document, (safe) => JSON.stringify(safe, null, 2));
}

function unknownName(name: string, all: readonly Named[]): CliError {
  const near = suggest(
    name,
    all.map((one) => one.name),
  )[0];
  return usageError(`There is no schema of '${name}'.`, {
    why: near === undefined ? undefined : `did you mean '${near}'?`,
    next: ['asp', 'schema', ...(near?.split(' ') ?? [])],
  });
}

/** Refuses, before anything happens, a field that the command's documents, or the items of its list, never have. */
export function refuseUnknownFields(path: string, fields: readonly string[]): void {
  const known = findFields(path);
  if (known === undefined) return;
  const unknown = fields.map((field) => field.split('.', 1)[0] ?? '').find((field) => !known.includes(field));
  if (unknown === undefined) return;
  throw usageError(`'${unknown}' is not a field in the output of asp ${path}.`, {
    why: didYouMean(unknown, known, "'") ?? `fields: ${known.join(', ')}.`,
    next: ['asp', 'schema', ...path.split(' ')],
  });
}

/** Undefined: the output of the command has no fixed fields. */
export function findFields(path: string): readonly string[] | undefined {
  const shapes: Readonly<Record<string, z.ZodMiniType>> = COMMAND_OUTPUT;
  // The output of `asp schema` depends on its argument.
  const shape = path === 'schema' ? undefined : shapes[path];
  const document = z.toJSONSchema(shape ?? z.unknown(), { unrepresentable: 'any' });
  const { items } = document.properties ?? {};
  const isList = typeof items === 'object' && typeof items.items === 'object' && !Array.isArray(items.items);
  const one = isList ? items.items : document;
  const names = typeof one === 'object' && !Array.isArray(one) ? Object.keys(one.properties ?? {}) : [];
  return names.length === 0 ? undefined : names;
}
