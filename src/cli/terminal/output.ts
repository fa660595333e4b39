import { toJsonLine } from '../../kit/json-line.js';
import { sanitize, sanitizeLine } from './sanitize.js';
import type { Streams } from './streams.js';
import { loadStyle, type Style } from './style.js';
import { type Column, tableText, tsvText } from './table.js';

export type Format = 'human' | 'json' | 'jsonl';

export interface OutputSettings {
  readonly format: Format;
  readonly fields: readonly string[] | undefined;
  readonly isQuiet: boolean;
  readonly isVerbose: boolean;
  readonly isOutColoured: boolean;
  readonly isErrColoured: boolean;
}

/** Where a command puts its results and notes. stdout gets data only. */
export interface Output {
  readonly format: Format;
  /** One document of JSON when that is asked for; else what `human` makes of it, which gets the value sanitised. */
  document<Value extends object>(value: Value, human: (safe: Value, style: Style) => string): Promise<void>;
  /** A list: JSON, one item a line, a table on a terminal, tab-separated values in a pipe. */
  list<Item extends object>(
    page: { readonly items: readonly Item[]; readonly next_cursor: string | null },
    columns: readonly Column<Item>[],
  ): Promise<void>;
  /** One record of a stream, as a line of JSON in every format. Resolves once the line was accepted. */
  record(value: object): Promise<void>;
  /** Text for people, sanitised, with a line feed. */
  text(text: string): Promise<void>;
  /** Text of this program's own making, as it is: help, completions. */
  verbatim(text: string): Promise<void>;
  /** A file's bytes, as they are. */
  bytes(data: Uint8Array): Promise<void>;
  /** A remark on stderr, unless `--quiet`; where JSON is asked for, as a line of it. */
  note(text: string): Promise<void>;
  /** A remark on stderr with `--verbose`. */
  detail(text: string): Promise<void>;
  /** A line of `--debug`, redacted by whoever made it. */
  trace(entry: { readonly kind: string; readonly text: string }): Promise<void>;
  style(): Promise<Style>;
  errorStyle(): Promise<Style>;
}

/** The value with every string in it made safe for a human view. */
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

const endLine = (text: string): string => (text === '' || text.endsWith('\n') ? text : `${text}\n`);

/** As wide as the longest kind. */
const TRACE_KIND_WIDTH = 7;

export function createOutput(streams: Streams, settings: OutputSettings): Output {
  const { format, fields } = settings;
  const { stdout, stderr } = streams;
  const chosen = (value: unknown): unknown => (fields === undefined ? value : pick(value, fields));
  const style = once(() => loadStyle(settings.isOutColoured));
  const errorStyle = once(() => loadStyle(settings.isErrColoured));
  const remark = async (text: string): Promise<void> =>
    stderr.write(
      format === 'human'
        ? `${(await errorStyle()).dim(await fitted(sanitizeLine(text)))}\n`
        : `${toJsonLine({ note: text })}\n`,
    );
  // A command to copy is indented, and stays on one line.
  const fitted = async (line: string): Promise<string> => {
    if (!stderr.isTerminal || line.startsWith(' ')) return line;
    const { textWidth, wrapText } = await import('../../kit/wrap.js');
    return wrapText(line, textWidth(stderr));
  };
  return {
    format,
    style,
    errorStyle,
    async document(value, human) {
      const text =
        format === 'human' ? endLine(human(sanitizeDeep(value), await style())) : `${toJsonLine(chosen(value))}\n`;
      if (text !== '') await stdout.write(text);
    },
    async list(page, columns) {
      const { items } = page;
      if (format === 'json') return stdout.write(`${toJsonLine({ ...page, items: chosen(items) })}\n`);
      if (format === 'jsonl') {
        for (const item of items) await stdout.write(`${toJsonLine(chosen(item))}\n`);
        return;
      }
      if (items.length === 0) return;
      const safe = items.map(sanitizeDeep);
      const text = stdout.isTerminal ? tableText(safe, columns, await style(), stdout.columns) : tsvText(safe, columns);
      await stdout.write(text);
    },
    record: (value) => stdout.write(`${toJsonLine(chosen(value))}\n`),
    text: (text) => stdout.write(endLine(sanitize(text)) || '\n'),
    verbatim: (text) => stdout.write(endLine(text)),
    bytes: (data) => stdout.write(data),
    async note(text) {
      if (!settings.isQuiet) await remark(text);
    },
    async detail(text) {
      if (settings.isVerbose) await remark(text);
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

function once<Value>(build: () => Value): () => Value {
  let built: { value: Value } | undefined;
  return () => {
    built ??= { value: build() };
    return built.value;
  };
}
