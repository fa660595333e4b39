import { existsSync, readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

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
