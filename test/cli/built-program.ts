import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process';
import { PROGRAM_FILE } from '../support/built-program-file.js';

export { PROGRAM_FILE };

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly out: string;
  readonly err: string;
}

/** Collects both output streams and the exit of a process. */
export function collect(child: ChildProcess): Promise<Ended> {
  const parts = { out: '', err: '' };
  child.stdout?.setEncoding('utf8').on('data', (text: string) => {
    parts.out += text;
  });
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    parts.err += text;
  });
  return new Promise((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (code, signal) => resolve({ code, signal, ...parts }));
  });
}

/** Starts the program itself. */
export function startProgram(
  words: readonly string[],
  environment: Readonly<Record<string, string>>,
  options: SpawnOptions = {},
): ChildProcess {
  const env = { PATH: process.env['PATH'], ...environment };
  return spawn(process.execPath, [PROGRAM_FILE, ...words], { stdio: ['ignore', 'pipe', 'pipe'], ...options, env });
}

/** Runs a shell line in which `asp` is the program. */
export function runShell(line: string, environment: Readonly<Record<string, string>>): Promise<Ended> {
  const script = `asp() { "${process.execPath}" "${PROGRAM_FILE}" "$@"; }\n${line}`;
  const env = { PATH: process.env['PATH'], ...environment };
  return collect(spawn('bash', ['-c', script], { stdio: ['ignore', 'pipe', 'pipe'], env }));
}
