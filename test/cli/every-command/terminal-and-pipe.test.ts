import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { type Case, ENDING } from './cases.js';
import { type Stage, startStage } from './stage.js';

/** Forces color wherever color is possible. */
const COLORFUL = { FORCE_COLOR: '1', TERM: 'xterm-256color' };
/** Cases whose output differs in every run: keys, tokens, sign-in addresses, times, and temporary folders. */
const NEW_EVERY_TIME =
  /"(?:idempotency_key|login_id|authorize_url|expires_at|signed_in_at|registered_at|path|data|file|origin|config|state|runtime|duration_ms)":(?:"[^"]*"|\d+)|http:\S+authorize\S+|\/(?:tmp|dev\/shm)\/[\w./-]+|\b\d+ (?:bytes|ms)\b/g;

let stage: Stage;
beforeAll(async () => {
  stage = await startStage();
});
afterAll(() => stage.close());

const known = (text: string): string => text.replace(NEW_EVERY_TIME, '…');

async function outOf(one: Case, more: readonly string[], isTerminal: boolean, width = 37): Promise<string> {
  const environment = isTerminal ? COLORFUL : {};
  const { out } = await stage.run(one, more, {
    isTerminal,
    environment,
    stdin: one.stdin ?? '',
    columns: isTerminal ? width : 80,
  });
  return known(out);
}

/** Collapses whitespace, because a terminal's width breaks lines of text. */
const words = (text: string): string => text.replace(/\s+/g, ' ');

/**
 * Whether a case prints a list: a table for people, tab-separated values for programs. Besides the width, that is the
 * only difference. A list of one column is one item per line for both.
 */
async function isList(one: Case): Promise<boolean> {
  const { out } = await stage.run(one, ['--json']);
  return /^\{"items":/.test(out);
}

describe('a fact of several words is broken between words on a narrow terminal:', () => {
  const withFacts =
    /^(?:agent show|session show|serve (?:status|retention|account show)|webhook show|whoami --explain)\b/;
  for (const one of ENDING.filter(({ line }) => withFacts.test(line)))
    it(`asp ${one.line}`, async () => {
      const [, ...lines] = (await outOf(one, ['--color', 'never'], true, 37)).split('\n');
      // Names and ids are not broken.
      const isOneWord = (line: string): boolean => line.trim().split(' ').length === 1;
      expect(lines.filter((line) => line.length > 37 && !isOneWord(line.slice(9)))).toEqual([]);
    });
});

describe('the output does not depend on a terminal:', () => {
  for (const one of ENDING)
    it(`asp ${one.line}`, async () => {
      for (const format of ['--json', '--jsonl'])
        expect(await outOf(one, [format], true)).toBe(await outOf(one, [format], false));
      const piped = await outOf(one, ['--color', 'never'], false);
      if (!(await isList(one))) return expect(words(await outOf(one, ['--color', 'never'], true))).toBe(words(piped));
      expect(piped).not.toMatch(/\u001b| {2}/);
      // Wide enough that no row takes two lines.
      const table = await outOf(one, ['--color', 'never'], true, 1_000);
      if (!piped.includes('\t')) return expect(table).toBe(piped);
      expect(table.split('\n').slice(1).filter(Boolean)).toHaveLength(piped.split('\n').filter(Boolean).length);
    });
});
