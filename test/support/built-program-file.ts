import { existsSync, mkdirSync, readdirSync, statSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const QUICK_CRYPTOGRAPHY = join(ROOT, 'test/support/quick-cryptography.mjs');

/** Throws if the build is missing or older than the sources, because a test would then check a different program. */
function requireFreshBuild(): void {
  const build = join(ROOT, 'dist/main.cjs');
  const sources = readdirSync(join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
  const changed = Math.max(...sources.map((path) => statSync(join(ROOT, 'src', path)).mtimeMs));
  if (!existsSync(build) || statSync(build).mtimeMs < changed)
    throw new Error('This test starts the built program, and dist is older than src: run npm run build first.');
}

requireFreshBuild();

/** The program as installed. */
export const PROGRAM_FILE = join(ROOT, 'bin/asp.js');

const testFolder = process.env['ASP_TEST_FOLDER'];
let services = process.pid;

/** Returns the arguments with which `node` runs `asp`. A service takes its signing key from the shared ones. */
export function programWords(words: readonly string[]): string[] {
  if (words[0] !== 'serve' || testFolder === undefined) return [PROGRAM_FILE, ...words];
  const keys = pathToFileURL(QUICK_CRYPTOGRAPHY);
  keys.search = new URLSearchParams({ folder: testFolder, next: String(services) }).toString();
  services += 1;
  return ['--import', keys.href, PROGRAM_FILE, ...words];
}

/**
 * Gives a home the cache folder that all homes of a run share. Otherwise, the first run of each command in each home
 * compiles the program again, which takes as long as everything else that a short command does.
 */
export function shareCompiledCode(home: string): void {
  if (testFolder === undefined) return;
  const shared = join(testFolder, 'cache');
  mkdirSync(shared, { recursive: true, mode: 0o700 });
  symlinkSync(shared, join(home, '.cache'));
}
