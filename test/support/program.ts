import { spawn } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

import { build } from 'esbuild';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/** Bundles a TypeScript program of the tests so that `node` can run it in a separate process. Returns its path. */
export async function bundleProgram(source: string): Promise<string> {
  const directory = `${ROOT}node_modules/.cache/asp-test`;
  mkdirSync(directory, { recursive: true });
  const name = source.replace(/^.*\//, '').replace(/\.ts$/, '');
  const outfile = `${directory}/${name}-${process.pid}.mjs`;
  await build({
    absWorkingDir: ROOT,
    entryPoints: [source],
    outfile,
    bundle: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    packages: 'external',
    logLevel: 'warning',
  });
  return outfile;
}

export interface Ran {
  readonly status: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a bundled program to its end. `kill` can end it early. */
export function runProgram(
  path: string,
  words: readonly string[],
  environment: Readonly<Record<string, string | undefined>> = {},
): { readonly ended: Promise<Ran>; kill(signal: NodeJS.Signals): void } {
  const child = spawn(process.execPath, [path, ...words], { env: { ...process.env, ...environment } });
  const chunks = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk: Buffer) => {
    chunks.stdout += chunk.toString('utf8');
  });
  child.stderr.on('data', (chunk: Buffer) => {
    chunks.stderr += chunk.toString('utf8');
  });
  const ended = new Promise<Ran>((resolve) => {
    child.on('close', (status, signal) => resolve({ status, signal, ...chunks }));
  });
  return { ended, kill: (signal) => void child.kill(signal) };
}
