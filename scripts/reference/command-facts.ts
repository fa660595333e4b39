import * as z from 'zod/mini';

import { type Effect, type ListedCommand, loadCommands, type Option } from '../../src/cli/command.js';
import { COMMAND_OUTPUT } from '../../src/cli/commands/schema/output-shapes.js';
import { PROGRAM } from '../../src/cli/program.js';

const isShown = ({ isHidden }: { readonly isHidden?: boolean }): boolean => isHidden !== true;

export const COMMANDS: readonly ListedCommand[] = (await loadCommands(PROGRAM)).commands;

/** A first word that can be typed: a command, a noun with commands, or both. */
export interface TopWord {
  readonly word: string;
  readonly summary: string;
  readonly command: ListedCommand | undefined;
  readonly below: readonly ListedCommand[];
}

/** Returns the first words in alphabetical order. */
export function topWords(): TopWord[] {
  const words = COMMANDS.flatMap(({ path, aliases }) => [
    path.split(' ', 1)[0] ?? '',
    ...aliases.filter((alias) => !alias.includes(' ')),
  ]);
  return [...new Set(words)].sort().map((word) => {
    const command = COMMANDS.find(({ path, aliases }) => path === word || aliases.includes(word));
    const noun = PROGRAM.nouns.find((each) => each.noun === word);
    const below = COMMANDS.filter(({ path }) => path.startsWith(`${word} `));
    return { word, summary: command?.summary ?? noun?.summary ?? '', command, below };
  });
}

/** Returns the options of a command that not every command has. */
export function ownOptions({ options }: ListedCommand): readonly Option[] {
  return options.filter(isShown);
}

/** Returns a command's preferred spelling and the others. */
export function spellingsOf({ path, aliases }: ListedCommand): { first: string; others: readonly string[] } {
  const [first = path, ...others] = [...aliases, path];
  return { first, others };
}

/** Returns what a command changes, in a sentence or two. */
export function effectText({ effect, isDestructive }: ListedCommand): string {
  return `${EFFECT_TEXT[effect]}${isDestructive ? ' No later command can undo all of it.' : ''}`;
}

const EFFECT_TEXT: Readonly<Record<Effect, string>> = {
  none: 'It changes nothing and contacts no service.',
  local: 'It changes something on this machine.',
  read: 'It reads from the service and changes nothing there.',
  write: 'It changes data at the service.',
};

/** Makes a note a sentence: capitalizes it unless it begins with a name, and adds a period. */
export function sentence(text: string, end = '.'): string {
  const begun = text.replace(/^[a-z](?=[a-z]*(?:[\s,;:]|$))/, (first) => first.toUpperCase());
  return /[….:!?]$/.test(begun) ? begun : `${begun}${end}`;
}

type Schema = z.core.JSONSchema.BaseSchema;

const isSchema = (value: unknown): value is Schema => typeof value === 'object' && value !== null;

/** Whether a schema adds `null` to another type with `anyOf` or `type`. */
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

/** Returns the shape of the `--json` output in short form, or undefined if it depends on the arguments. */
export function jsonText({ path }: ListedCommand): string | undefined {
  const shapes: Readonly<Record<string, z.ZodMiniType>> = COMMAND_OUTPUT;
  const shape = shapes[path];
  if (shape === undefined) return undefined;
  const schema: Schema = z.toJSONSchema(shape, { unrepresentable: 'any' });
  const items = schema.properties?.['items'];
  const isList = isSchema(items) && isSchema(items.items) && !Array.isArray(items.items);
  return isList ? `{items: [${fieldsText(items.items as Schema)}], next_cursor|null}` : fieldsText(schema);
}
