import { readdirSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { describe, expect, test } from 'vitest';

import { RULES } from './rules.js';

const FOLDER = fileURLToPath(new URL('.', import.meta.url));
const RULE_CALL = /\brule\(\s*(\[[^\]]*\]|'[^']*')/g;
const RULE_ID = /'([^']+)'/g;

function claimsOf(file: string): string[] {
  const calls = [...readFileSync(`${FOLDER}${file}`, 'utf8').matchAll(RULE_CALL)];
  return calls.flatMap(([, ids = '']) => [...ids.matchAll(RULE_ID)].map(([, id = '']) => id));
}

const files = readdirSync(FOLDER).filter((name) => name.endsWith('.test.ts'));
const claims = new Map(files.map((file) => [file, claimsOf(file)]));
const tested = new Set([...claims.values()].flat());

describe('Coverage of the specification', () => {
  test('every rule has a test', () => {
    expect(Object.keys(RULES).filter((id) => !tested.has(id))).toEqual([]);
  });

  test.each(files)('%s names no unknown rule', (file) => {
    expect((claims.get(file) ?? []).filter((id) => !Object.hasOwn(RULES, id))).toEqual([]);
  });
});
