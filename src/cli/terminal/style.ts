import type { Environment } from '../../kit/environment.js';

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
  return new Chalk({ level: 1 });
}

export type ColorChoice = 'auto' | 'always' | 'never';

/** What variables say about color; undefined: nothing. NO_COLOR comes first, then those that force color. */
export function findColorWish(environment: Environment): boolean | undefined {
  const { NO_COLOR = '', FORCE_COLOR, CLICOLOR_FORCE = '0', CLICOLOR, TERM } = environment;
  if (NO_COLOR !== '') return false;
  if (FORCE_COLOR !== undefined) return FORCE_COLOR !== '0' && FORCE_COLOR !== 'false';
  if (CLICOLOR_FORCE !== '0') return true;
  return CLICOLOR === '0' || TERM === 'dumb' ? false : undefined;
}

/** Whether a stream is colored: the option or the setting, then variables, then whether it is a terminal. */
export function isColored(choice: ColorChoice, environment: Environment, isTerminal: boolean): boolean {
  return choice === 'auto' ? (findColorWish(environment) ?? isTerminal) : choice === 'always';
}
