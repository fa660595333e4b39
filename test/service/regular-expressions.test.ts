import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';

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

/** Returns the text that must precede the repetition so that the expression reaches it. */
function headOf({ pattern }: Expression): string {
  return (/^\^?((?:[\w "'@<>=:;,%&-]|\\[/.])*)/.exec(pattern)?.[1] ?? '').replaceAll('\\', '');
}

describe('A regular expression of the service', () => {
  it('is found', () => expect(EXPRESSIONS.length).toBeGreaterThan(40));

  // An expression that starts over at each character would block the service for minutes, and this test would time out.
  it.each(EXPRESSIONS)('reads a long text once: $pattern in $file', (expression) => {
    const search = new RegExp(expression.pattern, expression.flags);
    const heads = new Set(['', headOf(expression)]);
    for (const head of heads)
      for (const character of REPEATED) {
        const text = `${head}${character.repeat(LENGTH)}\0`;
        expect(text.replace(search, '').length).toBeLessThanOrEqual(text.length);
      }
  });
});
