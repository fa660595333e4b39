import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';

import type { Outcome } from '../scripts/outcome-reporter.js';

const SCRIPT = fileURLToPath(new URL('../scripts/print-outcome.mjs', import.meta.url));
const scratch = mkdtempSync(join(tmpdir(), 'asp-outcome-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

function print(outcome: Outcome | undefined, statusOfTests: number): { stdout: string; status: number | null } {
  const file = join(scratch, 'outcome.json');
  rmSync(file, { force: true });
  if (outcome !== undefined) writeFileSync(file, JSON.stringify(outcome));
  const { stdout, status } = spawnSync(process.execPath, [SCRIPT, file, String(statusOfTests)], { encoding: 'utf8' });
  return { stdout, status };
}

const whole = { passed: 3, failed: 0, skipped: 1, isWhole: true };

describe('the outcome of a run', () => {
  it('is its counts', () => {
    expect(print(whole, 0)).toEqual({ stdout: '3 passed, 0 failed, 1 skipped\n', status: 0 });
  });

  it('is a failure when a test failed', () => {
    expect(print({ ...whole, failed: 2 }, 1)).toEqual({ stdout: '3 passed, 2 failed, 1 skipped\n', status: 1 });
  });

  it('has no counts when the tests did not run to their end', () => {
    expect(print(undefined, 124)).toEqual({ stdout: '', status: 124 });
  });

  it('has no counts when something failed outside the tests', () => {
    expect(print({ ...whole, failed: 1, isWhole: false }, 1)).toEqual({ stdout: '', status: 1 });
    expect(print(whole, 1)).toEqual({ stdout: '', status: 1 });
  });

  it('is a failure when no test ran', () => {
    expect(print({ passed: 0, failed: 0, skipped: 4, isWhole: true }, 0)).toEqual({ stdout: '', status: 1 });
  });
});
