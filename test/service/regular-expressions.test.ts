import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createContext, Script } from 'node:vm';

import { parseSync } from 'oxc-parser';
import { describe, expect, it } from 'vitest';

interface Expression {
  readonly pattern: string;
  readonly flags: string;
  readonly file: string;
}

/** Every regular expression in the code of the service and the contract. */
const EXPRESSIONS: readonly Expression[] = ['src/service', 'src/wire'].flatMap((room) =>
  readdirSync(room, { recursive: true, encoding: 'utf8' })
    .filter((file) => file.endsWith('.ts'))
    .flatMap((file) => expressionsOf(join(room, file))),
);

function expressionsOf(file: string): Expression[] {
  const found: Expression[] = [];
  const walk = (value: unknown): void => {
    if (typeof value !== 'object' || value === null) return;
    if ('regex' in value) found.push({ ...(value.regex as Expression), file });
    for (const child of Object.values(value)) walk(child);
  };
  walk(parseSync(file, readFileSync(file, 'utf8')).program);
  return found;
}

const REPEATED = [' ', '\t', '.', 'a', '0', '/', '-', '=', '"', '%', ':', ','];
const LENGTH = 250_000;
/** An expression that reads the text once takes some milliseconds; one that starts over takes minutes. */
const LIMIT_MS = 20_000;

/** Returns how much is left of a text without what the expression finds. Throws when it takes too long. */
function lengthWithout(search: RegExp, text: string, limitMs = LIMIT_MS): number {
  place['search'] = search;
  place['text'] = text;
  return SEARCH.runInContext(place, { timeout: limitMs });
}
const place = createContext({});
const SEARCH = new Script("text.replace(search, '').length");

/** Returns the text that must precede the repetition so that the expression reaches it. */
function headOf({ pattern }: Expression): string {
  return (/^\^?((?:[\w "'@<>=:;,%&-]|\\[/.])*)/.exec(pattern)?.[1] ?? '').replaceAll('\\', '');
}

describe('A regular expression of the service', () => {
  it('is found', () => expect(EXPRESSIONS.length).toBeGreaterThan(40));

  // An expression that starts over at each character would block the service for minutes.
  it('that starts over is noticed', () => {
    const text = `${'/'.repeat(10 * LENGTH)}\0`;
    expect(() => lengthWithout(/\/+$/, text, 500)).toThrow('timed out');
    expect(lengthWithout(/\/$/, text)).toBe(text.length);
  });

  it.each(EXPRESSIONS)('reads a long text once: $pattern in $file', (expression) => {
    const search = new RegExp(expression.pattern, expression.flags);
    const heads = new Set(['', headOf(expression)]);
    for (const head of heads)
      for (const character of REPEATED) {
        const text = `${head}${character.repeat(LENGTH)}\0`;
        expect(lengthWithout(search, text)).toBeLessThanOrEqual(text.length);
      }
  });
});
