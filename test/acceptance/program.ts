import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { readMachine } from '../../src/cli/context/machine.js';
import { PROGRAM_FILE, programWords, shareCompiledCode } from '../support/built-program-file.js';

/** Runs its arguments on a pseudo-terminal and exits with their exit code. */
const PTY = 'import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))';

/** The output and the exit of a process. */
export interface Ended {
  status: number | null;
  signal: NodeJS.Signals | null;
  stdout: string;
  stderr: string;
}

/** A running process and its output so far. */
export interface Running {
  readonly child: ChildProcess;
  readonly pid: number;
  stdout(): string;
  stderr(): string;
  /** Resolves with the match once `pattern` appears in the stream. Rejects if the process ends first. */
  until(stream: 'stdout' | 'stderr', pattern: RegExp): Promise<RegExpMatchArray>;
  readonly ended: Promise<Ended>;
  kill(signal?: NodeJS.Signals): void;
}

/** The private home of one OS user. Nothing of the real user is read or written. */
export interface Home {
  readonly directory: string;
  readonly environment: NodeJS.ProcessEnv;
  /** Runs `asp` to its end. */
  asp(words: readonly string[], options?: RunOptions): Promise<Ended>;
  /**
   * Runs the sources of `asp` inside this process, for a tenth of the CPU time. Use it where the command only prepares a
   * test or looks at its result, and where nothing depends on its being a program.
   */
  run(words: readonly string[], options?: RunOptions): Promise<Ended>;
  /** Starts `asp`. */
  start(words: readonly string[], options?: RunOptions): Running;
  /** Runs a line of bash, without pipefail, in which `asp` is the program. */
  shell(line: string, options?: RunOptions): Promise<Ended>;
  /** Starts `asp` on its own terminal. `stdout` contains both streams. */
  terminal(words: readonly string[], options?: RunOptions): Running;
  exists(path: string): boolean;
  /** Starts any program in this home. */
  spawn(command: string, words: readonly string[], options?: RunOptions): Running;
  /** Stops running processes and removes the directory. */
  dispose(): Promise<void>;
}

interface RunOptions {
  environment?: NodeJS.ProcessEnv;
  /** All of standard input. It is empty by default; `isOpen` leaves it open. */
  input?: string | { isOpen: true };
  cwd?: string;
}

/** Creates a home. It has no keychain, so logins go to a file unless `environment` sets another store. */
export function createHome(environment: NodeJS.ProcessEnv = {}): Home {
  const directory = mkdtempSync(join(tmpdir(), 'asp-home-'));
  const bin = join(directory, 'bin');
  const runtime = join(directory, 'run');
  mkdirSync(bin);
  mkdirSync(runtime, { mode: 0o700 });
  symlinkSync(PROGRAM_FILE, join(bin, 'asp'));
  shareCompiledCode(directory);
  const base: NodeJS.ProcessEnv = {
    PATH: `${bin}:${process.env['PATH']}`,
    HOME: directory,
    XDG_RUNTIME_DIR: runtime,
    LANG: 'C.UTF-8',
    ASP_TOKEN_STORE: 'file',
    BROWSER: 'true',
    ...environment,
  };
  const running = new Set<Running>();

  const start = (command: string, words: readonly string[], options: RunOptions = {}): Running => {
    const one = startProcess(
      command,
      words,
      { ...options, environment: { ...base, ...options.environment } },
      directory,
    );
    running.add(one);
    void one.ended.finally(() => running.delete(one));
    return one;
  };

  return {
    directory,
    environment: base,
    asp: (words, options) => start(process.execPath, programWords(words), options).ended,
    run: (words, options) =>
      runHere(words, { ...options, environment: { ...base, ...options?.environment } }, directory),
    start: (words, options) => start(process.execPath, programWords(words), options),
    shell: (line, options) => start('bash', ['-c', line], options).ended,
    terminal: (words, options) =>
      start('python3', ['-c', PTY, process.execPath, PROGRAM_FILE, ...words], { input: { isOpen: true }, ...options }),
    exists: (path) => existsSync(join(directory, path)),
    spawn: start,
    async dispose() {
      for (const one of running) one.kill('SIGKILL');
      await Promise.all([...running].map((one) => one.ended));
      // A program that a killed agent left behind may still write.
      rmSync(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
    },
  };
}

async function runHere(words: readonly string[], options: RunOptions, home: string): Promise<Ended> {
  // Most files of this folder do not need the sources of a command.
  const { runWords } = await import('../cli/captured-run.js');
  const given = Object.entries(options.environment ?? {});
  const { code, out, err } = await runWords(words, {
    stdin: typeof options.input === 'string' ? options.input : '',
    environment: Object.fromEntries(given.filter((entry): entry is [string, string] => entry[1] !== undefined)),
    machine: { ...readMachine(process), homeDirectory: home, workingDirectory: options.cwd ?? home },
  });
  return { status: code, signal: null, stdout: out, stderr: err };
}

/** Interrupts these processes, forgets them, and waits for their ends. */
export async function stopAll(running: Running[]): Promise<void> {
  for (const one of running.splice(0)) {
    one.kill('SIGINT');
    await one.ended;
  }
}

/** Whether a process runs: one that ended and that no one has waited for does not. */
export function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

function startProcess(command: string, words: readonly string[], options: RunOptions, home: string): Running {
  const child = spawn(command, words, { env: options.environment, cwd: options.cwd ?? home, stdio: 'pipe' });
  const texts = { stdout: '', stderr: '' };
  const watchers = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (chunk: string) => {
      texts[name] += chunk;
      for (const watch of watchers) watch();
    });
  child.stdin.on('error', () => {});
  if (typeof options.input !== 'object') child.stdin.end(options.input ?? '');
  const ended = new Promise<Ended>((resolve, reject) => {
    child.once('error', reject);
    child.once('close', (status, signal) => {
      resolve({ status, signal, ...texts });
      for (const watch of watchers) watch();
    });
  });
  const until = (stream: 'stdout' | 'stderr', pattern: RegExp): Promise<RegExpMatchArray> =>
    new Promise((resolve, reject) => {
      const look = (): void => {
        const found = texts[stream].match(pattern);
        if (found !== null) resolve(found);
        else if (child.exitCode !== null || child.signalCode !== null)
          reject(
            new Error(
              `${words.join(' ')} ended (${child.exitCode ?? child.signalCode}) before ${pattern}:\n${texts.stdout}\n${texts.stderr}`,
            ),
          );
        else return;
        watchers.delete(look);
      };
      watchers.add(look);
      look();
    });
  return {
    child,
    pid: child.pid ?? 0,
    stdout: () => texts.stdout,
    stderr: () => texts.stderr,
    until,
    ended,
    kill: (signal = 'SIGTERM') => void child.kill(signal),
  };
}

/** A service that the real program runs in `home`. */
export interface ServiceProcess {
  readonly running: Running;
  readonly url: string;
  readonly data: string;
  /** Sends Ctrl-C and waits for the end. */
  stop(): Promise<Ended>;
}

/** Starts `asp serve` on a free port or the port of `url` and waits until it accepts requests. */
export async function startServe(home: Home, words: readonly string[] = [], url?: string): Promise<ServiceProcess> {
  const port = url === undefined ? '0' : new URL(url).port;
  const data = join(home.directory, 'serve-data');
  const running = home.start(['serve', '--port', port, '--data', data, ...words]);
  const [, address = ''] = await running.until('stdout', /^(http:\S+)$/m);
  return {
    running,
    url: address,
    data,
    stop() {
      running.kill('SIGINT');
      return running.ended;
    },
  };
}

/** Parses one JSON document. */
export function json<Value = Record<string, unknown>>(text: string): Value {
  return JSON.parse(text) as Value;
}

/** Parses one JSON document per line. */
export function jsonLines<Value = Record<string, unknown>>(text: string): Value[] {
  return text
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Value);
}

/** Returns why a required tool is missing, or undefined. The reason is shown for tests that are skipped. */
export function missing(...programs: readonly string[]): string | undefined {
  const paths = (process.env['PATH'] ?? '').split(':');
  const absent = programs.filter((program) => !paths.some((path) => existsSync(join(path, program))));
  return absent.length === 0 ? undefined : `${absent.join(', ')} not installed`;
}
