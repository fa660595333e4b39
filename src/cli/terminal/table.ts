import { displayWidth } from '../../kit/wrap.js';
import { sanitizeLine } from './sanitize.js';
import type { Style } from './style.js';

/** A column of a list: its title and what it shows of an item. */
export interface Column<Item> {
  readonly title: string;
  readonly value: (item: Item) => string;
  readonly paint?: (text: string, item: Item, style: Style) => string;
  /** Gives way first when the terminal is too narrow. */
  readonly isFlexible?: boolean;
  /** What a machine reads in its place, when output is piped. */
  readonly piped?: (item: Item) => string;
}

/** The beginning of a text that fits into `width` columns, with an ellipsis when something is missing. */
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
const NARROWEST = 8;

/** Aligned columns under dim titles, no wider than the terminal. */
export function tableText<Item>(
  items: readonly Item[],
  columns: readonly Column<Item>[],
  style: Style,
  terminalWidth: number,
): string {
  const cells = items.map((item) => columns.map((column) => sanitizeLine(column.value(item))));
  const widths = columns.map((column, index) =>
    Math.max(column.title.length, ...cells.map((row) => displayWidth(row[index] ?? ''))),
  );
  let excess = widths.reduce((sum, width) => sum + width + GAP, -GAP) - terminalWidth;
  for (const [index, column] of columns.entries()) {
    if (excess <= 0 || column.isFlexible !== true) continue;
    const width = widths[index] ?? 0;
    const less = Math.min(excess, Math.max(0, width - Math.max(NARROWEST, column.title.length)));
    widths[index] = width - less;
    excess -= less;
  }
  const line = (texts: readonly string[], paint: (text: string, index: number) => string): string =>
    texts
      .map((text, index) => {
        const shown = shorten(text, widths[index] ?? 0);
        const padding = index === texts.length - 1 ? '' : ' '.repeat((widths[index] ?? 0) - displayWidth(shown) + GAP);
        return `${paint(shown, index)}${padding}`;
      })
      .join('')
      .trimEnd();
  const head = line(
    columns.map(({ title }) => title.toUpperCase()),
    (text) => style.dim(text),
  );
  const body = cells.map((row, at) =>
    line(row, (text, index) => columns[index]?.paint?.(text, items[at] as Item, style) ?? text),
  );
  return `${[head, ...body].join('\n')}\n`;
}

/** One item a line, tabs between its values, nothing cut. */
export function tsvText<Item>(items: readonly Item[], columns: readonly Column<Item>[]): string {
  return items
    .map((item) => `${columns.map((column) => sanitizeLine((column.piped ?? column.value)(item))).join('\t')}\n`)
    .join('');
}
