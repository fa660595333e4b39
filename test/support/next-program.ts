import { execFile } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { Migration } from '../../src/service/store/migrations.js';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** What scripts/build.mjs reads. */
const SOURCES = ['src', 'scripts', 'bin', 'completions', 'man', 'docs', 'README.md', 'LICENSE'];
const SETTINGS = ['package.json', 'package-lock.json', 'tsconfig.json', 'tsconfig.types.json'];
const MIGRATIONS = /(export const MIGRATIONS: readonly Migration\[\] = \[\n[\s\S]*?)\n\];/;

/** Builds the program of a release with one more migration. */
export async function buildNextProgram(migration: Migration): Promise<{ readonly file: string; remove(): void }> {
  const folder = mkdtempSync(join(tmpdir(), 'asp-next-'));
  for (const name of [...SOURCES, ...SETTINGS]) cpSync(join(ROOT, name), join(folder, name), { recursive: true });
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'));
  const list = join(folder, 'src/service/store/migrations.ts');
  const source = readFileSync(list, 'utf8');
  const changed = source.replace(MIGRATIONS, (_, before: string) => `${before}\n  ${JSON.stringify(migration)},\n];`);
  if (changed === source) throw new Error('The list of migrations looks different: add to it here.');
  writeFileSync(list, changed);
  await promisify(execFile)(process.execPath, ['scripts/build.mjs', 'dist', '--no-types'], { cwd: folder });
  return { file: join(folder, 'bin/asp.js'), remove: () => rmSync(folder, { recursive: true, force: true }) };
}
