// Compares the cost of list, replay, send and search with much and with little data: see README.md. With `--database
// <url>` it runs on PostgreSQL, in its own schemas, otherwise on SQLite files. `--many <count>` defaults to 100000.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';

const { values } = parseArgs({
  options: { database: { type: 'string' }, many: { type: 'string', default: '100000' } },
});
const root = fileURLToPath(new URL('..', import.meta.url));
// Inside the package, so that Node.js finds the compiled drivers.
const folder = mkdtempSync(join(root, 'node_modules', '.growth-'));
try {
  const outfile = join(folder, 'growth.mjs');
  await build({
    absWorkingDir: root,
    entryPoints: ['bench/growth/growth.ts'],
    outfile,
    bundle: true,
    platform: 'node',
    target: 'node20.19',
    format: 'esm',
    packages: 'external',
    logLevel: 'warning',
  });
  const { measureGrowth } = await import(pathToFileURL(outfile).href);
  process.exitCode = await measureGrowth({ ...values, many: Number(values.many), folder });
} finally {
  rmSync(folder, { recursive: true, force: true });
}
