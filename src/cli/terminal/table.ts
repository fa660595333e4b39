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

const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const COMBINING = /\p{M}/u;

/** How many columns a terminal gives to a text. */
export function displayWidth(text: string): number {
  let width = 0;
  for (const character of text) width += COMBINING.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
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
