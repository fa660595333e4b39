/** Ways to highlight text. Without color each returns its text unchanged. */
export interface Style {
  bold(text: string): string;
  dim(text: string): string;
  red(text: string): string;
  green(text: string): string;
  yellow(text: string): string;
  cyan(text: string): string;
}

const same = (text: string): string => text;

export const PLAIN: Style = { bold: same, dim: same, red: same, green: same, yellow: same, cyan: same };

/** The colors of chalk, which is loaded only if colors are used. */
export async function loadStyle(isColored: boolean): Promise<Style> {
  if (!isColored) return PLAIN;
  const { Chalk } = await import('chalk');
  const chalk = new Chalk({ level: 1 });
  const { bold, dim, red, green, yellow, cyan } = chalk;
  return {
    bold: (text) => bold(text),
    dim: (text) => dim(text),
    red: (text) => red(text),
    green: (text) => green(text),
    yellow: (text) => yellow(text),
    cyan: (text) => cyan(text),
  };
}

export type ColorChoice = 'auto' | 'always' | 'never';

/** Whether a variable says something about color, so that the settings do not. */
export function isColorSet(environment: Readonly<Record<string, string | undefined>>): boolean {
  const { NO_COLOR = '', FORCE_COLOR, CLICOLOR_FORCE, CLICOLOR, TERM } = environment;
  return (
    NO_COLOR !== '' ||
    FORCE_COLOR !== undefined ||
    (CLICOLOR_FORCE !== undefined && CLICOLOR_FORCE !== '0') ||
    CLICOLOR === '0' ||
    TERM === 'dumb'
  );
}

/**
 * Whether a stream is colored: the flag, then NO_COLOR, then variables that force color, then whether it is a terminal.
 */
export function isColored(
  choice: ColorChoice,
  environment: Readonly<Record<string, string | undefined>>,
  isTerminal: boolean,
): boolean {
  if (choice !== 'auto') return choice === 'always';
  const { NO_COLOR, FORCE_COLOR, CLICOLOR_FORCE, CLICOLOR, TERM } = environment;
  if (NO_COLOR !== undefined && NO_COLOR !== '') return false;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  if (CLICOLOR_FORCE !== undefined && CLICOLOR_FORCE !== '0') return true;
  if (CLICOLOR === '0' || TERM === 'dumb') return false;
  return isTerminal;
}
