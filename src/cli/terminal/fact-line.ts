import { textWidth, wrapText } from '../../kit/wrap.js';
import type { OutputStream } from './streams.js';

/** How many columns the names of facts take. */
const NAME_WIDTH = 9;

/** A fact about one thing: its name and a text, which a terminal gets broken between words. */
export function factLine(stdout: OutputStream, name: string, text: string, nameWidth = NAME_WIDTH): string {
  const begin = name.padEnd(nameWidth);
  return stdout.isTerminal ? wrapText(text, textWidth(stdout), begin) : `${begin}${text}`;
}
