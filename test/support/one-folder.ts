import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Puts all temporary files of the tests into one folder, which is removed when they are done, like their schemas. */
export function setup(): (() => Promise<void>) | undefined {
  if (process.env['ASP_TEST_FOLDER'] !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'asp-test-'));
  // Some programs run as another user and must be able to enter their own folder inside.
  chmodSync(folder, 0o711);
  process.env['ASP_TEST_FOLDER'] = folder;
  process.env['TMPDIR'] = folder;
  return async () => {
    const { dropEmptied } = await import('./stores.js');
    await dropEmptied();
    rmSync(folder, { recursive: true, force: true });
  };
}
