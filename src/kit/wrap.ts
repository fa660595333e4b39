import { stripVTControlCharacters } from 'node:util';

/** Longer lines are hard to read, no matter how wide the terminal is. */
const WIDEST = 100;
const GAP = 3;
const INDENT = '  ';
/** How much of a line the left of two columns may take, and the minimum for the right one. */
const LEFT_SHARE = 0.42;
const RIGHT_MIN = 20;
/** On a narrower terminal, the right of two columns goes below the left one. */
const COLUMNS_MIN = 60;
const BELOW_INDENT = ' '.repeat(6);

/** How many columns running text gets: those of the terminal, or 80 if they are unknown. */
export const textWidth = ({ columns }: { readonly columns: number }): number => Math.min(columns, WIDEST);

const WIDE =
  /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{1f300}-\u{1faff}\u{20000}-\u{3fffd}]/u;
const COMBINING = /\p{M}/u;
/** Most text is: its length is its width. */
const PLAIN_ASCII = /^[\x20-\x7e]*$/;

/** How many columns of a terminal the text takes. */
export function displayWidth(text: string): number {
  if (PLAIN_ASCII.test(text)) return text.length;
  let width = 0;
  for (const character of text) width += COMBINING.test(character) ? 0 : WIDE.test(character) ? 2 : 1;
  return width;
}

const measureWidth = (text: string): number =>
  PLAIN_ASCII.test(text) ? text.length : displayWidth(stripVTControlCharacters(text));

/** The lines of a text, broken between words. A word that is too wide gets its own line. */
function wrapWords(text: string, width: number): string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.trim().split(/[ \n]+/)) {
    if (line !== '' && measureWidth(line) + 1 + measureWidth(word) > width) {
      lines.push(line);
      line = '';
    }
    line += line === '' ? word : ` ${word}`;
  }
  return [...lines, line];
}

/** One paragraph; `first` precedes its first line, and `rest` the others. */
export function wrapText(text: string, width: number, first = '', rest = ' '.repeat(measureWidth(first))): string {
  if (!text.includes('\n') && measureWidth(first) + measureWidth(text) <= width) return `${first}${text}`;
  const [begin = '', ...more] = wrapWords(text, width - rest.length);
  return [`${first}${begin}`, ...more.map((line) => `${rest}${line}`)].join('\n');
}

/** Paragraphs, separated by empty lines; the original line breaks do not matter. */
export function wrapParagraphs(text: string, width: number): string {
  return text
    .split(/\n{2,}/)
    .map((paragraph) => wrapText(paragraph, width))
    .join('\n\n');
}

/** One line of a list in two columns. */
export type Row = readonly [left: string, right: string];

/** The width of the left column of these rows; a left side that is wider gets its own line. */
export function leftWidth(rows: readonly Row[], width: number): number {
  const most = Math.floor(width * LEFT_SHARE);
  return Math.max(2, ...rows.map(([left]) => measureWidth(left)).filter((each) => each <= most));
}

/**
 * Two columns, the right one with running text; `paint` highlights the left one. On a narrow terminal, the text is below
 * the name.
 */
export function columnsText(
  rows: readonly Row[],
  width: number,
  paint: (name: string) => string = (name) => name,
  left = leftWidth(rows, width),
): string {
  if (width < COLUMNS_MIN)
    return rows
      .map(
        ([name, about]) =>
          `${paint(wrapText(name.trimStart(), width, INDENT))}\n${wrapText(about, width, BELOW_INDENT)}`,
      )
      .join('\n');
  const start = ' '.repeat(INDENT.length + left + GAP);
  const line = ([name, about]: Row): string => {
    const right = wrapText(about, Math.max(width, start.length + RIGHT_MIN), start);
    const fits = measureWidth(name) <= left;
    const head = `${INDENT}${paint(name)}`;
    return fits ? `${head}${right.slice(INDENT.length + measureWidth(name))}` : `${head}\n${right}`;
  };
  return rows.map(line).join('\n');
}

const ROW = /^ {2,}(\S.*?) {3,}(\S.*)$/;

/** A page of running text and two-column rows (three spaces between the columns), for this width. */
export function wrapPage(page: string, width: number): string {
  const parts: string[] = [];
  let block: string[] = [];
  const endBlock = (): void => {
    if (block.length === 0) return;
    const rows = block.map((line): Row => {
      const [, left = '', right = ''] = ROW.exec(line) ?? [];
      return [left, right];
    });
    parts.push(block.some((line) => measureWidth(line) > width) ? columnsText(rows, width) : block.join('\n'));
    block = [];
  };
  for (const line of page.split('\n')) {
    if (ROW.test(line)) {
      block.push(line);
      continue;
    }
    endBlock();
    const [begin = ''] = /^ *(?:\d+\. )?/.exec(line) ?? [];
    parts.push(measureWidth(line) > width ? wrapText(line.slice(begin.length), width, begin) : line);
  }
  endBlock();
  return parts.join('\n');
}
