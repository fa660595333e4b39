import * as z from 'zod/mini';

import { STDOUT_CONTENTS } from '../../src/cli/commands/help/stdout-contents.js';
import { COMMAND_OUTPUT } from '../../src/cli/commands/schema/output-shapes.js';
import { PROGRAM } from '../../src/cli/program.js';
import { ownOptionsOf } from '../../src/cli/words/global-options.js';
import type { CommandRow, Effect, GroupRow, OptionRow } from '../../src/cli/words/row.js';

const isShown = ({ isHidden }: { readonly isHidden?: boolean }): boolean => isHidden !== true;

/** Every command that is no secret. */
export const COMMANDS: readonly CommandRow[] = PROGRAM.commands.filter(isShown);

/** A first word that can be typed: a command, a noun with commands below it, or both. */
export interface TopWord {
  readonly word: string;
  readonly summary: string;
  readonly row: CommandRow | undefined;
  readonly below: readonly CommandRow[];
}

const summaryOf = (row: CommandRow | undefined, group: GroupRow | undefined): string =>
  row?.summary ?? group?.summary ?? '';

/** In the order of the alphabet. */
export function topWords(): TopWord[] {
  const words = COMMANDS.flatMap(({ words: canonical, aliases = [] }) => [
    canonical.split(' ', 1)[0] ?? '',
    ...aliases.filter((alias) => !alias.includes(' ')),
  ]);
  return [...new Set(words)].sort().map((word) => {
    const row = COMMANDS.find(({ words: canonical, aliases = [] }) => canonical === word || aliases.includes(word));
    const group = PROGRAM.groups.find(({ noun }) => noun === word);
    const below = COMMANDS.filter(({ words: canonical }) => canonical.startsWith(`${word} `));
    return { word, summary: summaryOf(row, group), row, below };
  });
}

/** The options of a command that not every command has. */
export function ownOptions(row: CommandRow): readonly OptionRow[] {
  return ownOptionsOf(row).filter(isShown);
}

/** The first spelling people use, and the others. */
export function spellingsOf({ words, aliases = [] }: CommandRow): { first: string; others: readonly string[] } {
  const [first = words, ...others] = [...aliases, words];
  return { first, others };
}

/** What a command changes, as a sentence. */
export const EFFECT_TEXT: Readonly<Record<Effect, string>> = {
  none: 'It changes nothing and asks no service.',
  local: 'It changes something on this machine.',
  read: 'It asks the service and changes nothing there.',
  write: 'It changes what the service holds.',
};

/** A note as a sentence: it begins with a capital letter unless with a name, and has an end. */
export function sentence(text: string, end = '.'): string {
  const begun = text.replace(/^[a-z](?=[a-z]*(?:[\s,;:]|$))/, (first) => first.toUpperCase());
  return /[….:!?]$/.test(begun) ? begun : `${begun}${end}`;
}

/** What stdout carries, as a sentence. */
export function stdoutText({ words }: CommandRow): string {
  const text = STDOUT_CONTENTS[words];
  if (text === undefined) throw new Error(`nothing says what stdout of asp ${words} carries (stdout-contents.ts)`);
  return sentence(text);
}

type Schema = z.core.JSONSchema.BaseSchema;

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null;

/** `null` added to another type by `anyOf` or `type`. */
function isNullable({ anyOf, type }: Schema): boolean {
  return type === 'null' || (anyOf ?? []).some((one) => isSchema(one) && one.type === 'null');
}

function fieldsText({ properties = {}, required = [] }: Schema): string {
  const fields = Object.entries(properties).map(([name, schema]) => {
    const mark = required.includes(name) ? '' : '?';
    return `${name}${mark}${isSchema(schema) && isNullable(schema) ? '|null' : ''}`;
  });
  return `{${fields.join(', ')}}`;
}

/** The shape of what `--json` prints, in short; nothing where it depends on the words. */
export function jsonText({ words }: CommandRow): string | undefined {
  const shapes: Readonly<Record<string, z.ZodMiniType>> = COMMAND_OUTPUT;
  const shape = shapes[words];
  if (shape === undefined) return undefined;
  const schema: Schema = z.toJSONSchema(shape, { unrepresentable: 'any' });
  const items = schema.properties?.['items'];
  const isList = isSchema(items) && isSchema(items.items) && !Array.isArray(items.items);
  return isList ? `{items: [${fieldsText(items.items as Schema)}], next_cursor|null}` : fieldsText(schema);
}
