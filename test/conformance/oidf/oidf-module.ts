import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

import { afterAll, expect, test } from 'vitest';

import { EXPECTED_DIFFERENCES } from './modules.js';

/**
 * One module: how to get what it checks, the check itself, and, for an expected difference, what this service answers
 * instead.
 */
export interface OidfModule<Seen> {
  look(): Promise<Seen>;
  asks(seen: Seen): void;
  answers?(seen: Seen): void;
}

type Verdict = 'PASSED' | 'EXPECTED_DIFFERENCE' | 'FAILED';
const verdicts: Record<string, Verdict> = {};

/** Defines a test with the name of the module. A module in the list of differences must differ exactly as listed. */
export function oidfModule<Seen>(name: string, says: string, module: OidfModule<Seen>): void {
  test(`${name} › ${says}`, async () => {
    verdicts[name] = 'FAILED';
    verdicts[name] = judge(name, module, await module.look());
  });
}

function judge<Seen>(name: string, { asks, answers }: OidfModule<Seen>, seen: Seen): Verdict {
  if (EXPECTED_DIFFERENCES[name] === undefined) {
    expect(answers, `${name} says how it differs, but is not on the list of differences`).toBeUndefined();
    asks(seen);
    return 'PASSED';
  }
  expect(() => asks(seen), `${name} differs no more: take it off the list`).toThrow();
  if (answers === undefined) throw new Error(`${name} does not say how it differs`);
  answers(seen);
  return 'EXPECTED_DIFFERENCE';
}

/** If `ASP_OIDF_RESULTS` names a folder, writes the verdicts of this file there as JSON. */
export function reportVerdicts(file: string): void {
  afterAll(() => {
    const folder = process.env['ASP_OIDF_RESULTS'];
    if (folder === undefined) return;
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, `${file}.json`), `${JSON.stringify(verdicts, undefined, 2)}\n`);
  });
}
