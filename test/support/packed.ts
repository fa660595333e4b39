import { execFileSync } from 'node:child_process';
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Runs a program to its end and returns its standard output. Throws unless it exits with 0. */
export function runToEnd(command: string, words: readonly string[], cwd = ROOT): string {
  return execFileSync(command, words, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

/** The unpacked package of this build, and the paths of its dependencies. */
const PACKED = join(
  process.env['ASP_TEST_FOLDER'] ?? tmpdir(),
  `packed-${statSync(join(ROOT, 'dist/main.cjs')).mtimeMs}`,
);

/** Packs the package as npm would publish it, once for all processes of a run. */
function pack(): void {
  if (existsSync(PACKED)) return;
  const folder = mkdtempSync(`${PACKED}-`);
  const [{ filename }] = JSON.parse(runToEnd('npm', ['pack', '--pack-destination', folder, '--json'])) as [
    { filename: string },
  ];
  runToEnd('tar', ['-xzf', join(folder, filename), '-C', folder]);
  const installed = runToEnd('npm', ['ls', '--omit=dev', '--all', '--parseable']).trim().split('\n').slice(1);
  writeFileSync(join(folder, 'installed.json'), JSON.stringify(installed));
  try {
    renameSync(folder, PACKED);
  } catch (error) {
    // Another process was faster.
    if (!existsSync(PACKED)) throw error;
  }
}

/**
 * Puts the package into `node_modules` of `project`, with its dependencies and the types of Node.js, as an installation
 * would. Returns its folder. Uses no network.
 */
export function installPacked(project: string): string {
  pack();
  const folder = join(project, 'node_modules/asp-cli');
  cpSync(join(PACKED, 'package'), folder, { recursive: true });
  const installed = JSON.parse(readFileSync(join(PACKED, 'installed.json'), 'utf8')) as string[];
  for (const path of [...installed, join(ROOT, 'node_modules/@types/node'), join(ROOT, 'node_modules/undici-types')]) {
    const place = join(project, path.slice(ROOT.length));
    mkdirSync(dirname(place), { recursive: true });
    symlinkSync(path, place);
  }
  return folder;
}

/** Type-checks a program in `project` with the strictest settings, including the package's declarations. */
export function typeCheck(project: string, files: readonly string[], options: readonly string[] = []): void {
  const strict = ['--strict', '--exactOptionalPropertyTypes', '--noUncheckedIndexedAccess', '--skipLibCheck', 'false'];
  const modern = ['--noEmit', '--module', 'nodenext', '--target', 'es2023', '--types', 'node', '--lib', 'es2023'];
  const compiler = join(ROOT, 'node_modules/typescript/bin/tsc');
  try {
    runToEnd(process.execPath, [compiler, ...modern, ...strict, ...options, ...files], project);
  } catch (error) {
    const { stdout = '' } = error as { stdout?: string };
    throw new Error(`${files.join(', ')} does not compile:\n${stdout}`, { cause: error });
  }
}
