import { chmodSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** Whatever tests put into the temporary folder is in one of their own, which goes when they are over. */
export function setup(): (() => void) | undefined {
  if (process.env['ASP_TEST_FOLDER'] !== undefined) return undefined;
  const folder = mkdtempSync(join(tmpdir(), 'asp-test-'));
  // Some programs run as another user, and find their own folder in it.
  chmodSync(folder, 0o711);
  process.env['ASP_TEST_FOLDER'] = folder;
  process.env['TMPDIR'] = folder;
  return () => rmSync(folder, { recursive: true, force: true });
}
