// What list, replay, send and search cost with much stored, against the same with little: see README.md. With `--database <url>` on PostgreSQL, in
// schemas of its own; without, on SQLite files. `--many <count>` is 100000 unless said.
import { mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parseArgs } from 'node:util';
import { build } from 'esbuild';

const { values } = parseArgs({
  options: { database: { type: 'string' }, many: { type: 'string', default: '100000' } },
});
const root = fileURLToPath(new URL('..', import.meta.url));
// Inside the package, so that the compiled drivers are found.
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
