import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { Machine, Surroundings } from '../../src/cli/context/context.js';
import { run } from '../../src/cli/run.js';
import { type Clock, systemClock } from '../../src/kit/clock.js';
import { systemRandom } from '../../src/kit/random.js';
import { type CapturedStreams, captureStreams } from '../support/captured-streams.js';

export interface RunOptions {
  readonly environment?: Readonly<Record<string, string>>;
  readonly stdin?: string | Uint8Array | 'terminal';
  readonly isTerminal?: boolean;
  readonly columns?: number;
  readonly machine?: Partial<Machine>;
  readonly signal?: AbortSignal;
  readonly clock?: Clock;
  readonly streams?: CapturedStreams;
}

export interface Ran {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

/** Creates a separate home directory, so that no test reads what another one wrote. */
export function freshHome(): string {
  return mkdtempSync(join(tmpdir(), 'asp-home-'));
}

/** Writes a file that only this user can read, unless `mode` says otherwise, and returns its path. */
export function writeFileIn(folder: string, name: string, text: string, mode = 0o600): string {
  const path = join(folder, name);
  writeFileSync(path, text);
  chmodSync(path, mode);
  return path;
}

export function surroundingsOf(streams: CapturedStreams, options: RunOptions = {}): Surroundings {
  const home = options.machine?.homeDirectory ?? freshHome();
  return {
    streams,
    environment: { XDG_RUNTIME_DIR: join(home, 'run'), ...options.environment },
    machine: {
      platform: 'linux',
      arch: 'x64',
      nodeVersion: process.version,
      hostName: 'build-7.example.org',
      homeDirectory: home,
      temporaryDirectory: home,
      workingDirectory: home,
      userId: process.getuid?.(),
      processId: process.pid,
      isProcessAlive: () => true,
      processStart: () => undefined,
      commandLine: ['asp'],
      ...options.machine,
    },
    clock: options.clock ?? systemClock,
    random: systemRandom,
    version: '1.2.3',
    finishOnSignal: () => {},
    tidyUpOnSignal: () => {},
    interrupt: () => {},
    untilSignal: (work) => work(new AbortController().signal),
    lendTerminal: (work) => work(),
    signal: options.signal ?? new AbortController().signal,
  };
}

/** Splits a line into words as a shell would. Quotes keep a word together. */
export function splitWords(line: string): string[] {
  return [...line.matchAll(/'([^']*)'|"([^"]*)"|(\S+)/g)].map(
    ([, single, double, bare]) => single ?? double ?? bare ?? '',
  );
}

/** Runs the program inside this process. */
export async function runWords(words: string | readonly string[], options: RunOptions = {}): Promise<Ran> {
  const { stdin = 'terminal', isTerminal = false, columns } = options;
  const streams = options.streams ?? captureStreams({ stdin, isTerminal, ...(columns !== undefined && { columns }) });
  const argv = typeof words === 'string' ? splitWords(words) : words;
  const code = await run(argv, surroundingsOf(streams, options));
  return { code, out: streams.out(), err: streams.err() };
}

/** Parses the words and returns the options of their command without running it. */
export async function optionsOf(words: string | readonly string[], options: RunOptions = {}): Promise<unknown> {
  const streams = captureStreams(options.isTerminal === undefined ? {} : { isTerminal: options.isTerminal });
  const argv = typeof words === 'string' ? splitWords(words) : words;
  let seen: unknown;
  const code = await run(argv, surroundingsOf(streams, options), {
    insteadOfRun: (parsed) => {
      seen = parsed;
    },
  });
  if (code !== 0) throw new Error(streams.err());
  return seen;
}
