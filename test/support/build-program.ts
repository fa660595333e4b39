import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Bundles a TypeScript program of the tests into one file, next to the packages it needs, so that Node.js can start it.
 */
export async function buildProgram(source: string): Promise<{ path: string; remove(): void }> {
  const cache = join(ROOT, 'node_modules', '.cache');
  mkdirSync(cache, { recursive: true });
  const folder = mkdtempSync(join(cache, 'asp-program-'));
  const path = join(folder, 'program.mjs');
  await build({
    entryPoints: [join(ROOT, source)],
    outfile: path,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20',
    packages: 'external',
  });
  return { path, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
