import * as z from 'zod/mini';

import { EVENT_PAYLOAD, EVENT_TYPES, EventEnvelope } from '../../../wire/event.js';
import type { Context } from '../../context/context.js';
import { UsageError } from '../../terminal/cli-error.js';
import { findCommand } from '../../words/find-command.js';
import { suggest } from '../../words/suggest.js';
import type { Words } from '../../words/words.js';
import { COMMAND_OUTPUT, OBJECT } from './output-shapes.js';

export interface SchemaOptions {
  /** Undefined: which there are. */
  readonly name: string | undefined;
}

interface Named {
  readonly name: string;
  readonly kind: 'command' | 'event' | 'object';
  readonly schema: z.ZodMiniType;
}

/** Everything that has a schema; a command comes before an object of its name. */
function everySchema(): readonly Named[] {
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

export function parse(words: Words): SchemaOptions {
  return { name: words.arguments.length === 0 ? undefined : words.arguments.join(' ') };
}

export async function run(context: Context, { name }: SchemaOptions): Promise<void> {
  const all = everySchema();
  if (name === undefined) {
    const items = all.map((one) => ({ name: one.name, kind: one.kind }));
    return context.output.list({ items, next_cursor: null }, [
      { title: 'name', value: (item) => item.name },
      { title: 'kind', value: (item) => item.kind, paint: (text, _, style) => style.dim(text) },
    ]);
  }
  const { row } = findCommand(context.program, name.split(' '));
  const found = all.find((one) => one.name === name) ?? all.find((one) => one.name === row?.words);
  if (found === undefined) throw unknownName(name, all);
  const document = {
    title: `asp ${found.kind} ${found.name}`,
    ...z.toJSONSchema(found.schema, { unrepresentable: 'any' }),
  };
  await context.output.document(document, (safe) => JSON.stringify(safe, null, 2));
}

function unknownName(name: string, all: readonly Named[]): UsageError {
  const near = suggest(
    name,
    all.map((one) => one.name),
  )[0];
  return new UsageError(`There is no schema of '${name}'.`, {
    why: near === undefined ? undefined : `did you mean '${near}'?`,
    next: ['asp', 'schema', ...(near?.split(' ') ?? [])],
  });
}
