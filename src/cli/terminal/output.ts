import { toJsonLine } from '../../kit/json-line.js';
import { sanitize, sanitizeLine } from '../../kit/sanitize.js';
import { displayWidth, wrapText } from '../../kit/wrap.js';
import { CliError } from '../errors.js';
import type { Streams } from './streams.js';
import { loadStyle, type Style } from './style.js';

/** A column of a list: its title and its value for an item. */
export interface Column<Item> {
  readonly title: string;
  readonly value: (item: Item) => string;
  readonly paint?: (text: string, item: Item, style: Style) => string;
  /** Shrinks if the terminal is too narrow, the widest first; `last`: after the others; `wrap`: cuts no text. */
  readonly isFlexible?: boolean | 'last' | 'wrap';
  /**
   * Left out if the terminal is too narrow for all columns, the last of these first; `below`: moves to lines of its own
   * under the row.
   */
  readonly isOptional?: boolean | 'below';
  /** The value for machines, when output is piped. */
  readonly piped?: (item: Item) => string;
}

/** The beginning of a text that fits into `width` columns, with an ellipsis if it is cut. */
export function shorten(text: string, width: number): string {
  if (displayWidth(text) <= width) return text;
  let kept = '';
  let used = 0;
  for (const character of text) {
    const next = displayWidth(character);
    if (used + next > width - 1) break;
    kept += character;
    used += next;
  }
  return `${kept}…`;
}

const GAP = 2;
const BELOW_INDENT = '  ';
const NARROWEST = 8;
/** Optional columns are left out before another one gets narrower than this. */
const NARROWEST_BESIDE_OPTIONAL = 10;
/** Running text in a narrower column is hard to read. */
const NARROWEST_WRAPPED = 24;

/** Aligned columns under dim titles, no wider than the terminal. */
export function tableText<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
  style: Style,
  terminalWidth: number,
  below: readonly Column<Item>[] = [],
): string {
  const last = columns.findLastIndex(({ isOptional = false }) => isOptional !== false);
  const narrowest = last === -1 ? NARROWEST : NARROWEST_BESIDE_OPTIONAL;
  const { head, rows, excess } = layOut(items, columns, style, terminalWidth, narrowest);
  if (excess > 0 && last !== -1) {
    const moved = columns.slice(last, last + 1).filter(({ isOptional }) => isOptional === 'below');
    return tableText(items, columns.toSpliced(last, 1), style, terminalWidth, [...moved, ...below]);
  }
  const blocks = items.map((item, at) => [
    ...(rows[at] ?? []),
    ...below
      .map((column) => sanitizeLine(column.value(item)))
      .filter((value) => value !== '')
      .map((value) => style.dim(wrapText(value, terminalWidth, BELOW_INDENT))),
  ]);
  return `${[head, ...blocks.flat()].join('\n')}\n`;
}

/** The titles, the lines of each item, and by how much they are wider than the terminal. */
function layOut<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
  style: Style,
  terminalWidth: number,
  narrowest: number,
): { head: string; rows: string[][]; excess: number } {
  const cells = items.map((item) => columns.map((column) => sanitizeLine(column.value(item))));
  const widths = columns.map((column, index) =>
    Math.max(column.title.length, ...cells.map((row) => displayWidth(row[index] ?? ''))),
  );
  let excess = widths.reduce((sum, width) => sum + width + GAP, -GAP) - terminalWidth;
  const even = [...columns.entries()].filter(([, { isFlexible }]) => isFlexible === true);
  for (let limit = Math.max(terminalWidth, narrowest); limit >= narrowest; limit -= 1)
    for (const [index, { title }] of even) {
      const width = widths[index] ?? 0;
      const less = Math.max(0, width - Math.max(limit, title.length));
      if (excess <= 0 || less === 0) continue;
      widths[index] = width - less;
      excess -= less;
    }
  const flexible = ['last', 'wrap'].flatMap((order) =>
    [...columns.entries()].filter(([, { isFlexible }]) => isFlexible === order),
  );
  for (const [index, column] of flexible) {
    if (excess <= 0) break;
    const width = widths[index] ?? 0;
    const less = Math.min(
      excess,
      Math.max(0, width - Math.max(column.isFlexible === 'wrap' ? NARROWEST_WRAPPED : narrowest, column.title.length)),
    );
    widths[index] = width - less;
    excess -= less;
  }
  const line = (texts: readonly string[], paint: (text: string, index: number) => string): string =>
    texts
      .map((text, index) => {
        const shown = columns[index]?.isFlexible === 'wrap' ? text : shorten(text, widths[index] ?? 0);
        const padding =
          index === texts.length - 1 ? '' : ' '.repeat(Math.max(0, (widths[index] ?? 0) - displayWidth(shown)) + GAP);
        return `${paint(shown, index)}${padding}`;
      })
      .join('')
      .trimEnd();
  const toLines = (row: readonly string[]): string[][] => {
    const wrapped = row.map((text, index) =>
      columns[index]?.isFlexible === 'wrap' ? wrapText(text, widths[index] ?? 0).split('\n') : [text],
    );
    const height = Math.max(...wrapped.map(({ length }) => length));
    return Array.from({ length: height }, (_, at) => wrapped.map((lines) => lines[at] ?? ''));
  };
  const head = line(
    columns.map(({ title }) => title.toUpperCase()),
    (text) => style.dim(text),
  );
  const rows = cells.map((row, at) =>
    toLines(row).map((texts) =>
      line(texts, (text, index) => columns[index]?.paint?.(text, items[at] as Item, style) ?? text),
    ),
  );
  return { head, rows, excess };
}

/** One item per line, tabs between its values, nothing cut. */
export function tsvText<Item>(items: readonly Item[], columns: readonly Column<Item>[]): string {
  return items
    .map((item) => `${columns.map((column) => sanitizeLine((column.piped ?? column.value)(item))).join('\t')}\n`)
    .join('');
}

export type Format = 'human' | 'json' | 'jsonl';

/** The results of the expression of `--jq` for one document: lines to print, and why it ended early, if it did. */
export interface Filtered {
  readonly text: string;
  readonly failure: string | undefined;
}

/** The expression of `--jq`. */
export interface Filter {
  /** The results for each of these documents, which are JSON. */
  apply(documents: readonly string[]): Promise<Filtered[]>;
  close(): Promise<void>;
}

export interface OutputSettings {
  readonly format: Format;
  readonly fields: readonly string[] | undefined;
  /** Makes the lines to print from every document and record. */
  readonly filter?: Filter | undefined;
  readonly isQuiet: boolean;
  readonly isVerbose: boolean;
  readonly isOutColored: boolean;
  readonly isErrColored: boolean;
}

/** Where a command writes its results and notes. stdout gets data only. */
export interface Output {
  readonly format: Format;
  /** One JSON document if that is requested; otherwise the output of `human`, which gets the sanitized value. */
  document<Value extends object>(value: Value, human: (safe: Value, style: Style) => string): Promise<void>;
  /** A list: JSON, one item per line, a table on a terminal if it has several columns, or tab-separated values. */
  list<Item extends object>(
    page: { readonly items: readonly Item[]; readonly next_cursor: string | null },
    columns: readonly Column<Item>[],
  ): Promise<void>;
  /** One record of a stream, as a line of JSON in every format. Resolves once the line was accepted. */
  record(value: object): Promise<void>;
  /** The line of a record, before `--jq`. */
  toRecord(value: object): string;
  /** Prints lines of `toRecord`. */
  records(lines: string): Promise<void>;
  /** @throws CliError `ASP_PARTIAL` if the expression of `--jq` failed on a document or a record */
  finish(): void;
  /** Text for people, sanitized, with a line feed. */
  text(text: string): Promise<void>;
  /** Text generated by this program, unchanged: help, completions, records. */
  verbatim(text: string): Promise<void>;
  /** The bytes of a file, unchanged. */
  bytes(data: Uint8Array): Promise<void>;
  /** A note on stderr, unless `--quiet`; as a line of JSON if JSON is requested. */
  note(text: string): Promise<void>;
  /** A note on stderr with `--verbose`; a function is called only then. */
  detail(text: string | (() => string)): Promise<void>;
  /** A line of `--debug`, redacted by its author. */
  trace(entry: { readonly kind: string; readonly text: string }): Promise<void>;
  style(): Promise<Style>;
}

/** The value with every string made safe for a human view. */
export function sanitizeDeep<Value>(value: Value): Value {
  if (typeof value === 'string') return sanitize(value) as Value;
  if (Array.isArray(value)) return value.map(sanitizeDeep) as Value;
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, member]) => [sanitize(key), sanitizeDeep(member)]),
  ) as Value;
}

/** Only the members that `--fields` names; `a.b` reaches into objects and into each item of a list. */
export function pick(value: unknown, fields: readonly string[]): unknown {
  if (Array.isArray(value)) return value.map((item) => pick(item, fields));
  if (typeof value !== 'object' || value === null) return value;
  const heads = [...new Set(fields.map((field) => field.split('.', 1)[0] ?? ''))];
  const picked: Record<string, unknown> = {};
  for (const head of heads) {
    if (!Object.hasOwn(value, head)) continue;
    const member = (value as Record<string, unknown>)[head];
    const deeper = fields.filter((field) => field.startsWith(`${head}.`)).map((field) => field.slice(head.length + 1));
    const isWhole = fields.includes(head) || deeper.length === 0;
    Object.defineProperty(picked, head, { value: isWhole ? member : pick(member, deeper), enumerable: true });
  }
  return picked;
}

/** The text with a line feed at its end; an empty text stays empty. */
export const endLine = (text: string): string => (text === '' || text.endsWith('\n') ? text : `${text}\n`);

/** As wide as the longest kind. */
const TRACE_KIND_WIDTH = 7;

export function createOutput(streams: Streams, settings: OutputSettings): Output {
  const { format, fields, filter } = settings;
  const { stdout, stderr } = streams;
  const chosen = (value: unknown): unknown => (fields === undefined ? value : pick(value, fields));
  const toRecord = (value: object): string => `${toJsonLine(chosen(value))}\n`;
  const style = once(() => loadStyle(settings.isOutColored));
  const errorStyle = once(() => loadStyle(settings.isErrColored));
  const remark = async (text: string): Promise<void> =>
    stderr.write(
      format === 'human'
        ? `${(await errorStyle()).dim(await fitted(sanitizeLine(text)))}\n`
        : `${toJsonLine({ note: text })}\n`,
    );
  // Indent a command to copy, and keep it on one line.
  const fitted = async (line: string): Promise<string> => {
    if (!stderr.isTerminal || line.startsWith(' ')) return line;
    const { textWidth, wrapText } = await import('../../kit/wrap.js');
    return wrapText(line, textWidth(stderr));
  };
  let failureOnDocument: string | undefined;
  /**
   * A document on which `--jq` fails is printed in full: it may contain a new secret, which no other command shows. The
   * command continues: its output may not be all that matters.
   */
  const print = async (json: string): Promise<void> => {
    if (filter === undefined) return stdout.write(`${json}\n`);
    for (const { text, failure } of await filter.apply([json])) {
      failureOnDocument ??= failure;
      const printed = failure === undefined ? text : `${text}${json}\n`;
      if (printed !== '') await stdout.write(printed);
      // Now: a command that runs until Ctrl-C, or fails later, never comes to `finish`.
      if (failure !== undefined && !settings.isQuiet)
        await remark(`The whole document is printed, because --jq failed: ${failure}.`);
    }
  };
  let failures = 0;
  const records = async (lines: string): Promise<void> => {
    if (filter === undefined) return stdout.write(lines);
    const documents = lines.trimEnd().split('\n');
    const filtered = await filter.apply(documents);
    const text = filtered.map((each) => each.text).join('');
    if (text !== '') await stdout.write(text);
    for (const [index, { failure }] of filtered.entries()) {
      if (failure === undefined) continue;
      failures += 1;
      if (!settings.isQuiet) await remark(`--jq failed on ${nameRecord(documents[index] ?? '{}')}: ${failure}.`);
    }
  };
  return {
    format,
    style,
    async document(value, human) {
      if (format !== 'human') return print(toJsonLine(chosen(value)));
      const text = endLine(human(sanitizeDeep(value), await style()));
      if (text !== '') await stdout.write(text);
    },
    async list(page, columns) {
      const { items } = page;
      if (format === 'json') return print(toJsonLine({ ...page, items: chosen(items) }));
      if (format === 'jsonl') {
        for (const item of items) await records(toRecord(item));
        return;
      }
      if (items.length === 0) return;
      const safe = items.map(sanitizeDeep);
      // One column needs no table: each item is a line, and none is cut.
      const isTable = stdout.isTerminal && columns.length > 1;
      const text = isTable ? tableText(safe, columns, await style(), stdout.columns) : tsvText(safe, columns);
      await stdout.write(text);
    },
    toRecord,
    record: (value) => records(toRecord(value)),
    records,
    finish() {
      if (failureOnDocument !== undefined)
        throw new CliError('ASP_PARTIAL', {
          message: 'The command is done, but --jq failed on what it prints, which is on stdout in full.',
          // Otherwise the note has said it.
          why: settings.isQuiet ? `jq says: ${failureOnDocument}.` : undefined,
          outcome: 'applied',
        });
      if (failures === 0) return;
      throw new CliError('ASP_PARTIAL', {
        message: `--jq failed on ${failures === 1 ? 'one line' : `${failures.toLocaleString('en-US')} lines`}.`,
        outcome: 'applied',
      });
    },
    text: (text) => stdout.write(endLine(sanitize(text)) || '\n'),
    verbatim: (text) => stdout.write(endLine(text)),
    bytes: (data) => stdout.write(data),
    async note(text) {
      if (!settings.isQuiet) await remark(text);
    },
    async detail(text) {
      if (settings.isVerbose) await remark(typeof text === 'function' ? text() : text);
    },
    async trace({ kind, text }) {
      const line =
        format === 'human'
          ? `${kind.padEnd(TRACE_KIND_WIDTH)} ${sanitizeLine(text)}`
          : toJsonLine({ trace: { kind, text } });
      await stderr.write(`${line}\n`);
    },
  };
}

/** An event is named by its id. */
function nameRecord(json: string): string {
  const { event_id: id } = JSON.parse(json) as { event_id?: unknown };
  return typeof id === 'string' ? sanitizeLine(id) : 'a line';
}

function once<Value>(build: () => Value): () => Value {
  let built: { value: Value } | undefined;
  return () => {
    built ??= { value: build() };
    return built.value;
  };
}
