import { isDeepStrictEqual } from 'node:util';
import { applyEdits, modify, type ParseError, parse, printParseErrorCode } from 'jsonc-parser';
import { parse as parseToml, TomlError, stringify as toToml } from 'smol-toml';
import * as z from 'zod/mini';

import { toWords } from '../../../kit/format.js';
import { isObject } from '../../../kit/parse-json.js';
import { CliError } from '../../errors.js';

/** One entry in a settings file that also contains other settings. */
export interface Entry {
  readonly format: 'json' | 'toml';
  /** The names on the way to it; the last one is ours. */
  readonly path: readonly string[];
  readonly value: Readonly<Record<string, unknown>>;
}

/** A change of a text at one position. */
export const Change = z.object({ offset: z.int(), removed: z.string(), inserted: z.string() });
export type Change = z.infer<typeof Change>;

/** The result of removing an entry. */
export type Removal =
  | { readonly kind: 'removed'; readonly text: string }
  /** The entry was already gone. */
  | { readonly kind: 'gone' }
  /** Someone changed it, so it stays. */
  | { readonly kind: 'changed' };

type Values = Readonly<Record<string, unknown>>;

/**
 * The text with the entry added, everything else byte for byte as it was. The same text if the entry is there already.
 * @throws CliError `ASP_CONFIG` if the text cannot be parsed, `ASP_FILE_EXISTS` if another entry has the name
 */
export function addEntry(text: string, entry: Entry, file: string): string {
  const before = parseValues(text, entry.format, file);
  const found = findAt(before, entry.path);
  if (isDeepStrictEqual(found, entry.value)) return text;
  const name = entry.path.join('.');
  if (found !== undefined)
    throw new CliError('ASP_FILE_EXISTS', {
      message: `${file} already has ${name}, and it is not from asp connect.`,
      why: 'remove it or give it another name, then run the command again.',
    });
  const after = entry.format === 'json' ? addToJson(text, entry, before) : addToToml(text, entry);
  const isSound =
    after !== undefined &&
    isDeepStrictEqual(findAt(tryParse(after, entry.format), entry.path), entry.value) &&
    isDeepStrictEqual(without(tryParse(after, entry.format), entry.path), without(before, entry.path));
  if (isSound) return after;
  throw new CliError('ASP_CONFIG', {
    message: `${file} has a form to which asp cannot add ${name}.`,
    why: `nothing was changed. Add this by hand: ${inOneLine(entry)}`,
  });
}

/** The text with the entry as it was written, if someone changed it; undefined if that needs an edit of TOML. */
export function rewriteEntry(text: string, { format, path, value }: Entry): string | undefined {
  return format === 'json' ? addToJson(text, { format, path, value }, tryParse(text, format) ?? {}) : undefined;
}

/** The text without the entry: exactly as before `change` where that part of the text is still the same. */
export function removeEntry(text: string, entry: Entry, change: Change): Removal {
  const values = tryParse(text, entry.format);
  const found = findAt(values, entry.path);
  if (found === undefined) return { kind: 'gone' };
  if (!isDeepStrictEqual(found, entry.value)) return { kind: 'changed' };
  const isRight = (candidate: string): boolean => {
    const left = tryParse(candidate, entry.format) ?? (candidate.trim() === '' ? {} : undefined);
    return (
      left !== undefined &&
      findAt(left, entry.path) === undefined &&
      isDeepStrictEqual(without(left, entry.path), without(values, entry.path))
    );
  };
  const candidates = [change.offset, text.indexOf(change.inserted)]
    .filter((at) => at >= 0 && text.startsWith(change.inserted, at))
    .map((at) => text.slice(0, at) + change.removed + text.slice(at + change.inserted.length));
  if (entry.format === 'json')
    candidates.push(applyEdits(text, modify(text, [...entry.path], undefined, detectLayout(text))));
  const restored = candidates.find(isRight);
  return restored === undefined ? { kind: 'changed' } : { kind: 'removed', text: restored };
}

/** The smallest change that makes one text of the other. */
export function changeBetween(before: string, after: string): Change {
  const most = Math.min(before.length, after.length);
  let start = 0;
  while (start < most && before[start] === after[start]) start += 1;
  let end = 0;
  while (end < most - start && before.at(-1 - end) === after.at(-1 - end)) end += 1;
  return {
    offset: start,
    removed: before.slice(start, before.length - end),
    inserted: after.slice(start, after.length - end),
  };
}

/** Undefined if a value on the way to the entry is not an object. */
function addToJson(text: string, { path, value }: Entry, values: Values): string | undefined {
  if (text.trim() === '') return `${JSON.stringify(nested(path, value), null, 2)}\n`;
  const around = path.slice(0, -1).map((_, at) => findAt(values, path.slice(0, at + 1)));
  if (around.some((each) => each !== undefined && !isObject(each))) return undefined;
  const [mark, rest] = text.startsWith('\ufeff') ? ['\ufeff', text.slice(1)] : ['', text];
  return mark + applyEdits(rest, modify(rest, [...path], value, detectLayout(rest)));
}

/** A table at the end is valid wherever its name is free. */
function addToToml(text: string, { path, value }: Entry): string {
  const eol = text.includes('\r\n') ? '\r\n' : '\n';
  const table = `[${path.join('.')}]\n${toToml(value).trimEnd()}\n`.replaceAll('\n', eol);
  if (text === '') return table;
  return `${text}${text.endsWith('\n') ? '' : eol}${eol}${table}`;
}

const nested = (path: readonly string[], value: unknown): unknown =>
  path.reduceRight<unknown>((inner, name) => ({ [name]: inner }), value);

/** For a person who adds it. */
function inOneLine({ format, path, value }: Entry): string {
  const [first = '', ...inner] = path;
  if (format === 'json') return `"${first}": ${JSON.stringify(nested(inner, value))}`;
  return addToToml('', { format, path, value }).trimEnd().replaceAll('\n', ' ');
}

/** Indentation and line ends as they are in the text. */
function detectLayout(text: string) {
  const indent = /^[ \t]+(?=\S)/m.exec(text)?.[0] ?? '  ';
  const isTabs = indent.startsWith('\t');
  const formattingOptions = {
    insertSpaces: !isTabs,
    tabSize: isTabs ? 1 : indent.length,
    eol: text.includes('\r\n') ? '\r\n' : '\n',
  };
  return { formattingOptions };
}

/** @throws CliError `ASP_CONFIG`, which says where the text is wrong */
function parseValues(text: string, format: Entry['format'], file: string): Values {
  const refuse = (where: string, what: string, cause?: unknown): never => {
    throw new CliError('ASP_CONFIG', {
      message: `${file}${where} cannot be parsed as ${format.toUpperCase()}: ${what}.`,
      why: 'nothing was changed. Correct the file, then run the command again.',
      cause,
    });
  };
  if (text.trim() === '') return {};
  if (format === 'toml') {
    try {
      return parseToml(text) as Values;
    } catch (error) {
      if (!(error instanceof TomlError)) throw error;
      return refuse(`:${error.line}:${error.column}`, (error.message.split('\n', 1)[0] ?? '').toLowerCase(), error);
    }
  }
  const errors: ParseError[] = [];
  const values: unknown = parse(text.replace(/^\ufeff/, ' '), errors, JSON_RULES);
  const [first] = errors;
  if (first !== undefined) {
    const lines = text.slice(0, first.offset).split('\n');
    refuse(`:${lines.length}:${(lines.at(-1)?.length ?? 0) + 1}`, toWords(printParseErrorCode(first.error)));
  }
  return isObject(values) ? values : refuse('', 'it is not an object');
}

const JSON_RULES = { allowTrailingComma: true, allowEmptyContent: true };

function tryParse(text: string, format: Entry['format']): Values | undefined {
  try {
    return parseValues(text, format, '');
  } catch {
    return undefined;
  }
}

function findAt(values: unknown, [name, ...rest]: readonly string[]): unknown {
  if (name === undefined) return isObject(values) ? { ...values } : values;
  return isObject(values) && Object.hasOwn(values, name) ? findAt(values[name], rest) : undefined;
}

/** Without the entry, and without the objects around it that it leaves empty. */
function without(values: unknown, [name, ...rest]: readonly string[]): unknown {
  if (name === undefined || !isObject(values)) return values;
  const inner = rest.length === 0 ? undefined : without(values[name], rest);
  const isEmpty = inner === undefined || (isObject(inner) && Object.keys(inner).length === 0);
  const others = Object.entries(values).filter(([key]) => key !== name);
  return Object.fromEntries(isEmpty ? others : [...others, [name, inner]]);
}
