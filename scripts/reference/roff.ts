/** What roff would read as something else than itself. */
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

/** Text as roff prints it: nothing in it is an escape, a macro or a hyphen that may be broken. */
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

/** A paragraph's lines, wrapped so that the source can be read. */
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

/** Paragraphs of running text, apart where an empty line is. */
export function paragraphs(text: string): string {
  return text
    .trim()
    .split(/\n{2,}/)
    .map((part) => filled(part))
    .join('\n.PP\n');
}

/** A term, already marked up, and what it is. */
export const definition = (term: string, about: string): string => `.TP\n${term}\n${filled(about)}`;

/** Lines as they are, indented. */
export const verbatim = (lines: string): string => `.PP\n.RS 4\n.EX\n${escapeRoff(lines)}\n.EE\n.RE`;

const MACRO_BEFORE_PARAGRAPH = /^\.(?:SH|SS|PP)\b/;
const MACRO_WITH_PARAGRAPH = /^\.(?:SH|SS|PP|TP)\b/;

/** Lines of a page, without paragraphs that are empty. */
export function page(parts: readonly string[]): string {
  const lines = parts.join('\n').split('\n');
  const kept: string[] = [];
  for (const [at, line] of lines.entries()) {
    const isEmpty = MACRO_BEFORE_PARAGRAPH.test(kept.at(-1) ?? '') || MACRO_WITH_PARAGRAPH.test(lines[at + 1] ?? '');
    if (line !== '.PP' || !isEmpty) kept.push(line);
  }
  return `${kept.join('\n')}\n`;
}
