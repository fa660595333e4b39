/** The characters that roff would interpret. */
const ESCAPE: Readonly<Record<string, string>> = {
  '\\': '\\e',
  '-': '\\-',
  "'": '\\(aq',
  '`': '\\(ga',
  '^': '\\(ha',
  '~': '\\(ti',
  '"': '\\(dq',
  '…': '...',
  '’': '\\(cq',
  '·': '\\(pc',
  '→': '\\(->',
};

/** Escapes text so that roff prints it unchanged, without escapes, macros, or breakable hyphens. */
export function escapeRoff(text: string): string {
  const escaped = text.replace(/[\\\-'`^~"]|[^\n\x20-\x7e]/gu, (character) => {
    const code = (character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0');
    return ESCAPE[character] ?? `\\[u${code}]`;
  });
  return escaped.replace(/^\./gm, '\\&.');
}

export const bold = (text: string): string => `\\fB${escapeRoff(text)}\\fR`;
export const italic = (text: string): string => `\\fI${escapeRoff(text)}\\fR`;

export const section = (title: string): string => `.SH ${quotedArgument(title)}`;
export const subsection = (title: string): string => `.SS ${quotedArgument(title)}`;

const quotedArgument = (text: string): string => `"${escapeRoff(text)}"`;

const WIDTH = 78;

/** Wraps the lines of a paragraph to keep the source readable. */
function filled(text: string): string {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/)) {
    if (line !== '' && line.length + word.length >= WIDTH) {
      lines.push(line);
      line = '';
    }
    line += line === '' ? word : ` ${word}`;
  }
  return escapeRoff([...lines, line].join('\n'));
}

/** Formats running text. Empty lines separate paragraphs. */
export function paragraphs(text: string): string {
  return text
    .trim()
    .split(/\n{2,}/)
    .map((part) => filled(part))
    .join('\n.PP\n');
}

/** Formats a term, which is already marked up, with its description. */
export const definition = (term: string, about: string): string => `.TP\n${term}\n${filled(about)}`;

/** Formats lines unchanged and indented. */
export const verbatim = (lines: string): string => `.PP\n.RS 4\n.EX\n${escapeRoff(lines)}\n.EE\n.RE`;

const MACRO_BEFORE_PARAGRAPH = /^\.(?:SH|SS|PP)\b/;
const MACRO_WITH_PARAGRAPH = /^\.(?:SH|SS|PP|TP)\b/;

/** Joins the parts of a page and drops empty paragraphs. */
export function page(parts: readonly string[]): string {
  const lines = parts.join('\n').split('\n');
  const kept: string[] = [];
  for (const [at, line] of lines.entries()) {
    const isEmpty = MACRO_BEFORE_PARAGRAPH.test(kept.at(-1) ?? '') || MACRO_WITH_PARAGRAPH.test(lines[at + 1] ?? '');
    if (line !== '.PP' || !isEmpty) kept.push(line);
  }
  return `${kept.join('\n')}\n`;
}
